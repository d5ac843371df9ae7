"""The description of a context policy of another tool."""

from collections.abc import Callable
from dataclasses import dataclass

from autoprune.apps.policies import ContextPolicy


@dataclass(frozen=True)
class Published:
    """A context policy of another tool, with its source.

    `new` creates the policy with the defaults of its original. `source` names the repository or package, the file, the
    version and its date. `decides`, `defaults`, `left_out` and `idle` (when it does nothing) are sentences. `checked`
    names the version of the original whose recorded prompts a test compares with this policy's, request by request; if
    they cannot be compared, it is "", and `unchecked` says why. A policy that `is_arrival` shortens results before the
    model has seen them. `outdated` says since when the tool no longer does this by itself, "" if its newest release
    does.
    """

    name: str
    new: Callable[..., ContextPolicy]
    tool: str
    source: str
    decides: str
    defaults: str
    left_out: str
    idle: str
    checked: str = ""
    unchecked: str = ""
    is_arrival: bool = False
    outdated: str = ""

"""`observation_masking`, which keeps the newest results and looks at nothing else, and what well-known systems do so.

The settings named for systems are for comparison, each as near as this rule comes to what the system does by default.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from autoprune.conversation.edits import Replace
from autoprune.errors import check_number
from autoprune.planning.protections import NOTHING, Protections
from autoprune.planning.view import View


@dataclass(frozen=True)
class ObservationMasking:
    """Clear all but the newest results, at every request.

    With `polling` the window moves only when so many more results have come. Nothing is cleared that saves fewer than
    `minimum` tokens together, nor, with `after_pause`, before a pause of so many seconds. With `every_request=False`
    the results are cleared above the safe zone alone.
    """

    keep: int = 10
    polling: int = 1
    minimum: int = 0
    after_pause: float = 0.0
    protect: Protections = NOTHING
    every_request: bool = True
    name: str = "observation_masking"
    does: str = ""

    def step(self, view: View) -> Iterator[Replace]:
        """Return nothing, or an edit for each candidate that is older than the newest ones."""
        for name, least in (("keep", 0), ("polling", 1), ("minimum", 0)):
            check_number(name, getattr(self, name), least)
        check_number("after_pause", self.after_pause, 0, "seconds", kind=int | float)
        if view.pause < self.after_pause:
            return
        count = len(view.results) - self.keep
        old = set(map(id, view.results[: max(0, count - count % self.polling)]))
        chosen = [candidate for candidate in view.candidates() if id(candidate.result) in old]
        if sum(candidate.saves for candidate in chosen) >= self.minimum:
            yield from (candidate.cleared("older than the newest results") for candidate in chosen)


def observation_masking(keep: int = 10, polling: int = 1) -> ObservationMasking:
    """Clear all but the newest results, at every request; with `polling`, when so many more have come."""
    return ObservationMasking(keep, polling, does=_first_line(observation_masking))


def like_opencode() -> ObservationMasking:
    """As opencode: clear all but the newest 40,000 tokens where that wins 20,000; its skills stay."""
    # Source: opencode's session/compaction.ts, PRUNE_PROTECT and PRUNE_MINIMUM. It counts the tokens of results alone,
    # and spares the user's last two turns besides.
    newest = Protections(tools=("skill",), last_tokens=40_000)
    known = ObservationMasking(0, minimum=20_000, protect=newest)
    return replace(known, name="like_opencode", does=_first_line(like_opencode))


def like_claude_code() -> ObservationMasking:
    """As Claude Code: after a pause of an hour, when nothing is cached, clear all but the newest 5 results."""
    # Source: what others found of its time-based "microcompact", such as github.com/tetsuo-ai/agenc-core, pull request
    # 463. It spares the results of tools that are not its own.
    known = ObservationMasking(5, after_pause=3_600)
    return replace(known, name="like_claude_code", does=_first_line(like_claude_code))


def like_langchain() -> ObservationMasking:
    """As LangChain's ClearToolUsesEdit: above the safe zone, clear all but the newest 3 results."""
    # Source: LangChain 1.x, `ClearToolUsesEdit(trigger=100_000, keep=3)`, whose trigger is the safe zone here.
    # Anthropic's "Context editing", clear_tool_uses_20250919, has the same defaults.
    known = ObservationMasking(3, every_request=False)
    return replace(known, name="like_langchain", does=_first_line(like_langchain))


def like_swe_agent() -> ObservationMasking:
    """As SWE-agent's LastNObservations: clear all but the newest 5 results, at every request."""
    # Source: SWE-agent's agent/history_processors.py; its configurations have `n: 5`.
    return ObservationMasking(5, name="like_swe_agent", does=_first_line(like_swe_agent))


def _first_line(preset: Callable[..., object]) -> str:
    return (preset.__doc__ or "").partition("\n")[0]

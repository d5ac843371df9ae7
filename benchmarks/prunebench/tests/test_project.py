"""The project registers each policy with autoprune, so that `autoprune replay` finds them by name."""

from importlib.metadata import entry_points

from prunebench.passages import ClairvoyantPassages
from prunebench.policies import POLICIES
from prunebench.policies.compress_endpoint import CompressEndpoint


def test_each_policy_is_registered_and_no_other():
    """If this fails after a policy was added, add its line to pyproject.toml, and install the project again."""
    registered = {each.name: each.load() for each in entry_points(group="autoprune.context_policies")}
    policies = {name: each.new for name, each in POLICIES.items()}
    others = {"clairvoyant_passages": ClairvoyantPassages, "compress_endpoint": CompressEndpoint}
    assert registered == {**policies, **others}

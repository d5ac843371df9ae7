"""Install a package with entry points into a folder."""

from pathlib import Path

CODE = '''
from dataclasses import dataclass

from autoprune.apps.policies import Changes
from autoprune.strategies import BaseFoldingStrategy, BaseStrategy
from autoprune.summarizers import Brief


@dataclass(frozen=True)
class ZebraFirst(BaseStrategy):
    """Clear the largest results first."""

    at_least: int = 0
    name = "zebra_first"

    def step(self, view):
        excess = view.tokens - view.limit
        for candidate in sorted(view.candidates(), key=lambda each: each.saves, reverse=True):
            if excess > 0 and candidate.saves >= self.at_least:
                excess -= candidate.saves
                yield candidate.cleared("largest first")


class FoldNothing(BaseFoldingStrategy):
    name = "fold_nothing"

    def step(self, view):
        return []


class Needs(BaseStrategy):
    def __init__(self, keep): ...


@dataclass(frozen=True)
class Terse:
    words: int = 3
    calls_model = False

    def __call__(self, brief: Brief) -> str:
        return " ".join(["Much was done."] * self.words)


class Shortens:
    def __init__(self, keep=5):
        self.keep = keep

    def changes(self, request):
        return Changes({result: "(old)" for result in request.results[: -self.keep]})


NUMBER = 5
'''
ENTRY_POINTS = """
[autoprune.strategies]
zebra_first = plugin_of_tests:ZebraFirst
fold_nothing = plugin_of_tests:FoldNothing
ready_made = plugin_of_tests:ZebraFirst
low_water = plugin_of_tests:ZebraFirst
needs = plugin_of_tests:Needs
number = plugin_of_tests:NUMBER
[autoprune.context_policies]
shortens = plugin_of_tests:Shortens
number = plugin_of_tests:NUMBER
[autoprune.summarizers]
terse = plugin_of_tests:Terse
number = plugin_of_tests:NUMBER
"""


def install(folder: Path) -> None:
    """Put a package with strategies and a summarizer into a folder; it is installed once the folder is in sys.path."""
    (folder / "plugin_of_tests.py").write_text(CODE)
    info = folder / "plugin_of_tests-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: plugin-of-tests\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)

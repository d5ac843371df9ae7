"""A strategy that clears results.

To try it on a recorded session:

    autoprune replay SESSION --strategy examples/largest_first.py:LargestFirst
"""

from collections.abc import Iterator
from dataclasses import dataclass

from autoprune.strategies import BaseStrategy, Replace, View


@dataclass(frozen=True)
class LargestFirst(BaseStrategy):
    """Clear the largest tool results first, those that save at least `at_least` tokens.

    Its fields are its configuration. `BaseStrategy` has further attributes that autoprune obeys for it, such as
    `protect`, `clamp` and `every_request`; add any of them as a field.
    """

    at_least: int = 0
    name = "largest_first"

    def step(self, view: View) -> Iterator[Replace]:
        """Return the results to clear before a request that is over the limit; cleared results stay cleared.

        `view.candidates()` are the results that may be cleared, oldest first, each with the tokens that clearing it
        `saves` and its `part` (`part.tool`, `part.text`, `part.tokens`). Use only the view and the fields: the same
        conversation must lead to the same edits.
        """
        excess = view.tokens - view.limit
        # Sorting is stable: of equal sizes, the older result goes first.
        for candidate in sorted(view.candidates(), key=lambda each: each.saves, reverse=True):
            if excess <= 0 or candidate.saves < self.at_least:
                return
            excess -= candidate.saves
            yield candidate.cleared("largest first")

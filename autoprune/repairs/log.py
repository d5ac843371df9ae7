"""The problems of a round of repairs by the message that they are in, and what was done about them."""

from collections.abc import Sequence

from autoprune.repairs.repaired import Repair
from autoprune.rules.problem import Problem


class Log:
    """What was found, and a list of what was done, which the steps of a repair add to."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Start with what was found."""
        self.repairs: list[Repair] = []
        self._found: dict[int, list[Problem]] = {}
        for problem in problems:
            self._found.setdefault(int(problem.path[0]), []).append(problem)

    def at(self, at: int, *rules: str) -> list[Problem]:
        """The problems in a message; only those of the rules, if any are named."""
        return [problem for problem in self._found.get(at, ()) if not rules or problem.rule in rules]

    def nearest(self, at: int) -> Problem:
        """Return the first problem of the last message up to `at` that has one; of the first message, if none has."""
        return self._found[max((one for one in self._found if one <= at), default=min(self._found))][0]

    def add(self, problem: Problem, what: str) -> None:
        """Note what was done about a problem."""
        self.repairs.append(Repair(problem, what))

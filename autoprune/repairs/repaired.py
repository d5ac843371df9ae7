"""What a repair did, and the words that stand where something was lost. Values, nothing more."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from autoprune.rules.problem import Problem

NO_RESULT = "No result: the tool call was interrupted or its result was removed."
EMPTY = "(empty)"
BEGINNING = "(The beginning of this conversation was removed.)"
NO_WORDS = "(Nothing was said here.)"


@dataclass(frozen=True)
class OpenCalls:
    """What becomes of calls without results: "answer" them with a reason, "keep" or "remove" them."""

    become: str = "answer"
    reason: str = NO_RESULT


@dataclass(frozen=True)
class Repair:
    """A problem that was found, and what was done about it, in words."""

    problem: Problem
    what: str

    def __str__(self) -> str:
        """One line: the problem, and what was done."""
        return f"{self.problem} -> {self.what}"


class Repaired(NamedTuple):
    """A conversation that breaks no rule that a repair mends, and what was done; without repairs, the caller's own."""

    conversation: Any
    repairs: tuple[Repair, ...]


class Round(NamedTuple):
    """The messages after one round of repairs, and what it did."""

    messages: list[Any]
    repairs: list[Repair]

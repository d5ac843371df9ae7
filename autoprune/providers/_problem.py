"""The values of a check and of a repair: a provider, what it refuses, what was done; and the words for what is lost."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, TypeAlias

Path = tuple[int | str, ...]
# What a provider's errors call the list of messages, where it is not "messages".
ROOTS = {"gemini": "contents", "openai_responses": "input"}
ALTERNATE = "Conversation roles must alternate user/assistant/user/assistant/..."


@dataclass(frozen=True)
class Problem:
    """A rule of a provider that a conversation breaks.

    `rule` is a short name that stays; `path` is the JSON path of the place, as in (3, "content", 0); `message` is the
    text of the provider's own error with the place filled in. docs/validation.md says where each text comes from.
    """

    provider: str
    rule: str
    path: Path
    message: str

    def __str__(self) -> str:
        """Return one line: the provider, the place where the text does not name it, and the text."""
        root, message = ROOTS.get(self.provider, "messages"), " ".join(self.message.split())
        at = self.path[0] if self.path else None
        if at is None or f"{root}.{at}" in message or f"{root}[{at}]" in message:
            return f"{self.provider}: {message}"
        return f"{self.provider}: {'.'.join((root, *map(str, self.path)))}: {message}"


def neighbors(provider: str, roles: Sequence[str | None], model: str = "assistant") -> Iterator[Problem]:
    """Yield where two neighbors share a role, or the model speaks first, which local chat templates refuse."""
    for at, role in enumerate(roles):
        if role in ("user", model) and (roles[at - 1] == role if at else role == model):
            yield Problem(provider, "alternation", (at,), ALTERNATE)


# What a repair did

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
        """Return one line: the problem, and what was done."""
        return f"{self.problem} -> {self.what}"


class Repaired(NamedTuple):
    """A conversation that breaks no rule that a repair mends, and what was done; without repairs, the caller's own."""

    conversation: Any
    repairs: tuple[Repair, ...]


class Round(NamedTuple):
    """The messages after one round of repairs, and what it did."""

    messages: list[Any]
    repairs: list[Repair]


Rules: TypeAlias = Callable[[Sequence[object]], Iterable[Problem]]
Mend: TypeAlias = Callable[[Sequence[object], Sequence[Problem], OpenCalls, bool], Round]


@dataclass(frozen=True)
class Provider:
    """An API: its name, what it refuses of a conversation, and how that is mended.

    `problems` yields the rules that a list of messages breaks. `mended` makes one round of repairs: it is called with
    the messages, their problems, what becomes of calls without results, and whether roles must take turns; without it
    nothing is mended. `alternation` yields where local chat templates, or the API itself where it `alternates`, want
    roles in turns. The first message is the user's where it `begins_with_user`.
    """

    name: str
    problems: Rules
    mended: Mend | None = None
    _: KW_ONLY
    other_names: tuple[str, ...] = ()
    alternation: Rules | None = None
    alternates: bool = False
    begins_with_user: bool = False


class Log:
    """What was found, and a list of what was done, which the steps of a repair add to."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Start with what was found."""
        self.repairs: list[Repair] = []
        self._found: dict[int, list[Problem]] = {}
        for problem in problems:
            self._found.setdefault(int(problem.path[0]), []).append(problem)

    def at(self, at: int, *rules: str) -> list[Problem]:
        """Return the problems in a message; only those of the rules, if any are named."""
        return [problem for problem in self._found.get(at, ()) if not rules or problem.rule in rules]

    def nearest(self, at: int) -> Problem:
        """Return the first problem of the last message up to `at` that has one; of the first message, if none has."""
        return self._found[max((one for one in self._found if one <= at), default=min(self._found))][0]

    def add(self, problem: Problem, what: str) -> None:
        """Note what was done about a problem."""
        self.repairs.append(Repair(problem, what))

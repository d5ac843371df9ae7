"""What the model says: a script of turns, played to each conversation from its start, or a function of the prompt."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from strict_provider.exchange import Request

LARGE_SHARE = 0.12  # of the calls write a file of several thousand characters
LARGE_LINES = (60, 400)
PARALLEL_WEIGHTS = (60, 22, 12, 6)  # how often a turn has one, two, three and four calls
WORDS = (
    *("the", "parser", "reads", "one", "file", "then", "checks", "its", "callers", "before", "any", "test"),
    *("can", "pass", "again", "with", "new", "names"),
)


@dataclass(frozen=True)
class Call:
    """A tool call. An `id` is used as it is by OpenAI chat alone, where local servers use one again and again.

    The `namespace` of a tool is said by OpenAI's Responses alone.
    """

    name: str
    arguments: dict[str, Any]
    id: str | None = None
    namespace: str = ""


@dataclass(frozen=True)
class Turn:
    """What the model says to one request. Without calls it is final, and then it has a text."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    thinking: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError for a turn that says nothing."""
        if not (self.text or self.calls):
            raise ValueError("a turn has a text or calls")


Script: TypeAlias = Sequence[Turn] | Callable[[Request], Turn]  # a callable answers what it sees in the prompt
ASIDE = Turn("Very well.")  # to what an assistant asks beside its conversation: a title, whether there is quota left


@dataclass
class Play:
    """A script on the stage, and how often each named conversation was answered.

    What Anthropic's cache is given it `keeps` for "5m" or "1h", whatever was asked, as behind some gateways.
    """

    script: Script
    strict_alternation: bool = False
    keeps: str = ""
    answered: Counter[str] = field(default_factory=Counter)
    is_aside: Callable[[Request], bool] = lambda request: False

    def turn(self, request: Request, spoken: int) -> Turn:
        """The turn for a request: by the count of answers to its named conversation, else after `spoken` model turns.

        A conversation that is named plays on when old turns are folded. Past its end the script repeats its last turn.
        A request that is beside the script is answered with ASIDE.
        """
        if self.is_aside(request):
            return ASIDE
        if callable(self.script):
            return self.script(request)
        name = request.conversation
        number = spoken if name is None else self.answered[name]
        if name is not None:
            self.answered[name] += 1
        return self.script[min(number, len(self.script) - 1)]


def agent_script(turns: int, seed: int, tasks: int = 1, *, reuse_ids: bool = False) -> tuple[Turn, ...]:
    """A coding agent's `turns` turns with calls, in `tasks` tool loops of about equal length, each ended by a text.

    With `reuse_ids` each turn numbers its calls from call_0 anew (OpenAI chat alone).
    """
    source = random.Random(f"script {seed}")
    ends = {turns * (task + 1) // tasks for task in range(tasks)}
    script: list[Turn] = []
    for number in range(1, turns + 1):
        script.append(_working(source, reuse_ids))
        if number in ends:
            script.append(Turn(text=_sentence(source, 40), thinking=_sentence(source, 30)))
    return tuple(script)


def _working(source: random.Random, reuse_ids: bool) -> Turn:
    count = source.choices((1, 2, 3, 4), PARALLEL_WEIGHTS)[0]
    calls = tuple(_call(source, f"call_{index}" if reuse_ids else None) for index in range(count))
    text = _sentence(source, 12) if source.random() < 0.5 else ""
    thinking = _sentence(source, source.randint(10, 120)) if source.random() < 0.8 else ""
    return Turn(text, calls, thinking)


def _call(source: random.Random, id: str | None) -> Call:
    path = f"src/{source.choice(WORDS)}/{source.choice(WORDS)}.py"
    if source.random() < LARGE_SHARE:
        lines = (f"    {_sentence(source, 8)}" for _ in range(source.randint(*LARGE_LINES)))
        return Call("write_file", {"path": path, "content": "\n".join(lines)}, id)
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {"path": path, "start": source.randint(1, 900)}),
        ("grep", {"pattern": source.choice(WORDS), "path": "src"}),
        ("run_command", {"command": f"pytest {path}"}),
        ("screenshot", {"page": path}),
    ]
    return Call(*source.choice(kinds), id)


def _sentence(source: random.Random, words: int) -> str:
    return " ".join(source.choices(WORDS, k=words)).capitalize() + "."

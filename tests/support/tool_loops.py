"""The work of a scripted agent in a framework: forty files are read, 7 to 10 kB each. What its prompts then tell."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from autoprune.economics import LISTS

FILES = 40
SAFE_ZONE = 20_480
SYLLABLES = ("pa", "re", "to", "lin", "ex", "cur", "mod", "is", "ver", "tal", "un", "key")
VERBS = ("load", "parse", "check", "write", "merge", "find")


def path(number: int) -> str:
    """Return the path of file `number`."""
    return f"src/part_{number:02}.py"


def result(number: int) -> str:
    """Return what stands in file `number`: code with names that no other file has."""
    source = random.Random(f"file {number}")
    size = source.randint(7_000, 10_000)
    text = f'"""Part {number}."""\n'
    while len(text) < size:
        text += _function(source, number)
    return text[:size]


def _function(source: random.Random, number: int) -> str:
    name, argument = ("".join(source.choices(SYLLABLES, k=3)) for _ in range(2))
    lines = (f"    {argument} = {source.choice(VERBS)}_{name}({argument}, {line})" for line in range(4))
    return "\n".join((f"\ndef {source.choice(VERBS)}_{name}_{number}({argument}):", *lines, f"    return {argument}\n"))


@dataclass(frozen=True)
class Run:
    """The prompts of one run, as lists of messages that can be compared."""

    prompts: Sequence[Sequence[object]]
    count: Callable[[list[object]], int]

    @property
    def breaks(self) -> int:
        """How often a prompt did not begin with the one before it."""
        return sum(list(after[: len(before)]) != list(before) for before, after in pairwise(self.prompts))

    @property
    def tokens(self) -> list[int]:
        """The tokens of each prompt."""
        return [self.count(list(prompt)) for prompt in self.prompts]

    @property
    def bill(self) -> float:
        """What the prompts cost at Anthropic's prices, in input tokens: what a prompt shares with the last is read."""
        held = [0, *(self.count(_common(*pair)) for pair in pairwise(self.prompts))]
        return sum(LISTS["anthropic"].request(*each) for each in zip(self.tokens, held, strict=True))


def _common(before: Sequence[object], after: Sequence[object]) -> list[object]:
    """Return the messages with which both prompts begin."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
    return [message for message, _ in pairs]

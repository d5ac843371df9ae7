"""The tool loop that every framework is run with: its script, its tool, and what became of the prompts."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any

from strict_provider.counting import PIECE_TOKENS, tokens
from strict_provider.scripts import Call, Turn
from strict_provider.server import Provider

from autoprune.economics import LISTS

CALLS = 40
SAFE_ZONE = 20_480  # tokens
TASK = "Read the modules one by one, and say where the queue loses a job."
DONE = "The queue loses a job in module_07.py."
ANSWERED = 20  # answers of a model that fails, before it does: by then its prompts are pruned
LEAST, MOST = 7_000, 10_000  # characters of a result
VERBS = ("load", "store", "parse", "merge", "retry", "close", "drain", "split", "check", "fetch", "build", "apply")
NOUNS = ("queue", "job", "worker", "lease", "batch", "token", "shard", "record", "cursor", "lock", "frame", "index")

PATHS = tuple(f"src/module_{number:02}.py" for number in range(1, CALLS + 1))
SCRIPT = (*(Turn(calls=(Call("read_file", {"path": path}),)) for path in PATHS), Turn(text=DONE))


class FailureError(Exception):
    """What a model raises that fails."""


def read_file(path: str) -> str:
    """Return the text of a file."""
    source = random.Random(path)
    length = source.randint(LEAST, MOST)
    text = "\n".join(_function(source) for _ in range(length // 100))
    return text[:length]


def _function(source: random.Random) -> str:
    name = f"{source.choice(VERBS)}_{source.choice(NOUNS)}_{source.randrange(1_000)}"
    given, made = source.sample(NOUNS, 2)
    body = f"{made} = self.{source.choice(VERBS)}_{made}({given}, {source.randrange(100)})"
    return f"def {name}(self, {given}):\n    {body}\n    return {made}.{source.choice(VERBS)}()\n"


@dataclass(frozen=True)
class Figures:
    """The prompts of a loop: how often the prefix broke, their tokens, the bill in Anthropic's input tokens."""

    requests: int
    breaks: int
    largest: int
    last: int
    bill: float


def count(prompt: Sequence[Any]) -> int:
    """Return the tokens of messages on the wire."""
    return sum(PIECE_TOKENS + tokens(message) for message in prompt)


def figures(prompts: Sequence[list[Any]], count: Callable[[list[Any]], int] = count) -> Figures:
    """Return the figures of a loop, given the messages of each request in the order in which they came."""
    kept = [0, *(_kept(before, after) for before, after in pairwise(prompts))]
    breaks = sum(same < len(before) for before, same in zip(prompts, kept[1:], strict=False))
    totals = list(map(count, prompts))
    held = [count(prompt[:same]) for prompt, same in zip(prompts, kept, strict=True)]
    bill = sum(map(LISTS["anthropic"].request, totals, held))
    return Figures(len(prompts), breaks, max(totals), totals[-1], bill)


def figures_of(provider: Provider) -> Figures:
    """Return the figures of the loop that has asked a provider."""
    return figures([_messages(request.body) for request in provider.requests])


def _messages(body: dict[str, Any]) -> list[Any]:
    return next(body[field] for field in ("messages", "input", "contents") if field in body)


def _kept(before: list[Any], after: list[Any]) -> int:
    """Return how many messages at the head of a prompt were there before."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))

"""How long the provider's cache of a conversation lives: as its answers say, as its requests ask, or as is usual.

How it works. A request asks for a life by its marks, and the answer says how many tokens were written for which life:

    request 1   cache_control: {"type": "ephemeral", "ttl": "1h"}       asks for an hour: that is taken
    answer 1    cache_creation: {"ephemeral_5m_input_tokens": 9000}     a gateway has made five minutes of it
    request 2   cache_control: {"type": "ephemeral", "ttl": "1h"}       five minutes

So what the answer said to a request that asked for the same counts most, then what the request asks for, then what is
usual for the model. A client may ask for different lives in turns: Claude Code asks for an hour in its conversation and
for none at a side question in between. Where a request asks for another life than the one before, the longer of the two
is taken, since what is cached was written under the one before.

Nothing is known of Gemini: its implicit cache has no stated life, and a request with an explicit one is passed on as it
came, because the history in it is kept by the provider.

Sources: the API references of Anthropic ("Prompt caching", 1-hour duration), Amazon (CachePointBlock, CacheDetail) and
OpenAI ("Prompt caching": `prompt_cache_options`, `prompt_cache_retention`, `cache_write_tokens_details`).
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

from autoprune.economics import CACHE_LIFE
from autoprune.errors import SettingsError
from autoprune.pruners.requests import Place
from autoprune.settings import duration

Life: TypeAlias = float | None  # seconds; None where nothing is said
WRITTEN = re.compile(r"(?:ephemeral|ttl)_(\d{1,6}[smh])(?:_input)?_tokens")  # as Anthropic and OpenAI name them
DEEPEST = 3  # how far inside a usage the tokens are: input_tokens_details.cache_write_tokens_details.ttl_30m_tokens
ANSWERS, REQUESTS, SETTINGS, USUAL = "as its answers say", "as its requests ask", "as the settings say", ""


@dataclass
class Cache:
    """The cache of one conversation: how many seconds it lives, and who says so.

    `usual` is its life where nobody says anything, and `given` what the settings say, which counts before all.
    """

    usual: float = CACHE_LIFE
    given: Life = None
    life: float = CACHE_LIFE
    source: str = USUAL
    _asked: Life = None
    _before: tuple[float, str] = (0.0, USUAL)
    _said: dict[Life, float] = field(default_factory=dict)  # by answers to requests that asked for a life
    _lives: dict[int, float] = field(default_factory=dict)  # at each request, by its number of messages

    @property
    def first(self) -> float:
        """How long it lived at the first request."""
        return next(iter(self._lives.values()), self._of(None)[0])

    @property
    def changes(self) -> dict[int, float]:
        """The later lives, by the number of messages from which on they hold."""
        return {at: life for (_, before), (at, life) in pairwise(self._lives.items()) if life != before}

    @property
    def known_from(self) -> str:
        """Who says how long it lives, in words, where that is not what is usual; "" where it is."""
        return self.source if self.life != self.usual else USUAL

    def ask(self, asked: Life, messages: int) -> None:
        """Note what a request with so many messages asks for. One that is sent again keeps its life."""
        now = self._of(asked)
        longest, self.source = now if asked == self._asked else max(now, self._before)
        self._asked, self._before = asked, now
        self._lives = {at: life for at, life in self._lives.items() if at <= messages}
        self.life = self._lives.setdefault(messages, longest)

    def answered(self, usage: object) -> None:
        """Note what the answer to the last request says was written, and for how long."""
        tokens = written(usage)
        if not tokens:
            return
        # The system prompt may be written for another life than the messages, for which the request asks.
        wanted = self.usual if self._asked is None else self._asked
        self._said[self._asked] = wanted if wanted in tokens else max(tokens, key=lambda life: tokens[life])

    def _of(self, asked: Life) -> tuple[float, str]:
        if self.given is not None:
            return self.given, SETTINGS
        if asked in self._said:
            return self._said[asked], ANSWERS
        return (self.usual, USUAL) if asked is None else (asked, REQUESTS)


def asked(found: Place, body: Mapping[str, Any], *, is_charged: bool) -> Life:
    """Return the life that a request asks for its messages; None where it asks for none.

    Marks may ask for several: that of most messages counts, since results are in messages, and the system prompt and
    the tools only where no message is marked. OpenAI's models that charge for writing (`is_charged`) go by
    `prompt_cache_options` alone.
    """
    inside = found.inside(body)
    options = inside.get("prompt_cache_options")
    named = seconds(options.get("ttl")) if isinstance(options, Mapping) else None
    if named is None and not is_charged:
        named = seconds(inside.get("prompt_cache_retention"))
    return _marked(found, body) if named is None else named


def _marked(found: Place, body: Mapping[str, Any]) -> Life:
    """Return the life that the marks in a request ask for."""
    messages, inside = found.messages(body), found.inside(body)
    messages = messages if isinstance(messages, list) else []
    covered: Counter[Life] = Counter()
    behind = 0
    for at, message in enumerate(messages, 1):
        for life in _lives(message):
            covered[life] += at - behind
            behind = at
    if isinstance(whole := inside.get("cache_control"), Mapping):  # for the last block, wherever that is
        covered[seconds(whole.get("ttl"))] += len(messages) - behind
    if not covered:
        return next((life for each in found.beside(body) for life in _lives({"content": each})), None)
    return max(covered, key=lambda life: covered[life])


def _lives(message: object) -> list[Life]:
    """Return the lives that the marks in a message ask for: those of its blocks, and of blocks inside results, too."""
    if not isinstance(message, dict):
        return []
    found: list[Life] = []
    for block in _blocks(message):
        if isinstance(block, dict):
            for inner in _blocks(block):
                found += _life(inner)
            found += _life(block)
    return found + _life(message)


def _blocks(value: dict[str, Any]) -> list[object]:
    content = value.get("content")
    return content if isinstance(content, list) else []


def _life(block: object) -> list[Life]:
    """Return the life that the mark of a block asks for, in a list; an empty one where it has no mark."""
    if not isinstance(block, dict):
        return []
    mark = block.get("cache_control") or block.get("cachePoint")  # Anthropic's, also through gateways; Bedrock's
    return [seconds(mark.get("ttl"))] if isinstance(mark, dict) else []


def written(usage: object) -> Mapping[float, int]:
    """Return the tokens that an answer says were written to the cache, by how long they live."""
    found: Counter[float] = Counter()
    for name, value in _figures(usage, DEEPEST):
        match = WRITTEN.fullmatch(name)
        life = seconds(match[1]) if match else None
        if life is not None and isinstance(value, int) and value > 0:
            found[life] += value
    return found


def _figures(usage: object, deep: int) -> Iterator[tuple[str, object]]:
    """Yield the figures of a usage with their names, as deep as they may be; Bedrock's as if they were Anthropic's."""
    match usage:
        case {"ttl": str(ttl), "inputTokens": value}:
            yield f"ttl_{ttl}_tokens", value
        case Mapping() if deep >= 0:
            for name, value in usage.items():
                yield str(name), value
                yield from _figures(value, deep - 1)
        case list() if deep >= 0:
            for each in usage:
                yield from _figures(each, deep - 1)


def seconds(ttl: object) -> Life:
    """Return a life such as "1h" in seconds; None for what is none."""
    try:
        return duration(ttl) if isinstance(ttl, str) else None
    except SettingsError:
        return None

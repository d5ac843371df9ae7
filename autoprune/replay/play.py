"""Replay an episode: at each recorded request the strategy is asked as in a live loop, and its prompt is measured."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from autoprune.formats import new_parser
from autoprune.formats.words import texts
from autoprune.replay.episode import Episode
from autoprune.replay.evidence import Need
from autoprune.replay.visible import Text
from autoprune.tokens import Count

NEAR = 10  # requests in which a result that was fetched again is not fetched once more


@dataclass(frozen=True, slots=True)
class Prompt:
    """What was sent at a request: its tokens, and those at its beginning that the prompt before had too."""

    tokens: int
    held: int
    seconds: float


@dataclass(frozen=True)
class Run:
    """An episode under a strategy, request by request, without prices.

    `retained` says of each need whether it was in sight, `in_results` whether it was so without the words of
    placeholders and summaries. `rereads` are results that would have been fetched again, each with the request.
    """

    episode: Episode = field(repr=False)
    strategy: str
    prompts: tuple[Prompt, ...] = field(repr=False)
    retained: tuple[bool, ...] = field(repr=False)
    in_results: tuple[bool, ...] = field(repr=False)
    rereads: tuple[tuple[int, int], ...] = ()


def play(episode: Episode, pruner: Any, strategy: Any, *, count: Count, fed_back: bool = False) -> Run:
    """Return what a strategy would have sent at each request of an episode, and what it would have lost."""
    scale = Scale(episode, count)
    sight = Sight(episode)
    needs = _by_request(episode.evidence.needs)
    prompts: list[Prompt] = []
    retained: list[bool] = []
    in_results: list[bool] = []
    rereads: list[tuple[int, int]] = []
    before: list[Any] = []
    for request, (messages, seconds) in enumerate(sent(episode, pruner, strategy, fed_back=fed_back)):
        held = (episode.head if request else 0) + scale.shared(before, messages)
        prompts.append(Prompt(episode.head + sum(map(scale.tokens, messages)), held, seconds))
        if asked := needs.get(request):
            sight.look(messages)
            seen = [(sight.has_source(need), need) for need in asked]
            in_results += (has for has, _ in seen)
            retained += (has or sight.shows(need) for has, need in seen)
            missing = [need for (_, need), is_there in zip(seen, retained[-len(seen) :], strict=True) if not is_there]
            rereads += _fetched(request, missing, rereads)
        before = messages
    return Run(episode, getattr(strategy, "name", str(strategy)), tuple(prompts), tuple(retained), tuple(in_results), tuple(rereads))


def sent(episode: Episode, pruner: Any, strategy: Any, *, fed_back: bool = False) -> Iterator[tuple[list[Any], float]]:
    """Yield the messages of each request's prompt and the seconds that pruning took.

    Each time the full history is pruned; with `fed_back` what was sent before, with the messages that are new.
    """
    before: list[Any] = []
    at = 0
    for start in episode.requests:
        given = [*before, *episode.messages[at:start]] if fed_back else episode.messages[:start]
        began = perf_counter()
        before = pruner.prune(given, strategy).conversation
        at = start
        yield before, perf_counter() - began


def _by_request(needs: Sequence[Need]) -> dict[int, list[Need]]:
    found: dict[int, list[Need]] = {}
    for need in needs:
        found.setdefault(need.request, []).append(need)
    return found


def _fetched(request: int, missing: Sequence[Need], before: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the newest sources of what is missing that would be fetched again: not those fetched a moment ago."""
    lately = {result for when, result in before if when >= request - NEAR}
    for result in dict.fromkeys(need.sources[-1] for need in missing):
        if result not in lately:
            yield request, result


class Scale:
    """Weighs messages, each once."""

    def __init__(self, episode: Episode, count: Count) -> None:
        """Know the messages of an episode."""
        entries = zip(episode.messages, episode.transcript.entries, strict=True)
        self._tokens = {id(message): entry.tokens for message, entry in entries}
        self._kept: list[object] = []  # so that no identity is used twice
        self._parser = new_parser(count)

    def tokens(self, message: object) -> int:
        """Return the tokens of a message."""
        known = self._tokens.get(id(message))
        if known is None:
            known = self._tokens[id(message)] = self._parser.read(message, 0).tokens
            self._kept.append(message)
        return known

    def shared(self, before: Sequence[object], now: Sequence[object]) -> int:
        """Return the tokens of the longest common beginning of two prompts, in whole messages."""
        tokens = 0
        for old, new in zip(before, now, strict=False):
            if old is not new and old != new:
                break
            tokens += self.tokens(new)
        return tokens


class Sight:
    """Says what can be seen in a prompt of an episode."""

    def __init__(self, episode: Episode) -> None:
        """Know the messages and the results of an episode."""
        self._own = {id(message): at for at, message in enumerate(episode.messages)}
        self._results = episode.transcript.results
        self._whole: set[int] = set()  # messages of the episode that stand in the prompt as they were
        self._others: list[Text] = []
        self._texts: dict[int, tuple[object, Text]] = {}
        self._parser = new_parser(len)

    def look(self, messages: Sequence[object]) -> None:
        """Look at a prompt."""
        self._whole = {at for message in messages if (at := self._own.get(id(message))) is not None}
        self._others = [self._text(message) for message in messages if id(message) not in self._own]

    def has_source(self, need: Need) -> bool:
        """Return whether a result that shows what is needed stands there whole."""
        places = ((source, self._results[source].location.message) for source in need.sources)
        return any(at in self._whole or self._stands(source) for source, at in places)

    def _stands(self, source: int) -> bool:
        """Return whether a result stands whole in a message that was changed beside it."""
        text = self._results[source].text
        return len(text) > 0 and any(text in other.raw for other in self._others)

    def shows(self, need: Need) -> bool:
        """Return whether what is needed can be seen in what was changed or written anew."""
        return any(text.shows(need.atom) for text in self._others)

    def _text(self, message: object) -> Text:
        known = self._texts.get(id(message))
        if known is None:
            entry = self._parser.read(message, 0)
            said = [*texts(message, entry), *(result.text for result in entry.results)]
            known = self._texts[id(message)] = message, Text("\n".join(said))
        return known[1]

"""Replay an episode: at each recorded request, ask the strategy as in a live loop and measure the prompt it sends."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

from autoprune.apps.replay.atoms import FETCHED
from autoprune.apps.replay.episode import Episode
from autoprune.apps.replay.evidence import Need, Protected, ProtectedKind
from autoprune.apps.replay.laws import Laws
from autoprune.apps.replay.visible import Text
from autoprune.conversation.messages import fields_of, with_item
from autoprune.facts.words import texts
from autoprune.formats import new_parser
from autoprune.planning.view import folds
from autoprune.tokens import Count

HOLDERS = ("content", "parts")  # of blocks


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

    def leading(self, before: object, now: object) -> int:
        """Return the tokens of the blocks at the head of a message that another one in its place began with, too.

        A provider caches blocks: of several results in one message those before the one that was cleared are held.
        """
        for name in HOLDERS:
            old, new = fields_of(before).get(name), fields_of(now).get(name)
            if isinstance(old, list) and isinstance(new, list) and with_item(before, name, new) == now:
                count = common_length(old, new)
                return self._parser.read(with_item(now, name, new[:count]), 0).tokens if count else 0
        return 0


def common_length(before: Sequence[object], now: Sequence[object]) -> int:
    """Return how many messages, or blocks, two lists have at their heads in common."""
    at = 0
    for old, new in zip(before, now, strict=False):
        if old is not new and old != new:
            break
        at += 1
    return at


class Sight:
    """Says what can be seen in a prompt of an episode. A text is looked for once in each message that was changed."""

    def __init__(self, episode: Episode) -> None:
        """Know the messages and the results of an episode."""
        self._own = {id(message): at for at, message in enumerate(episode.messages)}
        self._results = episode.transcript.results
        self._whole: set[int] = set()  # messages of the episode that stand in the prompt as they were
        self._others: dict[int, None] = {}  # numbers of the others that stand there
        self._numbers: dict[int, int] = {}  # of all others that ever stood in a prompt, by identity
        self._texts: list[tuple[object, Text]] = []
        self._found: dict[str, tuple[int, list[int]]] = {}  # how many others were looked at, and those that hold a text
        self._parser = new_parser(len)

    def look(self, messages: Sequence[object]) -> None:
        """Look at a prompt."""
        self._whole = {at for message in messages if (at := self._own.get(id(message))) is not None}
        self._others = {self._number(message): None for message in messages if id(message) not in self._own}

    def has_source(self, need: Need) -> bool:
        """Return whether a result that shows what is needed stands there whole."""
        places = ((source, self._results[source].location.message) for source in need.sources)
        return any(at in self._whole or self._holds(self._results[source].text) for source, at in places)

    def has(self, item: Protected) -> bool:
        """Return whether protected content stands there whole: in its message as it was, or elsewhere."""
        return item.message in self._whole or any(all(map(self._holds, form)) for form in item.forms)

    def shows(self, need: Need) -> bool:
        """Return whether what is needed can be seen in what was changed or written anew."""
        return any(self._texts[number][1].shows(need.atom) for number in self._others)

    def _holds(self, text: str) -> bool:
        """Return whether a text stands whole in a message that was changed beside it, or written anew."""
        if not text or not self._others:
            return False
        seen, found = self._found.get(text, (0, []))
        found += (number for number in range(seen, len(self._texts)) if text in self._texts[number][1].raw)
        self._found[text] = len(self._texts), found
        return any(number in self._others for number in found)

    def _number(self, message: object) -> int:
        """Return the number of a message that is none of the episode's, which is read the first time."""
        known = self._numbers.get(id(message))
        if known is None:
            entry = self._parser.read(message, 0)
            said = [*texts(message, entry), *(result.text for result in entry.results)]
            known = self._numbers[id(message)] = len(self._texts)
            self._texts.append((message, Text("\n".join(said))))
        return known


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
    `protected` counts the protected content that was whole in view, and that was not, over all requests.
    """

    episode: Episode = field(repr=False)
    prompts: tuple[Prompt, ...] = field(repr=False)
    retained: tuple[bool, ...] = field(repr=False)
    in_results: tuple[bool, ...] = field(repr=False)
    rereads: tuple[tuple[int, int], ...] = ()
    violations: tuple[str, ...] = ()
    protected: Mapping[ProtectedKind, tuple[int, int]] = field(default_factory=dict)


def play(
    episode: Episode, new_pruner: Callable[[], Any], strategy: Any, *, count: Count, fed_back: bool = False
) -> Run:
    """Return what a strategy would have sent at each request of an episode, and what it would have lost.

    `new_pruner` makes a pruner with the episode's safe zone. Each time the full history is pruned; with `fed_back` what
    was sent before, with the messages that are new.
    """
    scale = Scale(episode, count)
    laws = Laws(episode, scale.tokens)
    seen = _Seen(episode)
    prompts: list[Prompt] = []
    before: list[Any] = []
    read = 0
    arguments = pruner_arguments(episode, strategy)
    prune, once_more = (partial(new_pruner().prune, strategy=strategy, **arguments) for _ in range(2))
    for request, start in enumerate(episode.requests):
        given = [*before, *episode.messages[read:start]] if fed_back else episode.messages[:start]
        began = perf_counter()
        messages = prune(given).conversation
        seconds = perf_counter() - began
        sizes = list(map(scale.tokens, messages))
        same = common_length(before, messages)
        held = sum(sizes[:same]) + (episode.head if request else 0)
        if is_new := same < len(before):
            held += sum(map(scale.leading, before[same : same + 1], messages[same : same + 1]))
        prompts.append(Prompt(episode.head + sum(sizes), held, seconds))
        laws.check(request, given, messages, partial(once_more, messages), is_new=is_new)
        seen.look(request, messages)
        before, read = messages, start
    laws.close()
    return seen.run(prompts, laws.violations)


def pruner_arguments(episode: Episode, strategy: Any) -> dict[str, Any]:
    """Return what a live loop would tell a pruner of the conversation."""
    pauses = {"pauses": episode.pauses} if episode.pauses and not folds(strategy) else {}
    return {"calibration": episode.ratio, **pauses}


class _Seen:
    """What could be seen in the prompts of an episode, of all that was needed."""

    def __init__(self, episode: Episode) -> None:
        self._episode = episode
        self._sight = Sight(episode)
        self._needs = _by_request(episode.evidence.needs)
        self._retained: list[bool] = []
        self._in_results: list[bool] = []
        self._rereads: list[tuple[int, int]] = []
        self._protected: Counter[tuple[ProtectedKind, bool]] = Counter()

    def look(self, request: int, messages: Sequence[Any]) -> None:
        """Look at the prompt of a request for what its action rested on, and for protected content."""
        self._sight.look(messages)
        missing: list[Need] = []
        for need in self._needs.get(request, ()):
            is_whole = self._sight.has_source(need)
            is_there = is_whole or self._sight.shows(need)
            self._in_results.append(is_whole)
            self._retained.append(is_there)
            missing += () if is_there or need.atom.kind not in FETCHED else (need,)
        self._rereads += _fetches(request, missing, self._rereads)
        self._protected.update((each.kind, self._sight.has(each)) for each in self._episode.protected[request])

    def run(self, prompts: Sequence[Prompt], violations: Sequence[str]) -> Run:
        """Return the run in which these prompts were sent."""
        counts = {kind: (self._protected[kind, True], self._protected[kind, False]) for kind in ProtectedKind}
        return Run(
            *(self._episode, tuple(prompts), tuple(self._retained), tuple(self._in_results), tuple(self._rereads)),
            *(tuple(violations), counts),
        )


def _by_request(needs: Sequence[Need]) -> dict[int, list[Need]]:
    found: dict[int, list[Need]] = {}
    for need in needs:
        found.setdefault(need.request, []).append(need)
    return found


def _fetches(request: int, missing: Sequence[Need], before: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the newest sources of what is missing that would be fetched again: not those fetched a moment ago."""
    lately = {result for when, result in before if when >= request - NEAR}
    for result in dict.fromkeys(need.sources[-1] for need in missing):
        if result not in lately:
            yield request, result

"""Replay an episode: at each recorded request, run the strategy as a live loop would, and measure its prompt."""

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
from autoprune.facts.utterances import texts
from autoprune.formats import new_parser
from autoprune.planning.view import folds
from autoprune.tokens import Count

HOLDERS = ("content", "parts")  # fields that hold a message's blocks: Anthropic's and OpenAI's, Gemini's


class Scale:
    """Counts the tokens of messages, each message once."""

    def __init__(self, episode: Episode, count: Count) -> None:
        """Start with the counts of an episode's messages."""
        entries = zip(episode.messages, episode.transcript.entries, strict=True)
        self._tokens = {id(message): entry.tokens for message, entry in entries}
        self._kept: list[object] = []  # keeps messages alive, so that no id() is reused
        self._parser = new_parser(count)

    def tokens(self, message: object) -> int:
        """The tokens of a message, counted once."""
        known = self._tokens.get(id(message))
        if known is None:
            known = self._tokens[id(message)] = self._parser.read(message, 0).tokens
            self._kept.append(message)
        return known

    def leading_tokens(self, before: object, now: object) -> int:
        """The tokens of the leading blocks that a message shares with the previous message at its place.

        Providers cache blocks: if one of several results in a message is cleared, the results before it stay cached.
        """
        for name in HOLDERS:
            old, new = fields_of(before).get(name), fields_of(now).get(name)
            if isinstance(old, list) and isinstance(new, list) and with_item(before, name, new) == now:
                count = common_length(old, new)
                return self._parser.read(with_item(now, name, new[:count]), 0).tokens if count else 0
        return 0


def common_length(before: Sequence[object], now: Sequence[object]) -> int:
    """The number of leading messages, or blocks, that two lists share."""
    at = 0
    for old, new in zip(before, now, strict=False):
        if old is not new and old != new:
            break
        at += 1
    return at


class Sight:
    """Tells what a prompt of an episode shows. Each text is searched once in each changed message."""

    def __init__(self, episode: Episode) -> None:
        """Index the messages of an episode. `look` sets the prompt."""
        self._own = {id(message): at for at, message in enumerate(episode.messages)}
        self._results = episode.transcript.results
        self._whole: set[int] = set()  # recorded messages that are unchanged in the prompt
        self._others: dict[int, None] = {}  # numbers of the other messages in the prompt
        self._numbers: dict[int, int] = {}  # of all other messages of any prompt so far, by id()
        self._texts: list[tuple[object, Text]] = []
        self._found: dict[
            str, tuple[int, list[int]]
        ] = {}  # how many other messages were searched for a text, and which contain it
        self._parser = new_parser(len)

    def look(self, messages: Sequence[object]) -> None:
        """Set the prompt that later questions are about."""
        self._whole = {at for message in messages if (at := self._own.get(id(message))) is not None}
        self._others = {self._number(message): None for message in messages if id(message) not in self._own}

    def has_source(self, need: Need) -> bool:
        """Whether a result that shows the need is whole in the prompt."""
        places = ((source, self._results[source].location.message) for source in need.sources)
        return any(at in self._whole or self._holds(self._results[source].text) for source, at in places)

    def has(self, item: Protected) -> bool:
        """Whether protected content is whole in the prompt: in its unchanged message, or elsewhere."""
        return item.message in self._whole or any(all(map(self._holds, form)) for form in item.forms)

    def shows(self, need: Need) -> bool:
        """Whether a changed or new message shows the need."""
        return any(self._texts[number][1].shows(need.atom) for number in self._others)

    def _holds(self, text: str) -> bool:
        """Whether a changed or new message contains the whole text."""
        if not text or not self._others:
            return False
        seen, found = self._found.get(text, (0, []))
        found += (number for number in range(seen, len(self._texts)) if text in self._texts[number][1].raw)
        self._found[text] = len(self._texts), found
        return any(number in self._others for number in found)

    def _number(self, message: object) -> int:
        """The number of a message that is not the episode's. Reads the message if it is new."""
        known = self._numbers.get(id(message))
        if known is None:
            entry = self._parser.read(message, 0)
            said = [*texts(message, entry), *(result.text for result in entry.results)]
            known = self._numbers[id(message)] = len(self._texts)
            self._texts.append((message, Text("\n".join(said))))
        return known


NEAR = 10  # requests after a re-read during which the result is not fetched again


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request's prompt: its tokens, and how many of them are a prefix shared with the previous prompt."""

    tokens: int
    held: int
    seconds: float


@dataclass(frozen=True)
class Run:
    """An episode under a strategy, request by request, without prices.

    `retained` tells for each need whether it was visible, `in_results` whether it was visible without the text of
    placeholders and summaries. `rereads` are pairs of a request and a result that would have been fetched again.
    `protected` counts protected content that was visible whole, and that was not, over all requests.
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
    """Replay an episode: the prompts that a strategy would have sent, and the evidence that it would have lost.

    `new_pruner` makes a pruner with the episode's safe zone. At each request, it prunes the full history, or with
    `fed_back` its own previous output and the new messages.
    """
    scale = Scale(episode, count)
    laws = Laws(episode, scale.tokens)
    seen = _Seen(episode)
    prompts: list[Prompt] = []
    before: list[Any] = []
    read = 0
    arguments = pruner_arguments(episode, strategy)
    # Two pruners: promise 5 is checked by one that remembers nothing of the run.
    prune, once_more = (partial(new_pruner().prune, strategy=strategy, **arguments) for _ in range(2))
    for request, start in enumerate(episode.requests):
        given = [*before, *episode.messages[read:start]] if fed_back else episode.messages[:start]
        began = perf_counter()
        messages = prune(given).conversation
        seconds = perf_counter() - began
        sizes = list(map(scale.tokens, messages))
        same = common_length(before, messages)
        held = sum(sizes[:same]) + (episode.head if request else 0)
        # If the prefix ends within a message, the blocks before its first change are still cached.
        if is_new := same < len(before):
            held += sum(map(scale.leading_tokens, before[same : same + 1], messages[same : same + 1]))
        prompts.append(Prompt(episode.head + sum(sizes), held, seconds))
        laws.check(request, given, messages, partial(once_more, messages), is_new=is_new)
        seen.look(request, messages)
        before, read = messages, start
    laws.finish()
    return seen.run(prompts, laws.violations)


def pruner_arguments(episode: Episode, strategy: Any) -> dict[str, Any]:
    """The arguments that a live loop would pass to `prune`: the calibration, and known pauses."""
    pauses = {"pauses": episode.pauses} if episode.pauses and not folds(strategy) else {}
    return {"calibration": episode.ratio, **pauses}


class _Seen:
    """Records which of an episode's needs its prompts showed."""

    def __init__(self, episode: Episode) -> None:
        self._episode = episode
        self._sight = Sight(episode)
        self._needs = _group_by_request(episode.evidence.needs)
        self._retained: list[bool] = []
        self._in_results: list[bool] = []
        self._rereads: list[tuple[int, int]] = []
        self._protected: Counter[tuple[ProtectedKind, bool]] = Counter()

    def look(self, request: int, messages: Sequence[Any]) -> None:
        """Search the prompt of a request for what its action needed, and for protected content."""
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
        """Create the run with these prompts."""
        counts = {kind: (self._protected[kind, True], self._protected[kind, False]) for kind in ProtectedKind}
        return Run(
            *(self._episode, tuple(prompts), tuple(self._retained), tuple(self._in_results), tuple(self._rereads)),
            *(tuple(violations), counts),
        )


def _group_by_request(needs: Sequence[Need]) -> dict[int, list[Need]]:
    found: dict[int, list[Need]] = {}
    for need in needs:
        found.setdefault(need.request, []).append(need)
    return found


def _fetches(request: int, missing: Sequence[Need], before: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the newest sources of missing needs, except those fetched in the last 10 requests."""
    lately = {result for when, result in before if when >= request - NEAR}
    for result in dict.fromkeys(need.sources[-1] for need in missing):
        if result not in lately:
            yield request, result

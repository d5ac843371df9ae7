"""Replay an episode: at each recorded request the strategy is asked as in a live loop, and its prompt is measured."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

from autoprune.apps.replay.atoms import FETCHED
from autoprune.apps.replay.episode import Episode
from autoprune.apps.replay.evidence import Need
from autoprune.apps.replay.laws import Laws
from autoprune.apps.replay.protected import ProtectedKind
from autoprune.apps.replay.scale import Scale, shared
from autoprune.apps.replay.sight import Sight
from autoprune.planning.view import folds
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
    laws = Laws(episode, scale)
    seen = _Seen(episode)
    prompts: list[Prompt] = []
    before: list[Any] = []
    read = 0
    told = told_of(episode, strategy)
    prune, once_more = (partial(new_pruner().prune, strategy=strategy, **told) for _ in range(2))
    for request, start in enumerate(episode.requests):
        given = [*before, *episode.messages[read:start]] if fed_back else episode.messages[:start]
        began = perf_counter()
        messages = prune(given).conversation
        seconds = perf_counter() - began
        sizes = list(map(scale.tokens, messages))
        same = shared(before, messages)
        held = sum(sizes[:same]) + (episode.head if request else 0)
        if is_new := same < len(before):
            held += sum(map(scale.leading, before[same : same + 1], messages[same : same + 1]))
        prompts.append(Prompt(episode.head + sum(sizes), held, seconds))
        laws.check(request, given, messages, partial(once_more, messages), is_new=is_new)
        seen.look(request, messages)
        before, read = messages, start
    laws.close()
    return seen.run(prompts, laws.violations)


def told_of(episode: Episode, strategy: Any) -> dict[str, Any]:
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
        self._rereads += _fetched(request, missing, self._rereads)
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


def _fetched(request: int, missing: Sequence[Need], before: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the newest sources of what is missing that would be fetched again: not those fetched a moment ago."""
    lately = {result for when, result in before if when >= request - NEAR}
    for result in dict.fromkeys(need.sources[-1] for need in missing):
        if result not in lately:
            yield request, result

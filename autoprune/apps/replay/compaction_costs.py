"""The cost of recorded compactions, and whether pruning would have prevented them.

Every stretch of a conversation but its last ended in a compaction. By the record, it cost

    the summary     a request that reads the whole prompt from the cache and writes the summary: an estimate, since
                    logs do not hold it
    a cold prompt   the tokens of the next request that were not read from the cache, beyond the price of reading them

What was read again afterwards is counted in paths, not in money. To tell whether pruning would have prevented a
compaction, the stretch before it is replayed with `compact_at` at its longest prompt: the agent would not have
compacted if every pruned prompt is shorter. A compaction that the user asked for is counted apart.

Without a compaction the prompts after it are longer. So the replay goes on with the recorded answers of the next
stretch, and what these requests cost then is compared with what they and the summary cost by the record. A result that
the agent read again only because of the compaction counts in both.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from autoprune.apps.replay.choices import Policy
from autoprune.apps.replay.episode import LEAST_REQUESTS, Episode, join, longest, pause_between
from autoprune.apps.replay.episode_figures import OWN, cost_from, prompt_costs
from autoprune.apps.replay.play import Run, play
from autoprune.apps.sessions import Recording, dump
from autoprune.conversation.transcript import Entry
from autoprune.economics import Prices
from autoprune.errors import count_noun
from autoprune.facts.actions import shell_files
from autoprune.facts.calls import command, paths
from autoprune.tokens import exact
from autoprune.wire import new_parser
from autoprune.wire.parsing import parse

POINTS = 60  # of a chart, at most
AFTER = 15  # requests after a compaction whose paths are looked at
# The log does not say who began most compactions. One far below the window is taken for the user's.
SMALL, SMALL_SHARE = 100_000, 0.4  # tokens, and of the window: half of where agents compact
CHEAPER = " If you prefer to compact, set AUTOPRUNE_COMPACT_AT=10m."


@dataclass(frozen=True)
class Later:
    """The `requests` after a compaction that would not have happened.

    `recorded` is the cost of the summary and of these requests in dollars, and `replayed` what the requests would have
    cost without the compaction, with re-reads. `before` and `before_replayed` are those costs of the requests before
    it, unless these come after another one that would not have happened. All are 0 if a price is not known.
    """

    requests: int
    recorded: float = 0.0
    replayed: float = 0.0
    before: float = 0.0
    before_replayed: float = 0.0

    @property
    def costs(self) -> tuple[float, float]:
        """What the requests before and after it would have cost without the compaction, and what they cost."""
        return self.before_replayed + self.replayed, self.before + self.recorded


@dataclass(frozen=True)
class Compaction:
    """A recorded compaction. `prompt` is the longest of the `requests` before it, in the provider's tokens.

    `tokens` is its cost in input tokens, and `dollars` in dollars, None if the price of the model is not known. `paths`
    are those that the agent touched in the 15 requests after it, of which `known_paths` had been in its prompt before.
    `is_prevented` is None if that was not replayed: if there were fewer than 20 requests, or the user asked for it.
    `later` are the requests after a prevented one, and what became of them; `is_postponed` tells whether one of their
    prompts reaches its size all the same. `unpruned` and `pruned` are the prompts before it, thinned out. `time` is
    that of the last answer before it, and `episode` the name of the conversation's longest stretch if that is one of
    the two beside it, else "".
    """

    agent: str
    requests: int
    prompt: int
    tokens: float
    dollars: float | None
    paths: int
    known_paths: int
    by_user: bool = False
    is_prevented: bool | None = None
    later: Later | None = None
    is_postponed: bool = False
    unpruned: tuple[int, ...] = field(default=(), repr=False)
    pruned: tuple[int, ...] = field(default=(), repr=False)
    time: float | None = None
    episode: str = ""

    @property
    def identity(self) -> Hashable:
        """Equal in all records of the same compaction, such as those of a session and its continuation."""
        return (self.agent, self.time, self.prompt) if self.time else id(self)

    @property
    def can_judge(self) -> bool:
        """Whether the stretch before it says whether pruning would have prevented it."""
        return self.requests >= LEAST_REQUESTS and not self.by_user

    def is_prevented_by(self, run: Run) -> bool:
        """Return whether no prompt before it in a replay reaches the size of the recorded one."""
        return max(each.tokens for each in run.prompts[: self.requests]) < self.prompt


def compactions(
    stretches: Sequence[Recording], read: Callable[[Recording], Episode], strategy: str | None = None
) -> Iterator[Compaction]:
    """Find the compactions of a conversation. With a `strategy`, replay the stretches around them."""
    later: Later | None = None
    for each in with_stretches(stretches, read):
        found, counted = each.compaction, later
        later = None
        if strategy and found.can_judge:
            run = replay_stretch(each.joined, strategy, found.prompt, each.before.prices)
            is_prevented = found.is_prevented_by(run)
            later = each.later(run) if is_prevented else None
            if later and counted:  # the requests before this one are those after the one before
                later = replace(later, before=0.0, before_replayed=0.0)
            yield replace(
                found,
                is_prevented=is_prevented,
                later=later,
                is_postponed=is_prevented
                and any(each.tokens >= found.prompt for each in run.prompts[found.requests :]),
                pruned=_curve([prompt.tokens for prompt in run.prompts[: found.requests]]),
            )
        else:
            yield found


@dataclass(frozen=True)
class Around:
    """A compaction, the stretch `before` it, and the one `after` it if that has a request.

    `pause` are the seconds between the two, and `summary` is the cost of the summary in dollars, 0 if not known.
    """

    compaction: Compaction
    before: Episode
    after: Episode | None
    pause: float
    summary: float

    @cached_property
    def joined(self) -> Episode:
        """Both stretches, as if the compaction between them had not happened."""
        return join(self.before, self.after, self.pause) if self.after else self.before

    def later(self, run: Run) -> Later | None:
        """Compare the requests around the compaction with those in a run of the joined stretches."""
        if self.after is None:
            return None
        first, price = self.compaction.requests, (self.summary and run.episode.prices.input_price) or 0.0
        if not price:
            return Later(len(self.after.unpruned))
        prompts = [
            prompt
            for each in (self.before, self.after)
            for prompt in zip(each.unpruned, [each.billings[0].read, *map(min, pairwise(each.unpruned))], strict=True)
        ]
        recorded = [price * cost for cost in prompt_costs(run.episode, prompts, OWN)]
        replayed, whole = price * cost_from(run, first), price * cost_from(run, 0)
        return Later(
            len(self.after.unpruned),
            recorded=self.summary + sum(recorded[first:]),
            replayed=replayed,
            before=sum(recorded[:first]),
            before_replayed=whole - replayed,
        )


def with_stretches(stretches: Sequence[Recording], read: Callable[[Recording], Episode]) -> Iterator[Around]:
    """Yield each compaction of a conversation with the stretches around it."""
    # Several without a request in between are one.
    parts = [*(each for each in stretches[:-1] if each.requests), *stretches[-1:]]
    episodes = [read(each) if each.requests else None for each in parts]
    for (before, after), (known, following) in zip(pairwise(parts), pairwise(episodes), strict=True):
        assert known is not None
        pause = pause_between(before.requests[-1], after.requests[0]) if after.requests else 0.0
        found, summary = _compaction(known, before, after)
        is_beside = longest(stretches) in (before, after)
        yield Around(replace(found, episode=known.name if is_beside else ""), known, following, pause, summary)


def _curve(prompts: Sequence[int]) -> tuple[int, ...]:
    """Thin out prompts for a chart, to the largest of each few in a row."""
    step = -(-len(prompts) // POINTS)
    return tuple(max(prompts[at : at + step]) for at in range(0, len(prompts), step))


def replay_stretch(known: Episode, strategy: str, compact_at: int | None, prices: Prices | None = None) -> Run:
    """Replay a stretch with a strategy that knows the size at which the agent compacts, and decides by `prices`."""
    limited = replace(known, compact_at=compact_at)
    chosen, new_pruner = Policy(strategy).for_episode(limited, prices or known.prices)
    return play(limited, new_pruner, chosen, count=exact())


def _compaction(known: Episode, before: Recording, after: Recording) -> tuple[Compaction, float]:
    """Return the compaction between two stretches, and the cost of its summary in dollars, 0 if not known."""
    at, prompt = known.billings[-1].prices, max(known.unpruned)
    summary = _summary_cost(known, before, after, at)
    tokens = summary + _cold_cost(known, after, at)
    seen = {path for entry in known.transcript.entries for path in _paths(entry)}
    touched = {path for entry in _entries_after(after) for path in _paths(entry)}
    is_small = prompt < min(SMALL, SMALL_SHARE * known.window * known.ratio)
    found = Compaction(
        agent=before.agent or "",
        requests=len(before.requests),
        prompt=prompt,
        tokens=tokens,
        dollars=None if at.input_price is None else tokens * at.input_price,
        paths=len(touched),
        known_paths=len(touched & seen),
        unpruned=_curve(known.unpruned),
        by_user=after.trigger == "manual" or (not after.trigger and is_small),
        time=before.requests[-1].time,
    )
    return found, summary * (at.input_price or 0.0)


def _summary_cost(known: Episode, before: Recording, after: Recording, at: Prices) -> float:
    """Estimate the cost of the request that wrote the summary: the largest new message after the compaction."""
    old = set(map(dump, before.messages))
    end = after.requests[0].message if after.requests else len(after.messages)
    new = (text for text in map(dump, after.messages[:end]) if text not in old)
    summary = max(map(exact(), new), default=0) * known.ratio
    last = known.unpruned[-1]
    tier = at.tier(last)
    return tier.prompt * at.read * last + tier.answer * at.output * summary


def _cold_cost(known: Episode, after: Recording, at: Prices) -> float:
    """Compute what the first prompt after a compaction cost, beyond the price of reading it from the cache."""
    if not after.requests:
        return 0.0
    first = after.requests[0]
    if first.usage and first.usage.prompt:
        prompt, cached, written = first.usage.prompt, first.usage.cached, first.usage.written
    else:
        sent = sum(exact()(dump(each)) for each in after.messages[: first.message])
        prompt = written = round(known.ratio * (known.head + sent))
        cached = 0
    fresh = max(0, prompt - cached - written)
    return at.tier(prompt).prompt * (at.write * written + fresh - at.read * (written + fresh))


def _entries_after(after: Recording) -> Sequence[Entry]:
    """Parse the messages from the first answer after a compaction to the end of the fifteenth."""
    if not after.requests:
        return ()
    end = after.requests[AFTER].message if len(after.requests) > AFTER else len(after.messages)
    return parse(list(after.messages), new_parser(exact()), 0).entries[after.requests[0].message : end]


def _paths(entry: Entry) -> Iterator[str]:
    for call in entry.calls:
        yield from paths(call)
        yield from (path for _, path in shell_files(command(call)))


@dataclass(frozen=True)
class CompactionSum:
    """The compactions of some sessions, also by agent.

    `by_user` counts those that the user asked for; all other figures are without them. `judged` are those whose stretch
    was replayed. `dollars` is the cost of those with a known price, and `unpriced` counts the others. `later` sums up
    the requests after prevented ones whose cost is known, and `postponed` counts those that would only come later.
    """

    count: int
    judged: int
    prevented: int
    by_user: int
    tokens: float
    dollars: float
    unpriced: int
    paths: int
    known_paths: int
    later: Later = Later(0)
    postponed: int = 0
    agents: Mapping[str, "CompactionSum"] = field(default_factory=dict)

    def in_words(self, run: str, whose: str = "Your") -> str:
        """Say what the compactions cost, and how many of them the command `run` would have prevented."""
        cost = f"${self.dollars:,.2f}" if self.unpriced < self.count else f"{self.tokens:,.0f} input tokens"
        start = f"{whose} {count_noun(self.count, 'compaction')} cost about {cost}"
        if not self.judged:
            return f"{start}."
        if self.count == 1:
            return f"{start}; with {run} it would {'not ' * self.prevented}have happened."
        if self.prevented == self.count:
            return f"{start}; with {run} none of them would have happened."
        of = "of them" if self.judged == self.count else f"of the {self.judged:,} with 20 requests or more before them"
        return f"{start}; with {run} {self.prevented:,} {of} would not have happened."

    @property
    def basis(self) -> str:
        """The parts of the cost, and the compactions that are not counted, as text."""
        own = f" Those that you asked for are not counted: {self.by_user:,}."
        cuts = (
            " To prevent one, a prompt is cut before it reaches that size; the dollars above include these cuts and "
            "the longer prompts after them, but bills given as shares do not."
        )
        return (
            "The cost of a compaction is that of the summary, an estimate, and of the cold prompt after it."
            f"{cuts * bool(self.later.requests)}{own * bool(self.by_user)}"
        )

    @property
    def touched(self) -> str:
        """The paths touched after them, as text; "" if there are none."""
        if not self.paths:
            return ""
        return (
            f"Paths that the agent touched in the {AFTER} requests after them: {self.paths:,}, of which "
            f"{self.known_paths:,} had been in its prompt before."
        )

    @property
    def afterwards(self) -> str:
        """The cost of the requests after prevented ones, with and without them, as text; "" if it is not known."""
        if not self.later.requests:
            return ""
        later, are_many = self.later, self.prevented != 1
        them, summaries = ("them", "summaries") if are_many else ("it", "the summary")
        without, recorded = later.costs
        due = f" At a later request {self.postponed:,} would have been due all the same." * bool(self.postponed)
        return (
            f"The {count_noun(later.requests, 'request')} after {them} cost ${later.recorded:,.2f}, {summaries} "
            f"included; without compaction, with longer prompts, they would have cost ${later.replayed:,.2f}. With the "
            f"requests before {them}, ${recorded:,.2f} would have been "
            f"${without:,.2f}.{due}{CHEAPER * (without > recorded)}"
        )


def sum_compactions(found: Iterable[Compaction]) -> CompactionSum:
    """Sum up compactions. One that several files record counts once."""
    known = list({each.identity: each for each in found}.values())
    groups: dict[str, list[Compaction]] = {}
    for each in known:
        groups.setdefault(each.agent, []).append(each)
    return replace(_sum(known), agents={agent: _sum(groups[agent]) for agent in sorted(groups)})


def _sum(group: Sequence[Compaction]) -> CompactionSum:
    own = [each for each in group if not each.by_user]
    priced = [each.later for each in own if each.later and each.later.replayed]
    return CompactionSum(
        count=len(own),
        judged=sum(each.is_prevented is not None for each in own),
        prevented=sum(each.is_prevented is True for each in own),
        by_user=len(group) - len(own),
        tokens=sum(each.tokens for each in own),
        dollars=sum(each.dollars or 0.0 for each in own),
        unpriced=sum(each.dollars is None for each in own),
        paths=sum(each.paths for each in own),
        known_paths=sum(each.known_paths for each in own),
        later=Later(*map(sum, zip(*map(astuple, priced), strict=True))) if priced else Later(0),
        postponed=sum(each.is_postponed for each in own),
    )

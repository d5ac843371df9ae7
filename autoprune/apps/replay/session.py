"""Replay a session file: its shape, and the figures of its longest stretch under each strategy. Opens no file.

`overview` sums up the sessions of a run, such as the share of tool results and of cached tokens.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from statistics import median

from autoprune.apps.replay.atoms import AtomGroup
from autoprune.apps.replay.choices import BUILT_IN, NO_PRUNING, Policy
from autoprune.apps.replay.compaction_costs import Compaction, compactions
from autoprune.apps.replay.episode import Episode, as_recorded, episode, longest, recorded_cost, sources
from autoprune.apps.replay.episode_figures import OWN, Figures, figures
from autoprune.apps.replay.play import play
from autoprune.apps.replay.titles import UNTITLED, Title, title_of
from autoprune.apps.sessions import BROKEN, Reader, Recording, decode, find_reader, recordings
from autoprune.economics import Prices, life_text
from autoprune.errors import AutopruneError
from autoprune.facts.calls import paths
from autoprune.strategies.catalog import RUN_STRATEGY
from autoprune.strategies.files import value_in_file
from autoprune.tokens import exact

TOO_SHORT = "fewer than 20 requests between compactions"
FULL, FED_BACK = "full history", "fed back"


@dataclass(frozen=True)
class ReplayArgs:
    """The arguments of a replay, the same for every session of a run.

    `styles` are the ways in which a loop calls the pruner: with its full history each time, or with the previous
    output. `safe_zone` is for whole prompts; None means the safe zone that `autoprune run` uses for each session's
    model. `model` is used for sessions that name none, and `cache_life` overrides the life of every cache, in seconds.
    `readers` are values, or names such as path/to/file.py:NAME, that each process loads. With `by_each_price`, a
    strategy that decides by prices is replayed once for each of them and billed at those alone. Without it, all
    strategies decide by the first prices and are billed at all.
    """

    strategies: Sequence[str] = BUILT_IN
    prices: Sequence[Prices] = (OWN,)
    safe_zone: int | None = None
    model: str | None = None
    cache_life: float | None = None
    styles: Sequence[str] = (FULL,)
    readers: Sequence[Reader | str] = ()
    by_each_price: bool = False


@dataclass(frozen=True)
class EpisodeShape:
    """An episode in numbers. Tokens are by our count, those in `recorded_*` by the provider's count, 0 if not recorded.

    `longest_prompt` is the longest prompt by the provider's count, estimated if it is not recorded. `cache_life` is the
    most frequent cache life, in seconds. `life_from` and `model_from` tell how life and model are known: "recorded",
    "observed", "requested", "given" or "assumed". `dollars` are the recorded cost of the requests, None if not known.
    `all_requests` counts those of the whole conversation.
    """

    requests: int = 0
    messages: int = 0
    results: int = 0
    tokens: int = 0
    result_tokens: int = 0
    call_tokens: int = 0
    head: int = 0
    largest_result: int = 0
    reads: int = 0
    reads_again: int = 0
    long_pauses: int = 0
    longest_prompt: int = 0
    recorded_prompt: int = 0
    recorded_cached: int = 0
    cache_life: float = 0
    life_from: str = ""
    model_from: str = ""
    models: tuple[str, ...] = ()
    atoms: int = 0
    title: Title = UNTITLED
    dollars: float | None = None
    all_requests: int = 0


@dataclass(frozen=True)
class SessionFigures:
    """The figures of a session file's episodes and compactions, or the `error` that prevented them.

    `reward` is what Harbor's verifier gave the trial of this trajectory; None if it is not known.
    """

    path: str
    agent: str = ""
    shapes: Mapping[str, EpisodeShape] = field(default_factory=dict)
    figures: tuple[Figures, ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ""
    compactions: tuple[Compaction, ...] = ()
    reward: float | None = None


def replay_session(name: str, data: bytes, args: ReplayArgs) -> SessionFigures:
    """Replay a session file. If the file cannot be read or replayed, the figures hold an error message."""
    try:
        return _replay(name, data, args)
    except AutopruneError as error:
        return SessionFigures(name, error=str(error))


def _replay(name: str, data: bytes, args: ReplayArgs) -> SessionFigures:
    conversations = open_recordings(name, data, args)
    replayable = list(_longest_episodes(name, conversations, args))
    judging = RUN_STRATEGY if RUN_STRATEGY in args.strategies else None
    # What was paid says nothing about other prices or caches.
    is_as_billed = args.prices[0] == OWN and args.cache_life is None
    found = tuple(
        each if is_as_billed else replace(each, later=None)
        for number, stretches in _numbered(conversations)
        for each in compactions(stretches, partial(_read_stretch, path=name, args=args, number=number), judging)
    )
    agent = next((recording.agent for recording, _ in replayable if recording.agent), "")
    notes = tuple(dict.fromkeys(note for recording, _ in replayable for note in recording.notes))
    if not replayable:
        error = _why_empty(name, conversations)
        return SessionFigures(name, notes=(TOO_SHORT,), error=error, compactions=found)
    totals = [sum(len(each.requests) for each in stretches) for stretches in conversations if longest(stretches)]
    shapes = {
        each.name: replace(shape(each, recording, args), all_requests=total)
        for (recording, each), total in zip(replayable, totals, strict=True)
    }
    rows = tuple(row for _, each in replayable for row in replay_episode(each, args))
    return SessionFigures(name, agent, shapes, figures=rows, notes=notes, compactions=found)


def _numbered(conversations: Sequence[Sequence[Recording]]) -> Iterator[tuple[int, Sequence[Recording]]]:
    """Number the conversations of a file from 1; a single one has the number 0."""
    return enumerate(conversations, int(len(conversations) > 1))


def _read_stretch(stretch: Recording, path: str, args: ReplayArgs, number: int, title: Title = UNTITLED) -> Episode:
    zone, model, life = args.safe_zone, args.model, args.cache_life
    return episode(stretch, path, exact(), number=number, safe_zone=zone, model=model, life=life, title=title)


def _why_empty(name: str, conversations: Sequence[Sequence[Recording]]) -> str:
    """Say what a file holds if it holds no request; "" if it holds some."""
    stretches = [each for parts in conversations for each in parts]
    if any(each.requests for each in stretches):
        return ""
    what = next((f"a session file of {each.agent}" for each in stretches if each.agent), "a list of messages")
    notes = "; ".join(dict.fromkeys(note for each in stretches for note in each.notes))
    count = sum(len(each.messages) for each in stretches)
    return (
        f"{name} was read as {what}: {count} messages, none of them an answer of a model{f' ({notes})' * bool(notes)}"
    )


def episodes(path: str, data: bytes, args: ReplayArgs) -> Iterator[tuple[Recording, Episode]]:
    """Find the longest stretch without a compaction of each conversation in a file, if it has at least 20 requests.

    Raises SessionError if the bytes are not a session file, SettingsError if a named reader does not exist.
    """
    return _longest_episodes(path, open_recordings(path, data, args), args)


def _longest_episodes(
    path: str, conversations: Sequence[Sequence[Recording]], args: ReplayArgs
) -> Iterator[tuple[Recording, Episode]]:
    for number, stretches in _numbered(conversations):
        if recording := longest(stretches):
            yield recording, _read_stretch(recording, path, args, number, title_of(path, stretches))


def open_recordings(path: str, data: bytes, args: ReplayArgs) -> list[list[Recording]]:
    """Read the conversations in a file, each as its stretches between compactions. Raises as `episodes` does."""
    readers = [each if isinstance(each, Reader) else load_reader(each) for each in args.readers]
    return recordings(decode(data, path), path, skip_broken=True, readers=readers)


def load_reader(named: str) -> Reader:
    """Load a session reader: `path/to/file.py:NAME`, or the name of a shipped or installed one."""
    is_in_file = ":" in named or named.endswith(".py")
    return value_in_file(named, Reader, "Reader(name, detect, read)") if is_in_file else find_reader(named)


def replay_episode(known: Episode, args: ReplayArgs) -> Iterator[Figures]:
    """Replay an episode under each strategy, in each style."""
    for policy in map(Policy, args.strategies):
        styles = (FULL,) if policy.is_clairvoyant or policy.is_published else args.styles
        is_split = args.by_each_price and policy.uses_prices
        for style, billed in product(styles, [(each,) for each in args.prices] if is_split else [args.prices]):
            strategy, new_pruner = policy.for_episode(known, deciding_prices(known, billed))
            fed_back, only_rules = style == FED_BACK, policy.is_published
            run = play(known, new_pruner, strategy, count=exact(), fed_back=fed_back, only_rules=only_rules)
            yield figures(run, policy.text, billed, style=style)


def deciding_prices(known: Episode, prices: Sequence[Prices]) -> Prices:
    """Choose the prices that strategies decide by: the first prices, or the episode's most frequent ones."""
    return known.prices if prices[0] == OWN else prices[0]


def shape(known: Episode, recording: Recording, args: ReplayArgs) -> EpisodeShape:
    """Measure an episode."""
    transcript = known.transcript
    sizes = [result.tokens for result in transcript.results]
    count = exact()
    read = [each for call in transcript.calls for each in paths(call)]
    used = [each.usage for each in recording.requests if each.usage]
    model_from, life_from = sources(recording, model=args.model, life=args.cache_life, used=known.prices.life)
    billed = as_recorded(recording.requests, model=args.model, life=args.cache_life)
    return EpisodeShape(
        requests=len(known.requests),
        messages=len(known.messages),
        results=len(sizes),
        tokens=transcript.tokens,
        result_tokens=sum(sizes),
        call_tokens=sum(count(f"{call.name}{call.arguments}") for call in transcript.calls),
        head=known.head,
        largest_result=max(sizes, default=0),
        reads=len(read),
        reads_again=len(read) - len(set(read)),
        long_pauses=sum(known.is_cold(at) for at in range(1, len(known.requests))),
        longest_prompt=max(known.unpruned),
        recorded_prompt=sum(each.prompt for each in used),
        recorded_cached=sum(each.cached for each in used),
        cache_life=known.prices.life,
        life_from=life_from,
        model_from=model_from,
        models=tuple(dict.fromkeys(each.model for each in recording.requests if each.model)),
        atoms=known.evidence.needed(AtomGroup.CODE),
        title=known.title,
        dollars=recorded_cost(recording.requests, tuple(billed)),
    )


@dataclass(frozen=True)
class Trials:
    """Trials with the same outcome: how many, and the share of their bill that remains with `autoprune run`.

    `share` is None if its strategy was not replayed.
    """

    count: int
    share: float | None = None


def sum_trials(sessions: Sequence[SessionFigures]) -> Trials:
    """Sum up trials by their bills with re-reads at the first prices."""
    totals = defaultdict[str, float](float)
    for row in (row for each in sessions for row in each.figures if row.style == each.figures[0].style):
        totals[row.strategy] += next(iter(row.bills.values())).with_rereads
    whole = totals[NO_PRUNING]
    return Trials(len(sessions), totals[RUN_STRATEGY] / whole if whole and RUN_STRATEGY in totals else None)


@dataclass(frozen=True)
class Overview:
    """Totals over the episodes of some sessions; tokens are by our count.

    `lives` counts the episodes by the life of their caches, such as "1 h recorded"; `unnamed` counts the episodes
    whose log names no model, `damaged` the sessions in files with broken lines. `models` are those that logs name.
    `recorded` is the share of the prompts that providers read from their caches, in the `recording` episodes that
    record this share, and `simulated` the share in an unpruned replay of the same episodes. Both are None if no
    episode records the share. `passed` are the trials with a reward of 1 or more, `failed` those with less.
    """

    files: int
    sessions: int
    agents: Mapping[str, int]
    episodes: int
    requests: int
    tokens: int
    median_tokens: int
    largest_tokens: int
    results: int
    result_tokens: int
    largest_result: int
    call_tokens: int
    reads: int
    reads_again: int
    long_pauses: int
    unknown_heads: int
    lives: Mapping[str, int] = field(default_factory=dict)
    unnamed: int = 0
    models: tuple[str, ...] = ()
    damaged: int = 0
    recording: int = 0
    recorded: float | None = None
    simulated: float | None = None
    passed: Trials = Trials(0)
    failed: Trials = Trials(0)

    @property
    def result_share(self) -> float:
        """The share of tool results in all message tokens."""
        return self.result_tokens / self.tokens if self.tokens else 0.0


def overview(found: Iterable[SessionFigures]) -> Overview:
    """Sum up the sessions that were replayed."""
    files = list(found)
    sessions = [each for each in files if each.shapes]
    shapes = [shape for each in sessions for shape in each.shapes.values()]
    sizes = [shape.tokens for shape in shapes]
    recording, recorded, simulated = _cache_shares(sessions)
    return Overview(
        files=len(files),
        sessions=len(sessions),
        agents=dict(Counter(each.agent or "plain messages" for each in sessions).most_common()),
        episodes=len(shapes),
        requests=sum(shape.requests for shape in shapes),
        tokens=sum(sizes),
        median_tokens=round(median(sizes)) if sizes else 0,
        largest_tokens=max(sizes, default=0),
        results=sum(shape.results for shape in shapes),
        result_tokens=sum(shape.result_tokens for shape in shapes),
        largest_result=max((shape.largest_result for shape in shapes), default=0),
        call_tokens=sum(shape.call_tokens for shape in shapes),
        reads=sum(shape.reads for shape in shapes),
        reads_again=sum(shape.reads_again for shape in shapes),
        long_pauses=sum(shape.long_pauses for shape in shapes),
        unknown_heads=sum(shape.head > 0 and not shape.recorded_prompt for shape in shapes),
        lives=dict(Counter(f"{life_text(shape.cache_life)} {shape.life_from}" for shape in shapes).most_common()),
        unnamed=sum(shape.model_from == "assumed" for shape in shapes),
        models=tuple(dict.fromkeys(model for shape in shapes for model in shape.models)),
        damaged=sum(any(note.endswith(BROKEN) for note in each.notes) for each in sessions),
        recording=recording,
        recorded=recorded,
        simulated=simulated,
        passed=sum_trials([each for each in sessions if each.reward is not None and each.reward >= 1]),
        failed=sum_trials([each for each in sessions if each.reward is not None and each.reward < 1]),
    )


def _cache_shares(sessions: Iterable[SessionFigures]) -> tuple[int, float | None, float | None]:
    """Count the episodes that record cached tokens; return the count, the recorded and the simulated share."""
    said: list[EpisodeShape] = []
    prompts = held = 0
    for each in sessions:
        for name, row in {row.episode: row for row in each.figures if row.strategy == NO_PRUNING}.items():
            if each.shapes[name].recorded_cached:
                said.append(each.shapes[name])
                prompts += sum(row.prompts)
                held += sum(row.held)
    if not prompts:
        return 0, None, None
    whole = sum(shape.recorded_prompt for shape in said)
    return len(said), sum(shape.recorded_cached for shape in said) / whole, held / prompts

"""Replay a session file: its shape, and the figures of its longest stretch under each strategy. Opens no file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any

from autoprune.conversation.calls import paths
from autoprune.economics import Prices
from autoprune.errors import AutopruneError
from autoprune.replay.atoms import GROUPS, Group
from autoprune.replay.bill import OWN
from autoprune.replay.episode import Episode, episode, longest
from autoprune.replay.figures import Figures, figures
from autoprune.replay.play import play
from autoprune.replay.policies import BUILT_IN, Policy
from autoprune.replay.recorded import sources
from autoprune.sessions import Reader, Recording, decode, recordings
from autoprune.strategies.scaffold import value_in_file
from autoprune.tokens import exact

FULL, FED_BACK = "full history", "fed back"


@dataclass(frozen=True)
class ReplayArgs:
    """What is replayed and how: the same for every session of a run.

    `styles` are the ways in which a loop calls the pruner: with its full history each time, or with what was sent
    before. `safe_zone` is that of whole prompts; None is the one that `run` uses for each session's model. `model` is
    taken for sessions that name none, and `cache_life`, in seconds, for that of each cache whatever the log says of it.
    A reader is one, or the name of one, path/to/file.py:NAME, by which each process loads it.
    """

    strategies: Sequence[str] = BUILT_IN
    prices: Sequence[Prices] = (OWN,)
    safe_zone: int | None = None
    model: str | None = None
    cache_life: float | None = None
    styles: Sequence[str] = (FULL,)
    skip_broken: bool = True
    readers: Sequence[Reader | str] = ()


@dataclass(frozen=True)
class Shape:
    """What an episode is made of. Tokens are counted ones; `recorded_*` are the provider's, 0 where not recorded.

    `longest_prompt` is the longest prompt as the provider counts it, estimated if that is not recorded. `cache_life` is
    that of most requests, in seconds; `life_from` says that it is "recorded", "requested", "given" or "assumed", and
    `model_from` the same of the model.
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
    free_atoms: int = 0
    unsupported_atoms: int = 0


@dataclass(frozen=True)
class SessionFigures:
    """What a session file gave: the figures of its episodes, or the `error` that says why there are none."""

    path: str
    agent: str = ""
    digest: str = ""
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    figures: tuple[Figures, ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return all of it as JSON takes it."""
        return asdict(self)

    @classmethod
    def of_json(cls, known: Mapping[str, Any]) -> "SessionFigures":
        """Return what `as_json` wrote, in this version or one whose figures did not name their session."""
        shapes = {name: Shape(**{**each, "models": tuple(each["models"])}) for name, each in known["shapes"].items()}
        found = tuple(Figures.of_json({"session": known["path"], **each}) for each in known["figures"])
        return cls(**{**known, "shapes": shapes, "figures": found, "notes": tuple(known["notes"])})


def replay_session(name: str, data: bytes, args: ReplayArgs) -> SessionFigures:
    """Return the figures of a session file of that name. What cannot be read or replayed gives an error in words."""
    try:
        return _replayed(name, data, args)
    except AutopruneError as error:
        return SessionFigures(name, error=str(error))


def _replayed(name: str, data: bytes, args: ReplayArgs) -> SessionFigures:
    found = list(episodes(name, data, args))
    agent = next((recording.agent for recording, _ in found if recording.agent), "")
    notes = tuple(dict.fromkeys(note for recording, _ in found for note in recording.notes))
    if not found:
        return SessionFigures(name, notes=("no stretch of 20 requests or more without a compaction",))
    shapes = {each.name: shape(each, recording, args) for recording, each in found}
    rows = tuple(row for _, each in found for row in replay_episode(each, args))
    return SessionFigures(name, agent, sha256(data).hexdigest(), shapes, rows, notes)


def episodes(path: str, data: bytes, args: ReplayArgs) -> Iterator[tuple[Recording, Episode]]:
    """Yield the longest stretch of each conversation in a file's bytes, if it is long enough to say anything.

    Raises SessionError for what is no session file, SettingsError where a reader is not where its name says.
    """
    readers = tuple(map(_reader, args.readers))
    held = recordings(decode(data, path, keeps_bad=True), path, skip_broken=args.skip_broken, readers=readers)
    for number, stretches in enumerate(held, 1):
        if recording := longest(stretches):
            which = number if len(held) > 1 else 0
            told = {"safe_zone": args.safe_zone, "model": args.model, "life": args.cache_life}
            yield recording, episode(recording, path, exact(), number=which, **told)  # type: ignore[arg-type]


def _reader(given: Reader | str) -> Reader:
    return value_in_file(given, Reader, "Reader(name, detect, read)") if isinstance(given, str) else given


def replay_episode(known: Episode, args: ReplayArgs) -> Iterator[Figures]:
    """Yield the figures of an episode under each strategy, in each style."""
    for policy in map(Policy, args.strategies):
        for style in args.styles if not policy.is_clairvoyant else (FULL,):
            strategy, new_pruner = policy.for_episode(known, decided_by(known, args.prices))
            run = play(known, new_pruner, strategy, count=exact(), fed_back=style == FED_BACK)
            yield figures(run, policy.text, args.prices, style=style)


def decided_by(known: Episode, prices: Sequence[Prices]) -> Prices:
    """Return the prices that strategies are told: the first ones, or those of most of the episode's requests."""
    return known.prices if prices[0] == OWN else prices[0]


def shape(known: Episode, recording: Recording, args: ReplayArgs) -> Shape:
    """Return what an episode is made of."""
    transcript = known.transcript
    sizes = [result.tokens for result in transcript.results]
    count = exact()
    read = [each for call in transcript.calls for each in paths(call)]
    used = [each.usage for each in recording.requests if each.usage]
    model_from, life_from = sources(recording, model=args.model, life=args.cache_life)
    return Shape(
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
        longest_prompt=round(known.ratio * max(known.unpruned)),
        recorded_prompt=sum(each.prompt for each in used),
        recorded_cached=sum(each.cached for each in used),
        cache_life=known.prices.life,
        life_from=life_from,
        model_from=model_from,
        models=tuple(dict.fromkeys(each.model for each in recording.requests if each.model)),
        atoms=known.evidence.needed(Group.CODE),
        free_atoms=sum(known.evidence.free.get(kind, 0) for kind in GROUPS[Group.CODE]),
        unsupported_atoms=sum(known.evidence.unsupported.get(kind, 0) for kind in GROUPS[Group.CODE]),
    )

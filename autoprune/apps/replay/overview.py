"""What sessions are made of, all together: the share of tool results, and of the prompts what was cached."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

from autoprune.apps.replay.recorded import UNKNOWN_HEAD
from autoprune.apps.replay.session import SessionFigures, Shape
from autoprune.economics import HOUR


@dataclass(frozen=True)
class Overview:
    """Sums over the episodes of some sessions; tokens are counted ones.

    `lives` counts the episodes by the life of their caches, such as "1 h recorded", and `unnamed` those whose log names
    no model. `recorded` is the share of the prompts that the providers read from their caches, in the `recording`
    sessions that say so, and `simulated` the share in a replay of the same sessions without pruning; None where no
    session says it.
    """

    files: int
    sessions: int
    agents: Mapping[str, int]
    models: Mapping[str, int]
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
    atoms: int
    unknown_heads: int
    lives: Mapping[str, int] = field(default_factory=dict)
    unnamed: int = 0
    recording: int = 0
    recorded: float | None = None
    simulated: float | None = None

    @property
    def result_share(self) -> float:
        """The share of tool results in all tokens of messages."""
        return self.result_tokens / self.tokens if self.tokens else 0.0


def overview(found: Iterable[SessionFigures]) -> Overview:
    """Return what the sessions that were replayed are made of."""
    files = list(found)
    sessions = [each for each in files if each.shapes]
    shapes = [shape for each in sessions for shape in each.shapes.values()]
    sizes = [shape.tokens for shape in shapes]
    recording, recorded, simulated = _cached(sessions)
    return Overview(
        files=len(files),
        sessions=len(sessions),
        agents=dict(Counter(each.agent or "plain messages" for each in sessions).most_common()),
        models=dict(Counter(model for shape in shapes for model in shape.models).most_common()),
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
        atoms=sum(shape.atoms for shape in shapes),
        unknown_heads=sum(shape.head == UNKNOWN_HEAD and not shape.recorded_prompt for shape in shapes),
        lives=dict(Counter(f"{lasting(shape.cache_life)} {shape.life_from}" for shape in shapes).most_common()),
        unnamed=sum(shape.model_from == "assumed" for shape in shapes),
        recording=recording,
        recorded=recorded,
        simulated=simulated,
    )


def lasting(seconds: float) -> str:
    """Return a cache's life in words: 5 min, 1 h, 90 s."""
    hours, minutes = seconds / HOUR, seconds / 60
    return f"{hours:g} h" if hours >= 1 else f"{minutes:g} min" if minutes >= 1 else f"{seconds:g} s"


def _cached(sessions: Iterable[SessionFigures]) -> tuple[int, float | None, float | None]:
    """Return how many episodes record what was cached, its share in their prompts, and the simulated one."""
    said: list[Shape] = []
    prompts = held = 0
    for each in sessions:
        for name, row in {row.episode: row for row in each.figures if row.strategy == "none"}.items():
            if each.shapes[name].recorded_cached:
                said.append(each.shapes[name])
                prompts += sum(row.prompts)
                held += sum(row.held)
    if not prompts:
        return 0, None, None
    whole = sum(shape.recorded_prompt for shape in said)
    return len(said), sum(shape.recorded_cached for shape in said) / whole, held / prompts

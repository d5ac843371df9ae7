"""Follow each result of one session: when it was sent, cleared and needed again. Opens no file.

Sessions hold secrets. Without `texts`, a detail holds the names of tools, the paths in the arguments of calls and the
names of the programs that a command runs, but no text of a result and no other argument. With `texts`, it holds the
whole target, and the beginning and end of each result's text.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from autoprune.apps.replay.choices import NO_PRUNING, Policy
from autoprune.apps.replay.clairvoyant import place
from autoprune.apps.replay.episode import Episode
from autoprune.apps.replay.episode_figures import Figures, figures
from autoprune.apps.replay.play import play, pruner_arguments
from autoprune.apps.replay.session import FULL, ReplayArgs, deciding_prices, episodes
from autoprune.conversation.edits import sentence
from autoprune.conversation.transcript import Speaker, ToolCall
from autoprune.facts.calls import command, paths, target
from autoprune.facts.shell import program_names
from autoprune.planning.plan import Plan
from autoprune.tokens import exact

LONGEST_TARGET = 200  # characters
HEAD, TAIL = 6_000, 2_000  # characters of a result's text that are kept
MOST_PROGRAMS = 3  # of a command, enough to recognize it


@dataclass(frozen=True, slots=True)
class ResultDetail:
    """A tool result: the `request` of its call, and `sent`, the first request whose prompt held it.

    `needed` are the requests for which it was the newest source of a needed atom, each with the kinds of atoms.
    `left_out` counts the characters left out in the middle of `text`.
    """

    tool: str
    target: str
    tokens: int
    request: int
    sent: int
    failed: bool = False
    needed: tuple[tuple[int, str], ...] = ()
    text: str = ""
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class ClearedResult:
    """An edit by a strategy: the number of the result, the request, the reason, and the tokens saved."""

    result: int
    request: int
    reason: str
    saved: int


@dataclass(frozen=True)
class EpisodeOutcome:
    """An episode under a strategy: the tokens of each prompt, those `held` by the cache, and what happened to results.

    `missed` are pairs of a result and a request that needed it after it was cleared.
    """

    strategy: str
    prompts: tuple[int, ...] = field(repr=False)
    held: tuple[int, ...] = field(repr=False)
    cleared: tuple[ClearedResult, ...] = ()
    missed: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class SessionDetail:
    """An episode, result by result. `unpruned` holds the tokens of each recorded prompt.

    `parts` are its tokens by their source, `cold` the requests that found a cold cache.
    """

    episode: str
    unpruned: tuple[int, ...] = field(repr=False)
    parts: Mapping[str, int]
    results: tuple[ResultDetail, ...] = field(repr=False)
    outcomes: tuple[EpisodeOutcome, ...] = field(repr=False)
    cold: tuple[int, ...] = ()
    has_texts: bool = False


def most_expensive(found: Sequence[Figures], prices: str, count: int) -> list[str]:
    """Return the names of the episodes with the largest unpruned bills, the largest first."""
    unpruned = {each.episode: each.bills[prices].total for each in found if each.strategy == NO_PRUNING}
    return sorted(unpruned, key=lambda name: (-unpruned[name], name))[:count]


def session_details(
    path: str, data: bytes, args: ReplayArgs, *, texts: bool = False, found: Sequence[Figures] = ()
) -> Iterator[SessionDetail]:
    """Yield the details of the episodes in a session file, replayed with full history.

    What is in the figures `found`, with those of each request, is not replayed again. Raises AutopruneError if the file
    cannot be read or replayed.
    """
    for _, known in episodes(path, data, args):
        yield detail(known, args, texts=texts, found=[each for each in found if each.episode == known.name])


def detail(known: Episode, args: ReplayArgs, *, texts: bool = False, found: Sequence[Figures] = ()) -> SessionDetail:
    """Describe what happens to an episode's results under each strategy."""
    # Of several price lists, strategies decide by the first, whose figures come first.
    rows = {each.strategy: each for each in reversed(found) if each.style == FULL}
    return SessionDetail(
        episode=known.name,
        unpruned=known.unpruned,
        parts=parts(known),
        results=tuple(_result_details(known, texts)),
        outcomes=tuple(_outcome(known, Policy(name), args, rows) for name in args.strategies),
        cold=tuple(request for request in range(len(known.requests)) if known.is_cold(request)),
        has_texts=texts,
    )


def parts(known: Episode) -> dict[str, int]:
    """Return the tokens of an episode by their source; the head is the part of the prompt before the messages."""
    found = {"head": known.head, "system": 0, "user": 0, "model": 0, "tool results": 0}
    for entry in known.transcript.entries:
        results = sum(result.tokens for result in entry.results)
        name = str(entry.speaker) if entry.speaker in (Speaker.SYSTEM, Speaker.MODEL) else "user"
        found["tool results"] += results
        found[name if not entry.results else "user"] += entry.tokens - results
    return found


def _result_details(known: Episode, texts: bool) -> Iterator[ResultDetail]:
    needed: dict[int, dict[int, dict[str, None]]] = {}
    for need in (each for each in known.evidence.needs if each.sources):
        needed.setdefault(need.sources[-1], {}).setdefault(need.request, {})[str(need.atom.kind)] = None
    for number, result in enumerate(known.transcript.results):
        when = tuple((request, ", ".join(kinds)) for request, kinds in needed.get(number, {}).items())
        text, left_out = head_and_tail(result.text) if texts else ("", 0)
        shown = (target if texts else public_target)(result.call)[:LONGEST_TARGET]
        yield ResultDetail(
            tool=result.tool,
            target=shown,
            tokens=result.tokens,
            request=known.first_request_from(result.request),
            sent=known.first_request_from(result.sent),
            failed=bool(result.is_error),
            needed=when,
            text=text,
            left_out=left_out,
        )


def public_target(call: ToolCall | None) -> str:
    """Return the paths in a call's arguments, or the programs that it runs, which are unlikely to hold secrets."""
    if call is None:
        return ""
    return ", ".join(paths(call) or program_names(command(call))[:MOST_PROGRAMS])


def head_and_tail(text: str) -> tuple[str, int]:
    """Return the beginning and the end of a text, and the number of characters left out between them."""
    if len(text) <= HEAD + TAIL:
        return text, 0
    return f"{text[:HEAD]}\n[…]\n{text[-TAIL:]}", len(text) - HEAD - TAIL


def _outcome(known: Episode, policy: Policy, args: ReplayArgs, found: Mapping[str, Figures]) -> EpisodeOutcome:
    strategy, new_pruner = policy.for_episode(known, deciding_prices(known, args.prices))
    row = found.get(policy.text)
    if row is None:
        row = figures(play(known, new_pruner, strategy, count=exact()), policy.text, args.prices, style=FULL)
    # The edits of the plan at the last request name the requests at which they were made.
    sent = known.messages[: known.requests[-1]]
    plan = new_pruner().prune(sent, strategy, **pruner_arguments(known, strategy)).plan
    return EpisodeOutcome(policy.text, row.prompts, row.held, tuple(_clearings(known, plan)), row.missed)


def _clearings(known: Episode, plan: Plan) -> Iterator[ClearedResult]:
    """Yield the results that the plan edited, and those whose messages it folded or dropped."""
    edits = {place(part): edit for part, edit in plan.results.items()}
    for number, result in enumerate(known.transcript.results):
        if edit := edits.get(place(result)):
            yield ClearedResult(number, known.first_request_from(edit.request), sentence(edit.reason), edit.saved)
        elif fold := plan.gone.get(result.location.message):
            yield ClearedResult(number, known.first_request_from(fold.request), sentence(fold.reason), result.tokens)

"""What each recorded action rested on, and where that stood: found once for an episode, whatever is pruned later.

An atom that somebody said before is *free*, one that stands in no earlier result *unsupported*. What an agent states
counts only if it is *scarce*: one that more than three earlier results show is *common*, and points to none of them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from autoprune.apps.replay.atoms import GROUPS, STATED, Atom, Group, Kind, atoms, hunks, is_patch
from autoprune.apps.replay.stated import stated
from autoprune.apps.replay.visible import Texts, numbers, strings
from autoprune.conversation.transcript import Transcript
from autoprune.facts.calls import arguments
from autoprune.facts.words import texts

MOST_SOURCES = 3  # earlier results that show what an agent states


@dataclass(frozen=True, slots=True)
class Need:
    """An atom of the action at a request, and the earlier results that show it, by number, oldest first.

    `lag` is how many requests ago the newest of them was called for.
    """

    request: int
    atom: Atom
    sources: tuple[int, ...]
    lag: int


@dataclass(frozen=True)
class Evidence:
    """The needs of an episode, and how many other atoms of each kind were free, unsupported or common."""

    needs: tuple[Need, ...]
    free: Mapping[Kind, int] = field(default_factory=dict)
    unsupported: Mapping[Kind, int] = field(default_factory=dict)
    common: Mapping[Kind, int] = field(default_factory=dict)

    def needed(self, group: Group) -> int:
        """Return how many atoms of a group were needed."""
        return sum(need.atom.kind in GROUPS[group] for need in self.needs)


def evidence(transcript: Transcript, requests: Sequence[int], walked: Sequence[int]) -> Evidence:
    """Return what the actions in a conversation rested on.

    `requests` are the messages before which its requests stand, `walked` the numbers that results know these by.
    """
    results, spoken = Texts(), Texts()
    needs: list[Need] = []
    free, unsupported, common = Counter[Kind](), Counter[Kind](), Counter[Kind]()
    at = 0
    stops = (*requests, len(transcript.entries))
    for request, (start, number) in enumerate(zip(requests, walked, strict=True)):
        for message in range(at, start):
            for result in transcript.entries[message].results:
                results.append(result.text)
            for said in _said(transcript, message):
                spoken.append(said)
        end = _answer_ends(transcript, start, stops[request + 1])
        for atom in _atoms(transcript, start, end, results):
            if spoken.showing(atom):
                free[atom.kind] += 1
            elif not (sources := results.showing(atom)):
                unsupported[atom.kind] += 1
            elif atom.kind in STATED and len(sources) > MOST_SOURCES:
                common[atom.kind] += 1
            else:
                newest = transcript.results[sources[-1]]
                needs.append(Need(request, atom, sources, number - newest.request))
        at = start
    return Evidence(tuple(needs), free, unsupported, common)


def _answer_ends(transcript: Transcript, start: int, stop: int) -> int:
    end = start
    while end < stop and transcript.entries[end].speaker == "model":
        end += 1
    return end


def _atoms(transcript: Transcript, start: int, end: int, results: Texts) -> tuple[Atom, ...]:
    calls = [call for entry in transcript.entries[start:end] for call in entry.calls]
    words = "\n".join(
        text for at in range(start, end) for text in texts(transcript.messages[at], transcript.entries[at])
    )
    return *atoms(calls, words), *stated(calls, words, lambda atom: bool(results.showing(atom)))


def _said(transcript: Transcript, message: int) -> Iterator[str]:
    """Yield what is no result in a message: words, and the arguments of calls."""
    entry = transcript.entries[message]
    yield from texts(transcript.messages[message], entry)
    for call in entry.calls:
        known = arguments(call)
        said = "\n".join(strings(dict(known))) if known else str(call.arguments)
        yield said
        if counted := "\n".join(numbers(known)):
            yield counted
        if is_patch(said):
            yield "\n".join(after for _, after in hunks(said))

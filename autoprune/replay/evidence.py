"""What each recorded action rested on, and where that stood: found once for an episode, whatever is pruned later."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autoprune.conversation.calls import arguments
from autoprune.conversation.transcript import Transcript
from autoprune.formats.words import texts
from autoprune.replay.atoms import Atom, atoms, hunks, is_patch
from autoprune.replay.visible import Texts, strings


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
    """The needs of an episode. `free` atoms stood in somebody's own words, `unsupported` ones nowhere at all."""

    needs: tuple[Need, ...]
    free: int
    unsupported: int


def evidence(transcript: Transcript, requests: Sequence[int], walked: Sequence[int]) -> Evidence:
    """Return what the actions in a conversation rested on.

    `requests` are the messages before which its requests stand, `walked` the numbers that results know these by.
    """
    results, spoken = Texts(), Texts()
    needs: list[Need] = []
    free = unsupported = 0
    at = 0
    stops = (*requests, len(transcript.entries))
    for request, (start, number) in enumerate(zip(requests, walked, strict=True)):
        for message in range(at, start):
            for result in transcript.entries[message].results:
                results.append(result.text)
            for said in _said(transcript, message):
                spoken.append(said)
        end = _answer_ends(transcript, start, stops[request + 1])
        for atom in _atoms(transcript, start, end):
            if spoken.showing(atom):
                free += 1
            elif sources := results.showing(atom):
                newest = transcript.results[sources[-1]]
                needs.append(Need(request, atom, sources, number - newest.request))
            else:
                unsupported += 1
        at = start
    return Evidence(tuple(needs), free, unsupported)


def _answer_ends(transcript: Transcript, start: int, stop: int) -> int:
    end = start
    while end < stop and transcript.entries[end].speaker == "model":
        end += 1
    return end


def _atoms(transcript: Transcript, start: int, end: int) -> tuple[Atom, ...]:
    calls = [call for entry in transcript.entries[start:end] for call in entry.calls]
    words = "\n".join(
        text for at in range(start, end) for text in texts(transcript.messages[at], transcript.entries[at])
    )
    return atoms(calls, words)


def _said(transcript: Transcript, message: int) -> Iterator[str]:
    """Yield what is no result in a message: words, and the arguments of calls."""
    entry = transcript.entries[message]
    yield from texts(transcript.messages[message], entry)
    for call in entry.calls:
        known = arguments(call)
        said = "\n".join(strings(dict(known))) if known else str(call.arguments)
        yield said
        if is_patch(said):
            yield "\n".join(after for _, after in hunks(said))

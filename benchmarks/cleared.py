"""Read Claude Code sessions in which old results were really cleared: which, at which request, and what was read again.

The log keeps the whole text of a cleared result. Two records tell which were cleared:

    microcompact_boundary    a line with `compactedToolIds`: cleared from the next request on
    tool-results/ID.txt      a file beside the log. Older versions write no line. The result is cleared from the first
                             request after it that reads less from the cache than the request before
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from math import inf
from pathlib import PurePath
from typing import Any

from autoprune.apps.replay.episode import Episode, episode
from autoprune.apps.replay.evidence import Need
from autoprune.apps.sessions import Recording, decode, recordings
from autoprune.conversation.transcript import ToolResult
from autoprune.facts.calls import arguments
from autoprune.tokens import exact

READ = "Read"  # Claude Code's tool
CUT = "<persisted-output>"  # begins a result that was too large and is cut in the log too
QUESTION = "We have recently seen a number of User Agents"  # the trials of phantom reads end with it


@dataclass(frozen=True)
class Stretch:
    """A stretch of a session between two compactions.

    `cleared` has the request from which each cleared result, by number, was not sent. `prompts` are the recorded sizes.
    """

    session: str
    episode: Episode
    cleared: Mapping[int, int]
    prompts: Sequence[int] = ()

    @cached_property
    def end(self) -> int:
        """The number of requests before the user asks whether results were missing."""
        entries, starts = self.episode.transcript.entries, self.episode.requests
        asked = (
            at
            for at, (message, entry) in enumerate(zip(self.episode.messages, entries, strict=True))
            if any(text.startswith(QUESTION) for text in entry.texts)
        )
        return bisect_left(starts, next(asked, len(entries)))

    @cached_property
    def results(self) -> Sequence[ToolResult]:
        """All results, in order."""
        return self.episode.transcript.results

    @cached_property
    def calls(self) -> list[int]:
        """The request whose answer made the call of each result."""
        starts = self.episode.requests
        return [bisect_right(starts, each.call.location.message) - 1 if each.call else -1 for each in self.results]

    def was_sent(self, number: int) -> bool:
        """Whether a cleared result was in a prompt before it was cleared."""
        return bisect_left(self.episode.requests, self.results[number].location.message) < self.cleared[number]

    @cached_property
    def reads(self) -> "list[FileRead]":
        """The successful reads of files before the end, in order."""
        return [read for read in self._reads() if read.request < self.end]

    def _reads(self) -> Iterator["FileRead"]:
        for number, (result, request) in enumerate(zip(self.results, self.calls, strict=True)):
            if result.tool != READ or result.is_error or result.call is None:
                continue
            known = arguments(result.call)
            first = _as_number(known.get("offset"), 1)
            last = first + _as_number(known.get("limit"), inf)
            yield FileRead(number, request, str(known.get("file_path", "")), first, last, result.call.id or "")

    @cached_property
    def repeats(self) -> dict[int, int]:
        """The number of the next result that shows the same lines again, for each read by number."""
        return {
            read.number: again.number
            for at, read in enumerate(self.reads)
            if (again := next((other for other in self.reads[at + 1 :] if other.repeats(read)), None))
        }

    def repeated_at(self, read: "FileRead") -> float:
        """The request whose answer repeated a read; infinity if none did."""
        again = self.repeats.get(read.number)
        return inf if again is None else self.calls[again]

    @cached_property
    def lost(self) -> list[tuple[int, Need]]:
        """The needs before the end whose sources were all cleared by then, each with the number of its newest source.

        Results that repeat a cleared read are not sources: in a replay there would be none.
        """
        again = {repeat for read, repeat in self.repeats.items() if read in self.cleared}
        sources = ((need, [each for each in need.sources if each not in again]) for need in self.episode.evidence.needs)
        return [
            (known[-1], need)
            for need, known in sources
            if known
            and not need.written
            and need.request < self.end
            and all(self.cleared.get(each, inf) <= need.request for each in known)
        ]


@dataclass(frozen=True)
class FileRead:
    """A read of lines of a file, in the answer to `request`; `number` is that of its result."""

    number: int
    request: int
    path: str
    first: float
    last: float
    call: str

    def repeats(self, other: "FileRead") -> bool:
        """Whether this later read shows some of the same lines again, or the file to which they were written."""
        if self.request <= other.request:
            return False
        is_stored = bool(other.call) and PurePath(self.path).stem == other.call
        return is_stored or (self.path == other.path and self.first < other.last and other.first < self.last)


def read_log(data: bytes, name: str, stored: Collection[str] = ()) -> list[Stretch]:
    """Read the main conversation of a log; `stored` are the ids of the calls whose results are files beside it."""
    times = dict(_clearing_times(data))
    conversations = recordings(decode(data, name), name, skip_broken=True)
    stretches = conversations[0] if conversations else []
    return [_stretch(each, name, times, stored) for each in stretches if len(each.requests) > 1]


def _stretch(recording: Recording, name: str, times: Mapping[str, float], stored: Collection[str]) -> Stretch:
    known = episode(recording, name, exact())
    shrinks = [
        at
        for at, (before, now) in enumerate(pairwise(recording.requests), 1)
        if before.usage and now.usage and now.usage.cached < before.usage.cached
    ]
    cleared: dict[int, int] = {}
    for number, result in enumerate(known.transcript.results):
        call = (result.call and result.call.id) or ""
        sent = bisect_left(known.requests, result.location.message)
        if call in times:
            later = (
                at for at in range(sent, len(recording.requests)) if (recording.requests[at].time or 0) > times[call]
            )
        elif call in stored and CUT not in result.text[:100]:
            later = (at for at in shrinks if at >= sent)
        else:
            continue
        if (after := next(later, None)) is not None:
            cleared[number] = after
    return Stretch(name, known, cleared, tuple(each.usage.prompt if each.usage else 0 for each in recording.requests))


def _clearing_times(data: bytes) -> Iterator[tuple[str, float]]:
    for line in data.splitlines():
        if b"compactedToolIds" in line:
            record: dict[str, Any] = json.loads(line)
            if record.get("subtype") == "microcompact_boundary":
                time = datetime.fromisoformat(record["timestamp"]).timestamp()
                yield from ((call, time) for call in record["microcompactMetadata"]["compactedToolIds"])


def _as_number(value: object, default: float) -> float:
    return value if isinstance(value, int | float) and value > 0 else default

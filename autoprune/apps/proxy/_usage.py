"""Read the usage that a provider reports in its answer, while the answer passes by. Changes no byte of it.

Reported in one JSON body, or in events of a stream: Anthropic says the prompt's tokens in the first event and the
answer's in a later one, OpenAI in the last chunk or in `response.completed`, Gemini in each chunk. What was said last
of each figure counts, also of those inside others, such as `cache_creation`. An answer that cannot be read here is
passed over: one that is encoded in another way than the proxy offers to the provider, one that is too large unpacked,
one that is broken.
"""

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from zstandard import ZstdDecompressor

MOST = 64_000_000  # bytes of an answer, unpacked, that are read
SLICE = 1_024  # bytes that are unpacked at once, which become 32 MB at most
DEEPEST = 2  # how far inside a usage a figure may be: input_tokens_details.cache_write_tokens_details
LINE = b"data:"
HINTS = (b"usage", b"Usage")  # an event without these words is not parsed
GZIP = zlib.MAX_WBITS | 16
# How an answer may be encoded to be read: what a provider is offered of what a client accepts.
DECODERS: Mapping[str, Callable[[], Any]] = {
    "": lambda: None,
    "identity": lambda: None,
    "gzip": lambda: zlib.decompressobj(GZIP),
    "x-gzip": lambda: zlib.decompressobj(GZIP),
    "deflate": zlib.decompressobj,
    "zstd": lambda: ZstdDecompressor().decompressobj(),
}


class UsageReader:
    """Takes an answer piece by piece, as it comes."""

    def __init__(self, content_type: str, encoding: str) -> None:
        """Begin before the first byte of an answer with this type and content encoding."""
        self.usage: dict[str, Any] = {}
        self._is_stream = "event-stream" in content_type
        name = encoding.strip().lower()
        self._is_readable = (self._is_stream or "json" in content_type) and name in DECODERS
        self._decoder = DECODERS[name]() if self._is_readable else None
        self._rest: list[bytes] = []  # of an event or a body that is not complete yet
        self._left = MOST

    def feed(self, piece: bytes) -> None:
        """Take the next bytes. Raises nothing: the answer passes, whatever is in it."""
        if not self._is_readable:
            return
        try:
            for data in self._unpacked(piece):
                self._take(data)
        except Exception:
            self._is_readable, self._rest = False, []

    def end(self) -> dict[str, Any]:
        """Return the usage that was reported; {} if none was."""
        if self._is_readable and any(self._rest):
            rest = b"".join(self._rest)
            self._event(rest) if self._is_stream else self._read(rest)
        return self.usage

    def _unpacked(self, piece: bytes) -> Iterator[bytes]:
        if self._decoder is None:
            yield piece
            return
        for start in range(0, len(piece), SLICE):
            yield self._decoder.decompress(piece[start : start + SLICE])

    def _take(self, data: bytes) -> None:
        """Keep what is not complete, and read the events that are. Raises ValueError for too much of it."""
        self._left -= len(data)
        if self._left < 0:
            raise ValueError(f"an answer of more than {MOST:,} bytes")
        self._rest.append(data)
        if self._is_stream and b"\n" in data:
            *lines, rest = b"".join(self._rest).split(b"\n")
            self._rest = [rest]
            for line in lines:
                self._event(line)

    def _event(self, line: bytes) -> None:
        if line.startswith(LINE) and any(hint in line for hint in HINTS):
            self._read(line[len(LINE) :])

    def _read(self, text: bytes) -> None:
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            return
        for each in said if isinstance(said, list) else [said]:
            merge(self.usage, reported(each))


def merge(known: dict[str, Any], said: Mapping[str, Any], deepest: int = DEEPEST) -> None:
    """Enter figures into known ones, also those inside others: what is zero, or null, says nothing."""
    for name, value in said.items():
        if deepest and isinstance(value, Mapping):
            before = known.get(name)
            inside = dict(before) if isinstance(before, dict) else {}
            merge(inside, value, deepest - 1)
            value = inside
        if value:
            known[name] = value


def reported(said: object) -> Mapping[str, Any]:
    """Return the usage in an answer, or in an event of one."""
    while isinstance(said, Mapping):
        inner = next((said[name] for name in ("message", "response") if isinstance(said.get(name), Mapping)), None)
        if inner is None:
            found = said.get("usage") or said.get("usageMetadata")
            return found if isinstance(found, Mapping) else {}
        said = inner
    return {}

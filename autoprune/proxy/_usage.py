"""Read the usage that a provider reports in its answer, while the answer passes by. Changes no byte of it.

Reported in one JSON body, or in events of a stream: Anthropic says the prompt's tokens in the first event and the
answer's in a later one, OpenAI in the last chunk or in `response.completed`, Gemini in each chunk. What was said last
of each figure counts. A body that is compressed in a way that cannot be read here is passed over.
"""

import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from zstandard import ZstdDecompressor, ZstdError

MOST = 64_000_000  # bytes of an answer in one body, or of one event, that are read
LINE = b"data:"
HINTS = (b"usage", b"Usage")  # an event without these words is not parsed
DECODERS: Mapping[str, Callable[[], Any]] = {
    "": lambda: None,
    "identity": lambda: None,
    "gzip": lambda: zlib.decompressobj(zlib.MAX_WBITS | 16),
    "deflate": zlib.decompressobj,
    "zstd": lambda: ZstdDecompressor().decompressobj(),
}


class UsageReader:
    """Takes an answer piece by piece, as it comes."""

    def __init__(self, content_type: str, encoding: str) -> None:
        """Begin before the first byte of an answer with this type and content encoding."""
        self.usage: dict[str, Any] = {}
        self._is_stream = "event-stream" in content_type
        name = encoding.lower()
        self._is_readable = (self._is_stream or "json" in content_type) and name in DECODERS
        self._decoder = DECODERS[name]() if self._is_readable else None
        self._rest: list[bytes] = []  # of an event or a body that is not complete yet
        self._bytes = 0  # of these

    def feed(self, piece: bytes) -> None:
        """Take the next bytes."""
        if not self._is_readable:
            return
        try:
            self._take(self._decoder.decompress(piece) if self._decoder else piece)
        except (zlib.error, ZstdError):
            self._is_readable = False
        if self._bytes > MOST:
            self._is_readable, self._rest = False, []

    def end(self) -> dict[str, Any]:
        """Return the usage that was reported; {} where none was."""
        if self._is_readable and self._bytes:
            rest = b"".join(self._rest)
            self._event(rest) if self._is_stream else self._read(rest)
        return self.usage

    def _take(self, data: bytes) -> None:
        """Keep what is not complete, and read the events that are."""
        self._rest.append(data)
        self._bytes += len(data)
        if self._is_stream and b"\n" in data:
            *lines, rest = b"".join(self._rest).split(b"\n")
            self._rest, self._bytes = [rest], len(rest)
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
            self.usage.update(reported(each))


def reported(said: object) -> Mapping[str, Any]:
    """Return the usage in an answer, or in an event of one."""
    if not isinstance(said, Mapping):
        return {}
    for inner in ("message", "response"):
        if isinstance(said.get(inner), Mapping):
            return reported(said[inner])
    found = said.get("usage") or said.get("usageMetadata")
    return {name: value for name, value in found.items() if value} if isinstance(found, Mapping) else {}

"""Read bodies without changing them: decompress requests, and find the usage in answers while they stream past.

A provider reports usage in a JSON body or in the events of a stream: Anthropic sends the prompt's tokens in the first
event and the answer's in a later one, OpenAI in the last chunk or in `response.completed`, Gemini in each chunk. The
last value of each figure counts. An answer that cannot be read (an encoding that the proxy never offers to the
provider, more than `MOST_ANSWER` bytes, broken JSON) is passed on all the same.
"""

import io
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from gzip import GzipFile
from typing import Any

from zstandard import ZstdDecompressor, ZstdError

from autoprune.tokens import CACHED_NAMES, WRITTEN_NAMES

# Bytes of a decompressed request. Source: Anthropic's limit for a request to Messages; the text of the largest context
# window has a fourth of it. To parse one takes a worker a second or two, and at worst ten times its size in memory.
MOST_REQUEST = 32_000_000
MOST_ANSWER = 64_000_000  # bytes of a decompressed answer
SLICE = 1_024  # bytes to decompress at a time: deflate and zstd expand these to 32 MB at most
DEEPEST = 2  # nesting of figures in a usage: input_tokens_details.cache_write_tokens_details
COUNTED_ZEROS = {
    *CACHED_NAMES,
    *WRITTEN_NAMES,
    "cached_tokens",
    "cache_write_tokens",
}  # 0 says that none were; null or no figure says nothing
LONGEST_REASON = 40  # characters, such as "messages_changed"
EVENT_DATA = b"data:"
# Calls of tools that the provider runs. The usage of their answers adds up the prompts of several rounds. Source: the
# description of `usage.iterations` in Anthropic's API reference.
SERVER_CALLS = frozenset(
    (
        *("server_tool_use", "mcp_tool_use"),
        *("web_search_call", "file_search_call", "code_interpreter_call", "mcp_call"),
    )
)
HINTS = (b"usage", b"Usage", *map(str.encode, SERVER_CALLS))  # events without these words are not parsed
GZIP = zlib.MAX_WBITS | 16
# How providers say that a prompt is longer than the context window, with the window: Anthropic twice, OpenAI and most
# servers with its API, xAI, Gemini, OpenAI for GPT-5.
WINDOWS = re.compile(
    r"tokens > ([\d,]+) maximum|context limit: \d+ \+ \d+ > (\d+)"
    r"|maximum (?:context|prompt|model) length (?:is|of) ([\d,]+)|([\d,]+) maximum context length"
    r"|maximum number of tokens allowed \(?([\d,]+)|exceed the configured limit of ([\d,]+)"
)


# Requests


class UnreadError(Exception):
    """Raised if the body of a request cannot be read; the message gives the reason."""


def _gunzip(body: bytes) -> bytes:
    return GzipFile(fileobj=io.BytesIO(body)).read(MOST_REQUEST + 1)


def _unzstd(body: bytes) -> bytes:
    return ZstdDecompressor().stream_reader(io.BytesIO(body), read_across_frames=True).read(MOST_REQUEST + 1)


REQUEST_DECODERS: Mapping[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "identity": bytes,
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "zstd": _unzstd,
}


def decompress(body: bytes, encoding: str) -> bytes:
    """Decompress the body of a request. Raises UnreadError if it is broken or larger than `MOST_REQUEST`."""
    decode = REQUEST_DECODERS.get(encoding.strip().lower())
    if decode is None:
        raise UnreadError(f"the content encoding {encoding!r} is not supported: use gzip, zstd or none")
    try:
        plain = decode(body)
    except (EOFError, OSError, zlib.error, ZstdError) as error:
        raise UnreadError(f"the body cannot be decompressed: {error}") from error
    if len(plain) > MOST_REQUEST:
        raise UnreadError(f"the body is larger than {MOST_REQUEST:,} bytes: it was sent unpruned")
    return plain


# Answers

# Of the encodings that a client accepts, the proxy offers these to the provider.
ANSWER_DECODERS: Mapping[str, Callable[[], Any]] = {
    "": lambda: None,
    "identity": lambda: None,
    "gzip": lambda: zlib.decompressobj(GZIP),
    "x-gzip": lambda: zlib.decompressobj(GZIP),
    "deflate": zlib.decompressobj,
    "zstd": lambda: ZstdDecompressor().decompressobj(),
}


class UsageReader:
    """Finds the usage in an answer that arrives in pieces."""

    def __init__(self, content_type: str, encoding: str) -> None:
        self.usage: dict[str, Any] = {}
        self.window: int | None = None  # the context window that an error states, in tokens
        self.miss = ""  # why the cache was not read, by the provider's diagnosis
        self._has_rounds = False  # whether the usage is that of several prompts
        self._is_stream = "event-stream" in content_type
        name = encoding.strip().lower()
        self._is_readable = (self._is_stream or "json" in content_type) and name in ANSWER_DECODERS
        self._decoder = ANSWER_DECODERS[name]() if self._is_readable else None
        self._rest: list[bytes] = []  # of an incomplete event or body
        self._left = MOST_ANSWER

    def feed(self, piece: bytes) -> None:
        """Read the next bytes. Never raises, because the client must get its answer in any case."""
        if not self._is_readable:
            return
        try:
            for data in self._decompress_piece(piece):
                self._collect(data)
        except (ValueError, zlib.error, ZstdError):
            self._is_readable, self._rest = False, []

    def end(self) -> dict[str, Any]:
        """Read the remaining bytes, and return the usage; {} if none was reported, or only that of several prompts."""
        if self._is_readable and any(self._rest):
            rest = b"".join(self._rest)
            self._read_event(rest) if self._is_stream else self._read_json(rest)
        return {} if self._has_rounds else self.usage

    def _decompress_piece(self, piece: bytes) -> Iterator[bytes]:
        if self._decoder is None:
            yield piece
            return
        for start in range(0, len(piece), SLICE):
            yield self._decoder.decompress(piece[start : start + SLICE])

    def _collect(self, data: bytes) -> None:
        """Read complete events, and buffer the rest. Raises ValueError for an answer that is too large."""
        self._left -= len(data)
        if self._left < 0:
            raise ValueError(f"an answer of more than {MOST_ANSWER:,} bytes")
        self._rest.append(data)
        if self._is_stream and b"\n" in data:
            *lines, rest = b"".join(self._rest).split(b"\n")
            self._rest = [rest]
            for line in lines:
                self._read_event(line)

    def _read_event(self, line: bytes) -> None:
        if line.startswith(EVENT_DATA) and any(hint in line for hint in HINTS):
            self._read_json(line[len(EVENT_DATA) :])

    def _read_json(self, text: bytes) -> None:
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            return
        for each in data if isinstance(data, list) else [data]:  # Gemini streams a list of chunks
            merge_usage(self.usage, reported_usage(each))
            self.window = self.window or stated_window(each)
            self.miss = self.miss or diagnosed_miss(each)
            self._has_rounds = self._has_rounds or has_server_call(each)


def merge_usage(known: dict[str, Any], reported: Mapping[str, Any], deepest: int = DEEPEST) -> None:
    """Update known figures with reported figures, including nested ones. Zero and null do not overwrite."""
    for name, value in reported.items():
        if deepest and isinstance(value, Mapping):
            before = known.get(name)
            inner = dict(before) if isinstance(before, dict) else {}
            merge_usage(inner, value, deepest - 1)
            value = inner
        if value:
            known[name] = value
        elif value == 0 and name in COUNTED_ZEROS:
            known.setdefault(name, 0)


def reported_usage(data: object) -> Mapping[str, Any]:
    """Return the usage in an answer, or in an event of a streamed answer; {} if there is none."""
    while isinstance(data, Mapping):
        # Anthropic's message_start and OpenAI's response.completed wrap the answer.
        inner = next((data[name] for name in ("message", "response") if isinstance(data.get(name), Mapping)), None)
        if inner is None:
            usage = data.get("usage") or data.get("usageMetadata")
            return usage if isinstance(usage, Mapping) else {}
        data = inner
    return {}


def has_server_call(data: object) -> bool:
    """Return whether the provider ran a tool for an answer, by this answer or by an event of a streamed one."""
    if not isinstance(data, Mapping):
        return False
    lists = (data.get("content"), data.get("output"))
    parts = [
        data.get("content_block"),
        data.get("item"),
        *(part for each in lists if type(each) is list for part in each),
    ]
    types = [part.get("type") for part in parts if isinstance(part, Mapping)]
    return not SERVER_CALLS.isdisjoint(each for each in types if isinstance(each, str))


def stated_window(data: object) -> int | None:
    """Return the context window in tokens that an error states because a prompt is longer; None without one."""
    while isinstance(data, Mapping):
        data = data.get("error") or data.get("message")
    found = WINDOWS.search(data) if isinstance(data, str) else None
    return int(found[found.lastindex or 0].replace(",", "")) or None if found else None


def diagnosed_miss(data: object) -> str:
    """Return the reason why the cache was not read, by the provider's cache diagnosis; "" without one."""
    while isinstance(data, Mapping):
        match data:
            case {"diagnostics": {"cache_miss_reason": {"type": str(reason)}}}:  # Anthropic
                return reason[:LONGEST_REASON]
            case {"prompt_cache_diagnostics": {"type": "cache_miss", "reason": str(reason)}}:  # OpenAI
                return reason[:LONGEST_REASON]
        data = data.get("message") or data.get("response") or data.get("delta")
    return ""

"""Unpack the body of a request that its client has compressed, up to a limit. Changes nothing."""

import io
import zlib
from collections.abc import Callable, Mapping
from gzip import GzipFile

from zstandard import ZstdDecompressor, ZstdError

# Bytes of a body that is read, unpacked. Source: Anthropic's limit of a request to Messages; a text of the largest
# window has a fourth of it. Reading one takes a lane a second or two, and ten times its size in memory at worst.
MOST = 32_000_000


class UnreadError(Exception):
    """The body of a request is not read; the words say why."""


def _gzip(body: bytes) -> bytes:
    return GzipFile(fileobj=io.BytesIO(body)).read(MOST + 1)


def _zstd(body: bytes) -> bytes:
    return ZstdDecompressor().stream_reader(io.BytesIO(body), read_across_frames=True).read(MOST + 1)


DECODERS: Mapping[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "identity": bytes,
    "gzip": _gzip,
    "x-gzip": _gzip,
    "zstd": _zstd,
}


def unpacked(body: bytes, encoding: str) -> bytes:
    """Return a body as it was before it was compressed. Raises UnreadError if that cannot be read, or is too large."""
    decode = DECODERS.get(encoding.strip().lower())
    if decode is None:
        raise UnreadError(f"the body is encoded as {encoding!r}: it is read in gzip, zstd or plain")
    try:
        found = decode(body)
    except (EOFError, OSError, zlib.error, ZstdError) as error:
        raise UnreadError(f"the body cannot be unpacked: {error}") from error
    if len(found) > MOST:
        raise UnreadError(f"the body is larger than {MOST:,} bytes: it goes on unread")
    return found

"""Unpack the body of a request that its client has compressed, up to a limit. Changes nothing."""

import io
import zlib
from collections.abc import Callable, Mapping

from zstandard import ZstdDecompressor, ZstdError

MOST = 256_000_000  # bytes, unpacked: far more than a prompt has, and less than harms a machine
GZIP = zlib.MAX_WBITS | 16


def _gzip(body: bytes) -> bytes:
    return zlib.decompressobj(GZIP).decompress(body, MOST + 1)


def _zstd(body: bytes) -> bytes:
    return ZstdDecompressor().stream_reader(io.BytesIO(body)).read(MOST + 1)


DECODERS: Mapping[str, Callable[[bytes], bytes]] = {"": bytes, "identity": bytes, "gzip": _gzip, "zstd": _zstd}


def unpacked(body: bytes, encoding: str) -> bytes | None:
    """Return a body as it was before it was compressed; None where that cannot be read, or is too large."""
    decode = DECODERS.get(encoding.lower())
    try:
        found = decode(body) if decode else None
    except (zlib.error, ZstdError):
        return None
    return found if found is not None and len(found) <= MOST else None

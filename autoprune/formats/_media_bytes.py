"""Read the size of an image, and the bytes of any medium, from bytes or base64. Reads no pixels."""

import base64
import binascii
import re
import struct
from urllib.parse import unquote

HEADER_CHARACTERS = 88_000  # base64 characters that are decoded to find an image's size (JPEG headers can be long)
PDF = b"%PDF"
BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")
LONGEST_ADDRESS = 4_096  # characters
ADDRESSES = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*://\S*|file-\w+)")
ADDRESS = 32  # characters in which the colon of an address stands; base64 has none


def decoded(data: str | bytes, most: int | None = None) -> bytes:
    """Return the bytes of the first `most` characters of base64 or a data URL, or bytes themselves; b"" for others."""
    if isinstance(data, bytes):
        return data[:most]
    encoded = data.partition("base64,")[2] if data.startswith("data:") else data
    try:
        return b"" if _is_address(encoded) else base64.b64decode("".join(encoded[:most].split()) + "===")
    except (binascii.Error, ValueError):
        return b""


def document(data: str | bytes) -> str | bytes:
    """Return what a document's data hold: bytes, or the text that they are; b"" for an address."""
    if isinstance(data, bytes):
        return data
    if not data or ADDRESSES.fullmatch(data[:LONGEST_ADDRESS]):  # an id alone, or an address
        return b""
    head, _, rest = data.partition(",") if data.startswith("data:") else ("", "", data)
    if head and not head.endswith("base64"):
        return unquote(rest)
    is_base64 = BASE64.fullmatch(rest.replace("\r", "").replace("\n", ""))
    return (is_base64 and decoded(rest)) or data


def text_of(data: bytes) -> str | bytes:
    """Return bytes as the text that they are, or as they are: a text is UTF-8 and holds no NUL byte."""
    if data.startswith(PDF) or b"\0" in data:
        return data
    try:
        return data.decode() or data
    except UnicodeDecodeError:
        return data


def byte_count(data: str | bytes) -> int:
    """Return how many bytes there are in base64 or a data URL; 0 for what stands behind an address."""
    if isinstance(data, bytes):
        return len(data)
    return 0 if _is_address(data) and not data.startswith("data:") else len(data) * 3 // 4 - data[-2:].count("=")


def _is_address(text: str) -> bool:
    return ":" in text[:ADDRESS]


def image_size(address: str | bytes) -> tuple[int, int] | None:
    """Return an image's width and height in pixels, from bytes, a data URL or base64; or None."""
    head = decoded(address, HEADER_CHARACTERS)
    if head[:8] == b"\x89PNG\r\n\x1a\n" and len(head) >= 24:
        return struct.unpack(">II", head[16:24])
    if head[:6] in (b"GIF87a", b"GIF89a") and len(head) >= 10:
        return struct.unpack("<HH", head[6:10])
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _webp_size(head)
    return _jpeg_size(head) if head[:2] == b"\xff\xd8" else None


def _webp_size(head: bytes) -> tuple[int, int] | None:
    """Return the size in the first chunk: lossy (VP8), lossless (VP8L), or extended (VP8X)."""
    if len(head) < 30:
        return None
    if head[12:16] == b"VP8 ":
        width, height = struct.unpack("<HH", head[26:30])
        return width & 0x3FFF, height & 0x3FFF
    if head[12:16] == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1


def _jpeg_size(head: bytes) -> tuple[int, int] | None:
    """Return the size in the first start-of-frame segment (C0 to CF without C4, C8, CC)."""
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return width, height
        at += 2 + int(struct.unpack(">H", head[at + 2 : at + 4])[0])
    return None

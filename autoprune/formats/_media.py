"""What images and other media cost in tokens, by rule. Decodes no more than a header, counts no base64 as text."""

import base64
import binascii
import math
import re
import struct
from collections.abc import Callable, Mapping
from typing import TypeAlias

from autoprune.conversation.messages import fields

# Source: OpenAI's vision guide for the GPT-4o family: 85 tokens for an image, and 170 for each tile of 512 pixels
# once it is scaled to fit 2048 x 2048 and then to a shortest side of 768.
IMAGE_TOKENS = 85
TILE_TOKENS = 170
TILE_PIXELS = 512
LONGEST_SIDE = 2048
SHORTEST_SIDE = 768
UNKNOWN_SIZE = (1024, 1024)  # an image behind a URL or a file id: the size that vendors use in their examples
AUDIO_TOKENS_PER_SECOND = 10  # OpenAI's audio guide: one token for 100 ms of the user's speech
AUDIO_BYTES_PER_SECOND = {"wav": 48_000, "mp3": 16_000}  # 24 kHz PCM16; 128 kbit/s
FILE_TOKENS = 1_500  # a page of a document; one whose pages cannot be seen counts as one page
PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")  # an object of a PDF
IMAGES = ("image", "image_url", "input_image", "computer_screenshot")
SOUNDS = ("audio", "input_audio", "audio_url")
FILES = ("file", "input_file", "document", "video", "input_video", "video_url")
KINDS = frozenset((*IMAGES, *SOUNDS, *FILES))
CONVERSE = ("image", "audio", "document", "video")  # Bedrock's blocks have no `type`: the one field says what they are
CONVERSE_SOURCES = ("bytes", "s3Location")
GEMINI = (("mimeType", "mime_type"), ("data", "data"), ("fileUri", "file_uri"))  # on the wire, and in the SDK
GEMINI_NAMES = frozenset((*(name for pair in GEMINI for name in pair), "displayName", "display_name"))
# Where a block has its medium; one that has something else and none of these is data of the same `type`.
SOURCES = (
    *("source", "file", "file_id", "file_data", "file_url", "url", "data", "base64", "bytes", "uri"),
    *("image_url", "image", "input_audio", "audio_url", "audio", "video_url", "video", "document"),
)
BESIDE = frozenset(("type", "id", "name", "title", "context", "citations", "cache_control", "detail", "format"))
TEXTS = ("text", "content")  # where a source holds its text as it is
TEXT_KINDS = ("text/", "application/json", "application/xml", "application/yaml", "application/x-yaml")
TEXT_FORMATS = ("txt", "md", "csv", "html")  # Bedrock's
UNCOMPRESSED = ("wav", "x-wav", "l16", "pcm")
HEADER_CHARACTERS = 88_000  # base64 characters that are decoded to find an image's size (JPEG headers can be long)


# A format's own rules: the tokens of a block that is a medium, with a counter for texts; None for any other block.
Media: TypeAlias = Callable[[Mapping[str, object], Callable[[str], int]], int | None]
Medium: TypeAlias = tuple[str, Mapping[str, object]]  # what a block is, and the fields that say what it costs


def media(block: Mapping[str, object], count: Callable[[str], int]) -> int | None:
    """Return the tokens of a media block by the rules that all formats share; None for any other block."""
    return media_tokens(block, count) if is_media(block) else None


def is_media(block: Mapping[str, object]) -> bool:
    """Return whether a block is an image, sound, video or document as one of the APIs writes it."""
    return _medium(block) is not None


def _medium(block: Mapping[str, object]) -> Medium | None:
    """Return what a block is, and its fields, however an API writes it; None where it is no medium."""
    return _converse(block) or _gemini(block) or _typed(block)


def _typed(block: Mapping[str, object]) -> Medium | None:
    """Return the `type` of a block of OpenAI's or Anthropic's, and its fields; None where it is no medium."""
    kind = block.get("type")
    if not isinstance(kind, str) or kind not in KINDS:
        return None
    given = {name for name, value in block.items() if value is not None} - BESIDE
    return (kind, block) if not given or any(_is_source(block.get(name)) for name in SOURCES) else None


def _is_source(value: object) -> bool:
    """Return whether a medium stands here: its bytes, or where it is; and not the text of a document."""
    if isinstance(value, str | bytes):
        return bool(value)
    held = fields(value)
    if held is None or any(held.get("type") == name or held.get(name) for name in TEXTS):
        return False
    return any(isinstance(held.get(name), str | bytes) for name in SOURCES)


def media_tokens(block: Mapping[str, object], count: Callable[[str], int] = len) -> int:
    """Return the tokens of one media block, by rule; of a document that holds a text those of the text, by `count`."""
    kind, block = _medium(block) or (str(block.get("type")), block)
    if kind in IMAGES:
        return _image_tokens(block)
    if kind in SOUNDS:
        return _audio_tokens(block)
    mime, data = _document(block)
    if mime.startswith(TEXT_KINDS):
        return count(data.decode("utf-8", "replace"))
    return FILE_TOKENS * max(1, len(PAGE.findall(data)))


def _document(block: Mapping[str, object]) -> tuple[str, bytes]:
    """Return the MIME type of a document, and its bytes where the block holds them."""
    held = fields(block.get("source")) or fields(block.get("file")) or block
    mime = next((held[name] for name in ("media_type", "mimeType", "mime_type") if held.get(name)), "")
    if block.get("format") in TEXT_FORMATS:
        mime = "text/plain"
    data = next((held[name] for name in ("data", "bytes", "file_data") if held.get(name)), b"")
    if isinstance(data, bytes):
        return str(mime), data
    address, is_url, encoded = str(data).partition("base64,")
    if is_url:
        mime = address.removeprefix("data:") or mime
    try:
        return str(mime), base64.b64decode(encoded if is_url else address)
    except (binascii.Error, ValueError):
        return "", b""


def _converse(block: Mapping[str, object]) -> Medium | None:
    """Return what a block of Bedrock's is, and its fields; None for no medium, or a document that holds its text."""
    if len(block) != 1:
        return None
    ((kind, value),) = block.items()
    held = fields(value) if kind in CONVERSE else None
    source = fields(held.get("source")) if held else None
    is_medium = source is not None and any(name in source for name in CONVERSE_SOURCES)
    return (kind, held) if held and is_medium else None


def _gemini(block: Mapping[str, object]) -> Medium | None:
    """Return what Gemini's inline or file data is by its MIME type, and its bytes or base64; None for anything else."""
    mime, data, address = (block.get(camel) or block.get(snake) for camel, snake in GEMINI)
    if any(value is not None and name not in GEMINI_NAMES for name, value in block.items()):
        return None
    if not (isinstance(address, str) or (isinstance(mime, str) and isinstance(data, str | bytes))):
        return None
    kind, _, form = str(mime or "").lower().partition("/")
    if kind == "image" or (kind == "audio" and data):
        return kind, {"data": data, "format": "wav" if form.startswith(UNCOMPRESSED) else form}
    return "file", block


def _image_tokens(block: Mapping[str, object]) -> int:
    source = fields(block.get("image_url")) or fields(block.get("source")) or block
    if source.get("detail") == "low":
        return IMAGE_TOKENS
    address = source.get("url") or source.get("data") or source.get("bytes") or block.get("image_url")
    width, height = image_size(address if isinstance(address, str | bytes) else "") or UNKNOWN_SIZE
    return IMAGE_TOKENS + TILE_TOKENS * _tiles(width, height)


def _tiles(width: int, height: int) -> int:
    scale = min(1.0, LONGEST_SIDE / max(width, height, 1))
    scale *= min(1.0, SHORTEST_SIDE / max(min(width, height) * scale, 1))
    across, down = (math.ceil(round(side * scale, 6) / TILE_PIXELS) for side in (width, height))
    return across * down


def _audio_tokens(block: Mapping[str, object]) -> int:
    audio = fields(block.get("input_audio")) or block
    data = (fields(audio.get("source")) or {}).get("bytes") or audio.get("data")
    form = str(audio.get("format", "wav"))
    size = len(data) * 3 // 4 if isinstance(data, str) else len(data) if isinstance(data, bytes) else 0
    return math.ceil(size / AUDIO_BYTES_PER_SECOND.get(form, 16_000) * AUDIO_TOKENS_PER_SECOND)


def image_size(address: str | bytes) -> tuple[int, int] | None:
    """Return an image's width and height in pixels, from bytes, a data URL or base64; or None."""
    head = address[:HEADER_CHARACTERS] if isinstance(address, bytes) else _decoded(address)
    if head[:8] == b"\x89PNG\r\n\x1a\n" and len(head) >= 24:
        return struct.unpack(">II", head[16:24])
    if head[:6] in (b"GIF87a", b"GIF89a") and len(head) >= 10:
        return struct.unpack("<HH", head[6:10])
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _webp_size(head)
    return _jpeg_size(head) if head[:2] == b"\xff\xd8" else None


def _decoded(address: str) -> bytes:
    """Return the first bytes of an image in base64; none where it stands behind an address."""
    if address.startswith(("http:", "https:", "file-")):
        return b""
    encoded = address.partition("base64,")[2] if address.startswith("data:") else address
    try:
        return base64.b64decode("".join(encoded[:HEADER_CHARACTERS].split()) + "===")
    except (binascii.Error, ValueError):
        return b""


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

"""Count the tokens of images and other media, by the published rule of the vendor whose API writes a block so.

Each API has its `Rules`: how it writes media, and what they cost there. A format's own rules are asked first, then
those of the others, so that a block that was carried over from another API is not counted as text.
"""

import base64
import binascii
import math
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote

from autoprune.conversation.messages import fields, fields_of

Block: TypeAlias = Mapping[str, object]
# A format's own rules: the tokens of a block that is a medium, with a counter for texts; None for any other block.
Media: TypeAlias = Callable[[Block, Callable[[str], int]], int | None]

# Where the vendors say nothing, because it depends on what cannot be seen here.
UNKNOWN_SIZE = (1024, 1024)  # of an image behind a URL or a file id: the size that vendors use in their examples
UNKNOWN_SECONDS = 60  # of a sound or a video behind one
UNCOMPRESSED = ("wav", "x-wav", "l16", "pcm")
BYTES_PER_SECOND = {"wav": 48_000, "audio": 16_000, "video": 250_000}  # 24 kHz PCM16; 128 kbit/s; 2 Mbit/s

PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")  # an object of a PDF
TEXT_FORMS = ("text/", "application/json", "application/xml", "application/yaml", "application/x-yaml")
TEXT_FORMATS = ("txt", "md", "csv", "html")  # Bedrock's


class Medium(NamedTuple):
    """An image, sound, video or document, however an API writes it."""

    kind: str  # "image", "audio", "video" or "document"
    data: str | bytes = ""  # bytes, base64, a data URL or an address; "" if there is an id alone
    form: str = ""  # a MIME type, or a format such as "wav"
    detail: object = None  # OpenAI's


@dataclass(frozen=True)
class Rules:
    """How one API writes media, and what they cost there. They are called as the `media` of a format."""

    find: Callable[[Block], Medium | None]  # the medium in a block of this API; None for any other block
    image: Callable[[Medium], int]
    page: int  # tokens of a page; a document whose pages cannot be seen counts as one
    audio: int  # tokens a second
    video: int  # likewise

    def __call__(self, block: Block, count: Callable[[str], int]) -> int | None:
        """Return the tokens of a media block, by the rules of the API whose shape it has; None for any other block."""
        for rules in (self, *APIS):
            if (medium := rules.find(block)) is not None:
                return rules.tokens(medium, count)
        return None

    def tokens(self, medium: Medium, count: Callable[[str], int]) -> int:
        """Return the tokens of a medium; of a document that holds a text those of the text, by `count`."""
        if medium.kind == "image":
            return self.image(medium)
        if medium.kind == "document":
            return self._document_tokens(medium, count)
        return math.ceil(_seconds(medium) * (self.audio if medium.kind == "audio" else self.video))

    def _document_tokens(self, medium: Medium, count: Callable[[str], int]) -> int:
        held = document(medium.data)
        if isinstance(held, bytes) and (medium.form.startswith(TEXT_FORMS) or medium.form in TEXT_FORMATS):
            held = held.decode("utf-8", "replace") or held
        elif isinstance(held, bytes) and not medium.form:
            held = text_of(held)
        if isinstance(held, str):
            return count(held)
        pages = len(PAGE.findall(held))
        if pages or not held:  # a PDF, or a document that is elsewhere
            return self.page * max(1, pages)
        return min(self.page, len(medium.data))


def find_medium(block: Block) -> Medium | None:
    """Return the medium in a block of any of the APIs; None for any other block."""
    return next((medium for rules in APIS if (medium := rules.find(block)) is not None), None)


def is_media(block: Block) -> bool:
    """Return whether a block is an image, sound, video or document as one of the APIs writes it."""
    kind = block.get("type")
    is_typed = isinstance(kind, str) and (kind in OPENAI_TYPES or kind in ANTHROPIC_TYPES)
    return (is_typed or not UNTYPED.isdisjoint(block)) and find_medium(block) is not None


def _size(medium: Medium) -> tuple[int, int]:
    return image_size(medium.data) or UNKNOWN_SIZE


def _seconds(medium: Medium) -> float:
    """Return how long a sound or a video is, as far as the number of its bytes tells."""
    is_wav = medium.form.rpartition("/")[2].startswith(UNCOMPRESSED)
    return byte_count(medium.data) / BYTES_PER_SECOND["wav" if is_wav else medium.kind] or UNKNOWN_SECONDS


# Blocks with a `type`: OpenAI's and Anthropic's

OPENAI_TYPES = {
    **dict.fromkeys(("image_url", "input_image", "computer_screenshot", "image"), "image"),
    **dict.fromkeys(("input_audio", "audio_url", "audio"), "audio"),
    **dict.fromkeys(("input_video", "video_url", "video"), "video"),
    **dict.fromkeys(("file", "input_file"), "document"),
}
ANTHROPIC_TYPES = {"image": "image", "document": "document"}
# Where a block has its medium; one that has something else and none of these is data of the same `type`.
DATA = ("data", "bytes", "base64", "file_data", "url", "file_url", "image_url", "image", "uri")
SOURCES = (*DATA, *("source", "file", "file_id", "input_audio", "audio_url", "audio", "video_url", "video", "document"))
BESIDE = frozenset(("type", "id", "name", "title", "context", "citations", "cache_control", "detail", "format"))
TEXTS = ("text", "content")  # where a source holds its text as it is


def _openai(block: Block) -> Medium | None:
    """Return the medium in a block of Chat Completions or Responses, or of servers that speak like them."""
    is_anthropic = block.get("type") == "image" and block.get("source") is not None
    return None if is_anthropic else _typed(block, OPENAI_TYPES)


def _anthropic(block: Block) -> Medium | None:
    """Return the medium in a block of Anthropic Messages."""
    return _typed(block, ANTHROPIC_TYPES)


def _typed(block: Block, types: Mapping[str, str]) -> Medium | None:
    """Return the medium in a block whose `type` says what it is."""
    kind = block.get("type")
    if not isinstance(kind, str) or kind not in types:
        return None
    given = {name for name, value in block.items() if value is not None} - BESIDE
    if given and not any(_is_source(block.get(name)) for name in SOURCES):
        return None
    held = next((inner for name in SOURCES if (inner := fields(block.get(name)))), block)
    named = (*DATA, kind) if kind == "document" else DATA  # which may itself be the text
    found = (value for name in named if isinstance(value := held.get(name), str | bytes) and value)
    data = next(found, "")
    form = next((held[name] for name in ("media_type", "mimeType", "mime_type", "format") if held.get(name)), "")
    if isinstance(data, str) and data.startswith("data:"):
        form = data[5:].partition(";")[0] or form
    return Medium(types[kind], data, str(form).lower(), held.get("detail"))


def _is_source(value: object) -> bool:
    """Return whether a medium stands here: its bytes, or where it is; and not the text of a document."""
    if isinstance(value, str | bytes):
        return bool(value)
    held = fields(value)
    if held is None or any(held.get("type") == name or held.get(name) for name in TEXTS):
        return False
    return any(isinstance(held.get(name), str | bytes) for name in SOURCES)


def _openai_image(medium: Medium) -> int:
    """Return 85 tokens and 170 for each tile of 512 pixels, once it fits 2048 x 2048 and its shortest side is 768.

    Source: OpenAI's guide "Images and vision", for the GPT-4o family.
    """
    if medium.detail == "low":
        return 85
    width, height = _size(medium)
    scale = min(1.0, 2048 / max(width, height, 1))
    scale *= min(1.0, 768 / max(min(width, height) * scale, 1))
    across, down = (math.ceil(round(side * scale, 6) / 512) for side in (width, height))
    return 85 + 170 * across * down


def _anthropic_image(medium: Medium) -> int:
    """Return a token for 750 pixels, 1,600 at most, once its long edge is scaled to 1568.

    Source: Anthropic's guide "Vision". Models since Claude 4.7 read up to 2576 pixels and 4,784 tokens.
    """
    width, height = _size(medium)
    scale = min(1.0, 1568 / max(width, height, 1))
    return min(1_600, math.ceil(round(width * height * scale**2 / 750, 6)))


# Blocks without a `type`: Bedrock's and Gemini's

CONVERSE = ("image", "audio", "document", "video")  # the one field says what a block of Bedrock's is
GEMINI_FIELDS = (("mimeType", "mime_type"), ("data", "data"), ("fileUri", "file_uri"))  # on the wire, and in the SDK
UNTYPED = frozenset((*CONVERSE, *GEMINI_FIELDS[0], *GEMINI_FIELDS[2]))  # fields that blocks without a type have
GEMINI_NAMES = frozenset((*(name for pair in GEMINI_FIELDS for name in pair), "displayName", "display_name"))


def _converse(block: Block) -> Medium | None:
    """Return the medium in a block of Bedrock's; None for a document that holds its text."""
    if len(block) != 1:
        return None
    ((kind, value),) = block.items()
    held = fields_of(value) if kind in CONVERSE else {}
    source = fields_of(held.get("source"))
    if "bytes" not in source and "s3Location" not in source:
        return None
    data = source.get("bytes")
    return Medium(kind, data if isinstance(data, str | bytes) else "", str(held.get("format") or ""))


def _gemini(block: Block) -> Medium | None:
    """Return what Gemini's inline or file data is by its MIME type."""
    if any(value is not None and name not in GEMINI_NAMES for name, value in block.items()):
        return None
    mime, data, address = (block.get(camel) or block.get(snake) for camel, snake in GEMINI_FIELDS)
    data = data if isinstance(mime, str) and isinstance(data, str | bytes) else None
    if data is None and not isinstance(address, str):
        return None
    form = str(mime or "").lower()
    kind = form.partition("/")[0]
    return Medium(kind if kind in CONVERSE else "document", data or "", form)


def _gemini_image(medium: Medium) -> int:
    """Return 258 tokens where both sides have at most 384 pixels, else for each tile.

    A tile is the shorter side divided by 1.5, from 256 to 768 pixels. Sources: "Understand and count tokens" and "Image
    understanding" at ai.google.dev, "Count tokens" of Firebase AI Logic. Gemini 3 goes by `media_resolution` instead.
    """
    width, height = _size(medium)
    tile = 384 if max(width, height) <= 384 else min(max(min(width, height) * 2 // 3, 256), 768)
    return 258 * max(1, math.ceil(width / tile) * math.ceil(height / tile))


# Sound: "Managing costs" of the Realtime API, a token for 100 ms of the user's speech. What a page costs, of which the
# model reads the text and an image, OpenAI does not say. It takes no video: Gemini's rate stands in.
OPENAI = Rules(_openai, _openai_image, page=1_500, audio=10, video=263)
# Pages: "PDF support" names 1,500 to 3,000 tokens of text, and about 7,000 for both text and images of three pages.
# Anthropic takes neither sound nor video: OpenAI's and Gemini's rates stand in.
ANTHROPIC = Rules(_anthropic, _anthropic_image, page=2_333, audio=10, video=263)
BEDROCK = replace(ANTHROPIC, find=_converse)  # which has no rule of its own: it depends on the model
# "Understand and count tokens" and "Document understanding" at ai.google.dev.
GEMINI = Rules(_gemini, _gemini_image, page=258, audio=32, video=263)
APIS = (OPENAI, ANTHROPIC, BEDROCK, GEMINI)
media = OPENAI  # what a format goes by that has no rules of its own


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

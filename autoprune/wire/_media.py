"""Count the tokens of images and other media by the published rules of the API's vendor.

Each API has its `Rules`: how it writes media, and how many tokens they cost. A format's own rules are tried first, then
the rules of the other APIs, so that a block carried over from another API does not count as text.
"""

import base64
import binascii
import math
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote

from autoprune.conversation.messages import fields, fields_of

Block: TypeAlias = Mapping[str, object]
# A format's rules: the tokens of a block that is a medium, given a counter for texts; None for any other block.
Media: TypeAlias = Callable[[Block, Callable[[str], int]], int | None]

# Estimates for media whose size is not known.
UNKNOWN_SIZE = (1024, 1024)  # of an image behind a URL or a file id: the size that vendors use in their examples
SECONDS = 60  # of an audio or video, whose length is not read

PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")  # an object of a PDF
TEXT_FORMS = ("text/", "application/json", "application/xml", "application/yaml", "application/x-yaml")
TEXT_FORMATS = ("txt", "md", "csv", "html")  # Bedrock's


class Medium(NamedTuple):
    """An image, audio, video or document, from any API."""

    kind: str  # "image", "audio", "video" or "document"
    data: str | bytes = ""  # bytes, base64, a data URL or an address; "" if there is an id alone
    form: str = ""  # a MIME type, or a format such as "wav"
    detail: object = None  # OpenAI's


@dataclass(frozen=True)
class Rules:
    """The way one API writes media, and the tokens that media cost. Callable as the `media` of a format."""

    find: Callable[[Block], Medium | None]  # the medium in a block of this API; None for any other block
    image: Callable[[Medium], int]
    page: int  # tokens per page; a document whose pages are unknown counts as one page
    audio: int  # tokens per second
    video: int  # tokens per second

    def __call__(self, block: Block, count: Callable[[str], int]) -> int | None:
        """Count a media block by the rules of the API that defines its shape; return None for any other block."""
        for rules in (self, *APIS):
            if (medium := rules.find(block)) is not None:
                return rules.tokens(medium, count)
        return None

    def tokens(self, medium: Medium, count: Callable[[str], int]) -> int:
        """Count a medium; a document that holds text is counted with `count`."""
        if medium.kind == "image":
            return self.image(medium)
        if medium.kind == "document":
            return self._document_tokens(medium, count)
        return SECONDS * (self.audio if medium.kind == "audio" else self.video)

    def _document_tokens(self, medium: Medium, count: Callable[[str], int]) -> int:
        content = document(medium.data)
        if isinstance(content, bytes) and (medium.form.startswith(TEXT_FORMS) or medium.form in TEXT_FORMATS):
            content = content.decode("utf-8", "replace") or content
        elif isinstance(content, bytes) and not medium.form:
            content = decode_text(content)
        if isinstance(content, str):
            return count(content)
        pages = len(PAGE.findall(content))
        if pages or not content:  # a PDF, or a document behind an id or URL
            return self.page * max(1, pages)
        return min(self.page, len(medium.data))


def find_medium(block: Block) -> Medium | None:
    """Find the medium in a block of any of the APIs; None for any other block."""
    return next((medium for rules in APIS if (medium := rules.find(block)) is not None), None)


def is_media(block: Block) -> bool:
    """Return whether a block is an image, audio, video or document of one of the APIs."""
    kind = block.get("type")
    is_typed = isinstance(kind, str) and (kind in OPENAI_TYPES or kind in ANTHROPIC_TYPES)
    return (is_typed or not UNTYPED.isdisjoint(block)) and find_medium(block) is not None


def _size(medium: Medium) -> tuple[int, int]:
    return image_size(medium.data) or UNKNOWN_SIZE


# Blocks with a `type`: OpenAI's and Anthropic's

OPENAI_TYPES = {
    **dict.fromkeys(("image_url", "input_image", "computer_screenshot", "image"), "image"),
    **dict.fromkeys(("input_audio", "audio_url", "audio"), "audio"),
    **dict.fromkeys(("input_video", "video_url", "video"), "video"),
    **dict.fromkeys(("file", "input_file"), "document"),
}
ANTHROPIC_TYPES = {"image": "image", "document": "document"}
# The fields that may hold a medium. A block with other fields and none of these is no medium, despite its `type`.
DATA = ("data", "bytes", "base64", "file_data", "url", "file_url", "image_url", "image", "uri")
SOURCES = (*DATA, *("source", "file", "file_id", "input_audio", "audio_url", "audio", "video_url", "video", "document"))
BESIDE = frozenset(("type", "id", "name", "title", "context", "citations", "cache_control", "detail", "format"))
TEXTS = ("text", "content")  # fields in which a source holds plain text


def _find_openai(block: Block) -> Medium | None:
    """Find the medium in a block of Chat Completions, Responses or a compatible server."""
    is_anthropic = block.get("type") == "image" and block.get("source") is not None
    return None if is_anthropic else _find_typed(block, OPENAI_TYPES)


def _find_typed(block: Block, types: Mapping[str, str]) -> Medium | None:
    """Find the medium in a block whose `type` names its kind."""
    kind = block.get("type")
    if not isinstance(kind, str) or kind not in types:
        return None
    names = {name for name, value in block.items() if value is not None} - BESIDE
    if names and not any(_is_source(block.get(name)) for name in SOURCES):
        return None
    source = next((inner for name in SOURCES if (inner := fields(block.get(name)))), block)
    named = (*DATA, kind) if kind == "document" else DATA  # `document` may itself be the text
    values = (value for name in named if isinstance(value := source.get(name), str | bytes) and value)
    data = next(values, "")
    form = next((source[name] for name in ("media_type", "mimeType", "mime_type", "format") if source.get(name)), "")
    if isinstance(data, str) and data.startswith("data:"):
        form = data[5:].partition(";")[0] or form
    return Medium(types[kind], data, str(form).lower(), source.get("detail"))


def _is_source(value: object) -> bool:
    """Return whether a value holds a medium's bytes or address, as opposed to the text of a document."""
    if isinstance(value, str | bytes):
        return bool(value)
    members = fields(value)
    if members is None or any(members.get("type") == name or members.get(name) for name in TEXTS):
        return False
    return any(isinstance(members.get(name), str | bytes) for name in SOURCES)


def _openai_image(medium: Medium) -> int:
    """Count 85 tokens, plus 170 per 512-pixel tile after scaling to fit 2048 x 2048 and to a shortest side of 768.

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
    """Count one token per 750 pixels, at most 1,600, after scaling the long edge to 1568.

    Source: Anthropic's guide "Vision". Models since Claude 4.7 read up to 2576 pixels and 4,784 tokens.
    """
    width, height = _size(medium)
    scale = min(1.0, 1568 / max(width, height, 1))
    return min(1_600, math.ceil(round(width * height * scale**2 / 750, 6)))


# Blocks without a `type`: Bedrock's and Gemini's

CONVERSE = ("image", "audio", "document", "video")  # a block of Bedrock's has one field, which names its kind
GEMINI_FIELDS = (("mimeType", "mime_type"), ("data", "data"), ("fileUri", "file_uri"))  # on the wire, and in the SDK
UNTYPED = frozenset((*CONVERSE, *GEMINI_FIELDS[0], *GEMINI_FIELDS[2]))  # fields that blocks without a type have
GEMINI_NAMES = frozenset((*(name for pair in GEMINI_FIELDS for name in pair), "displayName", "display_name"))


def _find_converse(block: Block) -> Medium | None:
    """Find the medium in a Bedrock block; None for a document that holds its text."""
    if len(block) != 1:
        return None
    ((kind, value),) = block.items()
    medium = fields_of(value) if kind in CONVERSE else {}
    source = fields_of(medium.get("source"))
    if "bytes" not in source and "s3Location" not in source:
        return None
    data = source.get("bytes")
    return Medium(kind, data if isinstance(data, str | bytes) else "", str(medium.get("format") or ""))


def _find_gemini(block: Block) -> Medium | None:
    """Find Gemini's inline or file data; its MIME type names the kind."""
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
    """Count 258 tokens if both sides have at most 384 pixels, else 258 per tile.

    A tile's side is the image's shorter side divided by 1.5, from 256 to 768 pixels. Sources: "Understand and count
    tokens" and "Image understanding" at ai.google.dev, "Count tokens" of Firebase AI Logic. Gemini 3 uses
    `media_resolution` instead.
    """
    width, height = _size(medium)
    tile = 384 if max(width, height) <= 384 else min(max(min(width, height) * 2 // 3, 256), 768)
    return 258 * max(1, math.ceil(width / tile) * math.ceil(height / tile))


# Audio: "Managing costs" of the Realtime API, one token per 100 ms of the user's speech. OpenAI does not document the
# cost of a page, of which the model reads the text and an image. It accepts no video, so Gemini's rate is used.
OPENAI = Rules(_find_openai, _openai_image, page=1_500, audio=10, video=263)
# Pages: "PDF support" names 1,500 to 3,000 tokens of text, and about 7,000 for both text and images of three pages.
# Anthropic accepts neither audio nor video, so OpenAI's and Gemini's rates are used.
ANTHROPIC = Rules(partial(_find_typed, types=ANTHROPIC_TYPES), _anthropic_image, page=2_333, audio=10, video=263)
BEDROCK = replace(ANTHROPIC, find=_find_converse)  # Bedrock has no rule, since cost depends on the model
# "Understand and count tokens" and "Document understanding" at ai.google.dev.
GEMINI = Rules(_find_gemini, _gemini_image, page=258, audio=32, video=263)
APIS = (OPENAI, ANTHROPIC, BEDROCK, GEMINI)
media = OPENAI  # the default for formats without rules


HEADER_CHARACTERS = 88_000  # base64 characters that are decoded to find an image's size (JPEG headers can be long)
PDF = b"%PDF"
BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")
LONGEST_ADDRESS = 4_096  # characters
ADDRESSES = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*://\S*|file-\w+)")
ADDRESS = 32  # an address has a colon within its first characters; base64 has none


def decode_bytes(data: str | bytes, most: int | None = None) -> bytes:
    """Decode the first `most` characters of base64 or a data URL. Bytes are only cut; other text decodes to b""."""
    if isinstance(data, bytes):
        return data[:most]
    encoded = data.partition("base64,")[2] if data.startswith("data:") else data
    try:
        return b"" if ":" in encoded[:ADDRESS] else base64.b64decode("".join(encoded[:most].split()) + "===")
    except (binascii.Error, ValueError):
        return b""


def document(data: str | bytes) -> str | bytes:
    """Return the content of a document: bytes, or text if its data are plain text; b"" for an address or an id."""
    if isinstance(data, bytes):
        return data
    if not data or ADDRESSES.fullmatch(data[:LONGEST_ADDRESS]):  # an id alone, or an address
        return b""
    head, _, rest = data.partition(",") if data.startswith("data:") else ("", "", data)
    if head and not head.endswith("base64"):
        return unquote(rest)
    is_base64 = BASE64.fullmatch(rest.replace("\r", "").replace("\n", ""))
    return (is_base64 and decode_bytes(rest)) or data


def decode_text(data: bytes) -> str | bytes:
    """Decode bytes if they are text (UTF-8 without NUL bytes); else return them unchanged."""
    if data.startswith(PDF) or b"\0" in data:
        return data
    try:
        return data.decode() or data
    except UnicodeDecodeError:
        return data


def image_size(address: str | bytes) -> tuple[int, int] | None:
    """Return an image's width and height in pixels, from bytes, a data URL or base64; None if unknown."""
    head = decode_bytes(address, HEADER_CHARACTERS)
    if head[:8] == b"\x89PNG\r\n\x1a\n" and len(head) >= 24:
        return struct.unpack(">II", head[16:24])
    if head[:6] in (b"GIF87a", b"GIF89a") and len(head) >= 10:
        return struct.unpack("<HH", head[6:10])
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _webp_size(head)
    return _jpeg_size(head) if head[:2] == b"\xff\xd8" else None


def _webp_size(head: bytes) -> tuple[int, int] | None:
    """Read the size from the first chunk: lossy (VP8), lossless (VP8L), or extended (VP8X)."""
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
    """Read the size from the first start-of-frame segment (C0 to CF without C4, C8, CC)."""
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

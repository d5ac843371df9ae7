"""Images and other media have the tokens of the provider's rule, whatever their bytes are."""

import base64
import struct
import zlib
from collections.abc import Callable
from urllib.parse import quote

import pytest
from tables import each_row

from autoprune import AgenticConversationPruner, PruneArgs
from autoprune.tokens import exact
from autoprune.wire._media import ANTHROPIC, APIS, BEDROCK, GEMINI, OPENAI, Rules, image_size, is_media


def png(width: int, height: int) -> bytes:
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header)) + b"\x00" * 20


def gif(width: int, height: int, version: bytes = b"GIF89a") -> bytes:
    return version + struct.pack("<HHBBB", width, height, 0xF7, 0, 0) + b"\x00" * 20


def segment(marker: int, data: bytes) -> bytes:
    return bytes((0xFF, marker)) + struct.pack(">H", len(data) + 2) + data


def jpeg(width: int, height: int, frame: int = 0xC0, before: bytes = b"") -> bytes:
    sizes = struct.pack(">BHHB", 8, height, width, 3) + b"\x01\x22\x00\x02\x11\x01\x03\x11\x01"
    return b"\xff\xd8" + segment(0xE0, b"JFIF\x00" + b"\x01" * 9) + before + segment(frame, sizes) + b"\x00" * 20


def bare(data: bytes) -> str:
    return base64.b64encode(data).decode()


def data_url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{bare(data)}"


HUFFMAN_TABLE = segment(0xC4, b"\x00" * 30)  # its marker lies between those of the frames
PHOTO_DATA = segment(0xE1, b"Exif\x00\x00" + b"\x2a" * 60_000)


@each_row("written", [bare, data_url])
@each_row(
    "data",
    [
        png(640, 480),
        png(640, 480) + b"\x00" * 5_000_000,
        gif(640, 480),
        gif(640, 480, b"GIF87a"),
        jpeg(640, 480),
        jpeg(640, 480, frame=0xC2),
        jpeg(640, 480, before=HUFFMAN_TABLE),
        jpeg(640, 480, before=PHOTO_DATA),
    ],
    ids=["png", "large png", "gif89a", "gif87a", "jpeg", "progressive jpeg", "jpeg, table first", "large jpeg header"],
)
def test_the_size_of_an_image_is_read_from_its_header(data: bytes, written: Callable[[bytes], str]):
    assert image_size(written(data)) == (640, 480)


@pytest.mark.parametrize("size", [100, 200_000])
def test_base64_that_is_broken_into_lines_is_read_too(size: int):
    assert image_size(base64.encodebytes(png(640, 480) + b"\x00" * size).decode()) == (640, 480)


@each_row(
    "address",
    [
        "",
        "https://example.com/a.png",
        "http://example.com/a.png",
        "file-abc123",
        "data:image/png,no-base64",
        "data:image/png;base64,",
        "data:image/png;base64,é",
        "data:image/png;base64,iVBORw0KGgo",
        "data:image/png;base64,!!!!",
        data_url(b"RIFF\x00\x00\x00\x00WEBPVP8 "),
        data_url(png(640, 480)[:20]),
        data_url(gif(640, 480)[:8]),
        data_url(jpeg(640, 480)[:12]),
        data_url(b"\xff\xd8"),
        data_url(b"\xff\xd8" + segment(0xD9, b"")),
    ],
)
def test_the_size_is_unknown_if_no_header_has_it(address: str):
    assert image_size(address) is None


def image(width: int, height: int, **options: object) -> dict[str, object]:
    return {"type": "image_url", "image_url": {"url": data_url(png(width, height)), **options}}


# By OpenAI's rule: fit 2048 x 2048, shortest side 768, then 85 tokens and 170 for each tile of 512 pixels.
@each_row(
    ("width", "height", "tokens"),
    [
        (1, 1, 85 + 170),
        (512, 512, 85 + 170),
        (513, 512, 85 + 170 * 2),
        (1024, 1024, 765),  # 768 x 768
        (2048, 4096, 1105),  # 768 x 1536
        (4096, 2048, 1105),
        (1920, 1080, 1105),  # 1365 x 768
        (4096, 8192, 1105),
        (2560, 1280, 1105),  # 1536 x 768, three tiles by two exactly
        (1280, 2560, 1105),
        (8000, 100, 85 + 170 * 4),  # 2048 x 26
    ],
)
def test_openai_counts_a_base_and_tiles(width: int, height: int, tokens: int):
    assert OPENAI(image(width, height), len) == tokens
    assert OPENAI(image(width, height, detail="high"), len) == tokens
    assert OPENAI(image(width, height, detail="low"), len) == 85


def converse(kind: str, data: bytes, form: str = "") -> dict[str, object]:
    return {kind: {"format": form, "source": {"bytes": data}}}


def anthropic(data: bytes, kind: str = "image", form: str = "image/png") -> dict[str, object]:
    return {"type": kind, "source": {"type": "base64", "media_type": form, "data": bare(data)}}


def inline(data: bytes, form: str = "image/png") -> dict[str, object]:
    return {"mimeType": form, "data": bare(data)}  # what a part holds under "inlineData"


# By Anthropic's rule: fit 1568, then width times height by 750, 1,600 at most. The first three stand in its guide.
@each_row(
    ("width", "height", "tokens"),
    [
        (200, 200, 54),
        (1000, 1000, 1334),
        (1092, 1092, 1590),
        (1, 1, 1),
        (750, 1000, 1000),
        (1568, 784, 1_600),
        (1568, 588, 1230),
        (3136, 588, 615),  # 1568 x 294
        (4000, 4000, 1_600),
    ],
)
def test_anthropic_and_bedrock_count_a_token_for_750_pixels(width: int, height: int, tokens: int):
    assert ANTHROPIC(anthropic(png(width, height)), len) == tokens
    assert BEDROCK(converse("image", png(width, height), "png"), len) == tokens


# By Gemini's rule: one tile up to 384 x 384, else tiles of the shorter side by 1.5. 960 x 540 stands in its guide.
@each_row(
    ("width", "height", "tiles"),
    [
        (1, 1, 1),
        (384, 384, 1),
        (385, 384, 4),  # of 256
        (960, 540, 6),  # of 360
        (1024, 1024, 4),  # of 682
        (1536, 1536, 4),  # of 768, the largest
        (1537, 1536, 6),
        (2560, 100, 10),  # of 256, the smallest
    ],
)
def test_gemini_counts_tiles(width: int, height: int, tiles: int):
    assert GEMINI(inline(png(width, height)), len) == 258 * tiles


WIDE = png(2048, 4096)


@each_row(
    ("block", "tokens"),
    [
        ({"type": "image_url", "image_url": {"url": data_url(WIDE)}}, 1105),
        ({"type": "image_url", "image_url": data_url(WIDE)}, 1105),
        ({"type": "input_image", "image_url": data_url(WIDE)}, 1105),
        ({"type": "input_image", "image_url": data_url(WIDE), "detail": "low"}, 85),
        (anthropic(WIDE), 1_600),
        (converse("image", WIDE), 1_600),
        (inline(WIDE), 258 * 18),  # three by six of 768
    ],
    ids=["Chat", "Chat, short", "Responses", "Responses, low detail", "Anthropic", "Bedrock", "Gemini"],
)
def test_a_medium_counts_by_the_api_whose_shape_it_has(block: dict[str, object], tokens: int):
    assert [rules(block, len) for rules in APIS] == [tokens] * len(APIS)


@each_row(("rules", "tokens"), [(OPENAI, 1105), (ANTHROPIC, 1_600), (BEDROCK, 1105), (GEMINI, 1105)])
def test_an_image_of_no_api_counts_as_one_of_the_format_if_it_can_have_that_type(rules: Rules, tokens: int):
    assert rules({"type": "image", "data": bare(WIDE), "mimeType": "image/png"}, len) == tokens


@each_row(
    "block",
    [
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,@@@@@"}},
        {"type": "input_image", "file_id": "file-abc"},
        {"type": "image"},
    ],
)
def test_an_image_that_cannot_be_seen_counts_as_one_of_a_usual_size(block: dict[str, object]):
    assert OPENAI(block, len) == 765


def audio(form: str, size: int) -> dict[str, object]:
    return {"type": "input_audio", "input_audio": {"data": bare(b"\x00" * size), "format": form}}


@each_row(
    ("block", "tokens"),
    [
        (audio("wav", 480_000), 600),
        ({"type": "audio_url", "audio_url": {"url": "https://example.com/a.mp3"}}, 600),  # a minute
        ({"type": "file", "file": {"file_data": "data:application/pdf;base64," + "A" * 1_000_000}}, 1_500),
        ({"type": "input_file", "file_id": "file-abc"}, 1_500),
        ({"type": "document", "source": {"type": "base64", "data": "A" * 1_000_000}}, 2_333),
        ({"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}}, 263 * 60),
        (inline(b"\0" * 480_000, "audio/wav"), 32 * 60),
        (inline(b"\0" * 2_500_000, "video/mp4"), 263 * 60),
    ],
)
def test_sound_and_video_count_as_a_minute_and_a_document_as_a_page(block: dict[str, object], tokens: int):
    assert OPENAI(block, len) == tokens


# In a conversation


def messages(*blocks: dict[str, object]) -> dict[str, list[dict[str, object]]]:
    """A conversation with the blocks in the user's message, and one with them in a tool's result."""
    content = [{"type": "text", "text": "Here it is."}, *blocks]
    call = {"id": "call_1", "type": "function", "function": {"name": "screenshot", "arguments": "{}"}}
    return {
        "user": [{"role": "user", "content": content}],
        "tool": [
            {"role": "user", "content": "What do you see?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": content},
            {"role": "assistant", "content": "A cat."},
        ],
    }


NAMES = sum(map(exact(), ("type", "card", "content")))  # an unknown block's own words
LARGE = png(1024, 1024) + b"\x5a" * 3_000_000


@each_row("place", ["user", "tool"])
@each_row(
    ("block", "tokens"),
    [
        ({"type": "image_url", "image_url": {"url": data_url(LARGE)}}, 765),
        (anthropic(LARGE), 1_399),
        ({"type": "card", "content": [{"type": "image", "data": bare(LARGE)}]}, NAMES + 765),
        (audio("wav", 4_800_000), 600),
        ({"type": "file", "file": {"file_data": "A" * 1_000_000}}, 1_500),
    ],
    ids=["image", "Anthropic image", "image in a block", "audio", "file"],
)
def test_media_count_by_rule_and_not_as_text(place: str, block: dict[str, object], tokens: int):
    count = AgenticConversationPruner(PruneArgs()).count_tokens
    assert count(messages(block)[place]) - count(messages()[place]) == tokens


def webp(chunk: bytes) -> str:
    data = b"RIFF" + (1000).to_bytes(4, "little") + b"WEBP" + chunk
    return base64.b64encode(data + b"\0" * 40).decode()


@pytest.mark.parametrize(
    "chunk",
    [
        b"VP8 " + b"\0" * 4 + b"\0\0\0\x9d\x01\x2a" + (640).to_bytes(2, "little") + (480).to_bytes(2, "little"),
        b"VP8L" + b"\0" * 4 + b"\x2f" + (639 | 479 << 14).to_bytes(4, "little"),
        b"VP8X" + b"\0" * 4 + b"\0" * 4 + (639).to_bytes(3, "little") + (479).to_bytes(3, "little"),
    ],
    ids=["lossy", "lossless", "extended"],
)
def test_the_size_of_a_webp_image_is_read(chunk: bytes):
    assert image_size(webp(chunk)) == (640, 480)
    assert image_size(base64.b64encode(b"RIFF\0\0\0\0WEBP" + chunk[:4]).decode()) is None


# Documents that hold a text, and data that looks like media

WORDS = "a line of a document\n" * 400
PDF = b"%PDF-1.4\n" + b"<< /Type /Page /Parent 1 0 R >>\n" * 7 + b"<< /Type /Pages /Count 7 >>"
TEXT_URL = data_url(WORDS.encode(), "text/plain")


@each_row(
    "block",
    [
        {"type": "document", "text": WORDS},
        {"type": "document", "content": [{"type": "text", "text": WORDS}]},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": WORDS}},
        {"type": "document", "source": {"type": "base64", "media_type": "text/plain", "data": bare(WORDS.encode())}},
        {"type": "document", "document": {"id": "1", "data": {"text": WORDS}}},
        {"type": "file", "file": {"filename": "a.txt", "file_data": TEXT_URL}},
        {"type": "input_file", "filename": "a.txt", "file_data": TEXT_URL},
        {"document": {"format": "txt", "name": "a", "source": {"bytes": WORDS.encode()}}},
        {"document": {"format": "txt", "name": "a", "source": {"text": WORDS}}},
        {"inlineData": {"mimeType": "text/plain", "data": bare(WORDS.encode())}},
        *(
            {"type": "document", name: given}
            for held in (WORDS, bare(WORDS.encode()), WORDS.encode(), f"data:text/plain,{quote(WORDS)}", TEXT_URL)
            for name, given in (
                ("document", {"data": held}),
                ("document", held),
                ("data", held),
                ("source", {"data": held}),
            )
        ),
        {"type": "document", "document": {"data": base64.encodebytes(WORDS.encode()).decode()}},
        {"type": "document", "source": {"type": "base64", "media_type": "text/plain", "data": WORDS}},
        {"type": "file", "file": {"filename": "a.txt", "file_data": WORDS}},
        {"type": "input_file", "filename": "a.txt", "file_data": bare(WORDS.encode())},
        {"document": {"format": "md", "name": "a", "source": {"bytes": WORDS}}},
    ],
    ids=lambda block: "-".join(block),
)
def test_a_document_with_a_text_in_it_is_counted_by_its_text(block: dict[str, object]):
    count = AgenticConversationPruner(PruneArgs()).count_tokens
    counted = count([{"role": "user", "content": [block]}])
    assert 0 <= counted - exact()(WORDS) < 60


@each_row(
    ("data", "tokens"),
    [
        ("https://example.com/a.pdf", 2_333),
        ("s3://bucket/a.pdf", 2_333),
        ("file-abc123", 2_333),
        (bare(PDF), 7 * 2_333),
        (PDF, 7 * 2_333),
        (base64.encodebytes(PDF).decode(), 7 * 2_333),
        (bare(b"PK\x03\x04\xff\x00" * 1_000), 2_333),
        (bare(b"PK\x03\x04\xff\x00"), 8),
    ],
)
def test_a_document_of_no_text_counts_by_its_pages(data: str | bytes, tokens: int):
    assert ANTHROPIC({"type": "document", "document": {"data": data}}, len) == tokens
    assert ANTHROPIC({"type": "document", "source": {"data": data}}, len) == tokens


@each_row(
    ("block", "page"),
    [
        (anthropic(PDF, "document", "application/pdf"), 2_333),
        ({"type": "file", "file": {"file_data": data_url(PDF, "application/pdf")}}, 1_500),
        (converse("document", PDF, "pdf"), 2_333),
        (inline(PDF, "application/pdf"), 258),
    ],
    ids=["Anthropic", "Chat", "Bedrock", "Gemini"],
)
def test_a_document_counts_by_its_pages_if_they_can_be_seen(block: dict[str, object], page: int):
    assert OPENAI(block, len) == 7 * page


@pytest.mark.parametrize(
    "data",
    [
        {"type": "file", "path": "src/a.py", "size": 312},
        {"type": "video", "length": 3},
        {"document": {"source": {"path": "a.md", "line": 3}}},
        {"fileUri": "file:///a.py", "range": [1, 2]},
    ],
)
def test_data_that_is_only_named_like_media_counts_as_data(data: dict[str, object]):
    assert not is_media(data)

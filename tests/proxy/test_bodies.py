"""Requests are decompressed up to a limit, and usage is read from answers however they are split."""

import gzip
import json
import time
import tracemalloc
import zlib
from itertools import pairwise

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples, is_full
from proxy.conftest import body
from tables import each_row

from autoprune.apps.proxy import _bodies
from autoprune.apps.proxy._bodies import MOST_REQUEST, UnreadError, UsageReader, decompress
from autoprune.tokens import prompt_tokens

ANTHROPIC = (
    {
        "type": "message_start",
        "message": {"usage": {"input_tokens": 5, "cache_read_input_tokens": 90, "output_tokens": 1}},
    },
    {"type": "content_block_delta", "delta": {"text": "the word usage\n\ndata: {}"}},
    {"type": "message_delta", "usage": {"output_tokens": 42}},
)
WRITTEN = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 900}
WRITTEN_FIRST = (
    {"type": "message_start", "message": {"usage": {"input_tokens": 5, "cache_creation": WRITTEN}}},
    {"type": "message_delta", "usage": {"output_tokens": 42, "cache_creation": dict.fromkeys(WRITTEN, 0)}},
)
DETAILS = (
    {"response": {"usage": {"input_tokens": 95, "input_tokens_details": {"cache_write_tokens_details": None}}}},
    {"response": {"usage": {"input_tokens_details": {"cache_write_tokens_details": {"ttl_30m_tokens": 7}}}}},
    {"response": {"usage": {"input_tokens_details": {"cached_tokens": 3}}}},
)
CHAT = ({"choices": [], "usage": None}, {"choices": [], "usage": {"prompt_tokens": 95, "completion_tokens": 42}})
RESPONSES = ({"type": "response.completed", "response": {"usage": {"input_tokens": 95, "output_tokens": 42}}},)
GEMINI = (
    {"usageMetadata": {"promptTokenCount": 95}},
    {"usageMetadata": {"promptTokenCount": 95, "candidatesTokenCount": 42}},
)


def events(said: tuple[object, ...]) -> bytes:
    return b"".join(b"event: some\r\ndata: " + json.dumps(each).encode() + b"\r\n\r\n" for each in said)


@pytest.mark.parametrize("said", [ANTHROPIC, CHAT, RESPONSES, GEMINI])
def test_usage_is_read_from_a_stream_however_it_is_split(said: tuple[object, ...]) -> None:
    whole = events(said) + b"data: [DONE]\n\n"

    @examples(15)
    @given(st.lists(st.integers(0, len(whole)), max_size=12), st.sampled_from(["", "gzip", "deflate", "zstd"]))
    def holds(cuts: list[int], encoding: str) -> None:
        data = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstandard.compress}.get(encoding, bytes)(whole)
        reader = UsageReader("text/event-stream; charset=utf-8", encoding)
        places = [0, *sorted(min(each, len(data)) for each in cuts), len(data)]
        for start, stop in pairwise(places):
            reader.feed(data[start:stop])
        assert prompt_tokens(reader.end())[0] == 95

    holds()


@pytest.mark.parametrize(
    ("kind", "encoding", "data"),
    [
        ("application/json", "", b'{"error": {"message": "usage"}}'),
        ("application/json", "", b'{"usage": 7}'),
        ("application/json", "", b"[1, 2"),
        ("text/event-stream", "", b'data: {"usage": ' + b"[" * 100_000 + b"\n\n"),
        ("application/json", "br", b"\x0b\x02\x80"),
        ("application/json", "gzip", b"no gzip"),
        ("text/event-stream", "", b'data: usage\n\ndata: {"usage": [1]}\n\n'),
        ("image/png", "", b'{"usage": {"input_tokens": 1}}'),
        ("application/json", "", b'{"message": ' * 100_000),
    ],
)
def test_answers_without_readable_usage_are_skipped(kind: str, encoding: str, data: bytes) -> None:
    reader = UsageReader(kind, encoding)
    reader.feed(data)
    assert reader.end() == {}


SEARCHED = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("text/event-stream", events((ANTHROPIC[0], {"type": "content_block_start", "content_block": SEARCHED}))),
        ("text/event-stream", events(({"item": {"type": "web_search_call"}}, *RESPONSES))),
        ("application/json", json.dumps({"content": [SEARCHED], "usage": {"input_tokens": 95}}).encode()),
        ("application/json", json.dumps({"output": [{"type": "mcp_call"}], "usage": {"input_tokens": 95}}).encode()),
    ],
)
def test_a_usage_that_adds_up_the_prompts_of_the_providers_own_tools_is_not_used(kind: str, data: bytes) -> None:
    reader = UsageReader(kind, "")
    reader.feed(data)
    assert reader.end() == {}


def test_nested_figures_are_read_and_zeros_do_not_overwrite_them():
    for said, expected in (
        (
            WRITTEN_FIRST,
            {"input_tokens": 5, "output_tokens": 42, "cache_creation": {"ephemeral_1h_input_tokens": 900}},
        ),
        (
            DETAILS,
            {
                "input_tokens": 95,
                "input_tokens_details": {"cache_write_tokens_details": {"ttl_30m_tokens": 7}, "cached_tokens": 3},
            },
        ),
        (({"usage": {"cache_creation": {"ephemeral_1h_input_tokens": 0}}},), {}),
    ):
        stream = UsageReader("text/event-stream", "")
        stream.feed(events(said))
        assert stream.end() == expected


def test_a_long_event_is_joined_once():
    reader, started = UsageReader("text/event-stream", ""), time.process_time()
    for _ in range(500):
        reader.feed(b"=" * 65_536)
    reader.feed(b'\n\ndata: {"usage": {"input_tokens": 95}}\n\n')
    assert time.process_time() - started < 1
    assert reader.end() == {"input_tokens": 95}


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_a_decompression_bomb_is_not_decompressed_completely(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scale = 1 if is_full() else 8
    monkeypatch.setattr(_bodies, "MOST_ANSWER", _bodies.MOST_ANSWER // scale)
    monkeypatch.setattr(_bodies, "SLICE", _bodies.SLICE // scale)
    pack = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstandard.compress}[encoding]
    bomb = pack(b'{"usage": {"input_tokens": 1}, "more": "' + bytes(200_000_000 // scale) + b'"}')
    reader = UsageReader("application/json", encoding)
    tracemalloc.start()
    reader.feed(bomb)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2 * _bodies.MOST_ANSWER
    assert reader.end() == {}


def test_usage_is_found_however_deep_it_is():
    reader = UsageReader("application/json", "")
    reader.feed(b'{"message": ' * 900 + b'{"usage": {"input_tokens": 95}}' + b"}" * 900)
    assert reader.end() == {"input_tokens": 95}


def test_the_name_of_an_encoding_is_case_insensitive():
    reader = UsageReader("application/json", "GZIP")
    reader.feed(gzip.compress(b'{"usage": {"input_tokens": 95}}'))
    assert reader.end() == {"input_tokens": 95}


def test_a_list_of_answers_in_one_body_is_read():
    reader = UsageReader("application/json", "")
    reader.feed(json.dumps(GEMINI).encode())
    assert reader.end() == {"promptTokenCount": 95, "candidatesTokenCount": 42}


# Requests


def test_a_body_of_several_compressed_frames_is_read_completely():
    said = body(3)
    half = len(said) // 2
    for packed in (
        gzip.compress(said),
        gzip.compress(said[:half]) + gzip.compress(said[half:]),
        gzip.compress(said) + gzip.compress(b""),
    ):
        assert decompress(packed, "gzip") == decompress(packed, " X-GZIP") == said
    frames = zstandard.compress(said[:half]) + zstandard.compress(said[half:])
    assert decompress(frames, "zstd") == said
    assert decompress(said, "") == decompress(said, "identity") == said


@each_row(
    "packed, encoding, words",
    [
        (gzip.compress(body(3))[:-4], "gzip", "cannot be decompressed: Compressed file ended before"),
        (gzip.compress(body(3)) + b"more", "gzip", "cannot be decompressed: Not a gzipped file"),
        (gzip.compress(body(3))[:-8] + b"12345678", "gzip", "cannot be decompressed: CRC check failed"),
        (body(3), "gzip", "cannot be decompressed: Not a gzipped file"),
        (body(3), "zstd", "cannot be decompressed: zstd decompress error"),
        (body(3), "br", "'br' is not supported"),
        (body(3), "gzip, gzip", "'gzip, gzip' is not supported"),
        (bytes(MOST_REQUEST + 1), "", "is larger than 32,000,000 bytes"),
        (gzip.compress(bytes(MOST_REQUEST + 1)), "gzip", "is larger than 32,000,000 bytes"),
        (zstandard.compress(bytes(20 * MOST_REQUEST)), "zstd", "is larger than 32,000,000 bytes"),
    ],
)
def test_a_body_that_cannot_be_decompressed_is_not_read(packed: bytes, encoding: str, words: str):
    with pytest.raises(UnreadError, match=words):
        decompress(packed, encoding)


@pytest.mark.parametrize(
    ("message", "window"),
    [
        ("prompt is too long: 205000 tokens > 200000 maximum", 200_000),
        ("input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease them", 200_000),
        ("This model's maximum context length is 128000 tokens. However, you requested 130000 tokens.", 128_000),
        ("This model's maximum prompt length is 131072 but the request contains 137812 tokens.", 131_072),
        ("The input token count (1,200,000) exceeds the maximum number of tokens allowed (1048576).", 1_048_576),
        ("Prompt contains 40000 tokens, too large for model with 32768 maximum context length", 32_768),
        (
            "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 289650 tokens.",
            272_000,
        ),
        ("max_tokens: 70000 > 64000, which is the maximum allowed number of output tokens", None),
        ("Your input exceeds the context window of this model.", None),
    ],
)
def test_the_window_is_read_from_an_error(message: str, window: int | None):
    shapes = {"type": "error", "error": {"message": message}}, {"error": message}, {"message": message}
    for said in (*shapes, [shapes[0]]):
        reader = UsageReader("application/json", "")
        reader.feed(json.dumps(said).encode())
        assert (reader.end(), reader.window) == ({}, window)

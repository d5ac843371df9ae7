"""The usage in an answer is read as it passes, however it is cut into pieces."""

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
from profiles import examples

from autoprune.apps.proxy import _bodies
from autoprune.apps.proxy._bodies import UsageReader
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
def test_a_stream_is_read_however_it_is_cut(said: tuple[object, ...]) -> None:
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
def test_what_says_no_usage_or_cannot_be_read_is_passed_over(kind: str, encoding: str, data: bytes) -> None:
    reader = UsageReader(kind, encoding)
    reader.feed(data)
    assert reader.end() == {}


def test_figures_inside_others_are_read_and_zeros_take_none_of_them_away():
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


def test_a_long_event_is_put_together_once():
    reader, started = UsageReader("text/event-stream", ""), time.process_time()
    for _ in range(500):
        reader.feed(b"=" * 65_536)
    reader.feed(b'\n\ndata: {"usage": {"input_tokens": 95}}\n\n')
    assert time.process_time() - started < 1
    assert reader.end() == {"input_tokens": 95}


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
def test_what_is_too_long_is_not_kept(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bodies, "MOST_ANSWER", 1_000)
    reader = UsageReader(kind, "")
    for piece in (b'data: {"image": "', b"=" * 1_000, b'", "usage": {"input_tokens": 1}}\n\n'):
        reader.feed(piece)
    assert reader.end() == {}


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_an_answer_that_unpacks_to_a_machines_memory_is_not_unpacked_whole(encoding: str) -> None:
    pack = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstandard.compress}[encoding]
    bomb = pack(b'{"usage": {"input_tokens": 1}, "more": "' + bytes(200_000_000) + b'"}')
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


def test_the_name_of_an_encoding_may_be_written_in_capitals():
    reader = UsageReader("application/json", "GZIP")
    reader.feed(gzip.compress(b'{"usage": {"input_tokens": 95}}'))
    assert reader.end() == {"input_tokens": 95}


def test_a_list_of_answers_in_one_body_is_read():
    reader = UsageReader("application/json", "")
    reader.feed(json.dumps(GEMINI).encode())
    assert reader.end() == {"promptTokenCount": 95, "candidatesTokenCount": 42}

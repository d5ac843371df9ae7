"""Bedrock Converse: which blocks are results, how they are cleared, which tokens count, and what never changes."""

import base64
import copy
from typing import Any

import pytest
from tables import each_row

from autoprune import AgenticConversationPruner, PruneArgs, Result
from autoprune.conversation.transcript import Location
from autoprune.pruners.memory import token_bound
from autoprune.tokens import MESSAGE_TOKENS, exact
from autoprune.wire import SHIPPED, bedrock, new_parser

LONG = "a line of output\n" * 200
ASKED = {"role": "user", "content": [{"text": "Look."}]}
DONE = {"role": "assistant", "content": [{"text": "I see."}]}
CACHE_POINT = {"cachePoint": {"type": "default", "ttl": "5m"}}
HEADER = "iVBORw0KGgoAAAANSUhEUgAAAoAAAAHg"  # of a PNG image of 640 x 480 pixels
IMAGE = {"image": {"format": "png", "source": {"bytes": base64.b64decode(HEADER)}}}
PDF = {"document": {"format": "pdf", "name": "Paper", "source": {"bytes": b"%PDF-1.4\n" * 9_000}}}


def use(call_id: str = "tooluse_1", **given: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": call_id, "name": "read_file", "input": given}}


def answer(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [*blocks]}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": [*blocks]}


def result(content: Any, call_id: str = "tooluse_1", **more: Any) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": call_id, "content": content, **more}}


def prune(messages: list[Any], safe_zone: int = 1, **more: Any) -> Result:
    return AgenticConversationPruner(PruneArgs(safe_zone, **more)).prune(messages)


def tokens(message: Any) -> int:
    return new_parser(exact(), formats=(bedrock,)).read(message, 0).tokens


# What becomes of a result

FOUND = {"searchResult": {"source": "a.md", "title": "A", "content": [{"text": LONG}]}}


@pytest.mark.parametrize(
    ("content", "text", "is_plain"),
    [
        ([{"text": "one"}, {"json": {"見": [1]}}], 'one\n{"見": [1]}', True),
        ([{"text": "one"}, IMAGE], "one", False),
        ([FOUND], "", False),
    ],
)
def test_the_text_of_a_result_is_that_of_its_texts_and_json(content: Any, text: str, is_plain: bool):
    (found,) = new_parser(exact()).read(user(result(content)), 0).results
    assert (found.text, found.is_plain) == (text, is_plain)


# Counting


NOTES = {"document": {"format": "txt", "name": "Notes", "source": {"text": "a note"}, "citations": {"enabled": True}}}
PIECES = {"document": {"format": "txt", "name": "Notes", "source": {"content": [{"text": "one"}, {"text": "two"}]}}}
CITED = {"citationsContent": {"content": [{"text": "A claim."}], "citations": [{"title": LONG}]}}
GUARDED = {"guardContent": {"text": {"text": "Only this.", "qualifiers": ["grounding_source"]}}}


@each_row(
    ("block", "counted"),
    [
        ({"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "A" * 900}}}, ["Hm."]),
        (use(path="a.py", lines=[1, 40]), ["read_file", '{"path": "a.py", "lines": [1, 40]}']),
        ({"toolUse": {**use()["toolUse"], "type": "server_tool_use"}}, ["read_file", "{}"]),
        (result([{"json": {"a": [1]}}, {"text": "ok"}], type="x_result", status="success"), ['{"a": [1]}', "ok"]),
        (CACHE_POINT, []),
        (GUARDED, ["Only this."]),
        (CITED, ["A claim."]),
        (NOTES, ["Notes", "a note"]),
        (PIECES, ["Notes", "one", "two"]),
        ({"searchResult": {"source": "a.md", "title": "A", "content": [{"text": "B"}]}}, ["a.md", "A", "B"]),
        ({"hologram": {"depth": 3}}, ["hologram", "depth", "3"]),
        ({"text": "two", "fields": "here"}, ["text", "two", "fields", "here"]),
    ],
)
def test_a_block_counts_only_the_fields_that_the_model_reads(block: dict[str, Any], counted: list[str]):
    assert tokens(answer(block)) == MESSAGE_TOKENS + sum(map(exact(), counted))


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\0" * 90_000


@each_row(
    ("block", "by_rule"),
    [
        ({"image": {"format": "png", "source": {"bytes": png(640, 480)}}}, 410),
        ({"image": {"format": "png", "source": {"bytes": base64.b64encode(png(640, 480)).decode()}}}, 410),
        ({"image": {"format": "webp", "source": {"bytes": b"RIFF"}}}, 1_399),
        ({"image": {"format": "png", "source": {"s3Location": {"uri": "s3://a/b.png"}}}}, 1_399),
        ({"guardContent": {"image": {"format": "png", "source": {"bytes": png(640, 480)}}}}, 410),
        ({"audio": {"format": "wav", "source": {"bytes": b"\0" * 480_000}}}, 10 * 60),
        ({"audio": {"format": "mp3", "source": {"s3Location": {"uri": "s3://a/b.mp3"}}}}, 10 * 60),
        (PDF, 2_333),
        ({"video": {"format": "mp4", "source": {"bytes": b"\0" * 500_000}}}, 263 * 60),
        ({"reasoningContent": {"redactedContent": b"A" * 450}}, 100),
        ({"reasoningContent": {"redactedContent": "A" * 600}}, 100),
    ],
)
def test_media_and_encrypted_texts_count_by_rule(block: dict[str, Any], by_rule: int):
    assert tokens(answer(block)) == MESSAGE_TOKENS + by_rule


def test_results_of_server_tools_are_never_changed():
    asked = {"toolUse": {"toolUseId": "s", "name": "search", "input": {}, "type": "server_tool_use"}}
    found = result([{"text": LONG}], "s", type="web_search_tool_result")
    ours = prune([ASKED, answer(asked, found, {"text": "So it is."}), ASKED, DONE])
    assert (ours.report.rows, ours.report.results_cleared) == ((), 0)
    assert new_parser(exact()).read(answer(asked, use()), 0).calls[0].location == Location((0, "content", 1, "toolUse"))


def test_thinking_is_known_by_its_place():
    thought = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}}
    redacted = {"reasoningContent": {"redactedContent": b"A" * 45}}
    entry = new_parser(exact()).read(answer(thought, {"text": "So."}, redacted, use()), 3)
    found = [(thought.location.path, thought.tokens, thought.is_alone) for thought in entry.thinking]
    assert found == [((3, "content", 0), exact()("Hm."), False), ((3, "content", 2), 10, False)]
    alone = new_parser(exact()).read(answer(thought, redacted, CACHE_POINT), 3)
    assert [thought.is_alone for thought in alone.thinking] == [True, True]


# Which messages are of this format

OURS: dict[str, Any] = {
    "a call": answer(use()),
    "a result": user(result([])),
    "words": user({"text": "ok"}),
    "a picture": user(IMAGE),
    "a document": user(NOTES),
    "reasoning": answer({"reasoningContent": {"redactedContent": b""}}),
    "a cache point": user(CACHE_POINT),
    "guarded words": user(GUARDED),
    "a change of tools": {"role": "system", "content": [{"toolRemoval": {"tool": {"name": "x"}}}]},
    "another": {"role": "system", "content": [{"toolAddition": {"tool": {"name": "x"}}}]},
    "sound": user({"audio": {"format": "wav", "source": {"bytes": b""}}}),
    "a film": user({"video": {"format": "mp4", "source": {"bytes": b""}}}),
}


@each_row("message", OURS.values(), ids=OURS)
def test_only_this_format_sees_a_mark(message: Any):
    assert [known.NAME for known in SHIPPED if known.seen(message)] == ["bedrock"]


ODD: list[Any] = [None, "", "x", 7, 3.5, True, [], {}, (), ("x",), [[["deep"], None], 4], [None], [{5: "x"}]]
ODD += [[{kind: value}] for kind in ("text", "toolUse", "toolResult", "reasoningContent") for value in (None, "x", {})]
ODD += [[use()], [result([{"text": LONG}])], (result([]),), [result([None, 7, "x", {"json": None}, {"text": 5}])]]
ODD += [[{"toolUse": {"toolUseId": 5, "name": None, "input": given}}] for given in ("{}", ["x"])]


@each_row("content", ODD)
@each_row("role", ["system", "user", "assistant", "tool", None, ["user"]])
def test_odd_values_are_counted_and_never_changed(role: Any, content: Any):
    message = {"role": role, "content": content}
    before = copy.deepcopy(message)
    assert tokens(message) >= MESSAGE_TOKENS
    assert tokens(message) <= token_bound(message)
    assert message == before

"""Bedrock Converse: which blocks are results, how they are cleared, which tokens count, and what never changes."""

import base64
import copy
import json
from typing import Any

import botocore.session
import pytest
from anthropic_hypothesis import PIXEL, bedrock_conversations
from botocore.validate import ParamValidator
from conversations import SENTENCE
from hypothesis import given
from profiles import examples
from tables import each_row

from autoprune import AgenticConversationPruner, PruneArgs, Result
from autoprune.conversation.transcript import Location
from autoprune.formats import SHIPPED, bedrock_converse, new_parser
from autoprune.formats._media import BEDROCK, is_media
from autoprune.pruners.memory import token_bound
from autoprune.tokens import MESSAGE_TOKENS, exact

LONG = "a line of output\n" * 200
ASKED = {"role": "user", "content": [{"text": "Look."}]}
DONE = {"role": "assistant", "content": [{"text": "I see."}]}
CACHE_POINT = {"cachePoint": {"type": "default", "ttl": "5m"}}
HEADER = "iVBORw0KGgoAAAANSUhEUgAAAoAAAAHg"  # of a PNG image of 640 x 480 pixels
IMAGE = {"image": {"format": "png", "source": {"bytes": base64.b64decode(HEADER)}}}
PDF = {"document": {"format": "pdf", "name": "Paper", "source": {"bytes": b"%PDF-1.4\n" * 9_000}}}
CHECKED = examples(60)


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


def pruned(*blocks: Any) -> Any:
    """The content of a user's message, which the model has seen, once all that can be cleared is cleared."""
    calls = [use(block["toolResult"]["toolUseId"]) for block in blocks if "toolResult" in block]
    return prune([ASKED, answer(*calls), user(*blocks), DONE]).conversation[2]["content"]


def tokens(message: Any) -> int:
    return new_parser(exact(), formats=(bedrock_converse,)).read(message, 0).tokens


# What becomes of a result

CLEARED = [{"text": SENTENCE}]
FOUND = {"searchResult": {"source": "a.md", "title": "A", "content": [{"text": LONG}]}}


@each_row(
    "content",
    [
        *([{"text": LONG}], [{"text": LONG}, {"text": "the end"}], [{"json": {"rows": [LONG]}}], [{"json": [LONG]}]),
        *([IMAGE], [{"text": "A picture."}, IMAGE], [PDF], [FOUND], [{"text": "ok"}, FOUND]),
        *([{"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://a/b.mp4"}}}}], [{"hologram": LONG}]),
    ],
)
def test_a_result_becomes_the_placeholder_in_a_block_of_text(content: Any):
    assert pruned(result(content)) == [result(CLEARED)]


@each_row("content", [[], [{"text": "ok"}], [{"text": ""}], [{"json": {"ok": True}}], None, 7, {"text": LONG}, CLEARED])
def test_a_result_that_is_short_or_holds_no_text_is_left_alone(content: Any):
    messages = [ASKED, answer(use()), user(result(content)), DONE]
    assert prune(messages).conversation is messages


def test_a_result_without_a_content_is_left_alone():
    messages = [ASKED, answer(use()), user({"toolResult": {"toolUseId": "tooluse_1"}}), DONE]
    assert prune(messages).conversation is messages
    statistics = AgenticConversationPruner(PruneArgs(1)).get_cleanup_statistics
    assert statistics(messages, messages[:3])["messages_removed"] == 1


@pytest.mark.parametrize(
    ("more", "failed"),
    [({"status": "error"}, True), ({"status": "success"}, False), ({}, None), ({"status": ["error"]}, None)],
)
def test_a_failed_result_stays_failed_when_it_is_cleared(more: dict[str, Any], failed: bool | None):
    assert pruned(result([{"text": LONG}], **more)) == [result(CLEARED, **more)]
    (row,) = prune([ASKED, answer(use()), user(result([{"text": LONG}], **more)), DONE]).report.rows
    assert row["failed"] is failed


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


def test_only_the_payload_changes_in_a_whole_conversation():
    thought = {"reasoningContent": {"reasoningText": {"text": "Where is it?", "signature": "c2ln"}}}
    late = [result([{"json": {"rows": [LONG]}}], "b", status="error"), result([{"text": LONG}], "a", type="x")]
    messages = [
        ASKED,
        answer(thought, {"text": "I look."}, use("a", path="a.py"), use("b", path="b.py"), CACHE_POINT),
        user(*late, CACHE_POINT, {"text": "Be quick."}, CACHE_POINT),
        answer(use("c", path="c.py")),
        user(result([{"text": LONG}], "c")),
    ]
    before = copy.deepcopy(messages)
    after = prune(messages).conversation
    cleared = [result(CLEARED, "b", status="error"), result(CLEARED, "a", type="x")]
    wanted = [*messages[:2], user(*cleared, CACHE_POINT, {"text": "Be quick."}, CACHE_POINT), *messages[3:]]
    assert messages == before
    assert json.dumps(after) == json.dumps(wanted)
    assert [new is old for new, old in zip(after, messages, strict=True)] == [True, True, False, True, True]
    assert all(new is old for new, old in zip(after[2]["content"][2:], messages[2]["content"][2:], strict=True))


def test_the_arguments_of_a_call_have_a_place():
    given = {"path": "a.py", "content": "x = 1\n"}
    (call,) = new_parser(exact(), wants_inputs=True).read(answer({"text": "Now."}, use(**given)), 4).calls
    (part,) = call.inputs
    assert (call.location, call.id, call.name) == (Location((4, "content", 1, "toolUse")), "tooluse_1", "read_file")
    assert (part.location, part.is_json) == (Location((4, "content", 1, "toolUse", "input")), True)
    assert part.text == json.dumps(given)


def test_xml_results_beside_native_ones_are_found():
    element = f"<tool_result tool_name='read_file' success='true'>{LONG}</tool_result>"
    call = {"text": "<read_file>\n<path>c.py</path>\n</read_file>"}
    messages = [ASKED, answer(call, use()), user(result([{"text": LONG}]), {"text": f"Here:\n{element}"}), DONE]
    ours = prune(messages)
    native, said = ours.conversation[2]["content"]
    assert native == result(CLEARED)
    assert said["text"].startswith(
        "Here:\n<tool_result tool_name='read_file' success='true'>\n<message>Content cleared"
    )
    assert [row["target"] for row in ours.report.rows] == ["", "c.py"]


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


@each_row(("kind", "tokens"), [("image", 1_399), ("audio", 10 * 60), ("video", 263 * 60), ("document", 2_333)])
def test_a_block_is_media_by_its_one_field(kind: str, tokens: int):
    source = {"source": {"bytes": b""}}
    assert is_media({kind: source})
    assert BEDROCK({kind: source}, len) == tokens


@each_row(
    "block",
    [
        *({"image": {}}, {"image": "https://example.com/a.png"}, {"image": {"source": None}}, {"text": {"source": {}}}),
        *({"image": {"source": {"bytes": b""}}, "more": 1}, NOTES, PIECES, {5: {"source": {"bytes": b""}}}),
    ],
)
def test_any_other_block_is_none(block: Any):
    assert not is_media(block)


@each_row(
    ("blocks", "frames", "words"),
    [
        ([], 1, 0),
        ([CACHE_POINT], 1, 0),
        ([{"text": "a"}, {"text": "a"}, CACHE_POINT], 1, 2),
        ([result([{"text": "a"}])], 1, 1),
        ([result([{"text": "a"}]), result([{"text": "a"}]), CACHE_POINT], 2, 2),
        ([result([{"text": "a"}]), {"text": "a"}, {"text": "a"}], 2, 3),
    ],
)
def test_each_result_has_a_frame_and_all_else_together_one(blocks: list[Any], frames: int, words: int):
    assert tokens(user(*blocks)) == frames * MESSAGE_TOKENS + words


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
OTHERS: dict[str, Any] = {
    "words": {"role": "user", "content": "ok"},
    "blocks of text": user({"type": "text", "text": "ok"}),
    "Anthropic's call": answer({"type": "tool_use", "id": "c", "name": "f", "input": {}}),
    "Anthropic's image": user({"type": "image", "source": {"type": "base64", "data": PIXEL}}),
    "OpenAI's image": user({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}),
    "OpenAI's result": {"role": "tool", "tool_call_id": "c", "content": [{"text": "ok"}]},
    "Responses": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]},
    "Gemini": {"role": "user", "parts": [{"text": "ok"}]},
    "Gemini's file": {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": PIXEL}}]},
    "an image by its address": user({"image": "https://example.com/a.png"}),
    "odd blocks": user(None, 7, "x", {}, {"text": None}, {"toolUse": None}, {5: "x"}, [{"text": "x"}]),
    "no list": {"role": "user", "content": {"text": "x"}},
    "no role": {"content": [{"text": "x"}]},
}


@each_row("message", OURS.values(), ids=OURS)
def test_only_this_format_sees_a_mark(message: Any):
    assert [known.NAME for known in SHIPPED if known.seen(message)] == ["bedrock"]


@each_row("message", OTHERS.values(), ids=OTHERS)
def test_a_message_of_another_format_shows_no_mark_of_this_one(message: Any):
    assert bedrock_converse.seen(message) is None


def test_a_mark_is_said_in_words():
    assert bedrock_converse.seen(answer(None, use())) == "a block with the one field 'toolUse'"


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


# Over generated conversations

REQUEST = botocore.session.get_session().get_service_model("bedrock-runtime").operation_model("Converse").input_shape


def broken_rules(messages: list[Any]) -> str:
    """The errors that botocore's service model and the API's rules find in a conversation."""
    found = str(ParamValidator().validate({"modelId": "m", "messages": messages}, REQUEST).generate_report())
    contents = [message["content"] for message in messages]
    if any(message["role"] != ("user", "assistant")[at % 2] for at, message in enumerate(messages)):
        found += "roles do not alternate; "
    if any(not block["text"].strip() for content in contents for block in content if "text" in block):
        found += "a text is blank; "
    for before, after in zip([[], *contents], [*contents, []], strict=True):
        calls = sorted(block["toolUse"]["toolUseId"] for block in before if "toolUse" in block)
        answered = sorted(block["toolResult"]["toolUseId"] for block in after if "toolResult" in block)
        found += f"{calls} are answered by {answered}; " if calls != answered else ""
    return found


@CHECKED
@given(messages=bedrock_conversations())
def test_a_valid_conversation_stays_valid_when_pruned(messages: list[Any]):
    before = copy.deepcopy(messages)
    assert broken_rules(messages) == ""
    ours = prune(messages)
    assert broken_rules(ours.conversation) == ""
    assert messages == before
    assert prune(ours.conversation).conversation is ours.conversation
    assert AgenticConversationPruner(None).count_tokens(ours.conversation) == ours.report.tokens_after


@CHECKED
@given(messages=bedrock_conversations())
def test_no_message_has_more_tokens_than_its_bound(messages: list[Any]):
    for message in messages:
        assert new_parser(exact()).read(message, 0).tokens <= token_bound(message)


@CHECKED
@given(messages=bedrock_conversations(with_bytes=False))
def test_conversations_without_bytes_are_json(messages: list[Any]):
    assert json.loads(json.dumps(messages)) == messages

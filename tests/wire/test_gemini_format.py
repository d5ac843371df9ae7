"""Gemini contents: which parts are responses, how they are cleared, which tokens count, and what never changes."""

import base64
import copy
from typing import Any

import pytest
from conversations import SENTENCE
from gemini_responses_hypothesis import PIXEL, SIGNATURE, sdk, snake
from google.genai import types
from tables import each_row

from autoprune import AgenticConversationPruner, Clamp, ConversationError, PruneArgs, Result
from autoprune.strategies import LowWater
from autoprune.tokens import MESSAGE_TOKENS, exact
from autoprune.wire import gemini, new_parser

LONG = "a line of output\n" * 200
ASKED = {"role": "user", "parts": [{"text": "Look."}]}
DONE = {"role": "model", "parts": [{"text": "I see."}]}
IMAGE = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
PIXEL_TOKENS = 258


def call(name: str = "read", given: Any = None, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": given or {}, **more}}


def response(held: Any, name: str = "read", **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": held, **more}}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": [*parts]}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": [*parts]}


def prune(contents: list[Any], safe_zone: int = 1) -> Result:
    return AgenticConversationPruner(PruneArgs(safe_zone)).prune(contents)


def around(held: Any, **more: Any) -> list[dict[str, Any]]:
    """A conversation with one response, which the model has seen."""
    return [ASKED, model(call()), user(response(held, **more)), DONE]


def tokens(content: Any) -> int:
    return new_parser(exact(), formats=(gemini,)).read(content, 0).tokens


# What becomes of a response


@each_row(
    ("held", "becomes"),
    [
        ({"output": LONG}, {"output": SENTENCE}),
        ({"result": LONG}, {"result": SENTENCE}),
        ({"content": LONG}, {"content": SENTENCE}),
        ({"error": LONG}, {"error": SENTENCE}),
        ({"page": LONG}, {"output": SENTENCE}),
        ({"stdout": LONG, "exit_code": 0}, {"output": SENTENCE}),
        ({"output": LONG, "error": None}, {"output": SENTENCE}),
        ({"output": [LONG]}, {"output": SENTENCE}),
        ({"output": LONG, "error": "exit status 1"}, {"error": SENTENCE}),
        ({"error": {"code": 7, "message": LONG}}, {"error": SENTENCE}),
        ({"content": [{"type": "text", "text": LONG}]}, {"output": SENTENCE}),
        ({"content": [{"type": "text", "text": LONG}], "isError": True}, {"error": SENTENCE}),
    ],
)
@each_row("style", [copy.deepcopy, snake, sdk])
def test_a_response_stays_an_object_with_the_placeholder_in_it(style: Any, held: Any, becomes: Any):
    contents = [style(content) for content in around(held)]
    assert prune(contents).conversation == [style(content) for content in around(becomes)]


@each_row(
    ("held", "failed"),
    [
        ({"error": LONG}, True),
        ({"error": {"code": 7, "message": LONG}}, True),
        ({"content": LONG, "isError": True}, True),
        ({"output": LONG}, None),
        ({"output": LONG, "error": ""}, None),
        ({"content": LONG, "isError": False}, None),
    ],
)
def test_a_failed_response_stays_failed_when_it_is_cleared(held: Any, failed: bool | None):
    before = prune(around(held))
    after = prune(before.conversation)
    assert [result.report.rows[0]["failed"] for result in (before, after)] == [failed, failed]
    assert (before.report.rows[0]["cleared"], after.report.rows[0]["cleared"]) == (True, False)


FILE = {"fileData": {"mimeType": "application/pdf", "fileUri": "https://example.com/a.pdf"}}


@each_row(
    ("held", "becomes"),
    [
        ({"output": LONG}, {"output": SENTENCE}),
        ({"output": "ok"}, {"output": SENTENCE}),
        ({"error": ""}, {"error": SENTENCE}),
        ({}, {"output": SENTENCE}),
        ({"image": {"$ref": "a.png"}}, {"output": SENTENCE}),
    ],
)
@each_row("media", [[IMAGE], [FILE], [IMAGE, FILE]])
@each_row("style", [copy.deepcopy, snake, sdk])
def test_media_beside_a_payload_go_with_it(style: Any, media: Any, held: Any, becomes: Any):
    contents = [style(content) for content in around(held, id="x", parts=media)]
    before = copy.deepcopy(contents)
    pruner = AgenticConversationPruner(PruneArgs(1))
    result = pruner.prune(contents, validate=True)
    assert result.conversation == [style(content) for content in around(becomes, id="x")]
    assert contents == before
    assert [type(content) for content in result.conversation] == [type(content) for content in contents]
    assert pruner.count_tokens(result.conversation) == result.report.tokens_after
    figures = pruner.get_cleanup_statistics(contents, result.conversation)
    assert (figures["tool_results_cleaned"], figures["messages_removed"]) == (1, 0)
    again = pruner.prune(result.conversation)
    assert again.conversation is result.conversation
    assert [row["reason"] for row in again.report.rows] == ["already_cleared"]


@pytest.mark.parametrize(
    ("held", "more"),
    [(None, {"parts": [IMAGE]}), (LONG, {"parts": [IMAGE]}), ({"output": "ok"}, {"parts": []}), ({}, {"parts": "x"})],
)
def test_media_stay_beside_a_payload_that_is_not_cleared(held: Any, more: Any):
    contents = around(held, **more)
    assert prune(contents).conversation is contents


def test_a_giant_with_media_beside_it_is_not_cut():
    """What is cut would no longer say what the media are."""
    plain, beside = around({"output": LONG}), around({"output": LONG}, parts=[IMAGE])
    pruner = AgenticConversationPruner(PruneArgs(100_000))
    strategy = LowWater(clamp=Clamp(max_result_tokens=100))
    assert pruner.prune(plain, strategy).report.results_clamped == 1
    assert pruner.prune_conversations(beside, strategy) is beside


@pytest.mark.parametrize("style", [copy.deepcopy, snake, sdk])
def test_statistics_know_a_cleared_response_by_its_name_and_id(style: Any):
    held: Any = {"parts": [IMAGE]}
    rounds = [
        [model(call(name, id=name)), user(response({"page": LONG}, name, id=name, **held))]
        for name in ("read", "run", "list")
    ]
    before = [style(content) for content in [ASKED, *rounds[0], *rounds[1], *rounds[2], DONE]]
    kept = [ASKED, *rounds[0], rounds[2][0], user(response({"output": "gone"}, "list", id="list")), DONE]
    figures = AgenticConversationPruner(PruneArgs(1)).get_cleanup_statistics(before, [style(one) for one in kept])
    names = ("tool_results_cleaned", "messages_removed", "messages_summarized")
    assert [figures[name] for name in names] == [1, 2, 0]


def test_sdk_objects_stay_sdk_objects():
    asked = types.UserContent(parts=[types.Part(text="Look.")])
    part = types.Part(function_call=types.FunctionCall(name="read", args={"path": "a.py"}), thought_signature=b"signed")
    answer = types.Content(
        role="user", parts=[types.Part.from_function_response(name="read", response={"result": LONG})]
    )
    contents = [
        asked,
        types.Content(role="model", parts=[part]),
        answer,
        types.ModelContent(parts=[types.Part(text="So.")]),
    ]
    after = prune(contents).conversation
    assert [type(content) for content in after] == [type(content) for content in contents]
    assert [new is old for new, old in zip(after, contents, strict=True)] == [True, True, False, True]
    assert after[2] == types.Content(
        role="user", parts=[types.Part.from_function_response(name="read", response={"result": SENTENCE})]
    )
    answered = {"function_response": {"name": "read", "response": {"result": SENTENCE}}}
    assert after[2].model_dump(exclude_none=True) == {"role": "user", "parts": [answered]}
    assert answer.parts[0].function_response.response == {"result": LONG}


# Which call made it


@each_row(
    ("calls", "answers", "targets"),
    [
        ((("read", "x"), ("read", "y")), (("read", "y"), ("read", "x")), ["1", "0"]),
        ((("read", "x"), ("read", "y")), (("read", None), ("read", None)), ["0", "1"]),
        (
            (("read", None), ("run", None), ("read", None)),
            (("run", None), ("read", None), ("read", None)),
            ["1", "0", "2"],
        ),
        ((("read", None), ("read", None)), (("read", "x"), ("read", "y")), ["0", "1"]),
        ((("read", "x"), ("read", "y")), (("read", "y"), ("read", None)), ["1", "0"]),
        ((("read", "x"),), (("read", "z"),), [""]),
        ((("read", None),), (("run", None),), [""]),
    ],
    ids=[
        "by id",
        "calls alone have ids",
        "by name",
        "answers alone have ids",
        "one has none",
        "another id",
        "another name",
    ],
)
def test_a_response_is_that_of_the_call_with_its_id_or_else_the_first_open_one_of_its_name(
    calls: Any, answers: Any, targets: list[str]
):
    asked = [call(name, {"path": str(at)}, **({"id": id} if id else {})) for at, (name, id) in enumerate(calls)]
    told = [response({"output": LONG}, name, **({"id": id} if id else {})) for name, id in answers]
    rows = prune([ASKED, model(*asked), user(*told), DONE]).report.rows
    assert [row["target"] for row in rows] == targets
    assert [row["tool"] for row in rows] == [name for name, _ in answers]


def test_the_call_of_an_abandoned_round_is_not_that_of_a_later_answer():
    contents = [ASKED, model(call("read", {"path": "old"})), ASKED, model(call("read", {"path": "new"}))]
    rows = prune([*contents, user(response({"output": LONG})), DONE]).report.rows
    assert [row["target"] for row in rows] == ["new"]


# Counting


def cleared(messages: list[Any], safe_zone: int) -> list[bool]:
    return [bool(row["cleared"]) for row in prune(messages, safe_zone).report.rows]


@each_row(
    ("part", "texts"),
    [
        ({"text": "I think.", "thought": True, "thoughtSignature": SIGNATURE}, ["I think."]),
        ({"text": "", "thoughtSignature": SIGNATURE}, []),
        ({"executableCode": {"code": "print(1)", "language": "PYTHON"}}, ["print(1)"]),
        ({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "one"}}, ["one"]),
        ({"toolCall": {"id": "x", "toolType": "URL_CONTEXT", "args": {"url": "a.io"}}}, ["url", "a.io"]),
        ({"toolResponse": {"id": "x", "toolType": "URL_CONTEXT", "response": {"page": "text"}}}, ["page", "text"]),
        ({"functionCall": {"name": "read", "id": "call_12345"}}, ["read"]),
        ({"functionCall": {"name": "read", "args": {"path": "a.py"}}}, ["read", '{"path": "a.py"}']),
    ],
)
@each_row("style", [copy.deepcopy, snake, sdk])
def test_only_the_fields_of_a_part_that_the_model_reads_are_counted(style: Any, part: Any, texts: list[str]):
    assert tokens(style(model(part))) == MESSAGE_TOKENS + sum(map(exact(), texts))


WAV = base64.b64encode(b"\0" * 480_000).decode()  # ten seconds


@each_row(
    ("part", "expected"),
    [
        (IMAGE, PIXEL_TOKENS),
        ({"inlineData": {"mimeType": "image/webp", "data": "A" * 9_000}}, 258 * 4),
        ({"inlineData": {"mimeType": "audio/wav", "data": WAV}}, 32 * 60),
        ({"inlineData": {"mimeType": "application/pdf", "data": WAV, "displayName": "a.pdf"}}, 258),
        ({"fileData": {"mimeType": "image/png", "fileUri": "https://example.com/a.png"}}, 258 * 4),
        ({"fileData": {"mimeType": "audio/wav", "fileUri": "https://example.com/a.wav"}}, 32 * 60),
        ({"fileData": {"fileUri": "https://example.com/a"}, "videoMetadata": {"fps": 1.0}}, 258),
        ({"fileData": {"mimeType": "video/mp4", "fileUri": "https://example.com/a.mp4"}}, 263 * 60),
    ],
)
@each_row("style", [copy.deepcopy, snake, sdk])
def test_media_count_by_rule_in_a_content_and_beside_a_response(style: Any, part: Any, expected: int):
    alone, said = style(user(part)), style(user({"text": "See:"}, part))
    assert (tokens(alone), tokens(said)) == (MESSAGE_TOKENS + expected, tokens(user({"text": "See:"})) + expected)
    beside = {name: value for name, value in part.items() if name != "videoMetadata"}
    answer = style(user(response({"output": "ok"}, parts=[beside])))
    assert tokens(answer) == MESSAGE_TOKENS + exact()("ok") + expected


# Odd contents


ODD_PARTS: list[Any] = [
    *({"mystery": {"a": [1, "b"]}, "text": "x"}, {"text": None}, {"text": 7}, {"functionCall": None}, "words"),
    *({"functionCall": "x"}, {"functionCall": {}}, {"functionCall": {"name": 7, "args": "x"}}, {"inlineData": "x"}),
    *(
        {"functionResponse": {}},
        {"functionResponse": [1]},
        {"functionResponse": {"name": 7, "response": {"output": 1}}},
    ),
    *(
        {"inlineData": {"data": None}},
        {"executableCode": 7},
        {"functionResponse": {"response": {}, "parts": [None, 7]}},
    ),
]


@each_row("part", ODD_PARTS)
@each_row("role", ["user", "model", "function", None, "observer"])
def test_odd_parts_are_counted_and_given_back_as_they_were(role: Any, part: Any):
    contents = [ASKED, {"role": role, "parts": [part, {"text": "x"}]}, DONE]
    before = copy.deepcopy(contents)
    for safe_zone in (1, 100_000):
        assert prune(contents, safe_zone).conversation is contents
    assert contents == before
    assert tokens(contents[1]) > 0


@each_row("parts", [None, [], 7, "words", [None], [7], [[1]], {"text": "x"}])
def test_parts_that_are_none_do_not_crash_if_the_format_is_named(parts: Any):
    assert tokens({"role": "user", "parts": parts}) >= MESSAGE_TOKENS


def test_a_response_nested_too_deep_for_json_is_counted_and_left_alone():
    deep: Any = "x" * 900
    for _ in range(150_000):
        deep = [deep]
    contents = around({"output": deep})
    assert prune(contents).conversation is contents


# Which format it is


@pytest.mark.parametrize("stray", ["words", types.Part(text="words"), {"text": "words"}])
def test_an_error_names_the_place_of_a_value_that_is_no_content(stray: Any):
    with pytest.raises(ConversationError, match=r"message 1 (is str|has no 'role')"):
        prune([ASKED, stray])


# All conversations


def plain(content: Any) -> Any:
    return content.model_dump(mode="json", exclude_none=True) if isinstance(content, types.Content) else content

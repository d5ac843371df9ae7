"""OpenAI Responses: which items are results, how they are cleared, which tokens count, and what never changes."""

import copy
import json
from typing import Any

import pytest
from conversations import SENTENCE
from gemini_responses_hypothesis import ITEMS, PICTURE, PIXEL, SIGNATURE
from pydantic import BaseModel
from tables import each_row

from autoprune import AgenticConversationPruner, ConversationError, PruneArgs, Result
from autoprune.apps.sessions import load
from autoprune.conversation.transcript import Speaker
from autoprune.pruners.history import prefix_digests
from autoprune.tokens import MESSAGE_TOKENS, exact
from autoprune.wire import SHIPPED, new_parser, responses
from autoprune.wire._parts import encrypted_tokens

LONG = "a line of output\n" * 200
ASKED = {"role": "user", "content": "Look."}
SAID = {"type": "output_text", "text": "I see.", "annotations": []}
DONE = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [SAID]}
CALL = {"type": "function_call", "call_id": "x", "name": "read", "arguments": '{"path": "a.py"}'}
OUTPUT = {"type": "function_call_output", "call_id": "x", "output": LONG}
CACHED = {"prompt_cache_breakpoint": {"mode": "explicit"}}
SHOT = {"type": "computer_screenshot", "image_url": "https://example.com/a.png"}
PIXEL_TOKENS = 85 + 170


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "input_text", "text": words, **more}


def chunk(out: str, err: str = "", **outcome: Any) -> dict[str, Any]:
    return {"stdout": out, "stderr": err, "outcome": outcome or {"type": "exit", "exit_code": 0}}


def prune(items: list[Any], safe_zone: int = 1) -> Result:
    return AgenticConversationPruner(PruneArgs(safe_zone)).prune(items)


def pruned(item: dict[str, Any]) -> Any:
    """An output that the model has seen, after everything that can be cleared was cleared."""
    return prune([ASKED, {**CALL, "type": item["type"].removesuffix("_output")}, item, DONE]).conversation[2]


def tokens(item: Any, *before: Any) -> int:
    """The tokens that an item adds."""
    parser = new_parser(exact(), formats=(responses,))
    return [parser.read(one, at) for at, one in enumerate([*before, item])][-1].tokens


# What becomes of an output

FAILED, TIMEOUT = {"type": "exit", "exit_code": 2}, {"type": "timeout"}
CLEARED = [text(SENTENCE)]


@each_row(
    ("kind", "output", "becomes"),
    [
        ("function_call_output", LONG, SENTENCE),
        ("function_call_output", [text(LONG)], CLEARED),
        ("function_call_output", [text(LONG), text("the end")], CLEARED),
        ("function_call_output", [text("first", **CACHED), text(LONG)], [text(SENTENCE, **CACHED)]),
        ("function_call_output", [PICTURE | {"detail": "high"}], CLEARED),
        ("function_call_output", [{"type": "input_file", "file_id": "file_1"}, text("ok")], CLEARED),
        ("function_call_output", [{"type": "hologram", "data": LONG}], CLEARED),
        ("custom_tool_call_output", LONG, SENTENCE),
        ("custom_tool_call_output", [text(LONG)], CLEARED),
        ("local_shell_call_output", LONG, SENTENCE),
        ("apply_patch_call_output", LONG, SENTENCE),
        ("shell_call_output", [chunk(LONG)], [chunk(SENTENCE)]),
        ("shell_call_output", [chunk("", LONG, **FAILED)], [chunk(SENTENCE, **FAILED)]),
        ("shell_call_output", [chunk(LONG), chunk("", LONG, **TIMEOUT)], [chunk(SENTENCE, **TIMEOUT)]),
        ("shell_call_output", [chunk(LONG, **FAILED), chunk(LONG)], [chunk(SENTENCE, **FAILED)]),
    ],
)
def test_an_output_becomes_the_placeholder_in_the_shape_that_it_had(kind: str, output: Any, becomes: Any):
    item = {"type": kind, "call_id": "x", "output": output, "id": "o_1", "status": "completed", "x_note": [1]}
    assert pruned(item) == {**item, "output": becomes}


@each_row(
    ("kind", "output"),
    [
        *(
            ("function_call_output", output)
            for output in ("ok", "", [], None, 7, {"rows": LONG}, [text("ok")], CLEARED)
        ),
        *(
            ("shell_call_output", output)
            for output in ([], [chunk("")], [chunk("ok", "")], [chunk(SENTENCE)], [LONG], None)
        ),
        *(("apply_patch_call_output", output) for output in (None, "Done.")),
        ("computer_call_output", SHOT),
        ("shell_call_output", [{"stdout": LONG}]),
    ],
)
def test_an_output_that_is_short_or_no_text_is_left_alone(kind: str, output: Any):
    items = [
        ASKED,
        {**CALL, "type": kind.removesuffix("_output")},
        {"type": kind, "call_id": "x", "output": output},
        DONE,
    ]
    result = prune(items)
    assert result.conversation is items
    assert len(result.report.rows) == 1


MCP = {"type": "mcp_call", "id": "mcp_1", "server_label": "files", "name": "read", "arguments": '{"path": "a.py"}'}


def test_the_result_of_a_providers_call_is_cleared_inside_the_call():
    item = {**MCP, "output": LONG, "error": None, "status": "completed"}
    items = [ASKED, item, DONE, ASKED, DONE]
    result = prune(items)
    assert result.conversation == [ASKED, {**item, "output": SENTENCE}, DONE, ASKED, DONE]
    assert [(row["tool"], row["target"], row["request"]) for row in result.report.rows] == [("read", "a.py", 0)]
    assert prune(items[:4]).conversation == items[:4]  # the next request is the first that is sent the output


@each_row(
    ("item", "failed"),
    [
        ({"type": "apply_patch_call_output", "status": "failed", "output": LONG}, True),
        ({"type": "apply_patch_call_output", "status": "completed", "output": LONG}, False),
        ({"type": "shell_call_output", "output": [chunk(LONG)]}, False),
        ({"type": "shell_call_output", "output": [chunk(LONG, **FAILED)]}, True),
        ({"type": "shell_call_output", "output": [chunk(LONG, **FAILED), chunk("ok")]}, True),
        ({"type": "shell_call_output", "output": [chunk(LONG, **TIMEOUT)]}, True),
        ({"type": "shell_call_output", "output": [chunk(LONG) | {"outcome": None}]}, None),
        ({**MCP, "output": LONG, "status": "failed"}, True),
        ({**MCP, "output": LONG, "status": "completed"}, False),
        ({**MCP, "output": LONG, "error": {"type": "http_error", "code": 500, "message": "down"}}, True),
        ({**MCP, "output": LONG, "error": "", "status": "completed"}, True),
        ({"type": "function_call_output", "output": LONG, "status": "completed"}, None),
        ({"type": "custom_tool_call_output", "output": LONG, "status": "incomplete"}, None),
    ],
)
def test_a_failed_output_stays_failed_when_it_is_cleared(item: dict[str, Any], failed: bool | None):
    before = prune([ASKED, {"call_id": "x", **item}, ASKED, DONE])
    after = prune(before.conversation)
    assert [result.report.rows[0]["failed"] for result in (before, after)] == [failed, failed]
    assert (before.report.rows[0]["cleared"], after.report.rows[0]["cleared"]) == (True, False)


REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Why?"}],
    "encrypted_content": SIGNATURE,
}


def sdk(**fields: Any) -> Any:
    return ITEMS.validate_python(fields)


@pytest.mark.parametrize(
    ("item", "becomes"),
    [
        ({"type": "function_call_output", "output": LONG}, SENTENCE),
        ({"type": "function_call_output", "output": [text(LONG), text("end", **CACHED)]}, [text(SENTENCE, **CACHED)]),
        (
            {"type": "custom_tool_call_output", "output": [PICTURE, text("a picture", **CACHED)]},
            [text(SENTENCE, **CACHED)],
        ),
        ({"type": "shell_call_output", "output": [chunk(LONG, **FAILED)]}, [chunk(SENTENCE, **FAILED)]),
    ],
)
def test_an_output_that_is_an_object_is_one_afterwards_to_its_last_block(item: dict[str, Any], becomes: Any):
    more = {"id": "o_1", "call_id": "x", "status": "completed", "max_output_length": None}
    items = [ASKED, sdk(**item, **more), DONE]
    after = prune(items).conversation[1]
    assert after == sdk(**{**item, "output": becomes}, **more)
    assert after.model_dump(exclude_unset=True)["output"] == becomes  # no warning of a foreign type either


# Which call made it


@each_row(
    ("call", "output", "tool", "target"),
    [
        (CALL, {"type": "function_call_output", "call_id": "x"}, "read", "a.py"),
        (
            {"type": "custom_tool_call", "call_id": "x", "name": "edit", "input": "*** a"},
            {"type": "custom_tool_call_output", "call_id": "x"},
            "edit",
            "*** a",
        ),
        (
            {"type": "local_shell_call", "id": "l", "call_id": "x", "action": {"command": ["ls", "-l"]}},
            {"type": "local_shell_call_output", "id": "x"},
            "local_shell",
            "ls -l",
        ),
        (
            {"type": "local_shell_call", "id": "x", "action": {"command": ["ls"]}},
            {"type": "local_shell_call_output", "call_id": "x"},
            "local_shell",
            "ls",
        ),
        (
            {"type": "apply_patch_call", "call_id": "x", "operation": {"path": "b.py", "diff": "+"}},
            {"type": "apply_patch_call_output", "call_id": "x"},
            "apply_patch",
            "b.py",
        ),
        (CALL, {"type": "function_call_output", "call_id": "gone"}, "unknown", ""),
        (CALL, {"type": "apply_patch_call_output", "call_id": "gone"}, "apply_patch", ""),
        (CALL, {"type": "function_call_output"}, "unknown", ""),
    ],
)
def test_an_output_is_that_of_the_call_with_its_id(call: Any, output: Any, tool: str, target: str):
    (row,) = prune([ASKED, call, {**output, "output": LONG}, DONE]).report.rows
    assert (row["tool"], row["target"], row["cleared"]) == (tool, target, True)


@pytest.mark.parametrize(
    ("kind", "output", "tool"),
    [("shell", [chunk(LONG)], "shell"), ("computer", SHOT, "computer")],
)
def test_the_tool_of_a_call_without_a_name_is_that_of_its_type(kind: str, output: Any, tool: str):
    call = {"type": f"{kind}_call", "call_id": "x", "action": {"commands": ["ls"]}}
    (row,) = prune([ASKED, call, {"type": f"{kind}_call_output", "call_id": "x", "output": output}, DONE]).report.rows
    assert (row["tool"], row["request"]) == (tool, 0)


@each_row("kind", ["local_shell_call", "shell_call", "apply_patch_call", "computer_call", "mcp_call"])
def test_the_arguments_that_the_api_checks_have_none(kind: str):
    item = {
        "type": kind,
        "call_id": "x",
        "action": {"a": LONG},
        "operation": {"diff": LONG},
        "arguments": LONG,
        "name": "n",
    }
    (call,) = new_parser(exact(), wants_inputs=True).read(item, 0).calls
    assert call.inputs == ()


# Counting


@pytest.mark.parametrize("said", [{"role": "assistant", "content": "I see."}, DONE])
def test_an_answer_in_several_items_counts_as_one_message(said: dict[str, Any]):
    function = {"name": "read", "arguments": '{"path": "a.py"}'}
    calls = [{"id": id, "type": "function", "function": function} for id in ("x", "y")]
    chat = [
        {"role": "system", "content": "You fix bugs."},
        {"role": "assistant", "content": "I see.", "tool_calls": calls},
        *({"role": "tool", "tool_call_id": id, "content": LONG} for id in ("x", "y")),
        {"role": "user", "content": "Well?"},
    ]
    asked = {"type": "message", "role": "user", "content": [text("Well?")]}
    ours = [
        {"role": "developer", "content": "You fix bugs."},
        said,
        CALL,
        {**CALL, "call_id": "y"},
        OUTPUT,
        {**OUTPUT, "call_id": "y"},
        asked,
    ]
    count = AgenticConversationPruner(None).count_tokens
    assert count(ours) == count(chat)
    named = AgenticConversationPruner(None)
    assert named.count_tokens([ASKED, REASONING, DONE, CALL]) == named.count_tokens([ASKED, DONE, CALL, REASONING])


@each_row(
    ("item", "texts"),
    [
        (
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Why?"}], "content": None},
            ["Why?"],
        ),
        (
            {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "So"}]},
            ["So"],
        ),
        ({**CALL, "id": "fc_1", "status": "completed", "namespace": "files"}, ["files", "read", CALL["arguments"]]),
        ({**MCP, "status": "in_progress"}, ["read", MCP["arguments"]]),
        ({"type": "local_shell_call", "call_id": "x", "action": {"command": ["ls"]}}, ["command", "ls"]),
        (
            {"type": "apply_patch_call", "call_id": "x", "operation": {"path": "a", "diff": "+b"}},
            ["path", "a", "diff", "+b"],
        ),
        ({"type": "web_search_call", "id": "w", "action": {"query": "why", "url": None}}, ["query", "why"]),
        ({"type": "file_search_call", "id": "f", "queries": ["why"], "results": None}, ["why"]),
        (
            {"type": "code_interpreter_call", "id": "c", "code": "1", "outputs": [{"type": "logs", "logs": "2"}]},
            ["1", "type", "logs", "logs", "2"],
        ),
        (
            {"type": "mcp_approval_request", "id": "m", "name": "read", "arguments": "{}", "server_label": "files"},
            ["read", "{}"],
        ),
        ({"type": "program", "id": "p", "call_id": "x", "code": "run()", "fingerprint": SIGNATURE}, ["run()"]),
        ({**DONE, "content": [{"type": "refusal", "refusal": "No."}, SAID]}, ["No.", "I see."]),
        ({"type": "new_kind_call", "id": "n", "call_id": "x", "plan": {"step": 1}}, ["step", "1"]),
    ],
)
def test_only_the_fields_of_an_item_that_the_model_reads_are_counted(item: dict[str, Any], texts: list[str]):
    assert tokens(item) == MESSAGE_TOKENS + sum(map(exact(), texts))
    assert tokens(item, DONE) == sum(map(exact(), texts))


@each_row(
    ("item", "expected"),
    [
        (
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": SIGNATURE},
            encrypted_tokens(SIGNATURE),
        ),
        ({"type": "compaction", "encrypted_content": SIGNATURE}, encrypted_tokens(SIGNATURE)),
        (
            {"type": "agent_message", "content": [{"type": "encrypted_content", "encrypted_content": SIGNATURE}]},
            encrypted_tokens(SIGNATURE),
        ),
        ({"type": "item_reference", "id": "msg_" + "1" * 40}, 0),
        ({"id": "msg_" + "1" * 40}, 0),
        ({"type": "compaction_trigger"}, 0),
        (
            {"type": "image_generation_call", "id": "ig_1", "result": None, "revised_prompt": "A cat."},
            exact()("A cat."),
        ),
        (
            {"type": "image_generation_call", "id": "ig_1", "result": PIXEL + "A" * 900_000, "size": "1024x1024"},
            PIXEL_TOKENS,
        ),
        ({"type": "image_generation_call", "id": "ig_1", "result": "iVBO"}, 4),  # no more tokens than bytes
        ({"type": "code_interpreter_call", "outputs": [{"type": "image", "url": "https://example.com/a.png"}]}, 765),
        ({"type": "computer_call_output", "call_id": "x", "output": SHOT}, 765),
        ({"type": "message", "role": "user", "content": [PICTURE, text("x")]}, 85 + 1),
        ({"role": "user", "content": [{"type": "input_file", "file_data": "A" * 90_000}]}, 1_500),
        ({"type": "function_call_output", "call_id": "x", "output": [PICTURE, text("x")]}, 85 + 1),
    ],
)
def test_media_and_encrypted_data_count_by_rule(item: dict[str, Any], expected: int):
    assert tokens(item) == MESSAGE_TOKENS + expected


# Odd items


def test_an_output_inside_a_call_counts_as_a_call_and_a_result():
    assert tokens({**MCP, "output": LONG}) == tokens(MCP) + MESSAGE_TOKENS + exact()(LONG)


@each_row(
    "kind", ["function_call", "shell_call", "mcp_call", "reasoning", "message", "new_call", "new_output", "compaction"]
)
@each_row("odd", [None, 7, "x", [], [[1, None]], {}, {"a": [1]}, [{"type": ["x"]}], [{"text": 7}]])
def test_odd_items_are_counted_and_given_back_as_they_were(kind: str, odd: Any):
    names = ("call_id", "name", "arguments", "action", "operation", "status", "summary", "content", "encrypted_content")
    items = [ASKED, {"type": kind, "role": "user", **dict.fromkeys(names, odd)}, ASKED, DONE]
    before = copy.deepcopy(items)
    for safe_zone in (1, 100_000):
        assert prune(items, safe_zone).conversation is items
    assert items == before


# Which format it is

ITEM_TYPES = (
    *("file_search_call", "computer_call", "computer_call_output", "web_search_call", "function_call", "mcp_call"),
    *("function_call_output", "tool_search_call", "tool_search_output", "additional_tools", "configuration_update"),
    *("reasoning", "compaction", "image_generation_call", "code_interpreter_call", "local_shell_call", "shell_call"),
    *("local_shell_call_output", "shell_call_output", "apply_patch_call", "apply_patch_call_output", "program_output"),
    *(
        "agent_message",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
        "custom_tool_call",
        "custom_tool_call_output",
    ),
    *("compaction_trigger", "item_reference", "program", "new_kind_call", "new_kind_output"),
)


@each_row(
    "item",
    [
        *({"type": kind, "id": "x"} for kind in ITEM_TYPES),
        *(DONE, {"id": "msg_1"}, {"id": "msg_1", "type": None}, {"type": "message", "role": "user", "content": "x"}),
        *({"role": "user", "content": [text("x")]}, {"role": "user", "content": [text("x"), PICTURE]}, sdk(**DONE)),
        {"role": "assistant", "content": [SAID]},
    ],
)
def test_an_item_shows_the_marks_of_no_other_format(item: Any):
    seen = vars(item) if isinstance(item, BaseModel) else item
    assert [known.NAME for known in SHIPPED if known.seen(seen)] == ["openai_responses"]


@each_row("kind", ITEM_TYPES)
def test_a_session_file_may_hold_an_item_and_a_conversation_is_known_by_what_precedes_the_models_first(kind: str):
    item = {"type": kind, "id": "x"}
    assert load(json.dumps([item]), "s").messages == [item]
    begins_answer = prefix_digests([ASKED, item])[0] == prefix_digests([ASKED])[0]
    assert begins_answer is (responses.speaker(item) is Speaker.MODEL)


def test_an_error_names_the_place_of_an_item_of_unknown_type():
    with pytest.raises(ConversationError, match="message 1 of type 'step' has no 'role'"):
        prune([CALL, {"type": "step", "id": 7}])

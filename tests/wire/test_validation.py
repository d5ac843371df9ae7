"""Each rule of each provider: a problem has its place and the provider's text; valid conversations have none."""

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from anthropic.types import Message, TextBlock, ThinkingBlock, ToolUseBlock, Usage
from google.genai import types as genai
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage, ChatCompletionMessageFunctionToolCall
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseReasoningItem
from tables import each_row

from autoprune import AgenticConversationPruner, ConversationPruner
from autoprune.conversation.transcript import Entry, Speaker
from autoprune.errors import ConversationError, RuleError, SettingsError
from autoprune.wire import (
    PROVIDERS,
    SHIPPED,
    UNREPAIRED,
    Problem,
    Provider,
    Repair,
    Round,
    check_accepted,
    problems,
    repair,
)
from autoprune.wire.parsing import Parser

Found = list[tuple[str, tuple[int | str, ...], str]]


def found(conversation: list[Any], provider: str | None, **options: bool) -> Found:
    before = copy.deepcopy(conversation)
    got = problems(conversation, provider, **options)
    assert conversation == before
    assert {problem.provider for problem in got} <= {provider}
    return [(problem.rule, problem.path, problem.message) for problem in got]


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content)}


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **more}


# Anthropic


def use(id: Any = "toolu_1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "f", "input": {}, **more}


def answer(id: Any = "toolu_1", content: Any = "ok") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content}


THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "sig"}
PIXEL = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
GO = user("Go.")


def unanswered(at: int, ids: str) -> str:
    return (
        f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {ids}. "
        "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def orphan(at: int, index: int, id: str) -> str:
    return (
        f"messages.{at}.content.{index}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. "
        "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
    )


ANYWHERE = "; the directive-only form (content: [] with output_config) is accepted at any position"
SYSTEM = {"role": "system", "content": "New rules."}
ANTHROPIC: list[tuple[list[Any], Found]] = [
    ([GO, assistant(use())], [("unanswered_call", (1,), unanswered(1, "toolu_1"))]),
    (
        [GO, assistant(use("a"), use("b"), use("c")), user([answer("b")]), assistant(said("Done."))],
        [("unanswered_call", (1,), unanswered(1, "a, c"))],
    ),
    (
        [GO, assistant(use()), GO, user([answer()])],
        [
            ("unanswered_call", (1,), unanswered(1, "toolu_1")),
            ("orphan_result", (3, "content", 0), orphan(3, 0, "toolu_1")),
        ],
    ),
    (
        [GO, assistant(said("Hi.")), user([said("x"), answer("z")])],
        [("orphan_result", (2, "content", 1), orphan(2, 1, "z"))],
    ),
    (
        [GO, assistant(use()), user([said("Wait."), answer()])],
        [("results_not_first", (2, "content", 1), unanswered(1, "toolu_1"))],
    ),
    (
        [GO, assistant(use()), user([answer(), answer()])],
        [
            (
                "duplicate_result",
                (2, "content", 1),
                "messages.2.content.1: each tool_use must have a single result. "
                "Found multiple `tool_result` blocks with id: toolu_1",
            )
        ],
    ),
    (
        [GO, assistant(use()), user([answer()]), assistant(use()), user([answer()])],
        [("duplicate_call_id", (3, "content", 0), "messages.3.content.0: `tool_use` ids must be unique")],
    ),
    (
        [GO, assistant(use("f:0")), user([answer("f:0")])],
        [
            (
                "call_id_pattern",
                (1, "content", 0),
                "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
            )
        ],
    ),
    (
        [GO, assistant(use(input="{}")), user([answer()])],
        [
            (
                "call_input",
                (1, "content", 0, "input"),
                "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
            )
        ],
    ),
    (
        [user([said("x"), use()])],
        [("misplaced_call", (0, "content", 1), "messages.0: `tool_use` blocks can only be in `assistant` messages")],
    ),
    (
        [user([THINKING, said("x"), {"type": "redacted_thinking", "data": "x"}])],
        [
            (
                "misplaced_thinking",
                (0, "content", 0),
                "messages.0: `thinking` blocks can only be in `assistant` messages",
            ),
            (
                "misplaced_thinking",
                (0, "content", 2),
                "messages.0: `redacted_thinking` blocks can only be in `assistant` messages",
            ),
        ],
    ),
    (
        [GO, assistant(answer("a"))],
        [("misplaced_result", (1, "content", 0), "messages.1: `tool_result` blocks can only be in `user` messages")],
    ),
    (
        [GO, assistant(use()), user([answer(), {"type": "tool_result"}])],
        [("orphan_result", (2, "content", 1), "messages.2.content.1.tool_result.tool_use_id: Field required")],
    ),
    (
        [user([said("x"), said("")])],
        [("empty_text", (0, "content", 1), "messages: text content blocks must be non-empty")],
    ),
    (
        [user([said("\n ")])],
        [("empty_text", (0, "content", 0), "messages: text content blocks must contain non-whitespace text")],
    ),
    (
        [user([said("", cache_control={"type": "ephemeral"})])],
        [
            (
                "empty_text",
                (0, "content", 0),
                "messages.0.content.0.text: cache_control cannot be set for empty text blocks",
            )
        ],
    ),
    (
        [GO, assistant(use()), user([answer(content=[said("x"), said("")])])],
        [("empty_text", (2, "content", 0, "content", 1), "messages: text content blocks must be non-empty")],
    ),
    ([user(" ")], [("empty_text", (0, "content"), "messages: text content blocks must contain non-whitespace text")]),
    ([user("")], [("empty_content", (0, "content"), "messages.0: user messages must have non-empty content")]),
    ([user([])], [("empty_content", (0, "content"), "messages.0: user messages must have non-empty content")]),
    ([user(None)], [("empty_content", (0, "content"), "messages.0: user messages must have non-empty content")]),
    ([{"role": "user"}], [("empty_content", (0, "content"), "messages.0.content: Field required")]),
    ([GO, {"role": "assistant"}], [("empty_content", (1, "content"), "messages.1.content: Field required")]),
    ([GO, {"role": "assistant"}, GO], [("empty_content", (1, "content"), "messages.1.content: Field required")]),
    (
        [GO, {"role": "assistant", "content": None}],
        [("empty_content", (1, "content"), "messages.1.content: Field required")],
    ),
    ([GO, {"role": "assistant", "content": ""}], []),
    ([GO, assistant()], []),
    (
        [GO, assistant({"type": "text"}), GO],
        [("empty_text", (1, "content", 0), "messages.1.content.0.text.text: Field required")],
    ),
    (
        [user([{"type": "text", "text": None}])],
        [("empty_text", (0, "content", 0), "messages.0.content.0.text.text: Field required")],
    ),
    (
        [GO, assistant(), GO],
        [
            (
                "empty_content",
                (1, "content"),
                "messages.1: all messages must have non-empty content except for the optional final assistant message",
            )
        ],
    ),
    ([assistant(said("Hi.")), GO], [("first_message", (0,), 'messages: first message must use the "user" role')]),
    (
        [GO, {"role": "tool", "content": "x"}],
        [("unknown_role", (1, "role"), 'messages: Unexpected role "tool". Allowed roles are "user" or "assistant"')],
    ),
    ([GO, {"content": "x"}], [("unknown_role", (1, "role"), "messages.1.role: Field required")]),
    (
        [SYSTEM, GO],
        [
            (
                "misplaced_system",
                (0,),
                "messages.0: use the top-level 'system' parameter for the initial system prompt" + ANYWHERE,
            )
        ],
    ),
    (
        [GO, SYSTEM, GO],
        [
            (
                "misplaced_system",
                (1,),
                "messages.1: role 'system' must precede an 'assistant' message or end the array" + ANYWHERE,
            )
        ],
    ),
    (
        [GO, assistant(said("Hi.")), SYSTEM, assistant(said("Hi."))],
        [
            (
                "misplaced_system",
                (2,),
                "messages.2: role 'system' must follow a 'user' message or an 'assistant' message ending in a server "
                "tool result" + ANYWHERE,
            )
        ],
    ),
    (
        [GO, {"role": "system", "content": []}],
        [("empty_content", (1, "content"), "messages.1: system content must contain at least one block")],
    ),
    (
        [GO, assistant({"type": "thinking", "thinking": "Hm."}, said("Hi."))],
        [("thinking_signature", (1, "content", 0), "messages.1.content.0.thinking.signature: Field required")],
    ),
    (
        [GO, {"role": "assistant", "content": "The answer is "}],
        [
            (
                "trailing_whitespace",
                (1, "content"),
                "messages: final assistant content cannot end with trailing whitespace",
            )
        ],
    ),
    (
        [GO, assistant(said("The answer is\n"))],
        [
            (
                "trailing_whitespace",
                (1, "content", 0),
                "messages: final assistant content cannot end with trailing whitespace",
            )
        ],
    ),
]


def many_marks(*, inside: int, after: int) -> list[Any]:
    """Blocks with cache marks, in a result and after it."""
    texts = [said(str(at), cache_control={"type": "ephemeral"}) for at in range(inside + after)]
    return [GO, assistant(use()), user([answer(content=texts[:inside]), *texts[inside:]])]


ANTHROPIC += [
    (
        many_marks(inside=2, after=4),
        [
            (
                "too_many_marks",
                (2, "content", 0, "content", at),
                "A maximum of 4 blocks with cache_control may be provided. Found 6.",
            )
            for at in range(2)
        ],
    ),
    (many_marks(inside=2, after=2), []),
    ([user([said("Go.", cache_control=None)] * 5)], []),
]


@each_row(("conversation", "expected"), ANTHROPIC)
def test_problems_for_anthropic(conversation: list[Any], expected: Found):
    assert found(conversation, "anthropic") == expected


USAGE = Usage(input_tokens=1, output_tokens=1)
LEGAL_ANTHROPIC: dict[str, list[Any]] = {
    "parallel calls, answered in another order": [GO, assistant(use("a"), use("b")), user([answer("b"), answer("a")])],
    "text behind results": [GO, assistant(use()), user([answer(), said("Go on.")])],
    "no content in a result": [GO, assistant(use()), user([{"type": "tool_result", "tool_use_id": "toolu_1"}])],
    "an empty text as a result": [GO, assistant(use()), user([answer(content="")])],
    "an image in a result": [GO, assistant(use()), user([answer(content=[PIXEL])])],
    "thinking": [GO, assistant(THINKING, use()), user([answer()]), assistant(THINKING, said("Done."))],
    "redacted thinking": [GO, assistant({"type": "redacted_thinking", "data": "x"}, said("Hi."))],
    "neighbors that share a role": [GO, GO, assistant(said("Hi.")), assistant(said("There."))],
    "an empty message of the assistant at the end": [GO, {"role": "assistant", "content": ""}],
    "white space at the end of an earlier message": [GO, assistant(said("Hi. ")), GO],
    "the provider's own tools": [
        GO,
        assistant(
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        ),
        SYSTEM,
    ],
    "a system's message before the model's": [GO, SYSTEM, SYSTEM, assistant(said("Hi.")), GO, SYSTEM],
    "settings in a system's message": [GO, {"role": "system", "content": [], "output_config": {"effort": "low"}}, GO],
    "the SDK's blocks": [
        GO,
        {
            "role": "assistant",
            "content": [
                ThinkingBlock(type="thinking", thinking="Hm.", signature="sig"),
                TextBlock(type="text", text="I look."),
                ToolUseBlock(type="tool_use", id="toolu_1", name="f", input={}),
            ],
        },
        user([answer()]),
    ],
    "the SDK's message": [
        GO,
        Message(
            id="msg_1",
            type="message",
            role="assistant",
            model="claude",
            usage=USAGE,
            content=[ToolUseBlock(type="tool_use", id="toolu_1", name="f", input={})],
        ),
        user([answer()]),
    ],
    "XML in the text": [
        GO,
        assistant(said("<read_file><path>a</path></read_file>")),
        user("<tool_result tool_name='X'>"),
    ],
    "nothing": [],
}


@each_row("case", LEGAL_ANTHROPIC)
def test_no_problems_for_anthropic(case: str):
    assert found(LEGAL_ANTHROPIC[case], "anthropic") == []


# OpenAI Chat


def calling(*ids: Any, content: Any = None) -> dict[str, Any]:
    calls = [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def tool(id: Any, content: Any = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


NO_RESPONSE = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "The following tool_call_ids did not have response messages: "
)
NO_CALL = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
NULL = "Invalid value for 'content': expected a string, got null."
OPENAI_CHAT: list[tuple[list[Any], Found]] = [
    ([GO, calling("a", "b"), tool("b")], [("unanswered_call", (1,), NO_RESPONSE + "a")]),
    ([GO, calling("a", "b"), GO], [("unanswered_call", (1,), NO_RESPONSE + "a, b")]),
    (
        [GO, calling("a"), GO, tool("a")],
        [("unanswered_call", (1,), NO_RESPONSE + "a"), ("orphan_result", (3,), NO_CALL)],
    ),
    ([tool("a"), GO], [("orphan_result", (0,), NO_CALL)]),
    (
        [GO, calling("a"), tool("a"), tool("z")],
        [
            (
                "orphan_result",
                (3,),
                "Invalid parameter: 'tool_call_id' of 'z' not found in 'tool_calls' of previous message.",
            )
        ],
    ),
    (
        [GO, calling("a"), tool("a"), tool("a")],
        [
            (
                "duplicate_result",
                (3,),
                "Invalid parameter: Duplicate value for 'tool_call_id' of 'a', in messages[2] and messages[3].",
            )
        ],
    ),
    (
        [GO, calling("a"), tool("a"), {"role": "tool", "content": "x"}],
        [
            (
                "missing_call_id",
                (3, "tool_call_id"),
                "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'.",
            )
        ],
    ),
    ([GO, {"role": "assistant", "content": None}], [("null_content", (1, "content"), NULL)]),
    ([{"role": "user"}], [("null_content", (0, "content"), NULL)]),
    (
        [{**GO, "tool_calls": [{"id": "a"}]}, {**GO, "tool_call_id": "a"}],
        [
            ("misplaced_call", (0, "tool_calls"), "Unknown parameter: 'messages[0].tool_calls'."),
            ("misplaced_result", (1, "tool_call_id"), "Unknown parameter: 'messages[1].tool_call_id'."),
        ],
    ),
    ([GO, calling("a"), tool("a", None)], [("null_content", (2, "content"), NULL)]),
    (
        [GO, calling(content="Hi.")],
        [
            (
                "empty_tool_calls",
                (1, "tool_calls"),
                "Invalid 'messages[1].tool_calls': empty array. "
                "Expected an array with minimum length 1, but got an empty array instead.",
            )
        ],
    ),
    (
        [GO, {"role": "toolResult", "content": "x"}],
        [
            (
                "unknown_role",
                (1, "role"),
                "Invalid value: 'toolResult'. "
                "Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.",
            )
        ],
    ),
    ([GO, {"content": "x"}], [("unknown_role", (1, "role"), "Missing required parameter: 'messages[1].role'.")]),
]


@each_row(("conversation", "expected"), OPENAI_CHAT)
def test_problems_for_openai_chat(conversation: list[Any], expected: Found):
    assert found(conversation, "openai_chat") == expected


LEGAL_OPENAI_CHAT: dict[str, list[Any]] = {
    "parallel calls, answered in another order": [GO, calling("a", "b"), tool("b"), tool("a")],
    "an id that is used again later": [GO, calling("a"), tool("a"), calling("a"), tool("a"), GO],
    "an id that is used twice at once": [GO, calling("a", "a"), tool("a"), tool("a")],
    "system and developer": [{"role": "system", "content": "x"}, {"role": "developer", "content": "y"}, GO],
    "an empty text": [GO, {"role": "assistant", "content": ""}, user(""), calling("a"), tool("a", "")],
    "blocks as a result": [GO, calling("a"), tool("a", [said("ok")])],
    "an image": [user([{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}])],
    "a refusal": [GO, {"role": "assistant", "content": None, "refusal": "No."}],
    "the old spelling": [
        GO,
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": None},
    ],
    "the SDK's message": [
        GO,
        ChatCompletionMessage(
            role="assistant",
            content=None,
            tool_calls=[
                ChatCompletionMessageFunctionToolCall.model_validate(
                    {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                )
            ],
        ),
        tool("a"),
        ChatCompletionMessage(role="assistant", content="Done."),
    ],
    "XML results": [GO, {"role": "assistant", "content": "<ls/>"}, user("<tool_result tool_name='ls'>x</tool_result>")],
}


@each_row("case", LEGAL_OPENAI_CHAT)
def test_no_problems_for_openai_chat(case: str):
    assert found(LEGAL_OPENAI_CHAT[case], "openai_chat") == []


# OpenAI Responses


def call(id: Any = "call_1", kind: str = "function_call", **more: Any) -> dict[str, Any]:
    return {"type": kind, "call_id": id, "name": "f", "arguments": "{}", **more}


def output(id: Any = "call_1", kind: str = "function_call", **more: Any) -> dict[str, Any]:
    return {"type": f"{kind}_output", "call_id": id, "output": "ok", **more}


REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
ALONE = "Item 'rs_1' of type 'reasoning' was provided without its required following item."
OPENAI_RESPONSES: list[tuple[list[Any], Found]] = [
    ([GO, call()], [("unanswered_call", (1,), "No tool output found for function call call_1.")]),
    (
        [GO, call(kind="local_shell_call")],
        [("unanswered_call", (1,), "No tool output found for local shell call call_1.")],
    ),
    ([GO, output()], [("orphan_result", (1,), "No tool call found for function call output with call_id call_1.")]),
    (
        [GO, output(), call()],
        [
            ("orphan_result", (1,), "No tool call found for function call output with call_id call_1."),
            ("unanswered_call", (2,), "No tool output found for function call call_1."),
        ],
    ),
    (
        [GO, output(kind="custom_tool_call")],
        [("orphan_result", (1,), "No tool call found for custom tool call output with call_id call_1.")],
    ),
    (
        [GO, call(), output(), output()],
        [("duplicate_result", (3,), "Duplicate function_call_output for call_id call_1.")],
    ),
    (
        [
            {"role": "user"},
            *({"type": name} for name in ("function_call", "custom_tool_call", "function_call_output", "reasoning")),
            {**output(), "call_id": "", "type": "computer_call_output"},
        ],
        [
            ("missing_field", (at, name), f"Missing required parameter: 'input[{at}].{name}'.")
            for at, name in (
                *((0, "content"), (1, "arguments"), (1, "call_id"), (1, "name"), (2, "call_id"), (2, "input")),
                *((2, "name"), (3, "call_id"), (3, "output"), (4, "summary")),
            )
        ]
        + [
            (
                "missing_field",
                (5, "call_id"),
                "Invalid 'input[5].call_id': empty string. "
                "Expected a string with minimum length 1, but got an empty string instead.",
            )
        ],
    ),
    ([GO, REASONING], [("reasoning_alone", (1,), ALONE)]),
    ([GO, REASONING, GO], [("reasoning_alone", (1,), ALONE)]),
    ([GO, call(), REASONING, output()], [("reasoning_alone", (2,), ALONE)]),
    (
        [GO, REASONING, {**REASONING, "id": "rs_2"}],
        [("reasoning_alone", (1,), ALONE), ("reasoning_alone", (2,), ALONE.replace("rs_1", "rs_2"))],
    ),
    (
        [GO, call(id="a"), output("a"), REASONING, call("b"), REASONING, call("c"), output("b"), output("c")],
        [
            (
                "duplicate_item",
                (5,),
                "Duplicate item found with id rs_1. Remove duplicate items from your input and try again.",
            )
        ],
    ),
    (
        [GO, {"role": "tool", "content": "x"}],
        [
            (
                "unknown_role",
                (1, "role"),
                "Invalid value: 'tool'. Supported values are: 'assistant', 'system', 'developer', and 'user'.",
            )
        ],
    ),
]


APPROVAL_REQUEST = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "f", "arguments": "{}", "server_label": "s"}
APPROVAL = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
LOST_REQUEST = "The following MCP approval requests have approval responses but weren't passed as input: mcpr_1"
OPENAI_RESPONSES += [
    ([GO, APPROVAL], [("orphan_result", (1,), LOST_REQUEST)]),
    (
        [GO, {"type": "program_output", "id": "po_1", "call_id": "p", "result": "ok", "status": "completed"}],
        [("orphan_result", (1,), "No tool call found for program output with call_id p.")],
    ),
]


@each_row(("conversation", "expected"), OPENAI_RESPONSES)
def test_problems_for_openai_responses(conversation: list[Any], expected: Found):
    assert found(conversation, "openai_responses") == expected


LEGAL_OPENAI_RESPONSES: dict[str, list[Any]] = {
    "parallel calls, answered in another order": [GO, call("a"), call("b"), output("b"), output("a")],
    "words between a call and its output": [GO, call(), {"role": "assistant", "content": "Wait."}, output()],
    "an id that is used again later": [GO, call(), output(), call(), output()],
    "reasoning before a call, words, or more reasoning": [
        *(GO, REASONING, {**REASONING, "id": "rs_2"}, call(), output()),
        *({**REASONING, "id": "rs_3"}, {"role": "assistant", "content": "Done."}),
    ],
    "reasoning without an id": [GO, {"type": "reasoning", "summary": [], "encrypted_content": "x"}],
    "every kind of tool": [
        item
        for kind in ("function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call")
        for item in (call(kind, kind, input=""), output(kind, kind))
    ],
    "a shell's output that has the call's id as its own": [
        call(kind="local_shell_call"),
        {"type": "local_shell_call_output", "id": "call_1", "output": "ok"},
    ],
    "a shell's call that is answered like a function's, as Codex does": [call(kind="local_shell_call"), output()],
    "an asynchronous call": [GO, call(**{"async": True})],
    "an approval": [GO, APPROVAL_REQUEST, APPROVAL],
    "a request for approval that is not answered": [GO, APPROVAL_REQUEST, {"role": "user", "content": "Wait."}],
    "a program that waits for its call": [
        *(GO, {"type": "program", "id": "pr_1", "call_id": "p", "code": "f()", "fingerprint": "x"}),
        *(call(caller={"type": "program", "caller_id": "p"}), output()),
    ],
    "reasoning before the output of a program": [
        *(GO, {"type": "program", "id": "pr_1", "call_id": "p", "code": "f()", "fingerprint": "x"}, REASONING),
        {"type": "program_output", "id": "po_1", "call_id": "p", "result": "ok", "status": "completed"},
    ],
    "other items": [{"type": "item_reference", "id": "msg_1"}, {"type": "compaction", "encrypted_content": "x"}],
    "the SDK's items": [
        {"role": "developer", "content": "Be brief."},
        ResponseReasoningItem(type="reasoning", id="rs_1", summary=[]),
        ResponseFunctionToolCall(type="function_call", call_id="call_1", name="f", arguments="{}"),
        output(),
        ResponseOutputMessage.model_validate(
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
            }
        ),
    ],
}


@each_row("case", LEGAL_OPENAI_RESPONSES)
def test_no_problems_for_openai_responses(case: str):
    assert found(LEGAL_OPENAI_RESPONSES[case], "openai_responses") == []


# Gemini


def asks(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def replies(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def fc(name: str = "f", **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {}, **more}}


def fr(name: str = "f", response: Any = None, **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": "ok"} if response is None else response, **more}}


HI = asks({"text": "Go."})
COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function call parts "
    "of the function call turn."
)
PLACE = "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
BEHIND = "Please ensure that function response turn comes immediately after a function call turn."
GEMINI: list[tuple[list[Any], Found]] = [
    ([HI, replies(fc())], [("unanswered_call", (1,), COUNT)]),
    ([HI, replies(fc("f"), fc("g")), asks(fr("g"))], [("unanswered_call", (1,), COUNT)]),
    ([HI, replies(fc()), asks(fr(), fr())], [("orphan_result", (2, "parts", 1, "functionResponse"), COUNT)]),
    ([HI, asks(fr())], [("orphan_result", (1, "parts", 0, "functionResponse"), BEHIND)]),
    (
        [HI, replies(fc()), HI, asks({"function_response": {"name": "f", "response": {}}})],
        [("unanswered_call", (1,), COUNT), ("orphan_result", (3, "parts", 0, "function_response"), BEHIND)],
    ),
    (
        [HI, replies(fc("f"), fc("g")), asks(fr("f"), fr("h"))],
        [
            (
                "result_names",
                (2, "parts", 1, "functionResponse"),
                "contents[2].parts[1]: the function response is named h, no function call that is left before it",
            )
        ],
    ),
    (
        [HI, replies(fc("f", id="1"), fc("g", id="2")), asks(fr("g", id="1"), fr("f", id="2"))],
        [
            (
                "result_names",
                (2, "parts", index, "functionResponse"),
                f"contents[2].parts[{index}]: the function response is named {name}, its function call {'fg'[index]}",
            )
            for index, name in enumerate("gf")
        ],
    ),
    ([asks({"text": "Go."}, fc())], [("misplaced_call", (0, "parts", 1, "functionCall"), PLACE)]),
    ([{"parts": [{"function_call": {"name": "f"}}]}], [("misplaced_call", (0, "parts", 0, "function_call"), PLACE)]),
    (
        [HI, replies(fc(), fr())],
        [("unanswered_call", (1,), COUNT), ("misplaced_result", (1, "parts", 1, "functionResponse"), BEHIND)],
    ),
    ([replies(fc()), asks(fr())], [("call_place", (0,), PLACE)]),
    ([HI, replies({"text": "I look."}), replies(fc()), asks(fr())], [("call_place", (2,), PLACE)]),
    (
        [HI, replies(fc()), asks(fr(response="text"))],
        [
            (
                "result_shape",
                (2, "parts", 0, "functionResponse", "response"),
                "Invalid value at 'contents[2].parts[0].function_response.response' "
                "(type.googleapis.com/google.protobuf.Struct)",
            )
        ],
    ),
    (
        [HI, replies(fc()), asks(fr(response=["a"]))],
        [
            (
                "result_shape",
                (2, "parts", 0, "functionResponse", "response"),
                "Invalid JSON payload received. Unknown name \"response\" at 'contents[2].parts[0].function_response': "
                "Proto field is not repeating, cannot start list.",
            )
        ],
    ),
    (
        [HI, {"role": "model", "parts": []}],
        [
            (
                "empty_content",
                (1, "parts"),
                "* GenerateContentRequest.contents[1].parts: contents.parts must not be empty.",
            )
        ],
    ),
    (
        [asks({"text": "x"}, {})],
        [
            (
                "empty_part",
                (0, "parts", 1),
                "* GenerateContentRequest.contents[0].parts[1].data: "
                "required oneof field 'data' must have one initialized field",
            )
        ],
    ),
    (
        [asks({"text": ""})],
        [
            (
                "empty_text",
                (0, "parts", 0),
                "Unable to submit request because it has an empty text parameter. "
                "Add a value to the parameter and try again.",
            )
        ],
    ),
    (
        [{"role": "assistant", "parts": [{"text": "x"}]}],
        [("unknown_role", (0, "role"), "Please use a valid role: user, model.")],
    ),
]


@each_row(("conversation", "expected"), GEMINI)
def test_problems_for_gemini(conversation: list[Any], expected: Found):
    assert found(conversation, "gemini") == expected


LEGAL_GEMINI: dict[str, list[Any]] = {
    "without ids": [HI, replies(fc("f"), fc("g")), asks(fr("f"), fr("g"))],
    "with ids, in another order": [
        HI,
        replies(fc("f", id="1"), fc("f", id="2")),
        asks(fr("f", id="2"), fr("f", id="1")),
    ],
    "the SDK's names": [
        HI,
        replies({"function_call": {"name": "f"}}),
        {"role": "function", "parts": [{"function_response": {"name": "f", "response": {"error": "no"}}}]},
    ],
    "no role": [{"parts": [{"text": "Go."}]}, replies({"text": "Hi."})],
    "text beside calls and responses": [HI, replies({"text": "I look."}, fc()), asks(fr(), {"text": "Go on."})],
    "calls in a row": [HI, replies(fc()), asks(fr()), replies(fc()), asks(fr()), replies({"text": "Done."})],
    "neighbors that share a role": [HI, HI, replies({"text": "Hi."}), replies({"text": "There."})],
    "a signature in an empty text": [HI, replies({"text": "Hi."}, {"text": "", "thoughtSignature": "x"})],
    "a thought": [HI, replies({"text": "", "thought": True}, {"text": "Hi."})],
    "an image": [asks({"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}})],
    "the provider's own tools": [
        HI,
        replies({"toolCall": {"id": "1"}}, {"toolResponse": {"id": "1"}}, {"text": "Hi."}),
    ],
    "bare parts": [{"text": "Go."}],
    "the SDK's contents": [
        genai.Content(role="user", parts=[genai.Part(text="Go.")]),
        genai.Content(role="model", parts=[genai.Part(function_call=genai.FunctionCall(name="f", args={}))]),
        genai.Content(
            role="user",
            parts=[genai.Part(function_response=genai.FunctionResponse(name="f", response={"output": "ok"}))],
        ),
        genai.Content(role="model", parts=[genai.Part(text="", thought_signature=b"x")]),
    ],
}


@each_row("case", LEGAL_GEMINI)
def test_no_problems_for_gemini(case: str):
    assert found(LEGAL_GEMINI[case], "gemini") == []


# Bedrock


def uses(*ids: Any, **more: Any) -> dict[str, Any]:
    return assistant(*({"toolUse": {"toolUseId": id, "name": "f", "input": {}, **more}} for id in ids))


def result(id: Any, content: Any = None, **more: Any) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": id, "content": [{"text": "ok"}] if content is None else content, **more}}


HELLO = user([{"text": "Go."}])
BEDROCK: list[tuple[list[Any], Found]] = [
    (
        [HELLO, uses("a", "b"), user([result("b")])],
        [("unanswered_call", (1,), "Expected toolResult blocks at messages.2.content for the following Ids: a")],
    ),
    (
        [HELLO, uses("a")],
        [("unanswered_call", (1,), "Expected toolResult blocks at messages.2.content for the following Ids: a")],
    ),
    (
        [user([{"text": "x"}, result("z")])],
        [
            (
                "orphan_result",
                (0, "content", 1),
                "The number of toolResult blocks at messages.0.content exceeds the number of toolUse blocks of "
                "previous turn.",
            )
        ],
    ),
    (
        [HELLO, uses("a"), user([result("a"), result("a")])],
        [
            (
                "duplicate_result",
                (2, "content", 1),
                "The toolResult blocks at messages.2.content contain duplicate Ids: a",
            )
        ],
    ),
    (
        [HELLO, uses("a"), user([{"text": "Wait."}, result("a")])],
        [
            (
                "results_not_first",
                (2, "content", 1),
                "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: a. "
                "Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
            )
        ],
    ),
    (
        [HELLO, assistant({"text": "x"}, result("a"))],
        [("misplaced_result", (1, "content", 1), "messages.1: `tool_result` blocks can only be in `user` messages")],
    ),
    (
        [user([{"toolUse": {"toolUseId": "a", "name": "f", "input": {}}}])],
        [("misplaced_call", (0, "content", 0), "messages.0: `tool_use` blocks can only be in `assistant` messages")],
    ),
    (
        [user([{"reasoningContent": {"reasoningText": {"text": "Hm."}}}])],
        [
            (
                "misplaced_thinking",
                (0, "content", 0),
                "messages.0: `thinking` blocks can only be in `assistant` messages",
            )
        ],
    ),
    (
        [HELLO, uses("a", "a"), user([result("a")])],
        [("duplicate_call_id", (1, "content", 1), "The toolUse blocks at messages.1.content contain duplicate Ids: a")],
    ),
    (
        [HELLO, uses("a|b"), user([result("a|b")])],
        [
            (
                "call_id_pattern",
                (1, "content", 0),
                "1 validation error detected: Value 'a|b' at 'messages.2.member.content.1.member.toolUse.toolUseId' "
                "failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.:-]+, "
                "and length 1 to 64",
            )
        ],
    ),
    (
        [user([])],
        [
            (
                "empty_content",
                (0, "content"),
                "The content field in the Message object at messages.0 is empty. "
                "Add a ContentBlock object to the content field and try again.",
            )
        ],
    ),
    (
        [user([{"text": " "}])],
        [
            (
                "empty_text",
                (0, "content", 0),
                "The text field in the ContentBlock object at messages.0.content.0 is blank. "
                "Add text to the text field, and try again.",
            )
        ],
    ),
    (
        [HELLO, uses("a"), user([result("a", [{"json": {}}, {"text": ""}])])],
        [
            (
                "empty_text",
                (2, "content", 0, "toolResult", "content", 1),
                "The text field in the ContentBlock object at messages.2.content.0.toolResult.content.1 is blank. "
                "Add text to the text field, and try again.",
            )
        ],
    ),
    (
        [HELLO, uses("a"), user([result("a", [], status="error")])],
        [
            (
                "empty_result",
                (2, "content", 0, "toolResult", "content"),
                "The content field at messages.2.content.0.toolResult cannot be empty when status value is error.",
            )
        ],
    ),
    (
        [HELLO, HELLO],
        [
            (
                "alternation",
                (1,),
                "A conversation must alternate between user and assistant roles. "
                "Make sure the conversation alternates between user and assistant roles and try again.",
            )
        ],
    ),
    (
        [assistant({"text": "Hi."}), HELLO],
        [
            (
                "first_message",
                (0,),
                "A conversation must start with a user message. "
                "Try again with a conversation that starts with a user message.",
            )
        ],
    ),
    (
        [{"role": "tool", "content": [{"text": "x"}]}],
        [
            (
                "unknown_role",
                (0, "role"),
                "1 validation error detected: Value 'tool' at 'messages.1.member.role' failed to satisfy constraint: "
                "Member must satisfy enum value set: [user, assistant, system]",
            )
        ],
    ),
]


@each_row(("conversation", "expected"), BEDROCK)
def test_problems_for_bedrock(conversation: list[Any], expected: Found):
    assert found(conversation, "bedrock") == expected


LEGAL_BEDROCK: dict[str, list[Any]] = {
    "parallel calls, answered in another order": [HELLO, uses("a", "b"), user([result("b"), result("a")])],
    "text beside results": [HELLO, uses("a"), user([result("a"), {"text": "Go on."}])],
    "an id that is used again later": [HELLO, uses("a"), user([result("a")]), uses("a"), user([result("a")])],
    "dots and colons in an id": [HELLO, uses("functions.f:0"), user([result("functions.f:0")])],
    "JSON and images in a result": [
        HELLO,
        uses("a"),
        user([result("a", [{"json": {"x": 1}}, {"image": {"format": "png", "source": {"bytes": b"x"}}}])]),
    ],
    "no content in a result": [HELLO, uses("a"), user([result("a", [], status="success")])],
    "reasoning and a breakpoint": [
        user([{"text": "Go."}, {"cachePoint": {"type": "default"}}]),
        assistant({"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "x"}}}, {"text": "Hi."}),
    ],
    "the provider's own tools": [HELLO, uses("a", type="server_tool_use"), HELLO],
    "results of the provider's own tools": [
        HELLO,
        assistant(*uses("a", type="server_tool_use")["content"], result("a"), result("b", type="server_tool_result")),
    ],
    "a breakpoint before a result": [HELLO, uses("a"), user([{"cachePoint": {"type": "default"}}, result("a")])],
}


@each_row("case", LEGAL_BEDROCK)
def test_no_problems_for_bedrock(case: str):
    assert found(LEGAL_BEDROCK[case], "bedrock") == []


# Providers and their names

PLAIN = [user("Go."), {"role": "assistant", "content": "Done."}]
LEGAL = {
    "anthropic": LEGAL_ANTHROPIC["thinking"],
    "bedrock": LEGAL_BEDROCK["text beside results"],
    "gemini": LEGAL_GEMINI["without ids"],
    "openai_chat": LEGAL_OPENAI_CHAT["an id that is used again later"],
    "openai_responses": LEGAL_OPENAI_RESPONSES["words between a call and its output"],
}


@each_row(
    ("conversation", "provider"),
    [
        ([*PLAIN, assistant(use())], "anthropic"),
        ([user([said("x"), PIXEL]), assistant(use())], "anthropic"),
        ([HELLO, uses("a")], "bedrock"),
        ([HI, replies(fc())], "gemini"),
        (LEGAL_GEMINI["the SDK's contents"][:2], "gemini"),
        ([*PLAIN, calling("a")], "openai_chat"),
        ([user([said("x")]), LEGAL_OPENAI_CHAT["the SDK's message"][1]], "openai_chat"),
        ([user([{"type": "image_url", "image_url": {"url": "x"}}, said("")]), tool("a")], "openai_chat"),
        ([*PLAIN, call()], "openai_responses"),
        ([*PLAIN, REASONING], "openai_responses"),
        ([*PLAIN, output()], "openai_responses"),
        ([user([{"type": "input_text", "text": "x"}]), call()], "openai_responses"),
        (LEGAL_OPENAI_RESPONSES["the SDK's items"][:3], "openai_responses"),
        ([*PLAIN, {"role": "assistant", "content": None}], "openai_chat"),
    ],
)
def test_the_provider_is_found_out_from_the_conversation(conversation: list[Any], provider: str):
    assert [problem.provider for problem in problems(conversation)] == [provider]


@each_row(
    ("written", "provider"),
    [
        *((name, name) for name in LEGAL),
        *(("Claude", "anthropic"), ("anthropic-messages", "anthropic"), ("aws", "bedrock"), ("converse", "bedrock")),
        *(("google", "gemini"), ("Vertex AI", "gemini"), ("openai", "openai_chat"), ("openai", "openai_responses")),
        *(("azure", "openai_responses"), ("responses", "openai_responses"), ("chat completions", "openai_chat")),
        *((" OpenAI-Chat ", "openai_chat"), ("openai-responses", "openai_responses")),
    ],
)
def test_a_provider_may_be_called_by_other_names(written: str, provider: str):
    cut = LEGAL[provider][:2]
    assert problems(cut, written) == problems(cut, provider) != []
    assert {problem.provider for problem in problems(cut, written)} == {provider}


@pytest.mark.parametrize("provider", ["mistral", "", 7, ["openai"]])
def test_an_unknown_provider_is_an_error_that_names_the_known_ones(provider: Any):
    with pytest.raises(SettingsError) as caught:
        problems(PLAIN, provider)
    assert str(caught.value).startswith(
        f"the rules of provider {provider!r} are not known; known are amazon, amazon_bedrock, anthropic,"
    )
    assert "openai_responses" in str(caught.value)


@pytest.mark.parametrize("conversation", [None, "text", {"role": "user"}, 7])
def test_a_conversation_that_is_no_list_is_an_error(conversation: Any):
    with pytest.raises(ConversationError, match="the conversation must be a list"):
        problems(conversation)


# After pruning

BROKEN = [GO, calling("a")]
REFUSED = r"the provider would refuse the conversation: openai_chat: .* Your messages were fine before they were pruned"


class Lines:
    """A format of the caller's own: a message is a mapping with a line."""

    NAME = "lines"

    def seen(self, message: Mapping[str, object]) -> str | None:
        return "'line'" if "line" in message else None

    def speaker(self, message: Mapping[str, object]) -> Speaker:
        return Speaker.USER

    def parse(self, message: Mapping[str, object], at: int, parser: Parser) -> Entry:
        return Entry(Speaker.USER, parser.count(str(message["line"])))

    def message(self, role: str, text: str) -> Any:
        return {"line": text}


@pytest.mark.parametrize("written", [{}, {"written_in": "openai_chat"}, {"formats": (Lines(), *SHIPPED)}])
def test_a_conversation_that_pruning_broke_is_an_error(written: dict[str, Any]):
    assert check_accepted(PLAIN, BROKEN, **written) == ()
    with pytest.raises(RuleError, match=REFUSED):
        check_accepted(BROKEN, PLAIN, **written)


@pytest.mark.parametrize(
    ("conversation", "written"),
    [
        ([{"line": "Go."}], {"formats": (Lines(), *SHIPPED)}),
        ([*BROKEN, {"line": "Go."}], {"formats": (Lines(), *SHIPPED)}),
        (BROKEN, {"written_in": "lines", "formats": (Lines(), *SHIPPED)}),
    ],
)
def test_nothing_is_checked_in_a_format_without_rules_and_a_note_says_so(conversation: Any, written: Any):
    note = "nothing was validated: no rules are known for the format 'lines'"
    assert check_accepted(conversation, conversation, **written) == (note,)


# A provider of one's own


def refuse_names(messages: Any) -> Any:
    for at, message in enumerate(messages):
        if "name" in message:
            yield Problem("gateway", "unknown_field", (at, "name"), f"messages.{at}.name: extra field")


def remove_names(messages: Any, problems: Any, open_calls: Any, alternates: bool) -> Round:
    kept = [{name: value for name, value in message.items() if name != "name"} for message in messages]
    return Round(kept, [Repair(problem, "removed the name") for problem in problems])


GATEWAY = Provider("gateway", refuse_names, remove_names)
NAMED = [{**GO, "name": "ann"}]
REFUSED_NAME = Problem("gateway", "unknown_field", (0, "name"), "messages.0.name: extra field")


def test_a_provider_of_ones_own_is_checked_and_mended_by_its_own_rules():
    assert problems(NAMED) == []
    assert problems(NAMED, GATEWAY) == [REFUSED_NAME]
    assert repair(NAMED, GATEWAY) == ([GO], (Repair(REFUSED_NAME, "removed the name"),))
    assert repair([GO], GATEWAY) == ([GO], ())
    assert repair(NAMED, Provider("gateway", refuse_names)) == (NAMED, ())


def test_a_pruner_validates_by_the_name_of_a_provider():
    empty = [GO, {"role": "assistant", "content": ""}, GO]
    with pytest.raises(RuleError, match=r"empty.*[^.]\. Your messages had such problems"):
        AgenticConversationPruner("50k").prune(empty, validate="anthropic")
    for wrong in ("openaii", 5):
        with pytest.raises(SettingsError, match=f"the rules of provider {wrong!r}"):
            AgenticConversationPruner("50k").prune(empty, validate=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("pruner", [AgenticConversationPruner("50k"), ConversationPruner("50k")])
def test_a_pruner_validates_by_a_provider_of_ones_own(pruner: Any):
    assert "validated" not in " ".join(pruner.prune([GO], validate=GATEWAY).report.fallbacks)
    with pytest.raises(RuleError, match=r"gateway: messages\.0\.name: extra field") as raised:
        pruner.prune(NAMED, validate=GATEWAY)
    assert raised.value.problems == (REFUSED_NAME,)


# Roles in turns

ALTERNATE = "Conversation roles must alternate user/assistant/user/assistant/..."
OK = {"role": "assistant", "content": "Done."}


@each_row(
    ("conversation", "provider", "places"),
    [
        ([{"role": "system", "content": "x"}, *PLAIN, *PLAIN], "openai_chat", []),
        ([GO, calling("a"), tool("a"), calling("b"), tool("b"), OK], "openai_chat", []),
        ([GO, calling("a"), tool("a"), GO], "openai_chat", [(3,)]),
        ([GO, GO, OK, OK], "openai_chat", [(1,), (3,)]),
        ([OK, GO], "openai_chat", [(0,)]),
        ([GO, assistant(use()), user([answer()]), OK, GO], "anthropic", []),
        ([GO, GO, assistant(said("a")), assistant(said("b")), GO], "anthropic", [(1,), (3,)]),
        ([HI, replies(fc()), {"role": "function", "parts": [fr()]}, replies({"text": "Hi."})], "gemini", []),
        ([HI, {"parts": [{"text": "x"}]}, replies({"text": "Hi."}), replies({"text": "Hi."})], "gemini", [(1,), (3,)]),
        ([replies({"text": "Hi."})], "gemini", [(0,)]),
        ([GO, GO, call(), output()], "openai_responses", []),
    ],
)
def test_local_templates_want_roles_in_turns(conversation: list[Any], provider: str, places: list[tuple[int]]):
    assert problems(conversation, provider) == []
    assert found(conversation, provider, strict_alternation=True) == [("alternation", at, ALTERNATE) for at in places]


def test_bedrock_reports_roles_that_do_not_alternate_once():
    assert found([HELLO, HELLO], "bedrock", strict_alternation=True) == found([HELLO, HELLO], "bedrock")


# A problem in words


@each_row(
    ("conversation", "line"),
    [
        ([GO, assistant(use("a\n"))], "anthropic: messages.1.content.0.tool_use.id: String should match pattern "),
        (
            [user([said("")]), assistant(THINKING)],
            "anthropic: messages.0.content.0: messages: text content blocks must be",
        ),
        ([tool("a")], "openai_chat: messages.0: messages with role 'tool' must be a response to a preceeding message"),
        ([GO, calling()], "openai_chat: messages.1.content: Invalid value for 'content': expected a string, got null."),
        ([output()], "openai_responses: input.0: No tool call found for function call output with call_id call_1."),
        ([replies(fc()), HI], "gemini: contents.0: Please ensure that the number of function response parts"),
        (
            [user([{"text": ""}])],
            "bedrock: The text field in the ContentBlock object at messages.0.content.0 is blank.",
        ),
    ],
)
def test_a_problem_is_one_readable_line(conversation: list[Any], line: str):
    lines = [str(problem) for problem in problems(conversation)]
    assert any(one.startswith(line) for one in lines)
    assert not any("\n" in one for one in lines)


ROOT = Path(__file__).parents[2]
DOCUMENTATION = (ROOT / "docs" / "validation.md").read_text(encoding="utf-8")


@each_row(
    ("heading", "module", "table"),
    [
        ("Anthropic Messages", "anthropic", ANTHROPIC),
        ("OpenAI Chat Completions", "chat", OPENAI_CHAT),
        ("OpenAI Responses", "responses", OPENAI_RESPONSES),
        ("Gemini", "gemini", GEMINI),
        ("Bedrock Converse", "bedrock", BEDROCK),
    ],
)
def test_the_documentation_names_every_rule(heading: str, module: str, table: list[tuple[list[Any], Found]]):
    (section,) = re.findall(rf"^## {heading}\n(.*?)^## ", DOCUMENTATION, re.MULTILINE | re.DOTALL)
    named = [
        rule for row in re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE) for rule in re.findall(r"`(\w+)`", row)
    ]
    assert sorted(named) == sorted({rule for _, expected in table for rule, _, _ in expected})
    source = (ROOT / "autoprune" / "wire" / f"{module}.py").read_text(encoding="utf-8")
    checked = set(re.findall(r'Problem\(\w+, "(\w+)"', source))
    assert checked
    assert checked - {"alternation"} <= {*named}  # documented with `strict_alternation`


@each_row(
    ("provider", "table"),
    [
        ("anthropic", ANTHROPIC),
        ("openai_chat", OPENAI_CHAT),
        ("openai_responses", OPENAI_RESPONSES),
        ("gemini", GEMINI),
        ("bedrock", BEDROCK),
    ],
)
def test_every_rule_that_can_be_mended_is_mended(provider: str, table: list[tuple[list[Any], Found]]):
    mended = [repair(conversation, provider).conversation for conversation, _ in table]
    left = {problem.rule for conversation in mended for problem in problems(conversation, provider)}
    assert left <= set(UNREPAIRED)


# Odd values

NAMES = ("role", "content", "parts", "type", "text", "id", "call_id", "tool_call_id", "tool_use_id", "tool_calls")
BEDROCK_NAMES = ("toolUse", "toolResult", "toolUseId", "status", "functionCall", "functionResponse", "name", "response")
LEAVES = (
    None,
    7,
    float("nan"),
    True,
    b"x",
    object,
    "",
    " ",
    "x",
    "user",
    "assistant",
    "model",
    "tool",
    "text",
    "error",
)
KINDS = ("tool_use", "tool_result", "thinking", "function_call", "function_call_output", "reasoning", "message")
ODD = st.recursive(
    st.sampled_from((*LEAVES, *KINDS)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from((*NAMES, *BEDROCK_NAMES)), inner, max_size=5),
        st.dictionaries(st.sampled_from(NAMES), inner, max_size=5).map(lambda fields: SimpleNamespace(**fields)),
    ),
    max_leaves=20,
)


@given(st.lists(ODD, max_size=5), st.sampled_from((*PROVIDERS, None)), st.booleans())
def test_odd_values_are_passed_over(conversation: list[Any], provider: str | None, is_strict: bool):
    before = repr(conversation)
    for problem in problems(conversation, provider, strict_alternation=is_strict):
        assert 0 <= int(problem.path[0]) < len(conversation)
        assert str(problem)
    repair(conversation, provider, strict_alternation=is_strict)
    assert repr(conversation) == before


def test_a_value_that_holds_itself_is_passed_over():
    endless: list[Any] = []
    endless.append(endless)
    for provider in PROVIDERS:
        assert problems([endless, {"role": "user", "content": endless, "parts": endless}], provider) == []

"""LangChain's messages are read like the requests that its models send."""

from typing import Any

import pytest
from folding_loop import STRATEGIES, prompts, short

pytest.importorskip("langchain_core")
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_openai_messages,
)

from autoprune import AgenticConversationPruner, ConversationPruner, PruneArgs
from autoprune.integrations import langchain_messages
from autoprune.integrations._hooks import FrameworkPruner

LONG = "a line of output\n" * 200
CALL: Any = {"id": "c", "name": "read", "args": {"path": "a.py"}}
ASKED = AIMessage("I look.", tool_calls=[CALL])
ANSWER = AIMessage("Done.")

pruner = AgenticConversationPruner(PruneArgs(100), formats=[langchain_messages])
SENTENCE = pruner.replacement_message


def count(*messages: Any) -> int:
    return pruner.count_tokens([*messages])


def pruned(*messages: Any) -> list[Any]:
    return pruner.prune_conversations([HumanMessage("Go."), *messages, ANSWER], "tool_output_cleanup")[1:-1]


@pytest.mark.parametrize(
    ("role", "message"),
    [("user", HumanMessage("Go on.")), ("system", SystemMessage("You code.")), ("assistant", AIMessage("Done."))],
)
def test_words_count_as_those_of_chat_completions(role: str, message: Any):
    assert count(message) == count({"role": role, "content": message.content})


def test_calls_and_results_count_as_those_of_chat_completions():
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.py"}'}}
    wire = [{"role": "assistant", "content": "I look.", "tool_calls": [call]}, {"role": "tool", "content": LONG}]
    assert count(ASKED, ToolMessage(LONG, tool_call_id="c")) == count(*wire)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "tool_use", "id": "c", "name": "read", "input": {"path": "a.py"}},
        {"type": "function_call", "call_id": "c", "name": "read", "arguments": '{"path": "a.py"}', "id": "fc"},
        {"type": "tool_call", **CALL},
    ],
)
def test_a_call_that_the_content_repeats_counts_once(block: Any):
    assert count(AIMessage([{"type": "text", "text": "I look."}, block], tool_calls=[CALL])) == count(ASKED)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "thinking", "thinking": "Hm.", "signature": "x y z " * 99},
        {"type": "reasoning", "reasoning": "Hm.", "id": "rs_1", "extras": {"signature": "x y z " * 99}},
        {"type": "reasoning", "summary": [{"text": "Hm.", "type": "summary_text"}], "encrypted_content": "AAAA"},
    ],
)
def test_thinking_counts_by_its_text(block: Any):
    assert count(AIMessage([block])) == count(AIMessage("Hm."))


def test_unsent_fields_do_not_count():
    meta = {"response_metadata": {"model": LONG}, "additional_kwargs": {"note": LONG}, "id": LONG}
    result = ToolMessage("x", tool_call_id="c")
    assert count(AIMessage("Done.", **meta), result.model_copy(update={"artifact": LONG, "name": LONG})) == count(
        AIMessage("Done."), result
    )


def test_a_picture_counts_by_rule():
    picture = {"type": "image", "base64": "A" * 100_000, "mime_type": "image/png"}
    assert 85 < count(HumanMessage([picture])) < 1_000


def test_a_cleared_result_keeps_everything_but_its_content():
    result = ToolMessage(LONG, tool_call_id="c", name="read", id="m", status="error", artifact={"rows": [1]})
    asked, cleared = pruned(ASKED, result)
    assert asked is ASKED
    assert cleared == result.model_copy(update={"content": SENTENCE})
    assert cleared.artifact is result.artifact
    assert result.content == LONG


def test_a_result_of_blocks_stays_a_list_of_blocks_with_its_breakpoint():
    mark = {"type": "ephemeral"}
    result = ToolMessage([{"type": "text", "text": LONG, "cache_control": mark}], tool_call_id="c")
    assert pruned(ASKED, result)[1].content == [{"type": "text", "text": SENTENCE, "cache_control": mark}]


INVALID: Any = {"id": "c", "name": "read", "args": '{"path', "error": "no JSON", "type": "invalid_tool_call"}


@pytest.mark.parametrize(
    ("asked", "target"),
    [
        (ASKED, "a.py"),
        (AIMessageChunk("I look.", tool_calls=[CALL]), "a.py"),
        (AIMessage("", invalid_tool_calls=[INVALID]), '{"path'),
    ],
)
def test_a_result_is_that_of_its_call(asked: Any, target: str):
    (row,) = pruner.prune([asked, ToolMessage(LONG, tool_call_id="c", status="error"), ANSWER]).report.rows
    assert (row["tool"], row["target"], row["failed"], row["cleared"]) == ("read", target, True, True)


def test_an_artifact_is_not_looked_into():
    endless: list[Any] = []
    endless.append(endless)
    messages = [
        HumanMessage("Go."),
        *(ASKED, ToolMessage(LONG, tool_call_id="c", artifact=endless, id="m")),
        *(ANSWER, HumanMessage("Go on."), ASKED, ToolMessage("x", tool_call_id="c", artifact=endless)),
    ]
    result = FrameworkPruner(langchain_messages, 100, "tool_output_cleanup").prune(messages)
    assert [one is other for one, other in zip(result.conversation, messages, strict=True)] == [1, 1, 0, 1, 1, 1, 1]
    cleared = result.conversation[2]
    assert (cleared.content, cleared.id, cleared.artifact is endless) == (SENTENCE, "m", True)
    assert messages[2].artifact is endless


def test_messages_of_old_kinds_are_read():
    _, cleared = pruned(ChatMessage("I look.", role="assistant"), FunctionMessage(LONG, name="read"))
    assert cleared.content == SENTENCE


def test_results_in_the_users_text_are_cleared():
    text = f"<tool_result tool_name='read' success='true'><content>{LONG}</content></tool_result>"
    _, cleared = pruned(AIMessage("<read><path>a.py</path></read>"), HumanMessage(text, id="m"))
    assert (cleared.id, type(cleared), LONG in cleared.content) == ("m", HumanMessage, False)


def test_thinking_that_is_not_of_the_latest_turn_is_taken_out():
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    said = {"type": "text", "text": "It is line 9."}
    stripping = AgenticConversationPruner(PruneArgs(100, thinking_policy="strip"), formats=[langchain_messages])
    messages = [ASKED, ToolMessage(LONG, tool_call_id="c"), AIMessage([thought, said], id="m"), HumanMessage("Go on.")]
    assert stripping.prune_conversations(messages)[2] == AIMessage([said], id="m")


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_folds_send_the_same_as_those_of_chat_completions(strategy: str, whole: bool):
    messages: list[Any] = [SystemMessage("You code."), HumanMessage("Find the bug.")]
    for number in range(20):
        call: Any = {"id": f"c{number}", "name": "read", "args": {"path": f"{number}.py"}}
        messages += [AIMessage("", tool_calls=[call]), ToolMessage(f"{number}\n{LONG}", tool_call_id=f"c{number}")]
        messages += [AIMessage(f"Not in {number}."), HumanMessage(f"Then go on after {number}.")]
    own = ConversationPruner(4_000, short, strategy=strategy, formats=[langchain_messages])
    wire = prompts(
        ConversationPruner(4_000, short, strategy=strategy), convert_to_openai_messages(messages), 2, whole=whole
    )
    assert list(map(convert_to_openai_messages, prompts(own, messages, 2, whole=whole))) == wire
    assert str(wire[-1]).count("[Summary of") == (strategy != "keep_last")


@pytest.mark.parametrize(("role", "kind"), [("user", HumanMessage), ("assistant", AIMessage)])
def test_a_summary_is_a_message_of_langchain(role: str, kind: type):
    assert langchain_messages.message(role, "Summary.") == kind("Summary.")

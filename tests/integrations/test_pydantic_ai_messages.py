"""Pydantic AI's messages are read like the requests that its models send."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from folding_loop import STRATEGIES, prompts, short

pytest.importorskip("pydantic_ai")
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    ImageUrl,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from autoprune import AgenticConversationPruner, ConversationPruner, PruneArgs
from autoprune.integrations import pydantic_ai_messages
from autoprune.integrations._hooks import FrameworkPruner
from autoprune.pruners.history import prefix_digests

LONG = "a line of output\n" * 200
CALL = ToolCallPart("read", {"path": "a.py"}, "c")
ASKED = ModelResponse([TextPart("I look."), CALL])
ANSWER = ModelResponse([TextPart("Done.")])

pruner = AgenticConversationPruner(PruneArgs(100), formats=[pydantic_ai_messages])
SENTENCE = pruner.replacement_message


def count(*messages: Any) -> int:
    return pruner.count_tokens([*messages])


def pruned(*messages: Any) -> list[Any]:
    asked = ModelRequest([UserPromptPart("Go.")])
    return pruner.prune_conversations([asked, *messages, ANSWER], "tool_output_cleanup")[1:-1]


def test_a_conversation_counts_as_that_of_chat_completions():
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.py"}'}}
    wire = [
        {"role": "system", "content": "You code."},
        {"role": "user", "content": "Go on."},
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "content": LONG},
    ]
    messages = [
        ModelRequest([SystemPromptPart("You code.")]),
        ModelRequest([UserPromptPart("Go on.")], instructions=LONG),
        ModelResponse([*ASKED.parts, ThinkingPart("", signature=LONG)], model_name=LONG, provider_details={"a": LONG}),
        ModelRequest([ToolReturnPart("read", LONG, "c", metadata=LONG)]),
    ]
    assert count(*messages) == count(*wire)


def test_arguments_as_json_count_as_arguments_as_a_mapping():
    assert count(ModelResponse([replace(CALL, args='{"path": "a.py"}')])) == count(ModelResponse([CALL]))


def test_results_of_the_providers_tools_count_and_stay():
    own = [NativeToolCallPart("search", {"query": "x"}, "s"), NativeToolReturnPart("search", LONG, "s")]
    message = ModelResponse(own)
    assert count(message) > 600
    assert pruned(message) == [message]


@dataclass
class Found:
    """A value that a tool may return."""

    lines: list[str]


@pytest.mark.parametrize("content", [LONG, [LONG, LONG], {"text": LONG}, Found([LONG])])
def test_a_cleared_return_keeps_everything_but_its_content(content: Any):
    result = ToolReturnPart("read", content, "c", metadata={"rows": 1})
    request = ModelRequest([result, UserPromptPart("And b.py?")], instructions="You code.", run_id="r")
    asked, cleared = pruned(ASKED, request)
    assert asked is ASKED
    assert cleared == replace(request, parts=[replace(result, content=SENTENCE), request.parts[1]])
    assert cleared.parts[1] is request.parts[1]
    assert request.parts[0].content is content


def test_metadata_are_not_looked_into():
    endless: dict[str, Any] = {}
    endless["itself"] = endless
    kept = ToolReturnPart("read", LONG, "c", metadata=endless)
    messages = [
        ModelRequest([UserPromptPart("Go.")], metadata=endless),
        *(ASKED, ModelRequest([kept, ToolReturnPart("list", LONG, "d"), UserPromptPart("b.py?")], run_id="r")),
        *(replace(ANSWER, metadata=endless), ModelRequest([UserPromptPart("Go on.")]), ASKED),
        ModelRequest([replace(kept, content="x")]),
    ]
    result = FrameworkPruner(pydantic_ai_messages, 100, "tool_output_cleanup").prune(messages)
    assert [one is other for one, other in zip(result.conversation, messages, strict=True)] == [1, 1, 0, 1, 1, 1, 1]
    cleared = result.conversation[2]
    assert (cleared.run_id, cleared.metadata, cleared.parts[2] is messages[2].parts[2]) == ("r", None, True)
    assert [part.content for part in cleared.parts[:2]] == [SENTENCE, SENTENCE]
    assert [part.metadata is endless for part in cleared.parts[:2]] == [True, False]


@pytest.mark.parametrize("strategy", ["summarize_older(keep=5)", "snapshot"])
def test_messages_that_a_fold_joins_keep_their_metadata(strategy: str):
    messages: list[Any] = [ModelRequest([UserPromptPart("Go.")], metadata={"turn": -1})]
    for turn in range(12):
        kept = ToolReturnPart("read", LONG, f"c{turn}", metadata={"rows": turn})
        messages += [replace(ASKED, parts=[replace(CALL, tool_call_id=f"c{turn}")]), ModelRequest([kept]), ANSWER]
        messages.append(ModelRequest([UserPromptPart(f"More {turn}.")], metadata={"turn": turn}))
    folding = ConversationPruner(3_000, strategy=strategy)
    got = FrameworkPruner(pydantic_ai_messages, folding, None).prune(messages).conversation
    assert len(got) < len(messages)
    assert got[-1].metadata == {"turn": 11}
    own = {part.tool_call_id: part.metadata for one in messages for part in one.parts if hasattr(part, "metadata")}
    left = {part.tool_call_id: part.metadata for one in got for part in one.parts if hasattr(part, "metadata")}
    assert left.items() <= own.items()


def on_the_wire(messages: list[Any]) -> list[tuple[str, str]]:
    """The roles and texts of the messages that Pydantic AI makes of these for Chat Completions."""
    roles = {"system-prompt": "system", "user-prompt": "user", "tool-return": "tool"}
    parts = [part for message in messages for part in message.parts]
    return [(roles.get(part.part_kind, "assistant"), getattr(part, "content", "")) for part in parts]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_folds_send_the_same_as_those_of_chat_completions(strategy: str, whole: bool):
    messages: list[Any] = [ModelRequest([SystemPromptPart("You code.")]), ModelRequest([UserPromptPart("Find it.")])]
    for number in range(20):
        call, result = replace(CALL, tool_call_id=f"c{number}"), ToolReturnPart("read", LONG, f"c{number}")
        messages += [ModelResponse([call]), ModelRequest([result]), ANSWER]
        messages.append(ModelRequest([UserPromptPart(f"Then go on after {number}.")]))
    wire: list[Any] = [{"role": role, "content": text} for role, text in on_the_wire(messages)]
    arguments = {"name": "read", "arguments": '{"path": "a.py"}'}
    for number, at in enumerate(range(2, len(wire), 4)):
        wire[at]["tool_calls"] = [{"id": f"c{number}", "type": "function", "function": arguments}]
        wire[at + 1]["tool_call_id"] = f"c{number}"
    own = ConversationPruner(4_000, short, strategy=strategy, formats=[pydantic_ai_messages])
    sent = prompts(own, messages, 2, whole=whole)
    chat = prompts(ConversationPruner(4_000, short, strategy=strategy), wire, 2, whole=whole)
    assert [*map(on_the_wire, sent)] == [[(each["role"], each["content"]) for each in prompt] for prompt in chat]
    assert str(sent[-1]).count("[Summary of") == (strategy != "keep_last")


def test_a_history_that_was_stored_as_json_is_recognized():
    when = datetime(2026, 9, 21, 14, 13, 20, tzinfo=UTC)
    details = {"finish_reason": "tool_calls", "timestamp": when}
    asked = replace(ASKED, provider_details=details, usage=RequestUsage(input_tokens=9, cost=Decimal("0.01")))
    history = [ModelRequest([UserPromptPart("Go.")]), asked, ModelRequest([ToolReturnPart("read", LONG, "c")]), ANSWER]
    stored = ModelMessagesTypeAdapter.dump_json(history)
    assert prefix_digests(ModelMessagesTypeAdapter.validate_json(stored)) == prefix_digests(history)


def test_thinking_is_taken_out_of_a_message_with_metadata():
    args = PruneArgs(100, thinking_policy="strip")
    thought = ModelResponse([ThinkingPart("Hm.", signature="s"), TextPart("It is line 9.")], metadata={"mine": 1})
    result, again = ModelRequest([ToolReturnPart("read", LONG, "c")]), ModelRequest([UserPromptPart("Go on.")])
    got = FrameworkPruner(pydantic_ai_messages, args, "low_water").prune([ASKED, result, thought, again]).conversation
    assert got[2] == replace(thought, parts=thought.parts[1:])


def test_a_file_in_a_return_counts_by_rule_and_is_cleared_with_it():
    picture = BinaryContent(b"x" * 50_000, media_type="image/png")
    request = ModelRequest([ToolReturnPart("read", ["Here.", picture], "c")])
    assert 85 < count(request) < 1_000
    assert pruned(ASKED, request)[1].parts[0].content == SENTENCE


def test_a_return_that_the_framework_reads_again_stays():
    request = ModelRequest([ToolReturnPart("search", LONG, "c", tool_kind="mine")])
    assert pruned(ASKED, request) == [ASKED, request]


@pytest.mark.parametrize(("outcome", "failed"), [("success", False), ("failed", True), ("denied", None)])
def test_the_outcome_of_a_return_is_read(outcome: Any, failed: bool | None):
    request = ModelRequest([ToolReturnPart("read", LONG, "c", outcome=outcome)])
    (row,) = pruner.prune([ASKED, request, ANSWER]).report.rows
    assert (row["tool"], row["target"], row["failed"], row["cleared"]) == ("read", "a.py", failed, True)


def test_the_users_items_count_only_what_is_sent():
    def said(*items: Any) -> int:
        return count(ModelRequest([UserPromptPart([*items])]))

    assert said("Go on.", TextContent("Go on.", metadata=LONG), CachePoint()) == said("Go on.", "Go on.")
    assert 85 < said(ImageUrl("https://example.com/a.png")) < 1_000


def test_results_in_the_users_text_are_cleared():
    text = f"<tool_result tool_name='read' success='true'><content>{LONG}</content></tool_result>"
    asked = ModelResponse([TextPart("<read><path>a.py</path></read>")])
    _, cleared = pruned(asked, ModelRequest([UserPromptPart(text)]))
    assert LONG not in cleared.parts[0].content


def test_thinking_that_is_not_of_the_latest_turn_is_taken_out():
    stripping = AgenticConversationPruner(PruneArgs(100, thinking_policy="strip"), formats=[pydantic_ai_messages])
    thought = ModelResponse([ThinkingPart("Hm.", signature="s"), TextPart("It is line 9.")])
    result, again = ModelRequest([ToolReturnPart("read", LONG, "c")]), ModelRequest([UserPromptPart("Go on.")])
    got = stripping.prune_conversations([ASKED, result, thought, again])
    assert got[2] == replace(thought, parts=thought.parts[1:])


@pytest.mark.parametrize(("role", "kind"), [("user", ModelRequest), ("assistant", ModelResponse)])
def test_a_summary_is_a_message_of_pydantic_ai(role: str, kind: type):
    said = pydantic_ai_messages.message(role, "Summary.")
    assert (type(said), [part.content for part in said.parts]) == (kind, ["Summary."])

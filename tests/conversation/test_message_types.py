"""Messages that are no plain dicts come back as what they were; old spellings of OpenAI Chat are read too."""

import json
from dataclasses import dataclass
from enum import Enum
from types import SimpleNamespace
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessage
from pydantic import BaseModel
from rounds import OTHERS, WIRE, Round, Step
from rounds_in_texts import CARRIERS, DIALECTS, in_text
from tables import each_row

from autoprune import AgenticConversationPruner, Clamp, PruneArgs, SettingsError, ToolInputs
from autoprune.conversation.transcript import Location, ToolCall
from autoprune.facts.calls import arguments, target
from autoprune.planning.view import Strategy
from autoprune.strategies import LowWater, ToolOutputCleanup

LONG = "a line of output\n" * 200
SENTENCE = AgenticConversationPruner(None).replacement_message


def pruned(messages: list[Any], safe_zone: int = 100) -> list[Any]:
    return AgenticConversationPruner(PruneArgs(safe_zone)).prune_conversations(messages)


def around(result: Any) -> list[Any]:
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    return [{"role": "user", "content": "Go."}, asked, result, {"role": "assistant", "content": "Done."}]


@dataclass(frozen=True)
class FrozenMessage:
    role: str
    content: str
    tool_call_id: str = "c"


class Model(BaseModel):
    role: str
    content: Any
    tool_call_id: str = "c"


@pytest.mark.parametrize("kind", [FrozenMessage, Model, SimpleNamespace])
def test_a_result_in_an_object_is_cleared_in_a_copy_of_its_type(kind: type):
    result = kind(role="tool", content=LONG, tool_call_id="c")
    got = pruned(around(result))[2]
    assert type(got) is kind
    assert (got.role, got.content, got.tool_call_id) == ("tool", SENTENCE, "c")
    assert result.content == LONG


ROUNDS: list[Round] = [
    [Step("read_file", {"path": "a.py"}, LONG), Step("run", {"command": "ls"}, f"Error: {LONG}", failed=True)],
    [Step("write_to_file", {"path": "b.py", "content": LONG}, "The file b.py has been updated.")],
    "And now?",
    [Step("read_file", {"path": "c.py"}, LONG)],
]
WRITTEN: dict[str, list[Any]] = {
    **{name: write(ROUNDS) for name, write in WIRE.items()},
    **{f"{name} {at}": write(ROUNDS) for name, writers in OTHERS.items() for at, write in enumerate(writers)},
    **{f"{dialect} in {carrier}": in_text(ROUNDS, dialect, carrier) for dialect in DIALECTS for carrier in CARRIERS},
}


def in_tuples(value: Any) -> Any:
    """The same, with each list a tuple."""
    if isinstance(value, list):
        return tuple(map(in_tuples, value))
    return {name: in_tuples(item) for name, item in value.items()} if isinstance(value, dict) else value


@each_row("strategy", [ToolOutputCleanup(), LowWater(clamp=Clamp(200), clear_tool_inputs=ToolInputs())])
@each_row("name", WRITTEN)
def test_blocks_in_tuples_are_read_and_cleared_as_those_in_lists(name: str, strategy: Strategy):
    pruner = AgenticConversationPruner(PruneArgs(100))
    expected = pruner.prune_conversations(WRITTEN[name], strategy)
    given = list(map(in_tuples, WRITTEN[name]))
    becomes = pruner.prune_conversations(given, strategy)
    assert expected is not WRITTEN[name]
    assert json.dumps(becomes) == json.dumps(expected)
    assert pruner.count_tokens(becomes) == pruner.count_tokens(expected)
    assert pruner.get_cleanup_statistics(given, becomes) == pruner.get_cleanup_statistics(WRITTEN[name], expected)


THOUGHT = {"type": "thinking", "thinking": LONG, "signature": "signed"}


def test_thinking_in_a_tuple_is_taken_out():
    call = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": LONG}
    said: Any = [{"type": "text", "text": "It is done."}]
    words: list[Any] = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": [call]}]
    words += [{"role": "user", "content": [result]}]
    asked = {"role": "user", "content": "And now?"}
    pruner = AgenticConversationPruner(PruneArgs(100, thinking_policy="strip"))
    got = pruner.prune_conversations([*words, {"role": "assistant", "content": (THOUGHT, *said)}, asked])
    assert json.dumps(got[3:]) == json.dumps([{"role": "assistant", "content": said}, asked])


def test_an_sdk_message_and_its_extra_fields_are_counted():
    plain = {"role": "assistant", "content": "hello there", "reasoning_content": "long thoughts " * 50}
    count = AgenticConversationPruner(PruneArgs(1)).count_tokens
    assert count([ChatCompletionMessage.model_validate(plain)]) == count([plain]) > 100


class Kind(Enum):
    TEXT = "text"


def test_a_member_of_an_enumeration_counts_as_its_value():
    count = AgenticConversationPruner(PruneArgs(1)).count_tokens
    assert count([{"role": "user", "content": [Kind.TEXT]}]) == count([{"role": "user", "content": ["text"]}])


def test_the_old_spelling_of_calls_and_results_is_read():
    messages = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": None, "function_call": {"name": "read", "arguments": '{"path": "a.py"}'}},
        {"role": "function", "name": "read", "content": LONG},
        {"role": "assistant", "content": "Done."},
    ]
    report = AgenticConversationPruner(PruneArgs(100)).prune(messages).report
    (row,) = report.rows
    assert (row["tool"], row["target"], row["request"], row["cleared"]) == ("read", "a.py", 0, True)


def test_the_cache_breakpoint_of_cleared_blocks_stays():
    blocks = [{"type": "text", "text": LONG}, {"type": "text", "text": "end", "cache_control": {"type": "ephemeral"}}]
    got = pruned(around({"role": "tool", "tool_call_id": "c", "content": blocks}))[2]
    assert got["content"] == [{"type": "text", "text": SENTENCE, "cache_control": {"type": "ephemeral"}}]


@pytest.mark.parametrize("sentence", ["", "  \n", None])
def test_a_blank_placeholder_is_refused_before_a_provider_refuses_it(sentence: Any):
    ours = AgenticConversationPruner(PruneArgs(100))
    ours.replacement_message = sentence
    with pytest.raises(SettingsError, match="providers refuse blank text"):
        ours.prune(around({"role": "tool", "tool_call_id": "c", "content": LONG}))


@pytest.mark.parametrize("strategy", [5, object(), PruneArgs])
def test_what_is_no_strategy_is_refused(strategy: Any):
    with pytest.raises(SettingsError, match=r"is not a strategy: give a name or an object with a method step\(view\)"):
        AgenticConversationPruner(PruneArgs(100)).prune([], strategy)


def call_of(given: object) -> ToolCall:
    return ToolCall(Location((0,)), 0, None, "t", given)


@each_row(
    ("given", "shown"),
    [
        ({"path": "a.py", "command": "ls"}, "a.py"),
        ('{"cmd": ["ls", "-l"]}', "ls -l"),
        ('{"query": "two\\n words"}', "two words"),
        ({"limit": 5}, ""),
        ({"description": "Look for callers", "prompt": "Find them."}, "Look for callers"),
        ("not json", "not json"),
        ("[1]", "[1]"),
        (None, ""),
    ],
)
def test_the_target_is_what_a_call_touches(given: object, shown: str):
    assert target(call_of(given)) == shown


def test_arguments_that_are_no_object_are_no_arguments():
    assert [arguments(call_of(text)) for text in ("{", "[]", "3", "[" * 100_000)] == [{}, {}, {}, {}]


def test_statistics_tell_summarized_messages_from_removed_ones():
    messages = around({"role": "tool", "tool_call_id": "c", "content": LONG})
    statistics = AgenticConversationPruner(PruneArgs(100)).get_cleanup_statistics
    summary = {"role": "user", "content": "Summary: it was read."}
    assert statistics(messages, [messages[0], summary, messages[3]])["messages_summarized"] == 2
    assert statistics(messages, [messages[0], messages[3]])["messages_removed"] == 2
    assert json.dumps(statistics(messages, []))
    assert statistics([], [])["compression_ratio"] == 1.0

"""Bad input is an error that says where and what to do; odd input is counted, kept, and given back as it was."""

import copy
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from profiles import size
from tables import each_row

from autoprune import AgenticConversationPruner, ConversationError, PruneArgs, SettingsError

LONG = "word " * 3_000


def pruner(safe_zone: Any = 1_000) -> AgenticConversationPruner:
    return AgenticConversationPruner(PruneArgs(safe_zone))


@each_row(
    ("conversation", "said", "path"),
    [
        (None, "the conversation must be a list of messages, not NoneType", ()),
        ("text", "the conversation must be a list of messages, not str", ()),
        ({"role": "user"}, "the conversation must be a list of messages, not dict", ()),
        (({"role": "user", "content": "x"},), "give list(messages)", ()),
        ([{"role": "user", "content": "x"}, "hello"], "message 1 is str 'hello', not a message", (1,)),
        ([None], "message 0 is NoneType", (0,)),
        ([{"content": "x"}], "message 0 has no 'role' (it has content)", (0,)),
        ([{}], "message 0 has no 'role' (it has nothing)", (0,)),
        ([{"role": None}], "message 0 has no 'role' (it has role)", (0,)),
        ([{"type": "step", "id": 7}], "message 0 of type 'step' has no 'role' (it has type, id)", (0,)),
        ([SimpleNamespace(content="x")], "message 0 has no 'role'", (0,)),
    ],
)
@each_row("safe_zone", [10, 100_000])
def test_an_invalid_conversation_is_reported_with_its_place(
    conversation: Any, said: str, path: tuple[int], safe_zone: int
):
    for method in (pruner(safe_zone).prune_conversations, pruner(safe_zone).plan, pruner(safe_zone).count_tokens):
        with pytest.raises(ConversationError) as caught:
            method(conversation)
        assert said in str(caught.value)
        assert caught.value.path == path


@each_row("ratio", [0, -1.0, float("nan"), float("inf"), "1.2", None])
def test_a_calibration_that_is_no_ratio_is_an_error(ratio: Any):
    with pytest.raises(SettingsError, match="calibration is"):
        pruner().prune([], calibration=ratio)


ODD_CONTENTS: list[Any] = [
    None,
    "",
    7,
    3.5,
    True,
    [],
    {},
    [[["deep"], None], 4],
    ["just a string"],
    {"text": "no list"},
    [{"type": "text"}],
    [{"type": "text", "text": None}],
    [{"type": "mystery", "data": {"a": [1, "b"]}}],
    "a\x00b",
    "lone \ud800 surrogate",
    "<tool_result tool_name='x' success='true'>never closed",
    "</tool_result> before <tool_result",
]


@each_row("content", ODD_CONTENTS)
@each_row("role", ["system", "user", "assistant", "tool", "function", "observer"])
def test_odd_content_is_counted_and_returned_unchanged(role: str, content: Any):
    messages = [
        {"role": "user", "content": "start"},
        {"role": role, "content": content},
        {"role": "assistant", "content": "done"},
    ]
    before = copy.deepcopy(messages)
    for safe_zone in (1, 100_000):
        ours = pruner(safe_zone)
        assert ours.prune_conversations(messages) is messages
        assert ours.count_tokens(messages) >= 3 * 3 + 3 + 2
    assert messages == before


@each_row(
    "calls",
    [
        None,
        [],
        "calls",
        [None],
        [{}],
        [{"id": 5, "function": None}],
        [{"id": "c", "function": {"name": None}}],
        {"a": 1},
    ],
)
def test_odd_calls_are_left_alone(calls: Any):
    messages = [{"role": "assistant", "content": None, "tool_calls": calls}, {"role": "tool", "content": LONG}]
    messages += [{"role": "assistant", "content": "so"}]
    pruned = pruner().prune_conversations(messages)
    assert pruned[0] is messages[0]
    assert "cleared" in pruned[1]["content"]


def test_a_nested_list_is_cleared_only_as_a_whole_result():
    messages = [
        {"role": "user", "content": [["nested", LONG]]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": [[LONG], {"type": "image_url", "image_url": {"url": "x"}}]},
        {"role": "assistant", "content": "so"},
    ]
    pruned = pruner().prune_conversations(messages)
    assert pruned[0] is messages[0]
    assert pruned[2] == {
        "role": "tool",
        "tool_call_id": "c",
        "content": [{"type": "text", "text": pruner().replacement_message}],
    }


def test_a_read_only_mapping_is_a_message():
    result = MappingProxyType({"role": "tool", "tool_call_id": "c", "content": LONG})
    messages: list[Any] = [{"role": "assistant", "content": "x"}, result, {"role": "assistant", "content": "y"}]
    pruned = pruner().prune_conversations(messages)
    assert dict(pruned[1]) == {"role": "tool", "tool_call_id": "c", "content": pruner().replacement_message}
    assert result["content"] == LONG


def test_a_very_deep_nest_neither_loops_nor_overflows():
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    messages = [{"role": "user", "content": deep}, {"role": "assistant", "content": LONG}]
    ours = pruner(10)
    assert ours.prune_conversations(messages) is messages
    assert ours.prune_conversations(messages) is messages
    assert ours.count_tokens(messages) > 1_000


def test_a_failing_counter_does_not_disable_pruning():
    def failing(text: str) -> int:
        raise RuntimeError("no count today")

    with pytest.raises(RuntimeError, match="no count today"):
        AgenticConversationPruner(PruneArgs(10), count=failing).prune_conversations([{"role": "user", "content": "x"}])


@pytest.mark.full
@each_row(
    "text",
    [
        "</z>" + "<a>\n" * size(100_000),
        "<a>\n" * size(100_000) + "</a>",
        "<tool_result tool_name='x'>\n" * size(30_000),
        "`<tool_result tool_name='x'>` " * size(30_000),
        "<tool_result tool_name='x'>y</tool_result>\n```\n```\n" * size(10_000),
        "<tool_result tool_name='x' " + "a='b' " * size(30_000),
        "<tool_result tool_name='x' a=" * size(30_000),
    ],
    ids=["calls never closed", "calls closed once", "results never closed", "quoted", "fences", "a long tag", "no tag"],
)
def test_a_text_made_to_be_slow_is_read_like_any_other(text: str):
    """Each of these would take minutes if the time grew with the square of the length."""
    messages = [{"role": "assistant", "content": text}, {"role": "user", "content": text}]
    assert pruner(10).prune_conversations(messages) is messages


@pytest.mark.full
def test_a_content_that_holds_itself_is_named_with_its_place():
    content: list[Any] = []
    content.append(content)
    messages = [{"role": "user", "content": "x"}, {"role": "user", "content": content}]
    for safe_zone in (10, 1_000_000):
        with pytest.raises(ConversationError, match=r"message 1 cannot be read: it holds .* itself") as caught:
            pruner(safe_zone).prune_conversations(messages)
        assert caught.value.path == (1,)


@each_row("content", [None, "", [], 7, {"a": LONG}])
def test_a_tools_answer_of_whatever_kind_is_a_result_with_a_reason(content: Any):
    messages = [{"role": "assistant", "content": "x"}, {"role": "tool", "content": content}]
    messages.append({"role": "assistant", "content": "y"})
    result = pruner(10).prune(messages)
    assert result.conversation is messages
    assert [(row["message"], row["reason"]) for row in result.report.rows] == [(1, "no_gain")]
    assert sum(result.report.floor.values()) == result.report.tokens_after

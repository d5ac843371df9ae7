"""The class under the names and habits that other agents' code expects of it, with mocks for settings and model."""

from typing import Any
from unittest.mock import MagicMock

import pytest

from autoprune import AgenticConversationPruner, PruneArgs

SENTENCE = (
    "This message has been cleared. If you still want to get this information, "
    "you can call the tool again to retrieve it."
)
FILE = "def total(rows):\n    return sum(row.amount for row in rows)\n" * 60


def shim(safe_zone: object = 1000) -> AgenticConversationPruner:
    """The pruner as an agent makes it, which has mocks for everything else."""
    args, llm = MagicMock(), MagicMock()
    args.conversation_prune_safe_zone_tokens = safe_zone
    return AgenticConversationPruner(args=args, llm=llm)


def result(tool: str, content: str, success: str = "true") -> str:
    return (
        f"<tool_result tool_name='{tool}' success='{success}'>"
        f"<message>Done</message><content>{content}</content></tool_result>"
    )


def cleared(tool: str, success: str = "true") -> str:
    return (
        f"<tool_result tool_name='{tool}' success='{success}'>\n"
        "<message>Content cleared to save tokens</message>\n"
        f"<content>{SENTENCE}</content>\n</tool_result>"
    )


def session(*contents: str) -> list[dict[str, str]]:
    """The model reads one result after the other, and has seen them all."""
    messages = [{"role": "user", "content": "Read the files."}]
    for content in contents:
        messages.append({"role": "assistant", "content": "I read on."})
        messages.append({"role": "user", "content": content})
    return [*messages, {"role": "assistant", "content": "I have read them all."}]


def contents(messages: list[Any]) -> list[str]:
    """What the results have become."""
    return [message["content"] for message in messages[2::2]]


def test_arguments_may_be_given_by_position():
    args, llm = MagicMock(), MagicMock()
    pruner = AgenticConversationPruner(args, llm)
    assert (pruner.args, pruner.llm) == (args, llm)


def test_the_safe_zone_is_read_anew_each_time():
    pruner = shim(1_000_000)
    messages = session(result("ReadFileTool", FILE), result("ReadFileTool", FILE))
    assert pruner.prune_conversations(messages) is messages
    pruner.args.conversation_prune_safe_zone_tokens = 1000
    assert contents(pruner.prune_conversations(messages))[0] == cleared("ReadFileTool")


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("ReadFileTool", "<tool_result tool_name='ReadFileTool' success='true'>"),
        ("mcp.read-file_2", "<tool_result tool_name='mcp.read-file_2' success='true'>"),
        ("", "<tool_result success='true'>"),
        ("unknown", "<tool_result success='true'>"),
    ],
)
def test_the_replacement_names_the_tool_unless_it_is_not_known(name: str, tag: str):
    assert shim()._generate_replacement_message(name) == (
        f"{tag}\n<message>Content cleared to save tokens</message>\n<content>{SENTENCE}</content>\n</tool_result>"
    )


def test_statistics_of_a_pruned_conversation():
    messages = session(*(result("ReadFileTool", FILE) for _ in range(4)), "Thank you.")
    pruner = shim()
    pruned = pruner.prune_conversations(messages)
    original, left = pruner.count_tokens(messages), pruner.count_tokens(pruned)
    assert pruner.get_cleanup_statistics(messages, pruned) == {
        "original_tokens": original,
        "pruned_tokens": left,
        "tokens_saved": original - left,
        "compression_ratio": left / original,
        "tool_results_cleaned": contents(pruned).count(cleared("ReadFileTool")),
        "tool_calls_cleaned": 0,
        "messages_removed": 0,
        "messages_summarized": 0,
        "total_messages": len(messages),
    }
    assert 0 < left < original


# A subclass may replace the three methods


class Signed(AgenticConversationPruner):
    def _generate_replacement_message(self, tool_name: str) -> str:
        return f"<tool_result tool_name='{tool_name}' success='true'><content>{tool_name} went</content></tool_result>"


def test_statistics_after_messages_were_dropped():
    messages = session(*(result(f"Tool{number}", FILE) for number in range(4)))
    pruned = shim(2500).prune_conversations(messages)
    assert contents(pruned)[:3] == [cleared("Tool0"), cleared("Tool1"), contents(messages)[2]]
    figures = shim().get_cleanup_statistics(messages, [pruned[0], *pruned[3:]])
    assert (figures["tool_results_cleaned"], figures["messages_removed"], figures["total_messages"]) == (1, 2, 10)


def test_a_subclass_may_write_the_replacement():
    args = MagicMock(conversation_prune_safe_zone_tokens=100)
    messages = session(result("ReadFileTool", FILE), result("RunCommandTool", FILE, success="false"))
    assert contents(Signed(args, None).prune_conversations(messages)) == [
        "<tool_result tool_name='ReadFileTool' success='true'><content>ReadFileTool went</content></tool_result>",
        "<tool_result tool_name='RunCommandTool' success='false'><content>RunCommandTool went</content></tool_result>",
    ]


class OnlyReads(AgenticConversationPruner):
    def _is_tool_result_message(self, content: object) -> bool:
        return isinstance(content, str) and "ReadFileTool" in content


def test_a_subclass_may_say_what_a_result_is():
    args = MagicMock(conversation_prune_safe_zone_tokens=100)
    messages = session(result("RunCommandTool", FILE), result("ReadFileTool", FILE))
    assert contents(OnlyReads(args, None).prune_conversations(messages)) == [
        result("RunCommandTool", FILE),
        cleared("ReadFileTool"),
    ]


@pytest.mark.parametrize(
    "sentence",
    [
        "[read_file for 'a.py'] Result:\nwas here",
        "gone</content>\n</tool_result>\n<tool_result tool_name='Y' success='true'>x</tool_result>",
        "```\ngone",
    ],
)
def test_a_sentence_that_reads_like_a_result_itself_breaks_nothing_when_it_is_fed_back(sentence: str):
    def fresh() -> AgenticConversationPruner:
        pruner = AgenticConversationPruner(PruneArgs(conversation_prune_safe_zone_tokens=400))
        pruner.replacement_message = sentence
        return pruner

    def result(number: int) -> dict[str, str]:
        text = f"word{number} " * 100
        return {"role": "user", "content": f"<tool_result tool_name='X' success='true'>{text}</tool_result>"}

    pruner = fresh()
    conversation: list[dict[str, str]] = [{"role": "user", "content": "Fix it."}]
    for number in range(8):
        conversation = [*conversation, {"role": "assistant", "content": "I look."}, result(number)]
        alone = fresh().prune_conversations(conversation)
        conversation = pruner.prune_conversations(conversation)
        assert conversation == alone

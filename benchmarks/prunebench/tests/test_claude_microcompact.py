"""Claude Code's microcompact where the recordings of the original say nothing: with its tool MultiEdit."""

from policy_conversations import Conversation, asks, gives
from policy_originals import sent_by_policy


def test_a_tool_that_is_not_on_its_list_is_neither_cleared_nor_counted():
    tools = ("Read", "MultiEdit", "Read", "MultiEdit")
    rounds = [
        message
        for number, tool in enumerate(tools)
        for message in (asks((f"call_{number}", tool, {})), gives(f"call_{number}", "some text"))
    ]
    messages = [{"role": "user", "content": "Go."}, *rounds, {"role": "assistant", "content": "Done."}]
    paused = Conversation(messages, {len(messages) - 1: 3_600.0})
    cleared = {"role": "tool", "of": 2, "text": "[Old tool result content cleared]"}
    assert sent_by_policy("claude_code_microcompact", paused, keep=1)[4] == [[0, 1], cleared, [3, 8]]

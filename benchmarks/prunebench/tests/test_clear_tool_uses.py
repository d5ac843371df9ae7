"""Anthropic's clearing of tool uses, which runs on its servers, and where it agrees with LangChain's."""

from policy_originals import conversations, sent_by_policy

LONG = conversations()["long work"]


def test_both_clear_the_same_above_their_triggers():
    ours = sent_by_policy("anthropic_clear_tool_uses", LONG, trigger=1, exclude_tools=["grep"])
    assert ours == sent_by_policy("langchain_clear_tool_uses", LONG, trigger=1, exclude_tools=["grep"])
    assert any(request[-1] != [0, len(LONG.messages) - 1] for request in ours)


def test_nothing_is_cleared_if_it_would_not_save_enough():
    whole = [[[0, at - 1]] for at in (2, *range(4, 8, 2))]
    assert sent_by_policy("anthropic_clear_tool_uses", LONG, trigger=1, keep=0, clear_at_least=9_000)[:3] == whole


def test_a_trigger_may_count_tool_uses_and_inputs_may_be_cleared_by_tool():
    sent = sent_by_policy("anthropic_clear_tool_uses", LONG, keep=0, trigger_tool_uses=1, clear_tool_inputs=["read"])
    assert sent[1] == [[0, 3]]
    assert [entry for entry in sent[2] if isinstance(entry, dict)] == [
        {"role": "assistant", "of": 2, "text": "I read src/module_0.py again.", "calls": [{}]},
        {"role": "tool", "of": 3, "text": "[cleared]"},
        {"role": "assistant", "of": 4, "text": "", "calls": [{}]},
        {"role": "tool", "of": 5, "text": "[cleared]"},
    ]

"""What became of one conversation in another, whoever changed it."""

import copy
import json
from typing import Any

import pytest
from tables import each_row

from autoprune import AgenticConversationPruner, PruneArgs

SHORT = "ok"
LONG = "a line of output\n" * 60


def xml(text: str, tag: str = "<tool_result tool_name='X' success='true'>") -> dict[str, Any]:
    return {"role": "user", "content": f"{tag}<content>{text}</content></tool_result>"}


def tool(text: Any, call_id: str = "c") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def conversation(*results: dict[str, Any]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
    for number, result in enumerate(results):
        messages += [{"role": "assistant", "content": f"Step {number}."}, result]
    return [*messages, {"role": "assistant", "content": "Done."}]


def changed(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> dict[str, float]:
    figures = AgenticConversationPruner(PruneArgs()).get_cleanup_statistics(before, after)
    names = ("tool_results_cleaned", "messages_removed", "messages_summarized")
    return {name: figures[name] for name in names if figures[name]}


def element(name: str = "X") -> str:
    return AgenticConversationPruner(None)._generate_replacement_message(name)


SENTENCE = AgenticConversationPruner(None).replacement_message


@each_row(
    ("before", "after"),
    [
        (xml(SHORT), {"role": "user", "content": element()}),
        (xml(LONG), {"role": "user", "content": element()}),
        (xml(LONG, "<tool_result tool_name='X' success='false'>"), {"role": "user", "content": element()}),
        (xml(LONG, '<tool_result success="true" tool_name="X">'), {"role": "user", "content": element()}),
        (xml(LONG), xml("[gone]")),
        (tool(SHORT), tool(SENTENCE)),
        (tool(LONG), tool("[gone]")),
        (tool(LONG), tool([{"type": "text", "text": SENTENCE}])),
        (tool([{"type": "text", "text": LONG}]), tool(SENTENCE)),
    ],
)
def test_a_result_cleared_by_whomever_counts_as_one(before: dict[str, Any], after: dict[str, Any]):
    messages = conversation(xml("first"), before, tool("last", "d"))
    assert changed(messages, [*messages[:4], after, *messages[5:]]) == {"tool_results_cleaned": 1}


@pytest.mark.parametrize("make", [xml, tool])
def test_a_dropped_result_is_no_cleared_one(make: Any):
    messages = conversation(make(LONG + "1"), make(SHORT), make(LONG + "3"))
    assert changed(messages, messages[:1] + messages[3:]) == {"messages_removed": 2}
    assert changed(messages, messages[:3] + messages[5:]) == {"messages_removed": 2}
    assert changed(messages, []) == {"messages_removed": len(messages)}


def test_dropped_cleared_and_summarized_messages_are_told_apart():
    messages = conversation(*(xml(f"{LONG}{number}") for number in range(6)))
    pruned = AgenticConversationPruner(PruneArgs(900)).prune_conversations(messages)
    cleared = [at for at, pair in enumerate(zip(messages, pruned, strict=True)) if pair[0] != pair[1]]
    assert len(cleared) == 5
    assert changed(messages, pruned[:1] + pruned[3:]) == {"tool_results_cleaned": 4, "messages_removed": 2}
    summary = {"role": "user", "content": "Summary."}
    assert changed(messages, [pruned[0], summary, *pruned[3:]]) == {"tool_results_cleaned": 4, "messages_summarized": 2}


def test_a_changed_answer_is_not_a_cleared_result():
    messages = conversation(xml(SHORT))
    assert changed(messages, conversation(xml(SHORT + LONG))) == {}
    assert changed(messages, copy.deepcopy(messages)) == {}


def test_many_equal_messages_are_compared_in_order():
    messages = [{"role": "user", "content": "go on"}, {"role": "assistant", "content": "ok"}] * 300
    assert changed(messages, messages[100:]) == {"messages_removed": 100}


def test_the_figures_are_plain_numbers():
    figures = AgenticConversationPruner(PruneArgs()).get_cleanup_statistics([], [])
    assert json.loads(json.dumps(figures)) == {**dict.fromkeys(figures, 0), "compression_ratio": 1.0}


def test_a_cleared_result_is_found_beside_messages_that_are_often_repeated():
    repeated = [{"role": "assistant", "content": "ok"}, {"role": "user", "content": "continue"}]
    given = [{"role": "user", "content": "Go."}]
    for at in range(2):
        call = {"id": f"call_{at}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        given += [{"role": "assistant", "content": None, "tool_calls": [call]}, tool(LONG, f"call_{at}"), *repeated]
    after = [given[0], given[5], tool(SENTENCE, "call_1"), *repeated]
    assert changed(given, after) == {"messages_removed": 4, "tool_results_cleaned": 1}


def test_messages_that_stay_are_found_although_all_calls_look_alike():
    """Local servers give each call the same id, and Gemini gives none."""
    call = {"id": "call_0", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    given = [{"role": "user", "content": "Go."}]
    for at in range(8):
        given += [{"role": "assistant", "content": None, "tool_calls": [call]}, tool(LONG[40 * at :], "call_0")]
    cleared = [{**given[13]}, {**given[14], "content": SENTENCE}]
    assert changed(given, [given[0], *cleared, *given[15:]]) == {"messages_removed": 12, "tool_results_cleaned": 1}

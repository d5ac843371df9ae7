"""What becomes of calls' arguments once the calls have succeeded: shorter strings, in the same shape."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from conversations import ANSWER, Message, words
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from tables import each_row

from autoprune import AgenticConversationPruner, Clamp, PruneArgs, Result, ToolInputs
from autoprune.conversation.edits import Reason
from autoprune.conversation.transcript import ToolInput
from autoprune.planning.tool_inputs import MARKED, MARKER
from autoprune.planning.view import Strategy
from autoprune.strategies.clearing import LowWater, ToolOutputCleanup
from autoprune.tokens import exact

count_text = exact()
BODY = "x = 1  # set\n" * 100
MARK = MARKER.format(count_text(BODY))
DONE = "Successfully wrote 1300 bytes to a.py"
SHORTENS = ToolOutputCleanup(clear_tool_inputs=ToolInputs())


def pruner(safe_zone: int) -> AgenticConversationPruner:
    return AgenticConversationPruner(PruneArgs(safe_zone))


count = pruner(1).count_tokens


def pruned(messages: list[Message], strategy: Strategy = SHORTENS) -> Result:
    return pruner(1).prune(messages, strategy)


def native(arguments: str, answer: str = DONE, tool: str = "write_file") -> list[Message]:
    """One call, its result, and the model's words."""
    call = {"id": "c", "type": "function", "function": {"name": tool, "arguments": arguments}}
    return [
        {"role": "user", "content": "Write it."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": answer},
        ANSWER,
    ]


def in_xml(arguments: str, says: str = " success='true'", tool: str = "write_to_file") -> list[Message]:
    """The same in the XML dialect."""
    return [
        {"role": "user", "content": "Write it."},
        {"role": "assistant", "content": f"I write.\n<{tool}>\n{arguments}\n</{tool}>\nThat is it."},
        {"role": "user", "content": f"<tool_result tool_name='{tool}'{says}>Done.</tool_result>"},
        ANSWER,
    ]


def arguments(messages: list[Any]) -> str:
    """What the first call was given."""
    return str(messages[1]["tool_calls"][0]["function"]["arguments"])


LONG_JSON, LONG_XML = json.dumps({"path": "a.py", "content": BODY}), f"<path>a.py</path>\n<content>{BODY}</content>"


# JSON arguments

ODD = '"' + BODY + '\\"漢 \ud800'


@each_row(
    ("given", "becomes"),
    [
        ({"path": "a.py", "content": BODY}, {"path": "a.py", "content": MARK}),
        ({"content": BODY, "path": "a.py"}, {"content": MARK, "path": "a.py"}),
        ({"content": "short", "path": BODY[:30]}, {"content": "short", "path": BODY[:30]}),
        ({"edits": [{"old": BODY, "new": "y"}, [BODY]]}, {"edits": [{"old": MARK, "new": "y"}, [MARK]]}),
        ({"rows": [1, 2.5, True, None, BODY, [], {}]}, {"rows": [1, 2.5, True, None, MARK, [], {}]}),
        ({BODY: BODY}, {BODY: MARK}),
        ({"content": MARK}, {"content": MARK}),
        ({"content": [MARK, BODY]}, {"content": [MARK, MARK]}),
        ({"content": ODD, "quoted": '\\"'}, {"content": MARKER.format(count_text(ODD)), "quoted": '\\"'}),
        ({}, {}),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_json_arguments_keep_their_shape_and_long_strings_become_the_marker(given: Any, becomes: Any):
    for written in (json.dumps(given), json.dumps(given, ensure_ascii=False, indent=1)):
        after = json.loads(arguments(pruned(native(written)).conversation))
        assert after == becomes
        assert list(after) == list(becomes)


@each_row(
    ("given", "becomes"),
    [
        (json.dumps(["a.py", BODY]), json.dumps(["a.py", MARK])),
        (json.dumps(BODY), json.dumps(MARK)),
        (LONG_JSON[:-1], "left alone"),
        (LONG_JSON[:-40], "left alone"),
        ("{" + BODY, "left alone"),
        ('{"content": ' * 20_000, "left alone"),
        (BODY, MARK),
        ("", "left alone"),
        ("7" * 3_000, "left alone"),
    ],
    ids=[
        "a list",
        "a string",
        "a bracket less",
        "broken off",
        "no JSON",
        "a deep nest",
        "words",
        "nothing",
        "a number",
    ],
)
def test_other_arguments_are_unchanged(given: str, becomes: str):
    """What is JSON stays JSON; what was broken off is left alone."""
    messages = native(given)
    after = pruned(messages).conversation
    assert arguments(after) == (given if becomes == "left alone" else becomes)
    assert (after[1] is messages[1]) == (becomes == "left alone")


def anthropic(given: object, **said: object) -> list[Message]:
    call = {"type": "tool_use", "id": "c", "name": "write", "input": given, "cache_control": {"type": "ephemeral"}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": "Done.", **said}
    return [
        {"role": "user", "content": "Write it."},
        {"role": "assistant", "content": [{"type": "text", "text": BODY}, call]},
        {"role": "user", "content": [result]},
        ANSWER,
    ]


# Which calls


@each_row(
    ("messages", "becomes"),
    [
        (native(LONG_JSON), "shortened"),
        (native(LONG_JSON, "Error: no such folder"), "left alone"),
        (native(LONG_JSON, "It is written, I think."), "left alone"),
        (native(LONG_JSON, ""), "left alone"),
        (native(LONG_JSON, '{"success": true}'), "shortened"),
        (native(LONG_JSON, '{"success": false}'), "left alone"),
        (native(LONG_JSON)[:-1], "left alone"),
        (native(LONG_JSON)[:-2], "left alone"),
        ([*native(LONG_JSON)[:2], ANSWER], "left alone"),
        ([*native(LONG_JSON)[:2], {"role": "tool", "tool_call_id": "d", "content": DONE}, ANSWER], "left alone"),
        (in_xml(LONG_XML), "shortened"),
        (in_xml(LONG_XML, " success='false'"), "left alone"),
        (in_xml(LONG_XML, ""), "left alone"),
        (in_xml(LONG_XML)[:-1], "left alone"),
        (in_xml(LONG_XML)[:-2], "left alone"),
        ([*in_xml(LONG_XML)[:2], {"role": "user", "content": "Well?"}, ANSWER], "left alone"),
        (anthropic({"content": BODY}, is_error=False), "shortened"),
        (anthropic({"content": BODY}, is_error=True), "left alone"),
        (anthropic({"content": BODY}), "left alone"),
    ],
    ids=[
        *("succeeded", "failed", "not known", "blank", "says so", "says not", "unseen", "open", "never answered"),
        *("another's result", "xml: succeeded", "xml: failed", "xml: not known", "xml: unseen", "xml: open"),
        *("xml: never answered", "anthropic: succeeded", "anthropic: failed", "anthropic: not known"),
    ],
)
def test_only_calls_that_are_known_to_have_succeeded_are_shortened(messages: list[Message], becomes: str):
    for strategy in (SHORTENS, LowWater(minimum_reclaim=0, clear_tool_inputs=ToolInputs())):
        result = pruned(messages, strategy)
        assert (result.conversation[1] is messages[1]) == (becomes == "left alone")
        assert result.report.calls_cleaned == (becomes == "shortened")


@each_row("messages", [native(LONG_JSON), in_xml(LONG_XML)], ids=["native", "in_xml"])
@each_row(
    ("tools", "becomes"),
    [(("*",), 1), ("write_*", 1), (["read_*", "write_[ft]*"], 1), (("write_",), 0), (("WRITE_*",), 0), ((), 0)],
    ids=str,
)
def test_tools_are_names_or_globs(tools: Any, becomes: int, messages: list[Message]):
    strategy = ToolOutputCleanup(clear_tool_inputs=ToolInputs(tools))
    assert pruned(messages, strategy).report.calls_cleaned == becomes


# When


def test_arguments_are_shortened_before_results_and_only_if_needed():
    messages = native(LONG_JSON, f"{DONE}\n{words(300)}")
    only_arguments = count(messages) - count_text(BODY) + 60
    results = [pruner(room).prune(messages, SHORTENS) for room in (count(messages) - 1, only_arguments, 1)]
    assert [(one.report.calls_cleaned, one.report.results_cleared) for one in results] == [(1, 0), (1, 0), (1, 1)]
    assert [edit.reason.value for edit in results[0].plan.edits] == ["over_safe_zone"]
    assert [edit.reason.value for edit in results[2].plan.edits] == ["out_of_reach"] * 2


# What is told of it


@pytest.mark.parametrize(
    "messages",
    [native(LONG_JSON), in_xml(LONG_XML), anthropic({"path": "a.py", "content": BODY}, is_error=False)],
    ids=["native", "in_xml", "anthropic"],
)
def test_shortened_calls_are_counted(messages: list[Message]):
    result = pruned(messages)
    report = result.report
    assert (report.calls_cleaned, report.results_cleared, report.first_changed_message) == (1, 0, 1)
    assert report.statistics["tool_calls_cleaned"] == 1
    assert report.statistics["tool_results_cleaned"] == 0
    for after in (result.conversation, copy.deepcopy(result.conversation)):
        assert pruner(1).get_cleanup_statistics(messages, after) == report.statistics
    assert report.tokens_saved == count(messages) - count(result.conversation) > 700
    assert sum(report.floor.values()) == report.tokens_after == count(result.conversation)
    parts = {**report.floor, "assistant": report.floor["assistant"] + report.tokens_saved}
    assert parts == pruner(1).prune(messages).report.floor
    (row,) = report.input_rows
    assert (row["message"], row["request"], row["cleared"], row["reason"]) == (1, 0, True, "out_of_reach")
    assert row["tokens"] - row["tokens_after"] == report.tokens_saved
    assert "0 of 1 tool results cleared, 1 call with shorter arguments, " in str(report)
    assert len(report.to_dict()["inputs"]) == 1


@pytest.mark.parametrize("write", [native, in_xml], ids=["native", "in_xml"])
def test_a_message_is_not_stable_while_its_calls_may_be_shortened(write: Callable[..., list[Message]]):
    long = LONG_JSON if write is native else LONG_XML
    succeeded, failed = write(long), write(long, *(["Error: no"] if write is native else [" success='false'"]))
    whole = count(succeeded)

    def boundary(messages: list[Message], safe_zone: int = whole, strategy: Strategy = SHORTENS) -> int | None:
        return pruner(safe_zone).prune(messages, strategy).report.stable_boundary

    assert [boundary(succeeded[:at]) for at in (1, 2, 3, 4)] == [0, 0, 0, 0]
    assert [boundary(succeeded[:at], 1_000_000) for at in (2, 3, 4)] == [0, 0, 0]  # where nothing has to be read
    assert boundary(succeeded, whole - 1) == 3
    assert [boundary(failed[:at]) for at in (2, 3, 4)] == [0, 1, 3]
    assert [boundary(succeeded[:at], whole, ToolOutputCleanup()) for at in (2, 3, 4)] == [1, 1, 3]


# For any arguments

KEYS = st.sampled_from(("path", "content", "é", "a b", ""))
TEXTS = st.builds(
    lambda text, times: text * times,
    st.sampled_from(("x = 1\n", '"\\', "漢", "\ud800", "</content>", "\0\x7f", MARK, "{}", "a: [1, 2], ")),
    st.sampled_from((0, 1, 3, 60, 400)),
)
NUMBERS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none())
VALUES = st.recursive(
    st.one_of(TEXTS, NUMBERS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=5)
ABOVE = st.sampled_from((0, 5, 20, 100, 200, 1_000))


def expected(value: Any, above: int) -> Any:
    """The same value with long strings replaced, by the plain rule."""
    match value:
        case dict():
            return {name: expected(item, above) for name, item in value.items()}
        case list():
            return [expected(item, above) for item in value]
        case str() if not MARKED.fullmatch(value):
            marker = MARKER.format(count_text(value))
            return marker if count_text(value) > max(above, count_text(marker)) else value
    return value


@given(value=OBJECTS, above=ABOVE, ascii=st.booleans(), clamp=st.sampled_from((None, Clamp(20))))
@examples(150)
def test_any_json_arguments_are_shortened_by_one_rule(value: Any, above: int, ascii: bool, clamp: Clamp | None):
    strategy = ToolOutputCleanup(clamp=clamp, clear_tool_inputs=ToolInputs(above=above))
    messages = native(json.dumps(value, ensure_ascii=ascii))
    result = pruned(messages, strategy)
    after = json.loads(arguments(result.conversation))
    assert json.dumps(after) in (json.dumps(value), json.dumps(expected(value, above)))
    if result.conversation[1] is messages[1]:  # all that is long is not worth its markers
        assert count(native(json.dumps(expected(value, above), ensure_ascii=ascii))) >= count(messages)
    assert pruned(result.conversation, strategy).conversation is result.conversation


# Calls whose outcome is not known


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("pytest -q | tail -3", "1 failed in 0.1s"),
        ("pytest -q | tail -3", "collecting"),
        ("pytest", "1 failed in 0.1s"),
        ("pytest", "This message has been cleared. If you still want to get this information, you can call it again."),
    ],
)
def test_a_call_that_only_its_flag_calls_fine_keeps_its_arguments(command: str, text: str):
    given = {"command": command, "stdin": BODY}
    messages: list[Message] = [
        {"role": "user", "content": "Run it."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "Bash", "input": given}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c", "content": text, "is_error": False}],
        },
        ANSWER,
    ]
    assert pruned(messages).conversation[1] is messages[1]


class ResultsFirst:
    """Clears results down to the safe zone, and arguments only where that is not enough."""

    name = "results_first"
    clear_tool_inputs = ToolInputs()

    def step(self, view: Any) -> Any:
        left = view.tokens
        for is_input in (False, True):
            for candidate in view.candidates():
                if left > view.limit and isinstance(candidate.part, ToolInput) is is_input:
                    left -= candidate.saves
                    yield candidate.cleared(Reason.OVER_SAFE_ZONE)


@pytest.mark.parametrize("flag", [{}, {"is_error": False}], ids=str)
@pytest.mark.parametrize("sentence", [None, "Gone."])
def test_the_full_history_and_the_pruned_one_agree_where_results_go_before_arguments(
    sentence: str | None, flag: dict[str, bool]
):
    messages: list[Message] = [{"role": "user", "content": "Write them."}]
    for number in range(8):
        call = {"type": "tool_use", "id": f"c{number}", "name": "write", "input": {"path": "a", "content": BODY}}
        done = {"type": "tool_result", "tool_use_id": f"c{number}", "content": f"{DONE}\n{words(250)}", **flag}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [done]}]
    messages.append(ANSWER)
    for room in (900, 1_800, 2_600, 3_400):
        fed: list[Any] = []
        for at in range(3, len(messages) + 1, 2):
            ours = pruner(room)
            if sentence:
                ours.replacement_message = sentence
            full = ours.prune(messages[:at], ResultsFirst()).conversation
            fed = ours.prune([*fed, *messages[len(fed) : at]], ResultsFirst()).conversation
            assert json.dumps(fed) == json.dumps(full)

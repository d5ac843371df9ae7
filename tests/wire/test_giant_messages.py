"""The work for one message with thousands of results grows linearly with it. Steps are counted, not seconds."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
from profiles import size
from rounds import WIRE, Step
from rounds_in_texts import DIALECTS, in_text
from tables import each_row

from autoprune import AgenticConversationPruner, PruneArgs, Result, ToolInputs
from autoprune.conversation.edits import rewrite, without_payloads
from autoprune.strategies.clearing import ToolOutputCleanup
from autoprune.wire import new_parser

OUTPUT = "left right " * 30
BODY = "x = compute(1)\n" * 20


def giant(format: str, number: int, body: str = "") -> list[Any]:
    """A conversation in which the model made so many calls at once, and has seen the results."""
    steps = [Step("read_file", {"path": f"{at}.py", "content": body}, f"{OUTPUT}{at}") for at in range(number)]
    rounds: list[Any] = [steps, "Go on.", "And now?"]
    return in_text(rounds, format, "a text") if format in DIALECTS else WIRE[format](rounds)


class Counted(list):  # type: ignore[type-arg]
    """A list that counts the items that are copied out of it."""

    copied = 0

    def __iter__(self) -> Any:
        """Count all of them."""
        Counted.copied += len(self)
        return super().__iter__()

    def __getitem__(self, index: Any) -> Any:
        """Count those of a slice."""
        found = super().__getitem__(index)
        Counted.copied += len(found) if isinstance(index, slice) else 0
        return found


@each_row("format", ["anthropic", "bedrock", "gemini"])
@each_row("work", ["rewrite", "without"])
def test_the_blocks_of_a_message_are_copied_once_however_many_results_are_cleared(format: str, work: str):
    messages = giant(format, 300)
    edits = AgenticConversationPruner(PruneArgs(1)).plan(messages).edits
    message = messages[2]
    name = "parts" if format == "gemini" else "content"
    Counted.copied = 0
    counted = {**message, name: Counted(message[name])}
    changed = rewrite(counted, edits) if work == "rewrite" else without_payloads(counted, [edit.part for edit in edits])
    assert len(edits) == 300
    assert Counted.copied <= 2 * 300
    assert isinstance(changed, dict)
    assert len(changed[name]) == 300


def steps_of(work: Callable[[], object]) -> int:
    """The lines of Python that a piece of work runs through."""
    lines = 0

    def trace(frame: Any, event: str, arg: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


def whole(messages: list[Any]) -> None:
    """Everything that is done with a conversation: pruned, reported, compared, fed back."""
    ours = AgenticConversationPruner(PruneArgs(1), count=len)
    strategy = ToolOutputCleanup(clear_tool_inputs=ToolInputs(("*",), above=0))
    result: Result = ours.prune(messages, strategy)
    result.report.to_json()
    ours.get_cleanup_statistics(messages, result.conversation)
    ours.prune([*result.conversation, *result.conversation[-2:]], strategy)


@pytest.mark.full
@each_row("format", [*WIRE, *DIALECTS])
def test_the_work_grows_with_the_number_of_results_and_no_faster(format: str):
    whole(giant(format, 10, BODY))
    small, large = (giant(format, number, BODY) for number in (size(40), size(160)))
    assert steps_of(lambda: whole(large)) < 4.4 * steps_of(lambda: whole(small))


@each_row("format", [*WIRE, *DIALECTS])
def test_every_result_finds_its_own_call_in_whatever_order_they_come(format: str):
    parser = new_parser(len)
    entries = [parser.read(message, at) for at, message in enumerate(giant(format, 30))]
    found = [result.call for entry in entries for result in entry.results]
    assert found == [call for entry in entries for call in entry.calls]

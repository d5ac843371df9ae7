"""What a strategy may not clear: each protection alone, protections together, and how they are written."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import pytest
from conversations import ANSWER, DIALECTS, Dialect, Message, words
from tables import each_row

from autoprune import AgenticConversationPruner, Clamp, Protections, PruneArgs, SettingsError, ToolInputs
from autoprune.planning.view import Strategy
from autoprune.strategies.catalog import clearing_named
from autoprune.strategies.clearing import LowWater, ToolOutputCleanup

Arguments: TypeAlias = dict[str, str]
Writing: TypeAlias = Callable[..., list[Message]]


def pruner(safe_zone: int) -> AgenticConversationPruner:
    return AgenticConversationPruner(PruneArgs(safe_zone))


count = pruner(1).count_tokens
all_that_can_go = pruner(1).prune


class Step(NamedTuple):
    """A call, and its result."""

    tool: str
    arguments: Arguments
    text: str
    failed: bool = False


def native(*steps: Step) -> list[Message]:
    """The steps with native calls, all of them seen."""
    messages: list[Message] = [{"role": "user", "content": "Fix it."}]
    for number, (tool, arguments, text, _) in enumerate(steps):
        function = {"name": tool, "arguments": json.dumps(arguments)}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": text})
    return [*messages, ANSWER]


def in_xml(*steps: Step) -> list[Message]:
    """The same in the XML dialect."""
    messages: list[Message] = [{"role": "user", "content": "Fix it."}]
    for tool, arguments, text, failed in steps:
        inside = "\n".join(f"<{name}>{value}</{name}>" for name, value in arguments.items())
        success = "false" if failed else "true"
        result = f"<tool_result tool_name='{tool}' success='{success}'>\n<content>{text}</content>\n</tool_result>"
        messages.append({"role": "assistant", "content": f"<{tool}>\n{inside}\n</{tool}>"})
        messages.append({"role": "user", "content": result})
    return [*messages, ANSWER]


in_both = each_row("writing", [native, in_xml], ids=lambda writing: writing.__name__)
in_both_dialects = each_row("dialect", DIALECTS, ids=lambda dialect: dialect.__name__)
with_both = each_row("kind", [ToolOutputCleanup, LowWater])

STEPS = (
    Step("read_file", {"path": "docs/guide.md"}, words(300)),
    Step("search_files", {"path": "src", "pattern": "x"}, words(400)),
    Step("read_file", {"path": "/work/CLAUDE.md"}, words(350)),
    Step("execute_command", {"command": "pytest"}, f"Error: it is broken\n{words(300)}", failed=True),
    Step("read_file", {"path": "src/app.py"}, words(150)),
    Step("todo_write", {"text": "one"}, words(300)),
)
AT = (2, 4, 6, 8, 10, 12)  # where the results stand


def pins(message: Any) -> bool:
    return "it is broken" in message["content"]


EACH: dict[str, tuple[Protections, dict[int, str]]] = {
    "a tool": (Protections(tools=("todo_write",)), {5: "protected_tool"}),
    "tools by glob": (Protections(tools=("nope", "read_*")), dict.fromkeys((0, 2, 4), "protected_tool")),
    "one tool as a text": (Protections(tools="search_files"), {1: "protected_tool"}),
    "a folder": (Protections(paths=("docs/**",)), {0: "protected_path"}),
    "a path as a text": (Protections(paths="src/app.py"), {4: "protected_path"}),
    "paths by glob": (Protections(paths=["*.md"]), dict.fromkeys((0, 2), "protected_path")),
    "an absolute path": (Protections(paths=("/work/*",)), {2: "protected_path"}),
    "the last results": (Protections(last_results=2), dict.fromkeys((4, 5), "among_last")),
    "more than there are": (Protections(last_results=60), dict.fromkeys(range(6), "among_last")),
    "the newest tokens": (Protections(last_tokens=400), dict.fromkeys((4, 5), "in_token_window")),
    "failed results": (Protections(failed=True), {3: "failed"}),
    "files of instructions": (Protections(instruction_files=True), {2: "instructions"}),
    "small results": (Protections(minimum_tokens=250), {4: "small"}),
    "pinned messages": (Protections(pinned={AT[1], AT[4]}), dict.fromkeys((1, 4), "pinned")),
    "a pinned range": (Protections(pinned=range(6)), dict.fromkeys((0, 1), "pinned")),
    "messages that a predicate pins": (Protections(pinned=pins), {3: "pinned"}),
    "a message that holds no result": (Protections(pinned={AT[1] - 1}), {}),
    "nothing": (Protections(), {}),
}


def kept(result: Any) -> dict[int, str]:
    """The results that stay, by their numbers, and why."""
    return {number: row["reason"] for number, row in enumerate(result.report.rows) if not row["cleared"]}


def said(result: Any) -> list[str]:
    """Why each result was changed, or stays."""
    return [row["reason"] for row in result.report.rows]


# Each alone


@in_both
@with_both
@each_row("name", EACH)
def test_protected_results_stay_and_the_plan_gives_the_reason(name: str, kind: type[Any], writing: Writing):
    protections, reasons = EACH[name]
    result = all_that_can_go(writing(*STEPS), kind(protect=protections))
    assert kept(result) == reasons
    plan = result.plan
    assert [plan.transcript.results.index(part) for part in plan.kept] == list(reasons)
    assert [str(reason) for reason in plan.kept.values()] == list(reasons.values())
    assert len(plan.edits) == len(STEPS) - len(reasons)
    for number, at in enumerate(AT):
        assert (result.conversation[at] is plan.transcript.messages[at]) == (number in reasons)


# Together


@in_both
@with_both
def test_protections_add_up_and_the_first_that_holds_is_the_reason(kind: type[Any], writing: Writing):
    protect = Protections(
        tools=("read_*",),
        paths=("src/**", "src"),
        last_results=1,
        failed=True,
        instruction_files=True,
        minimum_tokens=9_000,
        pinned={AT[0]},
    )
    assert kept(all_that_can_go(writing(*STEPS), kind(protect=protect))) == {
        0: "pinned",
        1: "protected_path",
        2: "protected_tool",
        3: "failed",
        4: "protected_tool",
        5: "among_last",
    }


# The last results, and the newest tokens


@in_both
@each_row("at", AT)
def test_the_window_reaches_to_the_message_that_crosses_its_edge(at: int, writing: Writing):
    messages = writing(*STEPS)
    behind = count(messages[at + 1 :]) - 3  # what primes the reply
    inside, outside = (
        kept(all_that_can_go(messages, ToolOutputCleanup(Protections(last_tokens=tokens))))
        for tokens in (behind + 1, behind)
    )
    assert inside == dict.fromkeys(range(AT.index(at), len(AT)), "in_token_window")
    assert outside == dict.fromkeys(range(AT.index(at) + 1, len(AT)), "in_token_window")


@in_both_dialects
def test_the_window_covers_the_sent_conversation(dialect: Dialect):
    """A giant that was cut takes little of the window, which then reaches further back."""
    requests = [[words(400)], [words(400)], [words(4_000)], [words(100)]]
    strategy = ToolOutputCleanup(Protections(last_tokens=400), clamp=Clamp(150))
    messages = [*dialect(*requests), ANSWER]
    reasons = ["out_of_reach", "out_of_reach", "in_token_window", "in_token_window"]
    assert said(all_that_can_go(messages, replace(strategy, clamp=None))) == reasons
    assert said(all_that_can_go(messages, strategy)) == ["out_of_reach", "clamped", "clamped", "in_token_window"]
    fed: list[Message] = []
    for at in (2, 4, 6, 8, 10, 11):
        full = all_that_can_go(messages[:at], strategy).conversation
        fed = all_that_can_go([*fed, *messages[len(fed) : at]], strategy).conversation
        assert fed == full


# Calls' arguments


@in_both
@each_row(
    ("protect", "becomes"),
    [
        (Protections(), "shortened"),
        (Protections(tools=("write_*",)), "left alone"),
        (Protections(paths=("src/**",)), "left alone"),
        (Protections(last_results=1), "left alone"),
        (Protections(last_tokens=60), "left alone"),
        (Protections(pinned={2}), "left alone"),
        (Protections(minimum_tokens=10), "shortened"),
        (Protections(failed=True), "shortened"),
    ],
    ids=str,
)
def test_the_arguments_of_a_protected_call_are_protected_too(protect: Protections, becomes: str, writing: Writing):
    """Not by the size of its result: what a file's writing answers is always small."""
    step = Step("write_file", {"path": "src/app.py", "content": words(600)}, "Successfully wrote 9 bytes to src/app.py")
    messages = writing(step)
    result = all_that_can_go(messages, ToolOutputCleanup(protect, clear_tool_inputs=ToolInputs()))
    assert (result.conversation[1] is not messages[1]) == (becomes == "shortened")


# Written as text


PARAMETERS = {
    "tools": ("read_*",),
    "paths": ["docs/**"],
    "last_results": 3,
    "last_tokens": 1_000,
    "failed": True,
    "instruction_files": True,
    "minimum_tokens": 50,
    "pinned": {0, 2},
}


@each_row(
    ("text", "strategy"),
    [
        ("tool_output_cleanup(protect={'last_results': 3})", ToolOutputCleanup(Protections(last_results=3))),
        (
            "low_water(protect={'last_results': 3}, clamp={'max_result_tokens': 500})",
            LowWater(protect=Protections(last_results=3), clamp=Clamp(500)),
        ),
        (
            "low_water(target=0.6, clear_tool_inputs={'tools': ['write_*'], 'above': 50})",
            LowWater(0.6, clear_tool_inputs=ToolInputs(("write_*",), 50)),
        ),
        ("low_water(protect={}, clamp=None, clear_tool_inputs={})", LowWater(clear_tool_inputs=ToolInputs())),
        (f"low_water(protect={PARAMETERS!r})", LowWater(protect=Protections(**PARAMETERS))),
        ("low_water(protect={'tools': 'read_*'})", LowWater(protect=Protections(tools=("read_*",)))),
    ],
)
def test_options_may_be_written_as_dicts(text: str, strategy: Strategy):
    assert clearing_named(text) == strategy


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("low_water(protect={'last': 3})", "protect has no 'last', but tools, "),
        ("low_water(protect={'last_results': 3, 3: 4})", "protect has no 3, but tools, "),
        ("low_water(clamp={'max_tokens': 3})", "clamp has no 'max_tokens', but max_result_tokens, "),
        ("tool_output_cleanup(clear_tool_inputs={'below': 3})", "clear_tool_inputs has no 'below', but tools, above"),
    ],
)
def test_an_unknown_parameter_is_rejected(text: str, why: str):
    with pytest.raises(SettingsError) as refusal:
        clearing_named(text)
    name = text.partition("(")[0]
    assert re.search(rf"cannot be read \({why}[^)]*\); {name} has the parameters: ", str(refusal.value))


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "protect=5": (
        {"protect": 5},
        r"the strategy's protect is 5: give a Protections, such as Protections\(...\)",
    ),
    "protect={}": (
        {"protect": {"last_results": 3}},
        "the strategy's protect is {'last_results': 3}: give a Protections",
    ),
    "clamp=500": ({"clamp": 500}, "the strategy's clamp is 500: give a Clamp"),
    "clear_tool_inputs=True": ({"clear_tool_inputs": True}, "the strategy's clear_tool_inputs is True: give a ToolInp"),
    "max_result_tokens=0": ({"clamp": Clamp(0)}, "max_result_tokens is 0: give a number, 1 or more, or None"),
    "above=-1": ({"clear_tool_inputs": ToolInputs(above=-1)}, "above is -1: give a number of tokens, 0 or more"),
    "above=1.5": ({"clear_tool_inputs": ToolInputs(above=1.5)}, "above is 1.5: give a number of tokens, 0 or more"),
    "inputs' tools": ({"clear_tool_inputs": ToolInputs(tools=5)}, "tools is 5: give names or globs"),
    "inputs' tools are no names": (
        {"clear_tool_inputs": ToolInputs(tools=(5,))},
        r"tools is \(5,\): give names or globs",
    ),
    **{
        f"{name}={value!r}": (
            {"protect": Protections(**{name: value})},
            f"{name} is {value!r}: give a number, 0 or more",
        )
        for name in ("last_results", "last_tokens", "minimum_tokens")
        for value in (-1, 1.5, "3", True, None)
    },
    **{
        f"{name}={value!r}": ({"protect": Protections(**{name: value})}, f"{name} is {value!r}: give True or False")
        for name in ("failed", "instruction_files")
        for value in (1, "yes", None)
    },
    **{
        f"{name}={value!r}": ({"protect": Protections(**{name: value})}, f"{name} is .*: give names or globs")
        for name in ("tools", "paths")
        for value in (5, None, (5,), [None], {5})
    },
    **{
        f"pinned={value!r}": ({"protect": Protections(pinned=value)}, "pinned is .*: give indexes of messages, 0 or mo")
        for value in (5, None, "abc", [-1], [[1]], {True}, (1, "2"))
    },
}


@with_both
@each_row("safe_zone", [1, 1_000_000])
@each_row("name", WRONG)
def test_a_wrong_option_is_refused_wherever_it_is_used(name: str, safe_zone: int, kind: type[Any]):
    """Also where there is nothing to clear, so that it does not come out on the day when there is."""
    options, said = WRONG[name]
    strategy = kind(**options)
    for use in (pruner(safe_zone).prune, pruner(safe_zone).plan):
        with pytest.raises(SettingsError, match=said):
            use(native(*STEPS), strategy)

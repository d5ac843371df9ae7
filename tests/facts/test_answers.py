"""What the user said through a tool is kept, in every format, by both pruners, and told in summaries as the user's."""

from typing import Any

from conversations import words
from rounds import OTHERS, WIRE, Round, Step
from tables import each_row
from utterances import call, result

from autoprune import AgenticConversationPruner, Protections, PruneArgs
from autoprune.facts.outcomes import ANSWER_TOOLS, is_answer, is_refused
from autoprune.facts.outcomes import answer_text as said
from autoprune.facts.utterances import utterances
from autoprune.strategies.clearing import LowWater, ToolOutputCleanup
from autoprune.summarizers import _snapshot
from autoprune.summarizers.brief import Brief
from autoprune.tokens import exact
from autoprune.wire import new_parser
from autoprune.wire.parsing import parse

COUNT = exact()
WISH = "Use tabs, and never push to main. " * 20
CLAUDE = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, it "
)
CLAUDE += "was NOT written). To tell you how to proceed, the user said:\n"
# How agents write that a call was refused, before the user's words and behind them.
REFUSALS = {
    "Claude Code": (CLAUDE, ""),
    "Claude Code, later": ("The user doesn't want to take this action right now. The user said: ", ""),
    "a subagent": ("Permission for this tool use was denied. The tool use was rejected. The user said:\n", ""),
    "Cline": ("The user denied this operation and provided the following feedback:\n<feedback>\n", "\n</feedback>"),
    "Roo Code": (
        '{"status":"denied","message":"The user denied this operation and provided the following feedback:",'
        '"feedback":"',
        '"}',
    ),
    "Kilo Code": (
        "The user denied this operation and responded with the message:\n<user_message>\n",
        "\n</user_message>",
    ),
    "Cline's SDK": (
        "The user denied this edit. The file was NOT modified. The user provided the following feedback:\n<feedback>\n",
        "\n</feedback>",
    ),
    "opencode": ("The user rejected permission to use this specific tool call with the following feedback: ", ""),
    "Kimi CLI": ("The tool call is rejected by the user. User feedback: ", ""),
    "Gemini CLI": ("Plan rejected. User feedback: ", ""),
    "others": ("Error: User rejected this tool call. Reason: ", ""),
}
FORMATS = {**WIRE, **{f"{name}, other": write for name, others in OTHERS.items() for write in others[-1:]}}


def answer(tool: str = "AskUserQuestion") -> Step:
    return Step(tool, {"question": "Tabs or spaces?"}, f'User has answered your questions: "Tabs or spaces?"="{WISH}".')


def refused(agent: str = "Claude Code") -> Step:
    before, behind = REFUSALS[agent]
    return Step("Edit", {"file_path": "a.py"}, f"{before}{WISH}{behind}", failed=True)


def read(number: int = 0) -> Step:
    return Step("read_file", {"path": f"{number}.py"}, words(300))


def rounds(*steps: Step) -> list[Round]:
    """What happens, between reads that can go, and all of it seen."""
    return [[read(1)], *([step] for step in steps), [read(2)], "Go on."]


def pruned(messages: list[Any], strategy: Any = None, safe_zone: int = 1) -> Any:
    return AgenticConversationPruner(PruneArgs(safe_zone)).prune(messages, strategy or ToolOutputCleanup())


def reasons(found: Any) -> dict[str, str]:
    return {row["tool"]: row["reason"] for row in found.report.rows}


# Which results they are


@each_row("tool", [*(name for name in ANSWER_TOOLS if "*" not in name), "mcp__helper__ask_user", "mcp__tg__ask_human"])
def test_the_result_of_a_tool_that_asks_the_user_is_an_answer(tool: str):
    assert is_answer(result(call(tool, question="Which?"), "Postgres"))


@each_row("tool", ["ask_human", "human_assistance", "message_ask_user", "user_input"])
def test_tools_of_agents_that_are_not_for_code_ask_the_user_too(tool: str):
    assert said(result(call(tool, query="Which seat?"), "A window")) == f"[answered {tool}]\nWhich seat?\nA window"


@each_row("tool", ["read_file", "task_user", "AskUserQuestions2", "bash", "", "transfer_to_human_agents"])
def test_the_result_of_any_other_tool_is_not_an_answer(tool: str):
    assert not is_answer(result(call(tool, question="Which?"), "Postgres"))


def test_the_answer_of_a_server_is_not_the_users():
    assert not is_answer(result(call("ask_question", question="Which?", repoName="a/b"), "Postgres"))


@each_row("agent", REFUSALS)
@each_row("flag", [True, None])
def test_a_refusal_with_words_counts_as_the_users_words(agent: str, flag: bool | None):
    before, behind = REFUSALS[agent]
    one = result(call("Edit", file_path="a.py"), f"{before}use tabs{behind}", flag)
    assert is_answer(one)
    assert said(one) == "[refused Edit(a.py)] use tabs"


@each_row(
    ("text", "flag"),
    [
        ("The user doesn't want to proceed with this tool use. STOP what you are doing and wait for the user.", True),
        ("The user denied this operation.", True),
        ("Permission to use Bash has been denied.", True),
        ("The user rejected permission to use this specific tool call.", True),
        (f"1\t{CLAUDE}use tabs", True),
        (f"{'x' * 90}\n{CLAUDE}use tabs", True),
        (f"He wrote: {CLAUDE}use tabs", None),
        ("Error: feedback: no", True),
        ("", True),
    ],
)
def test_a_result_that_does_not_begin_with_a_refusal_is_not_one(text: str, flag: bool | None):
    assert not is_answer(result(call("Edit", file_path="a.py"), text, flag))


BARE = f"{CLAUDE.partition(' To tell')[0]} STOP what you are doing and wait for the user. {'It was rejected. ' * 20}"


@each_row("strategy", ["tool_output_cleanup", "cache_aware"])
def test_a_refusal_without_words_stays_and_a_file_that_begins_so_does_not(strategy: str):
    refusal = Step("Edit", {"file_path": "a.py"}, BARE, failed=True)
    file = Step("read_file", {"path": "log.txt"}, BARE)
    found = pruned(WIRE["anthropic"](rounds(file, refusal)), strategy)
    assert reasons(found)["Edit"] == "user_answer"
    assert BARE in str(found.conversation)
    assert str(found.conversation).count(BARE) == 1
    assert said(result(call("Edit"), BARE, True)) == ""
    assert not is_refused(result(call("browser_navigate"), f"User rejected the request. {BARE * 9}"))
    assert not is_refused(result(call("Bash"), "Permission to use Bash has been denied.", True))  # by a rule


def test_an_answer_includes_its_question():
    made = call("request_user_input", questions=[{"id": "a", "question": "Which database?"}])
    text = '{"answers":{"a":{"answers":["Postgres"]}}}'
    assert said(result(made, text)) == f"[answered request_user_input]\nWhich database?\n{text}"
    claude = 'User has answered your questions: "Which database?"="Postgres".'
    assert said(result(made, claude)) == f"[answered request_user_input]\n{claude}"


def test_text_that_the_harness_adds_to_an_answer_is_removed():
    made = call("AskUserQuestion", question="Which?")
    for closing in ("the user's", "these"):
        text = f'Answered: "Which?"="Tabs". You can now continue with {closing} answers in mind.'
        assert said(result(made, text)) == '[answered AskUserQuestion]\nAnswered: "Which?"="Tabs".'
    unclear = f"{CLAUDE}The user wants to clarify these questions.\n  Questions asked:\n"
    assert said(result(made, f'{unclear}- "Which?"\n  (No answer provided)', True)) == ""
    answered = said(result(made, f'{unclear}- "Which?"\n  Answer: Tabs\n- "When?"\n  (No answer provided)', True))
    assert answered == '[refused AskUserQuestion] "Which?" Tabs'


# They stay


def test_a_cleared_answer_is_empty():
    found = pruned(WIRE["openai_chat"](rounds(answer())), ToolOutputCleanup(Protections(user_answers=False)))
    (one,) = [one for one in found.plan.transcript.results if one.tool == "AskUserQuestion"]
    assert said(result(one.call, found.plan.results[one].text)) == ""


@each_row("format", FORMATS)
@each_row("strategy", [ToolOutputCleanup(), LowWater(), LowWater(protect=None)], ids=str)
def test_the_users_words_stay_in_every_format(format: str, strategy: Any):
    messages = FORMATS[format](rounds(answer(), answer("ask_user"), refused()))
    found = pruned(messages, strategy)
    by_tool = reasons(found)
    assert by_tool["AskUserQuestion"] == by_tool["ask_user"] == by_tool["Edit"] == "user_answer"
    assert by_tool["read_file"] != "user_answer"
    assert found.report.results_cleared == 2
    assert str(found.conversation).count(WISH.strip()) == 3
    assert found.report.floor["answers"] > 3 * COUNT(WISH)


def test_it_can_be_switched_off_and_the_tools_can_be_set():
    messages = WIRE["openai_chat"](rounds(answer(), answer("ask_my_boss")))
    assert "user_answer" not in reasons(pruned(messages, ToolOutputCleanup(Protections(user_answers=False)))).values()
    found = reasons(pruned(messages, ToolOutputCleanup(Protections(answer_tools=("ask_my_*",)))))
    assert found == {"read_file": "out_of_reach", "AskUserQuestion": "out_of_reach", "ask_my_boss": "user_answer"}
    by_text = "tool_output_cleanup(protect={'user_answers': False})"
    assert "user_answer" not in reasons(pruned(messages, by_text)).values()


# Summaries


def told(*steps: Step, format: str = "anthropic") -> Any:
    messages = FORMATS[format](rounds(*steps))
    return utterances(parse(messages, new_parser(COUNT), 0).entries)


def test_a_models_constraint_may_come_from_an_answer():
    snapshot = _snapshot.parse_answer('{"goal": "g", "constraints": ["never push"], "done": ["x"]}')
    tools_only = [one for one in told(read()) if not one.words.strip()]
    assert _snapshot.keep_user_words(snapshot, Brief(tuple(tools_only), request="Fix it.")).constraints == ()
    with_answer = [one for one in told(refused()) if one.words.startswith("[refused") or not one.words.strip()]
    assert _snapshot.keep_user_words(snapshot, Brief(tuple(with_answer), request="Fix it.")).constraints == (
        "never push",
    )


# A question that failed


ERRORS = (
    "<tool_use_error>InputValidationError: AskUserQuestion failed due to the following issue: questions is missing",
    "InputValidationError: questions: Required",
    "Error: No such tool available: AskUserQuestion",
    "Unknown tool: AskUserQuestion",
    "Error: The question timed out after 60 s",
    "[Request interrupted by user for tool use]",
    "MCP error -32001: Request timed out",
    "aborted by user after 12 s",
    "Tool execution timed out after 120 s",
    "Operation was cancelled",
    "The user did not answer in time.",
    "User declined to answer questions",
    "The user doesn't want to proceed with this tool use. The tool use was rejected. STOP what you are doing.",
    '{"success": false, "error": "Invalid arguments"}',
    "request_user_input is unavailable in Default mode",
    "failed to parse function arguments: missing field `questions`",
)


@each_row(("text", "failed"), [*((error, None) for error in ERRORS), ("No answer.", True), (ERRORS[0], False)])
def test_a_question_that_failed_has_no_answer(text: str, failed: bool | None):
    asked = result(call("AskUserQuestion", question="Tabs or spaces?"), text, failed)
    assert not is_answer(asked)


@each_row(
    "text",
    [
        *("Error: expected an indent, is what I get. Use tabs.", "The build timed out with spaces.", "timeout 30"),
        *(
            "Aborted jobs should be retried.",
            "Invalid input handling: ignore it.",
            "Failed to run it myself. Use tabs.",
        ),
        '{"answers": {"Tabs or spaces?": "Error: tabs"}}',
    ],
)
def test_an_answer_may_speak_of_errors(text: str):
    assert is_answer(result(call("AskUserQuestion", question="Tabs or spaces?"), text))

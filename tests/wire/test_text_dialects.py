"""Results in a user's text besides XML: Cline's headings, `<tool_response>`; bodies of calls."""

import json
import re
from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import Any

import pytest
from conversations import SENTENCE
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples, size
from tables import each_row

from autoprune import AgenticConversationPruner, PruneArgs, ToolInputs
from autoprune.conversation.edits import Placeholder
from autoprune.conversation.transcript import Entry, ToolCall, ToolResult
from autoprune.strategies.clearing import ToolOutputCleanup
from autoprune.tokens import exact
from autoprune.wire import new_parser
from autoprune.wire.parsing import Parser

LINES = ("total = compute(left, right)\n" * 40).rstrip()
READ = "[read_file for 'a.py'] Result:"
ENVIRONMENT = "<environment_details>\n# Current Time\n1/1/2025, 3:00 PM\n</environment_details>"
XML = "<tool_result tool_name='X' success='true'>@</tool_result>"
XML_CLEARED = f"\n<message>Content cleared to save tokens</message>\n<content>{SENTENCE}</content>\n"
FAILED = "The tool execution failed with the following error:\n<error>\n@\n</error>"


def pruner(safe_zone: int = 1, **options: Any) -> AgenticConversationPruner:
    return AgenticConversationPruner(PruneArgs(conversation_prune_safe_zone_tokens=safe_zone), **options)


def openings(content: object) -> str:
    """A text of a model that calls every tool that a content names, in any dialect: opening tags are enough."""
    names = dict.fromkeys(re.findall(r"\[([A-Za-z][\w-]*)", str(content)))
    return "I look. " + " ".join(f"<{name}" for name in ("tool_call", *names))


def seen(content: object, role: str = "user", call: str | None = None) -> list[Any]:
    """A conversation in which the model has answered a message with this content."""
    return [
        {"role": "user", "content": "Add up the columns."},
        {"role": "assistant", "content": openings(content) if call is None else call},
        {"role": role, "content": content},
        {"role": "assistant", "content": "I have read it."},
        {"role": "user", "content": "Go on."},
    ]


def cleaned(content: object) -> Any:
    """A message's content after everything that can be cleared was cleared."""
    conversation = seen(content)
    after = pruner().prune_conversations(conversation)
    assert after[:2] + after[3:] == conversation[:2] + conversation[3:]
    return after[2]["content"]


def left_alone(content: object, role: str = "user") -> bool:
    """Whether no result is seen in a content, and the caller gets his list itself back."""
    conversation = seen(content, role)
    result = pruner().prune(conversation)
    return result.report.rows == () and result.conversation is conversation


def results(content: object, call: str | None = None) -> Sequence[ToolResult]:
    return pruner(10**9).plan(seen(content, call=call)).transcript.results


def blocks(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text} for text in texts]


# Cline and Roo Code: a payload (@) in one text with its heading

CLINE = [
    f"{READ}\n@",
    f"{READ}\n@\n\n{ENVIRONMENT}",
    f"{READ}\n@\n{READ}\n@\n{ENVIRONMENT}",
    f"{READ}\n@\n[execute_command for 'ls'] Result:\n@\n[list_files for '.'] Result:\n@",
    f"{READ}\r\n@\r\n\r\n{ENVIRONMENT}",
    f"{READ}\n\n\n@\n\n\n",
    f"I have changed it.\n{READ}\n@",
    "[load_mcp_documentation] Result:\n@",
    "[search_files for 'a] b' in '*.py'] Result:\n@",
    "[bash for 'make'] Result:\n@",
    "[mcp--github--list_issues for 'x'] Result:\n@",
    "[read_file for 'a.py'. Reading multiple files at once is more efficient for the LLM.] Result:\n@",
    "[read_file for 5 files] Result:\n@",
    "[apply_diff for 'a.py' and 2 more files] Result:\n@",
    "[new_task in Code mode: 'Add it.\nThen test it.'] Result:\n@",
    "[execute_command for 'cat > a.py <<EOF\nprint([1, 2])\n[section]\nEOF'] Result:\n@",
    f"{READ}\n@\n[execute_command for 'cd src\nls'] Result:\n@\n\n{ENVIRONMENT}",
    f"{READ}\n{FAILED}",
    f"{READ}\n{FAILED}\n\n{ENVIRONMENT}",
    f"{READ}\n@\nThe user provided the following feedback:\n<feedback>\n{READ} is mine\n</feedback>\n{ENVIRONMENT}",
    f"Mine:\n```\n{READ}\nmine\n```\n{READ}\n@",
    f"`{READ}`\n{READ}\n@",
    f"{ENVIRONMENT}\n{READ}\n@\n{ENVIRONMENT}\nMine.\n{READ}\n@",
    f"{READ}\n@\n<environment_details>\n{READ}\nmine\n</environment_details>\n",
    f"{READ}\n@\n[ask_followup_question for 'Why?'] Result:\n<answer>\nBecause.\n</answer>\n{READ}\n@",
    f"漢字 \ud800\n{READ}\n@",
]
INSIDE = {
    "lines": LINES,
    "code": f"{LINES}\nif a < b && c > d: print('</content>', \"]\") # [x] Result: 1\n",
    "a fence": f"```python\n{LINES}\n```\nand ~~~",
    "half a fence": f"```\n{LINES}",
    "results of other dialects": f"{LINES}\n{XML}\n<tool_response>\nx\n</tool_response>\n</tool_response>",
    "an error in the middle": f"{LINES}\n<error>\nno\n</error>",
    "a heading in a line": f"{LINES}\nas in `{READ}` or {READ}\n{LINES}",
    "a heading with words after it": f"{LINES}\n{READ} ok\n{LINES}",
    "a log": f"[main] Result:\n{LINES}",
    "a list": f"[\n  1,\n  2\n]\n{LINES}",
    "Windows": LINES.replace("\n", "\r\n"),
    "NUL and surrogates": f"\0\ud800{LINES}\udfff",
}


@each_row("text", CLINE)
@each_row("payload", INSIDE.values(), ids=INSIDE)
def test_only_the_payload_under_a_heading_is_cleared(text: str, payload: str):
    assert cleaned(text.replace("@", payload.strip("\r\n"))) == text.replace("@", SENTENCE)


def test_an_open_fence_of_the_users_is_no_quotation():
    text = f"Half a fence:\n```\n{READ}\n@"
    assert cleaned(text.replace("@", LINES)) == text.replace("@", SENTENCE)


@each_row("text", CLINE)
def test_a_cleared_text_of_clines_is_read_as_it_was(text: str):
    before, after = (results(text.replace("@", payload)) for payload in (LINES, SENTENCE))
    assert [(one.tool, one.kind, one.is_error) for one in before] == [
        (one.tool, "cline", one.is_error) for one in after
    ]
    conversation = seen(text.replace("@", SENTENCE))
    again = pruner().prune(conversation)
    assert again.conversation is conversation
    assert [row["reason"] for row in again.report.rows] == ["already_cleared"] * text.count("@")


@each_row(
    "content",
    [
        f"What does `{READ}` mean?",
        f"`{READ}\n{LINES}`",
        f'"{READ}\n{LINES}"',
        f"I saw {READ}\n{LINES}",
        f"  {READ}\n{LINES}",
        f"> {READ}\n{LINES}",
        f"```\n{READ}\n{LINES}\n```",
        f"Why?\n~~~text\n{READ}\n{LINES}\n~~~\nTell me.",
        f"```\nx\n```\n```\n{READ}\n{LINES}\n```",
        f"{READ} {LINES}",
        f"[main] Result:\n{LINES}",
        f"[test] Result:\n{LINES}",
        f"[1] Result:\n{LINES}",
        f"[] Result:\n{LINES}",
        f"[read_file for 'a.py'] result:\n{LINES}",
        f"[read_file for 'a.py']\nResult:\n{LINES}",
        f"[read_file x] y] {LINES}",
        f"[some_list for x in y\n] Result:\n{LINES}",
        f"[some_tool for 'x\n{READ} ok\n'] Result:\n{LINES}",
        f"[attempt_completion] Result: Done\n{LINES}",
        f"[ask_followup_question for 'Which?'] Result:\n<answer>\n{LINES}\n</answer>",
        f"[attempt_completion] Result:\nThe user has provided feedback.\n<feedback>\n{LINES}\n</feedback>",
        f"[plan_mode_respond] Result:\n<user_message>\n{LINES}\n</user_message>",
        f"{READ}\nThe user denied this operation and provided feedback:\n<feedback>\n{LINES}\n</feedback>",
        f"{READ}\n<feedback>\n{LINES}\n</feedback>",
        f"{READ}\n{ENVIRONMENT}\n{LINES}",
        f"{READ}\n\n\n",
        READ,
    ],
)
def test_a_user_can_write_about_headings_and_answers(content: str):
    assert left_alone(content)
    assert left_alone(blocks(content))


@each_row("role", ["system", "developer", "assistant"])
@each_row(
    "text",
    [
        f"{READ}\n{LINES}",
        f"<tool_response>\n{LINES}\n</tool_response>",
    ],
)
def test_only_a_user_sends_results_in_a_text(role: str, text: str):
    assert left_alone(text, role)


def test_a_block_under_the_block_of_its_heading_is_its_payload():
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}}
    notice = "Tool [list_files] was not executed because a tool has already been used in this message."
    feedback = f"The user provided the following feedback:\n<feedback>\n{LINES}\n</feedback>"
    cached = {"type": "text", "text": f"\n{LINES}\n", "cache_control": {"type": "ephemeral"}}
    content = [*blocks(READ, LINES), image, *blocks(READ), cached, *blocks(feedback, notice, ENVIRONMENT)]
    after = cleaned(content)
    kept = {**cached, "text": f"\n{SENTENCE}\n"}
    assert after == [*blocks(READ, SENTENCE), image, *blocks(READ), kept, *blocks(feedback, notice, ENVIRONMENT)]
    assert [new is old for new, old in zip(after, content, strict=True)] == [at not in (1, 4) for at in range(8)]


@each_row("payload", INSIDE.values(), ids=INSIDE)
def test_a_block_under_its_heading_is_cleared_whatever_it_holds(payload: str):
    whole = f"{payload}\n{READ}\nmore\n{ENVIRONMENT}"
    assert cleaned(blocks(READ, whole, ENVIRONMENT)) == blocks(READ, SENTENCE, ENVIRONMENT)


@each_row(
    "content",
    [
        blocks(READ, ENVIRONMENT + LINES),
        blocks(READ, f"The user denied this operation.\n<feedback>\n{LINES}\n</feedback>"),
        blocks("[ask_followup_question for 'Which?\nOr?'] Result:", f"<answer>\n{LINES}\n</answer>"),
        blocks("[attempt_completion] Result:", LINES),
        blocks("[attempt_completion] Result: Done", f"<feedback>\n{LINES}\n</feedback>"),
        blocks(f"As in {READ}", LINES),
        blocks("[main] Result:", LINES),
        [*blocks(READ), {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}, *blocks(LINES)],
        blocks("Mine", "Mine too", READ),
    ],
)
def test_blocks_that_are_no_payload_are_left_alone(content: list[Any]):
    assert left_alone(content)


def test_a_heading_is_not_that_of_the_next_message():
    conversation = seen(READ)
    conversation[3:3] = [{"role": "user", "content": LINES}]
    assert pruner().prune_conversations(conversation) is conversation


def test_a_heading_names_the_call_that_it_answers():
    call = (
        "I look.\n<read_file>\n<path>a.py</path>\n</read_file>\n"
        "<execute_command>\n<command>cd src\nls</command>\n</execute_command>"
    )
    content = [*blocks("[execute_command for 'cd src\nls'] Result:", LINES), *blocks(f"{READ}\n{LINES}", ENVIRONMENT)]
    found = results(content, call)
    assert [(one.tool, one.call and one.call.arguments) for one in found] == [
        ("execute_command", {"command": "cd src\nls"}),
        ("read_file", {"path": "a.py"}),
    ]


# Hermes and Qwen

RAW = "<tool_response>\n@\n</tool_response>"
TOOL_RESPONSES = [
    RAW,
    f"{RAW}\n{RAW}\n{RAW}",
    f"{RAW}{RAW} {RAW}",
    f"Agent iteration 1:\n{RAW}\n",
    f"Mine.\n\n  {RAW}\n\nMine too.",
    "<tool_response>@</tool_response>",
    "<tool_response>\n\n@\r\n</tool_response>",
    f"It is `<tool_response>x</tool_response>` I mean\n{RAW}\nand `</tool_response>` or </tool_response> there",
    f"```\n<tool_response>\nmine\n</tool_response>\n```\n{RAW}",
    f"Half a fence:\n```\n{RAW}",
    f"<tool_response>\nnever closed\n{RAW}",
    f"</think>{RAW}",
]
RAW_INSIDE = {
    **{name: text for name, text in INSIDE.items() if name != "results of other dialects"},
    "a heading": f"{READ}\n{LINES}",
    "XML": f"{LINES}\n{XML}",
    "an example": f"{LINES}\n<tool_response>\nx\n</tool_response>\n{LINES}",
    "half of JSON": f'{{"content": "{LINES}',
    "JSON of another kind": json.dumps({"rows": [LINES], "contents": 1}),
    "two documents": f'{{"content": 1}} {{"content": "{LINES}"}}',
    "deep JSON": '{"content":' * 100_000 + "}" * 100_000,
    "a number that is too long": f'{{"content": {"1" * 10_000}}}',
}


@each_row("text", TOOL_RESPONSES)
@each_row("payload", RAW_INSIDE.values(), ids=RAW_INSIDE)
def test_only_the_payload_in_a_tool_response_is_cleared(text: str, payload: str):
    assert cleaned(text.replace("@", payload.strip("\r\n"))) == text.replace("@", SENTENCE)


@each_row("text", [RAW, f"Mine.\n{RAW}\n\n{RAW}\nMine too, `</tool_response>` or </tool_response> included."])
@each_row("tag", ["print('</tool_response>')", "</tool_response>", "  </tool_response></tool_response>\n"])
def test_a_tool_response_reaches_to_the_last_end_tag_that_begins_a_line(text: str, tag: str):
    assert cleaned(text.replace("@", f"{LINES}\n{tag}\n{LINES}")) == text.replace("@", SENTENCE)


@each_row("content", [LINES, {"rows": [1, LINES], "more": None}, [LINES, {}], 10**300])
@each_row("form", [{}, {"indent": 2}, {"separators": (",", ":")}, {"ensure_ascii": False}])
def test_of_a_json_response_only_the_content_is_replaced_by_a_json_string(content: object, form: dict[str, Any]):
    for members in (
        {"name": "read_file", "content": content},
        {"tool_call_id": "7", "content": content, "name": "读取"},
        {"content": content, "extra": {"content": 1}},
    ):
        text = f"<tool_response>\n {json.dumps(members, **form)} \n</tool_response>"
        value = json.dumps(content, **form)
        written = text.replace(value.replace("\n", "\n  ") if "indent" in form else value, json.dumps(SENTENCE), 1)
        assert cleaned(f"{text}\n{text}") == f"{written}\n{written}"
        assert [one.is_plain for one in results(text)] == [False]


def test_responses_answer_the_open_calls_by_name_or_in_turn():
    call = (
        'Both.\n<tool_call>\n{"name": "read_file", "arguments": {"path": "a.py"}}\n</tool_call>\n'
        '<tool_call>\n{"arguments": {"path": "b.py"}, "name": "read_file"}\n</tool_call>\n'
        '<tool_call>{"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}</tool_call>'
    )
    named = '<tool_response>\n{"name": "bash", "content": "x"}\n</tool_response>'
    found = results(f"{named}\n{RAW}\n{RAW}\n{RAW}", call)
    assert [(one.tool, one.call and one.call.arguments, one.is_error) for one in found] == [
        ("bash", '{"command": "ls"}', None),
        ("read_file", {"path": "a.py"}, None),
        ("read_file", {"path": "b.py"}, None),
        ("unknown", None, None),
    ]


@each_row(
    "content",
    [
        "What does <@> mean, and </@>?",
        f"I saw <@>{LINES}</@> in a log.",
        f"`<@>\n{LINES}\n</@>`",
        f'"<@>\n{LINES}\n</@>"',
        f"```\n<@>\n{LINES}\n</@>\n```",
        f"1. Why?\n\n   ~~~xml\n   <@>\n{LINES}\n</@>\n~~~\n",
        f"<@>\n{LINES}",
        f"{LINES}\n</@>\n</@>",
        f"</@>\n{LINES}\n<@>",
        f"<@ x='1'>\n{LINES}\n</@>",
        f"<@s>\n{LINES}\n</@s>",
        f"< @>\n{LINES}\n</@>",
        f"<{{}}>\n{LINES}\n</@>",
        f"&lt;@&gt;\n{LINES}\n&lt;/@&gt;",
        f"<div><@>{LINES}</@></div>",
    ],
)
def test_a_user_can_write_about_tags(content: str):
    assert left_alone(content.replace("@", "tool_response"))


@each_row(
    "call",
    [
        "<tool_call>\nread it\n</tool_call>",
        '<tool_call>\n{"name": 7, "arguments": {}}\n</tool_call>',
        '<tool_call>\n{"name": "x", "arguments": {}}',
        'Say `<tool_call>{"name": "x", "arguments": {}}</tool_call>`',
    ],
)
def test_an_incomplete_call_is_no_call(call: str):
    assert pruner().plan(seen(LINES, call=call)).transcript.calls == ()


# Several dialects in a text


@each_row(("first", "second"), [*permutations((RAW, XML), 2)])
def test_a_text_is_of_the_dialect_that_begins_first(first: str, second: str):
    sentence = XML_CLEARED if first == XML else SENTENCE
    assert cleaned(f"{first}\n{second}".replace("@", LINES)) == (
        f"{first.replace('@', sentence)}\n{second.replace('@', LINES)}"
    )


# Counting

FRAMES = [
    READ + "\n{}\n",
    "[execute_command for 'cd src\nls'] Result:\n{}",
    f"{READ}\n{FAILED.replace('@', '{}')}\n",
    "\n<tool_response>\n{}\n</tool_response>",
    "<tool_response>{}</tool_response>",
    '\n<tool_response>\n{{"name": "x", "content": "{}"}}\n</tool_response>',
    '<tool_response>{{"content":["{}"],"name":"x"}}</tool_response>\n',
    XML.replace("@", "{}"),
    f"\n{ENVIRONMENT}\n{{}}",
    "```\n{}\n```\n",
]
SCRAPS = [
    *(
        "words and more words ",
        "total = compute(left, right)\n" * 12,
        "<",
        ">",
        "/",
        "x",
        " ",
        "  ",
        "\t",
        "\n",
        "\n\n",
    ),
    *(
        "漢字",
        "\ud800",
        "\udc00",
        "\0",
        "'s",
        "don't",
        "\u0301",
        "1234",
        "\r\n",
        "<|endoftext|>",
        "`",
        '"',
        "```",
        "~~~",
    ),
    *(
        READ,
        "[main] Result:",
        "\n[foo_bar for 'x\n",
        "'] Result:\n",
        "\n<environment_details>\n",
        "</environment_details>",
    ),
    *("<tool_response>", "</tool_response>", "\n</tool_response>", '{"name": "x", "content": ', "}", "<answer>"),
    *("<error>", "</error>"),
    *("<tool_result tool_name='X'>", "</tool_result>", "\nThe user provided the following feedback:\n<feedback>\n"),
]
SOUP = st.lists(st.sampled_from(SCRAPS), max_size=6).map("".join)


def _filled(frame: str, inside: Iterable[str]) -> str:
    return frame.format(*(text for text, _ in zip(inside, range(frame.count("{}")), strict=False)))


FRAMED = st.builds(_filled, st.sampled_from(FRAMES), st.lists(SOUP, min_size=2, max_size=2))
TEXTS = st.lists(st.one_of(FRAMED, FRAMED, SOUP), min_size=1, max_size=6).map("".join)


def read_behind_calls(parser: Parser, text: object) -> Entry:
    """A user's message after a message of the model's that called every tool."""
    parser.read({"role": "assistant", "content": openings(text)}, 0)
    return parser.read({"role": "user", "content": text}, 1)


def entry(text: object, encoding: str = "o200k_base") -> Entry:
    return read_behind_calls(new_parser(exact(encoding), wants_inputs=True), text)


@pytest.mark.parametrize("encoding", ["o200k_base", "cl100k_base"])
@examples(700)
@given(text=TEXTS, data=st.data())
def test_savings_add_up_whichever_results_are_cleared_and_the_rest_is_read_as_before(
    encoding: str, text: str, data: st.DataObject
):
    count, read = exact(encoding), entry(text, encoding)
    placeholder = Placeholder(count)
    assert read.tokens - 3 == count(text)
    chosen = [result for result in read.results if data.draw(st.booleans())]
    after, saved = text, 0
    for result in reversed(chosen):
        start, stop, new = result.location.start or 0, result.location.stop or 0, placeholder.text(result)
        assert text[start:stop] == result.text
        after, saved = after[:start] + new + after[stop:], saved + placeholder.saves(result, new)
    assert count(text) - count(after) == saved
    again = entry(after, encoding).results
    assert [(one.tool, one.kind, one.is_error) for one in again] == [
        (one.tool, one.kind, one.is_error) for one in read.results
    ]
    assert [one.text for one in again] == [placeholder.text(one) if one in chosen else one.text for one in read.results]


@examples(300)
@given(text=TEXTS, more=TEXTS)
def test_any_text_is_cleared_once_and_the_saved_tokens_are_the_removed_ones(text: str, more: str):
    for content in (text, blocks(READ, text, more), blocks(text, more)):
        result = pruner().prune(seen(content))
        count = pruner().count_tokens
        saved = sum(edit.saved for edit in result.plan.edits)
        assert count(seen(content)) - count(result.conversation) == saved == result.report.tokens_saved
        assert pruner().prune(result.conversation).conversation is result.conversation


@pytest.mark.parametrize(
    ("one", "cleared"),
    [
        (f"{READ}\n@\n", f"{READ}\n{SENTENCE}\n"),
        (RAW, RAW.replace("@", SENTENCE)),
        (
            '<tool_response>{"name":"x","content":"@"}</tool_response>',
            '<tool_response>{"name":"x","content":"%s"}</tool_response>',
        ),
    ],
)
def test_clearing_many_results_of_a_message_never_counts_the_message_again(one: str, cleared: str):
    texts: list[str] = []

    def words(text: str) -> int:
        texts.append(text)
        return len(text.split())

    payload = "left right " * 60
    content = one.replace("@", payload) * 300
    result = pruner(count=words).prune(seen(content))
    assert result.conversation[2]["content"] == cleared.replace("%s", SENTENCE) * 300
    assert result.report.results_cleared == 300
    assert max(map(len, texts)) < 3 * len(one + payload)
    assert sum(map(len, texts)) < 3 * len(content)


# Large

GIANTS = {
    "a line of 10 MB": (f"{READ}\n@", "a=b;" * 2_500_000, 1),
    "headings": ("@", f"{READ}\n" * size(60_000), 0),
    "half headings": ("@", "\n[foo for 'x" * size(150_000), 0),
    "ends of headings": ("@", "] Result:\n" * size(200_000), 0),
    "half headings and their ends": ("@", "\n[foo for 'x" * size(100_000) + "\ny] Result:\n" * size(100_000) + "x", 1),
    "environments": ("@", f"{READ}\nx\n<environment_details>\n" * size(30_000), size(30_000)),
    "fences that are never closed": ("```py\n@", f"{READ}\n```py\n{ENVIRONMENT}\n" * size(20_000), size(20_000)),
    "failures that are never closed": ("@", f"{READ}\n{FAILED.partition('@')[0]}" * size(20_000), size(20_000)),
    "start tags": ("@", "\n<tool_response>" * size(130_000), 0),
    "start tags and one end tag": ("@</tool_response>", "\n<tool_response>" * size(130_000), 1),
    "nested": ("@", "\n<tool_response>" * size(60_000) + "\n</tool_response>" * size(60_000), 1),
    "end tags": ("@", "\n</tool_response>" * size(120_000), 0),
    "half JSON everywhere": ("@\n</tool_response>", '\n<tool_response>{"a":"' * size(90_000), 1),
    "JSON of 10 MB": ('<tool_response>{"content":"@"}</tool_response>', "a=b;" * 2_500_000, 1),
    "a long number": ('<tool_response>{"content":@}</tool_response>', "1" * 2_000_000, 1),
    "of everything": (
        "@",
        f"<tool_result tool_name='X'>\n<tool_response>\n{READ}\n" * size(25_000),
        0,
    ),
}


@pytest.mark.full
@each_row(("frame", "inside", "number"), GIANTS.values(), ids=GIANTS)
def test_a_giant_text_is_read_like_any_other(frame: str, inside: str, number: int):
    read = read_behind_calls(new_parser(len), frame.replace("@", inside))
    assert len(read.results) == number


# Arguments in the model's text


GIANT_CALLS = {
    "start tags": ("<a>\n" * size(400_000), 0),
    "start tags and one end tag": ("<a>\n" * size(400_000) + "</a>", 0),
    "start tags of many names": ("".join(f"<a{at}>\n" for at in range(size(150_000))), 0),
    "nested": (
        "".join(f"<a{at}>\n" for at in range(size(80_000))) + "".join(f"</a{at}>" for at in range(size(80_000))),
        0,
    ),
    "a value with calls in it": ("<a>\n<b>" * size(100_000) + "</b><b></b>junk</a>", 0),
    "half JSON everywhere": ('\n<tool_call>{"a":"' * size(100_000) + "\n</tool_call>", 0),
    "a body of 10 MB": (f"<write_to_file>\n<content>{'a=b;' * 2_500_000}</content>\n</write_to_file>", 1),
}


@pytest.mark.full
@each_row(("text", "number"), GIANT_CALLS.values(), ids=GIANT_CALLS)
def test_a_giant_text_of_the_models_is_read_like_any_other(text: str, number: int):
    read = new_parser(len, wants_inputs=True).read({"role": "assistant", "content": text}, 0)
    assert len(read.calls) == number


def calls(text: str, *, wants_inputs: bool = True) -> Sequence[ToolCall]:
    return new_parser(exact(), wants_inputs=wants_inputs).read({"role": "assistant", "content": text}, 0).calls


WRITE = f"<write_to_file>\n<path>a.py</path>\n<content>\n{LINES}\n</content>\n</write_to_file>"
CHANGE = "<<<<<<< SEARCH\na < b\n=======\na > b\n>>>>>>> REPLACE"
DIFF = f"<replace_in_file><path>a.py</path><diff>{CHANGE}</diff></replace_in_file>"
EDIT = "<edit>\n<path>a.py</path>\n<old_str>one</old_str>\n<new_str>one and two</new_str>\n</edit>"
TOOL_CALL = '<tool_call>\n{"name": "write", "arguments": {"path": "a.py", "content": "x = 1"}}\n</tool_call>'


@each_row(
    ("text", "expected"),
    [
        (WRITE, [("write_to_file", f"\n{LINES}\n", False)]),
        (f"I write.\n{WRITE}\nDone.", [("write_to_file", f"\n{LINES}\n", False)]),
        (f"  {DIFF}", [("replace_in_file", CHANGE, False)]),
        (EDIT, [("edit", "one", False), ("edit", "one and two", False)]),
        ("<read_file>\n<path>a.py</path>\n</read_file>", []),
        ("No call, but <content>words</content>.", []),
        (TOOL_CALL, [("write", '{"path": "a.py", "content": "x = 1"}', True)]),
        ('<tool_call>{"name": "ls"}</tool_call>', []),
    ],
)
def test_the_bodies_of_a_call_in_a_text_are_its_inputs(text: str, expected: list[tuple[str, str, bool]]):
    made = [part for call in calls(text) for part in call.inputs]
    assert [(part.tool, part.text, part.is_json) for part in made] == expected
    for part in made:
        assert part.location.path == (0, "content")
        assert text[part.location.start : part.location.stop] == part.text
    assert [call.inputs for call in calls(text, wants_inputs=False)] == [()] * len(calls(text))


def test_every_body_of_a_call_is_shortened_at_once_and_the_savings_add_up():
    old, new = "old line\n" * 300, "new line\n" * 200
    call = f"<edit>\n<path>a.py</path>\n<old_str>{old}</old_str>\n<new_str>{new}</new_str>\n</edit>"
    messages = [
        {"role": "assistant", "content": call},
        {"role": "user", "content": "<tool_result tool_name='EditTool' success='true'>ok</tool_result>"},
        {"role": "assistant", "content": "It is done."},
    ]
    pruner = AgenticConversationPruner(PruneArgs(60))
    strategy = ToolOutputCleanup(clear_tool_inputs=ToolInputs())
    outcome = pruner.prune(messages, strategy)
    assert outcome.conversation[0]["content"] == (
        "<edit>\n<path>a.py</path>\n<old_str>[900 tokens cleared to save space; the call succeeded]</old_str>\n"
        "<new_str>[600 tokens cleared to save space; the call succeeded]</new_str>\n</edit>"
    )
    assert outcome.report.tokens_after == pruner.count_tokens(outcome.conversation)
    assert outcome.report.statistics == pruner.get_cleanup_statistics(messages, outcome.conversation)
    assert outcome.report.statistics["tool_calls_cleaned"] == 1
    assert pruner.prune_conversations(outcome.conversation, strategy) is outcome.conversation

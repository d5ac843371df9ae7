"""XML results in a user's text: where they begin and end, what replaces them, and what is only quoted."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from tables import each_row

from autoprune import AgenticConversationPruner, PruneArgs, Result
from autoprune.wire import xml_tool_result as xml

PLACEHOLDER = """<tool_result tool_name='ReadFileTool' success='true'>
<message>Content cleared to save tokens</message>
<content>This message has been cleared. If you still want to get this information, you can call the tool again to \
retrieve it.</content>
</tool_result>"""
START = "<tool_result tool_name='ReadFileTool' success='true'>"
END = "</tool_result>"
CLEARED = PLACEHOLDER.removeprefix(START).removesuffix(END)
LINES = "total = compute(left, right)\n" * 40
INSIDE = f"<message>Read 40 lines</message><content>{LINES}</content>"


def pruner(safe_zone: int = 1, **options: Any) -> AgenticConversationPruner:
    return AgenticConversationPruner(PruneArgs(conversation_prune_safe_zone_tokens=safe_zone), **options)


def seen(content: object, role: str = "user") -> list[Any]:
    """A conversation in which the model has answered a message with this content."""
    return [
        {"role": "user", "content": "Add up the columns."},
        {"role": "assistant", "content": "I look at the file."},
        {"role": role, "content": content},
        {"role": "assistant", "content": "I have read it."},
        {"role": "user", "content": "Go on."},
    ]


def pruned(content: object) -> Result:
    return pruner().prune(seen(content))


def cleaned(content: object) -> Any:
    """A message's content after everything that can be cleared was cleared."""
    conversation = seen(content)
    after = pruner().prune_conversations(conversation)
    assert after[:2] + after[3:] == conversation[:2] + conversation[3:]
    assert {**after[2], "content": None} == {**conversation[2], "content": None}
    return after[2]["content"]


def is_left_alone(conversation: list[Any]) -> bool:
    """Whether no result is seen in a conversation, and the caller gets his list itself back."""
    result = pruner().prune(conversation)
    return result.report.rows == () and result.conversation is conversation


# What stands inside

PAYLOADS = {
    "message and content": INSIDE,
    "no message": f"<content>{LINES}</content>",
    "no content": f"<message>{LINES}</message>",
    "neither": LINES,
    "content before message": f"<content>{LINES}</content><message>Read</message>",
    "line breaks": f"\n<message>Read</message>\n\n<content>\n{LINES}\n</content>\n",
    "carriage returns": INSIDE.replace("\n", "\r\n"),
    "comparisons": f"<content>{LINES}if a < b && c > d: x <<= y; print('<', \"&\")\n</content>",
    "an end tag of content": f"<content>{LINES}print('</content>')\n# </message>\n</content>",
    "an open tag of content": f"<content>{LINES}print('<content>')\n</content>",
    "CDATA": f"<content><![CDATA[{LINES}a < b && c]]></content>",
    "an end tag in CDATA": f"<content><![CDATA[{LINES}{END}]]></content>",
    "CDATA that is not closed": f"<content><![CDATA[{LINES}</content>",
    "a comment": f"<content><!-- {END} -->{LINES}<!-- </content>",
    "an XML declaration": f"<content><?xml version='1.0' encoding='latin-1'?><a>{LINES}</a></content>",
    "entities": f"<content>{LINES}&lt;&amp;&nbsp;&#0;&#xD800;&nope;&</content>",
    "NUL": f"<content>{LINES}\0\0</content>",
    "control characters": f"<content>{LINES}\x01\x08\x0b\x0c\x1b[0m\x7f\x85\ufffe\uffff</content>",
    "lone surrogates": f"<content>{LINES}\ud800 \udfff\udbff</content>",
    "other scripts": f"<content>{LINES}漢字 עברית 👩‍👩‍👧 e\u0301 \u2028\u202e</content>",
    "an end tag in a string": f"<content>{LINES}text = '{END}'\n{LINES}</content>",
    "an end tag in backticks": f"<content>{LINES}It ends with `{END}`.\n{LINES}</content>",
    "an end tag on a line of its own": f"<content>{LINES}{END}\n{LINES}</content>",
    "two end tags": f"<content>{LINES}{END}{END}\n{LINES}</content>",
    "an end tag with a space": f"<content>{LINES}</tool_result >\n{LINES}</content>",
    "an example": f"<content>{LINES}\n{START}\n<content>x</content>\n{END}\n{LINES}</content>",
    "an example at the start": f"{START}<content>x</content>{END}\n{LINES}",
    "an example at the end": f"{LINES}\n{START}<content>x</content>{END}",
    "two examples": f"<content>{LINES}\n{START}x{END}\n{LINES}\n{START}y{END}{START}z{END}\n</content>",
    "an example of an example": f"<content>{LINES}\n{START} {START} {START}x{END} y {END} z {END}\n</content>",
    "an example and an end tag": f"<content>{LINES}\n{START}x{END}\nprint('{END}')\n</content>",
    "an example in backticks": f"<content>{LINES}`{START}x{END}`\n</content>",
    "an example in a string": f'<content>{LINES}text = "{START}x{END}"\n</content>',
    "an example in a fence": f"<content>{LINES}\n```xml\n{START}\nx\n{END}\n```\n{LINES}</content>",
    "a start tag in a string": f'<content>{LINES}text = "{START}"\n</content>',
    "half a fence": f"<content>{LINES}\n```\n</content>",
    "half a start tag": f"<content>{LINES}\n<tool_result tool_name='\n</content>",
    "a self-closing tag": f"<content>{LINES}\n<tool_result tool_name='X' success='true'/>\n</content>",
    "a tag without a name": f"<content>{LINES}\n<tool_result>x{END}\n</content>",
    "other names": f"<content>{LINES}\n<tool_results tool_name='X'>x</tool_results>\n</content>",
    "an entity bomb": (
        "<content><!DOCTYPE bomb [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;'><!ENTITY c '&b;&b;&b;'>\n"
        f"<!ENTITY file SYSTEM 'file:///secret'>]><bomb>&c;&file;</bomb>\n{LINES}</content>"
    ),
}


@each_row("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_a_result_reaches_to_its_last_end_tag_whatever_it_holds(payload: str):
    assert cleaned(f"{START}{payload}{END}") == PLACEHOLDER
    assert cleaned(f"Here:\n{START}{payload}{END} What now?") == f"Here:\n{PLACEHOLDER} What now?"


@each_row("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_a_result_ends_before_the_next_one_whatever_it_holds(payload: str):
    first, second = f"{START}{payload}{END}", f"{START}{INSIDE}{END}"
    assert cleaned(f"A: {first}\nB: {second} C") == f"A: {PLACEHOLDER}\nB: {PLACEHOLDER} C"
    assert cleaned(f"A: {second}\nB: {first} C") == f"A: {PLACEHOLDER}\nB: {PLACEHOLDER} C"
    assert cleaned(f"{first}{second}{first}") == PLACEHOLDER * 3


def test_entities_of_a_document_type_are_neither_expanded_nor_fetched():
    bomb = PAYLOADS["an entity bomb"]
    result = pruner(safe_zone=1_000_000).plan(seen(f"{START}{bomb}{END}"))
    assert [part.text for part in result.transcript.results] == [bomb]


# The start tag

START_TAGS = [
    ("<tool_result tool_name='X' success='true'>", "X", False),
    ('<tool_result tool_name="X" success="true">', "X", False),
    ("<tool_result success='true' tool_name='X'>", "X", False),
    ("<tool_result tool_name='X' success='false'>", "X", True),
    ('<tool_result success="false" tool_name="X">', "X", True),
    ("<tool_result tool_name='X'>", "X", None),
    ("<tool_result tool_name='X' success=''>", "X", None),
    ("<tool_result tool_name='X' success='perhaps'>", "X", None),
    ("<tool_result   tool_name='X'\t success = \"true\"  >", "X", False),
    ("<tool_result\ttool_name='X'\tsuccess='true'>", "X", False),
    ("<tool_result\n    tool_name=\"X\"\n    success='false'\n>", "X", True),
    ("<tool_result\r\n tool_name='X' success='true'>", "X", False),
    ("<tool_result tool_name='' success='true'>", "", False),
    ("<tool_result tool_name='mcp.server-1_read' success='true'>", "mcp.server-1_read", False),
    ("<tool_result tool_name='Read File' success='true'>", "Read File", False),
    ("<tool_result tool_name=\"it's\" success='true'>", "it's", False),
    ("<tool_result tool_name='读取' success='true'>", "读取", False),
    ("<tool_result id='7' tool_name='X' lang='py' success='false' ms='12'>", "X", True),
    ("<tool_result tool_name='X' success='true' note='&lt;a&gt; &amp; &quot;b&quot;'>", "X", False),
    ("<tool_result tool_name='X' success='true' note='a > b'>", "X", False),
    ("<tool_result note='a > b' tool_name='X' success='true'>", "X", False),
    ("<tool_result success='true' note=\"a -> b => c\" tool_name='X'>", "X", False),
    ("<tool_result tool_name='a > b' success='true'>", "a > b", False),
    ("<tool_result tool_name='a>b' success='false'>", "a>b", True),
    ("<tool_result tool_name='X' success='true' note='a < b'>", "X", False),
    ("<tool_result tool_name='X' success='true' note='&nope;'>", "X", False),
    ("<tool_result tool_name='X' success='true' note='ends with </tool_result>'>", "X", False),
    ("<tool_result tool_name='X' success='true' note='like <tool_result tool_name=\"Y\"> does'>", "X", False),
    ("<tool_result tool_name='X' success='true' tool_name='Y'>", "X", False),
    ("<tool_result note=\"tool_name='Y'\" tool_name='X' success='true'>", "X", False),
    ("<tool_result tool_name='X' note=\"success='false'\">", "X", None),
    ("<tool_result tool_name='X' not-success='false'>", "X", None),
]


@each_row(("tag", "tool", "failed"), START_TAGS)
def test_a_start_tag_stays_byte_for_byte_and_says_tool_and_status(tag: str, tool: str, failed: bool | None):
    result = pruned(f"{tag}{INSIDE}{END}")
    assert result.conversation[2]["content"] == f"{tag}{CLEARED}{END}"
    assert [(row["tool"], row["failed"], row["cleared"]) for row in result.report.rows] == [(tool, failed, True)]


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("<tool_result tool_name='A &amp; B' success='true'>", ("A & B", False)),
        ("<tool_result tool_name=\"&lt;x&gt;\" success='&#102;alse'>", ("<x>", True)),
    ],
)
def test_references_in_a_start_tag_are_read_and_stay_as_they_are(tag: str, expected: tuple[str, bool]):
    assert (xml.tool_name(tag), xml.is_error(tag)) == expected
    assert cleaned(f"{tag}{INSIDE}{END}") == f"{tag}{CLEARED}{END}"


@pytest.mark.parametrize("tag", ["<tool_result tool_name='\0' success='false'>", "<tool_result tool_name='\ud800'>"])
def test_a_start_tag_that_lxml_refuses_is_read_all_the_same(tag: str):
    assert cleaned(f"{tag}{INSIDE}{END}") == f"{tag}{CLEARED}{END}"
    assert (xml.tool_name(tag), xml.is_error(tag)) == (tag[24], True if "false" in tag else None)


# What is no result

QUOTED = f"{START}{INSIDE}{END}"
NO_RESULT = {
    "backticks": f"What does `{QUOTED}` mean?",
    "double backticks": f"What does ``{QUOTED}`` mean?",
    "double quotation marks": f'What does "{QUOTED}" mean?',
    "single quotation marks": f"What does '{QUOTED}' mean?",
    "typographic quotation marks": f"What does “{QUOTED}” mean? And ‘{QUOTED}’? And «{QUOTED}»?",
    "a string in code": f"parse('{QUOTED}')",
    "parentheses": f"The tag ({QUOTED}) is new to me.",
    "inside a word": f"My tag is x{QUOTED}",
    "an open tag before": f"<div>{QUOTED}</div>",
    "a fence": f"What is this?\n```\n{QUOTED}\n```\n",
    "a fence at the start": f"```\n{QUOTED}\n```",
    "a fence with a language": f"What is this?\n\n```xml\n{QUOTED}\n```\n\nPlease explain.",
    "an indented fence": f"1. What is this?\n\n   ```xml\n   {QUOTED}\n   ```\n",
    "a fence of tildes": f"What is this?\n~~~\n{QUOTED}\n~~~\n",
    "a fence of four backticks": f"What is this?\n````\n{QUOTED}\n````\n",
    "a fence with more lines": f"What is this?\n```\nHere it comes:\n{QUOTED}\nand goes on\n```\n",
    "a fence with two": f"What is this?\n```\n{QUOTED}\n{QUOTED}\n```\n",
    "a second fence": f"I have\n```\nx = 1\n```\nand\n```\n{QUOTED}\n```\n",
    "escapes": QUOTED.replace("<", "&lt;").replace(">", "&gt;"),
    "an unclosed start tag": f"{START}{INSIDE}",
    "an unclosed start tag with an end tag in it": f"<tool_result tool_name='X' note='</tool_result>'>{LINES}",
    "two unclosed start tags": f"{START}{INSIDE}\n{START}{INSIDE}",
    "half a start tag": f"<tool_result tool_name='X' success='true' {LINES}",
    "an open quote": f"<tool_result tool_name='X success=true>{LINES}{END}",
    "a self-closing tag": f"<tool_result tool_name='X' success='true'/>{LINES}",
    "a self-closing tag with a space": f"<tool_result tool_name='X' success='true' />{LINES}",
    "a self-closing tag and an end tag": f"<tool_result tool_name='X' success='true'/>{LINES}{END}",
    "an end tag": f"{LINES}{END}",
    "end tags": f"{END}{LINES}{END}\n{END}",
    "an end tag before the start tag": f"{END}{LINES}{START}",
    "no tool name": f"<tool_result success='true'>{INSIDE}{END}",
    "no attributes": f"<tool_result>{INSIDE}{END}",
    "a tool name in another value": f"<tool_result note=\"tool_name='X'\" success='true'>{INSIDE}{END}",
    "a tool name in another name": f"<tool_result my-tool_name='X' success='true'>{INSIDE}{END}",
    "a tool name in the text": f"<tool_result success='true'>tool_name='X' {INSIDE}{END}",
    "a tool name without a value": f"<tool_result tool_name= success=true>{INSIDE}{END}",
    "another tag": f"<tool_results tool_name='X'>{INSIDE}</tool_results>",
    "capitals": f"<TOOL_RESULT tool_name='X' success='true'>{INSIDE}</TOOL_RESULT>",
    "a space in the tag": f"< tool_result tool_name='X' success='true'>{INSIDE}{END}",
    "another end tag": f"{START}{INSIDE}</tool_result_x>",
}


AROUND = [
    "@",
    " @ ",
    "\n\n@\n\n",
    "Words before @ and after.",
    "Words before\n@\nand after.\n",
    "@@",
    "@ @",
    "@\n@",
    "@@@",
    "One @ two @ three @ four",
    "@ in between\n@",
    "Before @\n\n\t@ and then\n@",
    "a < b && c\n@\n<content>mine</content> &amp; </div>@</message>",
    "</content>@",
    "</my:tag.x-1 >@",
    "漢字 @ 👩‍👩‍👧 @ \ud800",
    "\u3000@\u00a0@\u2003",
    "@`code` 'quoted' \"too\" @",
    "```python\nprint(1)\n```\n@\n```\nmore\n```\n@",
    "Half a fence:\n```\n@",
    "</tool_result> @",
    "<tool_result> @",
    "<tool_result tool_name= @",
    "The tag <tool_result tool_name='X' success='true'/> @",
    "The tag `<tool_result tool_name='X' success='true'>` @ is mine",
    "It is `<tool_result tool_name='X' success='true'>x</tool_result>`, see @ and @ here",
    "@ Why does it say `<tool_result tool_name='X' success='true'>` there?",
    "@ Why does it say `<tool_result tool_name='X' success='true'>x</tool_result>` there?",
    "@\nWhy is there \"<tool_result tool_name='X' success='true'>x</tool_result>\" in it?\n@ Tell me.",
    '@\nI saw a `</tool_result>` there, and a "</tool_result>" too',
    "@\n```xml\n<tool_result tool_name='X' success='true'>x</tool_result>\n```\nWhat is that?",
    "I never closed it:\n<tool_result tool_name='X' success='true'> and so on\n@ after",
]


@each_row("around", AROUND)
def test_the_users_own_words_around_results_stay_byte_for_byte(around: str):
    assert cleaned(around.replace("@", f"{START}{INSIDE}{END}")) == around.replace("@", PLACEHOLDER)


@each_row("content", NO_RESULT.values(), ids=NO_RESULT)
def test_a_user_can_write_about_results(content: str):
    assert is_left_alone(seen(content))
    assert is_left_alone(seen([{"type": "text", "text": content}]))


@pytest.mark.parametrize("role", ["system", "developer", "assistant"])
def test_only_a_user_sends_results_as_xml(role: str):
    assert is_left_alone(seen(QUOTED, role=role))


# Content in blocks


def test_results_in_text_blocks_are_cleared_and_the_other_blocks_stay():
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}}
    cached = {"type": "text", "text": f"Two: {QUOTED}{QUOTED} end", "cache_control": {"type": "ephemeral"}, "n": 1}
    content = [
        {"type": "text", "text": "Mine."},
        {"type": "text", "text": f"One: {QUOTED}"},
        image,
        cached,
        {"type": "text", "text": START},
        {"type": "text", "text": END},
        {"type": "other", "text": QUOTED},
    ]
    expected = [
        {"type": "text", "text": "Mine."},
        {"type": "text", "text": f"One: {PLACEHOLDER}"},
        image,
        {**cached, "text": f"Two: {PLACEHOLDER}{PLACEHOLDER} end"},
        {"type": "text", "text": START},
        {"type": "text", "text": END},
        {"type": "other", "text": QUOTED},
    ]
    after = cleaned(content)
    assert after == expected
    assert [new is old for new, old in zip(after, content, strict=True)] == [True, False, True, False, True, True, True]


# Names and detection, by the methods that a subclass may replace


@each_row(
    ("content", "name"),
    [
        ("<tool_result tool_name='ReadFileTool' success='true'>", "ReadFileTool"),
        ('<tool_result tool_name="ReadFileTool" success="true">', "ReadFileTool"),
        ("<tool_result success='true' tool_name='ReadFileTool'>", "ReadFileTool"),
        ('<tool_result success="true" id="1" tool_name="ReadFileTool">', "ReadFileTool"),
        ("<tool_result   tool_name = 'ReadFileTool' >", "ReadFileTool"),
        ("<tool_result\n\ttool_name='ReadFileTool'>", "ReadFileTool"),
        ("<tool_result tool_name='Read File'>", "Read File"),
        ("<tool_result tool_name='mcp.files'>", "mcp.files"),
        ("<tool_result tool_name='read-file'>", "read-file"),
        ("<tool_result tool_name='read_file'>", "read_file"),
        ("<tool_result tool_name='读取'>", "读取"),
        ("<tool_result tool_name=''>", ""),
        ('<tool_result tool_name="">', ""),
        ('<tool_result tool_name="it\'s">', "it's"),
        ("<tool_result tool_name='a > b'>", "a > b"),
        ("<tool_result note='a > b' tool_name='ReadFileTool'>", "ReadFileTool"),
        ("<tool_result note=\"tool_name='Y'\" tool_name='ReadFileTool'>", "ReadFileTool"),
        ("<tool_result success='true'>", "unknown"),
        ("<tool_result>", "unknown"),
        ("<other tool_name='ReadFileTool'>", "unknown"),
        ("no tag", "unknown"),
        ("", "unknown"),
        ("<tool_result tool_name='ReadFileTool' success='true'", "ReadFileTool"),
        ("<tool_result tool_name='ReadFileTool'", "ReadFileTool"),
        ("<tool_result tool_name='A'>x</tool_result><tool_result tool_name='B'>y</tool_result>", "A"),
        (f"words before {START}{LINES * 10}{END} and after", "ReadFileTool"),
    ],
)
def test_the_name_of_the_tool(content: str, name: str):
    assert pruner()._extract_tool_name(content) == name


@each_row(
    ("content", "is_result"),
    [
        (f"{START}x{END}", True),
        (f"words {START}x{END} words", True),
        ('<tool_result tool_name="X" success="true">x</tool_result>', True),
        ("<tool_result success='true' tool_name='X'>x</tool_result>", True),
        (None, False),
        ("", False),
        ("words", False),
        ("<tool_result success='true'>x</tool_result>", False),
        ("<result tool_name='X'>x</result>", False),
        ("tool_name='X'", False),
        (7, False),
        ([], False),
    ],
)
def test_what_a_message_with_results_looks_like(content: object, is_result: bool):
    assert pruner()._is_tool_result_message(content) is is_result


# Any text

SCRAPS = [
    *(START, "<tool_result success='false' tool_name=\"Y\">", "<tool_result tool_name='Z'/>", "<tool_result>"),
    *(END, "</tool_result >", "</content>", "<content>", "<message>m</message>", "<tool_result tool_name='"),
    *("```", "```xml", "`", '"', "'", "\n", "\n\n", " ", "<", ">", "/", "&", "x", "words and more words "),
    *(LINES, "漢字", "\ud800", "\0", CLEARED, PLACEHOLDER, "<![CDATA[", "]]>"),
]
SOUP = st.lists(st.sampled_from(SCRAPS), max_size=24).map("".join)


@examples(400)
@given(SOUP)
def test_the_spans_of_any_text_are_whole_elements_in_order(text: str):
    edge = 0
    for span in xml.spans(text):
        assert edge <= span.begin < span.start <= span.stop < span.end <= len(text)
        assert text[span.begin : span.start].startswith("<tool_result")
        assert text[span.start - 1] == ">"
        assert text[span.stop : span.end].replace(" ", "") == END
        edge = span.end


@examples(400)
@given(SOUP)
def test_any_text_is_cleared_once_and_the_saved_tokens_are_the_removed_ones(text: str):
    conversation = seen(text)
    result = pruner().prune(conversation)
    saved = sum(edit.saved for edit in result.plan.edits)
    count = pruner().count_tokens
    assert count(conversation) - count(result.conversation) == saved
    again = pruner().prune(result.conversation)
    assert again.conversation is result.conversation
    assert [row["tool"] for row in again.report.rows] == [row["tool"] for row in result.report.rows]

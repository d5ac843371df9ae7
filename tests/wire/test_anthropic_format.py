"""Anthropic Messages: which blocks are results, how they are cleared, which tokens count, and what never changes."""

from typing import Any

import pytest
from anthropic.types import Message, ToolUseBlock
from anthropic.types.beta import BetaToolUseBlock
from anthropic.types.browser_find_tool_use_block import BrowserFindToolUseBlock
from anthropic_hypothesis import NAMES, STOPPED
from conversations import SENTENCE
from tables import each_row

from autoprune import AgenticConversationPruner, ConversationError, PruneArgs, Result
from autoprune.tokens import MESSAGE_TOKENS, exact
from autoprune.wire import SHIPPED, anthropic, new_parser

LONG = "a line of output\n" * 200
CACHED = {"cache_control": {"type": "ephemeral"}}
ASKED = {"role": "user", "content": "Look."}
DONE = {"role": "assistant", "content": "I see."}
HEADER = "iVBORw0KGgoAAAANSUhEUgAAAoAAAAHg"  # of a PNG image of 640 x 480 pixels
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": HEADER}}
PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "A" * 90_000}}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def use(call_id: str = "toolu_1", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "read_file", "input": given}


def answer(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [*blocks]}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": [*blocks]}


def result(content: Any, call_id: str = "toolu_1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def prune(messages: list[Any], safe_zone: int = 1, **more: Any) -> Result:
    return AgenticConversationPruner(PruneArgs(safe_zone, **more)).prune(messages)


def pruned(*blocks: Any) -> Any:
    """The content of a user's message, which the model has seen, once all that can be cleared is cleared."""
    calls = [use(block["tool_use_id"]) for block in blocks if block.get("type") == "tool_result"]
    return prune([ASKED, answer(*calls), user(*blocks), DONE]).conversation[2]["content"]


def tokens(message: Any) -> int:
    return new_parser(exact(), formats=(anthropic,)).read(message, 0).tokens


# What becomes of a result

CLEARED = [text(SENTENCE)]
FOUND = {"type": "search_result", "source": "a.md", "title": "A", "content": [text(LONG)]}


@each_row(
    ("content", "becomes"),
    [
        (LONG, SENTENCE),
        ([text(LONG)], CLEARED),
        ([text(LONG), text("the end")], CLEARED),
        ([text("first", **CACHED), text(LONG)], [text(SENTENCE, **CACHED)]),
        ([IMAGE], CLEARED),
        ([text("A picture."), IMAGE], CLEARED),
        ([PDF], CLEARED),
        ([FOUND], CLEARED),
        ([{"type": "browser_state", "tabs": [{"tab_id": 1, "title": LONG}]}], CLEARED),
        ([{"type": "hologram", "data": LONG}], CLEARED),
        ([LONG], CLEARED),
    ],
)
def test_a_result_becomes_the_placeholder_in_the_shape_that_it_had(content: Any, becomes: Any):
    assert pruned(result(content)) == [result(becomes)]


# XML in the blocks of text

ELEMENT = f"<tool_result tool_name='read_file' success='true'>{LONG}</tool_result>"


# Counting


SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "lxml"}}
HIT = {"type": "web_search_result", "title": "Some title", "url": "https://lxml.de", "page_age": None}
RAN = {"type": "code_execution_result", "stdout": "the output", "stderr": "", "return_code": 1, "content": []}
NOTES = {"type": "document", "title": "Notes", "source": {"type": "text", "media_type": "text/plain", "data": "a note"}}
FETCHED = {
    "type": "web_fetch_result",
    "url": "https://lxml.de",
    "content": NOTES,
    "retrieved_at": "2026-11-01T00:00:00",
}
LOADED = {"tool_references": [{"type": "tool_reference", "tool_name": "deploy"}]}
CALLER = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}


@each_row(
    ("block", "counted"),
    [
        ({"type": "thinking", "thinking": "Where is it?", "signature": "A" * 900}, ["Where is it?"]),
        (use(path="a.py", lines=[1, 40]), ["read_file", '{"path": "a.py", "lines": [1, 40]}']),
        (SEARCH, ["web_search", '{"query": "lxml"}']),
        ({**SEARCH, "type": "mcp_tool_use", "server_name": "x"}, ["web_search", '{"query": "lxml"}']),
        (
            {"type": "mcp_tool_result", "tool_use_id": "s1", "is_error": False, "content": [text("Found.")]},
            ["0", "Found."],
        ),
        (
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [HIT], "caller": CALLER},
            ["Some title", "https://lxml.de"],
        ),
        ({"type": "code_execution_tool_result", "tool_use_id": "s1", "content": RAN}, ["the output", "1"]),
        ({"type": "tool_search_tool_result", "tool_use_id": "s1", "content": LOADED}, ["deploy"]),
        (
            {"type": "web_fetch_tool_result", "tool_use_id": "s1", "content": FETCHED},
            ["https://lxml.de", "Notes", "a note"],
        ),
        ({"type": "compaction", "content": "It was so.", "signature": "A" * 900}, ["It was so."]),
        ({"type": "search_result", "source": "a.md", "title": "A", "content": [text("B")]}, ["a.md", "A", "B"]),
        ({"type": "browser_state", "tabs": [{"tab_id": "t", "title": "A"}]}, ["t", "A"]),
        ({**NOTES, "citations": {"enabled": True}, "cache_control": {"ttl": "1h"}}, ["Notes", "a note"]),
        ({"type": "container_upload", "file_id": "file_" + "A" * 40}, []),
        (text("A claim.", citations=[{"type": "page_location", "cited_text": LONG}], **CACHED), ["A claim."]),
        ({"type": "hologram", "data": {"depth": 3}}, ["type", "hologram", "data", "depth", "3"]),
    ],
)
def test_a_block_counts_only_the_fields_that_the_model_reads(block: dict[str, Any], counted: list[str]):
    assert tokens(answer(block)) == MESSAGE_TOKENS + sum(map(exact(), counted))


@each_row(
    ("block", "by_rule"),
    [
        ({"type": "redacted_thinking", "data": "A" * 600}, 100),
        ({"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"encrypted_content": "A" * 600}]}, 100),
        ({"type": "compaction", "content": None, "encrypted_content": "A" * 600}, 100),
        ({"type": "code_execution_tool_result", "tool_use_id": "s", "content": {"encrypted_stdout": "A" * 600}}, 100),
        (IMAGE, 410),
        ({"type": "image", "source": {"type": "file", "file_id": "file_1"}}, 1_399),
        (PDF, 2_333),
        (
            {
                "type": "web_fetch_tool_result",
                "tool_use_id": "s",
                "content": {"type": "web_fetch_result", "content": PDF},
            },
            2_333,
        ),
    ],
)
def test_media_and_encrypted_texts_count_by_rule(block: dict[str, Any], by_rule: int):
    assert tokens(answer(block)) == MESSAGE_TOKENS + by_rule


def test_results_of_server_tools_are_never_changed():
    page = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{**HIT, "title": LONG}]}
    mcp = {"type": "mcp_tool_result", "tool_use_id": "s2", "content": [text(LONG)]}
    ours = prune([ASKED, answer(SEARCH, page, mcp, text("So it is.")), ASKED, DONE])
    assert (ours.report.rows, ours.report.results_cleared) == ((), 0)
    assert ours.report.floor["assistant"] > 2 * exact()(LONG)


# Objects of the SDK


def response(*blocks: dict[str, Any], kind: Any = Message) -> Any:
    return kind.model_validate({**NAMES, "content": blocks, **STOPPED})


BLOCKS = ({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, text("I look."), use(path="a.py"))


@pytest.mark.parametrize(
    ("block", "arguments"),
    [
        (ToolUseBlock(type="tool_use", id="c", name="find", input={"q": 1}), '{"q": 1}'),
        (BetaToolUseBlock(type="tool_use", id="c", name="find", input={"q": 1}), '{"q": 1}'),
        (ToolUseBlock.model_construct(type="tool_use", id="c", name="find", input='{"q": 1}'), '{"q": 1}'),
        (
            BrowserFindToolUseBlock.model_validate(
                {"type": "tool_use", "id": "c", "name": "find", "input": {"query": "a", "tab_id": "t"}}
                | {"toolset_name": "browser", "caller": {"type": "direct"}}
            ),
            '{"query": "a", "tab_id": "t"}',
        ),
    ],
)
def test_a_call_that_is_an_object_counts_its_input_as_json(block: Any, arguments: str):
    message = {"role": "assistant", "content": [block]}
    assert tokens(message) == MESSAGE_TOKENS + exact()("find") + exact()(arguments)
    (call,) = new_parser(exact(), wants_inputs=True).read(message, 0).calls
    assert call.inputs[0].text == arguments


# Thinking


def test_thinking_is_known_by_its_place():
    redacted = {"type": "redacted_thinking", "data": "A" * 60}
    entry = new_parser(exact()).read(answer(BLOCKS[0], text("So."), redacted, use()), 3)
    found = [(thought.location.path, thought.tokens, thought.is_alone) for thought in entry.thinking]
    assert found == [((3, "content", 0), exact()("Hm."), False), ((3, "content", 2), 10, False)]
    alone = new_parser(exact()).read(answer(BLOCKS[0], redacted), 3)
    assert [thought.is_alone for thought in alone.thinking] == [True, True]


# Which messages are of this format


OURS: dict[str, Any] = {
    "a call": answer(use()),
    "a result": user(result("ok")),
    "thinking": answer(BLOCKS[0]),
    "redacted thinking": answer({"type": "redacted_thinking", "data": "A"}),
    "a server's tool": answer(SEARCH),
    "its result": answer({"type": "some_new_tool_result", "content": []}),
    "an image": user(text("x"), IMAGE),
    "a document": user(NOTES),
    "a change of tools": {"role": "system", "content": [{"type": "tool_removal", "tool": {"name": "x"}}]},
    "another": {"role": "system", "content": [{"type": "tool_addition", "tool": {"name": "x"}}]},
    "the tools of a server": answer({"type": "mcp_tool_listing", "tools": []}),
    "a change of models": answer({"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}),
    "a search result": user({"type": "search_result", "source": "a", "title": "A", "content": []}),
    "a response": vars(response(text("ok"))),
}


@each_row("message", OURS.values(), ids=OURS)
def test_only_this_format_sees_a_mark(message: Any):
    assert [known.NAME for known in SHIPPED if known.seen(message)] == ["anthropic"]


def test_an_error_names_the_marks_of_two_formats():
    with pytest.raises(ConversationError, match=r"anthropic \(a block of type 'tool_use'\)"):
        prune([{**answer(use()), "tool_calls": [{"id": "c"}]}])


ODD: list[Any] = [None, "", 7, 3.5, True, [], {}, (), ("x",), [[["deep"], None], 4], [None], [{"type": ["text"]}]]
ODD += [[{"type": kind}] for kind in ("text", "tool_use", "tool_result", "thinking", "redacted_thinking", "image")]
ODD += [[use()], [result(LONG)], [text(ELEMENT)], (result(LONG),)]
ODD += [[{"type": "tool_use", "id": 5, "name": None, "input": given}] for given in (None, "{}", 7, ["x"])]
ODD += [[{"type": "tool_result", "tool_use_id": ["x"], "content": "ok", "is_error": "yes"}]]

"""Hypothesis strategies for conversations: in OpenAI's format, with XML results, and mixed. Valid, but not tame."""

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage

TOOLS = ("read_file", "search_files", "execute_command", "ReadFileTool", "mcp.files-1", "")
PHRASES = (
    *("def total(rows): return sum(rows)\n", "warning: unused variable 'x'; ", "a < b && c > d\n", "0123456789 "),
    *("漢字とかな ", "👩‍👩‍👧 e\u0301 \u200f", "\ud800 ", "\t\r\n", "\0\x1b[0m"),
    *("</content>\n", "<|endoftext|> ", "```\n"),
)
REPEATS = (1, 1, 2, 8, 30, 90, 300, 900)
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
IMAGES = (
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "low"}},
    {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
)
EXTRAS: tuple[dict[str, Any], ...] = (
    *({}, {}, {}, {"cache_control": {"type": "ephemeral"}}, {"name": "worker"}),
    *({"x_trace": {"spans": [1, {"deep": [None, True]}]}, "x_score": 0.5},),
)
BLOCK_EXTRAS: tuple[dict[str, Any], ...] = ({}, {}, {"cache_control": {"type": "ephemeral"}}, {"x_note": {"a": [1]}})
WORDS = st.sampled_from(
    ("Fix it.", "And now?", "I look.", "Mind `<tool_result tool_name='X'>` here.", "a < b", "見て\n", " ", "- one\n")
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A result's text, from nothing to a few thousand tokens."""
    return draw(st.sampled_from(PHRASES)) * draw(st.sampled_from(REPEATS)) if draw(st.integers(0, 9)) else ""


def native_contents() -> st.SearchStrategy[Any]:
    """What a tool's message may hold: a text mostly; also blocks, images, or nothing that has a text at all."""
    extra = st.sampled_from(BLOCK_EXTRAS)
    block = st.builds(lambda text, extra: {"type": "text", "text": text, **extra}, texts(), extra)
    blocks = st.lists(st.one_of(block, block, st.sampled_from(IMAGES)), max_size=3)
    odd = st.sampled_from((None, 7, 2.5, True, [], [[1, [2, "three"]], "four"], {"rows": [1, "two"]}))
    return st.one_of(texts(), texts(), texts(), texts(), blocks, odd)


def calls(ids: list[str]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Parallel native calls, one for each id."""
    function = st.builds(
        lambda name, path: {"name": name, "arguments": json.dumps({"path": path, "lines": [1, 40]})},
        st.sampled_from(TOOLS[:-1]),
        st.sampled_from(("a.py", "src/b.py", "見.md")),
    )
    functions = st.lists(function, min_size=len(ids), max_size=len(ids))
    return functions.map(
        lambda made: [{"id": id, "type": "function", "function": one} for id, one in zip(ids, made, strict=True)]
    )


@st.composite
def native_rounds(draw: st.DrawFn) -> list[Any]:
    """An assistant's message with calls, some of them abandoned, and their results in any order."""
    ids = draw(st.lists(st.sampled_from(("call_1", "call_2", "call_3", "x")), min_size=1, max_size=3, unique=True))
    content = draw(st.one_of(st.none(), WORDS))
    made = draw(calls(ids))
    if draw(st.booleans()):
        call: Any = ChatCompletionMessage(role="assistant", content=content, tool_calls=made)
    else:
        call = {"role": "assistant", "content": content, "tool_calls": made, **draw(st.sampled_from(EXTRAS))}
    answered = draw(st.permutations(ids)) if draw(st.integers(0, 5)) else ids[1:]
    results = [
        {"role": "tool", "tool_call_id": id, "content": draw(native_contents()), **draw(st.sampled_from(EXTRAS))}
        for id in answered
    ]
    return [call, *results]


@st.composite
def xml_results(draw: st.DrawFn) -> str:
    """One to three results in a text, failed ones among them, with the user's words around."""
    text = draw(st.sampled_from(("", "", "[1] ", "Here:\n")))
    for _ in range(draw(st.integers(1, 3))):
        name, success = draw(st.sampled_from(TOOLS)), draw(st.sampled_from(("true", "true", "false")))
        start = draw(st.sampled_from(("tool_name='{}' success='{}'", 'success="{1}" id="7"  tool_name="{0}"')))
        inside = draw(st.sampled_from(("<message>Done</message><content>{}</content>", "\n<content>\n{}\n</content>")))
        text += f"<tool_result {start.format(name, success)}>{inside.format(draw(texts()))}</tool_result>"
        text += draw(st.sampled_from(("", "\n", " and\n", "\n\nI wonder: `<tool_result tool_name='X'>`?\n ")))
    return text


@st.composite
def xml_rounds(draw: st.DrawFn) -> list[Any]:
    """An assistant's text with a call as an element, and a user's message with results, as a text or in blocks."""
    call = f"{draw(WORDS)}\n<read_file>\n<path>{draw(st.sampled_from(('a.py', 'b.py')))}</path>\n</read_file>"
    content: Any = draw(xml_results())
    if draw(st.integers(0, 3)) == 0:
        more = st.one_of(xml_results(), WORDS).map(lambda text: {"type": "text", "text": text})
        first = {"type": "text", "text": content, **draw(st.sampled_from(BLOCK_EXTRAS))}
        content = [first, *draw(st.lists(st.one_of(more, st.sampled_from(IMAGES)), max_size=2))]
    say = draw(st.sampled_from((lambda text: {"role": "assistant", "content": text}, _spoken)))
    return [say(call), {"role": "user", "content": content, **draw(st.sampled_from(EXTRAS))}]


def _spoken(text: str) -> ChatCompletionMessage:
    return ChatCompletionMessage(role="assistant", content=text)


@st.composite
def talk(draw: st.DrawFn) -> list[Any]:
    """Words without calls: the assistant says something, once or twice; perhaps the developer too."""
    said: list[Any] = [{"role": "assistant", "content": draw(WORDS), **draw(st.sampled_from(EXTRAS))}]
    said += draw(st.sampled_from(([], [], [_spoken("And one more thing.")], [{"role": "developer", "content": "Hm."}])))
    return said


def users() -> st.SearchStrategy[dict[str, Any]]:
    """A user's message without results."""
    block = st.builds(lambda text, extra: {"type": "text", "text": text, **extra}, WORDS, st.sampled_from(BLOCK_EXTRAS))
    blocks = st.lists(st.one_of(block, st.sampled_from(IMAGES)), min_size=1, max_size=3)
    content = st.one_of(WORDS, WORDS, blocks)
    extra = st.sampled_from(EXTRAS)
    return st.builds(lambda content, extra: {"role": "user", "content": content, **extra}, content, extra)


Rounds = Callable[[], st.SearchStrategy[list[Any]]]
FORMATS: dict[str, tuple[Rounds, ...]] = {
    "openai": (native_rounds,),
    "xml": (xml_rounds,),
    "mixed": (native_rounds, xml_rounds),
}
RULES = {"role": "system", "content": "You are an agent. " * 3}
MORE_RULES = {"role": "developer", "content": [{"type": "text", "text": "More."}]}
SYSTEMS: tuple[list[Any], ...] = ([], [RULES], [RULES, MORE_RULES])


@st.composite
def conversations(draw: st.DrawFn, format: str | None = None) -> list[Any]:
    """A conversation of one to three turns, not empty, that may end anywhere. No two messages are one object."""
    rounds = FORMATS[format or draw(st.sampled_from(sorted(FORMATS)))]
    step = st.one_of(*(make() for make in rounds * 3), talk())
    messages = list(draw(st.sampled_from(SYSTEMS)))
    for _ in range(draw(st.integers(1, 3))):
        messages.append(draw(users()))
        for made in draw(st.lists(step, min_size=1, max_size=4)):
            messages += made
    if draw(st.integers(0, 3)) == 0:
        del messages[draw(st.integers(1, len(messages))) :]
    return [separate(message) for message in messages]


@st.composite
def loops(draw: st.DrawFn) -> list[Any]:
    """An agent at work: one turn, every round has results worth clearing, in OpenAI's format, in XML or mixed."""
    messages: list[Any] = [{"role": "user", "content": "Fix it."}]
    for at in range(draw(st.integers(3, 7))):
        sizes = draw(st.lists(st.sampled_from((1, 30, 60, 90)), min_size=1, max_size=3))
        results = [f"{at}: {PHRASES[0] * size}" for size in sizes]
        messages += draw(st.sampled_from((_native_round, _xml_round, _xml_round_in_blocks)))(results)
    return messages


def _native_round(results: list[str]) -> list[Any]:
    made = [
        {"id": f"call_{at}", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a.py"}'}}
        for at in range(len(results))
    ]
    answers = [{"role": "tool", "tool_call_id": f"call_{at}", "content": text} for at, text in enumerate(results)]
    return [ChatCompletionMessage(role="assistant", content=None, tool_calls=made), *answers]


def _xml_round(results: list[str]) -> list[Any]:
    whole = [f"<tool_result tool_name='X' success='true'>{text}</tool_result>" for text in results]
    return [{"role": "assistant", "content": "I read."}, {"role": "user", "content": "\n".join(whole)}]


def _xml_round_in_blocks(results: list[str]) -> list[Any]:
    blocks = [{"type": "text", "text": _xml_round([text])[1]["content"]} for text in results]
    return [{"role": "assistant", "content": "I read."}, {"role": "user", "content": blocks}]


def separate(message: Any) -> Any:
    """A message that shares nothing with any other."""
    if isinstance(message, ChatCompletionMessage):
        return message.model_copy(deep=True)
    return json.loads(json.dumps(message))


def safe_zones(tokens: int) -> st.SearchStrategy[int]:
    """Safe zones for a conversation of so many tokens: tiny, too small, in reach, just enough, huge."""
    between = st.integers(1, max(1, tokens + 1))
    return st.one_of(st.sampled_from((1, max(1, tokens - 1), tokens, 10**9)), between, between, between)

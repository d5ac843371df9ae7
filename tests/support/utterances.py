"""Utterances for the tests of summarizers: written out, and drawn by hypothesis."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from autoprune.conversation.transcript import Location, Speaker, ToolCall, ToolResult
from autoprune.facts.utterances import Utterance

PHRASES = (
    *("Fix the failing test", "a ×3", "# Title", "## What was done (2 lines)", "## The user's first request (1 line)"),
    *("- failed #3 a.py ×2", "read: 3 calls", "… 7 earlier messages", "[1, 2]", '["a", "b"]', "\ud800", "漢字とかな"),
    *("Error: no such file", "Traceback (most recent call last):", "exit code 1", "{}", "a < b && c", "\u2028", "\r"),
    *("1 failed in 0.1s", "The user denied this operation and provided the following feedback: no", "pytest | tail"),
    *("\x1c", "\n", "\n\n", " ", "\t", "  | x", "- ", "<|endoftext|>", "0123456789" * 20, "one two three " * 40),
)
TEXTS = st.lists(st.sampled_from(PHRASES), max_size=6).map(" ".join) | st.text(max_size=40)
TOOLS = st.sampled_from(("read_file", "run", "AskUserQuestion", "", "- #1", "user", "a: 2 calls\nb", "見る", "\ud800"))
ARGUMENTS = st.one_of(
    st.builds(lambda path: {"path": path}, TEXTS), st.builds(lambda text: {"x": [text]}, TEXTS), st.just({}), TEXTS
)


def call(name: str, at: int = 0, **arguments: Any) -> ToolCall:
    """A call; calls are told apart by `at`."""
    return ToolCall(Location((at, "call")), at, None, name, arguments)


def result(made: ToolCall | None, text: str, is_error: bool | None = None, tool: str = "") -> ToolResult:
    """What a tool answered to a call."""
    return ToolResult(
        location=Location((0, "result")),
        request=0,
        tool=made.name if made else tool,
        piece=text,
        start=0,
        stop=len(text),
        piece_tokens=len(text),
        count=len,
        sent=1,
        kind="test",
        is_error=is_error,
        call=made,
    )


def user(words: str) -> Utterance:
    """Words of the user."""
    return Utterance(Speaker.USER, words)


def model(words: str = "", *calls: ToolCall) -> Utterance:
    """Words of the model, and its calls."""
    return Utterance(Speaker.MODEL, words, calls=calls)


def tool(*results: ToolResult) -> Utterance:
    """What tools answered."""
    return Utterance(Speaker.TOOL, "", results=results)


def answered(made: ToolCall, text: str = "fine", is_error: bool | None = None) -> tuple[Utterance, Utterance]:
    """A call with its result, as two messages."""
    return model("", made), tool(result(made, text, is_error))


def words(text: str) -> int:
    """A way to count that tests can follow."""
    return len(text.split())


def _said(draws: Sequence[tuple[Any, ...]]) -> tuple[Utterance, ...]:
    said: list[Utterance] = []
    for at, (speaker, text, name, arguments, output, is_error) in enumerate(draws):
        if speaker is not Speaker.TOOL:
            said.append(Utterance(speaker, text))
            continue
        made = ToolCall(Location((at, "call")), at, None, name, arguments)
        said += [model(text, made), tool(result(made if at % 5 else None, output, is_error, tool=name))]
    return tuple(said)


def utterances() -> st.SearchStrategy[tuple[Utterance, ...]]:
    """A few messages of any kind, with weird texts in them."""
    one = st.tuples(
        st.sampled_from(Speaker), TEXTS, TOOLS, ARGUMENTS, TEXTS, st.sampled_from((None, None, True, False))
    )
    return st.lists(one, max_size=8).map(_said)

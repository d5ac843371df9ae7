"""The placeholders of `cache_aware`, and how pruned output that is passed back shows them.

A placeholder names the tool, its target, the result's size, some of its fresh names, and the request at which it was
written:

    [Cleared at request 12: read src/app.py, 2,310 tokens. Names in it: load_settings, AppError]

Of a picture it repeats the words beside it instead, if they are few:

    [Cleared at request 12: computer, 1,387 tokens. It showed: the order page with one row selected]
"""

import re
from collections.abc import Iterable, Iterator

from autoprune.conversation.placeholders import GAP, HEAD, frame_text, split_mark
from autoprune.conversation.transcript import ToolResult
from autoprune.facts.calls import target
from autoprune.planning.view import Candidate

# Placeholders: the more tokens a result has, the more tokens of names, within bounds.
NAMES_SHARE, LEAST_NAMES, MOST_NAMES = 0.03, 8, 150
CHARACTERS_PER_TOKEN = 3.5  # of names
LONGEST_TARGET = 120  # characters
FAILED = ", failed"
ABOUT = r"\. (?:Names in it|It showed): [^\n]*"
PLACEHOLDER = re.compile(rf"\[Cleared at request (\d{{1,9}}): ([^\n]*), ([\d,]+) tokens(?:{ABOUT})?\]")
LABEL = re.compile(r"\[\w+\]")  # stands for a picture among the words of a result


def placeholder(candidate: Candidate, request: int, fresh: Iterable[str], *, has_failed: bool) -> str:
    """Write the placeholder of a result: the tool, its target, its size, and some of its `fresh` names."""
    tokens = candidate.result.tokens
    what = _what(candidate.result, candidate.target) + (FAILED if has_failed else "")
    named = ", ".join(fitting_names(fresh, tokens))
    about = _caption(candidate.result) or (named and f". Names in it: {named}")
    return f"[Cleared at request {request}: {what}, {tokens:,} tokens{about}]"


def _caption(result: ToolResult) -> str:
    """Repeat the words beside a picture; "" if there are none or too many, or if they read like a placeholder."""
    words = [] if result.is_plain else [word for word in result.text.split() if not LABEL.fullmatch(word)]
    caption = " ".join(words)
    fits = len(caption) <= _room(result.tokens) and " tokens" not in caption
    return f". It showed: {caption}" if caption and fits else ""


def _what(result: ToolResult, target: str) -> str:
    """Name a call: the tool, and the beginning of its target."""
    shown = target if len(target) <= LONGEST_TARGET else f"{target[: LONGEST_TARGET - 1]}…"
    return f"{_tool_name(result)} {shown}".strip()


def short_placeholder(result: ToolResult, request: int, *, has_failed: bool) -> str:
    """Write the shortest placeholder of a result: only the tool and the size."""
    what = _tool_name(result) + (FAILED if has_failed else "")
    return f"[Cleared at request {request}: {what}, {result.tokens:,} tokens]"


def read_placeholder(result: ToolResult) -> re.Match[str] | None:
    """Match a placeholder that this module wrote, with its request and size; None for any other text.

    A text that names another call is the output of a tool that shows such text. If the payload was JSON in a text, the
    placeholder is a JSON string. A placeholder may carry the mark of an archive.
    """
    if "[Cleared at request " not in result.text:
        return None
    match = PLACEHOLDER.fullmatch(split_mark(result.text)[0].strip().strip('"'))
    called = (_what(result, ""), _what(result, target(result.call)))
    known = {frame_text(result, each).strip('"') for each in called}
    return match if match and match[2].removesuffix(FAILED) in known else None


def without_names(result: ToolResult, known: re.Match[str]) -> str:
    """Shorten the placeholder of a result that was cleared before to the tool and the size. The id is kept."""
    how = FAILED if known[2].endswith(FAILED) else ""
    text = f"[Cleared at request {known[1]}: {_tool_name(result)}{how}, {known[3]} tokens]"
    id = split_mark(result.text)[1]
    return f"{text}{GAP}{HEAD}{id}]" if id else text


def fitting_names(names: Iterable[str], tokens: int) -> Iterator[str]:
    """Yield as many names as fit into the placeholder of a result with `tokens` tokens."""
    room = _room(tokens)
    for name in names:
        room -= len(name) + 2
        if room < 0:
            return
        yield name


def _room(tokens: int) -> float:
    """Return how many characters a placeholder may have for what was in a result with `tokens` tokens."""
    return CHARACTERS_PER_TOKEN * min(max(NAMES_SHARE * tokens, LEAST_NAMES), MOST_NAMES)


def _tool_name(result: ToolResult) -> str:
    """Return the name of a result's tool, on one line."""
    return " ".join(result.tool.split())[:LONGEST_TARGET]

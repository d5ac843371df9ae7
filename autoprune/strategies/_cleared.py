"""What stands in place of a result that `cache_aware` has cleared, and how that is read again. Decides nothing.

    [Cleared at request 12: read src/app.py, 2,310 tokens. Names in it: load_settings, AppError]

It names the tool, its target, the size and some names, and the request at which it was written.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from autoprune.conversation.placeholders import GAP, HEAD, parted
from autoprune.conversation.transcript import ToolResult
from autoprune.planning.view import Candidate

NAMES_SHARE, LEAST_NAMES, MOST_NAMES = 0.03, 8, 150  # tokens for names in a placeholder
CHARACTERS_PER_TOKEN = 3.5  # of names
LONGEST_TARGET = 120  # characters
FAILED = ", failed"
MARK = re.compile(r"\[Cleared at request (\d{1,9}): ([^\n]*), ([\d,]+) tokens(?:\. Names in it: [^\n]*)?\]")

HasFailed: TypeAlias = Callable[[ToolResult], bool]


def placeholder(candidate: Candidate, request: int, fresh: Iterable[str], has_failed: HasFailed) -> str:
    """Return what stands in place of a result: the tool, its target, its size, and some of its `fresh` names."""
    target, tokens = candidate.target, candidate.result.tokens
    shown = target if len(target) <= LONGEST_TARGET else f"{target[: LONGEST_TARGET - 1]}…"
    what = f"{_tool(candidate.result)} {shown}".strip() + _how(candidate.result, has_failed)
    named = ", ".join(_some(fresh, tokens))
    return f"[Cleared at request {request}: {what}, {tokens:,} tokens{named and f'. Names in it: {named}'}]"


def short(result: ToolResult, request: int, has_failed: HasFailed) -> str:
    """Return the placeholder of a result where there is no room for names: the tool and the size alone."""
    return f"[Cleared at request {request}: {_tool(result)}{_how(result, has_failed)}, {result.tokens:,} tokens]"


def mark(result: ToolResult) -> re.Match[str] | None:
    """Return the request and the size that a placeholder of this module states; None for any other text.

    Text that names another tool is none of ours, but the output of a tool that shows such text. In place of a payload
    that is JSON in a text the placeholder is a JSON string. It may carry the mark of an archive.
    """
    found = MARK.fullmatch(parted(result.text)[0].strip().strip('"'))
    return found if found and found[2].startswith(_tool(result)) else None


def shortened(result: ToolResult, known: re.Match[str]) -> str:
    """Return the placeholder of a result that was cleared before without what it names; it keeps its id."""
    how = FAILED if known[2].endswith(FAILED) else ""
    text = f"[Cleared at request {known[1]}: {_tool(result)}{how}, {known[3]} tokens]"
    id = parted(result.text)[1]
    return f"{text}{GAP}{HEAD}{id}]" if id else text


def _some(names: Iterable[str], tokens: int) -> Iterator[str]:
    """Yield the first of some names, as many as the placeholder of a result of so many tokens has room for."""
    room = CHARACTERS_PER_TOKEN * min(max(NAMES_SHARE * tokens, LEAST_NAMES), MOST_NAMES)
    for name in names:
        room -= len(name) + 2
        if room < 0:
            return
        yield name


def _tool(result: ToolResult) -> str:
    """Return the name of a result's tool on one line."""
    return " ".join(result.tool.split())[:LONGEST_TARGET]


def _how(result: ToolResult, has_failed: HasFailed) -> str:
    return FAILED if has_failed(result) else ""

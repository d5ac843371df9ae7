"""Shorten the arguments of successful calls, such as the body of a written file or a patch."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from autoprune.conversation.edits import append_mark, split_mark
from autoprune.conversation.transcript import ToolInput, ToolResult
from autoprune.errors import check_number
from autoprune.facts.outcomes import has_failed, matches_tool
from autoprune.planning.protections import check_texts, make_tuples
from autoprune.tokens import Count

MARKER = "[{:,} tokens cleared to save space; the call succeeded]"
MARKED = re.compile(r"\[[\d,]+ tokens cleared to save space; the call succeeded\]")
STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"(\s*:)?')  # in JSON; with a colon it is a name


@dataclass(frozen=True)
class ToolInputs:
    """Shorten string arguments above `above` tokens of tools whose names match one of `tools` (names or globs).

    A call is only shortened if its result shows that it succeeded. JSON arguments keep their keys and types; only their
    long strings change.
    """

    in_text: ClassVar[str] = "{'above': 200}"

    tools: Sequence[str] = ("*",)
    above: int = 200

    def __post_init__(self) -> None:
        """Make the names immutable and comparable; `check` refuses anything else."""
        make_tuples(self, "tools")

    def check(self) -> None:
        """Raise SettingsError for a parameter that cannot be used."""
        check_number("above", self.above, 0, "a number of tokens")
        check_texts("tools", self.tools, "names or globs")

    def of(self, result: ToolResult) -> tuple[ToolInput, ...]:
        """Return the arguments that may be shortened of the call that a result answers."""
        if result.call is None or not matches_tool(result.tool, tuple(self.tools)):
            return ()
        # `has_failed` returns None if the outcome is unknown; such calls stay unchanged.
        is_known_good = bool(result.call.inputs) and has_failed(result.text, result.is_error, result.call) is False
        return result.call.inputs if is_known_good else ()

    def text(self, part: ToolInput, count: Count, mark: str = "") -> str:
        """Return the text that replaces an argument; unchanged if nothing in it is long.

        Each marker in the text carries `mark`, the recall id of the whole argument.
        """
        if _holds_json(part):
            return STRING.sub(lambda match: self._member(match, count, mark), part.text)
        # Text that begins like JSON but cannot be parsed was truncated. It stays unchanged.
        return part.text if part.is_json else self._shorten(part.text, count, mark)

    def was_made(self, part: ToolInput) -> bool:
        """Return whether an argument was shortened before: it is a marker, or has one as a whole string."""
        if "tokens cleared to save space" not in part.text:
            return False
        if not _holds_json(part):
            return _is_marker(part.text.strip())
        strings = (found[0] for found in STRING.finditer(part.text) if not found[1])
        return any(_is_marker(json.loads(each)) for each in strings)

    def _member(self, found: re.Match[str], count: Count, mark: str) -> str:
        """Shorten one string in JSON text, with its quotation marks. Keys stay unchanged."""
        if found[1]:
            return found[0]
        value = json.loads(found[0])
        shortened = self._shorten(value, count, mark)
        return found[0] if shortened is value else json.dumps(shortened)

    def _shorten(self, text: str, count: Count, mark: str) -> str:
        """Return the marker that replaces a long text; return any other text unchanged."""
        # A character has at most four bytes and a token at least one, so short texts need no count.
        if len(text) * 4 <= self.above or _is_marker(text):
            return text
        tokens = count(text)
        marker = append_mark(MARKER.format(tokens), mark)
        return marker if self.above < tokens > count(marker) else text


def _is_marker(text: str) -> bool:
    return MARKED.fullmatch(split_mark(text)[0]) is not None


def _holds_json(part: ToolInput) -> bool:
    """Return whether an argument is JSON text: an object, or any JSON value of a native call."""
    if not part.is_json and part.location.start is not None:
        return False
    try:
        json.loads(part.text)
    except (ValueError, RecursionError):
        return False
    return True

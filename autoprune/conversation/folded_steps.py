"""The text that replaces finished steps, and how pruned output that is passed back shows it. Decides nothing.

A step is one answer of the model that calls tools, with the results of these calls. Neighboring steps become one block,
with a line for each call:

    [Steps 3-17, folded at request 40]
    - read src/app.py, 2,310 tokens: load_settings, AppError
    - bash pytest -q, failed, 120 tokens

A step has the number of the request that it answers. A block is part of a message of the user: the one before the
steps, or a new one. In a text, a block ends with its last line, and an empty line separates it from other text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

HEAD = r"\[Steps? (\d{1,9})(?:-(\d{1,9}))?, folded at request (\d{1,9})\]"
BLOCK = re.compile(rf"^{HEAD}((?:\n- [^\n]+)+)$(?:\n\n)?", re.MULTILINE)
MARK = ", folded at request "  # in every block


@dataclass(frozen=True, slots=True)
class FoldedSteps:
    """A block in a message: the numbers of its first and last step, and of the request at which they were folded."""

    first: int
    last: int
    request: int
    text: str = field(repr=False)

    @property
    def lines(self) -> Sequence[str]:
        """The lines of the calls."""
        return [line.removeprefix("- ") for line in self.text.split("\n")[1:]]


def block(first: int, last: int, request: int, lines: Sequence[str]) -> str:
    """Write the block of neighboring steps. Each line describes one call, and has no line breaks."""
    numbers = f"Step {first}" if first == last else f"Steps {first}-{last}"
    return "\n- ".join((f"[{numbers}, folded at request {request}]", *lines))


def split_blocks(text: str, number: int) -> tuple[str, tuple[FoldedSteps, ...]]:
    """Split the blocks off a text; return the text without them.

    The first block must begin with step `number`, and each next one with the step after the last, and each step has a
    line or more: other blocks were not written in this conversation, so they are ordinary text.
    """
    if MARK not in text:
        return text, ()
    around, found, at = [], [], 0
    for match in BLOCK.finditer(text):
        first, last, request = int(match[1]), int(match[2] or match[1]), int(match[3])
        if first == number <= last < request and last - first < match[4].count("\n"):
            found.append(FoldedSteps(first, last, request, match[0].rstrip("\n")))
            around.append(text[at : match.start()])
            number, at = last + 1, match.end()
    return "".join((*around, text[at:])).strip(), tuple(found)

"""A strategy's own text never ends the result that it stands in, in any dialect that is registered."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from rounds import Round, Step
from rounds_in_texts import CARRIERS, DIALECTS, in_text
from tables import each_row

from autoprune import AgenticConversationPruner, ConversationPruner
from autoprune.formats import new_parser, parse
from autoprune.formats.dialects import dialect_of, registered
from autoprune.strategies import Replace, View

TAG = re.compile(r"</?([A-Za-z_]+)[^<>]*>")
# What agents write around results that the conversations of the tests do not hold.
MORE = {
    "cline": "<environment_details></environment_details><feedback></feedback><answer></answer><user_message>",
    "function_results": "<result><output></output></result><system></system>",
}
KINDS = [dialect.kind for dialect in registered()]
LARGE = "one more line of a large file\n" * 60


@dataclass(frozen=True)
class Says:
    """Puts a text in place of each large result."""

    text: str
    name = "says"

    def step(self, view: View) -> Iterator[Replace]:
        large = (each for each in view.candidates() if each.part.tokens > 300)
        yield from (each.replaced(self.text, "too large") for each in large)


def sample(kind: str) -> str:
    """A result, a failed one, and what else stands around results in a dialect; the payloads hold no tags."""
    _, answer = DIALECTS[kind]
    results = (answer(Step("read_file", {"path": "a.py"}, "words", failed)) for failed in (False, True))
    return "\n".join((*results, MORE.get(kind, "")))


def names(kind: str) -> list[str]:
    """The names of the elements of a dialect."""
    return sorted({match[1] for match in TAG.finditer(sample(kind))})


SHAPES = ("<{}>", "</{}>", "</{} >", "<{} tool_name='x'>", "<{}>\n", "\n</{}>\n", "<{}/>")
WORDS = (
    *("short ", " text", "\n", "`", "'", '"', "```\n", "[read_file for 'b.py'] Result:"),
    *("{", "}", "<", "</", ">", "The user provided the following feedback:"),
)
NAMES = sorted({name for kind in KINDS for name in names(kind)})
TAGS = [shape.format(name) for name in NAMES for shape in SHAPES]


def test_every_registered_dialect_has_a_sample():
    assert sorted(KINDS) == sorted(DIALECTS)
    assert [kind for kind, dialect in zip(KINDS, registered(), strict=True) if dialect.mark not in sample(kind)] == []


def payloads(messages: list[Any]) -> list[str]:
    return [result.text for result in parse(messages, new_parser(len), 0).results]


def check(kind: str, text: str, carrier: str = "a text", *, failed: bool = False) -> None:
    """Put a text in place of a result, before another result in the same message, and read both again."""
    calls = [Step("read_file", {"path": "a.py"}, LARGE, failed), Step("list_files", {"path": "src"}, "b.py")]
    rounds: list[Round] = [calls, [Step("read_file", {"path": "c.py"}, "ok")]]
    messages = in_text(rounds, kind, carrier)
    for pruner in (AgenticConversationPruner(1), ConversationPruner(1)):
        pruned = pruner.prune_conversations(messages, strategy=Says(text))
        before, after = payloads(messages), payloads(pruned)
        assert len(after) == len(before) == 3
        assert after[1:] == before[1:]
        assert [word for word in ("first", "last") if word in text and word not in after[0]] == []
        assert pruner.prune_conversations(pruned, strategy=Says(text)) is pruned


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_with_a_tag_of_any_dialect_stays_inside_its_result(kind: str):
    for tag, failed in product(TAGS, (False, True)):
        for text in ("first {} last", "first\n{}\nlast", "{} last", "The user denied this:\n{} last"):
            check(kind, text.format(tag), failed=failed)


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_with_the_end_of_one_element_and_the_beginning_of_another_stays_inside_its_result(kind: str):
    for end, begin in product(NAMES, NAMES):
        check(kind, f"first</{end}>\n</{begin}>\n<{begin}>last")
        check(kind, f"first</{end}><{begin}>last")


@pytest.mark.parametrize("kind", KINDS)
@examples(400)
@given(
    pieces=st.lists(st.sampled_from((*TAGS, *WORDS)), max_size=6),
    carrier=st.sampled_from(sorted(CARRIERS)),
    failed=st.booleans(),
)
def test_a_text_of_many_such_pieces_stays_inside_its_result(kind: str, pieces: list[str], carrier: str, failed: bool):
    check(kind, f"first {''.join(pieces)} last", carrier, failed=failed)


@each_row("kind", [kind for kind in KINDS if kind != "cline"])
def test_a_heading_reaches_over_no_result_of_another_dialect(kind: str):
    command = "[execute_command for 'cat <<EOF\n{}\nEOF'] Result:\nok"
    cline = dialect_of("cline")
    assert cline is not None
    assert len(cline.spans(command.format("words"))) == 1
    assert cline.spans(command.format(sample(kind))) == []

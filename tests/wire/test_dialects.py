"""What holds for every registered dialect: a strategy's text never ends the result that it is put into, and so on.

The conversations are built from each dialect's own example, and for the shipped ones also from whole rounds of calls.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples, sample_cases
from rounds import Round, Step
from rounds_in_texts import DIALECTS, in_text
from tables import each_row

from autoprune import AgenticConversationPruner, ConversationPruner
from autoprune.errors import SettingsError
from autoprune.strategies import Replace, View
from autoprune.wire import new_parser, parse
from autoprune.wire.dialects import REGISTERED, Dialect, Example, element_dialect, register, unregister

TAG = re.compile(r"</?([A-Za-z_]+)[^<>]*>")
# What agents write around results that the conversations of the tests do not hold.
MORE = {
    "cline": "<environment_details></environment_details><feedback></feedback><answer></answer><user_message>",
}
KINDS = [kind for kind in REGISTERED if kind in DIALECTS]  # those with whole rounds of calls
# A dialect that nothing in the package knows.
MADE_UP = element_dialect(
    "made_up_output",
    answers="action",
    example=Example(call="<action>ls src</action>", result="<made_up_output>\n@\n</made_up_output>"),
)
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
    """A result, a failed result and the other tags of a dialect; the payloads hold no tags."""
    _, answer = DIALECTS[kind]
    results = (answer(Step("read_file", {"path": "a.py"}, "words", failed)) for failed in (False, True))
    return "\n".join((*results, MORE.get(kind, "")))


def names(kind: str) -> list[str]:
    """The names of the elements of a dialect."""
    return sorted({match[1] for match in TAG.finditer(sample(kind))})


SHAPES = ("<{}>", "</{}>", "</{} >", "<{} tool_name='x'>", "<{}>\n", "\n</{}>\n", "<{}/>")
NAMES = sorted({name for kind in KINDS for name in names(kind)})
TAGS = [shape.format(name) for name in NAMES for shape in SHAPES]


def test_every_dialect_with_rounds_of_calls_is_registered():
    assert sorted(KINDS) == sorted(DIALECTS)
    assert [kind for kind in KINDS if REGISTERED[kind].mark not in sample(kind)] == []


@pytest.fixture(params=[*REGISTERED.values(), MADE_UP], ids=lambda dialect: dialect.kind)
def dialect(request: pytest.FixtureRequest) -> Iterator[Dialect]:
    """Each registered dialect, and one that is registered for the test."""
    if request.param is MADE_UP:
        register(MADE_UP)
    yield request.param
    unregister(MADE_UP.kind)


def conversation(dialect: Dialect, *payloads: str, wrap: str = "{}") -> list[Any]:
    """A conversation of a dialect's own example, with a call for each payload and all results in one text."""
    results = "\n".join(dialect.example.result.replace("@", payload) for payload in payloads)
    return [
        {"role": "user", "content": "Find the error."},
        {"role": "assistant", "content": "\n".join(["I look.", *[dialect.example.call] * len(payloads)])},
        {"role": "user", "content": wrap.format(results)},
        {"role": "assistant", "content": "I have read it."},
        {"role": "user", "content": "Go on."},
    ]


def test_the_results_of_an_example_are_read(dialect: Dialect):
    found = parse(conversation(dialect, "one", "two"), new_parser(len), 0).results
    wanted = [(dialect.kind, "one"), (dialect.kind, "two")]
    assert [(result.kind, result.text.strip("\n")) for result in found] == wanted


def test_results_in_a_fenced_block_are_the_users_text(dialect: Dialect):
    assert payloads(conversation(dialect, "one", wrap="Why?\n```\n{}\n```")) == []


def test_a_summarizer_reads_neither_results_nor_the_tags_around_them(dialect: Dialect):
    messages = conversation(dialect, "one", "two", wrap="Before.\n{}")
    entry = parse(messages, new_parser(len), 0).entries[2]
    words = "\n".join(entry.texts)
    assert words.startswith("Before.")
    assert [word for word in ("one", "two", dialect.mark) if word in words] == []


def test_no_tag_or_heading_of_any_dialect_ends_the_result_of_an_example(dialect: Dialect):
    own = (shape.format(name) for name in sorted(dialect.tags) for shape in SHAPES)
    headings = (heading for each in REGISTERED.values() for heading in each.headings)
    for hostile in (*own, *headings, *(each.example.result for each in REGISTERED.values())):
        check_example(dialect, f"first\n{hostile} last")


WORDS = (
    *("short ", " text", "\n", "`", "'", '"', "```\n", "[read_file for 'b.py'] Result:"),
    *("{", "}", "<", "</", ">", "The user provided the following feedback:"),
)


@examples(100)
@given(data=st.data())
def test_no_text_of_hostile_pieces_ends_the_result_of_an_example(data: st.DataObject):
    register(MADE_UP)
    try:
        dialect = data.draw(st.sampled_from([*REGISTERED.values()]))
        own = [shape.format(name) for name in sorted(dialect.tags) for shape in SHAPES]
        pieces = data.draw(st.lists(st.sampled_from((*own, *TAGS, *WORDS, *dialect.headings)), max_size=6))
        check_example(dialect, f"first {''.join(pieces)} last")
    finally:
        unregister(MADE_UP.kind)


def check_example(dialect: Dialect, text: str) -> None:
    """Put a text in place of the first of two results, and read both again."""
    messages = conversation(dialect, LARGE, "two")
    pruner = AgenticConversationPruner(1)
    pruned = pruner.prune_conversations(messages, strategy=Says(text))
    before, after = payloads(messages), payloads(pruned)
    assert len(before) == len(after) == 2
    assert after[1] == before[1]
    assert "first" in after[0]
    assert "last" in after[0]
    assert pruner.prune_conversations(pruned, strategy=Says(text)) is pruned


def test_a_callers_placeholder_does_not_end_the_result_of_an_example(dialect: Dialect):
    messages = conversation(dialect, LARGE, "two")
    pruner = AgenticConversationPruner(1)
    pruner.replacement_message = f"first {dialect.example.result} last"
    pruned = pruner.prune_conversations(messages)
    assert [("first" in text, "last" in text) for text in payloads(pruned)] == [(True, True), (False, False)]
    assert pruner.prune_conversations(pruned) is pruned


def test_a_dialect_that_is_not_registered_is_text():
    assert payloads(conversation(MADE_UP, "one")) == []


@each_row(
    "incomplete, why",
    [
        (replace(MADE_UP, kind="xml"), "there is a dialect 'xml' already"),
        (replace(MADE_UP, mark="<result>"), "must hold its mark '<result>'"),
        (replace(MADE_UP, example=Example("", "<made_up_output>none</made_up_output>")), "and '@' as payload"),
        (replace(MADE_UP, example=Example("", "a <made_up_output>@")), "finds no result in its own example"),
        (replace(MADE_UP, tags=frozenset()), r"must have \['made_up_output'\] in its tags"),
    ],
)
def test_a_dialect_that_is_not_complete_is_refused(incomplete: Dialect, why: str):
    with pytest.raises(SettingsError, match=why):
        register(incomplete)
    assert incomplete not in REGISTERED.values()


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


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_a_text_with_a_tag_of_any_dialect_stays_inside_its_result(kind: str):
    texts = ("first {} last", "first\n{}\nlast", "{} last", "The user denied this:\n{} last")
    for tag, failed, text in sample_cases(product(TAGS, (False, True), texts)):
        check(kind, text.format(tag), failed=failed)

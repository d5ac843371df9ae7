"""The same conversation has the same tokens and the same cleared results in every format."""

from typing import Any

import pytest
from every_format import (
    CHECKED,
    FORMATS,
    OF_RESULTS,
    Case,
    conversations,
    count,
    edges,
    every_format,
    facts,
    fields,
    shape,
    strategies,
)
from hypothesis import given
from hypothesis import strategies as st
from rounds import WIRE, Round, in_snake_case
from rounds_hypothesis import rounds
from rounds_in_texts import CARRIERS, DIALECTS, in_text
from tables import each_row

from autoprune import AgenticConversationPruner, PruneArgs, Result
from autoprune.conversation.transcript import Part
from autoprune.planning.view import Strategy
from autoprune.pruners.memory import token_bound
from autoprune.tokens import MESSAGE_TOKENS, exact
from autoprune.wire._detection import SHIPPED, new_parser, recognize

TOLD = ("turn", "request", "tool", "tokens", "tokens_after", "cleared", "reason", "target")


def told(result: Result) -> list[list[object]]:
    """The report's rows without the indexes of messages."""
    return [[row[name] for name in TOLD if name in row] for row in (*result.report.rows, *result.report.input_rows)]


def safe_zones(messages: list[Any], strategy: Strategy) -> list[int]:
    """Every safe zone at which something may change."""
    left = [*edges(messages, strategy), 2, 10**9]
    return sorted({max(1, tokens + more) for tokens in left for more in (-1, 0, 1)})


def parts(result: Result) -> list[Part]:
    """The parts that could be edited, in an order that is the same for every format."""
    entries = result.plan.transcript.entries
    return [
        part for entry in entries for part in (*(one for call in entry.calls for one in call.inputs), *entry.results)
    ]


def assert_alike(written: list[list[Any]], strategy: Strategy) -> None:
    """Conversations that say the same count the same, and the same is done to them."""
    assert [count(messages) for messages in written] == [count(written[0])] * len(written)
    for safe_zone in safe_zones(written[0], strategy):
        pruner = AgenticConversationPruner(PruneArgs(safe_zone))
        first, *others = (pruner.prune(messages, strategy) for messages in written)
        for other in others:
            assert told(other) == told(first)
            assert other.report.tokens_after == first.report.tokens_after
            assert dict(other.report.floor) == dict(first.report.floor)
            assert places(other, first) == (other.report.first_changed_message, other.report.stable_boundary)


def places(result: Result, finest: Result) -> tuple[int | None, int]:
    """Where a result has its first change and its boundary, after another one in which each part is a message."""
    place = {old.location.message: new.location.message for old, new in zip(parts(finest), parts(result), strict=True)}
    first, boundary = finest.report.first_changed_message, finest.report.stable_boundary
    assert boundary is not None  # the first message is the user's
    end = len(result.conversation)
    return None if first is None else place[first], place.get(boundary + 1, end) - 1


@CHECKED
@given(made=rounds(), strategy=strategies(OF_RESULTS))
def test_the_same_conversation_is_pruned_alike_in_every_wire_format(made: list[Round], strategy: Strategy):
    finest = WIRE["openai_responses"](made)
    assert_alike([finest, *(write(made) for write in (*WIRE.values(), in_snake_case))], strategy)


@pytest.mark.parametrize("dialect", DIALECTS)
@CHECKED
@given(made=rounds(), strategy=strategies(OF_RESULTS))
def test_a_dialect_is_read_alike_in_the_messages_of_every_format(dialect: str, made: list[Round], strategy: Strategy):
    assert_alike([in_text(made, dialect, carrier) for carrier in CARRIERS], strategy)


# Which format a message is written in


def is_words(message: dict[str, Any]) -> bool:
    """Whether a message holds nothing but a role and texts, as several formats write it."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return isinstance(content, str) or (bool(blocks) and all(fields(block).get("type") == "text" for block in blocks))


@each_row("format", FORMATS)
@CHECKED
@given(data=st.data())
def test_every_message_is_read_as_its_format_or_as_words(format: str, data: st.DataObject):
    messages = data.draw(conversations(format))
    for at, message in enumerate(messages):
        name = recognize(message, at, SHIPPED)[1].NAME
        assert name == format or is_words(fields(message)) or format in DIALECTS


@every_format
def test_naming_the_format_changes_nothing(case: Case):
    (name,) = formats(case.messages) or {"openai_chat"}
    named = AgenticConversationPruner(PruneArgs(case.safe_zone, format=name)).prune(case.messages, case.strategy)
    assert facts(named) == facts(case.pruned())
    assert shape(named.conversation) == shape(case.pruned().conversation)


def formats(messages: list[Any]) -> set[str]:
    """The formats whose marks a conversation bears."""
    return {known.NAME for message in messages for known in SHIPPED if known.seen(fields(message))}


# What a message's tokens are, and what bounds them


@every_format
def test_the_bytes_of_a_message_bound_its_tokens_and_a_text_counts_as_a_whole(case: Case):
    """Although it is counted in pieces, one for each result in it."""
    count, parser = exact(), new_parser(exact())
    for messages in (case.messages, case.pruned().conversation):
        for at, message in enumerate(messages):
            tokens, known = parser.read(message, at).tokens, fields(message)
            assert tokens <= token_bound(message)
            if known.get("role") == "user" and isinstance(known.get("content"), str) and "name" not in known:
                assert tokens == MESSAGE_TOKENS + count(known["content"])

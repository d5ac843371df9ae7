"""Where a conversation may be cut, in every format, so that nothing is parted that belongs together."""

from dataclasses import replace

import pytest
from halves import halves
from written_short import entries, every_format, every_native_format, messages, parsed

from autoprune.planning._groups import boundaries
from autoprune.wire import new_parser

# Pairs


@every_format
@pytest.mark.parametrize(
    ("short", "found"),
    [
        ("U A", []),
        ("U A[c1] R[c1] A", [(1, 2)]),  # 1
        ("U A[c1] R[c1] A U A[c2] R[c2] A", [(1, 2), (5, 6)]),  # 1
        ("U R[x] A", [(None, 1)]),  # 2
        ("U A[c1] A", [(1, None)]),  # 2
        ("R[c1] A[c1]", [(None, 0), (1, None)]),  # 3
        ("A[c1] R[c1] A[c1] R[c1]", [(0, 1), (2, 3)]),  # 6
        ("U A[c1] A[c2] R[c1] R[c2]", [(1, 3), (2, 4)]),
        ("U A[c1] A[c2] R[c2] R[c1]", [(1, 4), (2, 3)]),
        ("U A[c1] R[c1] R[c1]", [(1, 2), (None, 3)]),
    ],
)
def test_a_call_and_its_result_are_a_pair(short: str, found: list[tuple[int | None, int | None]], written_in: str):
    assert halves(entries(short, written_in)) == found


def test_a_result_belongs_to_its_call_when_the_messages_were_read_again():
    given = messages("U A[c1] R[c1] A", "anthropic")
    parser = new_parser(len)
    found = [parser.read(message, at) for at, message in enumerate(given)]
    again = parser.read_again(given[1], 1, found[1])
    assert again is not None
    found[1] = replace(again, calls=tuple(replace(call) for call in again.calls))
    assert found[2].results[0].call is not found[1].calls[0]
    assert halves(found) == [(1, 2)]


def test_the_indexes_of_a_part_of_a_conversation_are_those_of_the_part():
    found = entries("U A[c1] R[c1] A U A[c2] R[c2] A", "openai_chat")
    assert halves(found[4:]) == [(1, 2)]
    assert halves(found[2:]) == [(None, 0), (3, 4)]
    assert boundaries(found[2:]) == [0, 1, 2, 3, 5, 6]


def test_two_calls_in_one_text_have_a_result_each():
    calls = "<run>\n<command>ls</command>\n</run>"
    results = messages("R[run]", "xml")[0]["content"]
    given = [
        {"role": "assistant", "content": f"{calls}\n{calls}"},
        {"role": "user", "content": f"{results}\n{results}"},
    ]
    assert halves(parsed(given)) == [(0, 1), (0, 1)]
    assert halves(parsed([given[0], {"role": "user", "content": results}])) == [(0, 1), (0, None)]


# Cuts


@every_format
@pytest.mark.parametrize(
    ("short", "safe"),
    [
        ("U A", [0, 1, 2]),
        ("U A[c1] R[c1] A", [0, 1, 3, 4]),  # 7
        ("U A[c1] R[c1] A[c2] R[c2] A", [0, 1, 3, 5, 6]),  # 7
        ("U R[x] A", [0, 2, 3]),  # 8
        ("U A[c1] A", [0, 1, 3]),  # 8
        ("U A[c1]", [0, 1, 2]),  # 8
        ("R[c1] A[c1]", [0, 1, 2]),  # 3
        ("A[c1] R[c1] A[c1] R[c1]", [0, 2, 4]),  # 6
        ("U A[c1] A[c2] R[c1] R[c2] A", [0, 1, 5, 6]),
        ("U A A[c1] R[c1] A A U", [0, 1, 4, 6, 7]),
        ("U A[c1] U A U", [0, 1, 2, 3, 4, 5]),  # 12: c1 is abandoned
        ("U A[c1] A[c2] R[c1] U A", [0, 1, 4, 5, 6]),  # 12: c2 is
        ("S U A U", [0, 1, 2, 3, 4]),
    ],
)
def test_a_cut_never_separates_a_group(short: str, safe: list[int], written_in: str):
    assert boundaries(entries(short, written_in)) == safe


@every_native_format
@pytest.mark.parametrize(
    ("short", "safe"),
    [
        ("U A[c1] S R[c1] A", [0, 1, 4, 5]),
        ("U A[c1] U R[c1] A", [0, 1, 4, 5]),
    ],
)
def test_messages_between_a_call_and_its_result_stay_with_them(short: str, safe: list[int], written_in: str):
    assert boundaries(entries(short, written_in)) == safe


def test_reasoning_stays_with_the_items_that_came_of_it():
    items = messages("U A[c1] A[c2] R[c1] R[c2] A U A", "openai_responses")
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    given = [items[0], reasoning, *items[1:5], {**reasoning, "id": "rs_2"}, *items[5:]]
    assert boundaries(parsed(given)) == [0, 1, 6, 8, 9, 10]


def test_a_call_that_its_provider_has_answered_in_one_item_is_whole():
    item = {"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "f", "arguments": "{}", "output": "1"}
    given = parsed([item, {"role": "assistant", "content": "So."}, {"role": "user", "content": "On."}])
    assert halves(given) == [(0, 0)]
    assert boundaries(given) == [0, 2, 3]

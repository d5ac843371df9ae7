"""Where a conversation may be cut: what the specification's numbered examples say, in every format."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tables import each_row
from written_short import NATIVE, entries, every_format, every_native_format, messages, parsed

from autoprune.conversation.transcript import Entry
from autoprune.formats import new_parser
from autoprune.planning.splitting import Split, broken, cuts, keep_last, pairs, split, turn_starts, units


def halves(found: Sequence[Entry]) -> list[tuple[int | None, int | None]]:
    """The messages of each pair."""
    return [(pair.call, pair.result) for pair in pairs(found)]


def tokens(found: Sequence[Entry]) -> int:
    return sum(entry.tokens for entry in found)


# Pairs


@every_format
@each_row(
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


def test_a_message_without_readable_content_is_no_half():  # 3
    given = messages("U A[c1] U R[c1] A", "openai_chat")
    given[2]["content"] = None
    assert halves(parsed(given)) == [(1, 3)]


def test_a_call_that_is_answered_by_an_error_is_answered():  # 5
    given = messages("U A[c1] R[c1] U A", "openai_chat")
    given[2]["content"] = "1 validation error: try again"
    given[3]["content"] = "Fix the errors and try again."
    assert halves(parsed(given)) == [(1, 2)]
    assert broken(parsed(given)) == []


def test_a_result_belongs_to_its_call_when_the_messages_were_read_again():
    given = messages("U A[c1] R[c1] A", "anthropic")
    parser = new_parser(len)
    found = [parser.read(message, at) for at, message in enumerate(given)]
    again = parser.read_again(given[1], 1, found[1], in_run=False)
    assert again is not None
    found[1] = replace(again, calls=tuple(replace(call) for call in again.calls))
    assert found[2].results[0].call is not found[1].calls[0]
    assert halves(found) == [(1, 2)]


def test_the_indexes_of_a_part_of_a_conversation_are_those_of_the_part():
    found = entries("U A[c1] R[c1] A U A[c2] R[c2] A", "openai_chat")
    assert halves(found[4:]) == [(1, 2)]
    assert halves(found[2:]) == [(None, 0), (3, 4)]
    assert cuts(found[2:]) == [0, 1, 2, 3, 5, 6]


@every_format
def test_a_conversation_of_whole_pairs_is_not_broken(written_in: str):  # 4
    assert broken(entries("U A[c1] R[c1] A U A[c2] R[c2] A", written_in)) == []


@every_native_format
@each_row(
    ("short", "problem"),
    [
        ("U A[c1] R[c1] A[c2] A", "the call 'c2' in message 3 has no result"),
        ("U R[x] A[c1] R[c1] A", "the result of {x} in message 1 has no call"),
    ],
)
def test_what_is_broken_says_which_half_is_missing(short: str, problem: str, written_in: str):  # 4
    tool = "x" if written_in == "gemini" else "unknown"
    assert broken(entries(short, written_in)) == [problem.format(x=tool)]


def test_a_result_whose_call_was_cut_is_named_by_the_calls_id():  # 4
    assert broken(entries("U A[c1] R[c1] A", "bedrock")[2:]) == ["the result 'c1' in message 0 has no call"]


def test_calls_and_results_in_texts_are_named_by_the_tool():  # 4
    assert broken(entries("U A[run] A R[look]", "xml")) == [
        "the call of run in message 1 has no result",
        "the result of look in message 3 has no call",
    ]


def test_results_of_a_batch_in_one_message_stay_with_their_calls():
    calls = [{"type": "tool_use", "id": name, "name": "run", "input": {}} for name in ("c1", "c2")]
    results = [{"type": "tool_result", "tool_use_id": name, "content": "Done."} for name in ("c2", "c1")]
    given = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": calls}]
    found = parsed([*given, {"role": "user", "content": results}])
    assert halves(found) == [(1, 2), (1, 2)]
    assert cuts(found) == [0, 1, 3]


def test_two_calls_in_one_text_have_a_result_each():
    calls = "<run>\n<command>ls</command>\n</run>"
    results = messages("R[run]", "xml")[0]["content"]
    given = [
        {"role": "assistant", "content": f"{calls}\n{calls}"},
        {"role": "user", "content": f"{results}\n{results}"},
    ]
    assert halves(parsed(given)) == [(0, 1), (0, 1)]
    assert broken(parsed([given[0], {"role": "user", "content": results}])) == [
        "the call of run in message 0 has no result"
    ]


# Cuts


@every_format
@each_row(
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
def test_a_cut_parts_nothing_that_belongs_together(short: str, safe: list[int], written_in: str):
    assert cuts(entries(short, written_in)) == safe


@every_native_format
@each_row(
    ("short", "safe"),
    [
        ("U A[c1] S R[c1] A", [0, 1, 4, 5]),
        ("U A[c1] U R[c1] A", [0, 1, 4, 5]),
    ],
)
def test_what_stands_between_a_call_and_its_result_stays_with_them(short: str, safe: list[int], written_in: str):
    assert cuts(entries(short, written_in)) == safe


@pytest.mark.parametrize("written_in", [name for name in NATIVE if name != "gemini"])  # which has no ids here
def test_what_stands_between_a_call_and_a_late_result_stays_with_them(written_in: str):
    assert cuts(entries("U A[c1] U A[c2] R[c2] R[c1] U", written_in)) == [0, 1, 6, 7]


def test_there_are_two_cuts_of_one_message_and_one_of_none():
    assert cuts(entries("U", "gemini")) == [0, 1]
    assert cuts([]) == [0]
    assert units([]) == turn_starts([]) == []


def test_reasoning_stays_with_the_items_that_came_of_it():
    items = messages("U A[c1] A[c2] R[c1] R[c2] A U A", "openai_responses")
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    given = [items[0], reasoning, *items[1:5], {**reasoning, "id": "rs_2"}, *items[5:]]
    assert cuts(parsed(given)) == [0, 1, 6, 8, 9, 10]


def test_thinking_stays_with_the_call_that_came_of_it():
    thinking = {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}]}
    given = messages("U A[c1] R[c1] A", "anthropic")
    assert cuts(parsed([given[0], thinking, *given[1:]])) == [0, 1, 4, 5]


def test_a_call_that_its_provider_has_answered_in_one_item_is_whole():
    item = {"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "f", "arguments": "{}", "output": "1"}
    given = parsed([item, {"role": "assistant", "content": "So."}, {"role": "user", "content": "On."}])
    assert halves(given) == [(0, 0)]
    assert cuts(given) == [0, 2, 3]


@every_format
def test_units_are_what_stands_between_neighboring_cuts(written_in: str):
    found = units(entries("S U A[c1] A[c2] R[c1] R[c2] A U R[x] A", written_in))
    assert found == [range(1), range(1, 2), range(2, 6), range(6, 7), range(7, 9), range(9, 10)]


@every_format
def test_a_turn_starts_where_the_user_speaks(written_in: str):
    assert turn_starts(entries("S U A[c1] R[c1] A U U A", written_in)) == [1, 5, 6]
    assert turn_starts(entries("A U A", written_in)) == [1]


@every_native_format
def test_no_turn_starts_between_a_call_and_its_result(written_in: str):
    assert turn_starts(entries("U A[c1] U R[c1] A U", written_in)) == [0, 5]


# Split


@every_format
def test_the_start_of_a_turn_is_preferred_to_another_safe_place(written_in: str):  # 9
    assert split(entries("U A[c1] R[c1] A U", written_in), keep_messages=3) == Split(4)
    assert split(entries("U A[c1] R[c1] A U", written_in), keep_turns=1) == Split(4)


@every_format
def test_without_a_later_turn_the_first_safe_place_within_the_limits_is_taken(written_in: str):  # 9
    found = entries("U A[c1] R[c1] A[c2]", written_in)
    assert split(found, keep_messages=3) == Split(1)
    assert split(found, max_kept_tokens=tokens(found) - 1) == Split(1)
    assert split(found, keep_messages=2) == Split(3)


@every_format
@each_row(
    ("limits", "at"),
    [
        ({"keep_messages": 3}, 7),
        ({"keep_turns": 3}, 7),
        ({"keep_messages": 3, "max_kept_tokens": 10_000}, 7),
        ({"keep_messages": 3, "max_kept_tokens": 9}, 9),  # each message is of 3 + 6 tokens
        ({"keep_messages": 3, "max_kept_tokens": 18}, 8),
        ({"keep_messages": 10}, 0),
        ({"keep_messages": 11, "keep_turns": 10, "max_kept_tokens": 90}, 0),
    ],
)
def test_of_turns_of_one_message_as_many_are_kept_as_the_limits_allow(
    limits: dict[str, int], at: int, written_in: str
):  # 10
    assert split(entries(" ".join("U" * 10), written_in), **limits) == Split(at)


@every_format
@each_row("limits", [{}, {"keep_messages": 0, "keep_turns": 0, "max_kept_tokens": 0}])
def test_without_limits_nothing_is_cut(limits: dict[str, int], written_in: str):  # 13
    assert split(entries("U A[c1] R[c1] A U", written_in), **limits) == Split(0)
    assert split(entries("U R[x]", written_in), **limits) == Split(0)
    assert split([], **limits) == split([], keep_messages=1) == Split(0)


@every_format
def test_a_turn_that_is_kept_in_part_counts_as_one(written_in: str):
    found = entries("S U A[c1] R[c1] A U A[c2] R[c2] A", written_in)
    assert split(found, keep_turns=2) == Split(0)
    assert split(found, keep_turns=1) == Split(5)
    assert split(found, keep_turns=1, keep_messages=3) == Split(6)


OVER = "{:,} tokens are kept, over the limit of {:,}"


@every_format
def test_a_newest_message_over_the_limit_is_kept_and_said_to_be(written_in: str):  # 12
    found = entries("U A[c1] R[c1] A U", written_in)
    assert split(found, max_kept_tokens=1) == Split(4, is_within=False, why=OVER.format(found[4].tokens, 1))


@every_format
def test_a_pair_over_the_limit_is_kept_whole(written_in: str):  # 11
    found = entries("U A[c1] R[c1]", written_in)
    assert split(found, keep_messages=1, max_kept_tokens=tokens(found)) == Split(
        1, is_within=False, why="2 messages are kept, over the limit of 1"
    )


@every_format
@each_row(
    ("short", "at"),
    [
        ("U A[c1] U A U A U A U A", 8),  # within three messages the user's last request begins a turn
        ("U A[c1] U A A A A A A A", 3),  # the model said them at once: the nearest safe place
        ("A[c1] U A U A U A U U U", 7),
    ],
)
def test_an_abandoned_call_forces_nothing_to_be_kept_or_cut(short: str, at: int, written_in: str):  # 12
    assert split(entries(short, written_in), keep_messages=3).at == at


@every_native_format
def test_a_result_without_its_call_is_not_kept(written_in: str):  # 8, 11
    found = entries("U A U R[x] U A U A", written_in)
    assert cuts(found) == [0, 1, 2, 4, 5, 6, 7, 8]
    assert split(found, keep_messages=7) == Split(4)
    assert split(found, keep_messages=2) == Split(6)


def test_a_result_in_a_text_is_kept_without_its_call():
    found = entries("U A U R[x] U A U A", "xml")
    assert split(found, keep_messages=7) == Split(2)
    assert split(found, keep_messages=5) == Split(4)


@every_format
@each_row(
    ("short", "expected"),
    [
        ("U", Split(0, why="nothing can be cut: the newest message is always kept")),
        ("A[c1] R[c1]", Split(0, why="nothing can be cut: each place parts a call from its result")),
        ("A A A", Split(2, is_safe=False, why="message 2 is kept without what the model said at once before it")),
        ("U R[x]", Split(1, is_safe=False, why="a result without its call is kept in message 1")),
        (
            "A[c1] A",
            Split(
                1,
                is_safe=False,
                why="the call in message 0 is cut, and its result may still come; "
                "message 1 is kept without what the model said at once before it",
            ),
        ),
        ("A[c1] R[c1] A[c1]", Split(2)),
    ],
)
def test_where_no_place_is_safe_the_least_is_harmed(short: str, expected: Split, written_in: str):  # 11
    found = entries(short, written_in)
    newest = found[-1].tokens if expected.at else tokens(found)
    within = split(found, max_kept_tokens=newest)
    assert within == (expected if expected.at else Split(0))
    over = split(found, max_kept_tokens=newest - 1)
    said = OVER.format(newest, newest - 1)
    assert over == replace(expected, is_within=False, why="; ".join(filter(None, (expected.why, said))))


@every_native_format
@each_row(
    ("short", "keep", "at"),
    [
        ("U A[c1] R[c1] U R[x]", 3, 3),  # not 1, which is as near but over the limit
        ("A[c1] U R[x]", 1, 2),  # c1 is abandoned
    ],
)
def test_a_newest_result_is_kept_without_its_call(short: str, keep: int, at: int, written_in: str):  # 11
    found = entries(short, written_in)
    why = f"a result without its call is kept in message {len(found) - 1}"
    assert split(found, keep_messages=keep) == Split(at, is_safe=False, why=why)


@every_format
def test_less_harm_is_preferred_to_the_limits(written_in: str):  # 11
    assert split(entries("A A[c1] A", written_in), keep_messages=1) == Split(
        1,
        is_safe=False,
        is_within=False,
        why="message 1 is kept without what the model said at once before it; 2 messages are kept, over the limit of 1",
    )


# Keep last


@every_format
@each_row(
    ("short", "keep", "at"),
    [
        ("U A U", 10, 0),  # 23
        ("U A U A U", 2, 3),  # 23
        ("U A[c1] R[c1] A", 1, 3),
        ("U A[c1] R[c1] A", 2, 1),  # 24: back, for at least as many are to be kept
        ("U A[c1] R[c1] A", 3, 1),
        ("A[c1] R[c1] A", 2, 2),  # 24: on, for nothing would be cut
        ("A[c1] R[c1]", 1, 0),  # 26: neither
        ("U R[x] A", 2, 2),  # 24
        ("U A", 0, 2),  # 30
        ("U A", -1, 2),
        ("U A", 2, 0),
    ],
)
def test_the_last_messages_are_kept_from_a_safe_place_on(short: str, keep: int, at: int, written_in: str):
    assert keep_last(entries(short, written_in), keep) == at


def test_nothing_is_kept_of_nothing():
    assert keep_last([], 0) == keep_last([], 5) == 0

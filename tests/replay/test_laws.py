"""The promises are checked on what was sent: for each of them a pruner that breaks it is noticed, and no other is."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from episodes import Sends, episode, in_words, reading
from tables import each_row

from autoprune.apps.replay.choices import NoPruning
from autoprune.apps.replay.play import play

LONG = "word " * 60
CLEARED = "Content cleared."
Sent = list[Any]


def violations(makes: Callable[[Sent, int], Sent], *, fed_back: bool = False, requests: int = 4) -> list[str]:
    known = episode(copy.deepcopy(reading(*[LONG] * requests)))  # since one of the strategies changes it
    return list(play(known, lambda: Sends(makes), NoPruning(), count=in_words, fed_back=fed_back).violations)


def cleared(messages: Sent, *places: int, **fields: object) -> Sent:
    """The conversation with some results cleared, and other fields of these messages set."""
    return [{**each, "content": CLEARED, **fields} if at in places else each for at, each in enumerate(messages)]


def first_cleared(given: Sent, **fields: object) -> Sent:
    """The first result, once the model has seen it."""
    return cleared(given, 2, **fields) if len(given) > 3 and given[2]["content"] == LONG else given


def changes_what_it_is_given(given: Sent, call: int) -> Sent:
    given[0]["content"] = f"Fix it {call} times."
    return given


def copies_what_it_does_not_edit(given: Sent, call: int) -> Sent:
    sent = first_cleared(given)
    return [sent[0] if len(given) < 4 else copy.copy(sent[0]), *sent[1:]]


def edits_the_users_words(given: Sent, call: int) -> Sent:
    return [{**given[0], "content": "Fix."}, *given[1:]] if len(given) > 3 and given[0]["content"] != "Fix." else given


def renames_a_call(given: Sent, call: int) -> Sent:
    if len(given) < 4:
        return given
    made = {
        **given[1],
        "tool_calls": [{**given[1]["tool_calls"][0], "id": "c0", "function": {"name": "x", "arguments": "{}"}}],
    }
    return [given[0], made, *given[2:]] if made != given[1] else given


def loses_a_call(given: Sent, call: int) -> Sent:
    return first_cleared(given, tool_call_id="nobody")


def drops_a_result(given: Sent, call: int) -> Sent:
    is_whole = len(given) > 3 and given[2]["role"] == "tool"
    return [*given[:2], *given[3:]] if is_whole else given


def lets_a_result_grow(given: Sent, call: int) -> Sent:
    return first_cleared(given, content=LONG * 2)


def shortens_more_each_time(given: Sent, call: int) -> Sent:
    if len(given) < 4 or len(given[2]["content"]) < 20:
        return given
    return cleared(given, 2, content=given[2]["content"][: len(given[2]["content"]) // 2])


def takes_a_clear_back(given: Sent, call: int) -> Sent:
    return cleared(given, 2) if len(given) == 5 else given


def clears_another_way_later(given: Sent, call: int) -> Sent:
    return first_cleared(given, content=f"{CLEARED} For good." if len(given) > 5 else CLEARED)


def clears_what_is_new_with_a_longer_text(given: Sent, call: int) -> Sent:
    is_new = len(given) == 5 and given[4]["content"] == LONG
    return cleared(given, 4, content=LONG * 2) if is_new else given


@each_row(
    ("makes", "promise"),
    [
        (changes_what_it_is_given, 1),
        (copies_what_it_does_not_edit, 1),
        (edits_the_users_words, 2),
        (renames_a_call, 2),
        (loses_a_call, 3),
        (drops_a_result, 3),
        (lets_a_result_grow, 4),
        (clears_what_is_new_with_a_longer_text, 4),
        (shortens_more_each_time, 5),
        (takes_a_clear_back, 6),
        (clears_another_way_later, 6),
    ],
)
def test_each_kind_of_broken_promise_is_noticed(makes: Callable[[Sent, int], Sent], promise: int):
    found = violations(makes)
    assert {each.partition(",")[0].partition(":")[0] for each in found} == {f"promise {promise}"}


def test_a_result_that_is_restored_in_fed_back_output_is_noticed():
    def restores(given: Sent, call: int) -> Sent:
        return [*given[:2], {**given[2], "content": LONG}, *given[3:]] if len(given) == 7 else first_cleared(given)

    expected = "promise 6, request 3: message 2 is larger than in the previous prompt"
    assert expected in violations(restores, fed_back=True)


@pytest.mark.parametrize("fed_back", [False, True])
def test_an_honest_pruner_breaks_no_promise(fed_back: bool):
    known: dict[int, Any] = {}

    def honest(given: Sent, call: int) -> Sent:
        for at in range(2, len(given) - 2, 2):
            if given[at]["content"] == LONG:
                known.setdefault(at, {**given[at], "content": CLEARED})
        return [known.get(at, each) if each.get("content") == LONG else each for at, each in enumerate(given)]

    assert violations(honest, fed_back=fed_back) == []


def test_a_cleared_result_in_a_text_breaks_no_promise():
    """Each edited message is compared alone, without the call before it."""
    heading = "[read_file for 'a.py'] Result:\n"
    messages: Sent = [{"role": "user", "content": "Fix it."}]
    for _ in range(3):
        messages.append({"role": "assistant", "content": "<read_file>\n<path>a.py</path>\n</read_file>"})
        messages.append({"role": "user", "content": heading + LONG})

    def clears(given: Sent, call: int) -> Sent:
        is_due = len(given) > 3 and given[2]["content"] == heading + LONG
        return cleared(given, 2, content=heading + CLEARED) if is_due else given

    found = play(episode(messages), lambda: Sends(clears), NoPruning(), count=in_words)
    assert found.violations == ()

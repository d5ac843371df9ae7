"""Conversations are recognized by how they begin, and each has its own pauses and calibration."""

from pathlib import Path
from typing import Any

import pytest
from proxy.conftest import messages

from autoprune.apps.proxy._conversations import Conversations, Prompt, TrackedConversation
from autoprune.apps.proxy._resuming import PastFiles


def test_a_conversation_is_recognized_from_its_first_request():
    known = Conversations(8)
    whole = messages(3)
    first = known.match("session", whole[:1], 0.0)
    assert known.match("session", whole[:1], 0.0) is first  # sent again
    assert known.match("session", whole[:3], 0.0) is first
    assert known.match("session", whole, 0.0) is first
    assert known.get(first.name) is first


def test_a_conversation_that_begins_like_an_earlier_one_gets_a_new_name():
    known = Conversations(8)
    names = []
    for _ in range(2):
        names.append(known.match("", messages(2)[:1], 0.0).name)
        assert known.match("", messages(2, tag="")[:1], 0.0).name == names[-1]
        answered = messages(2)
        answered[1]["content"][0]["id"] = f"call {len(names)}"
        assert known.match("", answered, 0.0).name == names[-1]
    assert len({*names}) == 2


def test_a_string_and_a_marked_text_block_are_the_same_message():
    known = Conversations(8)
    whole = messages(2)
    block = {"type": "text", "text": whole[0]["content"], "cache_control": {"type": "ephemeral"}}
    first = known.match("", [{"role": "user", "content": [block]}], 0.0)
    assert known.match("", whole, 0.0) is first


def test_items_of_the_responses_api_identify_a_conversation_too():
    known = Conversations(8)
    call = {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"}
    start = [{"role": "user", "content": "Go."}]
    assert known.match("", start, 0.0) is known.match("", [*start, call], 0.0)
    assert known.match("", [*start, {**call, "call_id": "d"}], 0.0) is not known.match("", [*start, call], 0.0)


def test_only_the_most_recent_conversations_are_remembered():
    known = Conversations(2)
    first = known.match("", messages(1, tag=" one"), 0.0)
    for tag in (" two", " three"):
        known.match("", messages(1, tag=tag), 0.0)
    assert known.get(first.name) is None
    assert known.match("", messages(1, tag=" one"), 0.0) is not first


def test_a_token_count_sets_only_the_pause_of_the_next_request():
    conversation = TrackedConversation("a")
    conversation.note_request(3, 100.0)
    assert conversation.note_request(5, 500.0, counts_only=True) == 0
    assert conversation.note_request(1, 500.0, counts_only=True) == 0  # of a part of the history
    assert conversation.past.pauses == {3: 0, 5: 400}
    assert conversation.note_request(5, 502.0) == 400


def test_a_pause_counts_from_the_last_request_to_any_model():
    """A cut for the cold cache of one model would change what the warm cache of the other holds."""
    known = Conversations(8)
    first, second = (known.match("session", messages(3), 0.0, model) for model in ("a", "b"))
    assert [first.note_request(2, 0.0), second.note_request(4, 10.0), first.note_request(6, 400.0)] == [0.0, 0.0, 390.0]
    assert [second.note_request(8, 410.0), second.idle] == [10.0, 400.0]


def answer(conversation: TrackedConversation, counted: int, usage: dict[str, Any]) -> None:
    """Have a prompt of so many counted tokens answered with a usage."""
    conversation.note_prompt(1, Prompt(conversation.past, 1, counted, None), is_edited=False)
    conversation.learn(usage, 1)


def test_a_calibration_stays_until_it_is_clearly_off():
    conversation = TrackedConversation("a")
    for tokens, expected in ((14_200, 1.42), (14_800, 1.42), (13_600, 1.42), (18_000, 1.8)):
        answer(conversation, 10_000, {"input_tokens": tokens})
        assert conversation.calibration == expected
    answer(conversation, 10_000, {"nothing": 1})
    assert conversation.calibration == 1.8


IMPLAUSIBLE = [{"input_tokens": tokens} for tokens in (1, 9_999, 80_001, 10**9, 10**15, -20_000, "20000", None, True)]


@pytest.mark.parametrize("usage", IMPLAUSIBLE)
def test_a_usage_that_cannot_be_true_teaches_nothing(usage: dict[str, Any]):
    conversation = TrackedConversation("a", calibration=1.2)
    answer(conversation, 20_000, {**usage, "cache_creation": {"ephemeral_1h_input_tokens": 900}})
    conversation.cache.note_request(None)
    assert (conversation.calibration, conversation.cache.life) == (1.2, 300)


@pytest.mark.parametrize(("tokens", "ratio"), [(10_000, 0.5), (80_000, 4.0)])
def test_a_usage_of_half_to_four_times_the_counted_tokens_calibrates(tokens: int, ratio: float):
    conversation = TrackedConversation("a")
    answer(conversation, 20_000, {"input_tokens": tokens})
    assert conversation.calibration == ratio


def test_a_small_prompt_does_not_calibrate():
    conversation = TrackedConversation("a")
    answer(conversation, 9_999, {"input_tokens": 5_000})
    assert conversation.calibration == 1.0


def test_a_fork_leaves_the_past_of_its_conversation_unchanged():
    """Both continue in turns, each with its own pauses. After going back, those of the shared requests remain."""
    known, whole, now = Conversations(8), messages(6), 0.0
    branches = {"main": whole, "fork": [*whole[:5], *messages(6, tag=" forked")[5:]]}
    found = {}
    for name, end, pause in (("main", 5, 0), ("fork", 7, 1), ("main", 7, 1), ("fork", 9, 400), ("main", 9, 1)):
        now += pause
        one = known.match("session", branches[name][:end], now)
        one.note_request(end, now)
        found[name] = one.past
    assert found["main"].pauses == {5: 0, 7: 1, 9: 1}
    assert found["fork"].pauses == {5: 0, 7: 1, 9: 400}
    for name, past in found.items():
        assert known.match("session", branches[name][:11], now).past is past
    rewound = known.match("session", [*whole[:7], {"role": "user", "content": "No."}], now)
    rewound.note_request(8, now)
    assert (rewound.past.pauses, len(found["main"].pauses)) == ({5: 0, 7: 1, 8: 0}, 3)


@pytest.mark.parametrize(
    ("fork", "asked", "pause"),
    [
        ("session", (7, 9), 300.0),  # as long as the cache lives, so it is warm
        ("another", (7, 9), 300.0),
        ("session", (7,), 400.0),  # a side question
    ],
)
def test_a_conversation_is_not_cold_if_a_fork_that_was_at_work_shares_its_beginning(
    fork: str, asked: tuple[int, ...], pause: float
):
    known, whole = Conversations(8), messages(9)
    forked = [*whole[:5], *messages(6, tag=" forked")[5:]]
    steps = [("session", whole[:5], 0.0), ("session", whole[:7], 5.0)]
    steps += [(fork, forked[:end], 5.0) for end in asked]
    steps += [("session", whole[:9], 5.0), ("session", whole[:11], 400.0)]
    steps += [("session", whole[:13], 299.0), ("session", whole[:15], 299.0), ("session", whole[:17], 400.0)]
    now = 0.0
    for session, sent, wait in steps:
        now += wait
        one = known.match(session, sent, now)
        one.note_request(len(sent), now)
    assert (one.past.pauses[11], one.past.pauses[17]) == (pause, 400.0)


def test_a_clock_that_is_set_back_does_not_hide_the_pauses_of_a_conversation_with_a_fork():
    known, whole = Conversations(8), messages(6)
    fork = [*whole[:5], *messages(6, tag=" forked")[5:]]
    for sent, at in ((whole[:7], 9_000.0), (whole[:9], 9_005.0), (fork[:7], 9_010.0), (whole[:11], 5_410.0)):
        known.match("session", sent, at).note_request(len(sent), at)
    assert known.match("session", whole, 6_010.0).note_request(13, 6_010.0) == 600.0


def test_each_of_many_forks_that_work_at_the_same_time_keeps_its_past():
    known, start = Conversations(8), messages(2)
    forks = [[*start, *messages(4, tag=f" {at}")[1:]] for at in range(20)]
    pasts = []
    for end in (7, 9, 11):
        for at, fork in enumerate(forks):
            one = known.match("session", fork[:end], end * 100.0 + at)
            one.note_request(end, end * 100.0 + at)
            pasts.append(one.past)
    assert [*map(id, pasts[:20])] == [*map(id, pasts[20:40])] == [*map(id, pasts[40:])]
    assert len({*map(id, pasts)}) == 20


def test_a_session_that_was_forked_from_another_one_begins_with_its_past():
    known, whole = Conversations(8), messages(4)
    for end, at in ((3, 0.0), (5, 400.0)):
        known.match("one", whole[:end], at).note_request(end, at)
    fork = known.match("two", whole[:7], 410.0)
    assert fork.note_request(7, 410.0) == 10.0
    assert fork.past.pauses == {3: 0, 5: 400, 7: 10}
    assert known.match("one", whole[:5], 420.0).past.pauses == {3: 0, 5: 400}
    alike = [whole[0], *messages(4, tag=" alike")[1:]]
    assert known.match("three", alike, 420.0).past.pauses == {}


def test_forks_in_turns_keep_their_pasts_behind_several_proxies(tmp_path: Path):
    """One runs all the time, another one is started for each request of the fork. Each counts the other's requests."""
    whole = messages(7)
    fork = [*whole[:5], *messages(7, tag=" forked")[5:]]
    running, found = Conversations(8, PastFiles(str(tmp_path))), []
    for session, branch, end, at in (
        ("one", whole, 3, 0.0),
        ("one", whole, 5, 400.0),
        ("two", fork, 7, 410.0),
        ("two", fork, 9, 990.0),
        ("one", whole, 7, 1_000.0),
        ("two", fork, 11, 3_000.0),
        ("one", whole, 9, 3_001.0),
    ):
        proxy = running if session == "one" else Conversations(8, PastFiles(str(tmp_path)))
        known = proxy.match(session, branch[:end], at)
        known.note_request(end, at)
        proxy.keep(known.past, 1.0)
        found.append(known.past.pauses)
    assert found[-2:] == [
        {3: 0, 5: 400, 7: 10, 9: 580, 11: 2_000},
        {3: 0, 5: 400, 7: 10, 9: 1},
    ]


def resumed(folder: Path, written: dict[str, float] | None = None) -> Conversations:
    """A proxy that is started later, after one that got the first requests of a session up to second 10."""
    first = Conversations(8, PastFiles(str(folder)))
    for end in (3, 5):
        known = first.match("session-1", messages(8)[:end], 2.0 * end, "a")
        known.note_request(end, 2.0 * end)
        first.keep(known.past, 1.2)
    return Conversations(8, PastFiles(str(folder), written))


def test_each_model_of_a_resumed_session_has_its_pause_and_its_calibration(tmp_path: Path):
    later = resumed(tmp_path)
    for model, at, end, pause in (("b", 900.0, 7, 890.0), ("a", 950.0, 9, 50.0)):
        known = later.match("session-1", messages(8)[:end], at, model)
        assert (known.note_request(end, at), known.calibration) == (pause, 1.2)


def test_a_session_that_somebody_else_continued_is_as_old_as_the_clients_own_file(tmp_path: Path):
    later = resumed(tmp_path, {"log-session-1": 870.0})
    assert later.match("session-1", messages(8)[:11], 900.0, "a").note_request(11, 900.0) == 30.0


def test_a_fork_that_was_cut_does_not_keep_the_beginning_in_the_cache():
    """Whether it was cut at a request of its own, or at one that looks like one of the conversation."""
    for cut in (5, 7):
        known, whole = Conversations(8), messages(8)
        fork = [*whole[:5], *messages(8, tag=" forked")[5:]]
        for session, sent, at in (("one", whole[:5], 0.0), ("two", fork[:cut], 5.0), ("one", whole[:9], 10.0)):
            one = known.match(session, sent, at)
            one.note_request(len(sent), at)
        two = known.match("two", fork[: cut + 2], 7_000.0)
        two.note_request(cut + 2, 7_000.0)
        two.past.cuts = {cut: 1}
        assert known.match("one", whole[:11], 7_010.0).note_request(11, 7_010.0) > 6_000.0


def test_counting_the_prompt_of_a_resumed_session_sets_the_pause_of_its_next_request(tmp_path: Path):
    first, later = (Conversations(8, PastFiles(str(tmp_path))) for _ in range(2))
    known = first.match("session", messages(3)[:5], 1.0)
    known.note_request(5, 1.0)
    first.keep(known.past, 1.0)
    later.match("session", messages(3), 900.0, counts_only=True).note_request(7, 900.0, counts_only=True)
    assert later.match("session", messages(3), 902.0).note_request(7, 902.0) == 899.0


def test_counting_another_prompt_does_not_take_the_answer_of_a_request_on_its_way():
    known, whole = Conversations(8), messages(4)
    asked = known.match("session", whole[:5], 0.0)
    asked.note_request(5, 0.0)
    asked.note_prompt(1, Prompt(asked.past, 5, 30_000, None), is_edited=False)
    other = known.match("session", [*whole[:3], {"role": "user", "content": "No."}], 1.0, counts_only=True)
    other.note_request(4, 1.0, counts_only=True)
    asked.learn({"input_tokens": 20_000, "cache_read_input_tokens": 10_000}, 1)
    after = known.match("session", whole[:7], 2.0)
    after.note_request(7, 2.0)
    assert [*after.past.invoices] == [7]


def test_a_model_that_takes_over_has_nothing_in_its_cache():
    known, whole = Conversations(8), messages(3)
    known.match("session", whole[:3], 0.0, "a").note_request(3, 0.0)
    assert known.match("session", whole[:5], 10.0, "b").note_request(5, 10.0) == 0.0
    assert known.match("session", whole[:7], 7_010.0, "c").note_request(7, 7_010.0) == 7_000.0  # nor has any other


def test_a_fork_is_drawn_for_an_arm_of_its_own():
    known, whole = Conversations(8, holdout=0.5), messages(3)
    one = known.match("one", whole[:3], 0.0)
    one.note_request(3, 0.0)
    assert known.match("two", whole[:5], 5.0).past.pauses == {}

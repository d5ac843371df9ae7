"""Conversations and the sums over them: what is counted, dropped, limited and shown."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from autoprune.apps.proxy._pages import PAID, count_from_one, explain, metrics, session_json
from autoprune.apps.proxy._pruning import Account, DisplayedResult, Job, Outcome
from autoprune.apps.proxy._traffic import (
    LONGEST_LABEL,
    LONGEST_NOTE,
    MOST_LABELS,
    MOST_POINTS,
    MOST_SESSIONS,
    OTHERS,
    ClientSessions,
    client_name,
)
from autoprune.economics import DEFAULT, Sent

PROMPT = [("digest", 100)]
OUTCOME = Outcome(conversation="one")
JOB = Job("/v1/chat/completions", {}, b"", "", 0.0, client={"user-agent": "mini/1"})
CLEARED = DisplayedResult(request=0, tool="read", target="a.py", tokens=50, reason="over_safe_zone", id="1")


def account(
    messages: int = 1, pause: float = 0.0, last: Sequence[tuple[str, int]] = PROMPT, source: str = ""
) -> Account:
    """The account of a request that cleared 50 of 100 tokens; `last` is its prompt."""
    return Account(
        model="m",
        safe_zone=60,
        messages=messages,
        pause=pause,
        before=100,
        after=50,
        sent=Sent(PROMPT, last),
        prices=DEFAULT,
        cleared=(CLEARED,),
        decisions=(),
        life_from=source,
    )


def went_through(
    sessions: ClientSessions, name: str, requests: int = 1, *, model: str = "m", client: str = "mini/1"
) -> None:
    """Enter requests of a conversation, each of which cleared 50 of 100 tokens in 20 ms."""
    job, outcome = replace(JOB, client={"user-agent": client}), Outcome(conversation=name, seconds=0.02)
    for _ in range(requests):
        sessions.find(outcome, job).enter_request(replace(account(), model=model), outcome, job.at)


def test_dropped_conversations_stay_in_the_sums():
    sessions = ClientSessions()
    for at in range(MOST_SESSIONS + 5):
        went_through(sessions, f"{at}", 2)
    ((label, found),) = sessions.sums_by_label().items()
    whole = MOST_SESSIONS + 5
    assert (label, len(list(sessions))) == (("mini", "m"), MOST_SESSIONS)
    assert (found.sessions, found.requests, found.before, found.after) == (whole, 2 * whole, 200 * whole, 100 * whole)
    assert (found.cleared, sum(found.times), found.times[2]) == (2 * whole, 2 * whole, 2 * whole)


@pytest.mark.parametrize(("compact_at", "avoided"), [(None, 0), (40, 0), (60, 1), (51, 1), (101, 0)])
def test_compactions_that_did_not_happen_are_counted(compact_at: int | None, avoided: int):
    """The conversation would have had 100 tokens, and has 50."""
    sessions = ClientSessions()
    sessions.find(OUTCOME, JOB).enter_request(replace(account(), compact_at=compact_at), OUTCOME, 0.0)
    (session,) = sessions
    shown = session_json(session, in_full=False)
    assert (shown["compactions_avoided"], shown["compact_at"]) == (avoided, compact_at)


def test_requests_without_points_are_counted():
    sessions = ClientSessions()
    went_through(sessions, "long", MOST_POINTS + 3)
    (session,) = sessions
    assert (len(session.points), session.sums.requests) == (MOST_POINTS, MOST_POINTS + 3)


def test_cleared_results_have_the_number_of_the_request_that_cleared_them():
    sessions = ClientSessions()
    went_through(sessions, "one", 3)
    (session,) = sessions
    assert [each.request for each in session.cleared] == [each.request for each in session.points] == [1, 2, 3]


def test_a_conversation_without_an_accounted_request_is_not_listed():
    sessions = ClientSessions()
    sessions.find(Outcome(conversation="new"), JOB)
    assert (list(sessions), sessions.sums_by_label()) == ([], {})


@pytest.mark.parametrize("stay", [True, False])
def test_the_number_of_labels_is_limited(stay: bool):
    sessions = ClientSessions()
    for at in range(MOST_LABELS + 20 if stay else 3 * MOST_SESSIONS):
        went_through(sessions, f"{at}", client=f"client{at}/1")
    found = sessions.sums_by_label()
    assert len(found) == MOST_LABELS + 1
    assert found[OTHERS, OTHERS].sessions == (20 if stay else 3 * MOST_SESSIONS - MOST_LABELS)
    assert metrics(sessions).count("autoprune_sessions_total{") == MOST_LABELS + 1


def test_the_usage_of_an_answer_enters_the_ledger_once():
    sessions = ClientSessions()
    went_through(sessions, "one")
    (session,) = sessions
    session.usage = {"input_tokens": 50}
    went_through(sessions, "one", 2)
    assert len(session.ledger.reported) == 1


@pytest.mark.parametrize("tokens", [5_000_000, 2_000])
def test_a_usage_that_cannot_be_true_is_noted_once_and_not_used(tokens: int):
    sessions, large = ClientSessions(), [("digest", 20_000)]
    session = sessions.find(OUTCOME, JOB)
    for at in range(3):
        session.enter_request(account(last=large), OUTCOME, float(at))
        session.usage = {"input_tokens": tokens}
    note = f"the provider reported {tokens:,} tokens for a prompt of 20,000: its usage is not used, "
    assert session_json(session, in_full=True)["notes"] == [
        {"note": note + "and tokens are counted without it", "requests": 2}
    ]
    assert (session.ledger.tokens_per_counted, session.ledger.reported) == (1.0, ())


def test_a_small_prompt_with_tokens_that_only_the_provider_sees_is_not_noted():
    sessions = ClientSessions()
    went_through(sessions, "one")
    (session,) = sessions
    session.usage = {"input_tokens": 900}
    went_through(sessions, "one")
    assert (session.notes, session.ledger.reported) == ({}, ())


def test_savings_at_cold_requests_are_counted_and_shown():
    sessions = ClientSessions()
    went_through(sessions, "one", 2)
    (session,) = sessions
    outcome = Outcome(conversation="one")
    session.enter_request(account(pause=301.0, last=[("shorter", 50)], source="as asked"), outcome, 0.0)
    assert (
        [each.is_cold for each in session.points] == [each.is_cold for each in session.cleared] == [False, False, True]
    )
    ((_, found),) = sessions.sums_by_label().items()
    assert (found.cold, found.saved_cold) == (1, session.ledger.cold.net)
    assert found.saved_cold == found.saved == pytest.approx(1.25 * 50)
    text = metrics(sessions)
    assert 'autoprune_cold_requests_total{client="mini",model="m"} 1' in text
    assert 'autoprune_saved_cold_input_tokens{client="mini",model="m"} 62.5' in text
    shown = session_json(session, in_full=True)
    assert (shown["cache"], shown["saved"]["cold"]) == ({"life": "5 min", "from": "as asked"}, 62.5)
    assert [PAID in each["reason"] for each in shown["cleared"]] == [False, False, True]


@pytest.mark.parametrize(
    ("seconds", "is_answered", "cold"),
    [(2.0, False, 1), (400.0, False, 1), (2.0, True, 1), (400.0, True, 2)],  # a cache lives 300 seconds
)
def test_a_retry_of_a_cold_request_counts_once(seconds: float, is_answered: bool, cold: int):
    sessions = ClientSessions()
    went_through(sessions, "one")
    (session,) = sessions
    outcome = Outcome(conversation="one")
    cold_account = account(3, 301.0, [("shorter", 50)])
    for at in (301.0, 301.0 + seconds):
        session.enter_request(cold_account, outcome, at)
        if not is_answered:
            session.take_back(session.requests)
    assert (session.requests, session.sums.cold) == (3, cold)
    assert f'autoprune_cold_requests_total{{client="mini",model="m"}} {cold}' in metrics(sessions)


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("cold, worth 1.2", "cold: the rewrite was paid for anyway, worth 1.2"),
        ("largest first", "largest first; cold: the rewrite was paid for anyway"),
        ("cold: the rewrite was paid for anyway", "cold: the rewrite was paid for anyway"),
        ("colder than before", "colder than before; cold: the rewrite was paid for anyway"),
    ],
)
def test_the_reason_at_a_cold_request_says_that_the_rewrite_was_paid_for(reason: str, said: str):
    assert explain(replace(CLEARED, reason=reason, is_cold=True)) == said
    assert explain(replace(CLEARED, reason=reason)) == reason


def test_an_unanswered_request_is_not_in_the_ledger():
    sessions = ClientSessions()
    went_through(sessions, "one", 2)
    (session,) = sessions
    session.usage = {"input_tokens": 50}
    before = session.ledger.to_dict()
    went_through(sessions, "one")
    session.take_back(2)  # another one followed
    assert session.ledger.requests == 3
    session.take_back(3)
    assert (session.ledger.to_dict(), session.usage, session.requests) == (before, {"input_tokens": 50}, 3)
    session.take_back(3)
    went_through(sessions, "one")
    assert (session.ledger.requests, len(session.ledger.reported), session.usage) == (3, 1, None)


def test_notes_that_differ_only_in_a_long_list_are_one_note():
    """A note on an archive that cannot be written lists the ids of all payloads, at each request."""
    session = ClientSessions().find(OUTCOME, JOB)
    for ids in range(100, 110):
        session.enter_request(account(), replace(OUTCOME, note=f"the archive failed: {'297975906370585, ' * ids}"), 0.0)
    ((note, count),) = session.notes.items()
    assert (len(note), count, {len(each.note) for each in session.points}) == (LONGEST_NOTE, 10, {LONGEST_NOTE})


def test_the_length_of_labels_is_limited():
    sessions = ClientSessions()
    went_through(sessions, "one", client="c" * 100_000)
    assert [len(client) for client, _ in sessions.sums_by_label()] == [LONGEST_LABEL]


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("claude-cli/2.1.197 (external, cli)", "claude-cli"),
        ("Anthropic/Python 2.12.0", "Anthropic"),
        ("GitHub Copilot Chat/0.30 (linux)", "GitHub Copilot Chat"),
        ("Zed (linux)", "Zed"),
        ("curl", "curl"),
        (" " * 60_000 + "odd/1", "odd"),
        ("", "unknown"),
        ("/", "unknown"),
    ],
)
def test_a_clients_name_has_no_version_and_no_platform(agent: str, name: str):
    assert client_name(agent) == name


def test_decisions_are_renumbered_from_1():
    assert count_from_one("request 14: above limit: request 3") == "request 15: above limit: request 3"
    assert count_from_one("what is worth under 2.6 may go") == "what is worth under 2.6 may go"

"""A pruned prompt gets a cache mark before the cut, within reach of a prefix that an earlier request stored."""

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from profiles import is_full, size
from rounds import WIRE, Step
from strict_provider.anthropic import Messages
from strict_provider.exchange import Request
from strict_provider.scripts import Play, Turn
from tables import each_row

from autoprune import AgenticConversationPruner, ConversationPruner, PruneArgs, SettingsError
from autoprune.conversation.messages import MOST_MARKS, cache_marks, without_marks
from autoprune.economics import Ledger
from autoprune.integrations._hooks import RequestPruner
from autoprune.pruners.requests import PrunedRequest, prune_request
from autoprune.wire import problems

MESSAGES, CONVERSE = "/v1/messages", "/model/anthropic.claude/converse"
MODEL = "claude-opus-4-8"
HOUR = {"type": "ephemeral", "ttl": "1h"}
POINT = {"cachePoint": {"type": "default"}}
SYSTEM = [{"type": "text", "text": "You mend.", "cache_control": HOUR}]
IF_COLD = "cache_aware(threshold=1000000, patience=1000000, stay=0)"  # clears what it can, once the cache has expired
ASK: dict[str, Any] = {"role": "user", "content": "Mend it."}


def step(at: int, calls: int = 1, lines: int = 300) -> list[Any]:
    """The model's words and calls, and their results."""
    ids = [f"t{at}_{call}" for call in range(calls)]
    uses = [{"type": "tool_use", "id": id, "name": "read", "input": {"path": f"{id}.py"}} for id in ids]
    results = [{"type": "tool_result", "tool_use_id": id, "content": f"line {id}\n" * lines} for id in ids]
    words = {"type": "text", "text": f"Number {at} next."}
    return [{"role": "assistant", "content": [words, *uses]}, {"role": "user", "content": results}]


def steps(count: int, **more: int) -> list[Any]:
    return [ASK, *(message for at in range(count) for message in step(at, **more))]


def marked(message: dict[str, Any], mark: Any = HOUR) -> dict[str, Any]:
    """A message with a mark on its last block, as clients set it."""
    content = message["content"]
    *before, last = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**message, "content": [*before, {**last, "cache_control": mark}]}


def request(messages: Sequence[Any]) -> dict[str, Any]:
    """A request of a client that marks its system prompt and the end of the conversation, as Claude Code does."""
    return {"model": MODEL, "max_tokens": 9, "system": SYSTEM, "messages": [*messages[:-1], marked(messages[-1])]}


def requests(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """The requests of a conversation."""
    return [request(messages[:end]) for end in range(1, len(messages) + 1, 2)]


def prune_each(bodies: Iterable[dict[str, Any]], pruner: Any) -> Iterator[PrunedRequest]:
    """Prune the requests of a conversation, each with the history of the one before."""
    history: Any = {}
    for body in bodies:
        pruned = prune_request(pruner, body, MESSAGES, history=history)
        history = pruned.history
        yield pruned


def places(messages: Sequence[Any]) -> list[int]:
    """The indexes of the messages with marks."""
    return [at for at, message in enumerate(messages) if any(cache_marks(message))]


def mark_of(pruned: PrunedRequest) -> int | None:
    assert pruned.result
    return pruned.result.report.cache_mark


def pruner(zone: str = "4k", strategy: str = "low_water") -> AgenticConversationPruner:
    return AgenticConversationPruner(zone, strategy=strategy)


# How long the cache lives


def long_pause(mark: Any, pause: float = 900.0) -> tuple[list[Any], dict[int, float]]:
    """A conversation whose last request comes after a pause, in which the client marked the end with `mark`."""
    messages = [{"role": "user", "content": "Mend it. " * 3_000}, *steps(30)[1:]]
    return [*messages[:-1], marked(messages[-1], mark)], {len(messages): pause}


@each_row(
    ("mark", "pause", "is_cold"),
    [
        ({"type": "ephemeral"}, 900.0, True),
        (HOUR, 900.0, False),
        (HOUR, 4_000.0, True),
        ({"type": "ephemeral", "ttl": "soon"}, 900.0, True),
    ],
)
def test_a_mark_says_how_long_the_cache_lives(mark: Any, pause: float, is_cold: bool):
    messages, pauses = long_pause(mark, pause)
    body = {"model": MODEL, "messages": messages}
    pruned = prune_request(pruner("900k", IF_COLD), body, MESSAGES, pauses=pauses)
    assert (pruned.body is not body) == is_cold


def test_the_life_in_the_settings_counts_more_than_a_mark():
    messages, pauses = long_pause(HOUR)
    given = AgenticConversationPruner(PruneArgs("900k", cache_ttl="5m"), strategy=IF_COLD)
    body = {"model": MODEL, "messages": messages}
    assert prune_request(given, body, MESSAGES, pauses=pauses).body is not body


def test_what_was_cleared_stays_cleared_if_a_client_begins_to_ask_for_an_hour():
    messages, pauses = long_pause({"type": "ephemeral"})
    longer = [*messages, *step(30), *step(31), *step(32)]
    history: Any = {}
    for end, mark in ((61, {"type": "ephemeral"}), (63, {"type": "ephemeral"}), (65, HOUR), (67, HOUR)):
        body = {"model": MODEL, "messages": [*longer[: end - 1], marked(longer[end - 1], mark)]}
        pruned = prune_request(pruner("900k", IF_COLD), body, MESSAGES, history=history, pauses=pauses)
        history = pruned.history
        assert pruned.result
        assert pruned.result.report.results_cleared == 29


@each_row("history", [{0: {"cache_ttl": "1h"}}, {1: {"cache_ttl": 3_600}}])
def test_a_life_in_the_history_may_have_any_form_of_the_setting(history: Any):
    messages, pauses = long_pause({"type": "ephemeral"})
    body = {"model": MODEL, "messages": messages}
    assert prune_request(pruner("900k", IF_COLD), body, MESSAGES, history=history, pauses=pauses).body is body


@each_row("history", [None, [1], {0: None}])
def test_a_history_that_cannot_be_used_is_an_error(history: Any):
    with pytest.raises(SettingsError, match="history"):
        prune_request(pruner(), {"model": MODEL, "messages": steps(2)}, MESSAGES, history=history)


def test_what_was_written_for_an_hour_is_warm_although_a_later_request_asks_for_less():
    messages, pauses = long_pause({"type": "ephemeral"})
    for mark, is_cold in ((HOUR, False), ({"type": "ephemeral"}, True)):
        before = {"model": MODEL, "messages": [*messages[:-3], marked(messages[-3], mark)]}
        history = prune_request(pruner("900k", IF_COLD), before, MESSAGES).history
        body = {"model": MODEL, "messages": messages}
        pruned = prune_request(pruner("900k", IF_COLD), body, MESSAGES, history=history, pauses=pauses)
        assert (pruned.body is body) != is_cold


# Where the mark is


def test_the_last_block_before_the_cut_gets_a_mark_like_the_clients():
    body = request(steps(6))
    before = deepcopy(body)
    pruned = prune_request(pruner(), body, MESSAGES)
    assert body == before
    assert pruned.result
    assert pruned.result.report.first_changed_message == 2
    assert pruned.body["messages"][1] == marked(before["messages"][1])
    assert places(pruned.body["messages"]) == [1, 12]
    assert [pruned.body["messages"][at] is body["messages"][at] for at in (0, 1, 12)] == [True, False, True]
    assert pruned.result.conversation == pruned.body["messages"]


def test_a_text_becomes_a_block_to_carry_the_mark():
    messages = steps(6)
    messages[1] = {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "seal"}]}
    messages[2] = {"role": "user", "content": f'<tool_result tool_name="read">{"line " * 900}</tool_result>'}
    pruned = prune_request(pruner(), request(messages), MESSAGES)
    assert pruned.body["messages"][:2] == [marked(ASK), messages[1]]  # thinking cannot be marked


def test_a_block_whose_type_is_no_name_is_not_marked():
    messages = [{"role": "user", "content": [{"type": {"a": 1}, "text": "Go."}]}, *steps(6)[1:]]
    assert prune_request(pruner(), request(messages), MESSAGES).body["messages"][0] is messages[0]


def test_the_mark_stays_between_cuts_and_follows_a_later_cut():
    sent = [*prune_each(requests(steps(9)), pruner())]
    cuts = [max((edit.request for edit in each.result.plan.edits), default=None) for each in sent]
    assert cuts == [None, None, None, 3, 3, 5, 5, 7, 7, 9]
    assert [mark_of(each) for each in sent] == [None, None, None, 1, 1, 5, 5, 9, 9, 13]


def test_the_first_pruned_request_makes_all_cuts_before_it():
    bodies = requests(steps(9))
    assert [mark_of(prune_request(pruner(), body, MESSAGES)) for body in bodies] == [None, None, None, *[1] * 7]
    assert [mark_of(each) for each in prune_each([bodies[7], bodies[7], *bodies[8:]], pruner())] == [1, 1, 1, 13]


def test_the_mark_is_at_most_nineteen_blocks_after_the_newest_prefix():
    # The first cut leaves a prefix at message 1. Before the second cut are 45 more blocks.
    messages = [*steps(1), *step(1, calls=20, lines=1), *steps(6)[3:]]
    sent = [*prune_each(requests(messages), pruner())]
    marks = [(at, index) for each in sent for at, index in marked_blocks(each) if at == mark_of(each)]
    assert marks == [(1, 1), (3, 17), (4, 15), (11, 1)]


def marked_blocks(pruned: PrunedRequest) -> list[tuple[int, int]]:
    """The messages and indexes of the blocks with marks."""
    contents = [each["content"] for each in pruned.body["messages"]]
    return [
        (at, index)
        for at, content in enumerate(contents)
        for index, block in enumerate(content)
        if isinstance(block, dict) and "cache_control" in block
    ]


@each_row(
    "system, tools, others, last, at",
    [
        ([], [], {}, HOUR, 1),
        (SYSTEM * 2, [], {}, HOUR, 1),
        (SYSTEM * 3, [], {}, HOUR, None),  # the client has set four
        (SYSTEM * 2, [{"name": "read", "input_schema": {}, "cache_control": HOUR}], {}, HOUR, None),
        (SYSTEM * 2, [{"name": "a", "input_schema": {"properties": {"cache_control": {"a": 1}}}}], {}, HOUR, 1),
        (SYSTEM, [], {}, None, None),  # the client does not cache its messages
        (SYSTEM * 2, [], {"cache_control": {"type": "ephemeral"}}, None, 1),  # the API marks the last block
        (SYSTEM * 3, [], {"cache_control": {"type": "ephemeral"}}, None, None),
        ("You mend.", [], {}, {"type": "ephemeral"}, 1),
    ],
)
def test_a_mark_is_added_if_the_client_marks_its_messages_and_one_of_four_is_free(
    system: Any, tools: list[Any], others: dict[str, Any], last: Any, at: int | None
) -> None:
    messages = steps(6)
    messages[-1] = marked(messages[-1], last) if last else messages[-1]
    body = {"model": MODEL, "system": system, "tools": tools, "messages": messages, **others}
    pruned = prune_request(pruner(), body, MESSAGES)
    assert mark_of(pruned) == at
    expected = [] if at is None else [last or others["cache_control"]]
    assert [mark for each in pruned.body["messages"][:-1] for mark in cache_marks(each)] == expected


def test_the_mark_lives_as_long_as_the_clients_next_one_since_longer_lives_come_first():
    messages = steps(6)
    messages[2], messages[-1] = marked(messages[2]), marked(messages[-1], {"type": "ephemeral"})
    pruned = prune_request(pruner(), {"model": MODEL, "messages": messages}, MESSAGES)
    assert pruned.body["messages"][1] == marked(messages[1], HOUR)


@pytest.mark.parametrize("at", [0, 1])
def test_a_mark_of_the_clients_that_finds_the_prefix_is_enough(at: int) -> None:
    messages = steps(6)
    messages[at] = marked(messages[at])
    body = request(messages)
    pruned = prune_request(pruner(), body, MESSAGES)
    assert mark_of(pruned) is None
    assert pruned.body["messages"][at] is body["messages"][at]


def test_only_pruned_requests_to_the_model_are_marked():
    assert mark_of(prune_request(pruner(), request(steps(6)), "/v1/messages/count_tokens")) is None
    assert mark_of(prune_request(pruner(), request(steps(1)), MESSAGES)) is None


def test_bedrock_gets_a_cache_point_after_the_block():
    messages = WIRE["bedrock"]([[Step("read", {"path": f"{at}.py"}, f"line {at}\n" * 300)] for at in range(8)])
    messages[-1] = {**messages[-1], "content": [*messages[-1]["content"], POINT]}
    body: Any = {"messages": messages, "system": [{"text": "You mend."}, POINT], "toolConfig": {"tools": [POINT]}}
    pruned = prune_request(pruner(), body, CONVERSE)
    assert pruned.body["messages"][1] == {**messages[1], "content": [*messages[1]["content"], POINT]}
    body["toolConfig"]["tools"].append(POINT)
    assert mark_of(prune_request(pruner(), body, CONVERSE)) is None


def test_folded_messages_get_a_mark_before_the_summary():
    turns = [{"role": role, "content": f"{at} " * 300} for at in range(20) for role in ("user", "assistant")]
    folding = ConversationPruner("4k", strategy="hybrid(retain={'first_request': True, 'turns': 2})")
    pruned = prune_request(folding, request([*turns, ASK]), MESSAGES)
    assert mark_of(pruned) == 0
    assert pruned.body["messages"][0] == marked(turns[0])


# What the ledger says


def read_from_cache(bodies: Sequence[dict[str, Any]]) -> list[int]:
    """For each request, how many of its messages are read from a cache that stores prefixes at marks only."""
    known: set[str] = set()
    found = []
    for body in bodies:
        pieces = [(at, each) for at, message in enumerate(body["messages"]) for each in blocks(message)]
        prefixes = [
            str([without_marks({"content": [each]}) for _, each in pieces[:end]]) for end in range(len(pieces) + 1)
        ]
        ends = [end for end, (_, each) in enumerate(pieces, 1) if "cache_control" in each]
        near = {each for end in ends for each in range(max(1, end - 19), end + 1)}
        hit = max((each for each in near if prefixes[each] in known), default=0)
        known |= {prefixes[end] for end in ends}
        found.append(pieces[hit - 1][0] + 1 if hit else 0)
    return found


def blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


@pytest.mark.parametrize("strategy", ["tool_output_cleanup", "low_water", "cache_aware"])
@each_row("calls, others", [(1, 0), (4, 0), (1, 2)])
def test_the_ledger_expects_from_the_cache_what_the_marks_find(calls: int, others: int, strategy: str) -> None:
    bodies = requests(steps(size(24), calls=calls))
    for body in bodies:  # with two marks in its system prompt, a request has no free one
        body["system"] = [*SYSTEM, *SYSTEM, *SYSTEM][: others + 1]
    sent = [*prune_each(bodies, pruner("16k", strategy))]
    ledger, usage = Ledger((1.25, 0.1)), None
    for each in sent:
        ledger.add(each.result, usage=usage)
        usage = {"prompt_tokens": each.result.sent.tokens}
    ledger.add(sent[-1].result, usage=usage)
    read = read_from_cache([each.body for each in sent])
    held = [sum(tokens for _, tokens in each.result.sent.sent[:at]) for each, at in zip(sent, read, strict=True)]
    beside = sent[0].result.sent.beside
    assert [each.expected for each in ledger.reported] == [0, *(beside + each for each in held[1:])]
    unpruned = [sum(tokens for _, tokens in each.result.sent.given) + beside for each in sent]
    costs = [1.25 * now - 1.15 * before for before, now in pairwise([0, *unpruned, unpruned[-1]])]
    assert ledger.total.removed > 0
    assert ledger.unpruned == pytest.approx(sum(costs))


def client(random: Random) -> list[dict[str, Any]]:
    """The requests of a client that sets up to four marks: on its system prompt, and on the newest user messages."""
    messages = [ASK]
    for at in range(random.randint(4, 10)):
        messages += step(at, calls=random.choice((1, 1, 2, 8)), lines=random.randint(1, 60))
        if random.random() < 0.2:
            messages += [{"role": "assistant", "content": "It is done."}, {"role": "user", "content": "And now?"}]
    ends = [*range(1, len(messages) + 1, 2)]
    newest = random.randint(0, 3)
    system = SYSTEM * random.randint(0, MOST_MARKS - newest)
    bodies = []
    for number, end in enumerate(ends, 1):
        wanted = ends[:number][-newest:] if newest else []
        asked = [marked(each) if at in wanted else each for at, each in enumerate(messages[:end], 1)]
        bodies.append({"model": MODEL, "max_tokens": 9, "system": system, "messages": asked})
    return bodies


@pytest.mark.parametrize("strategy", ["tool_output_cleanup", "low_water", "cache_aware"])
def test_a_mark_changes_nothing_else_and_what_is_sent_stays_valid(strategy: str) -> None:
    random, marks = Random(f"marks {strategy}"), 0
    for zone in (300, 600, 1_000, 2_000) * (4 if is_full() else 2):
        api = Messages(Play([Turn("Done.")]))
        ours, fed_back = RequestPruner(zone, strategy), RequestPruner(zone, strategy)
        for body in client(random):
            before = deepcopy(body)
            pruned = ours.prune(body, MESSAGES)
            sent, at = pruned.body["messages"], mark_of(pruned)
            marks += at is not None
            api.respond(Request(MESSAGES, {}, pruned.body))
            assert body == before
            assert problems(sent, "anthropic") == []
            assert len(places(sent)) == len(places(body["messages"])) + (at is not None)
            for index, (one, other) in enumerate(zip(sent, body["messages"], strict=True)):
                assert one is other or index == at or one != other
            assert fed_back.prune(pruned.body, MESSAGES).body == pruned.body
            assert prune_request(pruner(str(zone), strategy), pruned.body, MESSAGES).body == pruned.body
    assert marks > (20 if is_full() else 2)


def test_an_agent_that_sends_pruned_messages_back_gets_three_marks_besides_its_own() -> None:
    ours, sent, given = RequestPruner(4_000, "low_water"), [], steps(30)
    api = Messages(Play([Turn("Done.")]))
    for end in range(1, len(given) + 1, 2):
        body = {"model": MODEL, "max_tokens": 9, "cache_control": HOUR, "messages": [*sent, *given[len(sent) : end]]}
        sent = ours.prune(body, MESSAGES).body["messages"]
        api.respond(Request(MESSAGES, {}, {**body, "messages": sent}))
    assert len(places(sent)) == 3

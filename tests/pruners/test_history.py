"""The settings of the requests of a conversation: what is kept, what applies, and what a report says without them."""

import json
import sys
import threading
from collections.abc import Sequence
from itertools import chain, cycle, pairwise, repeat
from typing import Any

from rounds import WIRE, Step
from tables import each_row

from autoprune import AgenticConversationPruner, PruneArgs
from autoprune.integrations._hooks import RequestPruner
from autoprune.pruners.history import Branch, Branches, History, Recent, prefix_digests, with_request

A, B, C, D = ({"safe_zone": zone, "model": model} for zone, model in ((50, "a"), (50, "b"), (60, "b"), (60, "a")))
E = {**A, "overhead_tokens": 5}
SAFE_ZONE = 3_000
CHAT = "/v1/chat/completions"


@each_row(
    ("history", "now", "messages", "found"),
    [
        ({}, A, 1, {0: A, 1: {}}),
        ({}, A, 57, {0: A, 57: {}}),
        ({0: A, 1: {}}, A, 3, {0: A, 1: {}, 3: {}}),
        ({0: A, 1: {}, 3: {}}, B, 5, {0: A, 1: {}, 5: {"model": "b"}}),
        ({0: A, 3: {"model": "b"}}, C, 5, {0: A, 3: {"model": "b"}, 5: {"safe_zone": 60}}),
        ({0: A, 3: {"model": "b"}, 5: {}}, A, 7, {0: A, 3: {"model": "b"}, 7: {"model": "a"}}),
        # Sent again, with other settings: those that applied are kept, unless the safe zone is smaller.
        ({0: A, 3: {}}, D, 3, {0: A, 3: {}}),
        ({0: D, 3: {}}, A, 3, {0: D, 3: {"safe_zone": 50}}),
        # To another model, or with more tokens beside the messages: its own settings. The first request begins anew.
        ({0: A, 1: {}, 3: {}}, C, 3, {0: A, 1: {}, 3: {"safe_zone": 60, "model": "b"}}),
        ({0: A, 1: {}, 9: {}}, B, 3, {0: A, 1: {}, 3: {"model": "b"}}),
        ({0: E, 1: {}, 3: {}}, {**E, "overhead_tokens": 9}, 3, {0: E, 1: {}, 3: {"overhead_tokens": 9}}),
        ({0: A, 3: {}}, C, 3, {0: C, 3: {}}),
        # A history that was cut.
        ({0: A, 3: {"model": "b"}, 9: {"safe_zone": 60}}, C, 5, {0: A, 3: {"model": "b"}, 5: {}}),
        # Changes by hand: the settings apply before them.
        ({57: {"model": "b"}}, A, 59, {0: A, 57: {"model": "b"}, 59: {"model": "a"}}),
    ],
)
def test_a_history_holds_the_changes_and_the_first_and_the_newest_request(
    history: History, now: dict[str, Any], messages: int, found: History
):
    assert with_request(history, now, messages) == found


def conversation(results: int, folders: Sequence[str] = ("",)) -> list[Any]:
    """Results from one folder after the other, the last one for all further results."""
    paths = [
        f"{folder}{at}.py" for at, folder in zip(range(results), chain(folders, repeat(folders[-1])), strict=False)
    ]
    return WIRE["openai_chat"]([[Step("read_file", {"path": path}, f"line of {path}\n" * 90)] for path in paths])


def cleared(sent: list[Any]) -> set[int]:
    return {at for at, message in enumerate(sent) if "cleared" in str(message["content"])}


@each_row(
    ("setting", "value"),
    [
        *(("safe_zone", zone) for zone in ("50k", 10**9)),
        *(("calibration", ratio) for ratio in (0.1, 0.5)),
        ("overhead_tokens", 0),
    ],
)
def test_a_setting_that_changes_applies_from_its_request_on(setting: str, value: Any):
    ours = AgenticConversationPruner(PruneArgs(SAFE_ZONE, overhead_tokens=1_000))
    before = cleared(ours.prune(conversation(10), "low_water").conversation)
    more = conversation(11)
    after = ours.prune(more, "low_water", history={len(more): {setting: value}})
    assert cleared(after.conversation) == before != set()
    assert after.report.notes == ()


def test_a_history_may_have_been_stored_as_json():
    history: History = {0: {"safe_zone": 2_000}, 31: {"safe_zone": SAFE_ZONE, "calibration": 1.1}}
    stored = json.loads(json.dumps(history))
    ours, messages = AgenticConversationPruner(PruneArgs(SAFE_ZONE)), conversation(20)
    assert stored != history
    assert ours.prune(messages, history=stored).conversation == ours.prune(messages, history=history).conversation


def test_a_report_has_the_tokens_and_the_safe_zone_of_the_newest_request():
    ours, messages = AgenticConversationPruner(SAFE_ZONE), conversation(11)
    counted = ours.prune(messages, "low_water").report
    report = ours.prune(messages, "low_water", history={len(messages): {"calibration": 0.5, "safe_zone": 2_000}}).report
    assert (report.safe_zone, report.tokens_before) == (2_000, counted.tokens_before / 2)
    assert report.tokens_after == report.plan.tokens / 2 < 2_000 < report.plan.tokens


def test_without_the_history_the_report_says_what_comes_back():
    ours = AgenticConversationPruner(SAFE_ZONE)
    before = cleared(ours.prune(conversation(10), "low_water").conversation)
    result = ours.prune(conversation(11), "low_water", calibration=0.1)
    assert cleared(result.conversation) == set()
    back = f"{len(before)} results that were cleared are sent whole again, because a setting changed"
    assert result.report.notes == (f"{back}: pass the earlier settings too, with history=",)
    assert ours.prune(conversation(12), "low_water", calibration=0.1).report.notes == ()  # once


def body(messages: list[Any], words: int, model: str = "gpt-4.1") -> dict[str, Any]:
    """A request with a tool that is described in so many words."""
    return {"model": model, "messages": messages, "tools": [{"description": "word " * words}]}


@each_row(
    ("fork", "folders", "others"),
    [
        (8, ("a/", "b/"), (10, 1_000)),
        (8, ("a/", "b/"), (1_000, 10)),
        (0, ("", ""), (10, 1_000)),  # also while they do the same
        (8, ("", ""), (10, 1_000)),
        (8, tuple(f"{user}/" for user in range(20)), tuple(range(0, 1_000, 50))),  # users of a service
    ],
)
def test_agents_that_continue_a_conversation_in_parallel_are_pruned_as_if_each_was_alone(
    fork: int, folders: tuple[str, ...], others: tuple[int, ...]
):
    shared, alone = RequestPruner(SAFE_ZONE, "low_water"), [RequestPruner(SAFE_ZONE, "low_water") for _ in folders]
    for results in range(fork, 30):
        for own, folder, words in zip(alone, folders, others, strict=True):
            asked = body(conversation(results, [""] * fork + [folder]), words)
            sent = shared.prune(asked, CHAT)
            assert sent.body == own.prune(asked, CHAT).body
            assert sent.result is not None
            assert sent.result.report.tokens_after <= SAFE_ZONE


def test_another_model_gets_what_a_model_did_not_answer_and_each_keeps_its_prompt():
    ours, prompts = RequestPruner(SAFE_ZONE, "low_water"), {"gpt-4.1": [], "gpt-5": []}
    for results in range(30):
        for model in ("gpt-4.1", "gpt-5", "gpt-4.1") if results > 15 else ("gpt-4.1",):
            prompts[model].append(ours.prune(body(conversation(results), 10, model), CHAT).body["messages"])
    kept = [[cleared(sent) for sent in each] for each in prompts.values()]
    assert all(before <= after for each in kept for before, after in pairwise(each))
    assert cleared(prompts["gpt-5"][0]) >= kept[0][15] != set()
    assert prompts["gpt-4.1"][-1] == prompts["gpt-4.1"][-2]


def test_with_tools_that_change_at_each_request_nothing_comes_back():
    ours, before = RequestPruner(SAFE_ZONE, "low_water"), set()
    for results in range(30):
        for words in (results * 37 % 11 * 100, *([700] if results == 12 else [])):  # one is sent again with other tools
            now = cleared(ours.prune(body(conversation(results), words), CHAT).body["messages"])
            assert before <= now
            before = now
    assert before


def test_an_agent_can_be_read_while_another_thread_sends_a_request():
    branch, over = Branch({0: A}), threading.Event()

    def send() -> None:
        for number in cycle(range(1, 99)):
            branch.history = {0: A, number: {}}
            if over.is_set():
                return

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=send)
    thread.start()
    try:
        assert {branch.agent for _ in range(20_000)} == {("a", None)}
    finally:
        over.set()
        thread.join()
        sys.setswitchinterval(before)


def test_a_branch_is_known_by_its_last_call_too_if_the_results_are_the_same():
    known, branches = Branches(), []
    ends = [WIRE["openai_chat"]([[Step("run", {"command": model}, "ok")]]) for model in "ab"]
    for messages, model in zip(ends, "ab", strict=True):
        branches.append(known.find(messages, lambda: ("other", None)))
        branches[-1].history = {0: {"model": model}, len(messages): {}}
    longer = [*ends[0], *ends[0][1:]]
    assert known.find(longer, lambda: ("b", None)) is branches[0]


class Message:
    """An object of an SDK or a framework."""

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)


@each_row("spoken", [{"role": "assistant"}, {"type": "ai"}, {"kind": "response"}, {"type": "function_call"}])
def test_sdk_objects_and_framework_messages_identify_a_conversation(spoken: dict[str, str]):
    known = Recent(8, lambda head: [head])
    start = [Message(role="user", content="Go.")]
    longer = [*start, Message(**spoken, content="Yes."), Message(role="user", content="And?")]
    first = known.match("", prefix_digests(start))
    assert known.match("", prefix_digests(longer)) is first
    assert known.match("", prefix_digests([*longer, Message(role="user", content="More.")])) is first
    assert known.match("another session", prefix_digests(longer)) is not first


@each_row("system", [{"role": "system"}, {"role": "developer"}, {"type": "system"}])
def test_a_system_message_with_the_time_in_it_does_not_identify_a_conversation(system: dict[str, str]):
    def at(time: str, *more: Any) -> tuple[str, str]:
        return prefix_digests([Message(**system, content=f"It is {time}."), Message(role="user", content="Go."), *more])

    known = Recent(8, lambda head: [head])
    first = known.match("", at("10:00"))
    assert known.match("", at("10:01", Message(role="assistant", content="Yes."))) is first
    assert known.match("", at("10:02", Message(role="assistant", content="No."))) is not first
    others = [
        prefix_digests([Message(**system, content=words), Message(role="user", content="Go.")])[0]
        for words in ("Sort.", "Search.")
    ]
    assert len({*others, at("10:00")[0], at("number 1")[0], at("number 2")[0]}) == 5

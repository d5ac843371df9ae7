"""The settings of the requests of a conversation: what is kept, what applies, and what a report says without them."""

from typing import Any

from rounds import WIRE, Step
from tables import each_row

from autoprune import AgenticConversationPruner, PruneArgs
from autoprune.pruners.history import History, Recent, prefix_digests, with_request

A, B, C = ({"safe_zone": zone, "model": model} for zone, model in ((50, "a"), (50, "b"), (60, "b")))
SAFE_ZONE = 3_000


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
        ({0: A, 3: {}}, C, 3, {0: A, 3: {}}),
        ({0: C, 3: {}}, A, 3, {0: C, 3: {"safe_zone": 50, "model": "a"}}),
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


def conversation(results: int) -> list[Any]:
    steps = [[Step("read_file", {"path": f"{at}.py"}, f"line {at} of a file\n" * 90)] for at in range(results)]
    return WIRE["openai_chat"](steps)


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

"""The strategy `Folding`, each of its fields at its boundary; and what a strategy of one's own may and may not do."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest
from tables import each_row
from written_short import messages

from autoprune import ConversationPruner, Protections, PruneArgs, Retention, SettingsError
from autoprune.conversation.edits import Fold, Reason, Replace
from autoprune.conversation.summary import overhead
from autoprune.conversation.transcript import ToolResult
from autoprune.planning.view import SAID_SHARE, SAID_TOKENS, FoldView
from autoprune.strategies.folding import Folding
from autoprune.strategies.per_result import PerResult
from autoprune.strategies.presets import keep_last, snapshot
from autoprune.tokens import MESSAGE_TOKENS

WIDE = 10**6  # tokens
EACH = 100  # tokens of a message, by `count`
REPLY = 3  # tokens that prime the reply
# The messages that go together, why, the tokens that the summary may have from then on, and at which request.
Shown: TypeAlias = tuple[list[int], str, int, int]


def count(text: str) -> int:
    return len(text.split())


MARK = overhead(count, 1, 20) + MESSAGE_TOKENS  # of a summary's message besides its text


def chat(number: int) -> list[dict[str, str]]:
    """So many messages, of 100 tokens each: the user's, the model's, the user's."""
    return [{"role": "assistant" if at % 2 else "user", "content": f"m{at} " * (EACH - 3)} for at in range(number)]


def pruner(safe_zone: int = WIDE, **settings: Any) -> ConversationPruner:
    return ConversationPruner(PruneArgs(safe_zone, **settings), count=count)


def folds(strategy: Any, number: int, safe_zone: int = WIDE, **settings: Any) -> list[Shown]:
    """What goes of so many messages."""
    plan = pruner(safe_zone, **settings).plan(chat(number), strategy)
    return [shown(fold) for fold in plan.folds]


def shown(fold: Fold) -> Shown:
    return list(fold.messages), fold.reason.value, fold.room, fold.request


def first(number: int) -> list[int]:
    return list(range(number))


# By the number of messages


@pytest.mark.parametrize(("number", "gone"), [(7, []), (8, []), (9, [(first(5), "too_many_messages", 20, 4)])])
def test_over_messages_is_the_largest_allowed_number(number: int, gone: list[Shown]):
    assert folds(Folding("f", over_messages=8, keep=4, summary_tokens=20), number) == gone


@each_row(("keep", "gone"), [(0, 8), (1, 8), (2, 7), (4, 5), (8, 1), (None, 5)])
def test_the_last_messages_stay(keep: int | None, gone: int):
    strategy = Folding("f", over_messages=8, keep=keep, summary_tokens=20)
    assert folds(strategy, 9) == [(first(gone), "too_many_messages", 20, 4)]


def test_nothing_is_folded_if_there_are_fewer_messages_than_to_keep():
    assert folds(Folding("f", over_messages=8, keep=9, summary_tokens=20), 9) == []


def test_system_messages_and_the_summary_are_not_counted():
    strategy = Folding("f", over_messages=4, keep=2, drops=True)
    system = {"role": "system", "content": "Be brief."}
    old = {"role": "user", "content": "[Summary of 9 earlier messages (max 20 tokens)]\nSo far.\n[/Summary]"}
    given = [system, old, *chat(5)[1:]]
    assert pruner().prune_conversations(given, strategy) is given
    grown = [*given, *chat(6)[5:]]
    both = {"role": "user", "content": f"{old['content']}\n\n{grown[-2]['content']}"}
    assert pruner().prune_conversations(grown, strategy) == [system, both, grown[-1]]


# By tokens


@pytest.mark.parametrize(("safe_zone", "gone"), [(902, [(first(1), "over_safe_zone", 20, 4)]), (903, [])])
def test_the_safe_zone_is_a_limit_for_tokens(safe_zone: int, gone: list[Shown]):
    assert folds(Folding("f", group_size=1, summary_tokens=20), 9, safe_zone) == gone


@pytest.mark.parametrize(("safe_zone", "gone"), [(1805, [(first(1), "over_safe_zone", 20, 4)]), (1806, [])])
def test_over_share_is_a_share_of_the_safe_zone(safe_zone: int, gone: list[Shown]):
    assert folds(Folding("f", over_share=0.5, group_size=1, summary_tokens=20), 9, safe_zone) == gone


@each_row(("size", "gone"), [(0, 1), (1, 1), (2, 2), (3, 3), (5, 5), (None, 4)])
def test_groups_are_folded_whole(size: int | None, gone: int):
    strategy = Folding("f", group_size=size, summary_tokens=20)
    assert folds(strategy, 13, 1302) == [(first(gone), "over_safe_zone", 20, 6)]


def test_the_size_of_a_group_is_that_of_the_settings_unless_the_strategy_has_its_own():
    strategy = Folding("f", summary_tokens=20)
    assert folds(strategy, 13, 1302, conversation_prune_group_size=2) == [(first(2), "over_safe_zone", 20, 6)]
    own = replace(strategy, group_size=3)
    assert folds(own, 13, 1302, conversation_prune_group_size=2) == [(first(3), "over_safe_zone", 20, 6)]


@pytest.mark.parametrize(("buffer", "gone"), [(0, 1), (0.1, 2), (0.2, 3), (0.5, 7)])
def test_folding_continues_down_to_the_buffer_below_the_safe_zone(buffer: float, gone: int):
    strategy = Folding("f", group_size=1, buffer=buffer, summary_tokens=20)
    assert folds(strategy, 13, 1302) == [(first(gone), "over_safe_zone", 20, 6)]


def test_the_buffer_does_not_trigger_folding():
    assert folds(Folding("f", group_size=1, buffer=0.5, summary_tokens=20), 13, 1303) == []


def test_with_both_triggers_the_one_that_takes_more_counts():
    many = Folding("f", over_messages=8, keep=4, group_size=1, buffer=0.1, summary_tokens=20)
    assert folds(many, 9, 902) == [(first(5), "too_many_messages", 20, 4)]
    large = replace(many, keep=8)
    assert folds(large, 9, 902) == [(first(1), "too_many_messages", 20, 4)]
    assert folds(replace(large, keep=2, buffer=0.9), 9, 902) == [(first(7), "too_many_messages", 20, 4)]


# What the summary may have


@pytest.mark.parametrize(("asked", "room"), [(20, 20), (2_000, 2 * EACH - MARK - 1)])
def test_a_summary_is_smaller_than_the_messages_that_it_replaces(asked: int, room: int):
    strategy = Folding("f", group_size=2, summary_tokens=asked)
    fold, *_ = pruner(1_212).plan(brief_requests(13), strategy).folds
    assert shown(fold) == (first(2), "over_safe_zone", room, 6)


def test_user_messages_wait_for_a_summary_with_room_for_them():
    strategy = Folding("f", group_size=2, summary_tokens=2_000)
    assert folds(strategy, 13, 1_302) == []  # of a request and an answer a summary would be as large as both
    gone, _, room, _ = folds(strategy, 13, 1_202)[0]
    assert gone == first(6)
    assert room == 1_202 // 4


def test_a_summary_has_at_most_a_quarter_of_the_safe_zone():
    strategy = Folding("f", over_messages=12, over_share=None, keep=4, summary_tokens=2_000)
    assert folds(strategy, 13, 400) == [(first(9), "too_many_messages", 100, 6)]
    assert folds(strategy, 13, 402) == [(first(9), "too_many_messages", 100, 6)]
    assert folds(strategy, 13, 404) == [(first(9), "too_many_messages", 101, 6)]


def test_the_room_of_a_summary_never_shrinks():
    strategy = Folding("f", over_messages=4, keep=2, summary_tokens=300)
    given = brief_requests(9)
    gone = [shown(fold) for fold in pruner().plan(given, strategy).folds]
    assert gone == [
        (first(3), "too_many_messages", 210 - MARK - 1, 2),
        ([3, 4, 5, 6], "too_many_messages", 300, 4),
    ]


@pytest.mark.parametrize(
    ("folded", "before", "room"),
    [
        (5_000, 0, 2_000),  # at least
        (100_000, 0, 10_000),  # a tenth of what is folded
        (30_000, 10_000, 13_000),  # and of what is folded then
    ],
)
def test_the_room_of_a_summary_scales_with_what_is_folded(folded: int, before: int, room: int):
    assert Folding("f")._room(SimpleNamespace(room=before), folded) == room  # type: ignore[arg-type]
    # What the user said is not summed up, so that the room grows by all of it.
    assert Folding("f")._room(SimpleNamespace(room=before), folded + 900, 900) == max(room, before + folded // 10 + 900)  # type: ignore[arg-type]
    assert Folding("f", summary_tokens=700)._room(SimpleNamespace(room=before), folded) == 700  # type: ignore[arg-type]


def brief_requests(number: int) -> list[dict[str, str]]:
    """So many messages, of 10 tokens each of the user's and 190 each of the model's."""
    words = ("word " * 7, "word " * 187)
    return [{"role": "assistant" if at % 2 else "user", "content": words[at % 2]} for at in range(number)]


@pytest.mark.full
def test_a_room_that_scales_is_the_same_for_a_full_history_and_for_one_that_is_fed_back():
    given, fed = chat(801), []
    ours, theirs = pruner(12_000), pruner(12_000)
    for at in range(0, len(given), 2):
        fed = ours.prune_conversations([*fed, *given[max(0, at - 1) : at + 1]], Folding("f", buffer=0.2))
        assert fed == theirs.prune_conversations(given[: at + 1], Folding("f", buffer=0.2))
    assert "(max 3000 tokens; " in fed[0]["content"]


# What is dropped


@pytest.mark.parametrize(("buffer", "gone"), [(0.0, 1), (0.1, 2)])
def test_dropped_messages_leave_no_placeholder(buffer: float, gone: int):
    strategy = Folding("f", group_size=1, buffer=buffer, drops=True)
    assert folds(strategy, 13, 1302) == [(first(gone), "over_safe_zone", 0, 6)]


@pytest.mark.parametrize(("lacking", "more"), [(0, []), (1, [([2], "over_safe_zone", 20, 4)])])
def test_the_last_messages_are_folded_if_nothing_else_suffices(lacking: int, more: list[Shown]):
    safe_zone = 7 * EACH + MARK + 20 + REPLY - lacking
    folding = Folding("f", over_messages=8, over_share=None, keep=7, group_size=1, summary_tokens=20)
    folded: Shown = (first(2), "too_many_messages", 20, 4)
    assert folds(folding, 9, safe_zone) == [folded]
    assert folds(replace(folding, over_share=1.0, then_drops=True), 9, safe_zone) == [folded, *more]


@pytest.mark.parametrize(("more", "gone"), [(0.0, [(first(4), "too_many_messages", 100, 6)]), (0.01, [])])
def test_below_the_safe_zone_user_messages_are_kept_if_a_summary_would_save_too_little(more: float, gone: list[Shown]):
    said = 2 * int((10 + SAID_TOKENS) / SAID_SHARE)
    least = (4 * EACH - 100 - MARK) / (4 * EACH - said) + more
    strategy = Folding("f", over_messages=12, keep=9, summary_tokens=100, minimum_saved=least)
    plan = pruner().plan(brief_requests(13), strategy)
    assert [shown(fold) for fold in plan.folds] == gone


@pytest.mark.parametrize(("more", "room"), [(0.0, 2), (0.01, 0)])
def test_messages_are_dropped_if_a_summary_would_save_too_little(more: float, room: int):
    given = messages("U A[c1] R[c1] A[c2] R[c2] A[c3] R[c3] A[c4] R[c4] A[c5] R[c5]", "openai_chat")
    weight = sum(entry.tokens for entry in pruner().plan(given, Folding("f")).transcript.entries[1:7])
    least = (weight - 2 - MARK) / weight + more
    strategy = Folding("f", over_messages=9, keep=4, summary_tokens=2, minimum_saved=least)
    plan = pruner().plan(given, strategy)
    assert [shown(fold) for fold in plan.folds] == [(first(7)[1:], "too_many_messages", room, 5)]


def test_out_of_reach_it_waits_until_a_tenth_of_the_safe_zone_can_be_won():
    strategy = Folding("f", group_size=1, keep=6, summary_tokens=50)
    gain = EACH - 50 - MARK
    assert folds(strategy, 7, gain * 10) == [(first(1), "over_safe_zone", 50, 3)]
    assert folds(strategy, 7, gain * 10 + 1) == []
    assert folds(strategy, 9, gain * 10 + 1) == [(first(3), "over_safe_zone", 50, 4)]


# The least harmful cut


def run_of(number: int) -> list[dict[str, str]]:
    """A request, so many messages that the model gave at once, and the next request."""
    words = [{"role": "assistant", "content": f"m{at} " * (EACH - 3)} for at in range(number)]
    return [{"role": "user", "content": "Fix it."}, *words, {"role": "user", "content": "And?"}]


def test_without_a_safe_cut_the_least_harmful_one_is_made():
    strategy = Folding("f", over_messages=6, keep=2, summary_tokens=20, retain=Retention(first_request=True))
    plan = pruner().plan(run_of(6), strategy)
    assert [shown(fold) for fold in plan.folds] == [([1, 2, 3, 4, 5], "least_harmful", 20, 1)]


@pytest.mark.parametrize(("drops", "gone"), [(False, [1, 2]), (True, [1])])
def test_it_is_no_deeper_than_the_tokens_need(drops: bool, gone: list[int]):
    retain = Retention(first_request=True)
    strategy = Folding("f", group_size=1, keep=2, drops=drops, summary_tokens=20, retain=retain)
    given = run_of(6)
    limit = pruner().count_tokens(given) - 80
    plan = pruner(limit).plan(given, strategy)
    assert [shown(fold) for fold in plan.folds] == [(gone, "least_harmful", 0 if drops else 20, 1)]


def test_messages_with_a_kept_one_between_them_are_not_neighbors():
    given = chat(4)
    strategy = replace(keep_last(9), retain=Retention(first_request=True))
    assert pruner(20).prune_conversations(given, strategy) is given


# The provider wants the user's message first


@each_row(
    ("written_in", "left"),
    [("openai_chat", 4), ("openai_responses", 4), ("anthropic", 3), ("bedrock", 3), ("gemini", 3)],
)
def test_model_messages_are_folded_too_if_the_user_must_begin(written_in: str, left: int):
    given = messages("U A[c1] R[c1] A U A U", written_in)
    plan = pruner().plan(given, Folding("f", over_messages=6, keep=4, drops=True))
    opening = [([3], "begins_with_user", 0, 3)] if left == 3 else []
    assert [shown(fold) for fold in plan.folds] == [([0, 1, 2], "too_many_messages", 0, 3), *opening]
    pruned = pruner().prune_conversations(given, Folding("f", over_messages=6, keep=4, drops=True))
    assert pruned == given[-left:]


# Large results first


def with_result(size: int) -> list[dict[str, Any]]:
    call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    lines = "one more line of output\n" * size
    return [
        {"role": "user", "content": "Fix it."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": lines},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "And?"},
    ]


def test_large_results_are_shortened_before_messages_go():
    strategy = Folding("f", group_size=1, results=PerResult(threshold=40, start_after=0))
    plan = pruner(300).plan(with_result(100), strategy)
    assert (len(plan.edits), plan.folds) == (1, ())
    assert plan.tokens <= 300


def test_protected_results_are_not_shortened():
    results = PerResult(threshold=40, start_after=0)
    strategy = Folding("f", group_size=1, results=results, protect=Protections(tools=("run",)))
    plan = pruner(300).plan(with_result(100), strategy)
    assert plan.edits == ()


# Parameters


@each_row(
    ("parameters", "said"),
    [
        ({"over_messages": -1}, "f: over_messages is -1: give a number, 0 or more, or None"),
        ({"keep": 1.5}, "f: keep is 1.5: give a number, 0 or more, or None"),
        ({"group_size": "4"}, "f: group_size is '4': give a number, 0 or more, or None"),
        ({"keep": True}, "f: keep is True: give a number, 0 or more, or None"),
        ({"summary_tokens": 0}, "f: summary_tokens is 0: give a number, 1 or more, or None"),
        ({"summary_tokens": "2k"}, "f: summary_tokens is '2k': give a number, 1 or more, or None"),
        ({"buffer": 1.0}, "f: buffer is 1.0: give a share, 0 or more and less than 1"),
        ({"buffer": -0.1}, "f: buffer is -0.1: give a share, 0 or more and less than 1"),
        ({"buffer": True}, "f: buffer is True: give a share, 0 or more and less than 1"),
        ({"minimum_saved": "0.1"}, "f: minimum_saved is '0.1': give a share, 0 or more and less than 1"),
        ({"summary_share": 0}, "f: summary_share is 0: give a share above 0, at most 1"),
        ({"summary_share": 1.5}, "f: summary_share is 1.5: give a share above 0, at most 1"),
        ({"results": 5}, "f: results is 5: give a PerResult, or None"),
        ({"over_share": 0}, "f: over_share is 0: give a share above 0, or None"),
        ({"over_share": 1.1}, "f: over_share is 1.1: give a share above 0, or None"),
        ({"over_share": "1"}, "f: over_share is '1': give a share above 0, or None"),
    ],
)
def test_an_unknown_parameter_is_reported(parameters: dict[str, Any], said: str):
    with pytest.raises(SettingsError) as refusal:
        pruner().prune(chat(3), Folding("f", **parameters))
    assert str(refusal.value) == said


# A strategy of one's own


@dataclass(frozen=True)
class Own:
    """Does what a function says, at each request."""

    edits: Callable[[FoldView], Iterable[Replace | Fold]]
    name: str = "own"
    retain: Retention | None = None

    def step(self, view: FoldView) -> Iterable[Replace | Fold]:
        return self.edits(view)


def at_end(*numbers: int, room: int = 0) -> Own:
    """Takes some messages at the fourth request."""
    fold = Fold(numbers, Reason.OVER_SAFE_ZONE, 0, room)
    return Own(lambda view: [fold] if view.request == 4 else [])


@each_row("numbers", [(), (8,), (9,), (-1,), (99,), (0, 8), (0, 99)])
def test_only_offered_messages_are_folded(numbers: tuple[int, ...]):
    given = chat(9)
    assert pruner().prune_conversations(given, at_end(*numbers)) is given


@each_row(
    ("numbers", "room", "gone"),
    [
        ((0,), 300, []),  # it will have room in a larger summary
        ((0, 1), 300, []),  # nor are the others folded, whose summary would leave it no room
        ((0, 1, 2), 300, []),  # the user's words would take more than their share of it
        ((0, 1, 2), 200, [([0, 1, 2], "over_safe_zone", 200, 4)]),  # they will always do
        ((0,), 80, [([0], "over_safe_zone", 80, 4)]),  # there will never be room for it
        ((0, 1), 100, [([0, 1], "over_safe_zone", 100, 4)]),
    ],
)
def test_the_first_request_waits_for_a_summary_that_has_room_for_it(
    numbers: tuple[int, ...], room: int, gone: list[Shown]
):
    assert folds(at_end(*numbers, room=room), 9) == gone


def test_each_edit_is_applied_before_the_next_is_requested():
    seen: list[tuple[int, int]] = []

    def one_by_one(view: FoldView) -> Iterable[Fold]:
        while view.request == 4 and view.count > 6:
            seen.append((view.count, view.tokens))
            yield Fold(view.groups()[0].messages, Reason.TOO_MANY_MESSAGES, 0)

    assert folds(Own(one_by_one), 9) == [([at], "too_many_messages", 0, 4) for at in range(3)]
    assert seen == [(9, 903), (8, 803), (7, 703)]


def test_a_part_that_was_not_offered_is_not_replaced():
    def all_results(view: FoldView) -> Iterable[Replace]:
        parts = [candidate.part for candidate in view.candidates()]
        yield from (Replace(part, "Gone.", Reason.SHORTENED, 0) for part in (*parts, *parts))
        yield from (Replace(replace(part, request=9), "Gone.", Reason.SHORTENED, 0) for part in parts)

    given = with_result(100)
    plan = pruner().plan(given, Own(all_results))
    assert [(edit.text, edit.request) for edit in plan.edits] == [("Gone.", 2)]
    assert isinstance(plan.edits[0].part, ToolResult)
    assert pruner().prune_conversations(given, Own(all_results))[2] == {**given[2], "content": "Gone."}


@each_row(("old", "new"), [("line", "line line"), ("line", "LINE")], ids=["more tokens", "as many"])
def test_a_text_that_is_not_smaller_does_not_replace_a_result(old: str, new: str):
    def rewritten(view: FoldView) -> Iterable[Replace]:
        yield from (
            Replace(one.part, one.part.text.replace(old, new), Reason.SHORTENED, 0) for one in view.candidates()
        )

    given = with_result(100)
    assert pruner().prune_conversations(given, Own(rewritten)) is given


def test_a_strategy_without_a_name_is_called_by_its_class():
    class Nameless:
        """Nothing at all."""

        def step(self, view: FoldView) -> list[Fold]:
            return []

    assert pruner().prune(chat(3), Nameless()).report.strategy == "Nameless"  # type: ignore[arg-type]


def test_a_snapshot_is_cut_at_the_start_of_a_turn():
    """Without that, it would be cut within the second turn."""
    given = chat(16)  # a turn has two messages
    turned = replace(snapshot(messages=None, keep=2, buffer=0.0), summary_tokens=20)
    limit = pruner().count_tokens(given) - 1
    cuts = {}
    for at_turns in (True, False):
        plan = pruner(limit).plan(given, replace(turned, at_turns=at_turns))
        cuts[at_turns] = [fold.messages for fold in plan.folds]
    assert all(messages[-1] % 2 == 1 for messages in cuts[True])
    assert cuts[False] != cuts[True] != []

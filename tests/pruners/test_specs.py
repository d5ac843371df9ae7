"""What the specification of conversation pruning says, by the numbers of its statements."""

import asyncio
import copy
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import pytest
from conversations import DIALECTS, Dialect
from conversations import openai_chat as chat_session
from halves import broken, halves
from profiles import sample_cases
from shipped import PRESETS
from tables import each_row
from written_short import Message, every_format, every_native_format, messages, parsed

from autoprune import (
    AgenticConversationPruner,
    ConversationPruner,
    PruneArgs,
    PruneEvent,
    Result,
    Retention,
    problems,
    prune_history,
    repair,
)
from autoprune.conversation.edits import Fold, Reason
from autoprune.conversation.summary import find_summary
from autoprune.planning.protections import BY_AGE
from autoprune.planning.view import FoldView
from autoprune.strategies import presets
from autoprune.strategies.folding import Folding
from autoprune.strategies.per_result import PerResult
from autoprune.summarizers.brief import Brief, Written
from autoprune.tokens import Memo, exact
from autoprune.wire import EMPTY, NO_RESULT

COUNT = Memo(exact())
WIDE = 10**6  # tokens: a safe zone that nothing here reaches
TIGHT = 1  # and one that nothing is within
SIZES = each_row("words", [0, 300], ids=["short", "long"])  # behind the name
LARGE = each_row("words", [40, 300], ids=["sentences", "long"])
ROLES = {"S": "system", "D": "developer", "U": "user", "A": "assistant"}


def chat(short: str, words: int = 0) -> list[Message]:
    """Messages such as "S U1 A1": each says its name, and perhaps more."""
    return [{"role": ROLES[name[0]], "content": text(name, words)} for name in short.split()]


def text(name: str, words: int = 0) -> str:
    return " ".join([name, *(f"word{at % 7}" for at in range(words))])


def names(conversation: list[Any]) -> str:
    """What `chat` was given; of a summary only its mark."""
    return " ".join(message["content"].split(maxsplit=1)[0] for message in conversation)


def turns(number: int) -> str:
    """That many turns of the user's, each answered."""
    return " ".join(f"U{at} A{at}" for at in range(1, number + 1))


def pruned(conversation: list[Any], strategy: Any, safe_zone: int = WIDE, llm: object = None, **more: Any) -> Result:
    return ConversationPruner(PruneArgs(safe_zone), llm, count=COUNT, **more).prune(conversation, strategy)


def tokens(conversation: list[Any]) -> int:
    return ConversationPruner(PruneArgs(), count=COUNT).count_tokens(conversation)


def summary(conversation: list[Any]) -> str:
    """The text of the running summary; the user's first request may stand above what a summarizer wrote."""
    found = find_summary(conversation)
    return found.text if found else ""


@dataclass
class Model:
    """A summarizer that notes what it is asked and answers the same each time, or raises it."""

    answer: Any = "They looked at the parser and fixed it."
    briefs: list[Brief] = field(default_factory=list)

    def __call__(self, brief: Brief) -> Any:
        self.briefs.append(brief)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


# Orphans and open calls


@pytest.mark.parametrize("written_in", ["anthropic", "bedrock", "gemini"])
def test_15_an_orphan_goes_and_the_words_beside_it_stay(written_in: str):
    opening, orphan, said, answer = messages("U R[x] U A", written_in)
    both = beside(orphan, said)
    after = repair([opening, answer, both, answer], written_in).conversation
    assert after == [opening, answer, holding(both, blocks(said)), answer]


@every_native_format
def test_15_a_message_left_empty_goes_and_of_nothing_but_orphans_nothing_is_left(written_in: str):
    given = messages("U R[x] A", written_in)
    assert repair(given, written_in).conversation == [given[0], given[2]]
    assert repair(messages("R[x] R[y]", written_in), written_in).conversation == []


def blocks(message: Message) -> list[Any]:
    """The content of a message as blocks."""
    content = message.get("parts", message.get("content"))
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def holding(message: Message, held: list[Any]) -> Message:
    return {**message, "parts" if "parts" in message else "content": held}


def beside(first: Message, second: Message) -> Message:
    """Two messages of one role as one."""
    return holding(first, [*blocks(first), *blocks(second)])


@every_native_format
@each_row("short", ["U A[c1]", "U A[c1] R[c1] A[c2]", "U A[c1] U A", "U A[c1] R[c1] A[c2] U"])
def test_16_open_calls_may_be_kept_for_results_that_come_later(short: str, written_in: str):
    given = messages(short, written_in)
    assert repair(given, written_in, open_calls="keep").conversation is given
    with_orphan = [given[0], *messages("R[x]", written_in), *given[1:]]
    assert repair(with_orphan, written_in, open_calls="keep").conversation == given


@every_native_format
@each_row(
    ("short", "becomes"),
    [("U A[c1]", "U"), ("U A[c1] A", "U A"), ("U A[c1] R[c1] A U A[c2]", "U A[c1] R[c1] A U"), ("U A", "U A")],
)
def test_16_open_calls_may_be_removed_and_a_response_left_empty_is_dropped(short: str, becomes: str, written_in: str):
    after = repair(messages(short, written_in), written_in, open_calls="remove").conversation
    assert after == messages(becomes, written_in)


@every_native_format
def test_16_a_response_keeps_its_answered_calls_when_open_ones_are_removed(written_in: str):
    given = [*messages("U", written_in), *called_together(written_in), *messages("R[c1] A", written_in)]
    after = repair(given, written_in, open_calls="remove").conversation
    assert after == messages("U A[c1] R[c1] A", written_in)


def called_together(written_in: str) -> list[Message]:
    """One response with the calls c1 and c2; in a format where each call is an item of its own, two items."""
    first, second = messages("A[c1] A[c2]", written_in)
    if written_in == "openai_responses":
        return [first, second]
    if written_in == "openai_chat":
        return [{**first, "tool_calls": [*first["tool_calls"], *second["tool_calls"]]}]
    return [beside(first, second)]


@every_native_format
def test_17_each_open_call_gets_a_result_and_all_of_them_stand_at_the_end(written_in: str):
    given = [*messages("U", written_in), *called_together(written_in)]
    after = repair(given, written_in).conversation
    assert after[: len(given)] == given
    assert (len(halves(parsed(after))), broken(parsed(after))) == (2, [])
    assert str(after[len(given) :]).count(NO_RESULT) == 2
    is_message_each = written_in in ("openai_chat", "openai_responses")
    assert len(after) == len(given) + (2 if is_message_each else 1)


@every_native_format
def test_17_the_results_of_interrupted_calls_say_the_given_reason(written_in: str):
    given = [*messages("U", written_in), *called_together(written_in)]
    after = repair(given, written_in, reason="Stopped by the user.").conversation
    assert str(after).count("Stopped by the user.") == 2
    assert NO_RESULT not in str(after)
    done = messages("U A[c1] R[c1] A", written_in)
    assert repair(done, written_in, reason="Stopped by the user.").conversation is done


# One half of a group goes with the other


@dataclass(frozen=True)
class Takes:
    """A strategy of somebody's that takes out one message as soon as it may."""

    message: int
    room: int = 0
    retain: Retention = BY_AGE
    name: str = "takes"

    def step(self, view: FoldView) -> Any:
        """The message, and no more."""
        yield Fold((self.message,), Reason.OVER_SAFE_ZONE, 0, self.room)


@every_format
@each_row("retain", [Retention(), Retention(system=False)], ids=["protected", "unprotected"])
@each_row("half", [3, 4])
def test_18_nobody_takes_one_half_of_a_group_without_the_other(half: int, retain: Retention, written_in: str):
    given = messages("U A[c1] R[c1] A[c2] R[c2] A[c3] R[c3] A U", written_in)
    result = pruned(given, Takes(half, retain=retain))
    assert set(result.plan.gone) in ({3, 4}, set())
    assert messages_of_pairs(result.conversation) == messages_of_pairs(given) - len(result.plan.gone)


def messages_of_pairs(conversation: list[Any]) -> int:
    """The messages that hold a call or a result, of which each has its other half."""
    found = parsed(conversation)
    assert broken(found) == []
    return sum(bool(entry.calls or entry.results) for entry in found)


@every_format
@each_row("pinned", [1, 2, 3, 4])
@each_row("strategy", [presets.keep_last(1), presets.keep_last(2), presets.truncate(1)])
def test_18_a_half_that_is_kept_keeps_the_other(strategy: Folding, pinned: int, written_in: str):
    given = messages("U A[c1] R[c1] A[c2] R[c2] A U A U", written_in)
    result = pruned(given, replace(strategy, retain=Retention(pinned={pinned})), TIGHT)
    whole = {1, 2} if pinned in (1, 2) else {3, 4}
    assert whole.isdisjoint(result.plan.gone)
    assert messages_of_pairs(result.conversation) == 2


@pytest.mark.full
@every_format
@each_row("roles", [("tool",), ("assistant", "user"), ("user", "assistant", "tool"), ("tool", "user")])
def test_18_no_pair_is_parted_whatever_goes_first_and_however_much(roles: tuple[str, ...], written_in: str):
    given = messages("U A[c1] R[c1] A U A[c2] R[c2] A[c3] R[c3] A U A U", written_in)
    whole = tokens(given)
    gone = set()
    for limit in range(whole, 0, -max(1, whole // 12)):
        result = pruned(given, replace(presets.truncate(1), retain=Retention(system=False, roles=roles)), limit)
        messages_of_pairs(result.conversation)
        gone.add(len(result.plan.gone))
    assert len(gone) > 3


@every_native_format
def test_18_ids_that_share_a_prefix_are_told_apart(written_in: str):
    first, second = "toolu_01A", "toolu_01B"  # eight characters
    given = messages(f"U A[{first}] R[{first}] A[{second}] R[{second}] A U", written_in)
    result = pruned(given, replace(presets.keep_last(1), retain=Retention(pinned={4})))
    assert set(result.plan.gone) >= {1, 2}
    assert messages_of_pairs(result.conversation) == 2
    assert second in str(result.conversation)
    assert first not in str(result.conversation)
    assert repair([given[0], *given[3:]], written_in).conversation == [given[0], *given[3:]]
    both = [given[0], given[1], *given[3:5]]  # the first one's result is lost
    assert str(repair(both, written_in).conversation).count(NO_RESULT) == 1


# Roles

ALTERNATING = ["openai_chat", "anthropic", "bedrock", "gemini"]
alternating = each_row("written_in", ALTERNATING)
in_blocks = each_row("written_in", ALTERNATING[1:])


def in_turns(conversation: list[Any], written_in: str) -> list[Any]:
    done = repair(conversation, written_in, strict_alternation=True).conversation
    assert problems(done, written_in, strict_alternation=True) == []
    return list(done)


def worded(role: str, words: str, written_in: str) -> Message:
    message = messages(role, written_in)[0]
    if written_in in ("gemini", "bedrock"):
        return holding(message, [{"text": words}])
    return {**message, "content": words}


def said(message: Message) -> list[str]:
    """The texts of a message."""
    content = message.get("parts", message.get("content"))
    return content.split("\n\n") if isinstance(content, str) else [block["text"] for block in content or ()]


@alternating
def test_19_two_messages_of_a_role_become_one_with_both_contents_in_order(written_in: str):
    given = [worded(role, f"{role}{at}", written_in) for at, role in enumerate("UUAAUU")]
    after = in_turns(given, written_in)
    assert [said(message) for message in after] == [["U0", "U1"], ["A2", "A3"], ["U4", "U5"]]


@alternating
def test_19_other_fields_of_the_first_message_are_kept(written_in: str):
    first, second = messages("U U", written_in)
    (merged,) = in_turns([{**first, "name": "ana"}, {**second, "name": "bo"}], written_in)
    assert {**merged, "content": None, "parts": None} == {**first, "name": "ana", "content": None, "parts": None}


@in_blocks
def test_20_a_result_and_the_users_words_are_one_message_where_results_are_the_users(written_in: str):
    given = messages("U A[c1] R[c1] U", written_in)
    assert in_turns(given, written_in) == [*given[:2], beside(given[2], given[3])]


def test_20_results_with_a_role_of_their_own_stay_apart():
    given = messages("U A[c1] R[c1] U", "openai_chat")
    assert repair(given, "openai_chat").conversation is given
    after = in_turns(given, "openai_chat")
    assert [message for message in given if message not in after] == []


@in_blocks
def test_20_merging_drops_no_result(written_in: str):
    results = messages("R[c1] R[c2] U", written_in)
    opening = [*messages("U", written_in), *called_together(written_in)]
    assert in_turns([*opening, *results], written_in) == [*opening, beside(beside(*results[:2]), results[2])]


@every_native_format
@LARGE
def test_21_a_summary_and_the_users_message_behind_it_are_one(words: int, written_in: str):
    given = [worded(role, text(f"{role}{at}", words), written_in) for at, role in enumerate("UAUAUA")]
    result = pruned(given, presets.chat_summary(5, keep=2), llm=Model("They began."))
    assert summary(result.conversation).endswith("They began.")
    assert result.report.messages_summarized == 4
    merged, answer = result.conversation
    assert answer is given[5]
    assert str(said(given[4])[0]) in str(merged)
    assert problems(result.conversation, written_in, strict_alternation=True) == []


def emptied(message: Message, content: str | None, written_in: str) -> Message:
    """A message that says nothing, in the way that its format can."""
    if written_in in ("gemini", "bedrock"):
        return holding(message, [] if content is None else [{"text": content}])
    return {**message, "content": content}


NOTHINGS = [(name, content) for name in ALTERNATING[1:] for content in ("", None)] + [("openai_chat", None)]


@each_row("is_strict", [False, True], ids=["lenient", "strict"])
@each_row(("written_in", "content"), NOTHINGS)
@each_row("empty", [(2,), (3,), (2, 3)], ids=["user", "response", "both"])
def test_22_a_message_that_says_nothing_gets_a_placeholder(
    empty: tuple[int, ...], written_in: str, content: str | None, is_strict: bool
):
    full = messages("U A U A U", written_in)
    given = [emptied(one, content, written_in) if at in empty else one for at, one in enumerate(full)]
    after = repair(given, written_in, strict_alternation=is_strict).conversation
    assert [said(one) for one in after] == [[EMPTY] if at in empty else ["Words."] for at in range(5)]


# Split, keep last N, turns and groups


@SIZES
@each_row(
    ("short", "keep", "becomes"),
    [
        ("U1 A1 U2", 10, "U1 A1 U2"),
        ("U1 A1 U2 A2 U3", 2, "A2 U3"),
        ("S U1 A1 U2 A2", 2, "S U2 A2"),
        ("S D U1 A1 U2", 2, "S D A1 U2"),
        ("S U1 A1 S2 U2 A2 D U3", 1, "S S2 D U3"),
    ],
)
def test_23_keep_last(short: str, keep: int, becomes: str, words: int):
    given = chat(short, words)
    kept = pruned(given, presets.keep_last(keep)).conversation
    assert names(kept) == becomes
    assert [message for message in given if message in kept] == kept
    assert (kept is given) == (short == becomes)


@SIZES
def test_23_keep_last_without_protection_of_the_systems_messages(words: int):
    strategy = replace(presets.keep_last(2), retain=Retention(system=False))
    assert names(pruned(chat("S U1 A1 U2", words), strategy).conversation) == "A1 U2"


@pytest.mark.parametrize(("written_in", "named"), [("bedrock", None), ("gemini", None), ("anthropic", "anthropic")])
def test_23_where_a_provider_wants_the_users_message_first_the_cut_moves_to_one(written_in: str, named: str | None):
    given = messages("U A U A U", written_in)
    pruner = ConversationPruner(PruneArgs(WIDE, format=named))  # words alone could be of any provider's
    assert pruner.prune_conversations(given, presets.keep_last(2)) == given[4:]


@each_row("written_in", ["anthropic", "bedrock", "gemini"])
@each_row("pinned", [{1}, {3}, {3, 5}])
def test_23_where_a_provider_wants_the_users_message_first_what_is_pinned_keeps_one_before_it(
    pinned: set[int], written_in: str
):
    given = messages("U A U A[c1] R[c1] A U", written_in)
    pruner = ConversationPruner(PruneArgs(WIDE, format=written_in))
    strategy = replace(presets.keep_last(1), retain=Retention(pinned=pinned))
    kept = pruner.prune_conversations(given, strategy)
    assert problems(given, written_in, strict_alternation=True) == []
    assert problems(kept, written_in, strict_alternation=True) == []
    assert len(kept) < len(given)


@every_format
@each_row("keep", range(1, 8))
def test_24_what_is_kept_never_begins_with_a_result_whose_call_was_cut(keep: int, written_in: str):
    given = messages("U A[c1] R[c1] A[c2] R[c2] A U A[c3] R[c3] A U", written_in)
    result = pruned(given, presets.keep_last(keep))
    messages_of_pairs(result.conversation)
    assert problems(result.conversation) == []


@SIZES
def test_10_of_ten_turns_the_last_three_are_kept_and_with_less_room_one(words: int):
    given = chat("A0 U1 A2 U3 A4 U5 A6 U7 A8 U9", words)
    strategy = replace(presets.keep_last(3), then_drops=True)
    assert names(pruned(given, strategy).conversation) == "U7 A8 U9"
    for_one = tokens(given[-1:])
    assert names(pruned(given, strategy, for_one).conversation) == "U9"


@SIZES
@each_row("preset", PRESETS)
def test_12_an_open_call_early_in_the_history_forces_nothing_to_be_kept_or_summed_up(preset: str, words: int):
    (call,) = messages("A[c1]", "openai_chat")
    given = [*chat("U1", words), call, *chat("U2 A2 U3 A3 U4 A4 U5 A5 U6", words)]
    limit = tokens(given[-3:])
    result = pruned(given, preset, limit)
    assert result.conversation[-1]["content"].endswith(text("U6", words))
    if preset in ("truncate", "hybrid", "snapshot"):
        assert result.report.within_safe_zone
        assert len(result.conversation) < len(given)


@LARGE
@each_row("preset", PRESETS)
def test_12_a_newest_message_over_the_budget_is_kept_and_reported(preset: str, words: int):
    given = [*chat("U1 A1 U2 A2"), *chat("U3", words)]
    limit = tokens(given[-1:]) - 1
    result = pruned(given, preset, limit)
    assert result.conversation[-1] is given[-1]
    assert not result.report.within_safe_zone
    assert "over the safe zone" in str(result.report)


@SIZES
@each_row("limits", [(None, None), (None, 1.0), (0, None)])
def test_13_without_limits_nothing_is_cut_and_limits_of_none_raise_nothing(limits: tuple[Any, Any], words: int):
    given = chat(turns(6), words)
    strategy = Folding("own", over_messages=limits[0], over_share=limits[1], keep=2)
    kept = pruned(given, strategy).conversation
    # A few words of the user's wait until more is folded with them: their summary has to be smaller than they are.
    assert (kept is given) == (limits[0] is None or not words)


# Dropping turns and groups


@SIZES
@pytest.mark.parametrize(("required", "becomes"), [(1, "U2 A2"), (2, "U1 A1 U2 A2")])
def test_25_the_oldest_turn_is_dropped_unless_as_many_turns_are_required(required: int, becomes: str, words: int):
    given = chat("U1 A1 U2 A2", words)
    strategy = replace(presets.truncate(2), retain=Retention(turns=required))
    kept = pruned(given, strategy, tokens(given) - 1).conversation
    assert names(kept) == becomes
    assert (kept is given) == (required == 2)
    assert pruned([], strategy, TIGHT).conversation == []


@LARGE
def test_25_no_more_turns_are_dropped_than_needed(words: int):
    given = chat(turns(5), words)
    kept = pruned(given, replace(presets.truncate(2), retain=Retention(turns=2)), tokens(given) - 1).conversation
    assert names(kept) == "U2 A2 U3 A3 U4 A4 U5 A5"


SHAPES = ["U1", "A1", "S", "S U1", "U1 A1", "U1 A1 U2", "S U1 A1 D U2 A2", "A1 A2 A3", "U1 U2 U3", "S D", "U1 A1 A2"]


@SIZES
@each_row("short", SHAPES)
def test_26_a_truncation_leaves_something_the_system_and_the_users_last_words_stay(short: str, words: int):
    given = chat(short, words)
    users = [name for name in short.split() if name[0] == "U"]
    stay = [name for name in short.split() if name[0] in "SD" or name in users[-1:]]
    for size in (None, 0, 1, 3, 6, 1_000):
        kept = pruned(given, presets.truncate(size), TIGHT).conversation
        assert kept
        assert [name for name in names(kept).split() if name in stay] == stay


# Summaries


@SIZES
@each_row("preset", PRESETS)
def test_27_what_is_short_comes_back_itself_and_no_model_is_asked(preset: str, words: int):
    model = Model()
    for given in (chat("S U1 A1 U2", words), []):
        assert pruned(given, preset, llm=model).conversation is given
    assert model.briefs == []


@LARGE
@each_row(
    ("short", "becomes"),
    [
        ("S A1 U2 A3 U4 A5 U6", "S [Summary A5 U6"),
        ("S D A1 U2 A3 U4 A5 U6", "S D [Summary A5 U6"),
        ("S A1 U2 D A3 U4 A5 S2 U6", "S [Summary D A5 S2 U6"),
    ],
)
def test_28_the_oldest_are_one_marked_summary_before_the_last_ones(short: str, becomes: str, words: int):
    given, model = chat(short, words), Model()
    result = pruned(given, presets.chat_summary(5, keep=2), llm=model)
    assert names(result.conversation) == becomes
    assert summary(result.conversation).endswith(model.answer)
    (brief,) = model.briefs
    assert [each.words for each in brief.utterances] == [text(name, words) for name in ("A1", "U2", "A3", "U4")]
    stayed = [message for message in result.conversation if message in given]
    assert stayed == [message for message in given if names([message]) not in ("A1", "U2", "A3", "U4")]


@dataclass
class Later(Model):
    """The same, awaited."""

    async def __call__(self, brief: Brief) -> Any:
        return Model.__call__(self, brief)


FAILURES = [RuntimeError("no such model"), TimeoutError(), None, "", " \n", 7, Written(""), [], frozenset()]


@each_row(
    "answer, preset",
    sample_cases(product(FAILURES, ["summarize", "hybrid", "summarize_older", "chat_summary", "sliding_window"]), 4),
)
def test_29_a_model_that_fails_is_replaced_and_the_report_says_so(preset: str, answer: Any):
    given, model = chat(f"S {turns(30)} U31", 40), Model(answer)
    result = pruned(given, preset, tokens(given) // 2, model)
    assert model.briefs
    assert any("the summary was made without a model" in note for note in result.report.fallbacks)
    assert result.conversation[-1] is given[-1]
    assert tokens(result.conversation) < tokens(given)
    without = pruned(given, preset, tokens(given) // 2)
    assert "U1" in summary(without.conversation)


@each_row("answer", FAILURES, ids=repr)
def test_29_nor_does_an_exception_leave_the_pruner_that_awaits(answer: Any):
    given = chat(f"S {turns(30)} U31", 40)
    both = []
    for model in (Model(answer), Later(answer)):
        pruner = ConversationPruner(PruneArgs(tokens(given) // 2), model)
        both.append(asyncio.run(pruner.aprune_conversations(given)))
    assert both[0] == both[1] == pruned(given, "summarize", tokens(given) // 2, Model(answer)).conversation


@pytest.mark.full
@each_row(
    "answer",
    ["", "They went on.", "on and on " * 5_000, None, RuntimeError("no")],
    ids=["blank", "short", "more", "none", "raises"],
)
@each_row("preset", PRESETS)
def test_30_the_calls_of_a_model_are_bounded_whatever_it_gives(preset: str, answer: Any):
    given = chat(f"S {turns(20)} U21", 40)
    for max_calls in (0, 1, 3):
        model = Model(answer)
        result = pruned(given, preset, tokens(given) // 2, model, max_calls=max_calls)
        assert len(model.briefs) == result.report.spent.calls <= max_calls


def test_31_whether_a_summary_is_worth_it_is_a_matter_of_tokens():
    model = Model("They said hello.")
    many = chat(f"{turns(100)} U101")
    assert pruned(many, "summarize", tokens(many), model).conversation is many
    small = chat("U1 A1 U2 A2 U3")
    assert pruned(small, presets.chat_summary(4, keep=2), llm=model).conversation is small
    assert model.briefs == []
    few = [*chat("U1 A1", 3_000), *chat("U2 A2 U3")]
    result = pruned(few, presets.summarize(1, buffer=0.0), tokens(few) - 1, model)
    assert summary(result.conversation).endswith("They said hello.")
    assert 0 in result.plan.gone


@LARGE
@each_row("preset", ["summarize", "hybrid", "summarize_older", "chat_summary", "sliding_window"])
def test_31_an_own_summary_is_known_by_its_mark_and_not_summed_up_again(preset: str, words: int):
    given, model = chat(f"S {turns(30)} U31", words), Model("They went on.")
    limit = tokens(given) * 2 // 3
    once = pruned(given, preset, limit, model).conversation
    asked = len(model.briefs)
    assert asked
    assert pruned(once, preset, limit, model).conversation is once
    assert len(model.briefs) == asked
    more = [*once, *chat(" ".join(f"A{at} U{at + 1}" for at in range(31, 60)), words)]
    again = pruned(more, preset, limit, model).conversation
    assert summary(again).endswith("They went on.")
    later = model.briefs[asked:]
    assert later
    assert not [each for brief in later for each in brief.utterances if "[Summary of" in each.words]
    if preset != "sliding_window":  # which continues summaries by level
        assert summary(once).endswith("They went on.")
        assert later[0].previous == summary(once)


# Single results


def output(name: str, number: int = 200) -> str:
    """A result of about five tokens a line."""
    return "".join(f"{name} line {at}\n" for at in range(number))


def work(*results: str, written_in: str = "openai_chat") -> list[Message]:
    """One request of the user's, and the calls that it led to, each with its result."""
    short = " ".join(f"A[c{at}] R[c{at}]" for at in range(len(results)))
    texts = iter(results)
    found = messages(f"U {short} A", written_in)
    return [saying(one, next(texts)) if entry.results else one for one, entry in zip(found, parsed(found), strict=True)]


def saying(message: Any, words: str) -> Any:
    """A message whose "Done." is something else."""
    if isinstance(message, dict):
        return {name: saying(value, words) for name, value in message.items()}
    if isinstance(message, list):
        return [saying(value, words) for value in message]
    return message.replace("Done.", words) if isinstance(message, str) else message


def outputs(conversation: list[Any]) -> list[str]:
    return [result.text for entry in parsed(conversation) for result in entry.results]


LIMIT, HARD_LIMIT = 100, 600  # tokens


def test_34_media_are_short_placeholders_to_a_summarizer():
    data = "aGVsbG8=" * 2_000
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    audio = {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    file = {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{data}", "filename": "a.pdf"}}
    look = {"type": "text", "text": "Look."}
    given, model = [{"role": "user", "content": [look, image, audio, file]}, *chat("A1 U2 A2 U3", 40)], Model()
    assert pruned(given, presets.chat_summary(4, keep=1), llm=model).conversation is not given
    first = model.briefs[0].utterances[0].words
    assert "Look." in first
    assert data[:40] not in first
    assert len(first.removeprefix("Look.")) < 100


# Within a run, which is a turn of the user's


def is_cut(conversation: list[Any]) -> list[bool]:
    return ["left out" in text for text in outputs(conversation)]


def test_35_in_the_context_all_but_the_newest_are_cut_and_the_history_holds_all_in_full():
    given = work(output("a"), output("b"), output("c"))[:-1]
    before, seen = copy.deepcopy(given), []
    answer = {"role": "assistant", "content": "It is done."}

    @prune_history(pruner=ConversationPruner(PruneArgs(WIDE)), strategy=PerResult("simple", LIMIT, start_after=2))
    def node(messages: list[Any]) -> list[Any]:
        seen.extend(messages)
        return [*messages, answer]

    history = node(given)
    assert is_cut(seen) == [True, True, False]
    assert len(seen) == len(given)
    assert given == before
    assert history == [*before, answer]


# Statistics and the other habits of forebears, for the pruner that folds


class Anything:
    """Answers every attribute and every call with itself, and is no number."""

    def __getattr__(self, name: str) -> "Anything":
        """Itself, but for what Python itself looks up."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: object, **more: object) -> "Anything":
        """Itself."""
        return self


def test_38_arbitrary_objects_may_be_given_and_an_unknown_name_is_the_default():
    args, llm = Anything(), Anything()
    ConversationPruner(args, llm)
    args.conversation_prune_safe_zone_tokens = 1_000
    events: list[PruneEvent] = []
    pruner = ConversationPruner(args, llm, on_pruned=events.append)
    given = chat(f"S {turns(30)} U31", 40)
    pruned = pruner.prune_conversations(given, strategy_name="no_such_strategy")
    assert isinstance(pruned, list)
    assert pruner.count_tokens(pruned) <= 1_000
    assert any("no_such_strategy" in note for note in events[0].report.fallbacks)
    assert pruned == pruner.prune_conversations(given)


@pytest.mark.full
@SIZES
@each_row("preset", PRESETS)
@each_row("dialect", DIALECTS)
def test_40_statistics_are_those_of_a_count_and_of_the_report(dialect: Dialect, preset: str, words: int):
    output = text("output", words)
    given = dialect([output], [output, output], "And the tests?", [output], [output], "Go on.", *[[output]] * 8)
    before = copy.deepcopy(given)
    result = ConversationPruner(PruneArgs(tokens(given) // 2)).prune(given, preset)
    figures = ConversationPruner(PruneArgs()).get_cleanup_statistics(given, result.conversation)
    assert AgenticConversationPruner(PruneArgs()).get_cleanup_statistics(given, result.conversation) == figures
    after = tokens(result.conversation)
    assert given == before
    assert (figures["original_tokens"], figures["pruned_tokens"]) == (tokens(given), after)
    assert figures["tokens_saved"] == tokens(given) - after
    assert 0 <= figures["compression_ratio"] == after / tokens(given) <= 1
    assert figures["total_messages"] == len(given)
    assert figures == result.report.statistics


@pytest.mark.parametrize("make", [AgenticConversationPruner, ConversationPruner])
def test_40_of_an_empty_conversation_and_of_a_copy_with_one_cleared_result(make: Any):
    pruner = make(PruneArgs())
    nothing = pruner.get_cleanup_statistics([], [])
    assert nothing == {**dict.fromkeys(nothing, 0), "compression_ratio": 1.0}
    given = chat_session([text("output", 500)], [text("more", 500)])
    cleaned = copy.deepcopy(given)
    cleaned[3]["content"] = pruner.replacement_message
    figures = pruner.get_cleanup_statistics(given, cleaned)
    assert (figures["tool_results_cleaned"], figures["total_messages"]) == (1, len(given))
    assert figures["tokens_saved"] == tokens(given) - tokens(cleaned) > 0

"""What each strategy clears, where it stops, and what a strategy of the user's own can and cannot do.

Expected conversations are built anew, with None in place of a cleared result, and counted as a whole.
"""

import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pytest
from conversations import ANSWER, DIALECTS, Dialect, Message, Request, oldest_first, openai_chat, words, xml
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from tables import each_row

from autoprune import AgenticConversationPruner, PruneArgs, SettingsError
from autoprune.conversation.edits import Placeholder, Replace, apply
from autoprune.conversation.transcript import ToolResult
from autoprune.planning.plan import Conditions, Plan, Reason, ThinkingPolicy
from autoprune.planning.view import Strategy, View
from autoprune.planning.walk import Walk
from autoprune.strategies.catalog import available, clearing_named
from autoprune.strategies.clearing import LowWater, ToolOutputCleanup
from autoprune.tokens import exact
from autoprune.wire import new_parser
from autoprune.wire.parsing import parse

both_dialects = each_row("dialect", DIALECTS, ids=lambda dialect: dialect.__name__)
LAST = words(40)  # a result that the model has not seen yet


def pruner(safe_zone: int, **options: int) -> AgenticConversationPruner:
    return AgenticConversationPruner(PruneArgs(safe_zone, **options))


count = AgenticConversationPruner(PruneArgs()).count_tokens


# tool_output_cleanup

SIZES = st.one_of(st.integers(0, 60), st.integers(60, 3_000))
REQUESTS = st.lists(
    st.one_of(st.lists(SIZES.map(words), min_size=1, max_size=3), SIZES.map(lambda size: f"Go on. {words(size)}")),
    min_size=1,
    max_size=8,
)


@both_dialects
@given(requests=REQUESTS, share=st.floats(0.05, 1.1))
@examples(100)
def test_cleanup_clears_oldest_first_and_no_more_than_needed(dialect: Dialect, requests: list[Request], share: float):
    messages = dialect(*requests)
    limit = int(count(messages) * share)
    expected = oldest_first(dialect, requests, lambda kept: count(kept) <= limit, count)
    result = pruner(limit).prune(messages)
    assert result.conversation == expected
    assert result.report.tokens_after == count(expected)
    assert result.report.within_safe_zone == (count(expected) <= limit)
    if result.plan.edits:
        assert count(apply(messages, result.plan.edits[:-1])) > limit


@both_dialects
@pytest.mark.parametrize("overhead", [0, 700])
def test_out_of_reach_all_seen_results_go_and_the_report_gives_the_floor(dialect: Dialect, overhead: int):
    texts = ["Please. " * 500, [words(300), "ok"], [words(400)], [words(800)]]
    tight = pruner(1_000, overhead_tokens=overhead)
    report = tight.prune(dialect(*texts)).report
    floor = dialect("Please. " * 500, [None, "ok"], [None], [words(800)])
    assert tight.prune_conversations(dialect(*texts)) == floor
    assert (report.within_safe_zone, report.results_cleared) == (False, 2)
    assert sum(report.floor.values()) == report.tokens_after == count(floor) + overhead > 1_000
    assert report.floor["sent beside"] == count([]) + overhead + 3
    assert report.floor["unseen"] >= 700


# low_water


ROOMY: list[Request] = [[words(300)] for _ in range(9)] + [[LAST]]


@both_dialects
@each_row("target", [0.3, 0.5, 0.75, 1.0])
def test_low_water_clears_down_to_its_target(dialect: Dialect, target: float):
    messages = dialect(*ROOMY)
    limit = count(messages) - 1
    result = pruner(limit).prune(messages, LowWater(target, minimum_reclaim=0))
    assert result.conversation == oldest_first(dialect, ROOMY, lambda kept: count(kept) <= target * limit, count)
    assert {str(edit.reason) for edit in result.plan.edits} == {"to_target"}


def test_low_water_saves_its_minimum_if_the_target_needs_less():
    messages = openai_chat(*ROOMY)
    limit = count(messages) - 1
    least = count(messages) - 0.5 * limit
    result = pruner(limit).prune(messages, LowWater(target=1.0, minimum_reclaim=0.5))
    assert result.conversation == oldest_first(openai_chat, ROOMY, lambda kept: count(kept) <= least, count)


@each_row(
    "parameters",
    [
        *({"target": target} for target in (0, -0.5, 1.01, float("nan"), float("inf"), "0.6", None)),
        *({"minimum_reclaim": share} for share in (-0.1, 1.01, float("nan"), "0.1", None)),
    ],
    ids=str,
)
def test_low_water_refuses_invalid_shares(parameters: dict[str, float]):
    strategy, ((name, value),) = LowWater(**parameters), parameters.items()
    with pytest.raises(SettingsError) as refusal:
        pruner(100).prune(openai_chat(*ROOMY), strategy)
    range_ = {"target": "above 0 and at most 1", "minimum_reclaim": "0 to 1"}[name]
    assert str(refusal.value) == f"low_water: {name} is {value!r}: give a share of the safe zone, {range_}"


# In a loop


def loop(dialect: Dialect, seed: int) -> Iterator[list[Message]]:
    """The history of a long session at each of its requests."""
    chance = random.Random(seed)
    requests: list[Request] = []
    for _ in range(40):
        results = [words(int(chance.lognormvariate(5, 1.2))) for _ in range(chance.choice((1, 1, 2, 3)))]
        requests.append(words(chance.randrange(10, 1_500)) if chance.random() < 0.15 else results)
        yield dialect(*requests)


# A strategy of the user's own


@dataclass(frozen=True)
class LargestFirst:
    """Clear the largest results first.

    Another line.
    """

    number: int = 1
    name: str = "largest_first"

    def step(self, view: View) -> Iterable[Replace]:
        largest = sorted(view.candidates(), key=lambda candidate: -candidate.saves)
        return [candidate.cleared(Reason.OVER_SAFE_ZONE) for candidate in largest[: self.number]]


class Never:
    name = "never"

    def step(self, view: View) -> Iterable[Replace]:
        return ()


MIXED = [[words(100)], [words(900)], [words(300)], [LAST]]
WITHOUT_LARGEST = [[words(100)], [None], [words(300)], [LAST]]


@both_dialects
def test_a_strategy_may_be_passed_as_a_value(dialect: Dialect):
    messages = dialect(*MIXED)
    tight = pruner(count(messages) - 1)
    result = tight.prune(messages, LargestFirst())
    assert result.conversation == dialect(*WITHOUT_LARGEST)
    assert (result.report.strategy, result.report.fallbacks) == ("largest_first", ())
    assert tight.plan(messages, LargestFirst()).edits != ()
    assert tight.prune_conversations(messages, LargestFirst(number=2)) == dialect([words(100)], [None], [None], [LAST])
    assert tight.prune_conversations(messages, Never()) is messages


@both_dialects
def test_a_strategy_may_be_added_to_the_named_ones(dialect: Dialect):
    messages = dialect(*MIXED)
    tight = pruner(count(messages) - 1)
    tight.strategies["mine"] = LargestFirst()
    tight.strategies["never"] = Never()
    assert tight.prune_conversations(messages, "mine") == dialect(*WITHOUT_LARGEST)
    safe_zone = {"safe_zone_tokens": count(messages) - 1}
    assert tight.get_available_strategies()[-2:] == [
        {"name": "mine", "description": "Clear the largest results first.", "config": {**safe_zone, "number": 1}},
        {"name": "never", "description": "", "config": safe_zone},
    ]
    assert list(pruner(1).strategies) == list(available())


@dataclass(frozen=True)
class Everything:
    """Puts a text in place of every result of a conversation, twice, offered or not."""

    results: tuple[ToolResult, ...]
    text: str
    name = "everything"

    def step(self, view: View) -> Iterable[Replace]:
        list(view.candidates())
        return [Replace(result, self.text, Reason.TO_TARGET, 1_000_000) for result in self.results * 2]


def planned(messages: list[Message], text: str) -> tuple[Plan, tuple[ToolResult, ...]]:
    """What comes of the strategy's edits, and the results of which it made them."""
    transcript = parse(messages, new_parser(exact()), fixed_tokens=3)
    strategy = Everything(transcript.results, text)
    walk = Walk(Conditions(strategy, 1, 0, ThinkingPolicy.REPORT), 3, Placeholder(exact()))
    walk.extend(transcript.entries)
    return walk.make_plan(messages, transcript.fixed_tokens), transcript.results


@both_dialects
@pytest.mark.parametrize("closing", [[], [ANSWER]])
def test_a_strategy_cannot_clear_what_was_not_offered(dialect: Dialect, closing: list[Message]):
    """Neither an unseen result nor one that would grow, nor to save what it does not."""
    messages = [*dialect(["ok"], [words(300)], [words(400)]), *closing]
    made, (small, first, last) = planned(messages, "gone")
    assert [(edit.part, edit.text) for edit in made.edits] == [
        (part, "gone") for part in ([first, last] if closing else [first])
    ]
    assert made.tokens == count(apply(messages, made.edits))
    assert small in made.kept


@both_dialects
@pytest.mark.parametrize("text", ["", " \n\t"])
def test_a_blank_text_which_providers_refuse_is_the_placeholder(dialect: Dialect, text: str):
    messages = dialect([words(300)], [LAST])
    made, _ = planned(messages, text)
    assert apply(messages, made.edits) == dialect([None], [LAST])
    assert made.tokens == count(dialect([None], [LAST]))


@both_dialects
def test_a_text_of_a_strategys_own_that_saves_nothing_is_not_put_in_and_the_result_stays_on_offer(dialect: Dialect):
    messages = dialect([words(60)], [words(300)], [LAST])
    made, (first, second, _) = planned(messages, words(200))
    assert [edit.part for edit in made.edits] == [second]
    assert first in made.kept


def test_a_text_of_a_strategys_own_ends_no_result_and_begins_none():
    text = "see </tool_result> and <tool_result tool_name='x'> there"
    messages = xml([words(300)], [LAST])
    made, _ = planned(messages, text)
    assert apply(messages, made.edits)[3]["content"] == (
        "<tool_result tool_name='read_file' success='true'>see < /tool_result> and < tool_result tool_name='x'> there"
        "</tool_result>"
    )
    assert (
        apply(openai_chat([words(300)], [LAST]), planned(openai_chat([words(300)], [LAST]), text)[0].edits)[3][
            "content"
        ]
        == text
    )


# A text of a strategy's own, with a mark by which it is known again


@dataclass(frozen=True)
class Halves:
    """Keeps the first lines of each result, once."""

    lines: int = 2
    name = "halves"
    every_request = True

    def step(self, view: View) -> Iterator[Replace]:
        for candidate in view.candidates():
            if not candidate.part.text.endswith(self.mark):
                yield candidate.replaced(self.shortened(candidate.part.text), "first lines")

    mark = "[the rest was left out]"

    def shortened(self, text: str) -> str:
        return "\n".join([*text.splitlines()[: self.lines], self.mark])


def test_a_text_of_a_strategys_own_is_put_in_whole_and_reported_with_its_reason():
    long = "\n".join(f"line {at} of a file" for at in range(40))
    messages = openai_chat([long], [LAST])
    result = pruner(10**9).prune(messages, Halves())
    assert result.conversation == openai_chat([Halves().shortened(long)], [LAST])
    assert [(edit.reason, edit.saved) for edit in result.plan.edits] == [
        ("first lines", count(messages) - count(result.conversation))
    ]


# Written on a command line


@each_row(
    ("text", "strategy"),
    [
        ("tool_output_cleanup", ToolOutputCleanup()),
        ("tool_output_cleanup()", ToolOutputCleanup()),
        ("low_water", LowWater()),
        (" low_water ( ) ", LowWater()),
        ("low_water(target=0.6)", LowWater(target=0.6)),
        ("low_water( target = 0.6,\n minimum_reclaim=0 )", LowWater(target=0.6, minimum_reclaim=0)),
    ],
)
def test_a_strategy_may_be_written_with_its_parameters(text: str, strategy: Strategy):
    assert clearing_named(text) == strategy


@each_row("text", ["", "  ", "high_water", "high_water(target=1)", "high_water(target=0.6"])
def test_a_text_that_names_no_strategy_is_refused_with_the_names_that_do(text: str):
    with pytest.raises(SettingsError) as refusal:
        clearing_named(text)
    assert str(refusal.value) == f"there is no strategy {text!r}; there are {', '.join(available())}"


@each_row("text", ["low-water", "LowWater", "lower_water", "low water(target=0.6)", "lowwater"])
def test_the_strategy_that_is_nearest_to_a_text_is_offered(text: str):
    with pytest.raises(SettingsError) as refusal:
        clearing_named(text)
    assert str(refusal.value) == (
        f"there is no strategy {text!r} (did you mean low_water?); `autoprune strategies` lists all"
    )


@pytest.mark.parametrize("text", ["low_water(targt=0.6)", "low_water(minimum_reclaim=1, Target=0.6)"])
def test_the_parameter_that_is_nearest_to_a_word_is_offered(text: str):
    with pytest.raises(SettingsError, match=r"did you mean target\?\); low_water has the parameters: target="):
        clearing_named(text)


@each_row(
    ("text", "why"),
    [
        ("low_water(target=nan)", "nan is not a value: write a number, or a text in quotes"),
        ("low_water(protect={'tools': [read_file]})", "read_file is not a value: write a number, or a text in quotes"),
        ("low_water(", "the bracket is not closed at its end"),
        ("low_water(target=0.6) or so", "the bracket is not closed at its end"),
        ("low_water(clamp={'head': 0.2, 'tail': 1})", "clamp has no 'tail', but max_result_tokens, head"),
        ("low_water(protect={'last_results': 3, 3: 4})", "protect has no 3, but tools, paths, last_results"),
    ],
)
def test_a_value_that_is_none_is_named(text: str, why: str):
    with pytest.raises(SettingsError) as refusal:
        clearing_named(text)
    assert str(refusal.value).startswith(f"strategy {text!r} cannot be read ({why}")
    assert "); low_water has the parameters: target=0.75" in str(refusal.value)


@each_row(
    "text",
    [
        "low_water(0.6)",
        "low_water(0.6, minimum_reclaim=0)",
        "low_water(**{'target': 0.6})",
        "low_water(goal=0.6)",
        "low_water(name='mine')",
        "low_water(target=0.6, target=0.7)",
        "low_water(target=)",
        "low_water(target=open('a'))",
        "low_water(target=1 +)",
        "low_water(target=0.6)(minimum_reclaim=0)",
        "low_water(target=0.6) + f(minimum_reclaim=0)",
    ],
)
def test_parameters_that_cannot_be_read_are_refused_with_those_there_are(text: str):
    with pytest.raises(SettingsError) as refusal:
        clearing_named(text)
    known = (
        "low_water has the parameters: target=0.75, minimum_reclaim=0.1, protect={}, clamp=None, clear_tool_inputs=None"
    )
    said = str(refusal.value)
    assert said.startswith(f"strategy {text!r} cannot be read")
    assert said.endswith(f"; {known}")
    assert (" (it has no goal); " in said) == ("goal" in text)


def test_a_strategy_takes_only_the_parameters_that_it_has():
    known = "tool_output_cleanup has the parameters: protect={}, clamp=None, clear_tool_inputs=None"
    with pytest.raises(SettingsError, match=re.escape(known)):
        clearing_named("tool_output_cleanup(target=0.6)")


def test_the_helpers_of_these_tests_agree_with_one_another():
    """A conversation with a result given as None is what the pruner writes, in both dialects."""
    for dialect in (openai_chat, xml):
        assert count(dialect([None])) < count(dialect([words(100)]))
        assert pruner(1).prune_conversations([*dialect([words(100)]), ANSWER]) == [*dialect([None]), ANSWER]


# Reasons and what is seen of a candidate


@dataclass(frozen=True)
class Oldest:
    """Clear what is older than some requests, with a reason of its own."""

    reason: str = "older than two requests"
    name = "oldest"

    def step(self, view: View) -> Iterator[Replace]:
        """All that is old enough."""
        for candidate in view.candidates():
            if view.request - candidate.sent >= 2 and candidate.target:
                yield candidate.cleared(self.reason)


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("older than two requests", "older than two requests"),
        ("  two\nlines ", "two lines"),
        ("x" * 200, "x" * 79 + "…"),
        ("to_target", "the prompt was above the safe zone: oldest first, to the target"),
    ],
)
def test_a_reason_of_the_strategys_own_is_reported(reason: str, shown: str):
    messages = openai_chat(*[[words(300)]] * 4, [LAST])
    report = pruner(1).prune(messages, Oldest(reason)).report
    rows = [row for row in report.rows if row["cleared"]]
    assert [row["why"] for row in rows] == [shown] * 3
    assert shown in str(report.to_dict())


@pytest.mark.parametrize("reason", ["", " \n", None, 7])
def test_a_reason_that_is_no_text_is_refused(reason: object):
    with pytest.raises(SettingsError, match="give a short text"):
        pruner(1).prune(openai_chat(*[[words(300)]] * 4, [LAST]), Oldest(reason))  # type: ignore[arg-type]

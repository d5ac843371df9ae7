"""The class that folds and drops, as a caller uses it: names, usage, the store, events, thinking, reports."""

import asyncio
import pickle
from collections.abc import MutableMapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from rich.console import Console
from shipped import PRESETS
from tables import each_row
from written_short import every_format, messages

from autoprune import (
    AgenticConversationPruner,
    ConversationPruner,
    PruneArgs,
    PruneEvent,
    Report,
    Result,
    Retention,
    RuleError,
    SettingsError,
)
from autoprune.conversation.edits import Fold, Reason
from autoprune.conversation.summary import find_summary
from autoprune.planning.thinking import drop_block
from autoprune.planning.view import Candidate, FoldView
from autoprune.strategies.folding import Folding
from autoprune.strategies.per_result import PerResult
from autoprune.strategies.presets import chat_summary, keep_last, summarize, truncate
from autoprune.summarizers.brief import Brief, Written
from autoprune.summarizers.chunked import Chunked
from autoprune.summarizers.openai_summarizer import OpenAISummarizer
from autoprune.summarizers.sections import LEAVES_OUT
from autoprune.summarizers.selection import summarizer_of
from autoprune.tokens import TextCache, scale_tokens

EACH = 100  # tokens of a message, by `count`
Message = dict[str, Any]


def count(text: str) -> int:
    return len(text.split())


def chat(number: int) -> list[Message]:
    """So many messages, of 100 tokens each: the user's, the model's, the user's."""
    return [{"role": "assistant" if at % 2 else "user", "content": f"m{at} " * (EACH - 3)} for at in range(number)]


def faults(result: Result) -> list[str]:
    """What the report says, but for what a small summary leaves out of the user's words."""
    return [note for note in result.report.fallbacks if not note.startswith(LEAVES_OUT)]


def pruner(safe_zone: int = 600, llm: object = None, **more: Any) -> ConversationPruner:
    return ConversationPruner(PruneArgs(safe_zone), llm, count=count, **more)


@dataclass
class Model:
    """A summarizer that notes what it is asked, and answers the same each time."""

    answer: Any = "They talked."
    briefs: list[Brief] = field(default_factory=list)

    def __call__(self, brief: Brief) -> Any:
        self.briefs.append(brief)
        return self.answer


class Broken(Model):
    """One that must not be asked."""

    def __call__(self, brief: Brief) -> Any:
        raise AssertionError("a model was asked")


def said(result: Result) -> str:
    """The text of the running summary."""
    found = find_summary(result.conversation)
    return found.text if found else ""


# Names and habits


def test_a_client_is_not_a_summarizer_and_the_report_says_so():
    result = pruner(llm=SimpleNamespace(chat=None)).prune(chat(9))
    said = "llm is a SimpleNamespace and no summarizer (see OpenAISummarizer): no model was asked"
    assert faults(result) == [said]
    assert result.conversation == pruner().prune_conversations(chat(9))


@pytest.mark.parametrize("strategy", [Folding, object(), 7, lambda view: []])
def test_a_value_that_is_not_a_strategy_is_rejected(strategy: Any):
    with pytest.raises(SettingsError, match="is not a strategy: give a name or an object with a method step"):
        pruner().prune(chat(3), strategy)


@pytest.mark.parametrize("size", [0, 9, 100])
def test_a_size_of_groups_that_is_too_large_or_none_empties_no_conversation(size: int):
    args = SimpleNamespace(conversation_prune_safe_zone_tokens=1, conversation_prune_group_size=size)
    given = [{"role": "system", "content": "Be brief."}, *chat(9)]
    for name in ("truncate", "summarize", "hybrid"):
        try:
            pruned = ConversationPruner(args, count=count).prune_conversations(given, name)
        except SettingsError as error:
            assert (size, str(error)[:23]) == (0, "the group size is 0: gi")  # noqa: PT017
            continue
        assert (pruned[0], pruned[-1]["content"][-9:]) == (given[0], given[-1]["content"][-9:])


def test_a_value_that_is_not_a_list_is_rejected():
    with pytest.raises(Exception, match="the conversation must be a list of messages, not tuple: give list"):
        pruner().prune(tuple(chat(3)))  # type: ignore[arg-type]


# Async


def test_an_asynchronous_summarizer_is_awaited():
    async def later(brief: Brief) -> str:
        return f"{len(brief.utterances)} messages."

    given = chat(9)
    awaited = asyncio.run(pruner(llm=later).aprune(given))
    assert awaited.conversation == pruner(llm=later).prune_conversations(given)
    assert said(awaited).endswith("5 messages.")


# What the provider reported


def counted(tokens: int) -> dict[str, Any]:
    """That many tokens of a prompt and its answer, as each provider reports them."""
    return {
        "OpenAI Chat": {"prompt_tokens": tokens - 10, "completion_tokens": 10, "total_tokens": tokens},
        "OpenAI Responses": SimpleNamespace(input_tokens=tokens - 10, output_tokens=10),
        "Anthropic": {
            "input_tokens": 5,
            "cache_read_input_tokens": tokens - 20,
            "cache_creation_input_tokens": 5,
            "output_tokens": 10,
        },
        "Bedrock": {"inputTokens": tokens - 10, "outputTokens": 10},
        "Gemini": SimpleNamespace(prompt_token_count=tokens - 10, candidates_token_count=10),
        "Gemini's JSON": {"promptTokenCount": tokens - 10, "candidatesTokenCount": 10},
    }


@each_row("provider", counted(0))
def test_what_the_provider_reported_is_what_triggers_compare(provider: str):
    given, safe_zone = chat(5), 600
    assert pruner(safe_zone).prune_conversations(given, truncate(1)) is given
    # The user's last message is not in the prompt that the usage is of.
    enough, more = (counted(safe_zone - EACH + extra)[provider] for extra in (0, 1))
    assert pruner(safe_zone).prune_conversations(given, truncate(1), usage=enough) is given
    assert pruner(safe_zone).prune_conversations(given, truncate(1), usage=more) == given[2:]


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": 0}, SimpleNamespace(), "many"])
def test_a_usage_that_names_no_tokens_is_said_and_counts_for_nothing(usage: object):
    result = pruner().prune(chat(9), usage=usage)
    assert result.conversation == pruner().prune_conversations(chat(9))
    assert f"usage is {usage!r}: it names no input tokens" in result.report.fallbacks[0]


def test_a_pruner_that_clears_results_notes_that_it_does_not_use_a_usage():
    report = AgenticConversationPruner(PruneArgs(600)).prune(chat(2), usage={"input_tokens": 9_000}).report
    assert report.fallbacks == ("the usage was not used: a pruner that folds no messages takes it as calibration",)
    assert report.tokens_before < 600


def test_both_pruners_tell_a_strategy_how_long_the_user_paused():
    paused = []
    own = SimpleNamespace(name="own", step=lambda view: paused.append(view.pause) or (), every_request=True)
    for kind in (AgenticConversationPruner, ConversationPruner):
        kind(PruneArgs(10)).prune(chat(3), own, pauses={3: 60.0})
    assert paused == [0.0, 60.0, 0.0, 60.0]


@each_row("strategy", [*PRESETS])
@each_row("calibration", [1.0, 2.0])
@each_row("reported", [50, 700, 9_000])
def test_the_report_says_by_the_usage_whether_the_safe_zone_is_met(strategy: str, calibration: float, reported: int):
    given, usage, safe_zone = chat(5), {"input_tokens": reported}, int(600 * calibration)
    result = pruner(safe_zone).prune(given, strategy, usage=usage, calibration=calibration)
    report = result.report
    # The message behind the answer is not in the prompt that the usage is of.
    assert report.tokens_before == pytest.approx(reported + EACH * calibration, abs=2)
    counted = pruner().count_tokens(given), pruner().count_tokens(result.conversation)
    assert report.tokens_saved == pytest.approx(calibration * (counted[0] - counted[1]), abs=2)
    assert report.within_safe_zone == (report.tokens_after <= safe_zone)
    assert scale_tokens(sum(report.floor.values()), calibration) == report.tokens_after
    assert f"{'within' if report.within_safe_zone else 'over'} the safe zone of {safe_zone:,}" in str(report)


def test_the_safe_zone_may_be_a_share_of_the_models_window():
    args = PruneArgs(0.01, model="claude-sonnet-4-5", overhead_tokens=1_000)
    result = ConversationPruner(args, count=count).prune(chat(13))
    assert (result.report.safe_zone, result.report.within_safe_zone) == (2_000, True)
    assert result.report.messages_summarized > 0


# The store


def test_what_a_model_wrote_is_not_asked_for_again():
    store: MutableMapping[str, str] = {}
    first, second = Model(), Broken()
    result = pruner(llm=first, store=store).prune(chat(9))
    again = pruner(llm=second, store={}).prune(chat(9))
    assert (len(first.briefs), list(store.values())) == (1, [said(result)])
    assert again.report.fallbacks[0].startswith("the summarizer failed (AssertionError: a model was asked)")
    third = pruner(llm=Model(), store=store).prune(chat(9))
    assert (third.conversation, third.report.spent.calls, third.report.spent.found) == (result.conversation, 0, 1)


def test_texts_without_a_model_are_remembered_up_to_a_number_of_characters():
    memo = TextCache[str](100)
    for number in range(40):
        memo.keep(f"{number:4}", "x" * 16)
        assert memo.get("   0") == "x" * 16
    assert memo.get("  39") == memo.get("  36") == "x" * 16
    assert [number for number in range(1, 30) if memo.get(f"{number:4}")] == []


def test_pruned_output_that_is_fed_back_asks_for_what_is_new_alone():
    model = Model()
    ours = pruner(llm=model)
    pruned = ours.prune_conversations(chat(9))
    grown = [*pruned, *chat(13)[9:]]
    result = ours.prune(grown)
    assert [brief.previous for brief in model.briefs] == ["", find_summary(pruned).text]  # type: ignore[union-attr]
    assert result.conversation == ours.prune_conversations(chat(13))


def test_no_more_is_asked_of_a_model_than_is_allowed():
    model = Model()
    result = pruner(llm=model, max_calls=0).prune(chat(9))
    assert model.briefs == []
    said = "the summarizer failed (the calls that one prune may make are used up): the summary was made without a model"
    assert faults(result) == [said]
    assert result.report.within_safe_zone


# Who sums up


def test_a_strategys_instructions_are_the_summarizers_unless_it_has_its_own_form():
    model = OpenAISummarizer(MagicMock(), "gpt-5-mini")
    told = replace(model, style="free", instructions=chat_summary().instructions)
    assert summarizer_of(chat_summary(), model) == (told, None)
    own = replace(model, style="free", instructions="Be brief.")
    assert summarizer_of(chat_summary(), own) == (own, None)


# What a dry run is


def refused(event: PruneEvent) -> Any:
    raise AssertionError("nobody is told of a plan")


# Events


def test_a_veto_comes_before_any_model_is_asked():
    seen: list[PruneEvent] = []

    def never(event: PruneEvent) -> bool:
        seen.append(event)
        return False

    given, store = chat(9), {}
    ours = pruner(llm=Broken(), store=store, before_prune=never, on_pruned=refused)
    for result in (ours.prune(given, conversation_id="two"), asyncio.run(ours.aprune(given, conversation_id="two"))):
        assert result.conversation is given
        said = f"nothing was pruned: {never.__qualname__} (before_prune) returned False"
        assert (result.report.fallbacks, result.report.tokens_saved, result.plan.folds) == ((said,), 0, ())
    assert store == {}
    assert [(event.conversation_id, event.report.messages_summarized, event.report.spent.calls) for event in seen] == [
        ("two", 5, 0)
    ] * 2


def test_the_caller_is_told_of_what_was_done():
    told: list[dict[str, object]] = []
    model = Model(Written("They talked.", input_tokens=800, output_tokens=2, cost=0.01))
    ours = pruner(llm=model, conversation_id="one", on_pruned=lambda event: told.append(event.to_dict()))
    pruned = ours.prune_conversations(chat(9))
    del told[0]["seconds"]
    assert told == [
        {
            "conversation_id": "one",
            "strategy": "summarize",
            "tokens_before": 903,
            "tokens_after": pruner().count_tokens(pruned),
            "results_cleared": 0,
            "messages_removed": 0,
            "messages_summarized": 5,
            "first_changed_message": 0,
            "model_calls": 1,
            "cost": 0.01,
        }
    ]


# The report


def with_results(number: int) -> list[Message]:
    """Calls whose results are 100 tokens each, all of them seen."""
    given: list[Message] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Go."}]
    for at in range(number):
        call = {"id": f"c{at}", "type": "function", "function": {"name": "run", "arguments": '{"command": "make"}'}}
        given.append({"role": "assistant", "content": None, "tool_calls": [call]})
        given.append({"role": "tool", "tool_call_id": f"c{at}", "content": f"line{at} " * EACH})
    return [*given, {"role": "assistant", "content": "Done."}]


@each_row("name", PRESETS)
def test_the_figures_agree_with_each_other(name: str):
    ours, given = pruner(450, Model()), with_results(8)
    result = ours.prune(given, name)
    report = result.report
    assert report.tokens_before == ours.count_tokens(given)
    assert report.tokens_after == ours.count_tokens(result.conversation) == sum(report.floor.values())
    assert {**report.statistics} == ours.get_cleanup_statistics(given, result.conversation)


def shown(renderable: object) -> str:
    console = Console(width=140, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(renderable)
    console.file.close()
    return console.export_text()


def test_a_notebook_shows_what_went_and_why():
    page = pruner(450, Model()).prune(with_results(8), summarize(1, 0.0)).report._repr_html_()
    assert "summed up" in page
    assert "oldest first" in page


def cut_then_folded() -> Report:
    """Results cut to 50 tokens, and then messages folded; two steps are pinned."""
    results = PerResult(threshold=50, start_after=0)
    strategy = Folding("x", group_size=1, results=results, retain=Retention(pinned={2, 8}))
    return pruner(450).prune(with_results(8), strategy).report


def test_a_terminal_shows_what_was_done():
    head, tools, row = shown(cut_then_folded()).split("\n")[:3]
    done = "0 of 8 tool results cleared, 3 results cut, 8 messages summed up by x"
    assert head.rstrip() == f"888 → 338 tokens (62% saved), {done}, within the safe zone of 450"
    assert (tools.split(), row.split()) == (
        ["tool", "results", "tokens", "cleared", "saved"],
        ["run", "8", "800", "3", "156"],
    )
    assert shown(pruner().prune(chat(9), keep_last(4)).report).rstrip() == (
        "903 → 403 tokens (55% saved), 5 messages dropped (with 3 requests of the user's) by keep_last, "
        "within the safe zone of 600"
    )


def test_a_fold_loses_the_cache_of_the_prompt_before_it():
    ours, given = pruner(10**6), [{"role": "system", "content": "Be brief."}, *chat(9)]
    assert ours.prune(given, keep_last(4)).report.cache_tokens_lost == 4 * EACH
    answered = [*given, {"role": "assistant", "content": "Done."}]
    assert ours.prune(answered[:-2], keep_last(9)).report.cache_tokens_lost == 0


def test_up_to_the_summary_nothing_changes_any_more():
    given = [{"role": "system", "content": "Be brief."}, *chat(9)]
    assert pruner().prune(given).report.stable_boundary == 0
    assert pruner().prune(chat(9)).report.stable_boundary is None


def test_before_the_first_fold_only_what_can_never_be_folded_is_stable():
    given = [{"role": "system", "content": "Be brief."}, *chat(9)]
    result = pruner(10**6).prune(given)
    assert result.conversation is given
    assert result.report.stable_boundary == 0
    assert pruner(10**6).prune(chat(9)).report.stable_boundary is None
    assert pruner(10**6).prune(given, "per_result").report.stable_boundary == len(given) - 1


def test_a_summary_that_was_there_is_known_to_the_statistics():
    ours = pruner(450, Model())
    given = with_results(8)
    pruned = ours.prune_conversations(given)
    grown = [*pruned, *with_results(12)[len(given) - 1 :]]
    result = ours.prune(grown)
    assert result.report.messages_summarized > 0
    figures = ours.get_cleanup_statistics(grown, result.conversation)
    assert figures["messages_summarized"] == result.report.messages_summarized
    assert figures["messages_removed"] == 0


# Thinking


def thinking(number: int) -> list[Message]:
    """Steps with thinking before each call."""
    given: list[Message] = [{"role": "user", "content": "Go."}]
    for at in range(number):
        thought = {"type": "thinking", "thinking": f"t{at} " * 20, "signature": f"s{at}"}
        call = {"type": "tool_use", "id": f"c{at}", "name": "run", "input": {}}
        given.append({"role": "assistant", "content": [thought, call]})
        held = {"type": "tool_result", "tool_use_id": f"c{at}", "content": f"line{at} " * EACH}
        given.append({"role": "user", "content": [held]})
    return given


def with_policy(policy: str) -> Result:
    args = PruneArgs(400, thinking_policy=policy)
    return ConversationPruner(args, count=count).prune(thinking(6), truncate(1))


def test_the_api_is_told_to_drop_thinking_behind_a_fold():
    result = with_policy("drop_block")
    assert result.request_parameters == drop_block()
    assert result.report.fallbacks == ()


@pytest.mark.parametrize("pinned", [(), (3,), (1, 5)])
def test_thinking_behind_a_fold_is_taken_out_but_for_the_latest_turn(pinned: tuple[int, ...]):
    given = [*thinking(3), {"role": "assistant", "content": "So."}, {"role": "user", "content": "And?"}]
    given += thinking(3)[1:]
    ours = ConversationPruner(PruneArgs(10**6, thinking_policy="strip"), count=count)
    result = ours.prune(given, replace(keep_last(9), retain=Retention(pinned=pinned)))
    stay = [at for at in range(1, 7, 2) if at not in result.plan.gone]
    assert set(pinned) <= set(stay)
    calls = [message["content"] for message in result.conversation if "'tool_use'" in str(message)]
    assert calls == [given[at]["content"][1:] for at in stay] + [given[at]["content"] for at in (9, 11, 13)]
    assert [thought.location.message for thought in result.plan.stripped] == stay
    assert result.report.tokens_after == ours.count_tokens(result.conversation)
    assert "3 thinking blocks stay behind an edit" in result.report.fallbacks[0]


# Besides


def test_a_result_that_the_provider_would_refuse_is_refused_if_that_is_asked_for():
    given = [{"role": "user", "content": "Go."}, {"role": "tool", "tool_call_id": "gone", "content": "left"}]
    assert pruner(10**6).prune_conversations(given) is given
    with pytest.raises(RuleError, match="Your messages had such problems before they were pruned"):
        pruner(10**6).prune(given, validate=True)
    good = pruner().prune(chat(9), validate=True)
    assert faults(good) == []


@every_format
def test_the_summary_is_written_as_the_format_writes_a_message(written_in: str):
    given = messages("U A[c1] R[c1] A U A[c2] R[c2] A U", written_in)
    ours = ConversationPruner(PruneArgs(10**6), Model("They ran it."))
    strategy = Folding("f", over_messages=8, keep=1, over_share=None, summary_tokens=5)
    pruned = ours.prune_conversations(given, strategy)
    assert len(pruned) == 1
    found = find_summary(pruned)
    assert (found.text, found.messages, found.rest) == ("They ran it.", 8, given[-1])  # type: ignore[union-attr]


def test_a_strategy_of_ones_own_clears_folds_and_drops():
    @dataclass(frozen=True)
    class Own:
        """Clears the first result, folds two messages, drops two."""

        name: str = "own"

        def step(self, view: FoldView) -> Any:
            if view.request != 4:
                return
            candidates: list[Candidate] = list(view.candidates())
            yield candidates[-1].cleared(Reason.TO_TARGET)
            folded, dropped, *_ = view.groups()
            yield Fold(folded.messages, Reason.TO_TARGET, 0, 50)
            yield Fold(dropped.messages, Reason.TO_TARGET, 0)

    given = with_results(5)
    result = pruner(10**6, Model()).prune(given, Own())
    statistics = result.report.statistics
    assert [statistics[name] for name in ("messages_summarized", "messages_removed", "tool_results_cleaned")] == [
        2,
        2,
        1,
    ]


# Who is asked, and how


def asked_by(strategy: Any, llm: Any) -> Any:
    """The summarizer that a pruner settles on."""
    return summarizer_of(strategy, llm)[0]


def test_a_model_whose_window_is_known_gets_longer_histories_in_parts():
    inner = OpenAISummarizer(None, "some-model", window=9_000)  # type: ignore[arg-type]
    assert asked_by(PRESETS["snapshot"](), inner) == Chunked(inner, 7_000)


@pytest.mark.parametrize(("name", "value"), [("max_calls", None), ("max_calls", -1), ("concurrency", 0)])
def test_bounds_that_are_none_are_refused(name: str, value: Any):
    ours = ConversationPruner(PruneArgs(), **{name: value})
    with pytest.raises(SettingsError, match=f"{name} is {value!r}: give a number"):
        ours.prune([{"role": "user", "content": "Hi."}])


@pytest.mark.parametrize("store", [0, [], "folder"])
def test_a_store_that_is_no_mapping_is_refused(store: Any):
    with pytest.raises(SettingsError, match=r"store is .*: give a mutable mapping such as a dict"):
        ConversationPruner(PruneArgs(), store=store)


def test_a_message_that_nests_too_deeply_to_be_hashed_is_summed_up():
    value: dict[str, Any] = {}
    for _ in range(600):
        value = {"a": value}
    given = [
        {"role": "user", "parts": [{"text": "go " * 400}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": value}}]},
        {"role": "model", "parts": [{"text": "Done."}]},
        {"role": "user", "parts": [{"text": "Thanks."}]},
    ]
    assert ConversationPruner(100).prune(given, "hybrid").report.messages_summarized > 0


def test_a_summary_is_counted_with_its_end_marks_as_they_will_be_written():
    mark = "[/Summary] x "

    def fill(brief: Brief) -> str:
        assert pickle.loads(pickle.dumps(brief.count))(mark) == brief.count(mark)  # a summarizer may use processes
        text = mark
        while brief.count(text + mark) <= brief.max_tokens:
            text += mark
        return text

    result = ConversationPruner(PruneArgs(600), fill).prune(chat(9))
    assert result.report.messages_summarized > 0
    assert not [note for note in result.report.fallbacks if note.startswith("the summary had")]

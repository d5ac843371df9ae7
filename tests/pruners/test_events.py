"""What a caller is told of a prune, and how it is refused."""

import json
from functools import partial

import conversations
import pytest
from tables import each_row

from autoprune import AgenticConversationPruner, PruneArgs, SettingsError
from autoprune.pruners.result import Callbacks, PruneEvent

MESSAGES = conversations.openai_chat([conversations.words(900)], [conversations.words(500)])
RESULT = AgenticConversationPruner(PruneArgs(1_000), clock=iter((1.0, 1.5)).__next__).prune(MESSAGES)
EVENT = PruneEvent(RESULT.report, "conversation 7")


def test_an_event_has_the_figures_of_its_report():
    report = RESULT.report
    assert EVENT.to_dict() == {
        "conversation_id": "conversation 7",
        "strategy": "tool_output_cleanup",
        "tokens_before": report.tokens_before,
        "tokens_after": report.tokens_after,
        "results_cleared": 1,
        "messages_removed": 0,
        "messages_summarized": 0,
        "first_changed_message": 3,
        "model_calls": 0,
        "cost": None,
        "seconds": 0.5,
    }
    assert EVENT.report.plan is RESULT.plan
    assert json.loads(json.dumps(EVENT.to_dict())) == EVENT.to_dict()
    assert repr(EVENT) == "PruneEvent(conversation_id='conversation 7')"


def never(event: PruneEvent) -> bool:
    return False


class Judge:
    def __call__(self, event: PruneEvent) -> bool:
        return event.report.tokens_after > 5_000


@pytest.mark.parametrize(
    ("before_prune", "name"),
    [(never, "never"), (Judge(), "Judge"), (partial(never), "partial"), (Judge().__call__, "J")],
)
def test_false_refuses_and_the_report_can_say_who(before_prune, name: str):
    refused = Callbacks(before_prune, None).refusal(RESULT, MESSAGES)
    assert refused is not None
    assert refused.conversation is MESSAGES
    (said,) = refused.report.fallbacks
    assert said.startswith(f"nothing was pruned: {name}")
    assert said.endswith(" (before_prune) returned False")


@each_row("answer", [None, True, 0, "", [], "no"])
def test_anything_but_false_goes_on(answer: object):
    seen = []
    callbacks = Callbacks(lambda event: seen.append(event) or answer, None, "conversation 7")
    assert callbacks.refusal(RESULT, MESSAGES) is None
    assert seen == [EVENT]


def test_nobody_need_listen():
    assert Callbacks(None, None).refusal(RESULT, MESSAGES) is None
    assert Callbacks(None, None).notify(RESULT, MESSAGES) is RESULT


def before(function) -> object:
    return Callbacks(function, None).refusal(RESULT, MESSAGES)


def after(function) -> object:
    return Callbacks(None, function).notify(RESULT, MESSAGES)


@pytest.mark.parametrize("use", [before, after])
def test_what_a_callers_function_raises_comes_through(use):
    def broken(event: PruneEvent) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        use(broken)


async def later(event: PruneEvent) -> bool:
    return False


@pytest.mark.parametrize(("use", "option"), [(before, "before_prune"), (after, "on_pruned")])
def test_what_is_no_plain_function_is_refused(use, option: str):
    with pytest.raises(SettingsError, match=f"{option} is later, which is async: give a plain function"):
        use(later)
    with pytest.raises(SettingsError, match=f"{option} is 5: give a function that takes a PruneEvent"):
        use(5)

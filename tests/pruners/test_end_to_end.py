"""Agent loops with the real clients, pruned before each request, against a strict provider."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import anthropic
import pytest
from agent_loops import (
    ANTHROPIC,
    APIS,
    CAREFUL,
    OLDER_GEMINI,
    SAFE_ZONE,
    STRATEGIES,
    TASKS,
    TOLERANCE,
    TURNS,
    UNBOUND_ANTHROPIC,
    UNSTORED_RESPONSES,
    Api,
    BothStyles,
    Json,
    Run,
    Session,
    agent,
    as_it_is,
    play,
)
from profiles import is_full, size
from strict_provider.scripts import Call
from strict_provider.tools import run_tool
from tables import each_row

from autoprune import Result, calibration
from autoprune.conversation.edits import SENTENCE, Replace
from autoprune.economics import LISTS, Ledger
from autoprune.planning.view import Strategy
from autoprune.tokens import exact

# Long loops

LOOPS = [
    pytest.param(
        (name, strategy, (place + number) % 2 == 1),
        id=f"{name}-{label}",
        marks=[pytest.mark.full] if number != place % len(STRATEGIES) else [],
    )
    for place, name in enumerate(APIS)
    for number, (label, strategy) in enumerate(STRATEGIES.items())
]
CAREFUL_LOOPS = [loop for loop in LOOPS if loop.values[0][1] is CAREFUL]
CACHED = [loop for loop in LOOPS if APIS[loop.values[0][0]].least is not None]  # Bedrock's cache is not simulated
# What of the script's surprises each format writes in a request: thinking, a failed call, a picture, an id used again.
SURPRISES = {
    "chat": ('"content": "Error: ', '"tool_call_id": "call_2"'),
    "responses": ('"type": "reasoning"', '"output": "Error: ', '"type": "input_image"'),
    "anthropic": ('"type": "thinking"', '"is_error": true', '"type": "image"'),
    "gemini": ('"thoughtSignature": ', '"response": {"error": "Error: ', '"inline_data": '),
    "bedrock": ('"status": "error"', '"image": {"format": "png"'),
}


@pytest.fixture(scope="module", params=LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    """A long loop that goes on with the full history or with what was sent, and would be the same the other way."""
    name, strategy, feeds_back = request.param
    script = agent(TURNS, reuse_ids=name == "chat")
    return play(APIS[name], strategy, feeds_back=feeds_back, script=script, session=BothStyles)


def test_a_long_loop_is_never_refused(run: Run):
    assert run.refusals == []
    assert len(run.requests) == len(run.script) == len(run.spent) == TURNS + len(TASKS)
    assert run.script[-1].text in str(run.conversation[-1])
    assert {len(turn.calls) for turn in run.script} == {0, 1, 2, 3, 4}


def test_a_long_loop_has_the_surprises_of_its_format(run: Run):
    name = next(name for name, api in APIS.items() if api is run.api)
    sent = json.dumps([request.body for request in run.requests[:40]])
    assert [surprise for surprise in SURPRISES[name] if surprise not in sent] == []


def test_a_long_loop_is_pruned_hard(run: Run):
    assert str(run.pruned[-1].conversation).count(SENTENCE) >= (50 if is_full() else 20)
    assert max(spent.prompt for spent in run.spent) > 0.8 * SAFE_ZONE


def test_every_prompt_is_within_the_safe_zone_as_the_report_says_and_as_the_provider_counts(run: Run):
    pruned = [(each.report.within_safe_zone, each.report.tokens_after) for each in run.pruned]
    counted = [(*said, spent.prompt) for said, spent in zip(pruned, run.spent, strict=True)]
    assert [one for one in counted if not one[0] or max(one[1:]) > SAFE_ZONE] == []


@pytest.mark.parametrize("run", CAREFUL_LOOPS, indirect=True)
def test_giants_are_cut_and_arguments_shortened_and_failures_kept(run: Run):
    failed = [call for turn in run.script for call in turn.calls if run_tool(call.name, call.arguments).is_error]
    assert any(result.report.results_clamped for result in run.pruned)
    assert any(result.report.calls_cleaned for result in run.pruned)
    assert str(run.pruned[-1].conversation).count("failed with status") == len(failed) > 4


class Loss(NamedTuple):
    """Tokens that the cache of a provider lost between two requests, and those that the report named."""

    previous: int  # the whole prompt before
    lost: int
    reported: int
    dropped: int  # tokens that the report counts in the prompt before, and the provider does not


def losses(run: Run) -> list[Loss]:
    """From one request to the next, as far as the prompts are large enough for the cache."""
    requests = zip(run.spent, (result.report for result in run.pruned), strict=True)
    found = [
        Loss(one.prompt, one.prompt - other.cached, report.cache_tokens_lost, before.tokens_after - one.prompt)
        for (one, before), (other, report) in pairwise(requests)
    ]
    return [loss for loss in found if loss.previous >= (run.api.least or 0)]


@pytest.mark.parametrize("run", CACHED, indirect=True)
def test_an_edit_costs_what_the_report_says(run: Run):
    edits = [loss for loss in losses(run) if loss.reported]
    assert [loss for loss in edits if not is_as_reported(loss, run.api)] == []
    assert 3 <= len(edits) <= 60


@pytest.mark.parametrize("run", CACHED, indirect=True)
def test_a_ledger_expects_what_the_provider_reports(run: Run):
    ledger = Ledger(LISTS["anthropic"])
    for pruned, usage in zip(run.pruned, (None, *(spent.usage for spent in run.spent)), strict=False):
        ledger.add(pruned, usage=usage)
    # Of the first prompts, which are small, a picture may be most by our count and not by the provider's.
    known = (*ledger.unused, *ledger.reported)
    assert [(each.prompt, each.cached) for each in known] == [tuple(each[1:]) for each in run.spent[:-1]]
    assert all(each.counted < 2_000 for each in ledger.unused)
    # Thinking that the provider drops is not in its count, and grows with the loop.
    assert (0.8 if run.api.drops_thinking else 1 - 2 * TOLERANCE) < ledger.tokens_per_counted < 1 + 2 * TOLERANCE
    large = [each for each in ledger.reported if each.expected > 2 * (run.api.least or 0)]
    slack = 128 + 2 * TOLERANCE * SAFE_ZONE
    dropped = [each.counted - each.prompt if run.api.drops_thinking else 0 for each in large]
    more = [each.expected - each.cached for each in large]
    assert [each for each, lost in zip(more, dropped, strict=True) if not -slack < each < slack + lost] == []
    assert len(large) >= size(40)


def is_as_reported(loss: Loss, api: Api) -> bool:
    """Whether a loss agrees with the report: within a share and 128 tokens, which is OpenAI's step or a picture.

    The provider counts pictures and the frames of blocks by rules of its own, which is what the share is for. Thinking
    that it drops is lost no more. And its cache holds no prefix that is too short.
    """
    slack = 128 + TOLERANCE * loss.reported
    is_too_short = loss.lost == loss.previous and loss.previous - loss.reported < (api.least or 0) + slack
    dropped = loss.dropped if api.drops_thinking else 0
    return is_too_short or -slack - dropped <= loss.lost - loss.reported <= slack


# Other models, and thinking


@pytest.mark.full
@pytest.mark.parametrize(
    ("api", "strategy"),
    [(UNBOUND_ANTHROPIC, "low_water"), (UNSTORED_RESPONSES, CAREFUL), (OLDER_GEMINI, "tool_output_cleanup")],
    ids=["thinking that is not bound", "reasoning that is not stored", "Gemini 2.5"],
)
def test_other_models_refuse_nothing_either(api: Api, strategy: str | Strategy):
    run = play(api, strategy, feeds_back=True, script=agent(50), session=BothStyles)
    edits = [loss for loss in losses(run) if loss.reported]
    assert run.refusals == []
    assert [loss for loss in edits if not is_as_reported(loss, api)] == []
    assert len(edits) > 2


@pytest.mark.parametrize("feeds_back", [False, True])
def test_without_the_parameters_the_very_same_loop_is_refused(feeds_back: bool):
    silent = replace(ANTHROPIC, prepared=as_it_is)
    with pytest.raises(anthropic.BadRequestError, match="The block is bound to a different conversation"):
        play(silent, "low_water", feeds_back=feeds_back, script=agent(TURNS))


class BetweenTurns(Session):
    """A session that prunes what stands before the user's latest words, so that no tool loop is open there."""

    def edit(self, conversation: list[Any]) -> list[Any]:
        latest = max(at for at, message in enumerate(conversation) if isinstance(message["content"], str))
        self.pruned.append(self.prune(conversation[: latest + 1]))
        return [*self.pruned[-1].conversation, *conversation[latest + 1 :]]


@pytest.mark.full
@pytest.mark.parametrize("feeds_back", [False, True])
def test_thinking_is_stripped_between_turns_and_nothing_is_refused(feeds_back: bool):
    script, tasks = agent(48, TASKS * 3), TASKS * 3
    loop = partial(
        play, ANTHROPIC, "low_water", feeds_back=feeds_back, script=script, tasks=tasks, session=BetweenTurns
    )
    run = loop(thinking_policy="strip")
    assert run.refusals == []
    assert len(run.requests) == len(script) == 60
    assert sum(len(result.report.plan.stripped) for result in run.pruned) > 20
    assert [result.request_parameters for result in run.pruned if result.request_parameters] == []
    with pytest.raises(anthropic.BadRequestError, match="The block is bound to a different conversation"):
        loop(thinking_policy="report")


@pytest.mark.full
@pytest.mark.parametrize("feeds_back", [True, False], ids=["fed back", "full history"])
def test_nothing_is_pruned_any_more_where_thinking_would_be_behind_it(feeds_back: bool):
    """The model begins to think in the second half: in the first one much was cleared, and then nothing more is."""
    script = agent(60)
    half = len(script) // 2
    script = (*(replace(turn, thinking="") for turn in script[:half]), *script[half:])
    narrow = {"conversation_prune_safe_zone_tokens": SAFE_ZONE // 2, "thinking_policy": "refuse"}
    run = play(ANTHROPIC, "low_water", feeds_back=feeds_back, script=script, **narrow)
    is_refused = [
        any("were kept for the thinking" in note for note in result.report.fallbacks) for result in run.pruned
    ]
    cleared = [len(fresh(result)) for result in run.pruned]
    assert run.refusals == []
    assert len(run.requests) == len(script)
    assert is_refused == sorted(is_refused)
    assert is_refused.count(True) > 20 < sum(cleared)
    behind = (edit.part.location.path > result.plan.bound_before for result in run.pruned for edit in fresh(result))
    assert all(behind)


def fresh(result: Result) -> list[Replace]:
    """The edits of the request that a prune stands before."""
    last = len(result.plan.transcript.requests) - 1
    return [edit for edit in result.plan.edits if edit.request == last]


# Calibration

COUNTED_SHARE = 2, 3  # of the provider's tokens: what a public vocabulary counts for the newest models


def undercounted(text: str) -> int:
    counted, provided = COUNTED_SHARE
    return -(-exact()(text) * counted // provided)


def without_picture(call: Call) -> Call:
    """A call whose result has no picture: those are counted by a rule, whatever the counter."""
    if call.name != "screenshot":
        return call
    return replace(call, name="run_command", arguments={"command": f"curl {call.arguments['page']}"})


class Calibrated(Session):
    """A session that learns from each answer how the provider counts."""

    ratio = 1.0

    def edit(self, conversation: list[Any]) -> list[Any]:
        self.pruned.append(self.prune(conversation, calibration=self.ratio))
        return self.pruned[-1].conversation

    def send(self, method: Callable[..., Any], request: Json) -> Any:
        answer = super().send(method, request)
        self.ratio = calibration(self.spent[-1].usage, self.pruner.count_tokens(self.pruned[-1].conversation))
        return answer


CALIBRATED = APIS | {"anthropic": UNBOUND_ANTHROPIC}  # no thinking is dropped, which would change the ratio


@pytest.mark.full
@each_row("api", CALIBRATED.values(), ids=CALIBRATED)
def test_calibrated_by_each_answer_prompts_stay_within_the_safe_zone(api: Api):
    """To 3 %: the ratio is that of the last prompt, and the next one is another mix of texts and frames."""
    safe_zone = SAFE_ZONE // 2
    script = [replace(turn, calls=tuple(map(without_picture, turn.calls))) for turn in agent(size(50))]
    run = play(
        api,
        "low_water",
        feeds_back=True,
        script=script,
        session=Calibrated,
        count=undercounted,
        conversation_prune_safe_zone_tokens=safe_zone,
    )
    within = [spent.prompt for spent, each in zip(run.spent, run.pruned, strict=True) if each.report.within_safe_zone]
    ratios = [result.report.calibration for result in run.pruned]
    assert run.refusals == []
    assert [prompt for prompt in within if prompt > 1.03 * safe_zone] == []
    assert len(within) >= size(50)
    assert sum(ratio > 1.25 for ratio in ratios) >= size(20)

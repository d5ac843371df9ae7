"""Agent loops with the real clients whose oldest messages are folded or dropped before each request; and long runs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import anthropic
import openai
import pytest
from agent_loops import APIS, TASKS, Api, Run, Session, agent, bedrock_client
from every_format import as_bytes
from folding_cases import Stranger, words
from google import genai
from profiles import size
from shipped import PRESETS
from strict_provider.exchange import CONVERSATION
from strict_provider.scripts import Script
from strict_provider.server import serve
from tables import each_row

from autoprune import PruneArgs, Result, problems
from autoprune.conversation.summary import find_summary
from autoprune.planning.protections import Retention
from autoprune.planning.view import FoldingStrategy
from autoprune.pruners.conversation import ConversationPruner
from autoprune.strategies import presets
from autoprune.strategies.folding import Folding
from autoprune.summarizers.brief import Brief

SAFE_ZONE = 6_000
TURNS = 60  # with calls; each task ends with one more, without

# Loops with the real clients. Their conversation has a name: the provider counts its turns by that, not by what is left

NAMED = {CONVERSATION: "one"}


def named_openai(url: str) -> Any:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, default_headers=NAMED)


def named_anthropic(url: str) -> Any:
    return anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, default_headers=NAMED)


def named_gemini(url: str) -> Any:
    return genai.Client(api_key="none", http_options={"base_url": url, "headers": NAMED})


def named_bedrock(url: str) -> Any:
    client = bedrock_client(url)
    client.meta.events.register("before-call.bedrock-runtime", lambda params, **_: params["headers"].update(NAMED))
    return client


CLIENTS = {
    "chat": named_openai,
    "responses": named_openai,
    "anthropic": named_anthropic,
    "gemini": named_gemini,
    "bedrock": named_bedrock,
}
NAMED_APIS: Mapping[str, Api] = {name: replace(api, client=CLIENTS[name]) for name, api in APIS.items()}
STRATEGIES: Mapping[str, FoldingStrategy] = {
    "summarize": presets.summarize(),
    "truncate": presets.truncate(),
    "hybrid": presets.hybrid(buffer=0.4),
    "keep_last": presets.keep_last(12),
    "snapshot": presets.snapshot(messages=40, large=1_000),
    "action_trace": presets.action_trace(trigger=20),
}


@dataclass
class BothStyles(Session):
    """A session that folds in the other calling style too, and gets the very same conversation for each request."""

    history: list[Any] = field(default_factory=list)
    stored: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.other = ConversationPruner(self.pruner.args)

    def edit(self, conversation: list[Any]) -> list[Any]:
        new = conversation[len(self.pruned[-1].conversation if self.feeds_back and self.pruned else self.history) :]
        self.history += new
        self.stored += new
        ours = self.prune(conversation)
        theirs = self.other.prune(self.history if self.feeds_back else self.stored, self.strategy)
        assert as_bytes(theirs.conversation) == as_bytes(ours.conversation)
        self.pruned.append(ours)
        self.stored = list(ours.conversation)
        return ours.conversation


def play(api: Api, strategy: FoldingStrategy, *, feeds_back: bool, script: Script, llm: Any = None) -> Run:
    """A loop over an API, folded before each request."""
    args = PruneArgs(SAFE_ZONE, model=api.request["model"], overhead_tokens=api.overhead)
    ours = BothStyles(api, ConversationPruner(args, llm), strategy, feeds_back)
    # What is left of a chat may begin with the assistant, unless there is a summary or the provider wants the user.
    strict = not (strategy.drops and api is NAMED_APIS["chat"]) if isinstance(strategy, Folding) else True
    with serve(script, strict_alternation=strict) as provider, closing(api.client(provider.url)) as client:
        end = api.loop(client, TASKS, ours.edit, send=ours.send, feeds_back=feeds_back, **api.request)
        return Run(api, script, provider.requests, provider.refusals, ours.pruned, ours.spent, end)


LOOPS = [
    pytest.param(
        (api, strategy, (place + number) % 2 == 1),
        id=f"{api}-{strategy}",
        marks=[pytest.mark.full] if number % len(NAMED_APIS) != place else [],
    )
    for place, api in enumerate(NAMED_APIS)
    for number, strategy in enumerate(STRATEGIES)
]


@pytest.fixture(scope="module", params=LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    """A loop that goes on with the full history or with what was sent, and would be the same the other way."""
    api, strategy, feeds_back = request.param
    return play(NAMED_APIS[api], STRATEGIES[strategy], feeds_back=feeds_back, script=agent(TURNS))


def test_a_loop_that_is_folded_is_never_refused(run: Run):
    assert run.refusals == []
    assert len(run.requests) == len(run.script) == len(run.spent) == TURNS + len(TASKS)
    assert run.script[-1].text in str(run.conversation[-1])
    gone = sum(report.messages_summarized + report.messages_removed for report in (one.report for one in run.pruned))
    assert gone >= 60


def test_every_prompt_is_within_the_safe_zone_or_the_floor_says_what_stands_in_the_way(run: Run):
    for result, spent in zip(run.pruned, run.spent, strict=True):
        report = result.report
        assert sum(report.floor.values()) == report.tokens_after
        assert min(report.floor.values()) >= 0
        assert not report.within_safe_zone or spent.prompt <= SAFE_ZONE


# Long runs, without a provider

SYSTEM = "You are a coding agent. Never touch the folder `vendor`."
GOAL = "Make the parser of `grammar.py` read nested brackets. It must stay on Python 3.8."
LONG = size(300)


def step(number: int) -> list[Any]:
    """A call, and its result of some lines."""
    path = f"src/part_{number}.py"
    call = {"name": "read_file", "arguments": f'{{"path": "{path}"}}'}
    text = f"value_{number} = read(line)\n" * (3 + number * 7 % 40)
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"c{number}", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": f"c{number}", "content": text},
    ]


def grown(turns: int, every: int = 30) -> Iterator[list[Any]]:
    """What is added before each request: a step; after some of them the model answers, and the user wants more."""
    yield [{"role": "system", "content": SYSTEM}, {"role": "user", "content": GOAL}]
    for number in range(1, turns + 1):
        more = [{"role": "assistant", "content": "It is done."}, {"role": "user", "content": f"Now part {number}."}]
        yield [*step(number), *(more if number % every == 0 else ())]


def fed_back(pruner: ConversationPruner, strategy: FoldingStrategy, turns: int) -> Iterator[tuple[Result, list[Any]]]:
    """A run that goes on with what was sent: each prune, and the new messages before it."""
    messages: list[Any] = []
    for new in grown(turns):
        result = pruner.prune([*messages, *new], strategy)
        messages = list(result.conversation)
        yield result, new


def in_full(pruner: ConversationPruner, strategy: FoldingStrategy, turns: int) -> Iterator[tuple[Result, list[Any]]]:
    """The same run with the full history each time."""
    messages: list[Any] = []
    for new in grown(turns):
        messages += new
        yield pruner.prune(messages, strategy), new


def counted(brief: Brief) -> str:
    """A summary as a model may write it."""
    return f"{brief.previous[:200]} Then {len(brief.utterances)} more."


def said(messages: Sequence[Any]) -> str:
    return "\n".join(text for message in messages for text in words(message))


Style = Callable[[ConversationPruner, FoldingStrategy, int], Iterator[tuple[Result, list[Any]]]]
RETAINED = Retention(first_request=True)
CALLS_AT_ONCE = {"sliding_window": 3}  # one for each level of summaries
WITH_MODEL = ("summarize", "hybrid", "snapshot")


@pytest.mark.full
@each_row("style", [fed_back, in_full])
@each_row("name", [*STRATEGIES, "sliding_window", "symbolize", "chat_summary", "summarize_older"])
def test_in_a_long_run_the_goal_the_system_prompt_and_the_last_turns_are_always_there(name: str, style: Style):
    made = STRATEGIES.get(name) or PRESETS[name]()
    assert isinstance(made, Folding)
    model = Stranger("model", counted)
    pruner = ConversationPruner(PruneArgs(3_000), model)
    turns = LONG if style is fed_back else LONG // 3
    asked = 0
    for result, new in style(pruner, replace(made, retain=RETAINED), turns):
        messages, report = result.conversation, result.report
        assert messages[0]["content"] == SYSTEM
        assert GOAL in said(messages)
        assert all(message in messages for message in new[-2:])
        assert report.tokens_after == pruner.count_tokens(messages)
        assert report.within_safe_zone
        assert problems(messages, "openai_chat", strict_alternation=True) == []
        assert model.asked - asked <= CALLS_AT_ONCE.get(name, 1)
        asked = model.asked
    assert asked <= turns // 2 or name == "summarize_older"  # which sums up each message that leaves its window


@each_row("name", [*WITH_MODEL, "chat_summary", "summarize_older"])
def test_without_a_model_the_summary_holds_the_goal_of_a_long_run(name: str):
    strategy = STRATEGIES.get(name) or PRESETS[name]()
    for result, _ in fed_back(ConversationPruner(PruneArgs(3_000)), strategy, LONG):
        assert GOAL in said(result.conversation)


@pytest.mark.full
@each_row("name", STRATEGIES)
def test_the_run_continues_with_a_report_if_not_even_the_newest_result_fits(name: str):
    pruner = ConversationPruner(PruneArgs(120))
    strategy = replace(STRATEGIES[name], retain=RETAINED)
    over = [result for result, _ in fed_back(pruner, strategy, size(60)) if not result.report.within_safe_zone]
    assert len(over) > size(20)
    for result in over:
        floor = result.report.floor
        assert sum(floor.values()) == result.report.tokens_after == pruner.count_tokens(result.conversation)
        assert "over the safe zone of 120" in str(result.report)
        assert problems(result.conversation, "openai_chat", strict_alternation=True) == []


# The summarizer fails at one call after the other


@dataclass
class FailsOnce:
    """A model that is gone at one of its calls."""

    at: int
    error: BaseException
    calls: int = 0
    identity = "a model"

    def __call__(self, brief: Brief) -> str:
        self.calls += 1
        if self.calls == self.at:
            raise self.error
        return counted(brief)


SHORT = 40
CALLS = 8  # that a short run makes


def short_run(model: FailsOnce, style: Style) -> list[Result]:
    strategy = replace(presets.summarize(), retain=RETAINED)
    return [result for result, _ in style(ConversationPruner(PruneArgs(1_500), model), strategy, SHORT)]


@pytest.mark.parametrize("style", [fed_back, in_full])
def test_no_message_is_lost_and_the_run_continues_if_the_model_fails(style: Style):
    unharmed = short_run(FailsOnce(0, ConnectionError()), style)
    model = FailsOnce(0, ConnectionError("the server is gone"))
    assert len(short_run(model, style)) == SHORT + 1
    assert model.calls >= CALLS
    for at in range(1, model.calls + 1):
        results = short_run(FailsOnce(at, ConnectionError("the server is gone")), style)
        told = [result for result in results if any("the server is gone" in note for note in result.report.fallbacks)]
        # Passed in full, a history is summed up by that text until the next fold; fed back, it is written once.
        assert len(told) == 1 if style is fed_back else told
        assert len(results) == SHORT + 1
        for result, other in zip(results, unharmed, strict=True):
            assert result.plan.gone.keys() == other.plan.gone.keys()
            assert result.report.within_safe_zone
            assert bool(find_summary(result.conversation)) == bool(find_summary(other.conversation))
            assert GOAL in said(result.conversation)


@pytest.mark.parametrize("style", [fed_back, in_full])
def test_an_interruption_while_the_model_is_asked_leaves_everything_as_it_was(style: Style):
    for at in range(1, CALLS + 1):
        model = FailsOnce(at, KeyboardInterrupt())
        pruner = ConversationPruner(PruneArgs(1_500), model)
        strategy = presets.summarize()
        messages: list[Any] = []
        interrupted = 0
        for new in grown(SHORT):
            messages += new
            before = list(messages)
            try:
                result = pruner.prune(messages, strategy)
            except KeyboardInterrupt:
                interrupted += 1
                assert messages == before
                result = pruner.prune(messages, strategy)
            messages = list(result.conversation) if style is fed_back else messages
        assert interrupted == 1
        assert result.report.within_safe_zone

"""Agent loops of a hundred requests with the real clients, pruned before each request, against a strict provider."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import anthropic
import boto3
import openai
import pytest
from botocore.config import Config
from google import genai
from strict_provider import loops
from strict_provider.exchange import Refusal, Request
from strict_provider.scripts import Call, Script, Turn, agent_script
from strict_provider.server import serve
from strict_provider.tools import run_tool

from autoprune import AgenticConversationPruner, Clamp, Protections, PruneArgs, Result, ToolInputs, calibration
from autoprune.conversation.edits import Replace
from autoprune.conversation.placeholders import SENTENCE
from autoprune.planning.view import Strategy
from autoprune.providers import merged
from autoprune.strategies import LowWater
from autoprune.tokens import exact

Json = dict[str, Any]

SAFE_ZONE = 24_000
OVERHEAD = 200  # tokens of the system prompt and the tools' schemas, or a few more
TOLERANCE = 0.06  # of the tokens that a report says the cache has lost
TURNS = 96  # with calls; each task ends with one more, without
TASKS = ("Fix the parser.", "Now write its tests.", "Run them all.", "Say what has changed.")
LINES = 40  # of a file that the model writes: most strategies cannot clear them
CAREFUL = LowWater(
    clamp=Clamp(max_result_tokens=1_500),
    clear_tool_inputs=ToolInputs(),
    protect=Protections(last_results=2, failed=True),
)
STRATEGIES: dict[str, str | Strategy] = {name: name for name in ("tool_output_cleanup", "low_water")}
STRATEGIES["careful"] = CAREFUL
BINDING, UNBOUND = "claude-opus-5-5", "claude-opus-4-8"
MARK = {"type": "ephemeral"}


# The APIs


class Spent(NamedTuple):
    """What an answer says about its prompt: its usage, all tokens of the prompt, those read from the cache."""

    usage: Any
    prompt: int
    cached: int


def as_it_is(request: Json, pruned: Sequence[Result]) -> Json:
    return request


@dataclass(frozen=True)
class Api:
    """A provider's API: its loop, its client at an address, what an answer has spent, what is added to each request.

    Its cache holds `least` tokens or more, in whole steps of `step`; None: it has none. `prepared` gets a request and
    what was pruned so far, and returns the request to send.
    """

    loop: Callable[..., list[Any]]
    client: Callable[[str], Any]
    spent: Callable[[Any], Spent]
    request: Mapping[str, Any]
    least: int | None = None
    step: int = 1
    overhead: int = OVERHEAD
    drops_thinking: bool = False
    prepared: Callable[[Json, Sequence[Result]], Json] = as_it_is


def openai_client(url: str) -> Any:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def chat_spent(answer: Any) -> Spent:
    used = answer.usage
    return Spent(used, used.prompt_tokens, used.prompt_tokens_details.cached_tokens)


def responses_spent(answer: Any) -> Spent:
    used = answer.usage
    return Spent(used, used.input_tokens, used.input_tokens_details.cached_tokens)


def walked_at_times(name: str, request: Json, pruned: Sequence[Result]) -> Json:
    """The request, with its conversation as an extra field but for every 50th time: the same bytes arrive.

    The client walks over its arguments by the unions of their types, which takes ten times as long as all else here.
    """
    return request if len(pruned) % 50 == 0 else request | {name: [], "extra_body": {name: request[name]}}


def anthropic_client(url: str) -> Any:
    return anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)


def anthropic_spent(answer: Any) -> Spent:
    used = answer.usage
    whole = used.input_tokens + used.cache_read_input_tokens + used.cache_creation_input_tokens
    return Spent(used, whole, used.cache_read_input_tokens)


def told(request: Json, pruned: Sequence[Result]) -> Json:
    """The request with what the API must be told, and with cache marks: at the end, and where edits cannot reach.

    That is the stable boundary, and the one before, where there is an entry when this request has made an edit.
    """
    messages = request["messages"]
    for at in {result.report.stable_boundary for result in pruned[-2:]} - {None, len(messages) - 1}:
        messages = marked(messages, at)
    return merged(pruned[-1].request_parameters, into=request | {"messages": messages, "cache_control": MARK})


def marked(messages: list[Any], at: int) -> list[Any]:
    content = messages[at]["content"]
    *before, last = [{"type": "text", "text": content}] if isinstance(content, str) else content
    block = last if isinstance(last, dict) else last.to_dict()
    return [*messages[:at], messages[at] | {"content": [*before, block | {"cache_control": MARK}]}, *messages[at + 1 :]]


def gemini_client(url: str) -> Any:
    return genai.Client(api_key="none", http_options={"base_url": url})


def gemini_spent(answer: Any) -> Spent:
    used = answer.usage_metadata
    return Spent(used, used.prompt_token_count, used.cached_content_token_count or 0)


def bedrock_client(url: str) -> Any:
    keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none", "region_name": "us-east-1"}
    return boto3.client("bedrock-runtime", endpoint_url=url, config=Config(retries={"total_max_attempts": 1}), **keys)


def bedrock_spent(answer: Any) -> Spent:
    return Spent(answer["usage"], answer["usage"]["inputTokens"], 0)


ADAPTIVE = {"thinking": {"type": "adaptive"}}
CHAT = Api(
    loops.openai_chat,
    openai_client,
    chat_spent,
    {"model": "gpt-4.1"},
    least=1_024,
    step=128,
    prepared=partial(walked_at_times, "messages"),
)
RESPONSES = Api(
    loops.openai_responses,
    openai_client,
    responses_spent,
    {"model": "gpt-5.5"},
    least=1_024,
    step=128,
    overhead=OVERHEAD + 800,  # the provider counts a frame around each item, the library one around the model's run
    prepared=partial(walked_at_times, "input"),
)
ANTHROPIC = Api(
    loops.anthropic,
    anthropic_client,
    anthropic_spent,
    {"model": BINDING, **ADAPTIVE},
    least=512,
    drops_thinking=True,
    prepared=told,
)
GEMINI = Api(loops.gemini, gemini_client, gemini_spent, {"model": "gemini-3.1-pro-preview"}, least=4_096)
BEDROCK = Api(loops.bedrock, bedrock_client, bedrock_spent, {"model": "anthropic.claude-sonnet-4-5-20250929-v1:0"})
UNBOUND_ANTHROPIC = replace(ANTHROPIC, request={"model": UNBOUND, **ADAPTIVE}, least=1_024, drops_thinking=False)
UNSTORED = {"store": False, "include": ["reasoning.encrypted_content"]}
UNSTORED_RESPONSES = replace(RESPONSES, request=RESPONSES.request | UNSTORED)
THOUGHTS = {"thinking_config": {"include_thoughts": True}}
OLDER_GEMINI = replace(GEMINI, request={"model": "gemini-2.5-pro"} | THOUGHTS, least=2_048)


# A loop


@dataclass
class Session:
    """A loop under way: prunes before each request, keeps what it pruned and what the answers have spent."""

    api: Api
    pruner: AgenticConversationPruner
    strategy: str | Strategy
    feeds_back: bool
    pruned: list[Result] = field(default_factory=list)
    spent: list[Spent] = field(default_factory=list)

    def edit(self, conversation: list[Any]) -> list[Any]:
        self.pruned.append(self.prune(conversation))
        return self.pruned[-1].conversation

    def prune(self, conversation: list[Any], **options: Any) -> Result:
        return self.pruner.prune(conversation, self.strategy, validate=True, **options)

    def send(self, method: Callable[..., Any], request: Json) -> Any:
        answer = method(**self.api.prepared(request, self.pruned))
        self.spent.append(self.api.spent(answer))
        return answer


@dataclass
class BothStyles(Session):
    """A session that prunes in the other calling style too, and gets the very same conversation for each request."""

    history: list[Any] = field(default_factory=list)
    stored: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.other = AgenticConversationPruner(self.pruner.args)

    def edit(self, conversation: list[Any]) -> list[Any]:
        new = conversation[len(self.history) :]
        self.history += new
        self.stored += new
        ours = self.prune(conversation)
        theirs = self.other.prune(self.history if self.feeds_back else self.stored, self.strategy)
        assert theirs.conversation == ours.conversation
        assert theirs.report.cache_tokens_lost == ours.report.cache_tokens_lost
        self.pruned.append(ours)
        self.stored = list(ours.conversation)
        return ours.conversation


@dataclass(frozen=True)
class Run:
    """A loop that was played to its end."""

    api: Api
    script: Script
    requests: list[Request]
    refusals: list[Refusal]
    pruned: list[Result]
    spent: list[Spent]
    conversation: list[Any]


def brief(call: Call) -> Call:
    """A call that writes no more than a few lines."""
    if call.name != "write_file":
        return call
    lines = call.arguments["content"].split("\n")[:LINES]
    return replace(call, arguments=call.arguments | {"content": "\n".join(lines)})


def agent(turns: int, tasks: Sequence[str] = TASKS, *, reuse_ids: bool = False) -> tuple[Turn, ...]:
    """A script whose arguments are not too long."""
    script = agent_script(turns, seed=7, tasks=len(tasks), reuse_ids=reuse_ids)
    return tuple(replace(turn, calls=tuple(map(brief, turn.calls))) for turn in script)


def play(
    api: Api,
    strategy: str | Strategy,
    *,
    feeds_back: bool,
    script: Script,
    tasks: Sequence[str] = TASKS,
    session: type[Session] = Session,
    count: Callable[[str], int] | None = None,
    **args: Any,
) -> Run:
    """A loop over an API, pruned before each request by a pruner of its own."""
    args = {"conversation_prune_safe_zone_tokens": SAFE_ZONE, "overhead_tokens": api.overhead} | args
    pruner = AgenticConversationPruner(PruneArgs(model=api.request["model"], **args), count=count)
    ours = session(api, pruner, strategy, feeds_back)
    with serve(script, strict_alternation=True) as provider, closing(api.client(provider.url)) as client:
        end = api.loop(client, tasks, ours.edit, send=ours.send, feeds_back=feeds_back, **api.request)
        return Run(api, script, provider.requests, provider.refusals, ours.pruned, ours.spent, end)


# A hundred requests

APIS = {"chat": CHAT, "responses": RESPONSES, "anthropic": ANTHROPIC, "gemini": GEMINI, "bedrock": BEDROCK}
LOOPS = [
    pytest.param((name, strategy, (place + number) % 2 == 1), id=f"{name}-{label}")
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
    assert len(run.requests) == len(run.script) == len(run.spent) == TURNS + len(TASKS) == 100
    assert run.script[-1].text in str(run.conversation[-1])
    assert {len(turn.calls) for turn in run.script} == {0, 1, 2, 3, 4}


def test_a_long_loop_has_the_surprises_of_its_format(run: Run):
    name = next(name for name, api in APIS.items() if api is run.api)
    sent = json.dumps([request.body for request in run.requests[:40]])
    assert [surprise for surprise in SURPRISES[name] if surprise not in sent] == []


def test_a_long_loop_is_pruned_hard(run: Run):
    assert str(run.pruned[-1].conversation).count(SENTENCE) >= 50
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
def test_between_two_edits_the_whole_prompt_is_read_from_the_cache(run: Run):
    quiet = [loss for loss in losses(run) if not loss.reported]
    assert [loss for loss in quiet if loss.lost >= run.api.step] == []
    assert len(quiet) >= 40


@pytest.mark.parametrize("run", CACHED, indirect=True)
def test_an_edit_costs_what_the_report_says(run: Run):
    edits = [loss for loss in losses(run) if loss.reported]
    assert [loss for loss in edits if not is_as_reported(loss, run.api)] == []
    assert 3 <= len(edits) <= 60


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


@pytest.mark.parametrize("api", CALIBRATED.values(), ids=CALIBRATED)
def test_calibrated_by_each_answer_prompts_stay_within_the_safe_zone(api: Api):
    """To 3 %: the ratio is that of the last prompt, and the next one is another mix of texts and frames."""
    safe_zone = SAFE_ZONE // 2
    script = [replace(turn, calls=tuple(map(without_picture, turn.calls))) for turn in agent(50)]
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
    assert len(within) >= 50
    assert sum(ratio > 1.25 for ratio in ratios) >= 20

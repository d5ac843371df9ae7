"""Agent loops with the real clients, pruned before each request, against a strict provider."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import anthropic
import boto3
import openai
from botocore.config import Config
from google import genai
from profiles import is_full
from strict_provider import loops
from strict_provider.exchange import Refusal, Request
from strict_provider.scripts import Call, Script, Turn, agent_script
from strict_provider.server import serve

from autoprune import AgenticConversationPruner, Clamp, Protections, PruneArgs, Result, ToolInputs
from autoprune.planning.thinking import merged
from autoprune.planning.view import Strategy
from autoprune.strategies import LowWater

Json = dict[str, Any]

SAFE_ZONE = 24_000
OVERHEAD = 200  # tokens of the system prompt and the tools' schemas, or a few more
TOLERANCE = 0.06  # of the tokens that a report says the cache has lost
TURNS = 96 if is_full() else 56  # with calls; each task ends with one more, without
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


APIS = {"chat": CHAT, "responses": RESPONSES, "anthropic": ANTHROPIC, "gemini": GEMINI, "bedrock": BEDROCK}

"""Pydantic AI's models send pruned requests that a strict provider accepts."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from strict_provider.scripts import agent_script
from strict_provider.server import Provider
from strict_provider.tools import run_tool, schemas

pytest.importorskip("pydantic_ai")
from pydantic_ai import Agent, BinaryContent, ModelRetry, Tool
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import UsageLimits

from autoprune.integrations.pydantic_ai import Pruning

SAFE_ZONE = 16_384
TURNS = 30
NEVER = {"api_key": "none", "max_retries": 0}
OWN = {"type": "adaptive", "display": "summarized"}


def tool_named(name: str, parameters: dict[str, Any]) -> Tool[None]:
    """A tool of the script, whose failures ask to try again and whose pictures are files."""

    async def run(**given: Any) -> Any:
        outcome = run_tool(name, given)
        if outcome.is_error:
            raise ModelRetry(outcome.text)
        return (
            [outcome.text, BinaryContent(outcome.picture, media_type="image/png")] if outcome.picture else outcome.text
        )

    return Tool.from_schema(run, name=name, description=name, json_schema=parameters)


def anthropic(url: str) -> Any:
    client = pytest.importorskip("anthropic").AsyncAnthropic(base_url=url, **NEVER)
    models = pytest.importorskip("pydantic_ai.models.anthropic")
    provider = pytest.importorskip("pydantic_ai.providers.anthropic").AnthropicProvider(anthropic_client=client)
    settings = {"max_tokens": 4096, "anthropic_thinking": OWN, "anthropic_betas": ["interleaved-thinking-2025-05-14"]}
    return models.AnthropicModel("claude-opus-5-5", provider=provider, settings=settings)


def openai(url: str, name: str) -> Any:
    client = pytest.importorskip("openai").AsyncOpenAI(base_url=f"{url}/v1", **NEVER)
    models = pytest.importorskip("pydantic_ai.models.openai")
    provider = pytest.importorskip("pydantic_ai.providers.openai").OpenAIProvider(openai_client=client)
    return getattr(models, name)("gpt-5", provider=provider)


def chat(url: str) -> Any:
    return openai(url, "OpenAIChatModel")


def responses(url: str) -> Any:
    return openai(url, "OpenAIResponsesModel")


CLIENTS = [anthropic, *(pytest.param(each, marks=pytest.mark.full) for each in (chat, responses))]


async def finished(agent: Any) -> Any:
    async with agent.model.client:
        return await agent.run("Go.", usage_limits=UsageLimits(request_limit=None))


def play(model: Any, provider: Provider) -> list[Any]:
    """The messages of a run, after which the provider has refused nothing."""
    provider.play.script = agent_script(TURNS, seed=0)
    tools = [tool_named(name, parameters) for name, _, parameters in schemas()]
    agent = Agent(model, tools=tools, capabilities=[Pruning(SAFE_ZONE)], retries=TURNS)
    result = asyncio.run(finished(agent))
    assert [refusal.message for refusal in provider.refusals] == []
    assert len(provider.requests) == TURNS + 1
    return result.all_messages()


@pytest.mark.parametrize("client", CLIENTS)
def test_no_request_of_a_long_loop_is_refused_or_larger_than_the_safe_zone(
    client: Callable[[str], Any], strict_provider: Provider
):
    messages = play(client(strict_provider.url), strict_provider)
    spent = [message.usage.input_tokens for message in messages if isinstance(message, ModelResponse)]
    assert 0.75 * SAFE_ZONE < max(spent) <= SAFE_ZONE  # Anthropic counts no thinking that it drops


def test_parameters_for_bound_thinking_are_merged_into_the_settings(strict_provider: Provider):
    play(anthropic(strict_provider.url), strict_provider)
    first, *_, last = strict_provider.requests
    assert first.body["thinking"] == OWN
    assert last.body["thinking"] == {**OWN, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    betas = last.headers["anthropic-beta"].split(",")
    assert {"interleaved-thinking-2025-05-14", "thinking-binding-controls-2026-08-01"} <= {*betas}

"""LangChain's models send pruned requests that a strict provider accepts."""

import base64
from collections.abc import Callable
from typing import Any

import pytest
from strict_provider.scripts import agent_script
from strict_provider.server import Provider
from strict_provider.tools import run_tool, schemas

pytest.importorskip("langchain")
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool, ToolException

from autoprune import PruneArgs
from autoprune.integrations.langchain import PruningMiddleware

SAFE_ZONE = 16_384
TURNS = 30
NEVER = {"api_key": "none", "max_retries": 0}


def tool_named(name: str, parameters: dict[str, Any], *, shows: bool) -> StructuredTool:
    """A tool of the script. Its failures are errors; if it `shows` pictures, they are blocks."""

    def run(**given: Any) -> Any:
        outcome = run_tool(name, given)
        if outcome.is_error:
            raise ToolException(outcome.text)
        if outcome.picture is None or not shows:
            return outcome.text
        picture = base64.b64encode(outcome.picture).decode()
        return [{"type": "text", "text": outcome.text}, {"type": "image", "base64": picture, "mime_type": "image/png"}]

    return StructuredTool.from_function(
        run, name=name, description=name, args_schema=parameters, handle_tool_error=True
    )


def anthropic(url: str) -> Any:
    library = pytest.importorskip("langchain_anthropic")
    own = {"type": "adaptive", "display": "summarized"}
    betas = ["interleaved-thinking-2025-05-14"]
    return library.ChatAnthropic(model="claude-opus-5-5", base_url=url, betas=betas, thinking=own, **NEVER)


def chat(url: str) -> Any:
    library = pytest.importorskip("langchain_openai")
    return library.ChatOpenAI(model="gpt-5", base_url=f"{url}/v1", **NEVER)


def responses(url: str) -> Any:
    return chat(url).model_copy(update={"use_responses_api": True})


CLIENTS = [anthropic, *(pytest.param(each, marks=pytest.mark.full) for each in (chat, responses))]


def play(model: Any, provider: Provider) -> list[Any]:
    """The messages of a run, after which the provider has refused nothing."""
    provider.play.script = agent_script(TURNS, seed=0)
    shows = model.__dict__.get("use_responses_api", True) is not None  # Chat Completions takes no pictures of tools
    tools = [tool_named(name, parameters, shows=shows) for name, _, parameters in schemas()]
    agent = create_agent(model, tools, middleware=[PruningMiddleware(PruneArgs(SAFE_ZONE))])
    done = agent.invoke({"messages": [HumanMessage("Go.")]}, {"recursion_limit": 4 * TURNS})
    assert [refusal.message for refusal in provider.refusals] == []
    assert len(provider.requests) == TURNS + 1
    return done["messages"]


@pytest.mark.parametrize("client", CLIENTS)
def test_no_request_of_a_long_loop_is_refused_or_larger_than_the_safe_zone(
    client: Callable[[str], Any], strict_provider: Provider
):
    messages = play(client(strict_provider.url), strict_provider)
    spent = [message.usage_metadata["input_tokens"] for message in messages if isinstance(message, AIMessage)]
    assert 0.8 * SAFE_ZONE < max(spent) <= SAFE_ZONE
    results = [message for message in messages if isinstance(message, ToolMessage)]
    assert {message.status for message in results} == {"success", "error"}


def test_parameters_for_bound_thinking_are_merged_into_the_models_own(strict_provider: Provider):
    play(anthropic(strict_provider.url), strict_provider)
    first, *_, last = strict_provider.requests
    assert first.body["thinking"] == {"type": "adaptive", "display": "summarized"}
    dropped = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    assert last.body["thinking"] == {**first.body["thinking"], **dropped}
    assert last.headers["anthropic-beta"] == "interleaved-thinking-2025-05-14,thinking-binding-controls-2026-08-01"

"""The tool loop with the OpenAI Agents SDK, by its own scripted model or over HTTP."""

from typing import Any

import reading_loop
from agents import (
    Agent,
    Model,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    RunResult,
    RunResultStreaming,
    Session,
    function_tool,
)
from agents.testing import ScriptedModel, assistant_message, function_call
from openai import AsyncOpenAI
from strict_provider.server import Provider

Filter = Any
read_file = function_tool(reading_loop.read_file)


def agent(model: Model) -> Agent[Any]:
    return Agent(name="reader", instructions="Be brief.", tools=[read_file], model=model)


def config(filter: Filter | None) -> RunConfig:
    return RunConfig(call_model_input_filter=filter, tracing_disabled=True)


async def run(model: Model, filter: Filter | None, session: Session | None = None) -> RunResult:
    return await Runner.run(
        agent(model), reading_loop.TASK, run_config=config(filter), max_turns=reading_loop.CALLS + 1, session=session
    )


async def run_over_http(provider: Provider, filter: Filter | None) -> RunResult:
    """Run the loop against a provider that plays `reading_loop.SCRIPT`."""
    async with AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="none", max_retries=0) as client:
        return await run(OpenAIResponsesModel("gpt-5.5", client), filter)


async def run_streamed(model: Model, filter: Filter | None, session: Session | None = None) -> RunResultStreaming:
    result = Runner.run_streamed(
        agent(model), reading_loop.TASK, run_config=config(filter), max_turns=reading_loop.CALLS + 1, session=session
    )
    async for _ in result.stream_events():
        pass
    return result


def scripted(last: int = reading_loop.CALLS, error: Exception | None = None) -> ScriptedModel:
    """Return a model that reads the files up to the `last`, and then answers, or raises an error."""
    calls = [
        [function_call("read_file", {"path": path}, call_id=f"call_{at}")] for at, path in enumerate(reading_loop.PATHS)
    ]
    return ScriptedModel([*calls[:last], error or [assistant_message(reading_loop.DONE)]])

"""The tool loop with Google's ADK, by a scripted model or over HTTP."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import reading_loop
from google.adk.agents import InvocationContext, LlmAgent, RunConfig
from google.adk.agents.run_config import StreamingMode
from google.adk.apps import App
from google.adk.events import Event
from google.adk.models import BaseLlm, Gemini, LlmRequest, LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner
from google.genai import types
from pydantic import Field
from strict_provider.server import Provider


def read_file(path: str) -> str:
    """Return the text of a file."""
    return reading_loop.read_file(path)


class Scripted(BaseLlm):
    """Plays the script, in two pieces where it is asked to stream; keeps the contents of each request."""

    model: str = "scripted"
    prompts: list[list[Any]] = Field(default_factory=list)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.prompts.append([content.model_dump(exclude_none=True) for content in llm_request.contents])
        spoken = sum(content.role == "model" for content in llm_request.contents)
        parts = [_part(spoken)]
        if stream:
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="…")]), partial=True)
        yield LlmResponse(content=types.Content(role="model", parts=parts), partial=False)


class Failing(Scripted):
    """A model that answers a few times, and then raises an error again and again."""

    error: Exception

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        async for response in super().generate_content_async(llm_request, stream):
            if len(self.prompts) > reading_loop.ANSWERED:
                raise self.error
            yield response


class Watching(BasePlugin):
    """Keeps the session of a run, which a run that fails does not return."""

    session: Any = None

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        self.session = invocation_context.session


def _part(spoken: int) -> types.Part:
    turn = reading_loop.SCRIPT[spoken]
    for call in turn.calls:
        return types.Part(function_call=types.FunctionCall(id=f"c{spoken}", name=call.name, args=call.arguments))
    return types.Part(text=turn.text)


def over_http(provider: Provider) -> Gemini:
    """Return a model that asks a provider, which plays `reading_loop.SCRIPT`."""
    return Gemini(model="gemini-2.5-pro", base_url=provider.url, client_kwargs={"api_key": "none"})


def run(
    model: BaseLlm, *, callback: Any = None, plugins: Sequence[BasePlugin] = (), is_streaming: bool = False
) -> list[Event]:
    """Run the loop, and return the events of its session."""
    agent = LlmAgent(
        name="reader", model=model, instruction="Be brief.", tools=[read_file], before_model_callback=callback
    )
    return asyncio.run(_events(App(name="loops", root_agent=agent, plugins=list(plugins)), is_streaming))


async def _events(app: App, is_streaming: bool) -> list[Event]:
    async with InMemoryRunner(app=app) as runner:
        session = await runner.session_service.create_session(app_name="loops", user_id="u")
        task = types.Content(role="user", parts=[types.Part(text=reading_loop.TASK)])
        mode = StreamingMode.SSE if is_streaming else StreamingMode.NONE
        config = RunConfig(streaming_mode=mode)
        async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=task, run_config=config):
            pass
        kept = await runner.session_service.get_session(app_name="loops", user_id="u", session_id=session.id)
    return kept.events

"""The tool loop with Strands, by a scripted model or over HTTP."""

from collections.abc import AsyncGenerator, AsyncIterable
from copy import deepcopy
from typing import Any

import boto3
import reading_loop
from strands import Agent, tool
from strands.models import BedrockModel, Model
from strands.types.content import Messages
from strict_provider.server import Provider


@tool
def read_file(path: str) -> str:
    """Return the text of a file."""
    return reading_loop.read_file(path)


class Scripted(Model):
    """Plays the script as a stream, and keeps the messages of each request."""

    def __init__(self) -> None:
        self.prompts: list[Messages] = []

    def update_config(self, **model_config: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {"model_id": "scripted"}

    async def structured_output(self, *arguments: Any, **options: Any) -> AsyncGenerator[Any, None]:
        raise NotImplementedError
        yield

    async def stream(self, messages: Messages, *arguments: Any, **options: Any) -> AsyncIterable[Any]:
        turn, spoken = reading_loop.SCRIPT[len(self.prompts)], len(self.prompts)
        self.prompts.append(deepcopy(messages))
        yield {"messageStart": {"role": "assistant"}}
        for call in turn.calls:
            yield {"contentBlockStart": {"start": {"toolUse": {"toolUseId": f"c{spoken}", "name": call.name}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": f'{{"path": "{call.arguments["path"]}"}}'}}}}
            yield {"contentBlockStop": {}}
        if turn.text:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": turn.text}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if turn.calls else "end_turn"}}


class Failing(Scripted):
    """A model that answers a few times, and then raises an error again and again."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def stream(self, messages: Messages, *arguments: Any, **options: Any) -> AsyncIterable[Any]:
        async for event in super().stream(messages, *arguments, **options):
            if len(self.prompts) > reading_loop.ANSWERED:
                raise self.error
            yield event


def over_http(provider: Provider) -> BedrockModel:
    """Return a model that asks a provider, which plays `reading_loop.SCRIPT`."""
    return BedrockModel(
        boto_session=boto3.Session("none", "none", region_name="us-east-1"),
        endpoint_url=provider.url,
        model_id="anthropic.claude-sonnet-4-5-20250929-v1:0",
        streaming=False,
    )


def agent(model: Model, **options: Any) -> Agent:
    return Agent(model=model, tools=[read_file], system_prompt="Be brief.", callback_handler=None, **options)

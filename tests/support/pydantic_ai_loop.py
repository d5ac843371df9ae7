"""The tool loop with Pydantic AI, by a scripted model that thinks, or over HTTP."""

from collections.abc import AsyncIterator
from typing import Any

import reading_loop
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.usage import UsageLimits
from strict_provider.server import Provider

from autoprune import AgenticConversationPruner
from autoprune.integrations import pydantic_ai_messages

INSTRUCTIONS = "You read files, one at a time."
LIMITS = UsageLimits(request_limit=None)


class Scripted:
    """A model that reads one file after the other; `model` is it for an agent."""

    def __init__(self, name: str | None = None) -> None:
        self.prompts: list[list[ModelMessage]] = []
        self.model = FunctionModel(self.answer, stream_function=self.stream, model_name=name)

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Keep the prompt, and return the next answer."""
        self.prompts.append(list(messages))
        number = len(self.prompts) - 1
        if number == reading_loop.CALLS:
            return ModelResponse([TextPart(reading_loop.DONE)])
        thinking = ThinkingPart(f"File {number} is next.", signature=f"signed {number}")
        call = ToolCallPart("read_file", {"path": reading_loop.PATHS[number]}, f"call_{number}")
        return ModelResponse([thinking, call])

    async def stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        """Keep the prompt, and yield the next answer without its thinking."""
        last = self.answer(messages, info).parts[-1]
        if isinstance(last, ToolCallPart):
            yield {0: DeltaToolCall(last.tool_name, last.args_as_json_str(), tool_call_id=last.tool_call_id)}
        else:
            yield reading_loop.DONE

    @property
    def figures(self) -> reading_loop.Figures:
        """What became of the prompts."""
        count = AgenticConversationPruner("1m", formats=[pydantic_ai_messages]).count_tokens
        return reading_loop.figures(self.prompts, count)

    def agent(self, *capabilities: Any, **options: Any) -> Agent[None, str]:
        """Return an agent with the model and its one tool."""
        return agent(self.model, *capabilities, **options)


class Failing(Scripted):
    """A model that answers a few times, and then raises an error again and again."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Keep the prompt, and return the next answer, or raise the error."""
        answer = super().answer(messages, info)
        if len(self.prompts) > reading_loop.ANSWERED:
            raise self.error
        return answer


def agent(model: Model, *capabilities: Any, **options: Any) -> Agent[None, str]:
    agent = Agent(model, capabilities=capabilities, **{"instructions": INSTRUCTIONS, **options})
    agent.tool_plain(reading_loop.read_file)
    return agent


async def run_over_http(provider: Provider, *capabilities: Any) -> None:
    """Run the loop against a provider that plays `reading_loop.SCRIPT`."""
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    async with AsyncAnthropic(base_url=provider.url, api_key="none", max_retries=0) as client:
        model = AnthropicModel("claude-opus-4-8", provider=AnthropicProvider(anthropic_client=client))
        await agent(model, *capabilities).run(reading_loop.TASK, usage_limits=LIMITS)

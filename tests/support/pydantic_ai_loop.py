"""The tool loop with Pydantic AI, by a scripted model that thinks, or over HTTP."""

from collections.abc import AsyncIterator
from typing import Any

import reading_loop
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from autoprune import AgenticConversationPruner
from autoprune.integrations import pydantic_ai_messages

INSTRUCTIONS = "You read files, one at a time."


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
        agent = Agent(self.model, capabilities=capabilities, **{"instructions": INSTRUCTIONS, **options})

        @agent.tool_plain
        def read_file(path: str) -> str:
            """Read a file."""
            return reading_loop.read_file(path)

        return agent

"""A scripted agent of Pydantic AI's: its model asks for forty files, with thinking, and keeps the prompts it got."""

from collections.abc import AsyncIterator
from typing import Any

import tool_loops
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from autoprune import AgenticConversationPruner
from autoprune.integrations import pydantic_ai_messages

TASK = "Read all files."
INSTRUCTIONS = "You read files, one at a time."
FINAL = "All files are read."


class Scripted:
    """A model that reads one file after the other; `model` is it for an agent."""

    def __init__(self, name: str | None = None) -> None:
        self.prompts: list[list[ModelMessage]] = []
        self.model = FunctionModel(self.answer, stream_function=self.stream, model_name=name)

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Keep the prompt, and return the next answer."""
        self.prompts.append(list(messages))
        number = len(self.prompts) - 1
        if number == tool_loops.FILES:
            return ModelResponse([TextPart(FINAL)])
        thinking = ThinkingPart(f"File {number} is next.", signature=f"signed {number}")
        call = ToolCallPart("read_file", {"path": tool_loops.path(number)}, f"call_{number}")
        return ModelResponse([thinking, call])

    async def stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        """Keep the prompt, and yield the next answer without its thinking."""
        last = self.answer(messages, info).parts[-1]
        if isinstance(last, ToolCallPart):
            yield {0: DeltaToolCall(last.tool_name, last.args_as_json_str(), tool_call_id=last.tool_call_id)}
        else:
            yield FINAL

    @property
    def run(self) -> tool_loops.Run:
        """What the model was sent."""
        count = AgenticConversationPruner("1m", formats=[pydantic_ai_messages]).count_tokens
        return tool_loops.Run(self.prompts, count)

    def agent(self, *capabilities: Any, **options: Any) -> Agent[None, str]:
        """Return an agent with the model and its one tool."""
        agent = Agent(self.model, capabilities=capabilities, **{"instructions": INSTRUCTIONS, **options})

        @agent.tool_plain
        def read_file(path: str) -> str:
            """Read a file."""
            return tool_loops.result(int(path[-5:-3]))

        return agent

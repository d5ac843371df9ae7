"""A scripted agent of LangChain's: its model asks for forty files, with thinking, and keeps the prompts that it got."""

from typing import Any

import tool_loops
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from pydantic import Field

from autoprune import AgenticConversationPruner
from autoprune.integrations import langchain_messages

INPUT: Any = {"messages": [HumanMessage("Read all files.", id="task")]}
CONFIG: Any = {"recursion_limit": 4 * tool_loops.FILES}
SYSTEM = "You read files, one at a time."
FINAL = "All files are read."


@tool(response_format="content_and_artifact")
def read_file(path: str) -> tuple[str, dict[str, str]]:
    """Read a file."""
    return tool_loops.result(int(path[-5:-3])), {"path": path}


class Scripted(BaseChatModel):
    """A model that reads one file after the other."""

    prompts: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.prompts.append(messages)
        return ChatResult(generations=[ChatGeneration(message=answer(len(self.prompts) - 1))])

    @property
    def run(self) -> tool_loops.Run:
        """What the model was sent."""
        count = AgenticConversationPruner("1m", formats=[langchain_messages]).count_tokens
        return tool_loops.Run(self.prompts, count)


def answer(number: int) -> AIMessage:
    """Return the model's answer number `number`."""
    if number >= tool_loops.FILES:
        return AIMessage(FINAL, id=f"answer_{number}")
    arguments = {"path": tool_loops.path(number)}
    thinking = {"type": "thinking", "thinking": f"File {number} is next.", "signature": f"signed {number}"}
    call = {"type": "tool_use", "id": f"call_{number}", "name": "read_file", "input": arguments}
    calls = [{"id": f"call_{number}", "name": "read_file", "args": arguments}]
    return AIMessage([thinking, call], tool_calls=calls, id=f"answer_{number}")

"""The tool loop with LangChain, by a scripted model that thinks, or over HTTP."""

from typing import Any

import reading_loop
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from pydantic import Field
from strict_provider.server import Provider

from autoprune import AgenticConversationPruner
from autoprune.integrations import langchain_messages

INPUT: Any = {"messages": [HumanMessage(reading_loop.TASK, id="task")]}
CONFIG: Any = {"recursion_limit": 4 * reading_loop.CALLS}
SYSTEM = "You read files, one at a time."


@tool(response_format="content_and_artifact")
def read_file(path: str) -> tuple[str, dict[str, str]]:
    """Read a file."""
    return reading_loop.read_file(path), {"path": path}


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
    def figures(self) -> reading_loop.Figures:
        """What became of the prompts."""
        count = AgenticConversationPruner("1m", formats=[langchain_messages]).count_tokens
        return reading_loop.figures(self.prompts, count)


class Failing(Scripted):
    """A model that answers a few times, and then raises an error again and again."""

    error: Exception

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        done = super()._generate(messages, *args, **kwargs)
        if len(self.prompts) > reading_loop.ANSWERED:
            raise self.error
        return done


def over_http(provider: Provider) -> BaseChatModel:
    """Return a model that asks a provider, which plays `reading_loop.SCRIPT`."""
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="gpt-4.1", base_url=f"{provider.url}/v1", api_key="none", max_retries=0)


def answer(number: int) -> AIMessage:
    """Return the model's answer number `number`."""
    if number >= reading_loop.CALLS:
        return AIMessage(reading_loop.DONE, id=f"answer_{number}")
    arguments = {"path": reading_loop.PATHS[number]}
    thinking = {"type": "thinking", "thinking": f"File {number} is next.", "signature": f"signed {number}"}
    call = {"type": "tool_use", "id": f"call_{number}", "name": "read_file", "input": arguments}
    calls = [{"id": f"call_{number}", "name": "read_file", "args": arguments}]
    return AIMessage([thinking, call], tool_calls=calls, id=f"answer_{number}")

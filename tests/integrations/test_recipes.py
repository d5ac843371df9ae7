"""The recipes of docs/integrations/recipes.md: agents read forty files, and their prompts stay within the safe zone."""

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pages import ROOT, blocks
from reading_loop import CALLS, DONE, PATHS, SAFE_ZONE, SCRIPT, TASK, figures_of, read_file
from strict_provider.server import Provider

from autoprune import AgenticConversationPruner
from autoprune.planning.thinking import BETA, drop_block

pruner = AgenticConversationPruner(None)


def recipe(framework: str) -> dict[str, Any]:
    """The names that the code of a recipe defines."""
    page = (ROOT / "docs" / "integrations" / "recipes.md").read_text(encoding="utf-8")
    (section,) = re.findall(rf"^## {framework} [\d.]+\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    for block in blocks(section, "python"):
        exec(compile(block, framework, "exec"), names)
    return names


def read(path: str) -> str:
    """Read a file."""
    return read_file(path)


def check(tokens: list[int], most: int = SAFE_ZONE) -> None:
    """All files are read, and the prompts are as large as they may be, and no larger."""
    assert len(tokens) == CALLS + 1
    assert 0.8 * most < max(tokens) <= most


@pytest.mark.filterwarnings("ignore")
def test_haystack():
    pytest.importorskip("haystack.hooks.compaction")
    from haystack.components.agents import Agent
    from haystack.components.generators.chat import MockChatGenerator
    from haystack.dataclasses import ChatMessage, ToolCall
    from haystack.tools import create_tool_from_function

    prompts: list[list[ChatMessage]] = []

    def sent(messages: list[ChatMessage]) -> list[Any]:
        return [message.to_openai_dict_format() for message in messages]

    def respond(messages: list[ChatMessage]) -> ChatMessage:
        prompts.append(list(messages))
        number = len(prompts) - 1
        usage = {"usage": {"prompt_tokens": pruner.count_tokens(sent(messages)), "completion_tokens": 0}}
        if number == CALLS:
            return ChatMessage.from_assistant("Done.", meta=usage)
        call = ToolCall("read", {"path": PATHS[number]}, id=f"call_{number}")
        return ChatMessage.from_assistant(tool_calls=[call], meta=usage)

    made = recipe("Haystack")
    agent = Agent(
        chat_generator=MockChatGenerator(response_fn=respond),
        tools=[create_tool_from_function(read)],
        hooks={"before_llm": [made["hook"]]},
        max_agent_steps=2 * CALLS,
    )
    history = agent.run(messages=[ChatMessage.from_user(TASK)])["messages"]
    check([pruner.count_tokens(sent(prompt)) for prompt in prompts], 22_400)
    results = [message.tool_call_result for message in history if message.tool_call_result]
    assert [result.origin.id for result in results] == [f"call_{number}" for number in range(CALLS)]
    assert 20 < sum(result.result == pruner.replacement_message for result in results) < CALLS


@pytest.mark.filterwarnings("ignore")
def test_autogen():
    pytest.importorskip("autogen_agentchat")
    replay = pytest.importorskip("autogen_ext.models.replay")
    from autogen_agentchat.agents import AssistantAgent
    from autogen_core import FunctionCall
    from autogen_core.models import CreateResult, RequestUsage

    def answer(number: int) -> CreateResult:
        call = FunctionCall(id=f"call_{number}", name="read", arguments=json.dumps({"path": PATHS[number]}))
        usage = RequestUsage(prompt_tokens=0, completion_tokens=0)
        return CreateResult(finish_reason="function_calls", content=[call], usage=usage, cached=False)

    info = {"vision": False, "function_calling": True, "json_output": False, "structured_output": False}
    script = [*map(answer, range(CALLS)), "Done."]
    client = replay.ReplayChatCompletionClient(script, model_info={**info, "family": "unknown"})
    made = recipe("AutoGen")
    context = made["PrunedContext"](SAFE_ZONE)
    agent = AssistantAgent("reader", client, tools=[read], model_context=context, max_tool_iterations=2 * CALLS)
    asyncio.run(agent.run(task=TASK))
    prompts = [[*map(made["as_anthropic"], call["messages"])] for call in client.create_calls]
    check([pruner.count_tokens(prompt) for prompt in prompts])
    kept = [one.content for message in context._messages for one in message.content if hasattr(one, "call_id")]
    assert kept == list(map(read_file, PATHS))


@pytest.mark.filterwarnings("ignore")
def test_smolagents():
    pytest.importorskip("smolagents")
    from smolagents import ActionStep, Model, ToolCallingAgent, tool
    from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole

    @tool
    def read_file(path: str) -> str:
        """Read a file.

        Args:
            path: Where it is.
        """
        return read(path)

    prompts: list[Any] = []

    class Scripted(Model):
        def generate(self, messages: Any, **options: Any) -> ChatMessage:
            prompts.append([block for message in messages for block in message.content])
            number = len(prompts) - 1
            name, given = (
                ("read_file", {"path": PATHS[number]}) if number < CALLS else ("final_answer", {"answer": "Done."})
            )
            call = ChatMessageToolCall(ChatMessageToolCallFunction(given, name), f"call_{number}", "function")
            return ChatMessage(MessageRole.ASSISTANT, "", [call])

    made = recipe("smolagents")
    made["pruner"].args = SAFE_ZONE
    agent = ToolCallingAgent(
        [read_file], Scripted(), step_callbacks=[made["prune"]], max_steps=2 * CALLS, verbosity_level=0
    )
    assert agent.run(TASK) == "Done."
    sizes = [pruner.count_tokens([{"role": "user", "content": prompt}]) for prompt in prompts]
    check(sizes, round(1.05 * SAFE_ZONE))  # calls are sent as text, a little longer than they count
    seen = [step.observations for step in agent.memory.steps if isinstance(step, ActionStep)]
    assert 20 < sum(text.startswith("[Cleared at request ") for text in seen) < CALLS


@pytest.mark.filterwarnings("ignore")
def test_agno():
    pytest.importorskip("agno")
    from agno.agent import Agent
    from agno.models.base import Model
    from agno.models.response import ModelResponse

    prompts: list[Any] = []

    class Scripted(Model):
        def invoke(self, messages: list[Any], *rest: Any, **options: Any) -> ModelResponse:
            prompts.append(list(messages))
            number = len(prompts) - 1
            if number == CALLS:
                return ModelResponse(role="assistant", content="Done.")
            function = {"name": "read", "arguments": json.dumps({"path": PATHS[number]})}
            call = {"id": f"call_{number}", "type": "function", "function": function}
            return ModelResponse(role="assistant", tool_calls=[call])

        async def ainvoke(self, *given: Any, **options: Any) -> ModelResponse:
            return self.invoke(*given, **options)

        def invoke_stream(self, *given: Any, **options: Any) -> Iterator[ModelResponse]:
            yield self.invoke(*given, **options)

        def ainvoke_stream(self, *given: Any, **options: Any) -> Any:
            raise NotImplementedError

        def _parse_provider_response(self, response: Any, **options: Any) -> ModelResponse:
            return response

        def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
            return response

    model = recipe("Agno")["pruning"](Scripted, SAFE_ZONE)(id="scripted")
    agent = Agent(model=model, tools=[read], telemetry=False)
    run = agent.run(TASK)
    assert run.content == "Done."
    check([pruner.count_tokens(prompt) for prompt in prompts])
    kept = [message.content for message in run.messages if message.role == "tool"]
    assert kept == list(map(read_file, PATHS))


@pytest.mark.filterwarnings("ignore")
def test_agno_with_a_model_that_binds_thinking(strict_provider: Provider):
    pytest.importorskip("agno")
    from agno.agent import Agent
    from agno.models.anthropic import Claude

    strict_provider.play.script = [replace(turn, thinking="One after the other.") for turn in SCRIPT]
    drops = {"thinking": drop_block()["thinking"], "betas": [BETA]}
    model = recipe("Agno")["pruning"](Claude, SAFE_ZONE)
    client = {"api_key": "none", "client_params": {"base_url": strict_provider.url}}
    agent = Agent(model=model(id="claude-opus-5-5", **drops, **client), tools=[read_file], telemetry=False)
    assert agent.run(TASK).content == DONE
    assert strict_provider.refusals == []
    assert figures_of(strict_provider).requests == CALLS + 1


@pytest.mark.filterwarnings("ignore")
def test_crewai(monkeypatch: pytest.MonkeyPatch):
    for variable in ("CREWAI_DISABLE_TELEMETRY", "OTEL_SDK_DISABLED"):
        monkeypatch.setenv(variable, "true")
    pytest.importorskip("crewai")
    from crewai import Agent, BaseLLM, Task
    from crewai.hooks import clear_before_llm_call_hooks
    from crewai.tools import tool

    prompts: list[Any] = []

    class Scripted(BaseLLM):
        def call(self, messages: Any, *rest: Any, **options: Any) -> Any:
            prompts.append([*messages])
            number = len(prompts) - 1
            if number == CALLS:
                return "Final Answer: Done."
            function = {"name": "read", "arguments": json.dumps({"path": PATHS[number]})}
            return [{"id": f"call_{number}", "type": "function", "function": function}]

        def supports_function_calling(self) -> bool:
            return True

        def get_context_window_size(self) -> int:
            return 1_000_000

    made = recipe("CrewAI")
    made["pruner"].args = SAFE_ZONE
    model = Scripted(model="scripted")
    agent = Agent(role="r", goal="g", backstory="b", llm=model, tools=[tool("read")(read)], max_iter=2 * CALLS)
    try:
        agent.execute_task(Task(description=TASK, expected_output="A word.", agent=agent))
    finally:
        clear_before_llm_call_hooks()
    check([pruner.count_tokens(prompt) for prompt in prompts])

"""LangGraph's agents and nodes send pruned prompts, and their state keeps the full history."""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest
import reading_loop
from reading_loop import ANSWERED, CALLS, PATHS, SAFE_ZONE, FailureError

pytest.importorskip("langgraph")
from langchain_core.messages import ToolMessage
from langchain_loop import CONFIG, INPUT, Failing, Scripted, read_file
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, create_react_agent, tools_condition
from pydantic import BaseModel

from autoprune import AgenticConversationPruner, PruneArgs, SettingsError, prune_history
from autoprune.integrations import langchain_messages
from autoprune.integrations.langgraph import pre_model_hook

pytestmark = pytest.mark.filterwarnings("ignore:create_react_agent has been moved")


class State(BaseModel):
    messages: Annotated[list[Any], add_messages]
    remaining_steps: int = 25


def invoked(graph: Any) -> Any:
    return graph.invoke(INPUT, CONFIG)


def awaited(graph: Any) -> Any:
    return asyncio.run(graph.ainvoke(INPUT, CONFIG))


def results(messages: list[Any]) -> list[Any]:
    return [message.content for message in messages if isinstance(message, ToolMessage)]


def check(model: Scripted, state: Any) -> None:
    """The prompts are pruned, and the state is not."""
    assert len(model.prompts) == CALLS + 1
    assert 0.8 * SAFE_ZONE < model.figures.largest <= SAFE_ZONE
    assert results(state["messages"]) == list(map(reading_loop.read_file, PATHS))


@pytest.mark.parametrize("run", [invoked, awaited])
def test_a_hook_before_the_model_changes_only_the_sent_messages(run: Callable[[Any], Any]):
    model = Scripted()
    check(model, run(create_react_agent(model, [read_file], pre_model_hook=pre_model_hook(SAFE_ZONE))))


def test_a_state_may_be_a_model_of_pydantic():
    hook = pre_model_hook(SAFE_ZONE)
    state = State.model_validate(INPUT)
    assert hook(state) == {"llm_input_messages": state.messages}


def test_a_node_of_a_graph_is_given_pruned_messages():
    model = Scripted()

    class Messages(TypedDict):
        messages: Annotated[list[Any], add_messages]

    @prune_history(pruner=AgenticConversationPruner(SAFE_ZONE, formats=[langchain_messages]))
    def call_model(state: Messages) -> dict[str, list[Any]]:
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(Messages).add_node("model", call_model).add_node("tools", ToolNode([read_file]))
    graph.add_edge(START, "model").add_conditional_edges("model", tools_condition).add_edge("tools", "model")
    check(model, invoked(graph.compile()))


def test_thinking_that_needs_parameters_is_an_error():
    hook = pre_model_hook(PruneArgs(SAFE_ZONE, model="claude-opus-5-5"))
    with pytest.raises(
        SettingsError, match=r"use langchain\.PruningMiddleware, or a pruner with PruneArgs\(thinking_policy='refuse'"
    ):
        invoked(create_react_agent(Scripted(), [read_file], pre_model_hook=hook))


@pytest.mark.parametrize("run", [invoked, awaited])
def test_an_error_of_the_model_is_raised_unchanged_and_the_state_keeps_every_result(run: Callable[[Any], Any]):
    model, config = Failing(error=FailureError("The model is gone.")), {"configurable": {"thread_id": "one"}}
    hook = pre_model_hook(SAFE_ZONE)
    graph = create_react_agent(model, [read_file], pre_model_hook=hook, checkpointer=InMemorySaver())
    with pytest.raises(FailureError) as raised:
        run(graph.with_config(config))
    kept = graph.get_state(config).values["messages"]
    assert raised.value is model.error
    assert results(model.prompts[-1]) != results(kept)
    assert results(kept) == list(map(reading_loop.read_file, PATHS[:ANSWERED]))

"""LangChain's agents send pruned prompts, and keep their full history."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import reading_loop
from reading_loop import ANSWERED, CALLS, DONE, PATHS, SAFE_ZONE, FailureError

pytest.importorskip("langchain")
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_loop import CONFIG, INPUT, SYSTEM, Failing, Scripted, read_file
from langgraph.checkpoint.memory import InMemorySaver

from autoprune import AgenticConversationPruner, ConversationPruner, PruneArgs, PruneEvent, SettingsError
from autoprune.integrations.langchain import PruningMiddleware
from autoprune.tokens import exact

State = dict[str, Any]
tokens = exact()


def agent(model: Any, *middleware: Any, **options: Any) -> Any:
    return create_agent(model, [read_file], system_prompt=SYSTEM, middleware=middleware, **options)


def invoked(graph: Any) -> State:
    return graph.invoke(INPUT, CONFIG)


def awaited(graph: Any) -> State:
    return asyncio.run(graph.ainvoke(INPUT, CONFIG))


def streamed(graph: Any) -> State:
    *_, last = graph.stream(INPUT, CONFIG, stream_mode="values")
    return last


def results(state: State) -> list[Any]:
    return [message.content for message in state["messages"] if isinstance(message, ToolMessage)]


@pytest.fixture(scope="module")
def played() -> tuple[Scripted, State]:
    """A run that was pruned, and the agent's state at its end."""
    model = Scripted()
    return model, invoked(agent(model, PruningMiddleware(SAFE_ZONE)))


def test_every_prompt_is_within_the_safe_zone_and_the_work_is_done(played: tuple[Scripted, State]):
    model, state = played
    assert len(model.prompts) == CALLS + 1
    assert 0.8 * SAFE_ZONE < model.figures.largest <= SAFE_ZONE
    assert state["messages"][-1].text == DONE


def test_prefixes_break_seldom(played: tuple[Scripted, State]):
    assert played[0].figures.breaks <= CALLS // 3


def test_the_state_keeps_every_result(played: tuple[Scripted, State]):
    assert results(played[1]) == list(map(reading_loop.read_file, PATHS))


def test_only_the_contents_of_results_differ_from_the_state(played: tuple[Scripted, State]):
    model, state = played
    system, *sent = model.prompts[-1]
    assert system.text == SYSTEM
    pairs = list(zip(sent, state["messages"], strict=False))
    changed = [(one, other) for one, other in pairs if one is not other]
    assert len(changed) > CALLS // 2
    for one, other in changed:
        assert isinstance(one, ToolMessage)
        assert one == other.model_copy(update={"content": one.content})
        assert one.artifact is other.artifact is not None


@pytest.mark.parametrize("run", [awaited, streamed])
def test_an_agent_that_is_awaited_or_streamed_sends_the_same(run: Callable[[Any], State], played: Any):
    model = Scripted()
    assert run(agent(model, PruningMiddleware(SAFE_ZONE)))["messages"][-1].text == DONE
    assert contents(model) == contents(played[0])


def contents(model: Scripted) -> list[Any]:
    return [[message.content for message in prompt] for prompt in model.prompts]


def test_one_middleware_serves_several_threads(played: Any):
    middleware, models = PruningMiddleware(SAFE_ZONE), [Scripted() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        [*pool.map(lambda model: invoked(agent(model, middleware)), models)]
    assert [contents(model) for model in models] == [contents(played[0])] * 4


def test_a_reloaded_conversation_continues_from_the_sent_prompt(played: Any):
    model = Scripted()
    graph = agent(model, PruningMiddleware(SAFE_ZONE), checkpointer=InMemorySaver())
    config = {**CONFIG, "configurable": {"thread_id": "one"}}
    graph.invoke(INPUT, config)
    assert contents(model) == contents(played[0])
    graph.invoke({"messages": [HumanMessage("And now?")]}, config)
    before, after = contents(model)[-2:]
    assert after == [*before, DONE, "And now?"]


def test_a_small_conversation_is_sent_unchanged():
    request = Scripted()
    state = {"messages": [HumanMessage("Hi.", id="m")]}
    agent(request, PruningMiddleware("50k")).invoke({**state, "messages": [*state["messages"], AIMessage(DONE)]})
    assert request.prompts[0][1].text == "Hi."


def beside(*, system: str | None = SYSTEM, tools: Any = (read_file,), **options: Any) -> int:
    """The tokens that the last report has for what is sent beside the messages."""
    events: list[PruneEvent] = []
    pruner = AgenticConversationPruner(SAFE_ZONE, on_pruned=events.append)
    middleware = [PruningMiddleware(pruner)]
    graph = create_agent(Scripted(), list(tools), system_prompt=system, middleware=middleware, **options)
    invoked(graph)
    return events[-1].report.floor["sent beside"]


def test_system_prompt_and_tools_count():
    long = "Read every file with care. " * 200
    assert beside(system=long) - beside() == tokens(long) - tokens(SYSTEM)
    search = {"type": "web_search", "note": long}
    assert beside(tools=[read_file, search]) - beside() == pytest.approx(tokens(json.dumps(search)), abs=5)


ANSWER = {"title": "Answer", "type": "object", "properties": {"note": {"type": "string", "description": SYSTEM * 200}}}


@pytest.mark.parametrize("wanted", [ANSWER, {"oneOf": [ANSWER]}, ToolStrategy(ANSWER)])
def test_the_schema_of_a_structured_answer_counts(wanted: Any):
    assert beside(response_format=wanted) - beside() == pytest.approx(tokens(json.dumps(ANSWER)), abs=30)


def test_agents_that_share_a_middleware_are_pruned_as_if_each_had_its_own():
    def prompts(*middleware: Any) -> list[Any]:
        models = Scripted(), Scripted()
        systems = SYSTEM, "Read every file with care. " * 200
        graphs = [
            create_agent(model, [read_file], system_prompt=system, middleware=[each])
            for model, system, each in zip(models, systems, middleware, strict=True)
        ]
        for _ in zip(*(graph.stream(INPUT, CONFIG) for graph in graphs), strict=True):  # in turns
            pass
        assert max(model.figures.largest for model in models) <= SAFE_ZONE
        return [[message.content for message in prompt] for model in models for prompt in model.prompts]

    shared = PruningMiddleware(SAFE_ZONE)
    assert prompts(shared, shared) == prompts(PruningMiddleware(SAFE_ZONE), PruningMiddleware(SAFE_ZONE))


def test_a_share_is_one_of_the_window_of_the_requests_model():
    class Named(Scripted):
        model_name: str = "gpt-4"  # whose window has 8,192 tokens

    model = Named()
    invoked(agent(model, PruningMiddleware(1.0)))
    assert model.figures.largest <= 8_192


def test_the_callers_pruner_is_not_changed_and_its_archive_is_used():
    archive: dict[str, str] = {}
    pruner = AgenticConversationPruner(PruneArgs(SAFE_ZONE), archive=archive)
    before = dict(vars(pruner))
    invoked(agent(Scripted(), PruningMiddleware(pruner, strategy="low_water")))
    assert vars(pruner) == before
    assert reading_loop.read_file(PATHS[0]) in archive.values()


def test_a_pruner_that_folds_sums_up_in_messages_of_langchain():
    model = Scripted()
    invoked(agent(model, PruningMiddleware(ConversationPruner(SAFE_ZONE))))
    assert model.figures.largest <= SAFE_ZONE
    assert min(map(len, model.prompts[-5:])) < CALLS
    assert all(isinstance(message, HumanMessage | AIMessage | ToolMessage) for message in model.prompts[-1][1:])


def test_a_model_without_parameters_for_bound_thinking_is_an_error():
    class Named(Scripted):
        model: str = "claude-opus-5-5"

    with pytest.raises(SettingsError, match=r"a Named cannot send .* PruneArgs\(thinking_policy='refuse'\)"):
        invoked(agent(Named(), PruningMiddleware(SAFE_ZONE)))


@pytest.mark.parametrize("run", [invoked, awaited, streamed])
def test_an_error_of_the_model_is_raised_unchanged_and_the_state_keeps_every_result(run: Callable[[Any], State]):
    model = Failing(error=FailureError("The model is gone."))
    graph = agent(model, PruningMiddleware(SAFE_ZONE), checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "one"}}
    with pytest.raises(FailureError) as raised:
        run(graph.with_config(config))
    assert raised.value is model.error
    assert results({"messages": model.prompts[-1]}) != results(graph.get_state(config).values)
    assert results(graph.get_state(config).values) == list(map(reading_loop.read_file, PATHS[:ANSWERED]))

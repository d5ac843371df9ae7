"""The filter for the OpenAI Agents SDK, in a loop against a strict provider and with the SDK's scripted model."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any

import pytest
from pydantic import Field

pytest.importorskip("agents.testing", reason="the OpenAI Agents SDK with its testing module is not installed")

import openai_agents_loop as loop
from agents import Agent, AgentOutputSchema, SQLiteSession, handoff
from agents.run import CallModelData, ModelInputData
from reading_loop import (
    ANSWERED,
    CALLS,
    DONE,
    PATHS,
    SAFE_ZONE,
    SCRIPT,
    TASK,
    FailureError,
    figures,
    figures_of,
    read_file,
)
from strict_provider.server import Provider

from autoprune import AgenticConversationPruner, PruneArgs, SettingsError
from autoprune.integrations.openai_agents import call_model_input_filter


def pruning(safe_zone: int = SAFE_ZONE) -> Any:
    return call_model_input_filter(AgenticConversationPruner(PruneArgs(safe_zone)))


def outputs(items: list[Any]) -> list[str]:
    return [item["output"] for item in items if item.get("type") == "function_call_output"]


def test_a_long_loop_stays_within_the_safe_zone_and_the_run_keeps_every_result(strict_provider: Provider):
    strict_provider.play.script = SCRIPT
    result = asyncio.run(loop.run_over_http(strict_provider, pruning()))
    found = figures_of(strict_provider)
    assert result.final_output == DONE
    assert strict_provider.refusals == []
    assert found.requests == CALLS + 1
    assert found.largest <= SAFE_ZONE
    assert outputs(result.to_input_list()) == list(map(read_file, PATHS))


def test_a_streamed_run_is_pruned_alike():
    models = loop.scripted(), loop.scripted()
    asyncio.run(loop.run(models[0], pruning()))
    result = asyncio.run(loop.run_streamed(models[1], pruning()))
    plain, streamed = ([call.input for call in model.calls] for model in models)
    assert streamed == plain
    assert all(call.streamed for call in models[1].calls)
    assert figures(streamed).largest <= SAFE_ZONE
    assert outputs(result.to_input_list()) == list(map(read_file, PATHS))


def data(items: list[Any], instructions: str | None = None, **changes: Any) -> CallModelData[Any]:
    agent = loop.agent(loop.scripted()).clone(**changes)
    return CallModelData(model_data=ModelInputData(input=items, instructions=instructions), agent=agent, context=None)


def items(texts: list[str]) -> list[Any]:
    """A conversation in which the model has read files with these texts."""
    read = [
        [
            {"type": "function_call", "call_id": f"c{at}", "name": "read_file", "arguments": f'{{"path": "{at}.py"}}'},
            {"type": "function_call_output", "call_id": f"c{at}", "output": text},
        ]
        for at, text in enumerate(texts)
    ]
    return [{"role": "user", "content": TASK}, *chain.from_iterable(read)]


def test_items_that_are_not_pruned_are_the_same_objects():
    given = items(list(map(read_file, PATHS[:10])))
    sent = pruning()(data(given, "Be brief.")).input
    changed = [at for at, (one, other) in enumerate(zip(given, sent, strict=True)) if one is not other]
    assert changed
    assert {given[at]["type"] for at in changed} == {"function_call_output"}


def test_instructions_and_tools_take_room_of_the_safe_zone_and_go_on_as_they_are():
    given, instructions = items(list(map(read_file, PATHS[:6]))), "word " * 8_000
    assert pruning()(data(given)).input == given
    sent = pruning()(data(given, instructions))
    assert sent.input != given
    assert sent.instructions is instructions


def test_bound_thinking_is_an_error_before_the_request_and_stays_valid_with_refuse():
    def sent(**args: Any) -> list[Any]:
        return call_model_input_filter(PruneArgs(SAFE_ZONE, model=model, **args))(data(given)).input

    model = "anthropic/claude-opus-5-5"
    thinking = {"type": "reasoning", "summary": [], "content": [], "provider_data": {"model": model}}
    given = [one for item in items(list(map(read_file, PATHS[:10]))) for one in (thinking, item)][1:]
    with pytest.raises(SettingsError, match=r"a filter cannot send .* PruneArgs\(thinking_policy='refuse'\)"):
        sent()
    assert sent(thinking_policy="refuse") == given
    assert sent(thinking_policy="report") != given
    model, thinking["provider_data"]["model"] = "gpt-5", "gpt-5"
    assert sent(thinking_policy="refuse") != given  # OpenAI binds no reasoning


@dataclass
class Answer:
    note: Annotated[str, Field(description="word " * 8_000)]


@pytest.mark.parametrize(
    "changes",
    [
        {"handoffs": [Agent(name="writer", handoff_description="word " * 8_000)]},
        {"handoffs": [handoff(Agent(name="writer"), tool_description_override="word " * 8_000)]},
        {"output_type": Answer},
        {"output_type": AgentOutputSchema(Answer)},
    ],
)
def test_schemas_of_handoffs_and_of_the_output_take_room_of_the_safe_zone(changes: dict[str, Any]):
    given = items(list(map(read_file, PATHS[:6])))
    assert pruning()(data(given)).input == given
    assert pruning()(data(given, **changes)).input != given


@pytest.mark.parametrize("run", [loop.run, loop.run_streamed])
def test_an_error_of_the_model_is_raised_unchanged_and_the_session_keeps_every_result(run: Callable[..., Any]):
    error = FailureError("The model is gone.")
    model = loop.scripted(ANSWERED, error)
    with closing(SQLiteSession("one")) as session:
        with pytest.raises(FailureError) as raised:
            asyncio.run(run(model, pruning(), session))
        kept = outputs(asyncio.run(session.get_items()))
    assert raised.value is error
    assert outputs(model.calls[-1].input) != kept
    assert kept == list(map(read_file, PATHS[:ANSWERED]))

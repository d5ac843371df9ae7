"""Pydantic AI's agents send pruned prompts, and keep their full history."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from reading_loop import ANSWERED, CALLS, DONE, PATHS, SAFE_ZONE, TASK, FailureError, read_file

pytest.importorskip("pydantic_ai")
from pydantic_ai import capture_run_messages
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import ModelMessage, ThinkingPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai_loop import INSTRUCTIONS, LIMITS, Failing, Scripted

from autoprune import AgenticConversationPruner, ConversationPruner, PruneEvent, SettingsError
from autoprune.integrations import pydantic_ai_messages
from autoprune.integrations.pydantic_ai import Pruning
from autoprune.tokens import exact

tokens = exact()


def run(agent: Any) -> Any:
    return asyncio.run(agent.run(TASK, usage_limits=LIMITS))


def streamed(agent: Any) -> Any:
    async def finished() -> Any:
        async with agent.run_stream(TASK, usage_limits=LIMITS) as result:
            assert await result.get_output() == DONE
            return result

    return asyncio.run(finished())


def parts(messages: list[ModelMessage], kind: type) -> list[Any]:
    return [part for message in messages for part in message.parts if isinstance(part, kind)]


@pytest.fixture(scope="module")
def played() -> tuple[Scripted, list[ModelMessage]]:
    """A run that was pruned, and its history."""
    scripted = Scripted()
    return scripted, run(scripted.agent(Pruning(SAFE_ZONE))).all_messages()


def test_every_prompt_is_within_the_safe_zone(played: Any):
    scripted, _ = played
    assert len(scripted.prompts) == CALLS + 1
    assert 0.8 * SAFE_ZONE < scripted.figures.largest <= SAFE_ZONE


def test_prefixes_break_seldom(played: Any):
    assert played[0].figures.breaks <= CALLS // 3


def test_the_history_keeps_every_result(played: Any):
    contents = [part.content for part in parts(played[1], ToolReturnPart)]
    assert contents == list(map(read_file, PATHS))


def test_only_the_contents_of_results_differ_from_the_history(played: Any):
    scripted, history = played
    sent = scripted.prompts[-1]
    assert parts(sent, ThinkingPart) == parts(history, ThinkingPart)
    assert parts(sent, ToolCallPart) == parts(history, ToolCallPart)
    pairs = list(zip(parts(sent, ToolReturnPart), parts(history, ToolReturnPart), strict=True))
    changed = [(one, other) for one, other in pairs if one.content != other.content]
    assert len(changed) > CALLS // 2
    assert [vars(one) for one, _ in changed] == [{**vars(other), "content": one.content} for one, other in changed]


def test_an_agent_that_streams_sends_pruned_prompts():
    scripted = Scripted()
    history = streamed(scripted.agent(Pruning(SAFE_ZONE))).all_messages()
    assert len(scripted.prompts) == CALLS + 1
    assert scripted.figures.largest <= SAFE_ZONE
    assert parts(history, ToolReturnPart)[0].content == read_file(PATHS[0])


def test_as_a_history_processor_a_pruner_changes_the_history():
    scripted = Scripted()
    pruner = AgenticConversationPruner(SAFE_ZONE, formats=[pydantic_ai_messages])
    history = run(scripted.agent(ProcessHistory(pruner.prune_conversations))).all_messages()
    assert scripted.figures.largest <= SAFE_ZONE
    assert parts(history, ToolReturnPart)[0].content == pruner.replacement_message


def beside(**options: Any) -> int:
    """The tokens that the last report has for what is sent beside the messages."""
    events: list[PruneEvent] = []
    pruner = AgenticConversationPruner(SAFE_ZONE, on_pruned=events.append)
    run(Scripted().agent(Pruning(pruner), **options))
    return events[-1].report.floor["sent beside"]


def test_instructions_and_tools_count():
    def write_file(path: str, content: str) -> None:
        """Write a file."""

    long = "Read every file with care. " * 200
    assert beside(instructions=long) - beside() == pytest.approx(tokens(long) - tokens(INSTRUCTIONS), abs=1)
    assert 20 < beside(tools=[write_file]) - beside() < 100


def test_the_schema_of_a_native_output_counts(played: Any):
    def sent(output: OutputObjectDefinition | None) -> list[ModelMessage]:
        parameters = ModelRequestParameters(output_mode="native", output_object=output)
        request = ModelRequestContext(
            model=played[0].model, messages=played[1][:13], model_settings=None, model_request_parameters=parameters
        )
        return asyncio.run(Pruning(SAFE_ZONE).before_model_request(None, request)).messages

    assert sent(None) == played[1][:13]
    assert sent(OutputObjectDefinition({"description": "word " * 8_000})) != played[1][:13]


def test_a_share_is_one_of_the_window_of_the_requests_model():
    scripted = Scripted("gpt-4")  # whose window has 8,192 tokens
    run(scripted.agent(Pruning(1.0)))
    assert scripted.figures.largest <= 8_192


def test_a_pruner_that_folds_sums_up_in_messages_of_pydantic_ai():
    scripted = Scripted()
    run(scripted.agent(Pruning(ConversationPruner(SAFE_ZONE))))
    assert scripted.figures.largest <= SAFE_ZONE
    assert min(map(len, scripted.prompts[-5:])) < CALLS


def test_a_provider_without_parameters_for_bound_thinking_is_an_error():
    with pytest.raises(
        SettingsError, match=r"a request to 'function' cannot send .* PruneArgs\(thinking_policy='refuse"
    ):
        run(Scripted("claude-opus-5-5").agent(Pruning(SAFE_ZONE)))


@pytest.mark.parametrize("play", [run, streamed])
def test_an_error_of_the_model_is_raised_unchanged_and_the_history_keeps_every_result(play: Callable[[Any], Any]):
    failing = Failing(FailureError("The model is gone."))
    with capture_run_messages() as history, pytest.raises(FailureError) as raised:
        play(failing.agent(Pruning(SAFE_ZONE)))
    assert raised.value is failing.error
    assert parts(failing.prompts[-1], ToolReturnPart) != parts(history, ToolReturnPart)
    assert [part.content for part in parts(history, ToolReturnPart)] == list(map(read_file, PATHS[:ANSWERED]))

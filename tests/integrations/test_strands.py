"""The hook for Strands, in a loop against a strict provider and with a scripted model that streams."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("strands", reason="Strands is not installed")

import strands_loop as loop
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
from strands import Agent
from strands.agent.conversation_manager import NullConversationManager
from strands.session.file_session_manager import FileSessionManager
from strands.types.content import Messages
from strands.types.exceptions import EventLoopException
from strict_provider.server import Provider

from autoprune import AgenticConversationPruner, ConversationPruner, PruneArgs
from autoprune.integrations.strands import PruningHook


def pruning(model: Any, archive: dict[str, str] | None = None, **args: Any) -> Agent:
    pruner = AgenticConversationPruner(PruneArgs(SAFE_ZONE, **args), archive=archive)
    return loop.agent(model, hooks=[PruningHook(pruner)], conversation_manager=NullConversationManager())


def results(messages: Messages) -> list[str]:
    blocks = [block["toolResult"] for message in messages for block in message["content"] if "toolResult" in block]
    return [block["content"][0]["text"] for block in blocks]


def test_a_long_loop_stays_within_the_safe_zone_and_is_never_refused(strict_provider: Provider):
    strict_provider.play.script = SCRIPT
    agent = pruning(loop.over_http(strict_provider))
    answer = agent(TASK)
    found = figures_of(strict_provider)
    assert str(answer).strip() == DONE
    assert strict_provider.refusals == []
    assert found.requests == CALLS + 1
    assert found.largest <= SAFE_ZONE


def test_cleared_results_are_gone_from_the_agents_messages_and_can_be_recalled():
    model, archive = loop.Scripted(), {}
    agent = pruning(model, archive)
    agent(TASK)
    left = results(agent.messages)
    assert left == results(model.prompts[-1])
    assert len(left) == CALLS
    full = [text for text in left if text in map(read_file, PATHS)]
    assert 0 < len(full) < CALLS
    assert sorted([*full, *archive.values()]) == sorted(map(read_file, PATHS))


def test_asynchronous_and_streamed_runs_are_pruned_alike():
    plain, awaited, streamed = loop.Scripted(), loop.Scripted(), loop.Scripted()
    pruning(plain)(TASK)
    asyncio.run(pruning(awaited).invoke_async(TASK))
    asyncio.run(stream(pruning(streamed)))
    sent = [list(map(results, model.prompts)) for model in (plain, awaited, streamed)]
    assert sent[1] == sent[0]
    assert sent[2] == sent[0]
    assert figures(streamed.prompts).largest <= SAFE_ZONE


async def stream(agent: Agent) -> None:
    async for _ in agent.stream_async(TASK):
        pass


def test_the_system_prompt_takes_room_of_the_safe_zone():
    plain, talkative = loop.Scripted(), loop.Scripted()
    pruning(plain)(TASK)
    agent = pruning(talkative)
    agent.system_prompt = "word " * 8_000
    agent(TASK)
    assert figures(talkative.prompts).largest + 8_000 <= SAFE_ZONE
    assert figures(plain.prompts).largest + 8_000 > SAFE_ZONE


@pytest.mark.parametrize("pruning", [ConversationPruner(SAFE_ZONE), "cache_aware(fold_steps=2)"])
def test_a_stored_session_is_not_folded(pruning: Any, tmp_path: Path):
    def played(**options: Any) -> Agent:
        pruner = AgenticConversationPruner(SAFE_ZONE, strategy=pruning) if isinstance(pruning, str) else pruning
        agent = loop.agent(loop.Scripted(), hooks=[PruningHook(pruner)], **options)
        agent(TASK)
        return agent

    assert len(played(conversation_manager=NullConversationManager()).messages) < 2 * CALLS
    with pytest.raises(EventLoopException, match="stored session unusable: use a strategy that only clears"):
        played(session_manager=FileSessionManager("one", storage_dir=str(tmp_path)))


def called(agent: Agent) -> None:
    agent(TASK)


def awaited(agent: Agent) -> None:
    asyncio.run(agent.invoke_async(TASK))


def streamed(agent: Agent) -> None:
    asyncio.run(stream(agent))


@pytest.mark.parametrize("play", [called, awaited, streamed])
def test_an_error_of_the_model_is_raised_unchanged_and_changes_no_message(play: Callable[[Agent], None]):
    model, archive = loop.Failing(FailureError("The model is gone.")), {}
    agent = pruning(model, archive)
    with pytest.raises(EventLoopException) as raised:
        play(agent)
    with pytest.raises(EventLoopException) as plain:
        play(loop.agent(loop.Failing(model.error)))
    assert raised.value.original_exception is plain.value.original_exception is model.error
    assert archive
    assert [message["content"] for message in agent.messages] == [message["content"] for message in model.prompts[-1]]
    assert len(results(agent.messages)) == ANSWERED

"""`cache_aware(clear_thinking=True)` leaves out the thinking of finished turns when the cache is empty anyway."""

from collections.abc import Iterator
from typing import Any

import pytest
from reading_tasks import document

from autoprune import AgenticConversationPruner, PruneArgs
from autoprune.strategies import CacheAware
from autoprune.wire import problems

PRUNER = PruneArgs(900_000, model="claude-sonnet-4-5")
CLEARING = CacheAware(start_at=0, clear_thinking=True)


def turn(number: int, calls: int, size: int) -> Iterator[dict[str, Any]]:
    """A turn of the user: calls with thinking, a report that uses up what was read, and an answer."""
    yield {"role": "user", "content": f"Write report {number}."}
    for at in range(calls):
        name = f"{number}-{at}"
        thinking = {"type": "thinking", "thinking": f"Next is {name}. " * 40, "signature": f"signed {name}"}
        call = {"type": "tool_use", "id": f"toolu_{name}", "name": "read", "input": {"path": f"{name}.log"}}
        yield {"role": "assistant", "content": [thinking, call]}
        text = document("csv", 100 * number + at, size)
        yield {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"toolu_{name}", "content": text}]}
    call = {"type": "tool_use", "id": f"toolu_{number}", "name": "write", "input": {"content": "All is well. " * 900}}
    yield {"role": "assistant", "content": [call]}
    yield {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "ok"}]}
    thinking = {"type": "thinking", "thinking": f"Turn {number} is over.", "signature": f"over {number}"}
    yield {"role": "assistant", "content": [thinking, {"type": "text", "text": f"Report {number} is written."}]}


def session(turns: int, calls: int, size: int = 4_000) -> list[dict[str, Any]]:
    return [message for number in range(turns) for message in turn(number, calls, size)]


def thoughts(messages: list[Any]) -> list[str]:
    """The signatures of all thinking."""
    blocks = (block for message in messages if isinstance(message["content"], list) for block in message["content"])
    return [block["signature"] for block in blocks if block["type"] == "thinking"]


@pytest.mark.parametrize(("pause", "left"), [(400.0, []), (200.0, 28)], ids=["cold", "warm"])
def test_thinking_of_finished_turns_goes_with_results_at_a_cold_request(pause: float, left: list[str] | int):
    messages = [*session(2, 13), {"role": "user", "content": "And now?"}]
    result = AgenticConversationPruner(PRUNER).prune(messages, CLEARING, pauses={len(messages): pause})
    found = thoughts(result.conversation)
    assert (found if isinstance(left, list) else len(found)) == left
    assert bool(result.plan.edits) is (pause == 400.0)
    assert problems(result.conversation) == problems(messages)
    off = AgenticConversationPruner(PRUNER).prune(messages, CacheAware(start_at=0), pauses={len(messages): pause})
    assert len(thoughts(off.conversation)) == 28


def test_thinking_of_the_current_turn_stays_and_so_does_all_before_it():
    """Some models bind it to what came before."""
    messages = session(3, 13)[:-1]
    result = AgenticConversationPruner(PRUNER).prune(messages, CLEARING, pauses={len(messages): 400.0})
    assert result.plan.edits
    assert len(thoughts(result.conversation)) == 41


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-5-5"])
def test_a_message_of_thinking_alone_has_to_stay_and_so_does_all_thinking(model: str):
    alone = {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "alone"}]}
    messages = [*session(2, 13), {"role": "user", "content": "Well?"}, alone, {"role": "user", "content": "And now?"}]
    pruner = AgenticConversationPruner(PruneArgs(900_000, model=model))
    result = pruner.prune(messages, CLEARING, pauses={len(messages): 4_000.0})
    assert result.plan.edits
    assert len(thoughts(result.conversation)) == 29

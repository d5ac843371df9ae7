"""A Strands agent that prunes its messages before each model call, offline with a scripted model.

pip install '.[strands]' && python examples/strands_agent.py
"""

from collections.abc import AsyncGenerator, AsyncIterable
from typing import Any

from strands import Agent, tool
from strands.models import Model
from strands.types.content import Messages

from autoprune import AgenticConversationPruner, PruneArgs
from autoprune.integrations.strands import PruningHook

DAYS = 8


@tool
def read_log(day: int) -> str:
    """Read the log of a day."""
    return f"day {day}: INFO all is well\n" * 400


class Scripted(Model):
    """A model that reads one log after the other."""

    def update_config(self, **model_config: Any) -> None:
        """Change nothing."""

    def get_config(self) -> dict[str, Any]:
        """Return the model's name."""
        return {"model_id": "scripted"}

    async def structured_output(self, *arguments: Any, **options: Any) -> AsyncGenerator[Any, None]:
        """Return no structured output."""
        raise NotImplementedError
        yield

    async def stream(self, messages: Messages, *arguments: Any, **options: Any) -> AsyncIterable[Any]:
        """Answer a request."""
        day = 1 + sum(message["role"] == "assistant" for message in messages)
        call = {"toolUse": {"toolUseId": f"call_{day}", "name": "read_log"}} if day <= DAYS else {}
        said = {"toolUse": {"input": f'{{"day": {day}}}'}} if day <= DAYS else {"text": "All is well."}
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": call}}
        yield {"contentBlockDelta": {"delta": said}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if day <= DAYS else "end_turn"}}


def main() -> None:
    """Read logs, and print how much of them is left and how much can be recalled."""
    archive: dict[str, str] = {}
    pruner = AgenticConversationPruner(PruneArgs("8k"), archive=archive)
    agent = Agent(model=Scripted(), tools=[read_log], callback_handler=None, hooks=[PruningHook(pruner)])
    print(str(agent("Read the logs.")).strip())
    print(f"in the agent's messages: {len(str(agent.messages)):,} characters")
    print(f"in the archive: {sum(map(len, archive.values())):,} characters")


if __name__ == "__main__":
    main()

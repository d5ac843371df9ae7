"""Pruning for Strands Agents: the agent's own messages are pruned before each call of the model.

    agent = Agent(model=model, tools=[...], hooks=[PruningHook("50k")])

How it works. A `ConversationManager` of Strands is asked when the whole tool loop is over; `BeforeModelCallEvent` comes
before each request. What is sent is a copy of `agent.messages`, so these are pruned themselves, and what was cleared is
gone from them: give a pruner with an archive to keep it.
"""

from typing import Any

from strands.hooks import BeforeModelCallEvent, HookProvider, HookRegistry

from autoprune.integrations._hooks import Pruning, pruned, pruner_of
from autoprune.planning.view import Strategy


class PruningHook(HookProvider):
    """Prunes an agent's messages before each call of its model. The system prompt and the tools count."""

    def __init__(self, pruning: Pruning, *, strategy: str | Strategy | None = None) -> None:
        """Take a safe zone, settings, or a pruner."""
        self._pruner = pruner_of(pruning)
        self._strategy = strategy

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Have Strands call this hook before each call of the model."""
        registry.add_callback(BeforeModelCallEvent, self._prune)

    def _prune(self, event: BeforeModelCallEvent) -> None:
        agent = event.agent
        body = {
            "messages": agent.messages,
            "system": agent.system_prompt,
            "toolConfig": {"tools": agent.tool_registry.get_all_tool_specs()},
        }
        messages = pruned(self._pruner, self._strategy, body, _path(agent.model)).body["messages"]
        if messages is not agent.messages:
            agent.messages[:] = messages  # the list itself is shared with the agent's loop


def _path(model: Any) -> str:
    """Return the path of a request to Bedrock, whose messages those of Strands are, with the model's name in it."""
    name = str(model.get_config().get("model_id"))
    return f"/model/{name.rpartition('/')[2]}/converse"  # the name is what follows the last slash of an ARN

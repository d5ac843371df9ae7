"""Pruning for Strands Agents: the agent's message list is pruned before each call of the model.

    agent = Agent(model=model, tools=[...], hooks=[PruningHook("50k")])

How it works: Strands calls a `ConversationManager` only after the whole tool loop, but `BeforeModelCallEvent` is sent
before each request. Requests are copied from `agent.messages`, so that list itself is pruned, and cleared results are
lost: give a pruner with an archive to keep them.
"""

from typing import Any

from strands.hooks import BeforeModelCallEvent, HookProvider, HookRegistry

from autoprune.integrations._hooks import Pruning, RequestPruner
from autoprune.planning.view import Strategy


class PruningHook(HookProvider):
    """Prunes an agent's messages before each call of its model. The system prompt and the tools are counted."""

    def __init__(self, pruning: Pruning, *, strategy: str | Strategy | None = None) -> None:
        """Store a safe zone, settings, or a pruner."""
        self._pruner = RequestPruner(pruning, strategy)

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Register this hook for the event before each call of the model."""
        registry.add_callback(BeforeModelCallEvent, self._prune_messages)

    def _prune_messages(self, event: BeforeModelCallEvent) -> None:
        agent = event.agent
        body = {
            "messages": agent.messages,
            "system": agent.system_prompt,
            "toolConfig": {"tools": agent.tool_registry.get_all_tool_specs()},
        }
        messages = self._pruner.prune(body, _path(agent.model)).body["messages"]
        if messages is not agent.messages:
            agent.messages[:] = messages  # the list itself is shared with the agent's loop


def _path(model: Any) -> str:
    """Return the path of a Bedrock request with the model's name, because Strands uses Bedrock's messages."""
    name = str(model.get_config().get("model_id"))
    return f"/model/{name.rpartition('/')[2]}/converse"  # the name follows the last slash of an ARN

"""Pruning for Strands Agents: the agent's message list is pruned before each call of the model.

    agent = Agent(model=model, tools=[...], hooks=[PruningHook("50k")])

How it works: Strands calls a `ConversationManager` only after the whole tool loop, but `BeforeModelCallEvent` is sent
before each request. Requests are copied from `agent.messages`, so that list itself is pruned, and cleared results are
lost: give a pruner with an archive to keep them.
"""

from typing import Any

from strands.hooks import BeforeModelCallEvent, HookProvider, HookRegistry

from autoprune.errors import SettingsError
from autoprune.integrations._hooks import Pruning, RequestPruner
from autoprune.planning.view import Strategy


class PruningHook(HookProvider):
    """Prunes an agent's messages before each call of its model. The system prompt and the tools are counted.

    A model call raises SettingsError before messages are folded or dropped if the agent has a session manager.
    """

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
        # When a session is restored, Strands skips as many stored messages as were removed from the agent's list.
        if len(messages) < len(agent.messages) and getattr(agent, "_session_manager", None):
            raise SettingsError(
                "folding or dropping messages would make the agent's stored session unusable: use a strategy that only "
                "clears results, such as cache_aware without fold_steps, or an agent without a session manager"
            )
        if messages is not agent.messages:
            agent.messages[:] = messages  # the list itself is shared with the agent's loop


def _path(model: Any) -> str:
    """Return the path of a Bedrock request with the model's name, because Strands uses Bedrock's messages."""
    name = str(model.get_config().get("model_id"))
    return f"/model/{name.rpartition('/')[2]}/converse"  # the name follows the last slash of an ARN

"""Prune before the model in a graph: `create_react_agent(model, tools, pre_model_hook=pre_model_hook("50k"))`.

Only the sent messages are pruned; the graph's state keeps the full history. This module does not import LangGraph.
"""

from collections.abc import Callable, Mapping
from typing import Any

from autoprune.integrations import langchain_messages
from autoprune.integrations._hooks import FrameworkPruner, Pruning, cannot_send
from autoprune.planning.view import Strategy


def pre_model_hook(
    pruning: Pruning, *, strategy: str | Strategy | None = None
) -> Callable[[Any], dict[str, list[Any]]]:
    """Create a node that puts pruned messages into the state's `llm_input_messages` and leaves `messages` unchanged.

    The arguments are those of `langchain.PruningMiddleware`. A hook gets neither model, system prompt nor tools: give
    `PruneArgs("50k", model="gpt-5", overhead_tokens=3_000)` for the prices, the window and the tokens of the others.

    The node raises SettingsError if the next request needs parameters, which a node cannot add (`docs/thinking.md`).
    """
    pruner = FrameworkPruner(langchain_messages, pruning, strategy)

    def prune(state: Any) -> dict[str, list[Any]]:
        messages = state["messages"] if isinstance(state, Mapping) else state.messages
        result = pruner.prune(messages)
        if result.request_parameters:
            raise cannot_send("a node", result.request_parameters, "langchain.PruningMiddleware, or ")
        return {"llm_input_messages": result.conversation}

    return prune

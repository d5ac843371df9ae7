"""Prune before the model in a graph: `create_react_agent(model, tools, pre_model_hook=pre_model_hook("50k"))`.

Only what is sent is pruned; the graph's state keeps the full history. Needs LangGraph no more than its messages do.
"""

from collections.abc import Callable, Mapping
from typing import Any

from autoprune.errors import SettingsError
from autoprune.integrations import langchain_messages
from autoprune.integrations._attached import Attached
from autoprune.integrations._hooks import Pruning
from autoprune.planning.view import Strategy


def pre_model_hook(
    pruning: Pruning, *, strategy: str | Strategy | None = None
) -> Callable[[Any], dict[str, list[Any]]]:
    """Return a node that puts the messages to send into the state's `llm_input_messages`, and leaves `messages` alone.

    The arguments are those of `langchain.PruningMiddleware`. A hook sees neither model, system prompt nor tools: say
    `PruneArgs("50k", model="gpt-5", overhead_tokens=3_000)` for prices, window and what is sent beside the messages.

    The node raises SettingsError where the next request must say something besides, which a node cannot
    (`docs/thinking.md`).
    """
    attached = Attached(langchain_messages, pruning, strategy)

    def prune(state: Any) -> dict[str, list[Any]]:
        messages = state["messages"] if isinstance(state, Mapping) else state.messages
        result = attached.prune(messages)
        if result.request_parameters:
            raise SettingsError(
                f"the next request must say {dict(result.request_parameters)!r}, which a node cannot: use "
                "langchain.PruningMiddleware, or PruneArgs(thinking_policy='refuse')"
            )
        return {"llm_input_messages": result.conversation}

    return prune

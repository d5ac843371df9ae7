"""The public pruners, and what a prune returns.

    agentic, conversation     the two pruners: one clears tool results, the other folds and drops whole messages
    memory                    what a pruner remembers between calls
    writing, large_results    the texts that take the place of messages, and of large results
    result, report            what a prune returns, what callbacks and ledgers get
    requests                  prune the conversation in a request to a provider's API
    decorator, naming         prune a function's arguments; find a pruner and a strategy by a text

`_base` holds what both pruners share: settings, strategies, and the calls besides `prune`.
"""

from autoprune.pruners.agentic import AgenticConversationPruner
from autoprune.pruners.result import PruneEvent, Result

__all__ = ["AgenticConversationPruner", "PruneEvent", "Result"]

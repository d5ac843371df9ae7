"""The pruners and their results.

    pruner, conversation      the two pruners: one clears tool results, the other folds and drops whole messages
    memory                    how messages are read, and the cache of conversations between calls
    history                   the settings of each request, and which conversation a request continues
    writing, large_results    the texts that replace messages and large results
    result, report            the outcome of a prune, its callbacks, figures for a ledger, advice
    requests                  prune the conversation in a request to a provider's API
    decorator, naming         prune a function's arguments; find a pruner and a strategy by name

`pruner` also has the base class of both. `_base` has their settings and strategies, and the inputs of one prune.
"""

from autoprune.pruners.pruner import AgenticConversationPruner
from autoprune.pruners.result import PruneEvent, Result

__all__ = ["AgenticConversationPruner", "PruneEvent", "Result"]

"""The public pruners, and what a prune returns.

`agentic` clears tool results, `conversation` folds and drops whole messages; `_base` holds what both share. A prune is
compare → read → walk → rewrite → report, and `_progress` says how a conversation that grows is taken up where it was
left, also where marks for the cache have moved in it (`_cache_marks`). `_terms` are the settings of one prune, and a
`_reading` is how they have messages read and counted. `_writing` writes the texts that take the place of messages and
of large results, looked up in `_text_store` first; `_finishing` puts them into the conversation. `_advice` finds the
next step where the safe zone is out of reach, `_statistics` what became of one conversation in another, and `_sent` has
the figures that a ledger takes.
`decorator` prunes the arguments of a function, `events` are the callbacks, and `by_name` finds the pruner and the
strategy that a text names.
"""

from autoprune.pruners.agentic import AgenticConversationPruner
from autoprune.pruners.events import PruneEvent
from autoprune.pruners.result import Result

__all__ = ["AgenticConversationPruner", "PruneEvent", "Result"]

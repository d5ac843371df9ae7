"""What each provider's API refuses of a conversation, and how it is mended.

`problems` names the rules that a conversation breaks, in the provider's own words; `repair` mends what can be mended
and notes each thing that it did. Both find the provider out from the messages, or are told it. `accepted` is for
pruners: it raises where a provider would refuse what was pruned.

Thinking that is bound to what stands before it is `thinking`'s: `ThinkingPolicy` says what becomes of it behind an
edit, `merged` puts what the next request must say besides into its arguments.

Each API has a module with its rules and its repair (`_anthropic`, `_bedrock`, `_gemini`, `_openai_chat`,
`_openai_responses`) and a row in `_table`. The three whose messages are lists of blocks are mended by the same steps,
in `_turns`, which read and write messages through the `Shape` that each of the three modules is.
"""

from autoprune.planning.plan import ThinkingPolicy
from autoprune.providers._problem import (
    BEGINNING,
    EMPTY,
    NO_RESULT,
    NO_WORDS,
    Problem,
    Repair,
    Repaired,
)
from autoprune.providers._repair import UNREPAIRED, repair
from autoprune.providers._table import USER_FIRST
from autoprune.providers._validation import accepted, problems, resolved
from autoprune.providers.thinking import merged

__all__ = [
    "BEGINNING",
    "EMPTY",
    "NO_RESULT",
    "NO_WORDS",
    "UNREPAIRED",
    "USER_FIRST",
    "Problem",
    "Repair",
    "Repaired",
    "ThinkingPolicy",
    "accepted",
    "merged",
    "problems",
    "repair",
    "resolved",
]

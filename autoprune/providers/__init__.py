"""What each provider's API refuses of a conversation, and how it is mended.

`problems` names the rules that a conversation breaks, in the provider's own words; `repair` mends what can be mended
and notes each thing that it did. Both find the provider out from the messages, or are told it. `accepted` is for
pruners: it raises where a provider would refuse what was pruned.

Thinking that is bound to what stands before it is `thinking`'s: `ThinkingPolicy` says what becomes of it behind an
edit, `merged` puts what the next request must say besides into its arguments.

A provider is a `Provider`: a value with a name, rules and their repair. Each that ships has a module (`_anthropic`,
`_bedrock`, `_gemini`, `_openai_chat`, `_openai_responses`) and a line in `_table`. The three whose messages are lists
of blocks are mended by the same steps, in `_turns`, which read and write messages through a `Shape`.
"""

from autoprune.planning.plan import ThinkingPolicy
from autoprune.providers._problem import (
    BEGINNING,
    EMPTY,
    NO_RESULT,
    NO_WORDS,
    OpenCalls,
    Problem,
    Provider,
    Repair,
    Repaired,
    Round,
)
from autoprune.providers._table import PROVIDERS, USER_FIRST, resolved
from autoprune.providers._validation import UNREPAIRED, accepted, problems, repair
from autoprune.providers.thinking import merged

__all__ = [
    "BEGINNING",
    "EMPTY",
    "NO_RESULT",
    "NO_WORDS",
    "PROVIDERS",
    "UNREPAIRED",
    "USER_FIRST",
    "OpenCalls",
    "Problem",
    "Provider",
    "Repair",
    "Repaired",
    "Round",
    "ThinkingPolicy",
    "accepted",
    "merged",
    "problems",
    "repair",
    "resolved",
]

"""Validate conversations against the rules of each provider's API, and repair conversations that break rules.

`problems` names the rules that a conversation breaks, with the provider's error messages; `repair` repairs most of them
and lists its changes. Both take the name of a provider, or detect the provider from the messages. `check_accepted` is
for pruners: it raises an error if a provider would reject the pruned conversation.

`thinking` handles thinking blocks that are bound to the messages before them: a `ThinkingPolicy` decides what happens
to the blocks after an edit, and `merged` adds the parameters that the next request needs to its arguments.

A provider is a `Provider`, a value with a name, rules and their repair. Each shipped provider has a module
(`_anthropic_api`, `_bedrock_api`, `_chat_api`, `_gemini_api`, `_responses_api`) and a line in `_validation`. Three of
the APIs have messages that hold blocks, which `_block_repair` repairs; all five share `_repairs`.
"""

from autoprune.planning.plan import ThinkingPolicy
from autoprune.providers._anthropic_api import places_system
from autoprune.providers._repairs import (
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
from autoprune.providers._validation import (
    PROVIDERS,
    UNREPAIRED,
    USER_FIRST,
    check_accepted,
    find_provider,
    problems,
    repair,
)
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
    "check_accepted",
    "find_provider",
    "merged",
    "places_system",
    "problems",
    "repair",
]

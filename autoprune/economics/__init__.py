"""What prompts cost: prices in units of one input token, and the bill of a row of requests. Decides nothing.

Providers cache the beginning of a prompt. Where a prompt begins as the one before it did, those tokens are read from
the cache for a fraction of an input token; the others are written, for one token or a little more. A request costs

    read · held + write · (prompt - held) + output · answer

where `held` are the tokens that the cache still holds: the longest common beginning of both prompts, or nothing after a
pause longer than the cache's life. To clear `k` tokens in front of `S` cached ones pays from `break_even` requests on.

`Prices` are those of a model or a list, `Pauses` records how long the cache was left alone, and a `Ledger` says of each
prune what it has saved and what it has cost.
"""

from autoprune.economics._entries import Entry
from autoprune.economics._ledger import Ledger, Reported
from autoprune.economics._prices import (
    CACHE_LIFE,
    CALL_TOKENS,
    DEFAULT,
    HOUR,
    LISTS,
    Prices,
    lifetime,
    of_model,
    prices,
)
from autoprune.economics._prompts import Clock, Pauses, Pruned, Sent, Weighed, checked_pauses

__all__ = [
    "CACHE_LIFE",
    "CALL_TOKENS",
    "DEFAULT",
    "HOUR",
    "LISTS",
    "Clock",
    "Entry",
    "Ledger",
    "Pauses",
    "Prices",
    "Pruned",
    "Reported",
    "Sent",
    "Weighed",
    "checked_pauses",
    "lifetime",
    "of_model",
    "prices",
]

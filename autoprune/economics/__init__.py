"""The costs of prompts: prices in units of one input token, pauses, and a ledger of savings. Decides nothing.

Providers cache the prefix of a prompt. The prefix that a prompt shares with the previous one is read from the cache
for a fraction of an input token per token; the rest is written to it, for one input token or a little more. A request
costs

    read · held + write · (prompt - held) + output · answer

where `held` is the longest common prefix of both prompts, or 0 after a pause longer than the cache's life. Clearing `k`
tokens in front of `S` cached ones pays after `break_even(k, S)` requests.

`Prices` are those of a model or a list, `Pauses` records the time between requests, and a `Ledger` records what each
prune has saved and cost.
"""

from autoprune.economics._changes import Clock, Pauses, Pruned, Sent, Weighed, check_pauses
from autoprune.economics._entries import LedgerEntry, amount
from autoprune.economics._ledger import Ledger, Reported
from autoprune.economics._prices import (
    CACHE_LIFE,
    CALL_TOKENS,
    DEFAULT,
    FIVE_MINUTE_WRITE,
    HOUR,
    LISTS,
    ONE_HOUR_WRITE,
    WARM,
    Invoice,
    Prices,
    TextRatio,
    Tier,
    check_invoices,
    life_text,
    model_prices,
    prices,
)

__all__ = [
    "CACHE_LIFE",
    "CALL_TOKENS",
    "DEFAULT",
    "FIVE_MINUTE_WRITE",
    "HOUR",
    "LISTS",
    "ONE_HOUR_WRITE",
    "WARM",
    "Clock",
    "Invoice",
    "Ledger",
    "LedgerEntry",
    "Pauses",
    "Prices",
    "Pruned",
    "Reported",
    "Sent",
    "TextRatio",
    "Tier",
    "Weighed",
    "amount",
    "check_invoices",
    "check_pauses",
    "life_text",
    "model_prices",
    "prices",
]

"""What the prunes of a conversation have cost so far, with the provider's prompt cache, beside no pruning at all."""

from collections.abc import Mapping

from autoprune.economics import Prices
from autoprune.planning.plan import Plan

LEAST = 1.02  # of the bill without pruning: what costs less more than that is not worth a note


def cache_note(plan: Plan, prices: Prices) -> str:
    """Return a sentence for prunes that broke the cache so often that they cost more than no pruning; "" if not.

    It counts the requests of the conversation as it was given: what was cleared before that is not known here.
    """
    pruned, unpruned = bills(plan, prices)
    if pruned <= LEAST * unpruned:
        return ""
    return (
        f"with the provider's prompt cache this costs more than no pruning: {pruned:,.0f} input tokens so far, against "
        f'{unpruned:,.0f} ({pruned / unpruned:.2f} times as much); strategy="cache_aware" clears only when that pays'
    )


def bills(plan: Plan, prices: Prices) -> tuple[float, float]:
    """Return what the prompts have cost as they were pruned, and what they would have cost whole, in input tokens."""
    weights = [entry.tokens for entry in plan.transcript.entries]
    saved: list[int] = [0] * len(weights)
    edits = _by_request(plan)
    pruned = unpruned = 0.0
    before = whole_before = 0
    for request, stop in enumerate(plan.transcript.requests):
        new = edits.get(request, {})
        for message, tokens in new.items():
            saved[message] += tokens
        whole = sum(weights[:stop])
        prompt = whole - sum(saved[:stop])
        first = min(new, default=stop)
        held = min(before, sum(weights[:first]) - sum(saved[:first]))
        pruned += prices.request(prompt, held)
        unpruned += prices.request(whole, whole_before)
        before, whole_before = prompt, whole
    return pruned, unpruned


def _by_request(plan: Plan) -> Mapping[int, Mapping[int, int]]:
    """Return the tokens that were saved in messages, by the request of the prune and the message."""
    found: dict[int, dict[int, int]] = {}
    for edit in plan.edits:
        messages = found.setdefault(edit.request, {})
        at = edit.part.location.message
        messages[at] = messages.get(at, 0) + edit.saved
    return found

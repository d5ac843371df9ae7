"""Advice: what would bring a conversation within its safe zone, and whether clearing costs more than it saves.

Changes nothing, calls no model.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from autoprune.conversation.edits import Replace
from autoprune.conversation.transcript import ToolResult
from autoprune.economics import Prices
from autoprune.errors import SettingsError
from autoprune.facts.calls import target
from autoprune.planning.clamping import Clamp
from autoprune.planning.plan import Plan
from autoprune.pruners.report import Report, reason
from autoprune.settings.values import override
from autoprune.tokens import scale_tokens

# Strategies of ConversationPruner: hybrid also drops messages, and per_result cuts or summarizes large results.
ALTERNATIVES = ("hybrid", "per_result")
ROUNDS = 4  # attempts to find a safe zone that can be reached
CLAMP_SHARE = 4  # the suggested clamp cuts results to a quarter of the safe zone
LONGEST_TARGET = 60  # characters
GIANT_SHARE = 4  # a result that stays is named if it takes at least a quarter of the safe zone


def advice(pruner: Any, folding: Callable[[], Any], strategy: object, calibration: float, report: Report) -> str:
    """Advise what to do if a prune leaves the conversation over its safe zone, with figures; "" without advice.

    `pruner` pruned with `strategy`, and `folding` creates a `ConversationPruner` with the same settings. Each figure
    comes from an actual plan, so following the advice has exactly this effect.
    """
    messages, beyond = list(report.plan.transcript.messages), report.plan.beyond

    def tokens_left(by: Any, chosen: object, zone: int | None = None) -> int:
        """Compute the most tokens that are left if another strategy prunes instead."""
        if zone is not None or beyond:
            # A plan does not know the tokens that the provider reported beyond the count, so the zone shrinks by them.
            room = max(1, (zone or report.safe_zone) - scale_tokens(beyond, calibration))
            by = by._with(args=override(by.args, by._environ, safe_zone=room))
        return scale_tokens(by.plan(messages, chosen, calibration=calibration).tokens + beyond, calibration)

    def find_zone(by: Any, chosen: object, zone: int) -> int | None:
        """Find a safe zone of at least `zone` that a strategy reaches; None if none was found."""
        with suppress(SettingsError):  # a zone larger than any window
            for _ in range(ROUNDS):
                if (left := tokens_left(by, chosen, zone)) <= zone:
                    return zone
                zone = left
        return None

    other = folding()
    left = {name: tokens_left(other, name) for name in ALTERNATIVES if name != report.strategy}
    within = [_sentence(f"the strategy {name} of ConversationPruner", left[name], report) for name in left]
    said = [_describe_giant(report), *filter(None, within)]
    if not any(within):
        said += filter(None, [_suggest_clamp(strategy, report, lambda chosen: tokens_left(pruner, chosen))])
    if not any(said[1:]):
        zones = {report.strategy: find_zone(pruner, strategy, report.tokens_after)}
        zones |= {f"{name} of ConversationPruner": find_zone(other, name, tokens) for name, tokens in left.items()}
        reached = [(zone, name) for name, zone in zones.items() if zone is not None]
        if reached:
            zone, name = min(reached, key=lambda found: found[0])
            said.append(f"a safe zone of {zone:,} tokens can be reached, with the strategy {name}")
    return "; ".join(filter(None, said))


def _sentence(what: str, tokens: int, report: Report) -> str:
    """Describe the tokens that a measure would leave; "" if they are over the safe zone."""
    return f"{what} would bring it to at most {tokens:,} tokens" if tokens <= report.safe_zone else ""


def _suggest_clamp(strategy: object, report: Report, tokens_left: Callable[[object], int]) -> str:
    """Describe the effect of cutting large results as they arrive; "" if the strategy cannot, or already does."""
    if not dataclasses.is_dataclass(strategy) or isinstance(strategy, type):
        return ""
    # A class attribute, as `BaseStrategy` has, is no field that `replace` could set.
    if "clamp" not in (field.name for field in dataclasses.fields(strategy)) or strategy.clamp is not None:  # type: ignore[attr-defined]
        return ""
    most = max(1, report.plan.limit // CLAMP_SHARE)
    tokens = tokens_left(dataclasses.replace(strategy, clamp=Clamp(max_result_tokens=most)))
    return _sentence(f"clamp=Clamp(max_result_tokens={most})", tokens, report)


def _describe_giant(report: Report) -> str:
    """Describe the largest seen result that stays whole but could be cleared; "" if it is not large."""
    plan = report.plan
    seen = [result for result in plan.kept if not plan.is_unseen(result) and not reason(plan, result).lasts]
    if not seen:
        return ""
    giant: ToolResult = max(seen, key=lambda result: result.tokens)
    if giant.tokens * GIANT_SHARE < plan.limit:
        return ""
    what = f"{giant.tool} {target(giant.call)[:LONGEST_TARGET]}".strip()
    where = f"({what}, message {giant.location.message})"
    return f"a result that the model has seen stays whole: {giant.tokens:,} tokens {where}"


# Clearing that costs more than it saves

LEAST_LOSS = 1.02  # times the cost without pruning; a smaller loss is not worth a note


def cache_note(plan: Plan, prices: Prices) -> str:
    """Write a note if the prunes broke the cache so often that they cost more than no pruning; "" otherwise.

    Only the requests of the conversation as passed are counted, since results that were cleared earlier are unknown.
    """
    pruned, unpruned = bills(plan, prices)
    if pruned <= LEAST_LOSS * unpruned:
        return ""
    return (
        f"with the provider's prompt cache this costs more than no pruning: {pruned:,.0f} input tokens so far, against "
        f'{unpruned:,.0f} ({pruned / unpruned:.2f} times as much); strategy="cache_aware" clears only when that pays'
    )


def bills(plan: Plan, prices: Prices) -> tuple[float, float]:
    """Compute the cost of all prompts with the plan's edits and without any, in input tokens at full price."""
    weights = [entry.tokens for entry in plan.transcript.entries]
    saved: list[int] = [0] * len(weights)
    made: dict[int, list[Replace]] = defaultdict(list)
    for edit in plan.edits:
        made[edit.request].append(edit)
    pruned = unpruned = 0.0
    before = whole_before = 0
    for request, stop in enumerate(plan.transcript.requests):
        for edit in made[request]:
            saved[edit.part.location.message] += edit.saved
        whole = sum(weights[:stop])
        prompt = whole - sum(saved[:stop])
        first = min((edit.part.location.message for edit in made[request]), default=stop)
        # The cache holds the previous prompt up to the first message that is edited at this request.
        held = min(before, sum(weights[:first]) - sum(saved[:first]))
        pruned += prices.request(prompt, held)
        unpruned += prices.request(whole, whole_before)
        before, whole_before = prompt, whole
    return pruned, unpruned

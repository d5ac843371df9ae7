"""Find by trying what would bring a conversation within its safe zone. Changes nothing, calls no model."""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

from autoprune.conversation.transcript import ToolResult
from autoprune.facts.calls import target
from autoprune.planning.clamping import Clamp
from autoprune.pruners.memory import Memory
from autoprune.pruners.report import LASTING, Report, reason
from autoprune.tokens import scale_tokens

ALTERNATIVES = ("hybrid", "per_result")  # of ConversationPruner: what can take more than clearing and summaries
ROUNDS = 4  # in which a safe zone is looked for that can be reached
CLAMP_SHARE = 4  # of the safe zone, that one result is cut to: a quarter
LONGEST_TARGET = 60  # characters
GIANT_SHARE = 4  # of the safe zone, from which on a result that stays is named


class OtherZone:
    """The arguments of a pruner with another safe zone."""

    def __init__(self, args: object, tokens: int) -> None:
        """Stand before `args`."""
        self.conversation_prune_safe_zone_tokens = tokens
        self._args = args

    def __getattr__(self, name: str) -> Any:
        """Return any other argument as it was."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._args, name)


def advice(pruner: Any, folding: Callable[[], Any], strategy: object, calibration: float, report: Report) -> str:
    """Return what to do where a prune leaves the conversation over its safe zone, with figures; "" for nothing known.

    `pruner` pruned with `strategy`; `folding` makes a `ConversationPruner` with the same settings. Each figure is that
    of a plan that was made for it, so following the advice does what it says.
    """
    messages, beyond = list(report.plan.transcript.messages), report.plan.beyond

    def tried(by: Any, chosen: object, zone: int | None = None) -> int:
        """Return the most tokens that are left when a strategy prunes in its place."""
        other = copy.copy(by)
        other._memory = Memory()
        if zone is not None or beyond:
            # The plan knows nothing of what a provider reported, so that must fit in beside it.
            other.args = OtherZone(by.args, max(1, (zone or report.safe_zone) - scale_tokens(beyond, calibration)))
        return scale_tokens(other.plan(messages, chosen, calibration=calibration).tokens + beyond, calibration)

    def in_reach(by: Any, chosen: object, zone: int) -> int | None:
        """Return a safe zone that a strategy reaches, from `zone` on; None if none was found."""
        for _ in range(ROUNDS):
            if (left := tried(by, chosen, zone)) <= zone:
                return zone
            zone = left
        return None

    other = folding()
    left = {name: tried(other, name) for name in ALTERNATIVES if name != report.strategy}
    within = [_would(f"the strategy {name} of ConversationPruner", left[name], report) for name in left]
    said = [_giant(report), *filter(None, within)]
    if not any(within):
        said += filter(None, [_clamped(strategy, report, lambda chosen: tried(pruner, chosen))])
    if not any(said[1:]):
        zones = {report.strategy: in_reach(pruner, strategy, report.tokens_after)}
        zones |= {f"{name} of ConversationPruner": in_reach(other, name, tokens) for name, tokens in left.items()}
        reached = [(zone, name) for name, zone in zones.items() if zone is not None]
        if reached:
            zone, name = min(reached, key=lambda found: found[0])
            said.append(f"a safe zone of {zone:,} tokens can be reached, with the strategy {name}")
    return "; ".join(filter(None, said))


def _would(what: str, tokens: int, report: Report) -> str:
    """Return what something would bring the conversation to, in words; "" if that is over the safe zone."""
    return f"{what} would bring it to at most {tokens:,} tokens" if tokens <= report.safe_zone else ""


def _clamped(strategy: object, report: Report, tried: Callable[[object], int]) -> str:
    """Return what cutting giants when they arrive would bring; "" if the strategy cannot, or does already."""
    if not dataclasses.is_dataclass(strategy) or isinstance(strategy, type):
        return ""
    # A class attribute, as `BaseStrategy` has, is no field that `replace` could set.
    if "clamp" not in (field.name for field in dataclasses.fields(strategy)) or strategy.clamp is not None:  # type: ignore[attr-defined]
        return ""
    most = max(1, report.plan.limit // CLAMP_SHARE)
    tokens = tried(dataclasses.replace(strategy, clamp=Clamp(max_result_tokens=most)))
    return _would(f"clamp=Clamp(max_result_tokens={most})", tokens, report)


def _giant(report: Report) -> str:
    """Return in words the largest result that the model has seen and that stays whole; "" if it is no giant."""
    plan = report.plan
    seen = [result for result in plan.kept if not plan.is_unseen(result) and reason(plan, result) not in LASTING]
    if not seen:
        return ""
    giant: ToolResult = max(seen, key=lambda result: result.tokens)
    if giant.tokens * GIANT_SHARE < plan.limit:
        return ""
    what = f"{giant.tool} {target(giant.call)[:LONGEST_TARGET]}".strip()
    where = f"({what}, message {giant.location.message})"
    return f"a result that the model has seen stays whole: {giant.tokens:,} tokens {where}"

"""The pruner that clears tool results, and a function that prunes once."""

from collections.abc import Mapping
from typing import Any, Self

from autoprune.conversation.archive import ArchiveLike
from autoprune.planning.view import Strategy
from autoprune.pruners._base import check_ratio
from autoprune.pruners._pruner import Pruner
from autoprune.pruners.history import History, with_request
from autoprune.pruners.result import Message, Result
from autoprune.settings import Args, cache_ttl, overhead_tokens, override, safe_zone, text_setting
from autoprune.wire import Provider


class AgenticConversationPruner(Pruner):
    """Keep an agent's conversation within its safe zone by clearing the tool results that it needs least.

    `args` is a `PruneArgs`, a mapping with the same keys, a budget such as `"50k"`, or any object with
    `conversation_prune_safe_zone_tokens`. It is read at each prune. `llm` is stored and never called. `count` replaces
    the exact token counter by any `Callable[[str], int]`. `formats` are additional wire formats, tried before the
    built-in ones.
    """

    is_folding = False
    default: Strategy
    strategies: dict[str, Strategy]

    def with_history(
        self, history: History, messages: int, calibration: float = 1.0
    ) -> tuple[Self, Mapping[str, Any], History]:
        """Return what prunes a request with this many messages, if `history` holds the settings of earlier requests.

        That is a pruner with the settings of the first request, the options of its `prune`, and the history with this
        request, for the next one. The current settings apply from this request on (`pruners.history`). The pruner
        shares its caches.
        """
        args, environ = self.args, self._environ
        now = {
            "safe_zone": safe_zone(args, environ),
            "calibration": check_ratio(calibration),
            "model": text_setting(args, "model", environ),
            "cache_ttl": cache_ttl(args, environ),
            "overhead_tokens": overhead_tokens(args, environ),
        }
        whole = with_request(history, now, messages)
        first = whole[0]
        others = {name: value for name, value in first.items() if value != now[name] and name != "calibration"}
        pruner = self._with(args=override(args, environ, **others)) if others else self
        later = {at: changes for at, changes in whole.items() if at and changes}
        return pruner, {"calibration": first["calibration"], **({"history": later} if later else {})}, whole

    def _folding(self) -> Pruner:
        """Create a `ConversationPruner` with the same settings."""
        from autoprune.pruners.conversation import ConversationPruner

        return ConversationPruner(
            self.args, count=self._given_count, formats=self.formats, archive=self.archive, environ=self._environ
        )


def prune(
    messages: list[Message],
    args: Args = None,
    *,
    strategy: str | Strategy | None = None,
    model: str | None = None,
    calibration: float = 1.0,
    validate: bool | str | Provider = False,
    pauses: Mapping[int, float] | None = None,
    archive: ArchiveLike | None = None,
) -> Result[Message]:
    """Prune a conversation once: `prune(messages, model="gpt-5").conversation` is what to send.

    The strategy is `cache_aware`, unless `strategy` or AUTOPRUNE_STRATEGY names another. `args` is a safe zone or
    settings, as for `AgenticConversationPruner`, whose `prune` documents the other arguments and the errors. If they
    hold no safe zone, it is the window of a known model without room for the reply.

    Each call reads the conversation from its start. In a loop, keep an `AgenticConversationPruner`: it returns the same
    and reads only the new messages. You also need one for callbacks, your own formats or token counter, and `recall`.
    """
    pruner = AgenticConversationPruner(args, strategy=strategy, model=model, archive=archive)
    pruner = pruner.with_strategy().with_usual_zone()
    return pruner.prune(messages, calibration=calibration, validate=validate, pauses=pauses)

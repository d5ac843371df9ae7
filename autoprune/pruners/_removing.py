"""Take the messages of folded steps out of a conversation, and put the texts in their place. Decides nothing."""

from dataclasses import replace
from typing import Any

from autoprune.conversation.edits import savings_by_message
from autoprune.conversation.messages import fields_of
from autoprune.conversation.summary import AssembledMessage, assemble
from autoprune.planning.plan import Plan
from autoprune.pruners.memory import Reading
from autoprune.wire import dominant_format
from autoprune.wire.anthropic import places_system
from autoprune.wire.parsing import parse


def without_folded(plan: Plan, edited: list[Any], reading: Reading) -> tuple[Plan, list[Any]]:
    """Return the plan with the new counts, and the messages in which each fold's text replaces its messages.

    `edited` are the messages with all edits made. A text joins the message of the user before it; if there is none, it
    becomes a new message.
    """
    written_in = dominant_format(list(map(fields_of, edited)), reading.formats)
    texts = {fold.messages[0]: written_in.message("user", fold.text) for fold in plan.folds}
    kept = assemble(edited, plan.gone, texts, moves_system=places_system(edited))
    saved = savings_by_message(plan.edits, plan.stripped)
    sizes = [entry.tokens - saved.get(at, 0) for at, entry in enumerate(plan.transcript.entries)]

    def weigh(each: AssembledMessage) -> int:
        """Count what a message with texts has beyond the messages in it, whose tokens depend on those before them."""
        if each.at is not None:
            return sizes[each.at]
        held = [at for at in each.sources if at not in plan.gone]
        return sum(sizes[at] - _count_alone(edited[at], reading) for at in held) + _count_alone(each.message, reading)

    weights = tuple(map(weigh, kept))
    found = {source: index for index, each in enumerate(kept) for source in each.sources}
    places = tuple(found[plan.gone[at].messages[0] if at in plan.gone else at] for at in range(len(sizes)))
    counted = plan.transcript.fixed_tokens + sum(weights)
    return replace(plan, counted=counted, weights=weights, places=places), [each.message for each in kept]


def _count_alone(message: object, reading: Reading) -> int:
    return parse([message], reading.parser(), 0).tokens

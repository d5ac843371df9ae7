"""Take the messages of folded steps out of a conversation, and put the texts in their place. Decides nothing."""

from dataclasses import replace
from typing import Any

from autoprune.conversation.edits import savings_by_message
from autoprune.conversation.messages import fields_of
from autoprune.conversation.summary import assemble
from autoprune.formats import dominant_format
from autoprune.formats.parsing import parse
from autoprune.planning.plan import Plan
from autoprune.providers import places_system
from autoprune.pruners.memory import Reading


def without_folded(plan: Plan, edited: list[Any], reading: Reading, fixed_tokens: int) -> tuple[Plan, list[Any]]:
    """Return the plan with the new counts, and the messages in which each fold's text replaces its messages.

    `edited` are the messages with all edits made. Without folds, both are returned unchanged. A text joins the message
    of the user before it; if there is none, it becomes a new message.
    """
    if not plan.folds:
        return plan, edited
    written_in = dominant_format(list(map(fields_of, edited)), reading.formats)
    texts = {fold.messages[0]: written_in.message("user", fold.text) for fold in plan.folds}
    kept = assemble(edited, plan.gone, texts, moves_system=places_system(edited))
    saved = savings_by_message(plan.edits, plan.stripped)
    entries = plan.transcript.entries
    weights = [
        _weigh(each.message, reading) if each.at is None else entries[each.at].tokens - saved.get(each.at, 0)
        for each in kept
    ]
    found = {source: index for index, each in enumerate(kept) for source in each.sources}
    places = tuple(found[plan.gone[at].messages[0] if at in plan.gone else at] for at in range(len(entries)))
    counted = fixed_tokens + sum(weights)
    return replace(plan, counted=counted, weights=tuple(weights), places=places), [each.message for each in kept]


def _weigh(message: object, reading: Reading) -> int:
    return parse([message], reading.parser(), 0).tokens

"""How Amazon Bedrock's Converse API writes what a repair puts in."""

from collections.abc import Hashable, Sequence

from autoprune.repairs.repaired import EMPTY
from autoprune.rewriting import with_item
from autoprune.rules.problem import Problem
from autoprune.rules.reading import is_blank, known, listed, text

FIELD = "content"
MODEL = "assistant"
USERS: tuple[str | None, ...] = ("user",)


def block(words: str) -> object:
    """A block of text."""
    return {"text": words}


def message(role: str, blocks: Sequence[object], like: object) -> object:
    """A message of blocks."""
    return {"role": role, FIELD: list(blocks)}


def call_keys(role: str | None, found: object) -> tuple[Hashable, ...] | None:
    """A call is known by its id alone; one of the provider's own tools is answered in place."""
    call = known(known(found).get("toolUse"))
    if role != MODEL or not call or text(call.get("type")) == "server_tool_use":
        return None
    return _keys(call.get("toolUseId"))


def result_keys(role: str | None, found: object) -> tuple[Hashable, ...] | None:
    """So is that of a result."""
    result = known(known(found).get("toolResult"))
    return _keys(result.get("toolUseId")) if result and role != MODEL else None


def _keys(call_id: object) -> tuple[Hashable, ...]:
    plain = text(call_id)
    return () if plain is None else (plain,)


def weak_keys(found: object) -> tuple[Hashable, ...]:
    """A result answers no call but that of its id."""
    return ()


def answering(found: object, call: object) -> object:
    """A result says nothing of its call but the id."""
    return found


def name(found: object) -> str:
    """A result has no name."""
    return ""


def no_result(call: object, reason: str) -> object:
    """A failed result that says so."""
    call_id = known(known(call).get("toolUse")).get("toolUseId")
    return {"toolResult": {"toolUseId": call_id, "status": "error", "content": [block(reason)]}}


def renamed(found: object, call_id: str) -> object:
    """A call or a result with another id."""
    name = "toolUse" if known(found).get("toolUse") is not None else "toolResult"
    return with_item(found, name, with_item(known(found)[name], "toolUseId", call_id))


def mended(found: object, problems: Sequence[Problem]) -> object:
    """A result without its blank texts, and not without any content."""
    result = known(found)["toolResult"]
    parts = [part for part in listed(known(result).get(FIELD)) if not is_blank(known(part).get("text"))]
    return with_item(found, "toolResult", with_item(result, FIELD, parts or [block(EMPTY)]))

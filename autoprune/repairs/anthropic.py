"""How Anthropic's Messages API writes what a repair puts in."""

from collections.abc import Hashable, Sequence

from autoprune.repairs.repaired import EMPTY
from autoprune.rewriting import with_item
from autoprune.rules.problem import Problem
from autoprune.rules.reading import is_empty_text, known, listed, text

FIELD = "content"
MODEL = "assistant"
USERS: tuple[str | None, ...] = ("user",)


def block(words: str) -> object:
    """A block of text."""
    return {"type": "text", "text": words}


def message(role: str, blocks: Sequence[object], like: object) -> object:
    """A message of blocks; words alone are a text."""
    one = known(blocks[0]) if len(blocks) == 1 else {}
    return {"role": role, FIELD: one["text"] if one.get("type") == "text" else list(blocks)}


def call_keys(role: str | None, found: object) -> tuple[Hashable, ...] | None:
    """A call is known by its id alone."""
    one = known(found)
    if role != MODEL or one.get("type") != "tool_use":
        return None
    return _keys(one.get("id"))


def result_keys(role: str | None, found: object) -> tuple[Hashable, ...] | None:
    """So is that of a result."""
    one = known(found)
    return _keys(one.get("tool_use_id")) if one.get("type") == "tool_result" else None


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
    call_id = known(call).get("id")
    return {"type": "tool_result", "tool_use_id": call_id, "content": reason, "is_error": True}


def renamed(found: object, call_id: str) -> object:
    """A call or a result with another id."""
    return with_item(found, "id" if known(found).get("type") == "tool_use" else "tool_use_id", call_id)


def mended(found: object, problems: Sequence[Problem]) -> object:
    """A result without its empty texts."""
    parts = [part for part in listed(known(found).get("content")) if not is_empty_text(known(part).get("text"))]
    return with_item(found, "content", parts or EMPTY)

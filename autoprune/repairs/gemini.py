"""How the Gemini API writes what a repair puts in: with the names of the wire or of the SDK, as its neighbors are."""

from collections.abc import Hashable, Mapping, Sequence

from autoprune.repairs.copies import with_blocks
from autoprune.rewriting import with_item
from autoprune.rules.gemini import CALL, RESPONSE
from autoprune.rules.problem import Problem
from autoprune.rules.reading import first, known

FIELD = "parts"
MODEL = "model"
USERS: tuple[str | None, ...] = ("user", None, "function")


def block(words: str) -> object:
    """A part of text."""
    return {"text": words}


def message(role: str, blocks: Sequence[object], like: object) -> object:
    """A content of parts; beside an SDK's object it is one too."""
    if isinstance(like, Mapping) or not known(like):
        return {"role": role, FIELD: list(blocks)}
    return with_blocks(with_item(like, "role", role), FIELD, blocks)


def call_keys(role: str | None, found: object) -> tuple[Hashable, ...] | None:
    """A call is known by its name and, where it has one, its id."""
    for _, _, call in first([known(found)], CALL) if role == MODEL else ():
        name, call_id = _named(call)
        own = (("name", name),) if call_id is None else (("id", name, call_id), ("id", call_id))
        return (*own, ("any", name))
    return None


def result_keys(role: str | None, found: object) -> tuple[Hashable, ...] | None:
    """A response with an id answers the call that has it, or one that has none; one without an id any of its name."""
    for _, _, response in first([known(found)], RESPONSE):
        name, call_id = _named(response)
        return (("any", name),) if call_id is None else (("id", name, call_id), ("id", call_id), ("name", name))
    return None


def weak_keys(found: object) -> tuple[Hashable, ...]:
    """A response directly behind the calls may answer one of its name, whatever its id."""
    return (("any", name(found)),)


def answering(found: object, call: object) -> object:
    """A response with the name of its call."""
    ((_, _, called),), ((_, spelled, response),) = first([known(call)], CALL), first([known(found)], RESPONSE)
    wanted = known(called).get("name")
    if wanted is None or wanted == known(response).get("name"):
        return found
    return with_item(found, spelled, with_item(response, "name", wanted))


def name(found: object) -> str:
    """The name that a response has."""
    ((_, _, response),) = first([known(found)], RESPONSE)
    return _named(response)[0]


def _named(value: object) -> tuple[str, str | None]:
    one = known(value)
    call_id = one.get("id")
    return str(one.get("name")), None if call_id is None else str(call_id)


def no_result(call: object, reason: str) -> object:
    """An error that says so, under the name and id of the call."""
    ((_, spelled, found),) = first([known(call)], CALL)
    named = {name: value for name in ("id", "name") if (value := known(found).get(name)) is not None}
    return {RESPONSE[CALL.index(spelled)]: {**named, "response": {"error": reason}}}


def renamed(found: object, call_id: str) -> object:
    """No rule asks for another id."""
    return found


def mended(found: object, problems: Sequence[Problem]) -> object:
    """A response that is an object."""
    ((_, spelled, response),) = first([known(found)], RESPONSE)
    output = {"output": known(response)["response"]}
    return with_item(found, spelled, with_item(response, "response", output))

"""A conversation for the Gemini API: roles alternate, and every call has its response in the next content.

The rules are those of Gemini CLI's `historyHardening` module.
"""

from collections.abc import Sequence

from autoprune.apps.sessions._json import Object, fields, objects, text
from autoprune.apps.sessions._recorded import (
    NO_RESULT,
    CallOrResult,
    Conversation,
    Message,
    Placed,
    note,
    pair,
    pairing_notes,
    placed,
)
from autoprune.apps.sessions._requests import Moment

Part = Object
SENT = (
    *("text", "inlineData", "fileData", "executableCode", "codeExecutionResult"),
    *("functionCall", "functionResponse", "thoughtSignature"),
)


def call(named: Object, arguments: object) -> Message:
    """Make a call, with an id where it has one."""
    return {**_id(named), "name": text(named.get("name")), "args": fields(arguments)}


def response(named: Object, payload: object) -> Part:
    """Make the response to a call, with its id where it has one."""
    return {"functionResponse": {**_id(named), "name": text(named.get("name")), "response": payload}}


def _id(named: Object) -> Message:
    return {"id": named["id"]} if text(named.get("id")) else {}


def conversation(
    contents: Sequence[tuple[str, Sequence[Part]]],
    missing: str | None = NO_RESULT,
    notes: Sequence[str] = (),
    moments: Sequence[Moment] = (),
) -> Conversation:
    """Make a conversation of roles with their parts, in the order of a log.

    Responses come right after their calls, in their order; neighbors of one role become one content. A call without a
    response is answered with the error `missing`, or left out where that is None; a response that answers no call, or
    answers it again, is left out. Thoughts and empty parts are not sent. It begins with the user's words.
    """
    start = next((at for at, (role, parts) in enumerate(contents) if role == "user" and _spoken(parts)), len(contents))
    contents, moments = contents[start:], moments[start:]
    parts = [(at, part) for at, (role, said) in enumerate(contents) for part in _calls_or_results(role, said)]
    exchanges = [_call_or_result(at, part) for at, part in parts]
    found = pair(exchanges)
    replies: dict[int, list[Part | None]] = {}
    for index, each in enumerate(exchanges):
        if each.is_call:
            given = _reply(parts[index][1], parts[found[index]][1] if index in found else None, missing)
            replies.setdefault(each.message, []).append(given)
    made: list[Placed] = []
    for at, (role, said) in enumerate(contents):
        _add(made, role, _answered(_spoken(said, role), replies.get(at, ())), at)
        _add(made, "user", [reply for reply in replies.get(at, ()) if reply], None)
    early = note("contents before the user's first, left out", start)
    return placed(made, (*notes, *early, *pairing_notes(exchanges, found, missing)), moments)


def _spoken(parts: Sequence[Part], role: str = "user") -> list[Part]:
    """Return the parts that are sent where they stand: no thoughts, no responses, nothing empty; the model's calls."""
    sent = [_sent(part) for part in parts if not part.get("thought")]
    elsewhere = {"functionResponse"} if role == "model" else {"functionResponse", "functionCall"}
    return [part for part in sent if not elsewhere & set(part) and _holds(part)]


def _sent(part: Part) -> Part:
    """Return a part with what the API takes of it."""
    bare = {name: value for name, value in part.items() if name in SENT}
    if "functionCall" not in bare:
        return bare
    called = fields(bare["functionCall"])
    return {**bare, "functionCall": call(called, called.get("args"))} if called else {}


def _holds(part: Part) -> bool:
    return any(name != "text" or text(value).strip() for name, value in part.items())


def _calls_or_results(role: str, parts: Sequence[Part]) -> list[Part]:
    kind = "functionCall" if role == "model" else "functionResponse"
    return [part for part in parts if fields(part.get(kind)) and not part.get("thought")]


def _call_or_result(at: int, part: Part) -> CallOrResult:
    held = fields(part.get("functionCall")) or fields(part.get("functionResponse"))
    return CallOrResult(at, text(held.get("id")) or f"name:{text(held.get('name'))}", "functionCall" in part)


def _answered(parts: Sequence[Part], replies: Sequence[Part | None]) -> list[Part]:
    """Return parts with the calls that have a reply."""
    left = iter(replies)
    return [part for part in parts if "functionCall" not in part or next(left)]


def _reply(asked: Part, given: Part | None, missing: str | None) -> Part | None:
    """Return the response to a call under the call's own id and name: what was given, else an error, else None."""
    if given is None and missing is None:
        return None
    payload = fields(given.get("functionResponse")).get("response") if given else {"error": missing}
    is_object = isinstance(payload, dict)
    return response(fields(asked.get("functionCall")), payload if is_object else {"output": payload})


def _add(made: list[Placed], role: str, parts: Sequence[Part], at: int | None) -> None:
    """Say more: in the last content where that has the role."""
    if parts and made and made[-1][0]["role"] == role:
        last, origin = made[-1]
        made[-1] = {"role": role, "parts": [*objects(last["parts"]), *parts]}, origin
    elif parts:
        made.append(({"role": role, "parts": list(parts)}, at))

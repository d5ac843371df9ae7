"""A conversation for the Responses API: every call has its output, and every output its call."""

from collections.abc import Sequence

from autoprune.apps.sessions._json import Object, text
from autoprune.apps.sessions._recorded import (
    NO_RESULT,
    CallOrResult,
    Conversation,
    Message,
    Placed,
    bad_message,
    note,
    pair,
    pairing_notes,
    placed,
)
from autoprune.apps.sessions._requests import Moment

Item = Object
# Which output answers which call, and the family that both belong to.
CALLS = {
    "custom_tool_call": "custom",
    "function_call": "function",
    "local_shell_call": "function",
    "tool_search_call": "search",
}
OUTPUTS = {
    "custom_tool_call_output": "custom",
    "function_call_output": "function",
    "tool_search_output": "search",
}

OTHERS = ("user", "system", "developer")  # who speaks besides the model


def conversation(
    items: Sequence[Item],
    missing: str | None = NO_RESULT,
    notes: Sequence[str] = (),
    moments: Sequence[Moment] = (),
) -> Conversation:
    """Make a conversation of items in the order of a log.

    A call without an output is answered with `missing` right away, or left out where that is None; an output that
    answers no call, or answers it again, is left out, and so are an empty message and reasoning that nothing came of,
    which the API refuses. What the server searches for itself needs no output. Raises SessionError for an item without
    a type or a role, and for a call or an output without an id.
    """
    for index, item in enumerate(items, 1):
        _check(item, index)
    said = {index: item for index, item in enumerate(items) if not _is_empty(item)}
    at = {index: each for index, item in said.items() if (each := _call_or_result(item))}
    indexes, exchanges = list(at), list(at.values())
    found = {indexes[call]: indexes[output] for call, output in pair(exchanges).items()}
    paired = {*found, *found.values()}
    made: list[Placed] = []
    for index, item in said.items():
        if index in paired or index not in at:
            made.append((dict(item), index))
        elif at[index].is_call and missing is not None:
            made += [(dict(item), index), (_remark(item, missing), None)]
    followed = _followed(made)
    alone = note("reasoning that nothing came of, left out", len(made) - len(followed))
    return placed(followed, (*notes, *alone, *pairing_notes(exchanges, found, missing)), moments)


def _followed(made: Sequence[Placed]) -> list[Placed]:
    """Leave out reasoning that no item of the model's stands behind: the log was cut off, or the turn."""
    kept: list[Placed] = []
    is_followed = False
    for item, origin in reversed(made):
        if item.get("type") != "reasoning":
            is_followed = item.get("type") not in OUTPUTS and item.get("role") not in OTHERS
        elif not is_followed:
            continue
        kept.append((item, origin))
    return kept[::-1]


def _check(item: Item, at: int) -> None:
    kind = item.get("type", "message")
    if not isinstance(kind, str) or (kind == "message" and not isinstance(item.get("role"), str)):
        raise bad_message("has no type or no role", at)
    is_search = kind.startswith("tool_search")
    if (kind in CALLS or kind in OUTPUTS) and not is_search and not isinstance(item.get("call_id"), str):
        raise bad_message("is a call or an output without an id", at)


def _is_empty(item: Item) -> bool:
    content = item.get("content")
    return item.get("type", "message") == "message" and not (content if isinstance(content, str | list) else "")


def _call_or_result(item: Item) -> CallOrResult | None:
    kind, call_id = text(item.get("type")), text(item.get("call_id"))
    is_servers = item.get("execution") == "server" or (kind.startswith("tool_search") and not call_id)
    if is_servers or (kind not in CALLS and kind not in OUTPUTS):
        return None
    return CallOrResult(0, f"{CALLS.get(kind) or OUTPUTS.get(kind)}:{call_id}", kind in CALLS)


def _remark(item: Item, missing: str) -> Message:
    call_id = text(item.get("call_id"))
    if item.get("type") == "tool_search_call":
        return {
            "type": "tool_search_output",
            "call_id": call_id,
            "status": "completed",
            "execution": "client",
            "tools": [],
        }
    kind = "custom_tool_call_output" if item.get("type") == "custom_tool_call" else "function_call_output"
    return {"type": kind, "call_id": call_id, "output": missing}

"""Describe session files that no reader reads, and calls in fields that no format reads. Reads no session."""

from collections.abc import Iterator, Sequence

from autoprune.apps.sessions._json import NOTHING, Object, fields, objects, text
from autoprune.apps.sessions._recording import note

EARLY = 20  # records in which a format is looked for
ANTIGRAVITY = ("USER_INPUT", "PLANNER_RESPONSE")  # types of steps that every conversation has
# Fields of messages and their blocks by which a format reads a call or a result.
READ = frozenset(("tool_calls", "tool_call_id", "tool_choice", "tool_results", "tool_use_id"))
NAMED = ("name", "function", "tool_call_id", "tool_use_id", "call_id", "part_kind")  # the format knows the block


def describe_unsupported(values: Sequence[object]) -> str:
    """Describe a session in a known format that no reader reads, with what it holds; "" for any other values."""
    whole = fields(values[0]) if len(values) == 1 else NOTHING
    exported = objects(whole.get("messages")) or (objects(values[0]) if len(values) == 1 else [])
    infos = [fields(each.get("info")) for each in exported if isinstance(each.get("parts"), list)]
    if any(text(info.get("role")) for info in infos):
        return f"an export of opencode with {_counts(infos, 'message', 'role', 'assistant')}"
    records = [*map(fields, values)] if len(values) > 1 else exported or [whole]
    early = records[:EARLY]
    if any(text(each.get("source")) and (each.get("type") in ANTIGRAVITY or "step_index" in each) for each in early):
        return f"a transcript of Antigravity with {_counts(records, 'step', 'source', 'MODEL')}"
    if any(text(each.get("sessionID")) and fields(each.get("part")) for each in early):
        return f"the events of `opencode run` with {_counts(records, 'event', 'type', 'text')}"
    if any(each.get("type") == "tool_use" and "tool_id" in each for each in early):
        return f"a stream of Gemini CLI with {_counts(records, 'event', 'role', 'assistant')}"
    return ""


def _counts(records: Sequence[Object], noun: str, field: str, model: str) -> str:
    """Count records, and those of the model, whose `field` has the value `model`."""
    by_model = sum(each.get(field) == model for each in records)
    return f"{len(records)} {noun}{'' if len(records) == 1 else 's'}, {by_model} by the model"


def unread_fields(messages: Sequence[object]) -> tuple[str, ...]:
    """Note the fields of messages and their blocks that describe calls, but that no format reads."""
    found = [names for message in messages for block in _blocks(fields(message)) if (names := _unread(block))]
    distinct = ", ".join(dict.fromkeys(name for names in found for name in names))
    return note(f"calls with fields that are not read ({distinct}), so names or arguments may be missing", len(found))


def _blocks(message: Object) -> Iterator[Object]:
    yield message
    for name in ("content", "parts", "tool_calls"):
        yield from objects(message.get(name))


def _unread(block: Object) -> list[str]:
    names = [name for name in block if name.startswith("tool_") or name in ("toolName", "toolCallId")]
    is_known = any(name in block for name in NAMED) or (
        block.get("role") == "tool" and names == ["tool_name"]
    )  # Ollama
    return [] if is_known else [name for name in names if name not in READ]

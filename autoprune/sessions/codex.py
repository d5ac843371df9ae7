"""Codex's rollouts: JSONL of `{type, payload}`, before September 2025 the items themselves. Read as Responses items."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from autoprune.sessions.as_responses import run
from autoprune.sessions.codex_turns import Item, Turn, history, is_users, opened, rebuilt, rolled_back, turn_count
from autoprune.sessions.json_values import fields, objects, text, written
from autoprune.sessions.recording import NO_SYSTEM_PROMPT, Run, counted, wrong

NAME = "codex"
ABORTED = "aborted"  # what Codex answers a call with that was cut off
KINDS = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
SENT = frozenset(
    (
        "agent_message",
        "compaction",
        "context_compaction",
        "custom_tool_call",
        "custom_tool_call_output",
        "function_call",
        "function_call_output",
        "image_generation_call",
        "local_shell_call",
        "message",
        "reasoning",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
    )
)
# Written for Codex alone, so that leaving them out needs no word.
UNSENT = frozenset(("compaction_trigger", "ghost_snapshot"))
INTERNAL = "internal_chat_message_metadata_passthrough"


def detect(values: Sequence[object]) -> bool:
    """A line of `{type, payload}` of one of Codex's types, or the header and the state lines of its first format."""
    return any(
        (value.get("type") in KINDS and isinstance(value.get("payload"), dict)) or _is_bare_header(value)
        for value in map(fields, values[:100])
    )


def read(values: Sequence[object]) -> list[Run]:
    """The one conversation of a rollout, compacted and rolled back. Raises SessionError for a line of another kind."""
    records = list(_records(values))
    turns = [Turn()]
    starts = any(_event(kind, payload) in ("task_started", "turn_started") for kind, payload in records)
    for kind, payload in records:
        _step(turns, kind, payload, starts)
    said = history(turns)
    kept = [item for item in map(_sent, said) if item]
    return [run(kept, ABORTED, [*_notes(records), *_left(said)])]


def _is_bare_header(value: Mapping[str, object]) -> bool:
    is_header = "instructions" in value and "id" in value and "timestamp" in value and "type" not in value
    return is_header or value.get("record_type") == "state"


def _records(values: Sequence[object]) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The type and the payload of each line; a bare item is a response item."""
    for at, value in enumerate(values, 1):
        line = fields(value)
        payload = line.get("payload")
        if isinstance(payload, dict):
            yield text(line.get("type")), payload
        elif _is_bare_header(line):
            continue
        elif text(line.get("type")):
            yield "response_item", line
        else:
            raise wrong("is no line of a Codex session: it has neither a payload nor a type", at)


def _event(kind: str, payload: Mapping[str, object]) -> str:
    return text(payload.get("type")) if kind == "event_msg" else ""


def _step(turns: list[Turn], kind: str, payload: Mapping[str, object], starts: bool) -> None:
    """One line; `starts` says whether the log marks where turns begin."""
    event = _event(kind, payload)
    if event in ("task_started", "turn_started"):
        turns.append(Turn())
    elif event == "thread_rolled_back":
        rolled_back(turns, turn_count(payload))
    elif event == "user_message" and starts:
        turns[-1].is_users = True
    elif kind == "compacted":
        _compact(turns, payload)
    elif kind == "response_item":
        if is_users(payload) and not starts:
            opened(turns)
        turns[-1].items.append(payload)
        turns[-1].is_users |= is_users(payload)


def _compact(turns: list[Turn], payload: Mapping[str, object]) -> None:
    replacement = payload.get("replacement_history")
    if isinstance(replacement, list):
        turns[-1].base = objects(replacement)
    else:
        turns[-1].base = rebuilt(history(turns), text(payload.get("message")))
    turns[-1].items = []


def _sent(item: Item) -> Item | None:
    """An item as the API takes it; None where Codex does not send it."""
    kind = text(item.get("type"))
    bare = {name: value for name, value in item.items() if value is not None and name != INTERNAL}
    if kind == "message":
        return bare if item.get("role") != "system" and item.get("content") else None
    if kind == "reasoning":
        return bare if any(bare.get(name) for name in ("id", "encrypted_content", "summary", "content")) else None
    if kind in ("function_call_output", "custom_tool_call_output"):
        return {**bare, "output": _output(item.get("output"))}
    if kind == "compaction_summary":  # the name that `compaction` had first
        return {**bare, "type": "compaction"}
    return bare if kind in SENT else None


def _output(value: object) -> object:
    """An output as text or blocks; early rollouts hold `{content, success}`."""
    if isinstance(value, str | list):
        return value
    content = fields(value).get("content")
    return content if isinstance(content, str) else written(value)


def _notes(records: Sequence[tuple[str, Mapping[str, object]]]) -> Iterator[str]:
    prompt = next((payload.get("base_instructions") for kind, payload in records if kind == "session_meta"), None)
    size = len(text(fields(prompt).get("text")))
    yield f"the system prompt is sent beside the items: {size:,} characters" if size else NO_SYSTEM_PROMPT
    kinds = Counter(kind if kind != "event_msg" else _event(kind, payload) for kind, payload in records)
    yield from counted("compactions", kinds["compacted"])
    yield from counted("rollbacks", kinds["thread_rolled_back"])
    yield from counted("messages between agents, left out", kinds["inter_agent_communication"])


def _left(said: Sequence[Item]) -> Iterator[str]:
    unsent = [text(item.get("type")) for item in said if not _sent(item)]
    unknown = sorted({kind for kind in unsent if kind not in SENT | UNSENT})
    yield from counted("empty reasoning items, left out", unsent.count("reasoning"))
    yield from (f"items of unknown types, left out: {', '.join(unknown)}",) if unknown else ()

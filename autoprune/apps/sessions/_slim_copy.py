"""Write a copy of a session file with cleared results, which its agent resumes like any other session.

A copy has an id of its own. It lacks the thinking of Claude models, which newer ones bind to what was cleared; OpenAI's
drop what no longer fits, and refuse calls without the reasoning before them. The newest count of tokens is lower, since
agents compact by that. All else stays as it is, down to the bytes of lines that do not change.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from autoprune.apps.sessions._json import compact, fields, listed, text, try_parse
from autoprune.apps.sessions._sending import THOUGHTS, valid_id
from autoprune.errors import SessionError

Record = dict[str, Any]
BINDING = ("anthropic", "bedrock")  # the beginnings of the names that pi has for APIs with Claude models
# Fields of events that repeat a result for the screen, in Codex and in Claude Code.
SHOWN = ("stdout", "stderr", "aggregated_output", "formatted_output", "output", "fullOutput")
LINKS = ("parentUuid", "logicalParentUuid", "leafUuid")  # fields of Claude Code's records that name another one


@dataclass
class CopyChanges:
    """The changes of a copy: its `id`, the payloads of `cleared` results by call id, and the tokens that this `saved`.

    Filled while copying: `thoughts`, the blocks of thinking that are left out, and the agent's `version`.
    """

    id: str
    cleared: Mapping[str, object]
    saved: int
    thoughts: int = 0
    version: str = ""
    parents: dict[str, object] = field(default_factory=dict)  # of records that are left out, by uuid
    children: dict[str, str] = field(default_factory=dict)  # the first records that follow these, by uuid

    def without_thinking(self, content: object) -> list[object]:
        """Return the blocks of a message without thinking."""
        kept = [each for each in listed(content) if fields(each).get("type") not in THOUGHTS]
        self.thoughts += len(listed(content)) - len(kept)
        return kept

    def kept_before(self, uuid: object) -> object:
        """Return the uuid of a record, or of the last one before it that is not left out."""
        while isinstance(uuid, str) and uuid in self.parents:
            uuid = self.parents[uuid]
        return uuid


class PromptCount(NamedTuple):
    """The count of a prompt in a record: the response, "" if a record holds all of it, and the path of the counts."""

    response: str
    path: tuple[str, ...]


@dataclass(frozen=True)
class Editor:
    """The changes of an agent's records: `edit` returns None for a record that is left out.

    `parts` are the counts of a prompt's tokens, in the order in which they are lowered, `totals` those that hold them.
    """

    edit: Callable[[Record, CopyChanges], Record | None]
    usage: Callable[[Record], PromptCount | None]
    parts: tuple[str, ...]
    totals: tuple[str, ...] = ()


def slim_copy(source: str, agent: str, changes: CopyChanges) -> str:
    """Return the text of a session file with changes, without a last line that was cut off. Raises SessionError."""
    editor = EDITORS[agent]
    lines = [line for line in source.split("\n") if line.strip()]
    records = [try_parse(line) for line in lines]
    if records and records[-1] is None:
        del lines[-1], records[-1]
    kept: list[tuple[str, object]] = []
    edited: list[Record] = []
    for number, (line, record) in enumerate(zip(lines, records, strict=True), 1):
        if not isinstance(record, dict):
            raise SessionError(f"the session cannot be copied: its line {number} is no JSON object")
        if (changed := editor.edit(record, changes)) is not None:
            kept.append((line, record))
            edited.append(changed)
    _lower_newest(edited, editor, changes.saved)
    pairs = zip(kept, edited, strict=True)
    return "".join(f"{line if changed == record else compact(changed)}\n" for (line, record), changed in pairs)


def _lower_newest(records: list[Record], editor: Editor, saved: int) -> None:
    """Lower the counts of the newest response, which may span several records."""
    newest: PromptCount | None = None
    for at in range(len(records) - 1, -1, -1):
        if (found := editor.usage(records[at])) is None:
            continue
        if newest is not None and (not found.response or found.response != newest.response):
            return
        newest = found
        records[at] = _with(records[at], found.path, lambda usage: _lower(usage, editor, saved))


def _lower(usage: Record, editor: Editor, saved: int) -> Record:
    lowered, left = dict(usage), saved
    for name in editor.parts:
        if isinstance(count := usage.get(name), int):
            lowered[name] = count - min(left, count)
            left -= min(left, count)
    return lowered | {
        name: max(0, count - saved) for name in editor.totals if isinstance(count := usage.get(name), int)
    }


def _with(record: Record, path: Sequence[str], change: Callable[[Any], object]) -> Record:
    """Return a record with the value at a path changed, which must exist."""
    name, *rest = path
    return {**record, name: _with(record[name], rest, change) if rest else change(record[name])}


# Claude Code: lines name their session and the line before them; a response has a line for each block


def _edit_claude_code(record: Record, changes: CopyChanges) -> Record | None:
    edited = _relinked(record, changes)
    changes.version = text(record.get("version")) or changes.version
    message = fields(record.get("message"))
    content = message.get("content")
    if (call := text(record.get("parentToolUseID"))) in changes.cleared and isinstance(record.get("data"), dict):
        edited["data"] = _edit_event(record["data"], call, changes)
    if not isinstance(content, list):
        return edited
    if record.get("type") == "assistant":
        kept = changes.without_thinking(content)
        if content and not kept:
            own, parent = text(record.get("uuid")), edited.get("parentUuid")
            changes.parents[own] = None if parent == own else parent  # in a damaged file, a line may follow itself
            return None
        return {**edited, "message": {**message, "content": kept}}
    calls = [id for each in content if (id := text(fields(each).get("tool_use_id"))) in changes.cleared]
    if calls and "toolUseResult" in record:  # a copy of the result for the screen
        edited["toolUseResult"] = shown(changes.cleared[calls[0]])
    blocks = (fields(each) for each in content)
    kept = [
        {**block, "content": changes.cleared[id]} if (id := text(block.get("tool_use_id"))) in calls else each
        for each, block in zip(content, blocks, strict=True)
    ]
    return {**edited, "message": {**message, "content": kept}}


def _relinked(record: Record, changes: CopyChanges) -> Record:
    """Return a record with the copy's id, and with links over records that are left out."""
    edited = {**record, "sessionId": changes.id} if "sessionId" in record else dict(record)
    before = record.get("parentUuid")
    while isinstance(before, str) and before in changes.parents:
        changes.children.setdefault(before, text(record.get("uuid")))
        before = changes.parents[before]
    edited |= {name: changes.kept_before(record[name]) for name in LINKS if name in record}
    if metadata := fields(record.get("compactMetadata")):
        edited["compactMetadata"] = {**metadata, **dict(_kept_by_compaction(metadata, changes))}
    return edited


def _kept_by_compaction(metadata: Mapping[str, Any], changes: CopyChanges) -> Iterator[tuple[str, object]]:
    """Yield the fields that name the messages that a compaction kept, without those that are left out."""
    if kept := fields(metadata.get("preservedMessages")):
        uuids = [each for each in listed(kept.get("uuids")) if text(each) not in changes.parents]
        yield "preservedMessages", {**kept, "uuids": uuids}
    if segment := fields(metadata.get("preservedSegment")):
        head = segment.get("headUuid")
        tail = changes.kept_before(segment.get("tailUuid"))
        yield "preservedSegment", {**segment, "headUuid": changes.children.get(text(head), head), "tailUuid": tail}


def _claude_code_usage(record: Record) -> PromptCount | None:
    message = fields(record.get("message"))
    is_answer = record.get("type") == "assistant" and record.get("isSidechain") is not True
    found = PromptCount(text(message.get("id")), ("message", "usage"))
    return found if is_answer and fields(message.get("usage")).get("output_tokens") else None


def shown(payload: object) -> str:
    blocks = (text(fields(each).get("text")) for each in listed(payload))
    return payload if isinstance(payload, str) else "\n".join(blocks)


# Codex: lines with a payload; those of events repeat results for the screen


def _edit_codex(record: Record, changes: CopyChanges) -> Record:
    payload = record.get("payload")
    if not isinstance(payload, dict):  # the first format: a header and bare items
        is_header = "id" in record and "type" not in record
        return {**record, "id": changes.id} if is_header else _edit_item(record, changes)
    kind = record.get("type")
    if kind == "session_meta" and not changes.version:  # a fork has its parent's after its own
        changes.version = text(payload.get("cli_version")) or "unknown"
        own = {name: changes.id for name in ("id", "session_id") if payload.get(name) == payload.get("id")}
        return {**record, "payload": {**payload, **own}}
    if kind == "response_item":
        return {**record, "payload": _edit_item(payload, changes)}
    if kind == "compacted" and isinstance(history := payload.get("replacement_history"), list):
        base = [_edit_item(fields(each), changes) for each in history]
        return {**record, "payload": {**payload, "replacement_history": base}}
    if kind == "event_msg":
        item = fields(payload.get("item"))
        if text(item.get("id")) in changes.cleared:
            return {**record, "payload": {**payload, "item": _edit_event(item, text(item["id"]), changes)}}
        return {**record, "payload": _edit_event(payload, text(payload.get("call_id")), changes)}
    return record


def _edit_item(item: Mapping[str, Any], changes: CopyChanges) -> Record:
    call = text(item.get("call_id"))
    return {**item, "output": changes.cleared[call]} if call in changes.cleared and "output" in item else dict(item)


def _edit_event(event: Mapping[str, Any], call: str, changes: CopyChanges) -> Record:
    if call not in changes.cleared:
        return dict(event)
    said = shown(changes.cleared[call])
    edited = {**event, **{name: said for name in SHOWN if event.get(name)}}
    if isinstance(answer := fields(event.get("result")).get("Ok"), dict):  # of an MCP server
        edited["result"] = {"Ok": {**answer, "content": [{"type": "text", "text": said}]}}
    return edited


def _codex_usage(record: Record) -> PromptCount | None:
    info = fields(fields(record.get("payload")).get("info"))
    is_count = record.get("type") == "event_msg" and isinstance(info.get("last_token_usage"), dict)
    return PromptCount("", ("payload", "info", "last_token_usage")) if is_count else None


# pi: a header, and entries with a message each


def _edit_pi(record: Record, changes: CopyChanges) -> Record:
    if record.get("type") == "session":
        changes.version = str(record.get("version", 1))
        return {**record, "id": changes.id}
    message = fields(record.get("message"))
    if message.get("role") == "assistant" and text(message.get("api")).startswith(BINDING):
        return {**record, "message": {**message, "content": changes.without_thinking(message.get("content"))}}
    written = text(message.get("toolCallId"))
    call = next((each for each in (written, valid_id(written)) if each in changes.cleared), None)
    if call is None:
        return record
    blocks = [{"type": "text", "text": shown(changes.cleared[call])}]
    return {**record, "message": {**message, "content": blocks}}


def _pi_usage(record: Record) -> PromptCount | None:
    usage = fields(fields(record.get("message")).get("usage"))
    return PromptCount("", ("message", "usage")) if usage.get("output") else None


EDITORS: Mapping[str, Editor] = {
    "claude-code": Editor(
        _edit_claude_code,
        _claude_code_usage,
        ("cache_read_input_tokens", "cache_creation_input_tokens", "input_tokens"),
    ),
    "codex": Editor(_edit_codex, _codex_usage, ("cached_input_tokens",), ("input_tokens", "total_tokens")),
    "pi": Editor(_edit_pi, _pi_usage, ("cacheRead", "cacheWrite", "input"), ("totalTokens",)),
}

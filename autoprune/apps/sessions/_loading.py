"""Read session files: messages as JSON or JSONL, or an agent's log. Text in, text out; opens no file."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from dataclasses import fields as dataclass_fields
from functools import partial
from typing import Any, TypeVar

from autoprune.apps.sessions._atif import READER as ATIF
from autoprune.apps.sessions._claude_code import READER as CLAUDE_CODE
from autoprune.apps.sessions._cline_messages import READER as CLINE
from autoprune.apps.sessions._codex_rollout import READER as CODEX
from autoprune.apps.sessions._copilot_cli import READER as COPILOT_CLI
from autoprune.apps.sessions._gemini_cli import READER as GEMINI_CLI
from autoprune.apps.sessions._json import BAD, NOTHING, Object, dump, fields, objects, parse_json, text, try_parse
from autoprune.apps.sessions._otel import READER as OTEL
from autoprune.apps.sessions._pi_session import READER as PI
from autoprune.apps.sessions._recording import (
    Conversation,
    Reader,
    Recording,
    Request,
    find_requests,
    growth_notes,
    note,
    unrecorded_answers,
)
from autoprune.errors import SessionError, SettingsError, near_or_all, type_of
from autoprune.settings.plugins import load_plugin, plugin_names
from autoprune.wire import SHIPPED, responses

# To ship a reader, see docs/session_files.md, and add a line here. The first reader that detects a file reads it, so
# readers with specific markers come first, and those that look only for a few field names last.
READERS = (CLAUDE_CODE, CODEX, GEMINI_CLI, COPILOT_CLI, PI, ATIF, OTEL, CLINE)
PLUGINS = "autoprune.readers"  # the entry point group of readers in installed packages
READABLE = (
    "a JSON list of messages, JSONL with one message a line, an object with a 'messages' list, or a session file of "
    + ", ".join(reader.name for reader in READERS)
)
INDENT = 2
BROKEN = " broken, left out"  # the end of the note on lines
T = TypeVar("T")
SHOWN_NAMES, LONGEST_NAME = 8, 80  # field names in an error: how many, and characters of each
HEADERS = 30  # records at the start of a log in which its folder is looked for


def reader_for(values: Sequence[object], readers: Sequence[Reader] = ()) -> Reader | None:
    """Find the first reader that detects the values: one of `readers`, a shipped one, or an installed package's."""
    groups = (lambda: readers, lambda: READERS, lambda: plugin_readers().values())  # installed packages load last
    return next((reader for group in groups for reader in group() if reader.detect(values)), None)


def find_reader(name: str) -> Reader:
    """Find a reader by its name: a shipped reader, or a reader that an installed package registers.

    Packages register readers under the entry point group `autoprune.readers`. Raises SettingsError for an unknown name,
    and for an entry point that is not a reader or cannot be imported.
    """
    plugin = next((reader for reader in READERS if reader.name == name), None) or load_plugin(PLUGINS, name)
    if isinstance(plugin, Reader):
        return plugin
    if plugin is not None:
        raise SettingsError(f"the plugin {name!r} under {PLUGINS} is {type_of(plugin)}: it must be a Reader")
    names = dict.fromkeys((*(reader.name for reader in READERS), *plugin_names(PLUGINS)))
    raise SettingsError(f"there is no reader {name!r}{near_or_all(name, names)}")


def plugin_readers(failed: Callable[[SettingsError], None] = lambda error: None) -> dict[str, Reader]:
    """Load the readers of installed packages, by name. `failed` gets the error of each one that cannot be loaded."""
    found = {}
    for name in plugin_names(PLUGINS):
        try:
            found[name] = find_reader(name)
        except SettingsError as error:
            failed(error)
    return found


@dataclass(frozen=True)
class Session:
    """The messages of a file, and a function that writes other messages in the same file format.

    `agent` names the agent that wrote the file, None for plain messages. `notes` describe dropped and added content,
    and `conversations` is the number of conversations in the file. Conversations from an agent's file are written as a
    JSON list. `last` reads the last recorded request that names its model, None if there is none.
    """

    messages: list[Any]
    write: Callable[[list[object]], str]
    notes: tuple[str, ...] = ()
    agent: str | None = None
    conversations: int = 1
    last: Callable[[], Request | None] = field(default=lambda: None, repr=False, compare=False)


@dataclass(frozen=True)
class AgentLog:
    """A summary of an agent's log: the number of its records, and notes on content that its conversation leaves out."""

    agent: str
    records: int
    left_out: tuple[str, ...] = ()


def load(
    text: str, name: str, number: int = 1, *, skip_broken: bool = False, readers: Sequence[Reader] = ()
) -> Session:
    """Read one of the conversations in a file's text, by its number from 1.

    `name` is the file's name in errors. `readers` are tried before the shipped ones, and those of installed packages
    after them. The last line of JSONL may be cut off, if the program that wrote it was stopped; with `skip_broken`,
    other broken lines are left out too, and noted. Raises SessionError with the problem and its place: the line and
    column of broken JSON, the fields of an unknown shape, or the number of conversations if there are too few.
    """
    opened = _parse(text, name, readers, skip_broken=skip_broken)
    found: Sequence[Session | Conversation]
    found = [opened] if isinstance(opened, Session) else opened.conversations(name)
    count = len(found)
    if not 1 <= number <= count:
        are = f"{count} conversation{'' if count == 1 else 's'}"
        raise SessionError(f"{name} has no conversation {number}: it holds {are}")
    if isinstance(opened, Session):
        return opened
    chosen = found[number - 1]
    notes = (*opened.notes, *chosen.notes)
    return Session(
        [*chosen.messages],
        lambda pruned: dump(pruned, INDENT) + "\n",
        notes,
        agent=opened.reader.name,
        conversations=count,
        last=partial(_last_request, opened, number),
    )


def _last_request(log: "_Log", number: int) -> Request | None:
    """Read the last recorded request of a conversation that names its model; None if reading them fails."""
    try:
        stretches = log.reader.record(log.values)[number - 1] if log.reader.record else []
    except (SessionError, RecursionError, IndexError):
        return None
    requests = (request for stretch in reversed(stretches) for request in reversed(stretch.requests))
    return next((request for request in requests if request.model), None)


def recordings(
    text: str, name: str, *, skip_broken: bool = False, readers: Sequence[Reader] = ()
) -> list[list[Recording]]:
    """Read the conversations in a file's text as they were sent, each as its stretches between compactions.

    Plain messages are one stretch, and so is a conversation whose reader has no `record`: the requests in these have no
    times. Arguments and errors are those of `load`.
    """
    opened = _parse(text, name, readers, skip_broken=skip_broken)
    if isinstance(opened, Session):
        messages = [message for message in opened.messages if isinstance(message, dict)]
        return [[_recording(_with_requests(Conversation(messages)), None, opened.notes)]]
    reader, record = opened.reader, opened.reader.record
    stretches = opened.call(record, name) if record else [[_with_requests(each)] for each in opened.conversations(name)]
    folder = next(filter(None, (_find_folder(value, 0) for value in opened.values[:HEADERS])), "")
    return [[_recording(each, reader.name, opened.notes, folder) for each in parts] for parts in stretches]


def _find_folder(value: object, depth: int) -> str:
    """Find the folder that an agent worked in, by the field `cwd` of a record of its log; "" if there is none.

    Claude Code and Pi write it into their records, Codex into a `payload`, Copilot CLI into the `context` of `data`.
    """
    record = fields(value)
    nested = (_find_folder(each, depth + 1) for each in record.values() if depth < 2 and isinstance(each, dict))
    return text(record.get("cwd")) or next(filter(None, nested), "")


def agent_log(text: str, readers: Sequence[Reader] = ()) -> AgentLog | None:
    """Summarize an agent's log; None for any other text, and for a log that `Session.write` would not change."""
    whole = try_parse(text)
    values = [whole] if whole is not None else [try_parse(line) for _, line in _numbered_lines(text)]
    reader = reader_for(values, readers)
    if reader is None:
        return None
    try:
        conversations = reader.read(values)
    except (SessionError, RecursionError):
        return AgentLog(reader.name, len(values))
    if len(conversations) == len(values) == 1 and conversations[0].messages == values[0]:
        return None
    left_out = (note for each in conversations for note in each.notes if "left out" in note)
    return AgentLog(reader.name, len(values), tuple(dict.fromkeys(left_out)))


def _numbered_lines(text: str) -> list[tuple[int, str]]:
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


@dataclass(frozen=True)
class _Log:
    """The values in an agent's log, and the reader that detected them."""

    reader: Reader
    values: Sequence[object]
    notes: tuple[str, ...] = ()

    def conversations(self, name: str) -> list[Conversation]:
        """Read the conversations. Raises SettingsError if the reader returns anything else."""
        read: object = self.call(self.reader.read, name)
        found = list(read) if isinstance(read, Iterable) else [read]
        known = [each for each in found if isinstance(each, Conversation)]
        if len(known) < len(found):
            kinds = ", ".join(sorted({type(each).__name__ for each in found}))
            raise SettingsError(f"read of the reader {self.reader.name} must return conversations, not {kinds}")
        return known

    def call(self, read: Callable[[Sequence[object]], T], name: str) -> T:
        """Call a function of the reader, so that its errors name the file and the agent."""
        try:
            return read(self.values)
        except SessionError as error:
            raise SessionError(f"{name} is a session file of {self.reader.name}, but {error}") from error
        except RecursionError as error:
            raise SessionError(f"{name} is nested too deeply: {error}") from error


def _parse(text: str, name: str, readers: Sequence[Reader], *, skip_broken: bool) -> _Log | Session:
    """Parse a file's text as an agent's log or as plain messages, with a note on bytes that were not UTF-8."""
    opened = _parse_text(text, name, readers, skip_broken=skip_broken)
    bad = note("characters \ufffd, which stand for bytes that are not UTF-8", text.count(BAD))
    return replace(opened, notes=(*bad, *opened.notes))


def _parse_text(text: str, name: str, readers: Sequence[Reader], *, skip_broken: bool) -> _Log | Session:
    if not text.strip():
        raise SessionError(f"{name} is empty: give {READABLE}")
    lines = _numbered_lines(text)
    if len(lines) > 1 and _is_record(lines[0][1]):
        return _parse_log(lines, name, readers, skip_broken)
    try:
        value = parse_json(text, name)
    except SessionError as error:
        if _is_mostly_records(lines):
            return _parse_log(lines, name, readers, skip_broken)
        if not text.lstrip().startswith(("{", "[")):
            raise SessionError(f"{name} is not JSON: give {READABLE}") from error
        raise
    if reader := reader_for([value], readers):
        return _Log(reader, [value])
    return _plain_session(value, name, INDENT if len(lines) > 1 else None)


def _parse_log(
    lines: Sequence[tuple[int, str]], name: str, readers: Sequence[Reader], skip_broken: bool
) -> _Log | Session:
    numbered, notes = _parse_lines(lines, name, skip_broken=skip_broken)
    values = [value for _, value in numbered]
    if reader := reader_for(values, readers):
        return _Log(reader, values, notes)
    _refuse_unread(values, name)
    messages, remarks = _plain_messages((_message(value, name, line) for line, value in numbered), name)
    return Session(messages, _as_lines, (*notes, *remarks))


def _parse_lines(
    lines: Sequence[tuple[int, str]], name: str, *, skip_broken: bool
) -> tuple[list[tuple[int, object]], tuple[str, ...]]:
    """Parse lines of JSONL into values with their line numbers, and notes about lines that are left out."""
    parsed: list[tuple[int, object]] = []
    skipped: list[int] = []
    notes: list[str] = []
    for number, line in lines:
        try:
            parsed.append((number, parse_json(line, name, number, is_line=True)))
        except SessionError as error:
            is_cut_off = number == lines[-1][0] and isinstance(error.__cause__, json.JSONDecodeError)
            if is_cut_off:
                notes.append(f"line {number} is cut off, left out")
            elif skip_broken:
                skipped.append(number)
            else:
                raise
    if skipped:
        are = "lines {} are" if skipped[1:] else "line {} is"
        notes.append(are.format(", ".join(map(str, skipped))) + BROKEN)
    return parsed, tuple(notes)


def _with_requests(read: Conversation) -> Conversation:
    """Assume one request for each series of the model's messages, for logs without request data."""
    places = {at: at for at in range(len(read.messages))}
    return replace(read, requests=find_requests(places, unrecorded_answers(read.messages)))


def _recording(stretch: Conversation, agent: str | None, notes: tuple[str, ...], folder: str = "") -> Recording:
    holds_prompt = bool(stretch.messages) and stretch.messages[0].get("role") == "system"
    every_note = (*notes, *stretch.notes, *growth_notes(stretch.messages, stretch.requests))
    known = {each.name: getattr(stretch, each.name) for each in dataclass_fields(Conversation)} | {"notes": every_note}
    return Recording(**known, agent=agent, holds_prompt=holds_prompt, folder=folder)


def _plain_session(value: object, name: str, indent: int | None) -> Session:
    _refuse_unread([value], name)
    if isinstance(value, list):
        messages, notes = _plain_messages((_message(item, name) for item in value), name)
        return Session(messages, lambda pruned: dump(pruned, indent) + "\n", notes)
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        messages, notes = _plain_messages((_message(item, name) for item in value["messages"]), name)
        return Session(messages, lambda pruned: dump({**value, "messages": pruned}, indent) + "\n", notes)
    if _is_message(value):
        return Session([value], _as_lines)
    raise SessionError(f"{name} holds {_describe(value)}: give {READABLE}")


def _refuse_unread(values: Sequence[object], name: str) -> None:
    """Raise SessionError for a file of a known kind that no reader reads."""
    if what := describe_unsupported(values):
        raise SessionError(f"{name} is {what}, which autoprune cannot read: give {READABLE}")


def _plain_messages(given: Iterable[object], name: str) -> tuple[list[object], tuple[str, ...]]:
    """Return the messages that an agent would send, and notes. Raises SessionError if no format reads any content.

    Roo Code and Kilo Code keep messages that they summarized or cut, so that the user can go back to them.
    """
    messages = list(given)
    known = [fields(message) for message in messages]
    is_read = any("content" in each or any(wire.seen(each) for wire in SHIPPED) for each in known)
    if not is_read and any(len(each) > 1 for each in known):
        raise SessionError(
            f"{name} holds {_describe(known[0])} where a message with 'content' should be: give {READABLE}"
        )
    ids = {text(each.get(field)) for each in known for field in ("condenseId", "truncationId")} - {""}
    parents = [{text(each.get("condenseParent")), text(each.get("truncationParent"))} for each in known]
    sent = [message for message, parent in zip(messages, parents, strict=True) if not parent & ids]
    left_out = note("messages that the agent has summarized or cut, left out", len(messages) - len(sent))
    return sent, (*left_out, *unread_fields(sent))


def _is_record(line: str) -> bool:
    value = try_parse(line)
    return isinstance(value, dict) and bool(value)


def _is_mostly_records(lines: Sequence[tuple[int, str]]) -> bool:
    """Return whether invalid JSON is JSONL with a broken first line, since at least half of its lines are records."""
    return len(lines) > 1 and 2 * sum(_is_record(line) for _, line in lines) >= len(lines)


def _is_message(value: object) -> bool:
    """Return whether a value is a message with a role, an item of the Responses API, or a content of the Gemini API."""
    if not isinstance(value, dict):
        return False
    is_item = isinstance(value.get("type"), str) and responses.seen(value) is not None
    return isinstance(value.get("role"), str) or is_item or isinstance(value.get("parts"), list)


def _message(value: object, name: str, line: int | None = None) -> object:
    if _is_message(value):
        return value
    where = f"{name} line {line}" if line else name
    raise SessionError(f"{where} holds {_describe(value)} where a message with a 'role' should be: give {READABLE}")


def _describe(value: object) -> str:
    """Describe a value, such as `an object with the fields type, payload`."""
    if isinstance(value, dict):
        if not value:
            return "an empty object"
        names = ", ".join(name[:LONGEST_NAME] or '""' for name in list(value)[:SHOWN_NAMES])
        return f"an object with the fields {names}{', …' if len(value) > SHOWN_NAMES else ''}"
    return {list: "a list", str: "a string", bool: "true or false", type(None): "null"}.get(type(value), "a number")


def _as_lines(messages: list[object]) -> str:
    return "".join(dump(message) + "\n" for message in messages)


EARLY = 20  # records in which a format is looked for
ANTIGRAVITY = ("USER_INPUT", "PLANNER_RESPONSE")  # types of steps that every conversation has
# Fields of messages and their blocks by which a format reads a call or a result.
READ = frozenset(("tool_calls", "tool_call_id", "tool_choice", "tool_results", "tool_use_id"))
NAMED = ("name", "function", "tool_call_id", "tool_use_id", "call_id", "part_kind")  # the format knows the block


def describe_unsupported(values: Sequence[object]) -> str:
    """Describe a session in a known format that no reader reads; "" for any other values."""
    whole = fields(values[0]) if len(values) == 1 else NOTHING
    exported = objects(whole.get("messages")) or (objects(values[0]) if len(values) == 1 else [])
    if any(isinstance(each.get("parts"), list) and text(fields(each.get("info")).get("role")) for each in exported):
        return "an export of opencode"
    for each in ([*map(fields, values)] if len(values) > 1 else exported or [whole])[:EARLY]:
        message = fields(each.get("message"))
        if text(each.get("source")) and (each.get("type") in ANTIGRAVITY or "step_index" in each):
            return "a transcript of Antigravity"
        if text(each.get("sessionID")) and fields(each.get("part")):
            return "a stream of events of opencode"
        is_stored = text(each.get("sessionID")) and text(each.get("role")) and "content" not in each
        if len(values) == 1 and (is_stored or (text(each.get("messageID")) and "type" in each)):
            return "a message or a part of one from opencode's storage"
        if each.get("type") == "tool_use" and "tool_id" in each:
            return "a stream of events of Gemini CLI"
        if text(each.get("role")) and "content" not in each and message:
            return "a transcript of Cursor"
        if each.get("type") == "metadata" and "protocol_version" in each:
            return "a log of Kimi CLI"
        if "parentUuid" in each and "parts" in message:
            return "a log of Qwen Code"
        if each.get("type") in ("say", "ask") and text(each.get(text(each.get("type")))):
            return "what Cline or Roo Code displayed (what they sent is in api_conversation_history.json)"
        for block in objects(each.get("content")):
            if "toolUseID" in block:
                return "a thread of Amp"
            if block.get("type") in ("toolRequest", "toolResponse"):
                return "a session of Goose"
    return ""


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

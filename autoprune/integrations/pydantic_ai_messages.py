"""Pydantic AI's messages as a format: read directly, and cleared in copies of their parts. Needs no Pydantic AI.

`pydantic_ai.Pruning` uses it. To use it with your own pruner, write `AgenticConversationPruner(args,
formats=[pydantic_ai_messages])`.

How it works: A `ModelRequest` holds the parts of a request, a `ModelResponse` the parts of the answer. A result is a
part that names its tool. A tool may return any value; when it is cleared, a text replaces it:

    ModelResponse(parts=[ThinkingPart(…), ToolCallPart("read", {"path": "a.py"}, "c1")])
    ModelRequest(parts=[ToolReturnPart("read", {"lines": […]}, "c1", metadata=…)])    the content is counted and cleared

A return with a `tool_kind` is never cleared: the framework reads it again later.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autoprune.wire import (
    MESSAGE_TOKENS,
    Count,
    Entry,
    Location,
    Parser,
    Path,
    Payload,
    Speaker,
    Thought,
    fields_of,
    items_of,
    join_entries,
    json_text,
    native_call,
    native_result,
    texts,
)
from autoprune.wire import media as by_rule

NAME = "pydantic_ai"
MARK = "autoprune: place"  # the metadata key that `strip_unsent` writes
KINDS = {"request": Speaker.USER, "response": Speaker.MODEL}
ROLES = {Speaker.SYSTEM: "system", Speaker.USER: "user", Speaker.MODEL: "assistant", Speaker.TOOL: "user"}
RETURN, RETRY = "tool-return", "retry-prompt"
FAILED = {"failed": True, "retried": True, "success": False}  # other outcomes are not errors of a tool
CALLS = ("tool-call", "builtin-tool-call")  # the second is counted, but no result answers it
URLS = {"image-url": "image", "audio-url": "audio", "document-url": "file", "video-url": "video"}
FILES = frozenset((*URLS, "binary", "uploaded-file"))


def seen(message: Mapping[str, object]) -> str | None:
    """Describe the field that identifies a Pydantic AI message; None for other messages."""
    kind = message.get("kind")
    return f"kind {kind!r}" if isinstance(kind, str) and kind in KINDS and "parts" in message else None


def speaker(message: Mapping[str, object]) -> Speaker:
    """Return the speaker of a message; a request that holds only results comes from the tools."""
    who = KINDS.get(str(message.get("kind")), Speaker.OTHER)
    parts = [fields_of(part) for part in items_of(message.get("parts"))]
    if who is Speaker.USER and parts and all(part.get("part_kind") == "system-prompt" for part in parts):
        return Speaker.SYSTEM
    return Speaker.TOOL if who is Speaker.USER and parts and all(map(_is_result, parts)) else who


def role(message: Mapping[str, object]) -> str | None:
    """Return the role that Anthropic's API has for a message: results are the user's."""
    return ROLES.get(speaker(message))


def message(role: str, text: str) -> Any:
    """Create a message with a text. Only this function needs Pydantic AI."""
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart

    return ModelResponse([TextPart(text)]) if role == "assistant" else ModelRequest([UserPromptPart(text)])


def strip_unsent(message: Any, at: int) -> Any:
    """Replace the metadata of message number `at`, and of each part, by where it was; unchanged without metadata."""
    if not any(map(_has_metadata, (message, *message.parts))):
        return message
    numbered = enumerate(message.parts)
    parts = [replace(part, metadata={MARK: (at, index)}) if _has_metadata(part) else part for index, part in numbered]
    return replace(message, parts=parts, metadata={MARK: at} if _has_metadata(message) else None)


def restore_unsent(message: Any, messages: Sequence[Any]) -> Any:
    """Restore the metadata of a stripped message and of its parts, which a fold may have joined with others."""
    parts = [_restored(part, lambda place: messages[place[0]].parts[place[1]]) for part in message.parts]
    if any(new is not old for new, old in zip(parts, message.parts, strict=True)):
        message = replace(message, parts=parts)
    return _restored(message, lambda at: messages[at])


def _restored(value: Any, find: Callable[[Any], Any]) -> Any:
    """Restore the metadata of a message or part from the one that `find` finds; unchanged without a mark."""
    metadata: Any = getattr(value, "metadata", None)
    is_marked = isinstance(metadata, dict) and MARK in metadata
    return replace(value, metadata=find(metadata[MARK]).metadata) if is_marked else value


def _has_metadata(value: Any) -> bool:
    return getattr(value, "metadata", None) is not None


def parse(message: Mapping[str, object], at: int, parser: Parser) -> Entry:
    """Read a message. Each result counts as a message, and everything else as one more."""
    who = speaker(message)
    parts = items_of(message.get("parts"))
    entry_of = _read_answer_part if who is Speaker.MODEL else _read_request_part
    read = [entry_of(fields_of(part), (at, "parts", index), parser) for index, part in enumerate(parts)]
    entry = join_entries(who, 0 if who is Speaker.TOOL else MESSAGE_TOKENS, read)
    # Thinking that is alone in its message cannot be removed.
    is_alone = all(one.thinking for one in read)
    return replace(entry, thinking=tuple(replace(thought, is_alone=is_alone) for thought in entry.thinking))


def media(block: Mapping[str, object], count: Count) -> int | None:
    """Count the tokens of a picture, a sound, a video or a document; None for anything else."""
    kind = block.get("kind")
    if kind not in FILES:
        return by_rule(block, count)
    form = str(block.get("media_type") or block.get("_media_type") or "")
    family = form.partition("/")[0]
    known = family if family in ("image", "audio", "video") else "file"
    held = {name: block.get(name) for name in ("data", "url", "file_id")}
    return by_rule({"type": URLS.get(str(kind), known), "mime_type": form, **held}, count)


def _is_result(part: Mapping[str, object]) -> bool:
    """Return whether a part answers a call; a retry prompt does if it names a tool."""
    kind = part.get("part_kind")
    return kind == RETURN or (kind == RETRY and isinstance(part.get("tool_name"), str))


def _read_request_part(part: Mapping[str, object], path: Path, parser: Parser) -> Entry:
    if _is_result(part):
        return _read_tool_return(part, path, parser)
    content = part.get("content")
    if part.get("part_kind") != "user-prompt":
        return Entry(Speaker.USER, parser.tokens(content))
    if isinstance(content, str):
        results, spent = texts.user_text(content, (*path, "content"), parser)
        return Entry(Speaker.USER, spent, results)
    return Entry(Speaker.USER, sum(_item_tokens(item, parser) for item in items_of(content)))


def _item_tokens(item: object, parser: Parser) -> int:
    """Count the tokens of an item of the user's content. Cache points and the metadata of a text have none."""
    held = fields_of(item)
    if held.get("kind") == "cache-point":
        return 0
    return parser.tokens(held["content"] if isinstance(held.get("content"), str) else item)


def _read_tool_return(part: Mapping[str, object], path: Path, parser: Parser) -> Entry:
    """Read a result. It is fixed if the framework reads it again."""
    payload = _result_payload(part.get("content"), parser)
    tool = part.get("tool_name")
    result = native_result(
        parser,
        (*path, "content"),
        payload._replace(is_fixed=payload.is_fixed or part.get("tool_kind") is not None),
        parser.answered(part.get("tool_call_id")),
        kind=NAME,
        tool=tool,
        is_error=True if part.get("part_kind") == RETRY else FAILED.get(str(part.get("outcome"))),
    )
    return Entry(Speaker.TOOL, MESSAGE_TOKENS + payload.tokens, (result,))


def _result_payload(content: object, parser: Parser) -> Payload:
    """Return the payload of a result: a text, or any other value as JSON, with its files counted."""
    if content is None or isinstance(content, str):
        return Payload(content or "", parser.count(content or ""), is_fixed=content is None)
    items = content if isinstance(content, list) else [content]
    files = [item for item in items if _is_file(item)]
    data = [item for item in items if not _is_file(item)]
    text = json_text(data if len(data) > 1 or (content is items and not files) else data[0]) if data else ""
    return Payload(text, parser.count(text) + sum(map(parser.tokens, files)), is_plain=not files)


def _is_file(item: object) -> bool:
    kind = fields_of(item).get("kind")
    return isinstance(kind, str) and kind in FILES


def _read_answer_part(part: Mapping[str, object], path: Path, parser: Parser) -> Entry:
    kind, content = part.get("part_kind"), part.get("content")
    if kind in CALLS:
        tool, arguments = part.get("tool_name"), part.get("args")
        written = json_text(arguments) if isinstance(arguments, Mapping) else arguments
        call = native_call(parser, path, part.get("tool_call_id"), tool, arguments, ("args",))
        spent = parser.tokens(tool) + parser.tokens(written)
        return Entry(Speaker.MODEL, spent, calls=(call,) if kind == CALLS[0] else ())
    spent = parser.tokens(content)
    if kind == "thinking":
        return Entry(Speaker.MODEL, spent, thinking=(Thought(Location(path), spent, kind=NAME),))
    calls = texts.calls(content, (*path, "content"), parser) if kind == "text" else ()
    return Entry(Speaker.MODEL, spent, calls=tuple(calls))

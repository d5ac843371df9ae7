"""Reader of pi's sessions: JSONL with a header and, since version 2, a tree of entries. Returns Anthropic messages.

The rules are those of pi's `session-manager`, `messages` and `transform-messages` modules. pi supports many providers.
Thoughts become text, as in pi when the model changes, unless they are signed by the Claude model of the newest answer.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace

from autoprune.apps.sessions._json import NOTHING, Object, fields, listed, objects, text
from autoprune.apps.sessions._recording import (
    Answer,
    Conversation,
    Message,
    Moment,
    Reader,
    Request,
    Usage,
    bad_record,
    besides,
    branch,
    build_usage,
    find_parents,
    lost_parents,
    note,
    parse_time,
    prompt_note,
    token_count,
)
from autoprune.apps.sessions._sending import ANTHROPIC, content_blocks, conversation, image_block, stretch, text_block

ENTRIES = ("message", "model_change", "thinking_level_change", "custom", "custom_message")  # types of first entries
EARLY = 20  # lines in which a message is looked for
BROKEN_OFF = ("error", "aborted")  # stop reasons of interrupted answers


def detect(values: Sequence[object]) -> bool:
    """Look for a session header and an entry below it, or if it was lost, for entries with times and a message."""
    first, *others = map(fields, values[:EARLY]) if values else [NOTHING]
    if _is_header(first):  # other agents write such a header too
        return not others or any(entry.get("type") in ENTRIES for entry in others)
    is_entry = first.get("type") in ENTRIES and isinstance(first.get("timestamp"), str) and "parentUuid" not in first
    return is_entry and any(map(_is_message, (first, *others)))


def _is_header(value: Object) -> bool:
    return value.get("type") == "session" and isinstance(value.get("id"), str) and "data" not in value


def _is_message(entry: Object) -> bool:
    return entry.get("type") == "message" and bool(text(fields(entry.get("message")).get("role")))


def _with_header(values: Sequence[object]) -> Sequence[object]:
    """Put an empty header before the entries if the header was lost, so that each entry keeps its index."""
    return values if values and _is_header(fields(values[0])) else [NOTHING, *values]


def read(values: Sequence[object]) -> list[Conversation]:
    """Read the conversation on the branch of the last entry. Raises SessionError for a message without a role."""
    values = _with_header(values)
    entries = _entries(values)
    path = _branch(entries)
    said = [message for message, _ in _branch_messages(path, values)]
    model = next((_model_key(message) for message in reversed(said) if message.get("role") == "assistant"), ())
    spoken = filter(None, (_api_message(message, model) for message in said))
    broken = sum(message.get("stopReason") in BROKEN_OFF for message in said)
    kept = sum(message.get("role") != "compactionSummary" for message in said)
    notes = [
        prompt_note(next((_prompt_size(each) for each in said if each.get("role") == "system"), 0)),
        *lost_parents(_tree(entries), "parentId"),
        *note("entries of other branches, left out", len(entries) - len(path)),
        *note("messages summarized by the last compaction, left out", sum(1 for _ in _entry_messages(path)) - kept),
        *note("summaries; the words around them are ours", sum("summary" in message for message in said)),
        *note("answers that were broken off, left out", broken),
    ]
    return [conversation(ANTHROPIC, spoken, notes=notes)]


def record(values: Sequence[object]) -> list[list[Conversation]]:
    """Read the conversation of the last entry as its stretches between compactions. Raises like `read`."""
    values = _with_header(values)
    entries = _entries(values)
    path = _branch(entries)
    resends = _is_version_1(path)
    ends = [at for at, entry in enumerate(path) if entry.get("type") == "compaction"]
    found = [_stretch(list(_branch_messages(path[:end], values)), resends) for end in (*ends, len(path))]
    paid = (*(moment for _, moment in _entry_messages(entries)), *map(_paid_moment, entries))
    found[-1] = replace(found[-1], besides=besides(paid, found))
    times = (_time(entry) for entry in path if entry.get("kind") == "cache_warm")
    warmed = sorted(time for time in times if time is not None)
    found = [replace(each, requests=tuple(_since_warmed(one, warmed) for one in each.requests)) for each in found]
    return [found]


def _prompt_size(message: Object) -> int:
    """Return the characters of a system prompt, which may be in sections."""
    return len(text(message.get("content"))) + sum(map(len, map(text, fields(message.get("sections")).values())))


def _stretch(said: Sequence[tuple[Object, Moment]], resends: bool) -> Conversation:
    sent = ((_without_thinking(message, resends), moment) for message, moment in said)
    spoken = ((_api_message(message, ()), moment) for message, moment in sent)
    return stretch(ANTHROPIC, ((message, moment) for message, moment in spoken if message and message["content"]))


def _without_thinking(message: Object, resends: bool) -> Object:
    """Remove the thinking from a message. If pi `resends` interrupted answers, they count as complete."""
    if message.get("role") != "assistant":
        return message
    parts = [part for part in objects(message.get("content")) if part.get("type") != "thinking"]
    return {**message, "content": parts, "stopReason": None if resends else message.get("stopReason")}


def _entries(values: Sequence[object]) -> list[Object]:
    for at, value in enumerate(map(fields, values), 1):
        if value.get("type") == "message" and not text(fields(value.get("message")).get("role")):
            raise bad_record("is an entry of type message without a message that has a role", at)
    return [fields(value) for value in values[1:]]


def _is_version_1(entries: Sequence[Object]) -> bool:
    """Return whether entries are of version 1, which has no ids and resent interrupted answers."""
    return not entries or "id" not in entries[0]


def _branch(entries: Sequence[Object]) -> list[Object]:
    """Return the entries from the root to the last one, or all entries of version 1, which have no ids."""
    if _is_version_1(entries):
        return list(entries)
    tree = _tree(entries)
    return [tree[name] for name in branch(text(entries[-1].get("id")), find_parents(tree, "parentId"))]


def _tree(entries: Sequence[Object]) -> dict[str, Object]:
    return {name: entry for entry in entries if (name := text(entry.get("id")))}


def _branch_messages(path: Sequence[Object], values: Sequence[object]) -> Iterator[tuple[Object, Moment]]:
    """Yield the messages of a branch: the last compaction's summary, the messages it kept, and later ones.

    Each message has its recorded data, except for the summary and kept messages.
    """
    last = next((at for at in range(len(path) - 1, -1, -1) if path[at].get("type") == "compaction"), None)
    if last is None:
        yield from _entry_messages(path)
        return
    kept, index = path[last].get("firstKeptEntryId"), path[last].get("firstKeptEntryIndex")
    if isinstance(index, int) and 0 < index < len(values):  # version 1, which names entries by index
        first = next((at for at in range(last) if path[at] is values[index]), last)
    else:
        # If the first kept entry was lost, the entry behind it is the first.
        first = next((at for at in range(last) if kept in (path[at].get("id"), path[at].get("parentId"))), last)
    yield {"role": "compactionSummary", "summary": path[last].get("summary")}, None
    yield from ((message, None) for message, _ in _entry_messages(path[first:last]))
    yield from _entry_messages(path[last + 1 :])


def _entry_messages(entries: Sequence[Object]) -> Iterator[tuple[Object, Moment]]:
    for entry in entries:
        match entry.get("type"):
            case "message":
                yield fields(entry.get("message")), _entry_moment(entry)
            case "custom_message":
                yield {"role": "custom", "content": entry.get("content")}, _entry_moment(entry)
            case "branch_summary" if entry.get("summary"):
                yield {"role": "branchSummary", "summary": entry.get("summary")}, _entry_moment(entry)


def _entry_moment(entry: Object) -> Moment:
    """Return the recorded data of an entry; pi writes entries when they are complete."""
    message, time = fields(entry.get("message")), _time(entry)
    return Answer(time, text(message.get("model")), _usage(message)) if message.get("role") == "assistant" else time


def _time(entry: Object) -> float | None:
    return parse_time(entry.get("timestamp"))


def _paid_moment(entry: Object) -> Moment:
    """Return the recorded data of a request whose answer is no message, such as that for a summary."""
    is_paid = "summary" in entry or entry.get("type") == "usage"
    return Answer(_time(entry), text(entry.get("model")), _usage(entry)) if is_paid else None


def _since_warmed(request: Request, warmed: Sequence[float]) -> Request:
    """Return a request with the pause since pi kept the cache warm, if it did after the answer before.

    `warmed` are the times at which it did, in order.
    """
    if request.pause is None or request.time is None:
        return request
    last = warmed[: bisect_right(warmed, request.time)][-1:]
    return replace(request, pause=min([request.pause, *(request.time - time for time in last)]))


def _usage(record: Object) -> Usage | None:
    usage = fields(record.get("usage"))
    cached, written = token_count(usage.get("cacheRead")), token_count(usage.get("cacheWrite"))
    prompt = token_count(usage.get("input")) + cached + written
    cost = fields(usage.get("cost")).get("total")
    return build_usage(prompt, usage.get("cacheRead"), written, usage.get("output"), split=_split(usage), cost=cost)


def _split(usage: Object) -> Object:
    """Convert pi's counts to Anthropic's `cache_creation`; empty for versions that do not split them."""
    if "cacheWrite1h" not in usage:
        return NOTHING
    long = token_count(usage.get("cacheWrite1h"))
    return {"ephemeral_1h_input_tokens": long, "ephemeral_5m_input_tokens": token_count(usage.get("cacheWrite")) - long}


def _model_key(message: Object) -> tuple[object, ...]:
    return message.get("provider"), message.get("api"), message.get("model")


def _api_message(message: Object, model: tuple[object, ...]) -> Message | None:
    """Convert a message to the form that pi sends; None if pi does not send it."""
    match message.get("role"):
        case "assistant" if message.get("stopReason") not in BROKEN_OFF:
            # A signature is valid only for the model that created it, and only Claude's API uses signatures.
            is_own = _model_key(message) == model and message.get("api") == "anthropic-messages"
            blocks = [block for part in objects(message.get("content")) for block in _answer_block(part, is_own)]
            return {"role": "assistant", "content": blocks}
        case "toolResult":
            return {"role": "user", "content": [_tool_result(message)]}
        case "user" | "custom" | "hookMessage":
            return {"role": "user", "content": [*map(_shown_part, content_blocks(message.get("content")))]}
        case "bashExecution" if not message.get("excludeFromContext"):
            return _user_words(_command_text(message))
        case "branchSummary" | "compactionSummary":
            return _user_words(f"<summary>\n{text(message.get('summary'))}\n</summary>")
    return None


def _user_words(words: str) -> Message:
    return {"role": "user", "content": [text_block(words)]}


def _answer_block(part: Object, is_own: bool) -> Iterator[Object]:
    """Yield the block for a part of an answer; `is_own` means that the receiving model signed its thoughts."""
    match part.get("type"):
        case "text":
            yield text_block(text(part.get("text")))
        case "toolCall":
            arguments = fields(part.get("arguments"))
            yield {"type": "tool_use", "id": text(part.get("id")), "name": text(part.get("name")), "input": arguments}
        case "thinking":
            thought, signature = text(part.get("thinking")), text(part.get("thinkingSignature"))
            if part.get("redacted"):
                yield from ({"type": "redacted_thinking", "data": signature},) if is_own and signature else ()
            elif is_own and signature and thought.strip():
                yield {"type": "thinking", "thinking": thought, "signature": signature}
            else:
                yield text_block(thought)


def _shown_part(part: Object) -> Object:
    if part.get("type") == "image":
        return image_block(part.get("mimeType"), part.get("data"))
    return text_block(text(part.get("text")))


def _tool_result(message: Object) -> Object:
    """Convert a result. Its texts are joined unless the result holds a picture."""
    parts = [fields(part) for part in listed(message.get("content"))]
    joined = "\n".join(text(part.get("text")) for part in parts)
    pictures = any(part.get("type") == "image" for part in parts)
    blocks = map(_shown_part, parts)
    shown = [block for block in blocks if block["type"] == "image" or text(block["text"]).strip()]
    return {
        "type": "tool_result",
        "tool_use_id": text(message.get("toolCallId")),
        "content": shown if pictures else joined,
        "is_error": message.get("isError") is True,
    }


def _command_text(message: Object) -> str:
    """Format a command that the user ran, with its output."""
    output, code = text(message.get("output")), message.get("exitCode")
    shown = f"```\n{output}\n```" if output else "(no output)"
    ending = "\n\n(cancelled)" if message.get("cancelled") else f"\n\nexit code {code}" if code else ""
    return f"Ran `{text(message.get('command'))}`\n{shown}{ending}"


PLACES = (".pi/agent/sessions/**/*.jsonl",)
READER = Reader("pi", detect, read, record, PLACES)

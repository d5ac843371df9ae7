"""Turn messages in the order of a log into conversations that can be sent.

A log holds everything that happened: interrupted calls, late and duplicate results, messages without text.
`repair` pairs calls with results and applies the rules of the API. This module adds the steps of agents before they
send: they drop empty messages, join neighboring messages of the user, and put results in the order of their calls.

Requests are recorded by the index of a message in the log, but `repair` moves, joins and drops messages. So each block
carries its index through the repair under the key `ORIGIN`. Afterwards a result without it is one that `repair` added,
and the model's first block with it shows the new place of an answer of the log:

    log       0 user "go"   1 assistant calls a, b   2 user result b
    repaired  0 user "go"   1 assistant calls a, b   2 user [added result a, result b with origin 2]
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from autoprune.apps.sessions._json import Object, compact, fields, objects, text
from autoprune.apps.sessions._recording import Conversation, Message, Moment, find_requests, note
from autoprune.errors import SessionError, SettingsError, near_or_all
from autoprune.wire import repair

CHAT, RESPONSES, ANTHROPIC, GEMINI = "openai_chat", "openai_responses", "anthropic", "gemini"
# The result of a call without one, unless the agent is known to send another text.
NO_RESULT = "No result was recorded for this call."
NO_PROMPT = "The first message was not recorded."  # stands for a lost first message
ORIGIN = "autoprune_origin"
NO_ID_CHARACTER, LONGEST_ID = re.compile(r"[^a-zA-Z0-9_-]"), 64  # of the ids of calls that Anthropic's API accepts
THOUGHTS = ("thinking", "redacted_thinking")  # types of blocks with the model's thinking
# The fields of a part that the Gemini API accepts; chats of Gemini CLI hold more.
PART_FIELDS = (
    *("text", "inlineData", "fileData", "executableCode", "codeExecutionResult"),
    *("functionCall", "functionResponse", "thoughtSignature"),
)
CALLS = ("custom_tool_call", "function_call", "local_shell_call", "tool_search_call")
OUTPUTS = ("custom_tool_call_output", "function_call_output", "local_shell_call_output", "tool_search_output")


def conversation(
    api: str,
    messages: Iterable[Object],
    missing: str | None = NO_RESULT,
    notes: Iterable[str] = (),
    moments: Sequence[Moment] = (),
) -> Conversation:
    """Turn messages in the order of a log into a conversation that can be sent.

    `api` is "openai_chat", "openai_responses" (`messages` are items then), "anthropic" or "gemini". Each result moves
    after its call. A call without a result is answered with `missing`, or left out if `missing` is None. Empty messages
    are left out. For "anthropic" and "gemini", whose conversations must begin with the user's words, everything before
    these is left out too, unless the model made calls there: then the user's first message was lost, and a remark
    stands for it. Notes are added that count calls without results and results without calls. `moments` are the
    data of each message in the log.

    Raises SessionError for a message that the API does not accept, such as a call without an id, and SettingsError for
    an unknown `api`.
    """
    if api not in WIRES:
        raise SettingsError(f"there is no API {api!r}{near_or_all(api, WIRES)}")
    wire = WIRES[api]
    cleaned: list[Object | None] = []
    for number, message in enumerate(messages, 1):
        if problem := wire.check(message):
            raise SessionError(f"message {number} of the conversation {problem}")
        cleaned.append(wire.clean(message))
    start = next((at for at, each in enumerate(cleaned) if _is_opening(each, wire)), len(cleaned))
    lost: list[Message] = []
    if any(_count_calls(block) for each in cleaned[:start] if each for block in wire.blocks(each)):
        start, lost = 0, [_user_words(NO_PROMPT, wire)]
    marked = lost + [_mark(each, at, wire) for at, each in enumerate(cleaned[start:]) if each is not None]
    open_calls = "answer" if missing is not None else "remove"
    repaired = repair(marked, api, open_calls=open_calls, reason=missing or "").conversation
    sent = _as_agents_send(repaired, wire)
    early = note(f"{wire.unit}s before the user's first, left out", start)
    early += note("first messages that were lost, replaced by a remark", len(lost))
    all_notes = (*notes, *early, *_pairing_notes(marked, sent, wire))
    origins = [_unmark(message, wire) for message in sent]
    places = {origin: place for place, origin in enumerate(origins) if origin is not None}
    return Conversation(sent, all_notes, find_requests(places, moments[start:]))


def stretch(api: str, recorded: Iterable[tuple[Object, Moment]]) -> Conversation:
    """Create a stretch of a session from messages with their recorded data. Open calls are left out."""
    pairs = list(recorded)
    return conversation(api, [message for message, _ in pairs], None, (), [moment for _, moment in pairs])


@dataclass(frozen=True)
class Wire:
    """Writes messages for an API.

    `clean` returns a message without empty and unsent parts, None if nothing is left. `check` describes the problem of
    a message, "" if there is none. `field` names the field that holds a message's blocks, None if the message itself is
    one block. Neighboring messages of one role in `joins` are joined. `unit` is the API's name for a message.
    """

    clean: Callable[[Object], Object | None]
    check: Callable[[Object], str] = lambda _: ""
    field: str | None = None
    joins: tuple[str, ...] = ()
    unit: str = "message"

    def blocks(self, message: Object) -> list[Object]:
        """Return the blocks of a message, or the message itself if the API has no blocks."""
        return [message] if self.field is None else content_blocks(message.get(self.field))


def _is_opening(message: Object | None, wire: Wire) -> bool:
    """Return whether a conversation may begin with a message. In APIs with turns, it must be text of the user."""
    if not wire.joins:
        return True
    if message is None or message["role"] != "user":
        return False
    return not all(map(_is_result, wire.blocks(message)))


def _user_words(words: str, wire: Wire) -> Message:
    return {"role": "user", text(wire.field): [text_block(words) if wire.field == "content" else {"text": words}]}


def _mark(message: Object, at: int, wire: Wire) -> Message:
    if wire.field is None:
        return {**message, ORIGIN: at}
    return {**message, wire.field: [{**block, ORIGIN: at} for block in wire.blocks(message)]}


def _as_agents_send(messages: Iterable[Object], wire: Wire) -> list[Message]:
    """Copy repaired messages in the order and grouping in which agents send them."""
    if wire is WIRES[RESPONSES]:
        return _with_remarks_moved(messages)
    sent: list[Message] = []
    for message in messages:
        blocks = wire.blocks(message)
        while blocks and blocks[-1].get("type") in THOUGHTS:
            # Anthropic rejects messages that end in a thought, which happens if the call after it is dropped.
            blocks.pop()
        is_next = sent and message["role"] == sent[-1]["role"] and message["role"] in wire.joins
        if wire.field is None:
            sent.append({**message})
        elif blocks and is_next:
            sent[-1][wire.field] = [*wire.blocks(sent[-1]), *blocks]
        elif blocks:
            sent.append({**message, wire.field: blocks})
    _sort_results(sent, wire)
    return sent


def _with_remarks_moved(items: Iterable[Object]) -> list[Message]:
    """Copy items, and move each added output directly after its call, as Codex does."""
    kept: list[Message] = []
    for item in items:
        at = len(kept)
        if ORIGIN not in item:
            calls = (place for place in range(at - 1, -1, -1) if kept[place].get("type") in CALLS)
            at = 1 + next((place for place in calls if kept[place].get("call_id") == item.get("call_id")), at - 1)
        kept.insert(at, {**item})
    return kept


def _sort_results(messages: list[Message], wire: Wire) -> None:
    """Put results first in their message, in the order of their calls.

    Logs hold the results of parallel calls in order of arrival, but agents send them in the order of the calls.
    """
    for at, message in enumerate(messages[:-1]):
        calls = _calls(message, wire)
        # Gemini's calls may have no id.
        order = {text(call.get("id")) or text(call.get("name")): place for place, call in enumerate(calls)}
        if calls and wire.field is None:
            span = slice(at + 1, at + 1 + len(calls))
            messages[span] = sorted(messages[span], key=lambda each: _place(each, order))
        elif calls and wire.field is not None:
            blocks = wire.blocks(messages[at + 1])
            results = sorted(filter(_is_result, blocks), key=lambda each: _place(each, order))
            answers = [_with_id_of(call, result) for call, result in zip(calls, results, strict=False)]
            others = [block for block in blocks if not _is_result(block)]
            messages[at + 1][wire.field] = [*answers, *results[len(calls) :], *others]


def _calls(message: Object, wire: Wire) -> list[Object]:
    if wire.field is None:
        return _chat_calls(message)
    return [fields(block.get("functionCall", block)) for block in wire.blocks(message) if _count_calls(block)]


def _place(result: Object, order: Mapping[str, int]) -> int:
    response = fields(result.get("functionResponse"))
    names = (result.get("tool_use_id"), result.get("tool_call_id"), response.get("id"), response.get("name"))
    return next((order[name] for name in map(text, names) if name and name in order), 0)


def _with_id_of(call: Object, result: Object) -> Object:
    """Give a Gemini response the id of its call, which was found by name. Other results are returned unchanged."""
    response = fields(result.get("functionResponse"))
    if not response or response.get("name") != call.get("name") or response.get("id") == call.get("id"):
        return result
    return {**result, **function_response(call, response.get("response"))}


def _unmark(message: Message, wire: Wire) -> int | None:
    """Remove the origins from a message, and return the origin of its first block that is not a result."""
    blocks = wire.blocks(message)
    origins = [block.get(ORIGIN) for block in blocks if not _is_result(block)]
    plain = [{name: value for name, value in block.items() if name != ORIGIN} for block in blocks]
    if wire.field is not None:
        message[wire.field] = plain
    else:
        message.pop(ORIGIN, None)
    return next((origin for origin in origins if isinstance(origin, int)), None)


# Calls and results


def _count_calls(block: Object) -> int:
    """Count the calls in a block, or in a message of Chat Completions."""
    is_call = block.get("type") in ("tool_use", *CALLS) or "functionCall" in block
    return is_call or len(objects(block.get("tool_calls")))


def _is_result(block: Object) -> bool:
    is_typed = block.get("type") in ("tool_result", *OUTPUTS)
    return is_typed or "functionResponse" in block or block.get("role") == "tool"


def _pairing_notes(given: Sequence[Message], made: Sequence[Message], wire: Wire) -> tuple[str, ...]:
    """Write notes that count the calls without a result, and the results without a call, in the log."""
    before = [block for message in given for block in wire.blocks(message)]
    after = [block for message in made for block in wire.blocks(message)]
    results = [block for block in after if _is_result(block)]
    remarks = sum(ORIGIN not in block for block in results)
    dropped = sum(map(_count_calls, before)) - sum(map(_count_calls, after))
    strays = sum(map(_is_result, before)) - len(results) + remarks
    return (
        *note("calls without a result, left out", dropped),
        *note("calls without a result, answered with a remark", remarks),
        *note("results that answer no call, or answer it again, left out", strays),
    )


# Chat Completions


def assistant(content: str, calls: Sequence[Message] = ()) -> Message:
    """Create an assistant message of Chat Completions."""
    message: Message = {"role": "assistant", "content": content or None}
    return {**message, "tool_calls": list(calls)} if calls else message


def tool_call(call_id: str, name: str, arguments: object) -> Message:
    """Create a call for an assistant message; arguments are written as JSON unless they are text."""
    payload = arguments if isinstance(arguments, str) else compact(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": payload}}


def tool_result(call_id: str, content: object) -> Message:
    """Create the message with the result of a call."""
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def image(url: str) -> Message:
    """Create a picture for a user's message of Chat Completions."""
    return {"type": "image_url", "image_url": {"url": url}}


def _check_chat(message: Object) -> str:
    if not isinstance(message.get("content"), str | list | None):
        return "has a content that is neither text nor blocks"
    if message.get("role") == "tool" and not isinstance(message.get("tool_call_id"), str):
        return "is a result without the id of its call"
    for each in _chat_calls(message):
        function = fields(each.get("function"))
        named = (each.get("id"), function.get("name"), function.get("arguments"))
        if not all(isinstance(value, str) for value in named):
            return "has a call without an id, a name or arguments"
    return ""


def _chat_calls(message: Object) -> list[Object]:
    return objects(message.get("tool_calls")) if message.get("role") == "assistant" else []


def _clean_chat(message: Object) -> Object | None:
    if message.get("role") == "tool":
        return message
    if calls := _chat_calls(message):
        return {**message, "tool_calls": calls}
    content = message.get("content")
    is_blank = not (content.strip() if isinstance(content, str) else content)
    return None if is_blank else {name: value for name, value in message.items() if name != "tool_calls"}


# Responses


def _check_item(item: Object) -> str:
    kind = item.get("type", "message")
    if not isinstance(kind, str) or (kind == "message" and not isinstance(item.get("role"), str)):
        return "has no type or no role"
    # Searches that the server runs have no id.
    is_paired = kind in (*CALLS, *OUTPUTS) and not kind.startswith("tool_search")
    return "is a call or an output without an id" if is_paired and not isinstance(item.get("call_id"), str) else ""


def _clean_item(item: Object) -> Object | None:
    content = item.get("content")
    is_said = bool(content) and isinstance(content, str | list)
    return item if item.get("type", "message") != "message" or is_said else None


# Anthropic Messages


def text_block(value: str) -> Message:
    """Create a text block for an Anthropic message."""
    return {"type": "text", "text": value}


def content_blocks(content: object) -> list[Object]:
    """Return the blocks of an Anthropic message's content, which may be a text."""
    return [text_block(content)] if isinstance(content, str) else objects(content)


def image_block(media_type: object, data: object) -> Message:
    """Create a picture for an Anthropic message, from Base64 data."""
    return {"type": "image", "source": {"type": "base64", "media_type": text(media_type), "data": text(data)}}


def without_thoughts(message: Object) -> Message:
    """Remove the model's thinking from an Anthropic message."""
    return {**message, "content": [b for b in objects(message["content"]) if b.get("type") not in THOUGHTS]}


def _check_blocks(message: Object) -> str:
    for block in objects(message["content"]):
        if not isinstance(block.get("type"), str):
            return "has a block without a type"
        if block["type"] == "tool_use" and not all(isinstance(block.get(name), str) for name in ("id", "name")):
            return "has a call without an id or a name"
        if block["type"] == "tool_result" and not isinstance(block.get("tool_use_id"), str):
            return "has a result without the id of its call"
    return ""


def _clean_blocks(message: Object) -> Object | None:
    """Remove empty texts, calls in the user's messages and results in the model's."""
    elsewhere = "tool_result" if message["role"] == "assistant" else "tool_use"
    blocks = [
        _with_valid_id(block)
        for block in objects(message["content"])
        if block["type"] != elsewhere and (block["type"] != "text" or text(block.get("text")).strip())
    ]
    return {**message, "content": blocks} if blocks else None


def _with_valid_id(block: Object) -> Object:
    """Make the id of a call or a result neither empty nor too long; `repair` fixes other invalid ids."""
    name = {"tool_use": "id", "tool_result": "tool_use_id"}.get(text(block["type"]))
    if name is None or 0 < len(text(block[name])) <= LONGEST_ID:
        return block
    return {**block, name: valid_id(text(block[name]))}


def valid_id(id: str) -> str:
    """Return an id of a call that Anthropic's API accepts."""
    return NO_ID_CHARACTER.sub("_", id)[:LONGEST_ID] or "call"


# Gemini contents, by the rules of Gemini CLI's `historyHardening` module


def function_call(named: Object, arguments: object) -> Message:
    """Create a call for a Gemini part, with the name of `named`, and its id if it has one."""
    return {**_id(named), "name": text(named.get("name")), "args": fields(arguments)}


def function_response(named: Object, payload: object) -> Message:
    """Create the part with the response to a call, which the API accepts only as an object."""
    response = payload if isinstance(payload, dict) else {"output": payload}
    return {"functionResponse": {**_id(named), "name": text(named.get("name")), "response": response}}


def _id(named: Object) -> Message:
    return {"id": named["id"]} if text(named.get("id")) else {}


def _clean_parts(content: Object) -> Object | None:
    """Remove thoughts, empty parts, calls in the user's contents and responses in the model's."""
    elsewhere = "functionResponse" if content["role"] == "model" else "functionCall"
    sent = [_api_part(each) for each in objects(content["parts"]) if not each.get("thought")]
    said = [each for each in sent if any(name != "text" or text(value).strip() for name, value in each.items())]
    parts = [each for each in said if elsewhere not in each]
    return {**content, "parts": parts} if parts else None


def _api_part(part: Object) -> Message:
    bare = {name: value for name, value in part.items() if name in PART_FIELDS}
    if "functionCall" in bare:
        called = fields(bare["functionCall"])
        return {**bare, "functionCall": function_call(called, called.get("args"))} if called else {}
    if "functionResponse" in bare:
        response = fields(bare["functionResponse"])
        return function_response(response, response.get("response")) if response else {}
    return bare


WIRES: Mapping[str, Wire] = {
    CHAT: Wire(_clean_chat, _check_chat),
    RESPONSES: Wire(_clean_item, _check_item),
    ANTHROPIC: Wire(_clean_blocks, _check_blocks, "content", joins=("user",)),
    GEMINI: Wire(_clean_parts, field="parts", joins=("user", "model"), unit="content"),
}

"""A conversation for the Chat Completions API: every call is followed by its result, and nothing is empty."""

from collections.abc import Iterator, Sequence

from autoprune.apps.sessions._json import Object, compact, fields, objects, text
from autoprune.apps.sessions._recorded import (
    NO_RESULT,
    CallOrResult,
    Conversation,
    Message,
    Placed,
    bad_message,
    pair,
    pairing_notes,
    placed,
)
from autoprune.apps.sessions._requests import Moment


def call(call_id: str, name: str, arguments: object) -> Message:
    """Make a call as an assistant message holds it; arguments that are no text are written as JSON."""
    payload = arguments if isinstance(arguments, str) else compact(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": payload}}


def said(content: str, calls: Sequence[Message] = ()) -> Message:
    """Make an assistant message."""
    message: Message = {"role": "assistant", "content": content or None}
    return {**message, "tool_calls": list(calls)} if calls else message


def result(call_id: str, content: object) -> Message:
    """Make the message that answers a call."""
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def conversation(
    messages: Sequence[Message],
    missing: str | None = NO_RESULT,
    notes: Sequence[str] = (),
    moments: Sequence[Moment] = (),
) -> Conversation:
    """Make a conversation of messages in the order of a log.

    Results move behind the message of their call; one that answers no call, or answers it again, is left out. A call
    without a result is answered with `missing`, or left out where that is None. Raises SessionError for a call or a
    result without an id, and for a content that is neither text nor blocks.
    """
    for at, message in enumerate(messages, 1):
        _check(message, at)
    exchanges = [each for at, message in enumerate(messages) for each in _calls_or_results(at, message)]
    found = pair(exchanges)
    answers: dict[int, list[Message | None]] = {}
    for index, each in enumerate(exchanges):
        if each.is_call:
            reply = messages[exchanges[found[index]].message] if index in found else None
            answers.setdefault(each.message, []).append(reply)
    made: list[Placed] = []
    for at, message in enumerate(messages):
        spoken = () if message.get("role") == "tool" else _spoken(message, answers.get(at, []), missing)
        made += [(each, None if each.get("role") == "tool" else at) for each in spoken]
    return placed(made, (*notes, *pairing_notes(exchanges, found, missing)), moments)


def _check(message: Object, at: int) -> None:
    if not isinstance(message.get("content"), str | list | None):
        raise bad_message("has a content that is neither text nor blocks", at)
    if message.get("role") == "tool" and not isinstance(message.get("tool_call_id"), str):
        raise bad_message("is a result without the id of its call", at)
    for each in _calls(message):
        function = fields(each.get("function"))
        if not all(
            isinstance(value, str) for value in (each.get("id"), function.get("name"), function.get("arguments"))
        ):
            raise bad_message("has a call without an id, a name or arguments", at)


def _calls(message: Object) -> list[Object]:
    return objects(message.get("tool_calls")) if message.get("role") == "assistant" else []


def _calls_or_results(at: int, message: Object) -> Iterator[CallOrResult]:
    if message.get("role") == "tool":
        yield CallOrResult(at, text(message.get("tool_call_id")), is_call=False)
    for each in _calls(message):
        yield CallOrResult(at, text(each.get("id")), is_call=True)


def _spoken(message: Message, results: Sequence[Message | None], missing: str | None) -> Iterator[Message]:
    """Return a message that is no result and the results of its calls; nothing where it says nothing."""
    pairs = list(zip(_calls(message), results, strict=True))
    if missing is None:
        pairs = [(each, reply) for each, reply in pairs if reply is not None]
    if pairs:
        calls = [each for each, _ in pairs]
        yield message if calls == message["tool_calls"] else {**message, "tool_calls": calls}
        for each, reply in pairs:
            yield reply or result(text(each.get("id")), missing)
    elif not _is_blank(message.get("content")):
        yield {name: value for name, value in message.items() if name != "tool_calls"}


def _is_blank(content: object) -> bool:
    return not (content.strip() if isinstance(content, str) else content)


def image(url: str) -> Message:
    """Make a picture in a user's message."""
    return {"type": "image_url", "image_url": {"url": url}}

"""The running summary in a conversation: a user's message, or the head of one, known by its mark. Writes no summary."""

import re
from collections.abc import Sequence
from typing import Any

from autoprune.conversation.edits import CALLS_IN_TEXT, NO_ANSWER, Running
from autoprune.conversation.messages import fields_of, with_item
from autoprune.tokens import Count

HEAD = re.compile(
    rf"\[Summary of (\d{{1,9}}) earlier messages \(max (\d{{1,9}}) tokens(?:; ({CALLS_IN_TEXT}|{NO_ANSWER}))?\)\]\n"
)
END = "\n[/Summary]"
SLACK_TOKENS = 2
GAP = "\n\n"  # between the summary and the words of the user's that follow it
SYSTEM_ROLES = ("system", "developer")


def wrapped(text: str, messages: int, room: int, calls: str = "") -> str:
    """Return a summary with its mark: how many messages it stands for, and the tokens that its text may have.

    `calls` says how the model has made its calls so far: what counts as a result in later texts depends on it.
    """
    known = f"; {calls}" if calls else ""
    return f"[Summary of {messages} earlier messages (max {room} tokens{known})]\n{text}{END}"


def plain(text: str) -> str:
    """A summary's text without what would end it."""
    return text.replace(END.strip(), "[ /Summary]").strip()


def overhead(count: Count, messages: int, room: int) -> int:
    """Tokens of the mark around a summary, and a few more: counts of joined texts need not add up."""
    return count(wrapped("", messages, room, CALLS_IN_TEXT) + GAP) + SLACK_TOKENS


def running(messages: Sequence[object]) -> Running | None:
    """The summary that an earlier prune left, right behind the system's messages; None where there is none."""
    for at, message in enumerate(messages):
        held = fields_of(message)
        if held.get("role") not in SYSTEM_ROLES:
            return _found(at, message) if held.get("role") == "user" else None
    return None


def _found(at: int, message: object) -> Running | None:
    name, content = content_of(message)
    if isinstance(content, str):
        return _read(at, content, lambda words: with_item(message, name, words) if words else None)
    if not isinstance(content, list | tuple) or not content:
        return None
    text = fields_of(content[0]).get("text")

    def rest(words: str) -> object:
        blocks = [*([with_item(content[0], "text", words)] if words else ()), *content[1:]]
        return with_item(message, name, blocks) if blocks else None

    return _read(at, text, rest) if isinstance(text, str) else None


def _read(at: int, text: str, rest: Any) -> Running | None:
    match = HEAD.match(text)
    end = text.find(END, match.end()) if match else -1
    if match is None or end < 0:
        return None
    words = rest(text[end + len(END) + len(GAP) :])
    return Running(at, text[match.end() : end], int(match[1]), int(match[2]), words, calls=match[3] or "")


def without(messages: Sequence[Any], found: Running | None) -> list[Any]:
    """The messages without the summary, where it stands at the head of one; one that is nothing else stays."""
    bare = list(messages)
    if found and found.rest is not None:
        bare[found.at] = found.rest
    return bare


def apart(messages: Sequence[Any]) -> Sequence[Any]:
    """The messages with the summary as one of its own, where it stands at the head of another."""
    found = running(messages)
    if found is None or found.rest is None:
        return messages
    alone = {"role": "user", "content": wrapped(found.text, found.messages, found.room, found.calls)}
    return [*messages[: found.at], alone, found.rest, *messages[found.at + 1 :]]


def content_of(message: object) -> tuple[str, object]:
    """What a message of any format says, and the name of the field that holds it."""
    held = fields_of(message)
    name = "parts" if "parts" in held else "content"
    return name, held.get(name)


def joined(first: object, second: object) -> object:
    """Two messages of the user's as one: the second, with the content of the first before its own."""
    name, content = content_of(second)
    _, before = content_of(first)
    if isinstance(before, str) and isinstance(content, str):
        return with_item(second, name, f"{before}{GAP}{content}")
    blocks = [*_blocks(before, content), *_blocks(content, before)]
    kind = next((type(block) for block in blocks if hasattr(block, "model_validate")), None)
    return with_item(second, name, [_of_kind(block, kind) for block in blocks])


def _of_kind(block: object, kind: Any) -> object:
    """A block that is a dict as an SDK's object, where the others are objects of that class."""
    return kind.model_validate(block) if kind is not None and isinstance(block, dict) else block


def _blocks(content: object, other: object) -> list[object]:
    """A content as blocks; a text becomes one of the kind that the other content has."""
    if isinstance(content, list | tuple):
        return list(content)
    others = [fields_of(block) for block in other] if isinstance(other, list | tuple) else []
    kind = "input_text" if any(block.get("type") == "input_text" for block in others) else "text"
    return [{"type": kind, "text": content}] if content else []


def is_users(message: object) -> bool:
    """Whether a message has the user's role, whatever it holds."""
    held = fields_of(message)
    return held.get("role") == "user" or (held.get("role") is None and "parts" in held)

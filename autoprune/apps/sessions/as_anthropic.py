"""A conversation for Anthropic's Messages API: calls answered in the next message, and nothing empty."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

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

Block = Object
ID_LENGTH = 64  # characters of a call's id that the API takes
THOUGHTS = ("thinking", "redacted_thinking")


@dataclass(frozen=True)
class Speech:
    """What one side says: blocks of the API, results among the user's in the order of the log."""

    role: str
    blocks: Sequence[Block]


def words(value: str) -> list[Block]:
    """Return a text as blocks."""
    return [{"type": "text", "text": value}]


def without_thoughts(speech: Speech) -> Speech:
    """Return a speech without the model's thinking."""
    return Speech(speech.role, [block for block in speech.blocks if block.get("type") not in THOUGHTS])


def conversation(
    speeches: Sequence[Speech],
    missing: str | None = NO_RESULT,
    notes: Sequence[str] = (),
    moments: Sequence[Moment] = (),
) -> Conversation:
    """Make a conversation of speeches in the order of a log.

    It begins with the user's words. Results come together, first thing in the message after their calls; neighboring
    messages of the user become one. A call without a result is answered with `missing`, or left out where that is None.
    Raises SessionError for a block without a type, and for a call or a result without an id.
    """
    for at, speech in enumerate(speeches, 1):
        _check(speech, at)
    start = next((at for at, speech in enumerate(speeches) if speech.role == "user" and _spoken(speech)), len(speeches))
    speeches, moments = speeches[start:], moments[start:]
    blocks = [(at, block) for at, speech in enumerate(speeches) for block in _calls_or_results(speech)]
    exchanges = [_call_or_result(at, block) for at, block in blocks]
    found = pair(exchanges)
    ids = _ids(exchanges)
    replies: dict[int, list[Message | None]] = {}
    for index, call_id in ids.items():
        given = {**blocks[found[index]][1], "tool_use_id": call_id} if index in found else _remark(call_id, missing)
        replies.setdefault(exchanges[index].message, []).append(given)
    early = note("messages before the user's first, left out", start)
    return placed(_messages(speeches, replies), (*notes, *early, *pairing_notes(exchanges, found, missing)), moments)


def _check(speech: Speech, at: int) -> None:
    for block in speech.blocks:
        if not isinstance(block.get("type"), str):
            raise bad_message("has a block without a type", at)
        if block["type"] == "tool_use" and not all(isinstance(block.get(name), str) for name in ("id", "name")):
            raise bad_message("has a call without an id or a name", at)
        if block["type"] == "tool_result" and not isinstance(block.get("tool_use_id"), str):
            raise bad_message("has a result without the id of its call", at)


def _spoken(speech: Speech) -> list[Block]:
    """Return the blocks that are neither results nor empty, nor calls where the user speaks."""
    elsewhere = ("tool_result",) if speech.role == "assistant" else ("tool_result", "tool_use")
    return [block for block in speech.blocks if block.get("type") not in elsewhere and not _is_empty(block)]


def _is_empty(block: Block) -> bool:
    return block.get("type") == "text" and not text(block.get("text")).strip()


def _calls_or_results(speech: Speech) -> list[Block]:
    """Return the assistant's calls, or the results among what the user says."""
    kind = "tool_use" if speech.role == "assistant" else "tool_result"
    return [block for block in speech.blocks if block.get("type") == kind]


def _call_or_result(at: int, block: Block) -> CallOrResult:
    is_call = block.get("type") == "tool_use"
    return CallOrResult(at, text(block.get("id" if is_call else "tool_use_id")), is_call)


def _ids(exchanges: Sequence[CallOrResult]) -> dict[int, str]:
    """Choose an id for each call that the API takes: of its letters and length, and unique in the conversation."""
    used: set[str] = set()
    times: Counter[str] = Counter()
    ids: dict[int, str] = {}
    for index, each in enumerate(exchanges):
        if not each.is_call:
            continue
        base = re.sub(r"[^a-zA-Z0-9_-]", "_", each.id)[:ID_LENGTH] or "call"
        chosen = base
        while chosen in used:
            times[base] += 1
            suffix = f"_{times[base] + 1}"
            chosen = base[: ID_LENGTH - len(suffix)] + suffix
        used.add(chosen)
        ids[index] = chosen
    return ids


def _remark(call_id: str, missing: str | None) -> Message | None:
    """Make the result of a call that has none; None where such a call is left out."""
    if missing is None:
        return None
    return {"type": "tool_result", "tool_use_id": call_id, "content": missing, "is_error": True}


def _messages(speeches: Sequence[Speech], replies: Mapping[int, Sequence[Message | None]]) -> Iterator[Placed]:
    """Make the messages, the assistant's with the index of its speech, and what the user says in a row in one."""
    content: list[Block] = []
    for at, speech in enumerate(speeches):
        if speech.role == "user":
            content += _spoken(speech)
            continue
        blocks, results = _answered(speech, replies.get(at, ()))
        while blocks and blocks[-1].get("type") in THOUGHTS:
            blocks.pop()  # the API refuses a message that ends in a thought, as it does where a call is left out
        if not blocks:
            continue
        if content:
            yield {"role": "user", "content": content}, None
        yield {"role": "assistant", "content": blocks}, at
        content = [*results]
    if content:
        yield {"role": "user", "content": content}, None


def _answered(speech: Speech, replies: Sequence[Message | None]) -> tuple[list[Block], list[Message]]:
    """Return the assistant's blocks with the calls that have an answer, and the answers."""
    blocks: list[Block] = []
    left = iter(replies)
    for block in _spoken(speech):
        if block.get("type") != "tool_use":
            blocks.append(block)
        elif reply := next(left):
            same = block.get("id") == reply["tool_use_id"]
            blocks.append(block if same else {**block, "id": reply["tool_use_id"]})
    return blocks, [reply for reply in replies if reply]

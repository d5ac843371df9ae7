"""Mark the running summary of a conversation, find it again, and insert it. Writes no summary.

A summary is a user message, or the head of one, since providers require alternating roles:

    [Summary of 12 earlier messages (max 800 tokens; calls in text)]
    They read a.py and fixed the test.
    [/Summary]

    Now the docs, please.

The mark carries all that the next prune needs, since nothing else remembers it:

- how many messages the summary replaces;
- the summary's room: the maximum tokens of its text. Later prompts count the room, however long the text is;
- how the model had made its calls: "calls in text", "no answer yet", "calls later" (native calls that follow a first
  message with results), or nothing for native calls. This decides what counts as a result in the texts that follow.

`find_summary` reads the mark, `with_separate_summary` moves the summary to a separate message, and `assemble` inserts a
new summary in place of the messages that it covers.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from autoprune.conversation.edits import Fold
from autoprune.conversation.messages import compaction_text, fields_of, items_of, role_of, with_item
from autoprune.conversation.transcript import Entry, Speaker
from autoprune.tokens import Count

# How the model had made its calls when a summary was written, as the summary's mark records it.
CALLS_IN_TEXT = "calls in text"  # the model has spoken, and has made no native call
NO_ANSWER = "no answer yet"  # the model has not spoken
CALLS_LATER = "calls later"  # the model has not spoken before the first message that stays, and made native calls after
CALLS = "|".join((CALLS_IN_TEXT, NO_ANSWER, CALLS_LATER))
HEAD = re.compile(rf"\[Summary of (\d{{1,9}}) earlier messages \(max (\d{{1,9}}) tokens(?:; ({CALLS}))?\)\]\n")
END = "\n[/Summary]"
SLACK_TOKENS = 2  # counts of joined texts need not add up
GAP = "\n\n"  # between the summary and the user's text after it
SYSTEM_ROLES, USER = ("system", "developer"), "user"
PROMPT = "user-prompt"  # Pydantic AI's part for words of the user

RoleOf: TypeAlias = Callable[[object], str | None]  # the role of a message


@dataclass(frozen=True)
class RunningSummary:
    """The running summary: message `at`, which replaces `messages` earlier ones.

    The summary's text has at most `room` tokens. `rest` is the message without the summary, None if the message holds
    nothing else. `tokens` is the number of tokens that the summary adds to the prompt. `calls` says how the model had
    made its calls when the summary was written: `CALLS_IN_TEXT`, `NO_ANSWER`, `CALLS_LATER`, or "" if natively or
    unknown.
    """

    at: int
    text: str = field(repr=False)
    messages: int
    room: int
    rest: Any = field(default=None, repr=False)
    tokens: int = 0
    calls: str = ""


def wrap_summary(text: str, messages: int, room: int, calls: str = "") -> str:
    """Wrap a summary in its mark, with the number of messages that it replaces and the maximum tokens of its text.

    `calls` says how the model has made its calls so far, which decides what counts as a result in later texts.
    """
    style = f"; {calls}" if calls else ""
    return f"[Summary of {messages} earlier messages (max {room} tokens{style})]\n{text}{END}"


def escape_end_mark(text: str) -> str:
    """Return a summary's text with any end mark in it escaped."""
    return text.replace(END.strip(), "[ /Summary]")


def overhead(count: Count, messages: int, room: int) -> int:
    """Return the tokens of the mark around a summary, plus slack."""
    return count(wrap_summary("", messages, room, CALLS_IN_TEXT) + GAP) + SLACK_TOKENS


def find_summary(messages: Sequence[object], role: RoleOf = role_of) -> RunningSummary | None:
    """Find the summary that an earlier prune inserted after the system messages; None if there is no summary.

    If the provider has compacted the conversation, the summary is in the first message of the user after that. `role`
    returns the role of a message.
    """
    start = next((at for at in range(len(messages) - 1, -1, -1) if compaction_text(messages[at])), None)
    if start is not None:
        at = next((at for at in range(start, len(messages)) if role(messages[at]) == USER), None)
        return None if at is None else _parse_summary(at, messages[at], is_after_results=True)
    for at, message in enumerate(messages):
        if (speaks := role(message)) not in SYSTEM_ROLES:
            return _parse_summary(at, message) if speaks == USER else None
    return None


def _parse_summary(at: int, message: object, *, is_after_results: bool = False) -> RunningSummary | None:
    """Parse the summary at the beginning of a message, or after its results; None if there is no summary."""
    name, content = content_of(message)
    is_blocks = isinstance(content, list | tuple) and bool(content)
    first = _find_head(content) if is_after_results else 0
    text = _text_of(content[first])[1] if is_blocks else content  # type: ignore[index]
    if not isinstance(text, str) or not (match := HEAD.match(text)):
        return None
    end = text.find(END, match.end())
    if end < 0:
        return None
    words = text[end + len(END) + len(GAP) :]
    rest: object = with_item(message, name, words) if words else None
    if isinstance(content, list | tuple):
        rest_of_block = [with_item(content[first], _text_of(content[first])[0], words)] if words else []
        blocks = [*content[:first], *rest_of_block, *content[first + 1 :]]
        rest = with_item(message, name, blocks) if blocks else None
    return RunningSummary(
        at=at,
        text=text[match.end() : end],
        messages=int(match[1]),
        room=int(match[2]),
        rest=rest,
        calls=match[3] or "",
    )


def _find_head(content: object) -> int:
    """Return the index of the block that begins with a summary's mark, after results and words; 0 if there is none."""
    texts = ((at, _text_of(block)[1]) for at, block in enumerate(items_of(content)))
    return next((at for at, text in texts if isinstance(text, str) and HEAD.match(text)), 0)


def _text_of(block: object) -> tuple[str, object]:
    """Return the name of the field that holds a block's text, and the text."""
    own = fields_of(block)
    name = "content" if own.get("part_kind") == PROMPT else "text"
    return name, own.get(name)


def without_summary(messages: Sequence[Any], found: RunningSummary | None) -> list[Any]:
    """Return the messages, with the summary removed from its message. A message that is only the summary stays."""
    bare = list(messages)
    if found and found.rest is not None:
        bare[found.at] = found.rest
    return bare


def with_separate_summary(messages: Sequence[Any], role: RoleOf = role_of) -> Sequence[Any]:
    """Return the messages, with a summary at the head of a message moved to a separate message."""
    summary = find_summary(messages, role)
    if summary is None or summary.rest is None:
        return messages
    alone = {"role": "user", "content": wrap_summary(summary.text, summary.messages, summary.room, summary.calls)}
    return [*messages[: summary.at], alone, summary.rest, *messages[summary.at + 1 :]]


class AssembledMessage(NamedTuple):
    """A message of the new conversation, with its index in the old conversation; None if it is new or merged.

    `sources` are the indexes of the old messages that it holds, and of those in whose place it was added.
    """

    message: Any
    at: int | None
    sources: tuple[int, ...] = ()


def assemble(
    messages: Sequence[Any],
    gone: Collection[int],
    added: Mapping[int, Any],
    role: RoleOf = role_of,
    *,
    moves_system: bool = False,
) -> list[AssembledMessage]:
    """Return the messages that are not in `gone`, with each of the `added` messages of the user before its index.

    User messages that become neighbors are merged, since roles must alternate. These are usually an added message and
    the one after or before it. With `moves_system`, system messages that would no longer be between a user's message
    and the answer to it are moved: Anthropic's API takes them nowhere else.
    """
    kept: list[AssembledMessage] = []
    for at in range(len(messages) + 1):
        if at in added:
            kept.append(AssembledMessage(added[at], None, (at,) if at in gone else ()))
        if at < len(messages) and at not in gone:
            kept.append(AssembledMessage(messages[at], at, (at,)))
    if moves_system:
        kept = _move_system(kept, messages)
    assembled: list[AssembledMessage] = []
    last: int | None = None  # the old index of the message that the newest one ends with
    for one in kept:
        between = None if last is None or one.at is None else messages[last + 1 : one.at]
        were_neighbors = between is not None and all(role(each) == USER for each in between)
        if assembled and not were_neighbors and role(assembled[-1].message) == role(one.message) == USER:
            before = assembled[-1]
            joined = join_messages(before.message, one.message, keeps_first=one.at is None)
            assembled[-1] = AssembledMessage(joined, None, (*before.sources, *one.sources))
        else:
            assembled.append(one)
        last = one.at
    return assembled


def _move_system(kept: Sequence[AssembledMessage], messages: Sequence[Any]) -> list[AssembledMessage]:
    """Move system messages that lost their user's message, or the answer to it, after the next user's message."""
    moved: list[AssembledMessage] = []
    waiting: list[AssembledMessage] = []
    place = None  # of the last answer to the user
    for one in kept:
        if _is_system(one.message):
            waiting.append(one)
            continue
        if moved and role_of(one.message) != USER:
            if role_of(moved[-1].message) == USER:
                place = len(moved)
            if waiting and _may_follow(waiting[0], moved[-1], messages):
                moved, waiting = [*moved, *waiting], []
        moved.append(one)
    if moved and place and waiting and not _may_follow(waiting[0], moved[-1], messages):
        return [*moved[:place], *waiting, *moved[place:]]
    return [*moved, *waiting]


def _is_system(message: object) -> bool:
    return fields_of(message).get("role") == "system"


def _may_follow(system: AssembledMessage, before: AssembledMessage, messages: Sequence[Any]) -> bool:
    """Return whether a system message may follow a message: the user's, or the one that it followed already."""
    if role_of(before.message) == USER or before.at is None or system.at is None:
        return True
    return before.at < system.at and all(map(_is_system, messages[before.at + 1 : system.at]))


def content_of(message: object) -> tuple[str, object]:
    """Return the name of the field that holds a message's content, and the content."""
    own = fields_of(message)
    name = "parts" if "parts" in own else "content"
    return name, own.get(name)


def join_messages(first: object, second: object, *, keeps_first: bool = False) -> object:
    """Merge two user messages: copy the second, or the first, with the contents of both."""
    base = first if keeps_first else second
    (name, _), (_, before), (_, content) = map(content_of, (base, first, second))
    if isinstance(before, str) and isinstance(content, str):
        return with_item(base, name, f"{before}{GAP}{content}")
    blocks = _join_blocks(_blocks(before, content), _blocks(content, before))
    sdk_class: Any = next((type(block) for block in blocks if hasattr(block, "model_validate")), None)
    if sdk_class:
        blocks = [sdk_class.model_validate(block) if isinstance(block, dict) else block for block in blocks]
    return with_item(base, name, blocks)


def _join_blocks(first: list[Any], second: list[Any]) -> list[Any]:
    """Join two lists of blocks. Texts that Pydantic AI would send as two messages become one."""
    if not (first and second and _is_prompt(first[-1]) and _is_prompt(second[0])):
        return [*first, *second]
    text = f"{fields_of(first[-1])['content']}{GAP}{fields_of(second[0])['content']}"
    return [*first[:-1], with_item(second[0], "content", text), *second[1:]]


def _is_prompt(part: object) -> bool:
    own = fields_of(part)
    return own.get("part_kind") == PROMPT and isinstance(own.get("content"), str)


def edge_text(message: object, at: int) -> str | None:
    """Return the text at the end `at` (0 or -1) of a message of the user, which another text would join.

    "" if that would become a separate part, and None if all texts would become blocks.
    """
    content = content_of(message)[1]
    if isinstance(content, str):
        return content
    parts = [*map(fields_of, items_of(content))]
    if not any("part_kind" in part for part in parts):
        return None
    return str(parts[at]["content"]) if _is_prompt(parts[at]) else ""


def _blocks(content: object, other: object) -> list[object]:
    """Return a content as blocks; a text becomes a block of the type that the other content uses."""
    if isinstance(content, list | tuple):
        return list(content)
    is_input = any(fields_of(block).get("type") == "input_text" for block in items_of(other))
    kind = "input_text" if is_input else "text"
    return [{"type": kind, "text": content}] if content else []


def call_style(folds: Iterable[Fold], running: RunningSummary | None, entries: Sequence[Entry]) -> str:
    """Return how the model made its calls in the folded messages, for the summary's mark.

    Parsers need this to read the messages after the summary. A folded native call always counts. Dropped messages do
    not count, since they leave no trace in pruned output that is passed back. Such output has only the last mark, so
    each fold builds on the mark before it.
    """
    calls = running.calls if running else NO_ANSWER
    gone = {running.at} if running and running.rest is None else set()
    for fold in folds:
        gone.update(fold.messages)
        if not fold.is_drop:
            calls = _call_style_after(calls, fold, gone, entries)
    return calls


def _call_style_after(before: str, fold: Fold, gone: set[int], entries: Sequence[Entry]) -> str:
    """Return how the model made its calls, after `fold` is applied. `gone` holds all messages removed by then."""
    stays = (at for at, entry in enumerate(entries) if at not in gone and entry.speaker is not Speaker.SYSTEM)
    first = next(stays, len(entries))
    folded = [(at, entries[at]) for at in fold.messages]
    has_spoken = any(entry.speaker is Speaker.MODEL and at < first for at, entry in folded)
    if before in (CALLS_LATER, "") or any(call.location.start is None for _, each in folded for call in each.calls):
        is_opening = before and not has_spoken and before != CALLS_IN_TEXT
        return CALLS_LATER if is_opening and first < len(entries) and entries[first].results else ""
    return CALLS_IN_TEXT if has_spoken else before

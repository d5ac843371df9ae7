"""A pruner's cache of conversations, so that the pruner only reads and walks new messages. Losing it costs only time.

A `Remembered` holds a snapshot and an entry of each message, and the walk over these entries. The messages of the next
call are compared with the snapshots and not with the earlier messages, so changes in place are noticed. Say that the
first call pruned [U, A, R] to [U, A, r], since R was cleared:

    the next call passes     its first messages equal     so the pruner
    [U, A, R, B, S]          the snapshots                reads B and S, and continues the walk
    [U, A, r, B, S]          the edited snapshots         reads r, B and S, and walks over all entries again
    [U, A', R, B, S]         neither                      reads and walks all messages

All three give the same prompt as a new pruner; property tests compare the two after every kind of call. Clients move
their cache marks (`cache_control`) at every request. A mark changes no entry, so messages that differ only in their
marks count as equal.

While a conversation has fewer bytes than the safe zone has tokens, it is not even read, since a text never has more
tokens than UTF-8 bytes.
"""

import json
import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from threading import Lock
from typing import Any
from weakref import WeakSet

from autoprune.conversation.edits import Replace, rewrite
from autoprune.conversation.messages import MARK, MOST_CONTAINERS, endless, fields
from autoprune.conversation.summary import RunningSummary, find_summary
from autoprune.conversation.transcript import (
    Entry,
    Location,
    Part,
    ToolCall,
    ToolResult,
    Transcript,
    newest_compaction,
    without_replaced,
)
from autoprune.economics import Invoice
from autoprune.planning.plan import Later
from autoprune.planning.view import name_of
from autoprune.tokens import MESSAGE_TOKENS, REPLY_TOKENS, Memo
from autoprune.wire import SHIPPED, is_media, new_parser, recognize, roles_in
from autoprune.wire.parsing import Format, Parser, add_place, parse

REMEMBERED = 8  # conversations that a pruner remembers by default: enough for an agent with its subagents
LEAVES = (str, int, float, bytes, Enum, type)  # values that a snapshot need not copy
LARGEST_FLOAT = 1e15  # larger whole floats count with all their digits, but JSON writes them with an exponent
MARKED = frozenset(("text", "tool_use", "tool_result", "image", "document"))  # blocks whose cache mark has no tokens


@dataclass(frozen=True)
class Reading:
    """A pruner's way to read messages: its token counter, its formats, and its functions that recognize XML results.

    `estimate` is a note for the report if the counter only estimates the tokens of the model.
    """

    count: Memo
    estimate: str | None
    formats: Sequence[Format]
    is_tool_result: Callable[[str], bool]
    tool_name: Callable[[str], str]

    def parser(self, summary: RunningSummary | None = None, *, wants_inputs: bool = False) -> Parser:
        """Create a parser for one conversation, which follows `summary` if there is one."""
        names = self.is_tool_result, self.tool_name
        return new_parser(self.count, *names, self.formats, wants_inputs=wants_inputs, summary=summary)

    def summary(self, conversation: Sequence[Any]) -> RunningSummary | None:
        """Find the summary that an earlier prune inserted."""
        return find_summary(conversation, roles_in(self.formats))

    def transcript(self, conversation: list[Any], overhead: int) -> Transcript:
        """Read and count a conversation, with `overhead` tokens sent beside it."""
        return parse(conversation, self.parser(self.summary(conversation)), fixed_tokens(conversation, overhead))

    def transcript_to_compare(self, conversation: list[Any]) -> Transcript:
        """Read a conversation to compare it with another one.

        Messages that are missing in one of the two conversations do not change how the others are read.
        """
        parser = self.parser(wants_inputs=True)
        parser.standing = replace(parser.standing, is_free=True)
        return parse(conversation, parser, 0)


def fixed_tokens(conversation: list[Any], overhead: int) -> int:
    """Count the tokens of a prompt besides its messages: the overhead, and the start of the reply."""
    return overhead + (REPLY_TOKENS if conversation else 0)


class Remembered:
    """One conversation, up to the last message that a pruner has read.

    `key` identifies the settings that the conversation was read with. `cleared` are the places of results that a prune
    with other settings cleared in these messages. `texts` holds its summaries by the number of
    folds. `archived` maps the parts whose payloads were archived to the texts that replaced them.
    """

    def __init__(self, key: object, cleared: Collection[Location] = ()) -> None:
        self.key = key
        self.cleared = cleared
        self.snapshots: list[Any] = []
        self.entries: list[Entry] = []
        self.parser: Parser | None = None
        self.walk: Any = None
        self.texts: dict[int, str] = {}
        self.archived: dict[Part, str] = {}
        self._most_tokens = 0.0  # an upper bound of the tokens of the messages, kept until they are read

    # Compare

    def changes(self, messages: list[Any]) -> Mapping[int, object] | None:
        """Collect the snapshots of messages that came back edited or with other marks, by index.

        Return None if the messages do not continue this conversation.
        """
        begun = messages[: len(self.snapshots)]
        if is_same(begun, self.snapshots):
            return {}
        if len(begun) < len(self.snapshots):
            return None
        changed, edits = {}, self._edits()
        for at, (message, before) in enumerate(zip(begun, self.snapshots, strict=True)):
            if is_same(message, before) or is_same(now := snapshot(message, at), before):
                continue
            if not (is_same_but_marks(now, before) or is_same_but_marks(now, rewrite(before, edits.get(at, [])))):
                return None
            changed[at] = now
        return changed

    def _edits(self) -> Mapping[int, list[Replace]]:
        """Group the edits of the last prune by message."""
        groups: dict[int, list[Replace]] = {}
        for edit in self.walk.edits.values() if self.walk else ():
            groups.setdefault(edit.part.location.message, []).append(edit)
        return groups

    def adopt(self, changed: Mapping[int, object], messages: list[Any]) -> bool:
        """Update the history with messages that came back changed. Return False if all must be read from the start."""
        edited = [at for at, now in changed.items() if not is_same_but_marks(now, self.snapshots[at])]
        for at, now in changed.items():
            self.snapshots[at] = now
        return not edited or self._read_edited(edited, messages)

    def _read_edited(self, edited: Iterable[int], messages: list[Any]) -> bool:
        """Read the messages with edits of the last prune again, and keep the other entries.

        Return False if a message no longer matches its entry, or has a call that still waits for its result.
        """
        assert self.parser is not None
        calls: dict[int, ToolCall] = {}
        for at in edited:
            before = self.entries[at]
            entry = self.parser.read_again(messages[at], at, before)
            if entry is None:
                return False
            self.entries[at] = entry
            calls.update((id(old), new) for old, new in zip(before.calls, entry.calls, strict=True))
        self.walk = None
        return not calls or self._update_calls(calls)

    def _update_calls(self, calls: Mapping[int, ToolCall]) -> bool:
        """Replace the calls in results by their new versions. Return False if a call has no result yet."""
        answered: set[int] = set()
        for at, entry in enumerate(self.entries):
            if any(id(result.call) in calls for result in entry.results):
                answered.update(id(result.call) for result in entry.results)
                results = (replace(one, call=calls.get(id(one.call), one.call)) for one in entry.results)
                self.entries[at] = replace(entry, results=tuple(results))
        return answered.issuperset(calls)

    def cleared_places(self) -> Collection[Location]:
        """Return the places of the results that the last prune cleared."""
        edits = self.walk.edits.values() if self.walk else ()
        return [edit.part.location for edit in edits if isinstance(edit.part, ToolResult)]

    # Read

    def fits_unread(self, messages: list[Any], formats: Sequence[Format], fixed: int, limit: float) -> bool:
        """Take snapshots of new messages while their bytes plus `fixed` tokens fit into `limit`; return whether all do.

        Raises ConversationError for values that are not messages, unless the limit is exceeded before them.
        """
        for at in range(len(self.snapshots), len(messages)):
            if self._most_tokens + fixed > limit:
                return False
            message = snapshot(messages[at], at)
            self.snapshots.append(message)
            _, written_in = recognize(messages[at], at, formats)
            # A caller's format may count any number of tokens for media.
            is_bounded = written_in in SHIPPED or not hasattr(written_in, "media")
            self._most_tokens += token_bound(message) if is_bounded else math.inf
        return self._most_tokens + fixed <= limit

    def read(self, messages: list[Any], start: Callable[[], Parser]) -> None:
        """Read the new messages with the parser, which `start` creates for the first of them."""
        parser = self.parser = self.parser or start()
        for at in range(len(self.snapshots), len(messages)):
            self.snapshots.append(snapshot(messages[at], at))
        new = parser.read_on(messages, len(self.entries))
        self.entries += new
        if newest_compaction(new) is not None:  # the provider ignores messages that the walk has counted
            self.walk = None

    # Walk

    def walk_on(
        self,
        start: Callable[[], Any],
        pauses: Mapping[int, float],
        later: Later,
        invoices: Mapping[int, Invoice],
    ) -> Any:
        """Continue the walk over the entries, or begin a new walk with `start` if the last one is no longer valid."""
        walk = self.walk
        is_valid = walk is not None and walk.used_same(pauses, invoices) and walk.continues_with(self.entries)
        if is_valid and not walk.take_over(later):
            is_valid, self.cleared = False, self.cleared_places()
        if not is_valid:
            self.walk, self.texts = start(), {}
        self.walk.pauses, self.walk.invoices = pauses, invoices
        entries = self.entries if is_valid else without_replaced(self.entries)
        self.walk.extend(entries[len(self.walk.entries) :])
        return self.walk


class Guarded:
    """An object with a lock, which is a new one in a forked process: no thread there would release the old one."""

    def __init__(self) -> None:
        self._lock = Lock()
        _guarded.add(self)


_guarded: WeakSet[Guarded] = WeakSet()


def _renew_locks() -> None:
    for each in _guarded:
        each._lock = Lock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_locks)


class Memory(Guarded):
    """The conversations that a pruner remembers.

    Thread-safe: a call takes a history out and puts it back at the end. Pruners that are copied or pickled start with
    an empty memory.
    """

    def __init__(self, most: int = REMEMBERED) -> None:
        super().__init__()
        self._most = most
        self._kept: list[Remembered] = []

    def compare(self, key: object, messages: list[Any]) -> Remembered:
        """Take out the history that the messages continue, read with the same key; if there is none, create one."""
        with self._lock:
            for index, history in enumerate(self._kept):
                if history.key == key and (changed := history.changes(messages)) is not None:
                    del self._kept[index]
                    return history if history.adopt(changed, messages) else Remembered(key)
            # The same strategy under other settings: what it cleared may come back.
            related = (
                each for each in self._kept if each.snapshots and _strategy_name(each.key) == _strategy_name(key)
            )
            others = (each.cleared_places() for each in related if each.changes(messages) == {})
            return Remembered(key, next(others, ()))

    def keep(self, history: Remembered) -> None:
        """Remember a conversation, and forget the least recently pruned conversation if there are too many."""
        # No key: the walk used a usage report, which belongs to one request.
        if history.key is None:
            return
        with self._lock:
            self._kept.insert(0, history)
            del self._kept[self._most :]


def _strategy_name(key: object) -> str:
    return name_of(getattr(key, "strategy", None))


def snapshot(message: object, at: int) -> Any:
    """Copy message number `at` deeply. An object of an SDK becomes a mapping of its fields.

    Raises ConversationError for a message that contains itself.
    """
    outer = [message]
    open_copies: list[Any] = [outer]
    # A bounded loop instead of recursion: it ends for messages that contain themselves, and at any depth.
    for _ in range(MOST_CONTAINERS):
        if not open_copies:
            return outer[0]
        container = open_copies.pop()
        for name, item in container.items() if type(container) is dict else enumerate(container):
            kind = type(item)
            if kind is str or item is None:
                continue
            if kind is dict or kind is list:
                copy = item.copy()
            elif isinstance(item, list | tuple):
                copy = list(item)
            elif isinstance(item, LEAVES) or not (members := fields(item)):
                continue
            else:
                copy = dict(members)
            container[name] = copy
            open_copies.append(copy)
    raise add_place(endless(), at)


def is_same(left: object, right: object) -> bool:
    """Return whether two values are equal. Values that cannot be compared count as different."""
    try:
        return bool(left == right)
    except (ValueError, TypeError, RuntimeError):  # an array, a tensor, or a very deep nest
        return False


def is_same_but_marks(left: object, right: object) -> bool:
    """Return whether two messages are equal apart from their marks for the prompt cache."""
    return is_same(_without_marks(left), _without_marks(right))


def _without_marks(message: object) -> object:
    """Copy a message without cache marks, both in the message itself and in its blocks."""
    if type(message) is not dict:
        return message
    plain = {name: value for name, value in message.items() if name != MARK}
    if type(plain.get("content")) is list:
        plain["content"] = [_without_marks(block) if _may_be_marked(block) else block for block in plain["content"]]
    return plain


def _may_be_marked(block: object) -> bool:
    return type(block) is dict and block.get("type") in MARKED


def token_bound(message: object) -> float:
    """Compute an upper bound of the tokens of a message: its bytes as JSON; infinite for media and SDK objects.

    SDK objects are not inspected: they may hold media, and their text is not known before a format reads them.
    """
    open_values: list[object] = [message]
    while open_values:
        value = open_values.pop()
        if isinstance(value, Mapping):
            if value is not message and is_media(value):
                return math.inf
            open_values.extend(value.values())
        elif isinstance(value, list | tuple):
            open_values.extend(value)
        elif type(value) is float and abs(value) > LARGEST_FLOAT:
            return math.inf
    try:
        text = json.dumps(message, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):  # an object, or keys that are not texts
        return math.inf
    return MESSAGE_TOKENS + (len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")))

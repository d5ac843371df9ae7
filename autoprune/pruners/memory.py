"""What a pruner remembers of its conversations, so that only new messages are read and walked. A cache, never a state.

How it works. A `History` has a snapshot and an entry of each message, and the walk over these entries. The messages of
the next call are compared with the snapshots, and not with the messages themselves, so a change made in place is
noticed. Say that the first call pruned [U, A, R] to [U, A, r], since R was cleared:

    the next call passes     the first messages equal     so the pruner
    [U, A, R, B, S]          the snapshots                reads B and S, and continues the walk
    [U, A, r, B, S]          the snapshots once edited    reads r, B and S, and walks again over all entries
    [U, A', R, B, S]         neither                      reads and walks all of it

All three give the prompt that a new pruner would give: the property tests compare both after every kind of call.
Clients move their marks for the prompt cache (`cache_control`) at every request. A mark changes no entry, so messages
that differ only in their marks count as equal.

A conversation is not even read while its bytes are fewer than the tokens of the safe zone: no text has more tokens than
UTF-8 bytes.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from threading import Lock
from typing import Any

from autoprune.conversation.edits import Replace, rewrite
from autoprune.conversation.messages import MARK, MOST_CONTAINERS, endless, fields
from autoprune.conversation.transcript import Entry, Part, Speaker, ToolCall
from autoprune.formats import SHIPPED, Format, Parser, is_media, recognize
from autoprune.formats.parsing import add_place
from autoprune.tokens import MESSAGE_TOKENS

REMEMBERED = 8  # conversations of a pruner, unless it is given another number: an agent with its subagents
LEAVES = (str, int, float, bytes, Enum, type)
NO_PAUSES: Mapping[int, float] = {}
LARGEST_FLOAT = 1e15  # larger whole floats are counted with all their digits, which JSON does not write
MARKED = frozenset(("text", "tool_use", "tool_result", "image", "document"))  # blocks whose mark counts no tokens


class History:
    """One conversation, as far as a pruner has read it.

    `key` is what it was read with. `texts` are the summaries written for it, by the number of folds. `archived` are the
    parts whose payloads were archived, with the texts that were put in their place.
    """

    def __init__(self, key: object) -> None:
        """Start before the first message."""
        self.key = key
        self.snapshots: list[Any] = []
        self.entries: list[Entry] = []
        self.parser: Parser | None = None
        self.walk: Any = None
        self.texts: dict[int, str] = {}
        self.archived: dict[Part, str] = {}
        self._bound = 0.0  # no fewer than the tokens of the messages, until they are read

    # Compare

    def changes(self, messages: list[Any]) -> Mapping[int, object] | None:
        """The snapshots of messages that came back edited or with other marks, by index.

        None if the messages do not continue this conversation.
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
        """The edits of the last prune, by message."""
        groups: dict[int, list[Replace]] = {}
        for edit in self.walk.edits.values() if self.walk else ():
            groups.setdefault(edit.part.location.message, []).append(edit)
        return groups

    def adopt(self, changed: Mapping[int, object], messages: list[Any]) -> bool:
        """Take the messages as they came back. Return False if they have to be read from the start."""
        edited = [at for at, now in changed.items() if not is_same_but_marks(now, self.snapshots[at])]
        for at, now in changed.items():
            self.snapshots[at] = now
        return not edited or self._read_again(edited, messages)

    def _read_again(self, edited: Iterable[int], messages: list[Any]) -> bool:
        """Read messages that hold the edits of the last prune, where the other entries stay as they are.

        Return False if one of them is read otherwise than before, or has a call that still waits for its result.
        """
        assert self.parser is not None
        calls: dict[int, ToolCall] = {}
        for at in edited:
            before, follows_model = self.entries[at], at > 0 and self.entries[at - 1].speaker is Speaker.MODEL
            entry = self.parser.read_again(messages[at], at, before, follows_model=follows_model)
            if entry is None:
                return False
            self.entries[at] = entry
            calls.update((id(old), new) for old, new in zip(before.calls, entry.calls, strict=True))
        self.walk = None
        return not calls or self._answer(calls)

    def _answer(self, calls: Mapping[int, ToolCall]) -> bool:
        """Let results know their calls as they are now. Return False if one of the calls has no result yet."""
        answered: set[int] = set()
        for at, entry in enumerate(self.entries):
            if any(id(result.call) in calls for result in entry.results):
                answered.update(id(result.call) for result in entry.results)
                results = (replace(one, call=calls.get(id(one.call), one.call)) for one in entry.results)
                self.entries[at] = replace(entry, results=tuple(results))
        return answered.issuperset(calls)

    # Read

    def is_small(self, messages: list[Any], formats: Sequence[Format], fixed: int, limit: float) -> bool:
        """Return whether the bytes of the messages and `fixed` tokens are within `limit`. New messages are remembered.

        Raises ConversationError for what is no message, if it has to look at that.
        """
        for at in range(len(self.snapshots), len(messages)):
            if self._bound + fixed > limit:
                return False
            message = snapshot(messages[at], at)
            self.snapshots.append(message)
            _, written_in = recognize(messages[at], at, formats)
            # No bytes bound what a caller's own format counts for media.
            is_bounded = written_in in SHIPPED or not hasattr(written_in, "media")
            self._bound += token_bound(message) if is_bounded else math.inf
        return self._bound + fixed <= limit

    def read(self, messages: list[Any], start: Callable[[], Parser]) -> Parser:
        """Make entries of the messages that are new. Return the parser, which `start` gives if there is none yet."""
        parser = self.parser = self.parser or start()
        for at in range(len(self.snapshots), len(messages)):
            self.snapshots.append(snapshot(messages[at], at))
        self.entries += parser.read_on(messages, len(self.entries))
        return parser

    # Walk

    def walk_on(self, messages: list[Any], start: Callable[[], Any], pauses: Mapping[int, float] = NO_PAUSES) -> Any:
        """Continue the walk over the entries, or begin one with `start` if the known one does not hold."""
        walk = self.walk
        if walk is None or not walk.has_same_pauses(pauses) or not walk.continues_with(self.entries):
            self.walk, self.texts = start(), {}
        self.walk.pauses = pauses
        self.walk.extend(messages, self.entries[len(self.walk.entries) :])
        return self.walk


class Memory:
    """The conversations that a pruner remembers. Safe to share between threads: each is in one call's hands at a time.

    Its loss costs only time: a pruner that is copied or pickled begins with an empty one.
    """

    def __init__(self, most: int = REMEMBERED) -> None:
        """Remember at most so many conversations."""
        self._most = most
        self._kept: list[History] = []
        self._lock = Lock()

    def compare(self, key: object, messages: list[Any]) -> History:
        """Return the history that the messages continue, read with the same key; a new one if there is none."""
        with self._lock:
            for index, known in enumerate(self._kept):
                if known.key == key and (changed := known.changes(messages)) is not None:
                    del self._kept[index]
                    return known if known.adopt(changed, messages) else History(key)
        return History(key)

    def keep(self, history: History) -> None:
        """Remember a conversation; the one that was not pruned for the longest time goes."""
        if history.key is None:
            return
        with self._lock:
            self._kept.insert(0, history)
            del self._kept[self._most :]


def snapshot(message: object, at: int) -> Any:
    """Copy message number `at` with all dicts and lists in it; an SDK's object becomes the mapping of its fields.

    Raises ConversationError for a message that holds itself.
    """
    outer = [message]
    open_copies: list[Any] = [outer]
    for _ in range(MOST_CONTAINERS):
        if not open_copies:
            return outer[0]
        held = open_copies.pop()
        for name, item in held.items() if type(held) is dict else enumerate(held):
            kind = type(item)
            if kind is str or item is None:
                continue
            if kind is dict or kind is list:
                copy = item.copy()
            elif isinstance(item, list | tuple):
                copy = list(item)
            elif isinstance(item, LEAVES) or not (known := fields(item)):
                continue
            else:
                copy = dict(known)
            held[name] = copy
            open_copies.append(copy)
    raise add_place(endless(), at)


def is_same(left: object, right: object) -> bool:
    """Return whether two values are equal; those that cannot be compared are not."""
    try:
        return bool(left == right)
    except (ValueError, TypeError, RecursionError):  # an array, or a very deep nest
        return False


def is_same_but_marks(left: object, right: object) -> bool:
    """Return whether two messages are equal but for their marks for the prompt cache."""
    return is_same(_unmarked(left), _unmarked(right))


def _unmarked(message: object) -> object:
    """Return a message without the marks that it and its blocks carry."""
    if type(message) is not dict:
        return message
    plain = {name: value for name, value in message.items() if name != MARK}
    if type(plain.get("content")) is list:
        plain["content"] = [_unmarked(block) if _may_be_marked(block) else block for block in plain["content"]]
    return plain


def _may_be_marked(block: object) -> bool:
    return type(block) is dict and block.get("type") in MARKED


def token_bound(message: object) -> float:
    """Return a number that the tokens of a message never exceed: its bytes as JSON, infinite if it holds media."""
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
        text = json.dumps(message, ensure_ascii=False, default=repr)
    except (TypeError, ValueError, RecursionError):  # keys that are no texts, say
        return math.inf
    return MESSAGE_TOKENS + (len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")))

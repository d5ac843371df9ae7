"""Shared code for the rules and repairs of all APIs: types, reading messages, and pairing calls with results.

How pairing works: a result answers the nearest call before it that has the same key and no result yet. A session file
may hold a result before its call, so if a key belongs to exactly one call and one result, they are a pair in either
order.
"""

import copy
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from autoprune.conversation.messages import fields_of, items_of, with_item
from autoprune.conversation.transcript import Path

Place: TypeAlias = tuple[int, int]  # a message and a block in it
# The name of the list of messages in a provider's errors, if not "messages".
ROOTS = {"gemini": "contents", "openai_responses": "input"}
ALTERNATE = "Conversation roles must alternate user/assistant/user/assistant/..."


@dataclass(frozen=True)
class Problem:
    """A rule of a provider that a conversation breaks.

    `rule` is a short, stable name. `path` is the JSON path of the place, as in (3, "content", 0). `message` is the text
    of the provider's error with the place filled in; docs/validation.md names the source of each text.
    """

    provider: str
    rule: str
    path: Path
    message: str

    def __str__(self) -> str:
        """Return one line: the provider, the place if the text does not name it, and the text."""
        # A line break in a provider's text would break the one line.
        root, message = ROOTS.get(self.provider, "messages"), " ".join(self.message.split())
        at = self.path[0] if self.path else None
        if at is None or f"{root}.{at}" in message or f"{root}[{at}]" in message:
            return f"{self.provider}: {message}"
        return f"{self.provider}: {'.'.join((root, *map(str, self.path)))}: {message}"


def check_neighbors(provider: str, roles: Sequence[str | None], model: str = "assistant") -> Iterator[Problem]:
    """Yield the places at which local chat templates fail: two neighbors share a role, or the model speaks first."""
    for at, role in enumerate(roles):
        if role in ("user", model) and (roles[at - 1] == role if at else role == model):
            yield Problem(provider, "alternation", (at,), ALTERNATE)


# Repairs

NO_RESULT = "No result: the tool call was interrupted or its result was removed."
EMPTY = "(empty)"
BEGINNING = "(The beginning of this conversation was removed.)"
NO_WORDS = "(Nothing was said here.)"


@dataclass(frozen=True)
class OpenCalls:
    """The treatment of calls without results: "answer" with a placeholder that states `reason`, "keep" or "remove"."""

    become: str = "answer"
    reason: str = NO_RESULT


@dataclass(frozen=True)
class Repair:
    """A problem, and the repair's description of its change."""

    problem: Problem
    what: str

    def __str__(self) -> str:
        """Return one line: the problem and the change."""
        return f"{self.problem} -> {self.what}"


class Repaired(NamedTuple):
    """A repaired conversation and its repairs. Without repairs, the conversation is the caller's object."""

    conversation: Any
    repairs: tuple[Repair, ...]


class Round(NamedTuple):
    """The messages after one round, and the repairs that it made."""

    messages: list[Any]
    repairs: list[Repair]


Rules: TypeAlias = Callable[[Sequence[object]], Iterable[Problem]]
Mend: TypeAlias = Callable[[Sequence[object], Sequence[Problem], OpenCalls, bool], Round]


@dataclass(frozen=True)
class Provider:
    """An API: its name, the rules that it checks, and how to repair a conversation that breaks them.

    `problems` yields the rules that a list of messages breaks. `mended` makes one round of repairs, given the messages,
    their problems, an `OpenCalls` and whether roles must alternate. Without `mended`, nothing is repaired.
    `alternation` yields the places at which roles do not alternate. Local chat templates reject these, and the API
    rejects them too if it `alternates`. If it `begins_with_user`, the first message must be the user's.
    """

    name: str
    problems: Rules
    mended: Mend | None = None
    _: KW_ONLY
    other_names: tuple[str, ...] = ()
    alternation: Rules | None = None
    alternates: bool = False
    begins_with_user: bool = False


class Log:
    """The problems for one round of repairs, and the repairs made so far."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.repairs: list[Repair] = []
        self._found: dict[int, list[Problem]] = {}
        for problem in problems:
            self._found.setdefault(int(problem.path[0]), []).append(problem)

    def problems_at(self, at: int, *rules: str) -> list[Problem]:
        """Return the problems of message number `at`, of the given `rules` or of all."""
        return [problem for problem in self._found.get(at, ()) if not rules or problem.rule in rules]

    def nearest_problem(self, at: int) -> Problem:
        """Return the first problem of the nearest message: the last with problems up to `at`, or else the first."""
        return self._found[max((one for one in self._found if one <= at), default=min(self._found))][0]

    def add(self, problem: Problem, what: str) -> None:
        """Record the repair of a problem."""
        self.repairs.append(Repair(problem, what))


# Messages, whether they are mappings, SDK objects or anything else


@dataclass(frozen=True, slots=True)
class BlockMessage:
    """A message whose content is a text or a list of blocks. A value that is not a message has no fields."""

    fields: Mapping[str, object]
    role: str | None
    content: object
    blocks: Sequence[Mapping[str, object]]


NOBODY = BlockMessage({}, None, None, ())  # the neighbor of the first and the last message


def read_turn(message: object, name: str = "content") -> BlockMessage:
    """Parse a message into a turn, with its content from the field `name`."""
    own = fields_of(message)
    content = own.get(name)
    return BlockMessage(own, string_of(own.get("role")), content, [fields_of(block) for block in items_of(content)])


def with_neighbors(turns: Sequence[BlockMessage]) -> Iterator[tuple[int, BlockMessage, BlockMessage, BlockMessage]]:
    """Yield each message's index, the message before it, the message itself, and the message after it."""
    return zip(range(len(turns)), (NOBODY, *turns), turns, (*turns[1:], NOBODY), strict=False)


def string_of(value: object) -> str | None:
    """Return a string, or the string value of an enum member; None for anything else."""
    plain = value.value if isinstance(value, Enum) else value
    return plain if isinstance(plain, str) else None


def id_keys(call_id: object) -> tuple[Hashable, ...]:
    """Return the id of a call or a result as its only key; () without an id."""
    plain = string_of(call_id)
    return () if plain is None else (plain,)


def is_blank(value: object) -> bool:
    """Return whether a value is an empty string or only white space."""
    return isinstance(value, str) and not value.strip()


def is_bare(content: object) -> bool:
    """Return whether a content is absent, an empty string or an empty list."""
    return content is None or (isinstance(content, str | list | tuple) and not content)


def is_empty_text(value: object) -> bool:
    """Return whether a value is an empty string."""
    return isinstance(value, str) and not value


def find_first(blocks: Iterable[Mapping[str, object]], names: Sequence[str]) -> Iterator[tuple[int, str, object]]:
    """Yield each block's index with the name and value of its first field in `names`. Skip blocks without one."""
    for at, block in enumerate(blocks):
        for name in names:
            if block.get(name) is not None:
                yield at, name, block[name]
                break


def with_blocks(message: object, name: str, blocks: Sequence[object]) -> object:
    """Copy a message with other blocks. In an SDK's object, mappings are converted to the SDK's blocks."""
    changed: Any = with_item(message, name, list(blocks))
    # The messages of most SDKs are pydantic models, whose copies do not convert new blocks.
    validator = getattr(type(changed), "__pydantic_validator__", None)
    if validator is None or not any(isinstance(block, Mapping) for block in blocks):
        return changed
    try:
        validator.validate_assignment(changed, name, list(blocks))
    except ValueError:
        # The SDK does not know a block of this type: leave it a mapping.
        return with_item(message, name, list(blocks))
    return changed


def without_field(message: object, name: str) -> object:
    """Copy a message without a field."""
    if isinstance(message, Mapping):
        return {key: value for key, value in message.items() if key != name}
    changed = with_item(message, name, None)
    set_fields = getattr(changed, "__pydantic_fields_set__", None)
    if isinstance(set_fields, set):
        # Pydantic sends only the fields in this set.
        set_fields.discard(name)
    else:
        changed = copy.copy(changed)
    return changed


# Calls and results

# Descriptions by the value of `open_calls`; {} is the number of calls.
DONE = {
    "answer": "answered {} of the calls with a placeholder",
    "keep": "",
    "remove": "removed {} of the calls",
}
# Rules about results that are not in their place after their call.
ASTRAY = ("orphan_result", "duplicate_result", "missing_call_id", "results_not_first", "result_names")


class Event(NamedTuple):
    """A call or a result at its place in the conversation.

    A result answers a call by the first of its `keys`, best first, that the call also has. A call that is not open
    already has its result; such a call only prevents that a later result answers an earlier call with the same keys.
    By its `nearby` keys, a result can answer only a call of the message directly before it.
    """

    place: Place
    is_call: bool
    keys: tuple[Hashable, ...]
    is_open: bool = True
    nearby: tuple[Hashable, ...] = ()


def pair_results(events: Sequence[Event]) -> dict[Place, Place]:
    """Find the call that each result answers. A later call replaces earlier ones with the same keys."""
    pairs = _pair_forward(events)
    pairs |= _pair_nearby(events, pairs)
    answered = set(pairs.values())
    calls, results = _group_by_best_key(events, is_call=True), _group_by_best_key(events, is_call=False)
    for key, strays in results.items():
        waiting = calls.get(key, [])
        # With two of either, the match would be ambiguous.
        if len(strays) == len(waiting) == 1:
            (result,), (call,) = strays, waiting
            if result.place not in pairs and call.is_open and call.place not in answered:
                pairs[result.place] = call.place
    return dict(sorted(pairs.items()))


def _group_by_best_key(events: Iterable[Event], *, is_call: bool) -> dict[Hashable, list[Event]]:
    groups: dict[Hashable, list[Event]] = {}
    for event in events:
        if event.is_call == is_call and event.keys:
            groups.setdefault(event.keys[0], []).append(event)
    return groups


def _pair_forward(events: Iterable[Event]) -> dict[Place, Place]:
    """Find the pairs in which the result comes after its call."""
    waiting: dict[Hashable, deque[Place]] = {}
    message: dict[Hashable, int] = {}
    answered: set[Place] = set()
    pairs: dict[Place, Place] = {}
    for event in sorted(events, key=_sort_key):
        for key in event.keys:
            if event.is_call:
                # A later message that reuses an id starts over; calls of one message may share a name.
                if message.get(key) != event.place[0]:
                    waiting[key], message[key] = deque(), event.place[0]
                if event.is_open:
                    waiting[key].append(event.place)
            elif call := _next_open(waiting.get(key), answered):
                answered.add(call)
                pairs[event.place] = call
                break
    return pairs


def _sort_key(event: Event) -> tuple[int, bool, int]:
    """Return a key that sorts by message and, within a message, calls first, then the results with the most keys."""
    return event.place[0], not event.is_call, 0 if event.is_call else -len(event.keys)


def _pair_nearby(events: Iterable[Event], found: Mapping[Place, Place]) -> dict[Place, Place]:
    """Pair the remaining results with calls of the message directly before them, by their `nearby` keys."""
    answered = set(found.values())
    waiting: dict[Hashable, deque[Place]] = {}
    pairs: dict[Place, Place] = {}
    for event in events:
        for key in event.keys if event.is_call and event.is_open and event.place not in answered else ():
            waiting.setdefault((event.place[0], key), deque()).append(event.place)
        for key in event.nearby if event.place not in found else ():
            if call := _next_open(waiting.get((event.place[0] - 1, key)), answered):
                answered.add(call)
                pairs[event.place] = call
                break
    return pairs


def _next_open(calls: deque[Place] | None, answered: set[Place]) -> Place | None:
    """Pop the first unanswered call, and drop the calls before it, which were answered under another key."""
    while calls:
        call = calls.popleft()
        if call not in answered:
            return call
    return None


def place_results(
    events: Sequence[Event],
    log: Log,
    open_calls: OpenCalls,
    result: Callable[[Place, Place], tuple[object, str | None]],
    no_result: Callable[[Place], object],
) -> tuple[dict[int, list[object]], list[Place]]:
    """Pair the results with the open calls, and log the repairs.

    `result` returns the result at one place for the call at another, and the name of the call if the result had a wrong
    one. `no_result` creates a placeholder for the result of a call.

    Return the results by the message of their call, in order, followed by the placeholders; and the calls to remove.
    """
    pairs = pair_results(events)
    answered = set(pairs.values())
    calls = [event.place for event in events if event.is_call and event.is_open and event.keys]
    unanswered = [call for call in calls if call not in answered]
    placed: dict[int, list[object]] = {at: [] for at, _ in calls}
    names: dict[Place, str] = {}
    for place, call in pairs.items():
        found, name = result(place, call)
        placed[call[0]].append(found)
        names |= {} if name is None else {place: name}
    for call in unanswered if open_calls.become == "answer" else ():
        placed[call[0]].append(no_result(call))
    _log_calls(log, placed, pairs, Counter(at for at, _ in unanswered), open_calls.become)
    _log_results(log, [event.place for event in events if not event.is_call], pairs, names)
    return placed, unanswered if open_calls.become == "remove" else []


def _log_calls(
    log: Log, callers: Iterable[int], pairs: Mapping[Place, Place], unanswered: Mapping[int, int], become: str
) -> None:
    """Record the repairs of the messages with open calls, given the number of `unanswered` calls of each."""
    moved = {call[0] for result, call in pairs.items() if log.problems_at(result[0], *ASTRAY)}
    for at in sorted(callers):
        what = DONE[become].format(unanswered[at]) if unanswered[at] else ""
        problems = log.problems_at(at, "unanswered_call") or ([log.nearest_problem(at + 1)] if what else [])
        for problem in problems if what or at in moved else ():
            log.add(problem, what or "moved the results behind the calls")


def _log_results(log: Log, results: Iterable[Place], pairs: Mapping[Place, Place], names: Mapping[Place, str]) -> None:
    """Record the repairs of `results`. Those in `names` got the name of their call."""
    for place in results:
        at, block = place
        what = "moved it directly behind its call" if place in pairs else "removed the result"
        if place in names:
            is_moved = pairs[place][0] != at - 1
            what = f"gave it the name of its call, {names[place]!r}" + (", and moved it there" if is_moved else "")
        problems = [problem for problem in log.problems_at(at, *ASTRAY) if _block_of(problem) == block]
        for problem in problems:
            log.add(problem, what)
        if not problems and place not in pairs:
            log.add(log.nearest_problem(at), f"removed the result in block {block} of message {at}")


def _block_of(problem: Problem) -> int:
    return int(problem.path[2]) if len(problem.path) > 2 else 0

"""The settings of each request of a conversation, and which conversation a request continues. Decides nothing.

A prune repeats the decisions of earlier prunes. If the safe zone was 50,000 tokens when a result was cleared and is
60,000 now, a plan made with 60,000 from the start would not clear it, and the result would come back. So whoever knows
a conversation keeps the settings of its requests, and the walk plans each request with the settings that applied to it:

    request with    safe zone    history afterwards
    1 message       50,000       {0: {"safe_zone": 50_000, …}, 1: {}}
    57 messages     50,000       {0: {"safe_zone": 50_000, …}, 1: {}, 57: {}}
    59 messages     60,000       {0: {"safe_zone": 50_000, …}, 1: {}, 59: {"safe_zone": 60_000}}
    59, repeated    70,000       the same, so that the same results are cleared
    61 messages     70,000       {0: {…}, 1: {}, 59: {"safe_zone": 60_000}, 61: {"safe_zone": 70_000}}

The settings at 0 are complete, later ones are changes. The last key is the newest request, even if nothing changed
there, so that a repeated request is recognized. A request to another model or with other tokens beside its messages is
no repetition, and has its own settings. The first key after 0 is the first request that was pruned, which may be in the
middle of a conversation: what the provider has cached of earlier requests was not pruned.

A conversation is identified by its first messages, up to the model's first one. Once the model has spoken, its first
message is part of the identity, so that two sessions that begin with the same prompt differ from the second request on.
Cache marks do not count, because clients move them, and neither does the difference between a string and a text block,
which a mark makes necessary. Times of day in system messages do not count either, since some clients write the time
into them at each request.

    request 1   [user]                          known as  user
    request 2   [user, answer, result]          user → user + answer: the same conversation

A conversation may branch: agents with different tools continue it in parallel, or another model gets a request that the
first one did not answer. Each branch has its own history:

    59 messages, 9,000 tokens beside them       a branch
    59 messages, 2,000 tokens beside them       another one, with a copy of the settings before 59
    61 messages, 9,000 tokens beside them       the first one
    61 messages, 2,000 tokens beside them       the second one
    63 messages that follow these 61, 5,000     the second one: its tools have changed
"""

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from hashlib import blake2b
from typing import Any, Generic, TypeAlias, TypeVar

import autoprune.wire as wire
from autoprune.conversation.messages import fields_of, without_marks
from autoprune.conversation.summary import SYSTEM_ROLES
from autoprune.errors import SettingsError, is_number, near_or_all
from autoprune.pruners.memory import Guarded

# Settings by the number of messages of the first request that they apply to. The names are those of
# `settings.SETTINGS`, and "calibration".
History: TypeAlias = Mapping[int, Mapping[str, Any]]
CHANGEABLE = (
    "safe_zone",
    "calibration",
    "model",
    "cache_ttl",
    "overhead_tokens",
    "window",
    "thinking_policy",
    "compact_at",
)
AGENT = ("model", "overhead_tokens")  # settings that tell apart the agents that continue a conversation
FRAMEWORK_KINDS = ("ai", "response")  # of messages of LangChain and Pydantic AI that the model wrote
LONGEST_PREFIX = 100  # messages that identify a conversation
MOST_BRANCHES = 64  # of a conversation: with a fixed greeting, those of all users are branches of one
LAST = 2  # messages that identify a request of a conversation: a call and its result
DIGEST_BYTES = 8
KEY = re.compile(r"[0-9]{1,9}")  # a number of messages as a key in JSON
TIME = re.compile(r"\d+(?::\d\d)+(?:\.\d+)?|\d{10,}")  # of a clock, or in seconds since the epoch

Agent: TypeAlias = tuple[Any, ...]  # the values of AGENT
Value = TypeVar("Value")


# Settings


def check_history(history: object) -> History:
    """Check the settings of later requests and return them, also if JSON has made texts of the numbers of messages.

    Raises SettingsError for an unknown form or setting.
    """
    if isinstance(history, Mapping):
        history = {int(at) if isinstance(at, str) and KEY.fullmatch(at) else at: each for at, each in history.items()}
    if not isinstance(history, Mapping) or not all(map(is_number, history)):
        raise SettingsError(
            f"history is {history!r}: give changed settings by the number of messages of the first request that they "
            'apply to, such as {57: {"safe_zone": "80k", "calibration": 1.2}}'
        )
    for at, changes in history.items():
        if not isinstance(changes, Mapping):
            raise SettingsError(
                f'history at {at} is {changes!r}: give a mapping of settings, such as {{"model": "gpt-5"}}'
            )
        if unknown := [name for name in changes if name not in CHANGEABLE]:
            near = near_or_all(str(unknown[0]), CHANGEABLE)
            raise SettingsError(f"history at {at}: no setting {unknown[0]!r} changes{near}")
    return history


def with_request(history: History, now: Mapping[str, Any], messages: int) -> dict[int, dict[str, Any]]:
    """Return a history with a request of this many messages, to which the settings `now` apply.

    A repeated request keeps the settings that applied, unless its safe zone has become smaller, or its model or the
    tokens beside its messages have changed. Requests with more messages are left out, since the conversation was cut.
    Raises SettingsError for a history that cannot be used.
    """
    known = check_history(history)
    state = {**now, **known.get(0, {})}
    if agent_of(state) != agent_of(now) and not any(0 < at < messages for at in known):
        known, state = {}, dict(now)  # the agent's first request: no earlier one was pruned
    states = {0: state}
    for at in sorted(at for at in known if 0 < at <= messages):
        states[at] = state = {**state, **known[at]}
    is_repeated = bool(known) and messages <= max(known) and agent_of(state) == agent_of(now)
    first = min((at for at in states if at), default=messages)
    states[messages] = state if is_repeated and now["safe_zone"] >= state["safe_zone"] else dict(now)
    found: dict[int, dict[str, Any]] = {}
    before: Mapping[str, Any] = {}
    for at, state in states.items():
        changes = {name: value for name, value in state.items() if name not in before or before[name] != value}
        if changes or at in (first, messages):
            found[at] = changes
        before = state
    return found


def agent_of(settings: Mapping[str, Any]) -> Agent:
    """Return the settings that tell apart the agents that continue a conversation."""
    return tuple(map(settings.get, AGENT))


# Conversations


@dataclass
class Branch:
    """A branch of a conversation: the settings of its requests, and a digest of the newest one's last messages."""

    history: History = field(default_factory=dict)
    end: str = ""

    @property
    def newest(self) -> int:
        """The number of messages of the newest request."""
        return max(self.history, default=0)

    @property
    def agent(self) -> Agent:
        """The agent that sent the newest request."""
        # The history is read once, since another thread may replace it.
        return agent_of({name: value for _, each in sorted(self.history.items()) for name, value in each.items()})


class Branches(Guarded):
    """The most recently used branches of a conversation. Thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self._known: list[Branch] = []

    def find(self, messages: Sequence[object], agent: Callable[[], Agent]) -> Branch:
        """Find the branch that a request continues or repeats, or begin one. The caller sets its new history.

        `agent` returns the request's agent; it is called only if the messages leave several possibilities. Raises
        RecursionError if messages are nested too deeply.
        """
        end = end_digest(messages, len(messages))
        with self._lock:
            known = [each for each in self._known if each.history]  # of the others, the first request is being pruned
            found = _choose(known, messages, agent) if known else Branch()
            self._known = [*(each for each in self._known if each is not found), found][-MOST_BRANCHES:]
            found.end = end
        return found


class Recent(Guarded, Generic[Value]):
    """The values of the most recently used conversations. Thread-safe."""

    def __init__(self, most: int, make: Callable[[str], Value]) -> None:
        """Remember up to `most` conversations. `make` creates the value of a new one from its digest."""
        super().__init__()
        self._most = most
        self._make = make
        self._known: OrderedDict[str, Value] = OrderedDict()

    def __iter__(self) -> Iterator[Value]:
        """Iterate over the values, the most recently used last."""
        return iter([*self._known.values()])

    def match(self, scope: str, digests: tuple[str, str]) -> Value:
        """Find the conversation with these `prefix_digests` in a scope, or start a new one."""
        start, head = (f"{scope}/{digest}" for digest in digests)
        with self._lock:
            key = head if head in self._known else start
            self._known[head] = found = self._known.pop(key) if key in self._known else self._make(head)
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return found


def prefix_digests(messages: Sequence[object]) -> tuple[str, str]:
    """Compute digests of the messages before the model's first message, and of those up to and including it."""
    head = messages[:LONGEST_PREFIX]
    first = next((at for at, message in enumerate(head) if is_from_model(message)), len(head))
    return _digest(head[:first]), _digest(head[: first + 1])


def _choose(known: Sequence[Branch], messages: Sequence[object], agent: Callable[[], Agent]) -> Branch:
    """Return the branch that a request continues or repeats: of those that share most with it, the agent's.

    If another agent has sent as many messages in all of them, begin a branch with the settings before these.
    """
    if len(known) == 1 and len(messages) > known[0].newest:
        return known[0]
    own, digest_at = agent(), cache(partial(end_digest, messages))

    def likeness(each: Branch) -> tuple[int, bool]:
        is_shared = each.newest <= len(messages) and digest_at(each.newest) == each.end
        return each.newest if is_shared else 0, each.agent == own

    usable = [each for each in known if len(messages) > each.newest or each.agent == own]
    likest = max(reversed(usable or known), key=likeness)
    return likest if usable else Branch(likest.history)


def end_digest(messages: Sequence[object], end: int) -> str:
    """Compute a digest of the last messages of a conversation up to `end`."""
    return _digest(messages[max(0, end - LAST) : end])


def _is_system(message: object) -> bool:
    """Return whether a message is the system's, also one of a framework's."""
    known = fields_of(message)
    return (known.get("role") or known.get("type")) in SYSTEM_ROLES


def is_from_model(message: object) -> bool:
    """Return whether the model wrote a message, also one of a framework's."""
    known = fields_of(message)
    return wire.is_from_model(known) or (known.get("type") or known.get("kind")) in FRAMEWORK_KINDS


def _digest(messages: Sequence[object]) -> str:
    """Compute a digest that ignores cache marks, and times of day in system messages.

    Raises RecursionError if messages are nested too deeply.
    """
    texts = [json.dumps(without_marks(message), sort_keys=True, default=_as_json) for message in messages]
    known = (TIME.sub("", text) if _is_system(each) else text for each, text in zip(messages, texts, strict=True))
    text = f"[{', '.join(known)}]"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()


def _as_json(value: object) -> object:
    """Convert an SDK's object to a mapping, and anything else to a text. Equal if it was stored as JSON in between."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")  # as pydantic writes it
    # An object that was loaded has all fields; before, those that were not set may be missing.
    known = fields_of(value)
    return {name: each for name, each in known.items() if each} if known else str(value)

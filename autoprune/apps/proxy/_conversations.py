"""What a proxy knows of conversations from their requests before, and which one a request goes on with.

How it works. A conversation is known by how it begins: by its messages up to the first of the model's. Before the model
has spoken it is known by the user's alone, and once it has, it takes that answer into its name; so two sessions that
begin with the same words are two from their second request on. Cache marks, which clients move, do not count, nor
whether a text is a block, which it must be to be marked.

    request 1   [user]                          known as  user
    request 2   [user, answer, result]          user → user + answer: the same conversation
"""

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count

from autoprune.apps.proxy._caches import Cache
from autoprune.conversation.messages import without_marks
from autoprune.errors import SettingsError
from autoprune.tokens import calibration

STEADY = 0.15  # a calibration changes what is cleared, so it stays until it is off by as much
LEAST_MEASURED = 10_000  # tokens: in smaller prompts the schemas of tools weigh most, which providers count otherwise
STEPS = 20  # of a calibration: it is a multiple of a twentieth
MODEL_ROLES = ("assistant", "model")
MODEL_ITEMS = ("reasoning", "function_call", "custom_tool_call", "local_shell_call", "compaction")
LONGEST_HEAD = 100  # messages
DIGEST_BYTES = 8


@dataclass
class Conversation:
    """What is known of a conversation from earlier requests: pauses, the cache, when the last came, the calibration."""

    name: str
    pauses: dict[int, float] = field(default_factory=dict)
    asked: float | None = None
    calibration: float = 1.0
    cache: Cache = field(default_factory=Cache)
    counted: int = 0
    cleared: set[str] = field(default_factory=set)

    def waited(self, messages: int, at: float, *, counts_only: bool = False) -> float:
        """Note a request with so many messages, and return the seconds since the one before, whose prompt is cached.

        A request that is sent again keeps its pause unless the cache went cold since, so that its memo holds and the
        same is sent. One that only counts tokens notes the pause for the request that follows, and is no request.
        """
        pause = 0.0 if self.asked is None else max(0.0, at - self.asked)
        if counts_only:
            if messages > max(self.pauses, default=0):
                self.pauses[messages] = pause
            return 0.0
        known = self.pauses.get(messages)
        self.pauses = {before: pause for before, pause in self.pauses.items() if before <= messages}
        if known is None or known <= self.cache.life < pause:
            self.pauses[messages] = pause
        self.asked = at
        return self.pauses[messages]

    def is_cold(self, at: float) -> bool:
        """Return whether nothing of the conversation is cached any more."""
        return self.asked is None or at - self.asked > self.cache.life

    def answered(self, usage: object) -> None:
        """Note what an answer says of the cache, and of the size of the prompt."""
        self.cache.answered(usage)
        if self.counted < LEAST_MEASURED:
            return
        try:
            measured = calibration(usage, self.counted)
        except SettingsError:
            return
        if abs(measured / self.calibration - 1) > STEADY:
            self.calibration = max(1, round(measured * STEPS)) / STEPS


class Conversations:
    """The conversations that were asked for last, up to so many."""

    def __init__(self, most: int) -> None:
        """Begin with none."""
        self._most = most
        self._known: OrderedDict[str, Conversation] = OrderedDict()
        self._numbers = count(1)

    def of(self, session: str, messages: Sequence[object]) -> Conversation:
        """Return the conversation that messages go on with; a new one where they begin as none does."""
        start, head = (f"{session}/{mark}" for mark in heads(messages))
        found = self._known.pop(head, None) or self._known.pop(start, None)
        self._known[head] = found = found or Conversation(f"{head}/{next(self._numbers)}")
        while len(self._known) > self._most:
            self._known.popitem(last=False)
        return found

    def named(self, name: str) -> Conversation | None:
        """Return a conversation by its name, if it is still known."""
        return next((each for each in self._known.values() if each.name == name), None)


def heads(messages: Sequence[object]) -> tuple[str, str]:
    """Return digests of the messages before the model's first, and up to it; of so many at most."""
    head = messages[:LONGEST_HEAD]
    first = next((at for at, message in enumerate(head) if is_of_model(message)), len(head))
    return digest(head[:first]), digest(head[: first + 1])


def is_of_model(message: object) -> bool:
    """Return whether a message, or an item of the Responses API, is the model's."""
    if not isinstance(message, Mapping):
        return False
    return message.get("role") in MODEL_ROLES or message.get("type") in MODEL_ITEMS


def digest(messages: Sequence[object]) -> str:
    """Return a digest of messages without their marks for the cache. Raises RecursionError if they nest too deeply."""
    text = json.dumps([*map(without_marks, messages)], sort_keys=True, default=str)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()

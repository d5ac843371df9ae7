"""Strands' sliding window: at the end of an invocation, drop all but the newest messages."""

from collections.abc import Iterator, Sequence

from autoprune.apps.policies import Changes, RequestView
from autoprune.conversation.transcript import Part

from prunebench.policies._chat import Chat, ChatMessage
from prunebench.policies._published import Published

PRESERVED = 200  # characters, at each end of a result that is cut
MARKER = "... [truncated:"
CUT = "{head}...\n\n... [truncated: {removed} chars removed] ...\n\n...{tail}"
FEWEST_DROPPED = 2  # messages, if the prompt overflows although the messages fit into the window

# A Strands message: an answer of the model, all results of its calls, or a prompt of the user.
Message = Sequence[ChatMessage]


class StrandsSlidingWindow:
    """Keep the newest `window_size` messages, from a place where a conversation can begin.

    The window moves when the user writes again, or before every request (`per_turn`), or before every so many requests.
    If a prompt exceeds the context window of the model, results are cut too, the oldest first.
    """

    def __init__(
        self, window_size: int = 40, should_truncate_results: bool = True, per_turn: bool | int = False
    ) -> None:
        """Set the options of `SlidingWindowConversationManager`."""
        self._window_size = window_size
        self._should_truncate_results = should_truncate_results
        self._per_turn = int(per_turn)
        self._chat = Chat()
        self._start = 0  # the first message that is kept
        self._known = 0  # messages at the previous request
        self._texts: dict[Part, str] = {}

    def changes(self, request: RequestView) -> Changes:
        """Drop what was dropped before, and what must be dropped now."""
        messages = list(_strands_messages(self._chat.before(request)))
        for at in range(self._known, len(messages)):
            # Several messages of the user in a row are the input of one invocation.
            if _is_prompt(messages[at]) and not (at and _is_prompt(messages[at - 1])):
                self._slide(messages[:at])
        self._known = len(messages)
        if self._per_turn and (request.number + 1) % self._per_turn == 0:
            self._slide(messages)
        while self._prompt_size(request, messages) > request.window and self._recover(messages):
            pass
        dropped = frozenset(at for message in messages[: self._start] for each in message for at in each.at)
        return Changes(
            {part: text for part, text in self._texts.items() if part.location.message not in dropped}, dropped
        )

    def _slide(self, messages: Sequence[Message]) -> None:
        if len(messages) - self._start > self._window_size:
            self._trim(messages)

    def _trim(self, messages: Sequence[Message]) -> bool:
        """Drop the oldest messages; return whether the rest can begin anywhere."""
        surplus = len(messages) - self._start - self._window_size
        first = self._start + (surplus if surplus > 0 else FEWEST_DROPPED)
        starts = [at for at in range(first, len(messages)) if _is_prompt(messages[at])]
        # In a long task, an answer with calls is the next best beginning.
        starts += [at for at in range(first, len(messages) - 1) if _has_results(messages[at + 1])]
        if starts:
            self._start = starts[0]
        return bool(starts)

    def _recover(self, messages: Sequence[Message]) -> bool:
        """Make an overflowing prompt smaller; return whether that was possible."""
        with_results = next((message for message in messages[self._start :] if _has_results(message)), ())
        cuts: dict[Part, str] = {
            each.result: _cut(text)
            for each in with_results
            if each.result
            and MARKER not in (text := self._texts.get(each.result, each.result.text))
            and len(text) > 2 * PRESERVED
        }
        if cuts and self._should_truncate_results:
            self._texts |= cuts
            return True
        return self._trim(messages)

    def _prompt_size(self, request: RequestView, messages: Sequence[Message]) -> int:
        dropped = {at for message in messages[: self._start] for each in message for at in each.at}
        kept = sum(entry.tokens for at, entry in enumerate(request.entries) if at not in dropped)
        cut = [(part, text) for part, text in self._texts.items() if part.location.message not in dropped]
        return request.head + kept - sum(part.tokens - part.count(text) for part, text in cut)


def _strands_messages(chat: Sequence[ChatMessage]) -> Iterator[Message]:
    """Join the results of an answer's calls, and a text recorded in the same message as a result, to one message."""
    joined: list[ChatMessage] = []
    for message in chat:
        if message.role == "system":
            continue
        belongs = message.result or (joined and message.at == joined[-1].at)
        if joined and not (belongs and _has_results(joined)):
            yield joined
            joined = []
        joined.append(message)
    if joined:
        yield joined


def _has_results(message: Message) -> bool:
    return any(each.result for each in message)


def _is_prompt(message: Message) -> bool:
    return message[0].role != "assistant" and not _has_results(message)


def _cut(text: str) -> str:
    return CUT.format(head=text[:PRESERVED], removed=len(text) - 2 * PRESERVED, tail=text[-PRESERVED:])


PUBLISHED = (
    Published(
        name="strands_sliding_window",
        new=StrandsSlidingWindow,
        tool="Strands Agents",
        source=(
            "github.com/strands-agents/harness-sdk, src/strands/agent/conversation_manager/"
            "sliding_window_conversation_manager.py, strands-agents 1.62.0 (2026-10-21)"
        ),
        decides=(
            "When the agent has answered the user, all messages but the newest 40 are dropped, and those up to the "
            "next prompt of the user, or if there is none, up to the next answer with calls. A prompt that overflows "
            "the model's context window is made smaller: the oldest results are cut to their first and last 200 "
            "characters, then messages go."
        ),
        defaults="window_size 40, should_truncate_results true, per_turn false (true: before every request)",
        left_out="Pinned messages, proactive_compression (off by default), window_size 0, and images in results.",
        idle="While the agent works on one prompt, however long, unless the prompt overflows the context window.",
        checked="strands-agents 1.62.0",
    ),
)

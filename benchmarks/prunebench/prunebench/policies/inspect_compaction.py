"""Inspect's compaction by trimming and by editing: near the end of the context window, drop old messages or results."""

from collections.abc import Collection, Sequence

from autoprune.apps.policies import Changes, RequestView
from autoprune.conversation.transcript import Part

from prunebench.policies._chat import Chat, ChatMessage
from prunebench.policies._published import Published

THRESHOLD = 0.9  # of the context window
MOST_PASSES = 4
PLACEHOLDER = "(Tool result removed)"
TOOL_SEARCH = "tool_search"  # its results are definitions of tools, and are never cleared

Kept = list[int]  # the messages that are kept, by index
Texts = dict[Part, str]


class InspectCompaction:
    """Compact the messages when the prompt exceeds `threshold`: tokens, or up to 1.0 a share of the context window.

    Compacted messages stay compacted. If they are still too large after some passes, nothing is changed.
    """

    def __init__(self, threshold: float = THRESHOLD) -> None:
        """Start with an empty conversation."""
        self._threshold = threshold
        self._chat = Chat()
        self._weights: list[int] = []
        self._kept: Kept = []
        self._texts: Texts = {}
        self._known = 0  # messages at the previous request

    def compacted(self, chat: Sequence[ChatMessage], kept: Kept, texts: Texts) -> tuple[Kept, Texts]:
        """Return the messages and the texts that a pass keeps."""
        raise NotImplementedError

    def changes(self, request: RequestView) -> Changes:
        """Send the compacted messages and the new ones, compacted once more if they are too large."""
        chat = self._chat.before(request)
        self._weights = _weights(chat, request)
        new = list(range(self._known, len(chat)))
        self._kept += new
        self._known = len(chat)
        is_share = isinstance(self._threshold, float) and self._threshold <= 1
        threshold = int(self._threshold * request.window if is_share else self._threshold)
        before = request.last_prompt or request.head
        if before + sum(self._weights[at] for at in new) > threshold:
            self._try_to_compact(chat, threshold - request.head)
        return _as_changes(chat, self._kept, self._texts)

    def _try_to_compact(self, chat: Sequence[ChatMessage], room: int) -> None:
        kept, texts, tokens = self._kept, self._texts, 0
        for number in range(MOST_PASSES):
            before = tokens
            kept, texts = self.compacted(chat, kept, texts)
            tokens = self._tokens_of_chat(chat, kept, texts)
            if tokens <= room:
                self._kept, self._texts = kept, texts
                return
            if number and tokens >= before:
                return

    def _tokens_of_chat(self, chat: Sequence[ChatMessage], kept: Kept, texts: Texts) -> int:
        results = [result for at in kept if (result := chat[at].result) in texts and result]
        saved = sum(result.tokens - result.count(texts[result]) for result in results)
        return sum(self._weights[at] for at in kept) - saved


class InspectTrim(InspectCompaction):
    """Keep the system prompt, the task, and a share of the newest other messages."""

    def __init__(self, threshold: float = THRESHOLD, preserve: float = 0.8) -> None:
        """Set the options of `CompactionTrim`."""
        super().__init__(threshold)
        self._preserve = preserve

    def compacted(self, chat: Sequence[ChatMessage], kept: Kept, texts: Texts) -> tuple[Kept, Texts]:
        """Drop the oldest messages after the task, and results without their calls."""
        start = _after_task(chat)
        conversation = [at for at in kept if at >= start and chat[at].role != "system"]
        dropped = set(conversation[: int(len(conversation) * (1 - self._preserve))])
        asker: ChatMessage | None = None
        for at in conversation:
            if at in dropped:
                continue
            if chat[at].role != "tool":
                asker = chat[at] if chat[at].role == "assistant" else None
            elif not _asked(asker, chat[at]):
                dropped.add(at)
        newest = next((at for at in reversed(conversation) if at not in dropped), 0)
        if chat[newest].role == "assistant" and newest in conversation:
            dropped.add(newest)  # a prompt does not end with an answer
        return [at for at in kept if at not in dropped], texts


class InspectEdit(InspectCompaction):
    """Replace the results of all calls but the newest `keep_tool_uses`."""

    def __init__(
        self, threshold: float = THRESHOLD, keep_tool_uses: int = 3, exclude_tools: Collection[str] = ()
    ) -> None:
        """Set the options of `CompactionEdit`."""
        super().__init__(threshold)
        self._keep_tool_uses = keep_tool_uses
        self._exclude_tools = frozenset((*exclude_tools, TOOL_SEARCH))

    def compacted(self, chat: Sequence[ChatMessage], kept: Kept, texts: Texts) -> tuple[Kept, Texts]:
        """Replace the old results, of calls in the order in which they were made."""
        places = {call.location: place for place, call in enumerate(call for message in chat for call in message.calls)}
        results = [result for at in kept if (result := chat[at].result) and result.tool not in self._exclude_tools]
        results.sort(key=lambda result: (result.request, places.get(result.call.location, 0) if result.call else 0))
        old = results[: max(len(results) - self._keep_tool_uses, 0)]
        return kept, {**texts, **dict.fromkeys(old, PLACEHOLDER)}


def _after_task(chat: Sequence[ChatMessage]) -> int:
    """Return the index after the task: the first answer, or what follows the first prompt if an answer precedes it."""
    roles = [message.role for message in chat if message.role != "system"]
    wanted = "user" if roles[:1] == ["assistant"] else "assistant"
    first = next((at for at, message in enumerate(chat) if message.role == wanted), len(chat))
    return first + (wanted == "user")


def _asked(asker: ChatMessage | None, message: ChatMessage) -> bool:
    call = message.result and message.result.call
    if asker is None or call is None or call.location.start is not None:
        return asker is not None
    return any(call.location == each.location for each in asker.calls)


def _weights(chat: Sequence[ChatMessage], request: RequestView) -> list[int]:
    """Return the tokens of each message; of several in one recorded message, the first has its overhead too."""
    weights: list[int] = []
    counted: set[int] = set()
    for message in chat:
        entries = [request.entries[at] for at in message.at if at not in counted]
        counted.update(message.at)
        overhead = sum(entry.tokens - sum(result.tokens for result in entry.results) for entry in entries)
        weights.append(overhead + (message.result.tokens if message.result else 0))
    return weights


def _as_changes(chat: Sequence[ChatMessage], kept: Kept, texts: Texts) -> Changes:
    """Drop recorded messages of which anything is dropped; a text of the user that was beside it is sent alone."""
    held = set(kept)
    dropped = {at for index, message in enumerate(chat) if index not in held for at in message.at}
    added = {chat[index].at[0]: chat[index].text for index in kept if chat[index].at[0] in dropped}
    sent = {part: text for part, text in texts.items() if part.location.message not in dropped}
    return Changes(sent, dropped, added)


_SOURCE = (
    "github.com/UKGovernmentBEIS/inspect_ai, src/inspect_ai/model/_compaction/{file}, inspect-ai 0.3.285 (2026-10-25)"
)
_IDLE = "Up to 90 % of the context window, as in most sessions; agents compact only if they are given a strategy."
PUBLISHED = (
    Published(
        name="inspect_trim",
        new=InspectTrim,
        tool="Inspect",
        source=_SOURCE.format(file="trim.py and model/_trim.py"),
        decides=(
            "Above 90 % of the context window, the oldest 20 % of the messages after the task are dropped, with "
            "results whose calls are gone. Up to three more passes follow until the prompt fits."
        ),
        defaults="threshold 0.9 of the context window, preserve 0.8",
        left_out="The memory tool's warning; calls that were never answered stay, which Inspect drops.",
        idle=_IDLE,
        checked="inspect-ai 0.3.285",
    ),
    Published(
        name="inspect_edit",
        new=InspectEdit,
        tool="Inspect",
        source=_SOURCE.format(file="edit.py"),
        decides=(
            "Above 90 % of the context window, all tool results but the newest 3 become a placeholder, and stay so. "
            "If the prompt is still too large, Inspect ends the task; here nothing is changed then."
        ),
        defaults="threshold 0.9 of the context window, keep_tool_uses 3, keep_tool_inputs true, exclude_tools none",
        left_out="Thinking, which is cleared before the newest answer; the memory tool; keep_tool_inputs false.",
        idle=_IDLE,
        checked="inspect-ai 0.3.285",
    ),
)

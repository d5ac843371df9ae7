"""Haystack's pruning compactor: near the end of the context window, replace results until much room is free."""

import json
from collections.abc import Sequence

from autoprune.apps.policies import Changes, RequestView
from autoprune.conversation.transcript import Part

from prunebench.policies._chat import Chat, ChatMessage, call_arguments
from prunebench.policies._published import Published

CHARACTERS_PER_TOKEN = 4
PLACEHOLDER = "[Tool result removed to free up context. Call `{tool}` again if you need it.]"


class HaystackPruning:
    """At `compact_at` of the context window, replace the oldest results until `compact_to` of it is reached.

    The results of the newest `min_keep_steps` answers with calls stay, and results of up to `min_tokens`. What is
    replaced stays replaced. A `context_window` of 0 is that of the session's model.
    """

    def __init__(
        self,
        context_window: int = 0,
        compact_at: float = 0.7,
        compact_to: float = 0.4,
        min_keep_steps: int = 1,
        min_tokens: int = 200,
    ) -> None:
        """Set the options of `CompactionHook` and `ToolResultPruningCompactor`."""
        self._window, self._compact_at, self._compact_to = context_window, compact_at, compact_to
        self._min_keep_steps, self._min_tokens = min_keep_steps, min_tokens
        self._chat = Chat()
        self._texts: dict[Part, str] = {}
        self._characters: list[int] = []  # of each message, rendered

    def changes(self, request: RequestView) -> Changes:
        """Replace results if the prompt has grown too large, besides those that were replaced before."""
        chat = self._chat.before(request)
        known = max(len(self._characters) - 1, 0)  # the last known message may have grown since
        self._characters[known:] = [len(_rendered(message, self._texts)) for message in chat[known:]]
        window = self._window or request.window
        estimated = self._estimate(chat, request)
        if estimated >= window * self._compact_at:
            overhead = estimated - self._estimated_tokens()
            self._prune(chat, max(int(window * self._compact_to) - overhead, 0))
        return Changes(dict(self._texts))

    def _estimate(self, chat: Sequence[ChatMessage], request: RequestView) -> int:
        """Estimate the prompt from the last one's tokens and the new messages; at a user's prompt, from characters."""
        answer = max((at for at, message in enumerate(chat) if message.role == "assistant"), default=-1)
        is_new_run = not request.last_prompt or (answer + 1 < len(chat) and chat[answer + 1].role == "user")
        if is_new_run:
            return request.head + self._estimated_tokens()
        answered = sum(request.entries[at].tokens for at in chat[answer].at)
        return request.last_prompt + answered + self._estimated_tokens(answer + 1)

    def _estimated_tokens(self, first: int = 0) -> int:
        lengths = self._characters[first:]
        return int((sum(lengths) + max(len(lengths) - 1, 0)) / CHARACTERS_PER_TOKEN)

    def _prune(self, chat: Sequence[ChatMessage], target: int) -> None:
        tokens = self._estimated_tokens()
        protected = _newest_results(chat, self._min_keep_steps)
        for at, message in enumerate(chat):
            if tokens <= target:
                return
            result = message.result
            before = self._characters[at] // CHARACTERS_PER_TOKEN
            if not result or at in protected or result in self._texts or before <= self._min_tokens:
                continue
            text = PLACEHOLDER.format(tool=result.tool)
            characters = len(_rendered(message, {result: text}))
            if (saved := before - characters // CHARACTERS_PER_TOKEN) > 0:
                self._texts[result] = text
                self._characters[at] = characters
                tokens -= saved


def _rendered(message: ChatMessage, texts: dict[Part, str]) -> str:
    """Return a message as Haystack writes it to count it."""
    if result := message.result:
        mark = " (error)" if result.is_error else ""
        return f"[tool:{result.tool}{mark}] {texts.get(result, result.text)}"
    lines = [f"[{message.role}] {message.text}"] if message.text else []
    for call in message.calls:
        arguments = json.dumps(call_arguments(call) or {}, default=str, sort_keys=True)
        lines.append(f"[{message.role} -> tool_call] {call.name}({arguments})")
    return "\n".join(lines) or f"[{message.role}] <no content>"


def _newest_results(chat: Sequence[ChatMessage], steps: int) -> set[int]:
    """Return the indexes of the results that follow the newest `steps` answers with results."""
    found: list[list[int]] = []
    is_step = False
    for at, message in enumerate(chat):
        if message.role == "assistant":
            found.append([])
            is_step = True
        elif message.result and is_step:
            found[-1].append(at)
        else:
            is_step = False
    return {at for step in [step for step in found if step][-steps:] for at in step}


PUBLISHED = (
    Published(
        name="haystack_pruning",
        new=HaystackPruning,
        tool="Haystack",
        source=(
            "github.com/deepset-ai/haystack, haystack/hooks/compaction/tool_result_pruning.py and hooks.py, "
            "haystack-ai 3.4.0 (2026-10-15): CompactionHook with ToolResultPruningCompactor"
        ),
        decides=(
            "At 70 % of the context window, the oldest tool results become a line that names the tool, until the "
            "prompt is at 40 % of the window. Replaced results stay replaced, so the cache breaks rarely."
        ),
        defaults=(
            "compact_at 0.7, compact_to 0.4, min_keep_steps 1, min_tokens 200; the context window, which has no "
            "default, is that of the session's model"
        ),
        left_out="Tokens of images and files. The tools' schemas are counted as the tokens before the messages.",
        idle="Below 70 % of the context window: in most sessions with a window of 200,000 tokens or more.",
        checked="haystack-ai 3.4.0",
    ),
)

"""Anthropic's rules of thinking: what a signature proves, what it is bound to, and what must stay as it was.

A block carries a fingerprint of its own text and of all that stood before it: system, tools, and the content of the
messages as the model saw them. `cache_control` does not count, nor whether a text is a string or a block. Models that
bind compare all of it; the others compare the block's own text alone. Source: Anthropic's guides "Preserved thinking"
and "Prefix checks on thinking blocks"; that nothing more is compared is a guess.
"""

from dataclasses import dataclass

from strict_provider.anthropic_rules import blocks
from strict_provider.exchange import Json, RefusalError, Request
from strict_provider.seals import digest, opened, plain, seal

BINDING_MODELS = (
    *("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5"),
    *("claude-fable-5-1", "claude-fable-5-2", "claude-mythos-5-1", "claude-mythos-5-2"),
)
BETA = "thinking-binding-controls-2026-08-01"
THINKING = ("thinking", "redacted_thinking")

MODIFIED = (
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
    "These blocks must remain as they were in the original response."
)
BOUND = (
    "The block is bound to a different conversation. Remove the block, or set "
    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)
NEEDS_BETA = f" That setting requires the `{BETA}` value in the `anthropic-beta` header."
OTHER_SYSTEM = " The `system` prompt differs from the one this block was created with."


@dataclass(frozen=True)
class Prefix:
    """Fingerprints of what stands before a place in a conversation."""

    system: str
    tools: str
    content: str

    def then(self, role: str, block: Json) -> "Prefix":
        """The prefix behind a block."""
        return Prefix(self.system, self.tools, digest(self.content, role, plain(block)))


@dataclass(frozen=True)
class Seen:
    """A request as the model sees it: its messages as blocks, and what was dropped to get there."""

    messages: list[Json]
    dropped: list[Json]
    prefix: Prefix


def is_on(body: Json) -> bool:
    """Whether the model thinks: models that bind do unless it is turned off, the others when it is turned on."""
    asked = (body.get("thinking") or {}).get("type")
    return asked != "disabled" if body["model"].startswith(BINDING_MODELS) else asked in ("enabled", "adaptive")


def has_beta(request: Request) -> bool:
    """Whether a request may set what happens to blocks that fail the check."""
    return BETA in request.headers.get("anthropic-beta", "")


def thinking(text: str, prefix: Prefix) -> Json:
    """A thinking block for a place in a conversation."""
    return {"type": "thinking", "thinking": text, "signature": _signature(text, prefix)}


def _signature(text: str, prefix: Prefix) -> str:
    return seal(digest(text), prefix.system, prefix.tools, prefix.content)


def seen(request: Request) -> Seen:
    """The request as the model sees it. Raises RefusalError for a block that fails a check."""
    body = request.body
    drops = _drops(request)
    system = plain(blocks({"content": body.get("system") or []}))
    prefix = Prefix(digest(system), digest(plain(body.get("tools") or [])), "")
    messages: list[Json] = []
    dropped: list[Json] = []
    for index, message in enumerate(body["messages"]):
        kept: list[Json] = []
        for number, block in enumerate(blocks(message)):
            path = f"messages.{index}.content.{number}"
            if block["type"] in THINKING and _fails(block, path, prefix, body["model"]):
                if not drops:
                    raise _bound(path, block, prefix, has_beta(request))
                dropped.append({"type": "thinking_dropped", "path": path, "reason": "prefix_binding_mismatch"})
                continue
            kept.append(block)
            prefix = prefix.then(message["role"], block)
        messages.append({"role": message["role"], "content": kept})
    return Seen(messages, dropped, prefix)


def _drops(request: Request) -> bool:
    """Whether failing blocks are dropped. Raises RefusalError for the setting without its header."""
    setting = request.body.get("thinking") or {}
    if "block_binding" in setting and not has_beta(request):
        raise RefusalError(f"thinking.{setting.get('type')}.block_binding: Extra inputs are not permitted")
    return bool((setting.get("block_binding") or {}).get("prefix_mismatch_behavior") == "drop_block")


def _fails(block: Json, path: str, prefix: Prefix, model: str) -> bool:
    """Whether a block's prefix is another one. Raises RefusalError for a block that the API did not make."""
    parts = opened(block.get("signature"))
    if parts is None or parts[0] != digest(block["thinking"]):
        field = "signature" if block["type"] == "thinking" else "data"
        raise RefusalError(f"{path}: Invalid `{field}` in `{block['type']}` block")
    return model.startswith(BINDING_MODELS) and parts[1:] != (prefix.system, prefix.tools, prefix.content)


def _bound(path: str, block: Json, prefix: Prefix, has_header: bool) -> RefusalError:
    parts = opened(block["signature"]) or ()
    what = OTHER_SYSTEM if parts[1] != prefix.system else ""
    header = "" if has_header else NEEDS_BETA
    return RefusalError(f"{path}: Invalid `signature` in `thinking` block. {BOUND}{header}{what}")


# The latest turn


class Originals:
    """The thinking that was handed out with calls, to compare it with what comes back."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._thinking: dict[str, list[Json]] = {}  # by the id of a call of the same message

    def add(self, content: list[Json]) -> None:
        """Remember a message that the API handed out."""
        thought = [block for block in content if block["type"] in THINKING]
        self._thinking.update((block["id"], thought) for block in content if block["type"] == "tool_use")

    def check(self, messages: list[Json]) -> None:
        """Raise RefusalError where thinking of the latest turn, while its tool loop is open, is not as it was."""
        for index in range(_open_turn(messages), len(messages)):
            content = blocks(messages[index])
            calls = (block["id"] for block in content if block["type"] == "tool_use")
            original = next((self._thinking[id] for id in calls if id in self._thinking), None)
            thought = [block for block in content if block["type"] in THINKING]
            if original is not None and thought != original:
                raise RefusalError(f"messages.{index}.content.{_changed(content, original)}: {MODIFIED}")


def _open_turn(messages: list[Json]) -> int:
    """Where the latest turn begins if it waits for the model to go on after a tool result, else the end."""
    if not _has_results(messages[-1]):
        return len(messages)
    spoken = (n for n, message in enumerate(messages) if message["role"] == "user" and not _has_results(message))
    return max(spoken, default=0)


def _has_results(message: Json) -> bool:
    return any(block["type"] == "tool_result" for block in blocks(message))


def _changed(content: list[Json], original: list[Json]) -> int:
    """The place of the first block that is not as it was, or where a missing one stood."""
    thought = [number for number, block in enumerate(content) if block["type"] in THINKING]
    same = 0
    while same < min(len(thought), len(original)) and content[thought[same]] == original[same]:
        same += 1
    return thought[same] if same < len(thought) else same

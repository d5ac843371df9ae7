"""headroom's compression. It is too large to port, so this policy calls the installed package."""

import atexit
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

from autoprune.apps.policies import Changes, RequestView
from autoprune.conversation.messages import fields_of
from autoprune.conversation.transcript import Entry, Location, Part, Speaker, ToolResult
from autoprune.errors import SettingsError

from prunebench.policies._chat import chat_call
from prunebench.policies._published import Published

MODEL = "claude-sonnet-4-5-20250929"  # headroom's default


def _package(name: str, requirement: str) -> Any:
    """Import a package. Raises SettingsError if it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise SettingsError(f"this policy calls its original: pip install {requirement}") from error


@cache
def _folder() -> str:
    """Make a folder for what the package stores; it is removed when the process ends."""
    folder = mkdtemp(prefix="autoprune-")
    atexit.register(rmtree, folder, ignore_errors=True)
    return folder


class Headroom:
    """Compress what is new at each request with headroom's `compress`; without `frozen`, the whole conversation."""

    def __init__(self, frozen: bool = True) -> None:
        """Keep headroom offline, and its store out of the home directory."""
        self._frozen = frozen
        self._sent: list[dict[str, Any]] = []
        os.environ.setdefault("HEADROOM_OFFLINE", "1")
        self._compress = _package("headroom", "headroom-ai==0.42.0").compress
        os.environ.setdefault("HEADROOM_WORKSPACE_DIR", _folder())

    def changes(self, request: RequestView) -> Changes:
        """Replace the results that headroom has compressed."""
        chat = list(_chat(request))
        before = self._sent if self._frozen else []
        told = [*before, *(message for message, _ in chat[len(before) :])]
        # Its text model would be downloaded; it is used only if more is installed than the package itself.
        options = {"model": MODEL, "model_limit": request.window, "kompress_model": "disabled"}
        sent = self._compress(told, frozen_message_count=len(before), **options).messages
        self._sent = list(sent)
        texts: dict[Part, str] = {
            result: after["content"]
            for (_, result), after in zip(chat, sent, strict=True)
            if result and after["content"] != result.text
        }
        return Changes(texts)


def _chat(request: RequestView) -> Iterator[tuple[dict[str, Any], ToolResult | None]]:
    """Yield the conversation in Chat Completions form, without the system prompt, and the results of its messages."""
    numbers = {call.location: f"call_{number}" for number, call in enumerate(request.calls)}
    for message, entry in zip(request.messages, request.entries, strict=True):
        for result in entry.results:
            known = numbers.get(result.call.location, "") if result.call else ""
            yield {"role": "tool", "tool_call_id": known, "content": result.text}, result
        if entry.speaker is Speaker.MODEL:
            yield {"role": "assistant", "content": _message_texts(message), **_native_calls(entry, numbers)}, None
        elif entry.speaker is Speaker.USER and not entry.results:
            yield {"role": "user", "content": _message_texts(message)}, None


def _native_calls(entry: Entry, numbers: Mapping[Location, str]) -> dict[str, Any]:
    calls = [chat_call(call, numbers[call.location]) for call in entry.calls]
    return {"tool_calls": calls} if calls else {}


def _message_texts(message: object) -> str:
    """Return a message's texts, by which headroom judges what is relevant."""
    held = fields_of(message)
    content = held.get("content") or held.get("parts") or ""
    if not isinstance(content, Sequence) or isinstance(content, str):
        return str(content)
    return "\n".join(str(fields_of(block).get("text") or "") for block in content)


PUBLISHED = (
    Published(
        name="headroom",
        new=Headroom,
        tool="headroom",
        source="PyPI headroom-ai, headroom/compress.py, 0.42.0; this policy calls the installed package",
        decides=(
            "At each request the messages that are new are compressed, as its documentation says; with frozen=False the"
            " whole conversation is, from its original: file reads that a later edit made stale become one line, and"
            " results of at least 250 tokens lose rows, repeated lines and dense text, depending on their kind. The"
            " last 4 messages and results of file tools stay."
        ),
        defaults="compress(messages, frozen_message_count=the messages of the previous request), as its documentation"
        " advises callers with their own loop. frozen=False is the default of the function, 0.",
        left_out=(
            "Long answers of the model in words: headroom shortens them too; here they stay. Its text"
            " model (kompress), which has to be downloaded and needs other packages; the proxy; its retrieval tool. The"
            " system prompt is not passed, and the results of several calls are messages of their own."
        ),
        idle="With small results, or if all results come from tools that read and search files.",
        checked="headroom-ai 0.42.0",
    ),
)

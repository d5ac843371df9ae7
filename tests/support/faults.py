"""What the providers would refuse in a session that was read; shares no code with the package's own rules."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from autoprune.apps.sessions import Recording, Session

Messages = list[Any]


def anthropic_faults(messages: Messages) -> Iterator[str]:
    """What Anthropic's Messages API would refuse."""
    ids = Counter(block["id"] for message in messages for block in message["content"] if block["type"] == "tool_use")
    yield from (f"{call} is used twice" for call, times in ids.items() if times > 1)
    yield from (f"{call} is no id" for call in ids if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call))
    calls: list[str] = []
    for at, message in enumerate(messages):
        blocks = message["content"]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        first = [block["type"] for block in blocks[: len(results)]]
        if results != calls or set(first) - {"tool_result"}:
            yield f"message {at} answers {results}, not {calls}"
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if (calls and message["role"] != "assistant") or (results and message["role"] != "user"):
            yield f"message {at} has a call or a result on the wrong side"
        if not blocks or any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            yield f"message {at} is empty, or holds an empty text"
        if message["role"] == "assistant" and blocks[-1]["type"].endswith("thinking"):
            yield f"message {at} ends in a thought"
    if messages and messages[0]["role"] != "user":
        yield "the first message is not the user's"
    if calls:
        yield f"{calls} are not answered"


def chat_faults(messages: Messages) -> Iterator[str]:
    """What the Chat Completions API would refuse."""
    waiting: list[str] = []
    for at, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                yield f"message {at} answers no call"
            else:
                waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            yield f"message {at} comes before {waiting} are answered"
        waiting = [call["id"] for call in message.get("tool_calls") or []]
        if not message.get("content") and not waiting:
            yield f"message {at} is empty"
        for call in message.get("tool_calls") or []:
            if not isinstance(call["function"]["arguments"], str):
                yield f"message {at} has arguments that are no text"
    if waiting:
        yield f"{waiting} are not answered"


def responses_faults(items: Messages) -> Iterator[str]:
    """What the Responses API would refuse."""
    waiting: Counter[tuple[str, str]] = Counter()
    for at, item in enumerate(items):
        kind = item.get("type", "message")
        if kind.startswith("tool_search") and (item.get("execution") == "server" or not item.get("call_id")):
            continue  # the server pairs its own searches
        if kind in ("function_call", "custom_tool_call", "local_shell_call", "tool_search_call"):
            waiting[kind.split("_")[0] == "custom", item["call_id"]] += 1
        elif kind.endswith("_output"):
            key = (kind.split("_")[0] == "custom", item["call_id"])
            if not waiting[key]:
                yield f"item {at} answers no call"
            waiting[key] -= 1
        elif kind == "message" and not item["content"]:
            yield f"item {at} is empty"
        if any(value is None for value in item.values()):
            yield f"item {at} holds null"
    yield from (f"{call} is not answered" for call, times in waiting.items() if times > 0)


def gemini_faults(contents: Messages) -> Iterator[str]:
    """What the Gemini API would refuse."""
    calls: list[tuple[str, str]] = []
    for at, content in enumerate(contents):
        if content["role"] != ("user", "model")[at % 2] or not content["parts"]:
            yield f"content {at} is empty, or of the wrong role"
        named = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
        if [(each.get("id", ""), each["name"]) for each in named] != calls:
            yield f"content {at} does not answer {calls}"
        if not all(isinstance(each["response"], dict) for each in named):
            yield f"content {at} has a response that is no object"
        asked = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        calls = [(each.get("id", ""), each["name"]) for each in asked]
    if calls:
        yield f"{calls} are not answered"


def faults(session: Session | Recording) -> list[str]:
    """What the provider of a session's agent would refuse."""
    check: Callable[[Messages], Iterator[str]] = chat_faults
    if session.agent in ("claude-code", "cline", "pi"):
        check = anthropic_faults
    elif session.agent == "gemini-cli":
        check = gemini_faults
    elif session.agent == "codex" or any("role" not in message for message in session.messages):
        check = responses_faults
    return list(check(session.messages))

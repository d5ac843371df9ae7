"""Conversations to measure with: the standard library's source, read file by file by an imaginary agent."""

import json
import random
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

Message = dict[str, object]


@cache
def source() -> str:
    """A few megabytes of code, the same in every run on a machine."""
    folder = Path(sysconfig.get_path("stdlib"))
    files = sorted(path for path in folder.rglob("*.py") if "site-packages" not in path.parts)
    random.Random(0).shuffle(files)
    texts = (path.read_text(encoding="utf-8", errors="replace") for path in files)
    return "\n".join(text for text in texts if "\x00" not in text)[:12_000_000]


def results(number: int, tokens: int) -> Iterator[str]:
    """That many results of about that many tokens in all, with sizes as skewed as in recorded sessions."""
    chance = random.Random(number)
    weights = [chance.lognormvariate(0, 1.3) for _ in range(number)]
    text, at = source(), 0
    for weight in weights:
        size = max(40, int(weight / sum(weights) * tokens * 4.2))
        yield text[at : at + size]
        at = (at + size) % (len(text) - size)


def openai_chat(requests: int, tokens: int) -> list[Message]:
    """A conversation with native tool calls, one request a result."""
    messages: list[Message] = [{"role": "system", "content": "You fix bugs."}, {"role": "user", "content": "Fix it."}]
    for index, text in enumerate(results(requests, tokens)):
        arguments = json.dumps({"path": f"lib/module_{index % 60}.py"})
        call = {"id": f"call_{index}", "type": "function", "function": {"name": "read_file", "arguments": arguments}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{index}", "content": text})
    return messages


def xml(requests: int, tokens: int) -> list[Message]:
    """A conversation in the XML dialect, one request a result."""
    messages: list[Message] = [{"role": "system", "content": "You fix bugs."}, {"role": "user", "content": "Fix it."}]
    for index, text in enumerate(results(requests, tokens)):
        call = f"Next file.\n<read_file>\n<path>lib/module_{index % 60}.py</path>\n</read_file>"
        result = f"<tool_result tool_name='ReadFileTool' success='true'>\n<content>{text}</content>\n</tool_result>"
        messages.append({"role": "assistant", "content": call})
        messages.append({"role": "user", "content": result})
    return messages


def texts(messages: list[Message]) -> list[str]:
    """Every string of a conversation that a provider counts."""
    found = []
    for message in messages:
        if isinstance(message["content"], str):
            found.append(message["content"])
        for call in message.get("tool_calls", ()):  # type: ignore[attr-defined]
            found += [call["function"]["name"], call["function"]["arguments"]]
    return found

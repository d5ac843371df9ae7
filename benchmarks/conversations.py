"""Conversations to measure with: the standard library's source, read file by file by an imaginary agent."""

import json
import random
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from autoprune import AgenticConversationPruner, PruneArgs
from autoprune.apps.sessions import load

Message = dict[str, object]
TEXTS: dict[str, str] = {}  # "recorded": a source of results that replaces the standard library's source


@cache
def source() -> str:
    """A few megabytes of tool output, the same in every run on a machine: numbered code, matches, logs, JSON."""
    folder = Path(sysconfig.get_path("stdlib"))
    files = sorted(path for path in folder.rglob("*.py") if "site-packages" not in path.parts)
    chance = random.Random(0)
    chance.shuffle(files)
    texts: list[str] = []
    size = 0
    for path in files:
        text = path.read_text(encoding="utf-8", errors="replace")
        texts.append(format_file(path.name, text, chance))
        size += len(texts[-1])
        if size > 12_000_000:
            break
    return "\n".join(texts)


def read_recorded(paths: list[str]) -> str:
    """The distinct tool results of recorded sessions, in any readable format."""
    texts: dict[str, None] = {}
    for path in paths:
        session = load(Path(path).read_text(encoding="utf-8"), path)
        plan = AgenticConversationPruner(PruneArgs()).plan(session.messages)
        texts.update(dict.fromkeys(result.text for result in plan.transcript.results))
    return "\n".join(texts)


def format_file(name: str, code: str, chance: random.Random) -> str:
    """Format a file like the output of some tool."""
    lines = code.splitlines()
    kind = chance.random()
    if kind < 0.5:
        return "\n".join(f"{number:6}→{line}" for number, line in enumerate(lines, 1))
    if kind < 0.7:
        return "\n".join(f"lib/{name}:{number}:{line}" for number, line in enumerate(lines, 1) if "(" in line)
    if kind < 0.85:
        return "\n".join(
            f"2026-03-{chance.randint(1, 28):02}T12:{number % 60:02}:07.{chance.randint(0, 999):03}Z "
            f"[{chance.getrandbits(32):08x}] {line.strip()}"
            for number, line in enumerate(lines)
        )
    return json.dumps([{"file": name, "line": number, "text": line} for number, line in enumerate(lines)])


def results(number: int, tokens: int) -> Iterator[str]:
    """Yield `number` results of about `tokens` tokens in all, with sizes as skewed as in recorded sessions."""
    chance = random.Random(number)
    weights = [chance.lognormvariate(0, 1.3) for _ in range(number)]
    text, at = TEXTS.get("recorded") or source(), 0
    for weight in weights:
        size = max(40, int(weight / sum(weights) * tokens * 3.1))
        yield text[at : at + size]
        at = (at + size) % (len(text) - size)


def openai_chat(requests: int, tokens: int) -> list[Message]:
    """A conversation with native tool calls, one request per result."""
    messages: list[Message] = [{"role": "system", "content": "You fix bugs."}, {"role": "user", "content": "Fix it."}]
    for index, text in enumerate(results(requests, tokens)):
        arguments = json.dumps({"path": f"lib/module_{index % 60}.py"})
        call = {"id": f"call_{index}", "type": "function", "function": {"name": "read_file", "arguments": arguments}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{index}", "content": text})
    return messages


def xml(requests: int, tokens: int) -> list[Message]:
    """A conversation in the XML dialect, one request per result."""
    messages: list[Message] = [{"role": "system", "content": "You fix bugs."}, {"role": "user", "content": "Fix it."}]
    for index, text in enumerate(results(requests, tokens)):
        call = f"Next file.\n<read_file>\n<path>lib/module_{index % 60}.py</path>\n</read_file>"
        result = f"<tool_result tool_name='ReadFileTool' success='true'>\n<content>{text}</content>\n</tool_result>"
        messages.append({"role": "assistant", "content": call})
        messages.append({"role": "user", "content": result})
    return messages


def texts(messages: list[Message]) -> list[str]:
    """Collect the strings of a conversation that a provider counts."""
    found = []
    for message in messages:
        if isinstance(message["content"], str):
            found.append(message["content"])
        for call in message.get("tool_calls", ()):  # type: ignore[attr-defined]
            found += [call["function"]["name"], call["function"]["arguments"]]
    return found


def one_message_of_xml(number: int) -> list[Message]:
    """A conversation in which one message holds `number` results in XML."""
    call = "<read_file>\n<path>{}.py</path>\n</read_file>"
    result = "<tool_result tool_name='read_file' success='true'>\n<content>{}</content>\n</tool_result>"
    return [
        {"role": "user", "content": "Fix it."},
        {"role": "assistant", "content": "\n".join(map(call.format, range(number)))},
        {"role": "user", "content": "\n".join(map(result.format, results(number, 100 * number)))},
        {"role": "assistant", "content": "I have read them."},
    ]


def one_message_of_blocks(number: int) -> list[Message]:
    """The same conversation in the format of Anthropic's API."""
    ids = [f"toolu_{index}" for index in range(number)]
    found = zip(ids, results(number, 100 * number), strict=True)
    call = {"type": "tool_use", "name": "read_file", "input": {"path": "a.py"}}
    return [
        {"role": "user", "content": "Fix it."},
        {"role": "assistant", "content": [{**call, "id": id} for id in ids]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": id, "content": text} for id, text in found],
        },
        {"role": "assistant", "content": "I have read them."},
    ]


def one_message_of_parts(number: int) -> list[Message]:
    """The same conversation in the format of Gemini's API."""
    call = {"functionCall": {"name": "read_file", "args": {"path": "a.py"}}}
    answers = [{"name": "read_file", "response": {"output": text}} for text in results(number, 100 * number)]
    return [
        {"role": "user", "parts": [{"text": "Fix it."}]},
        {"role": "model", "parts": [call] * number},
        {"role": "user", "parts": [{"functionResponse": answer} for answer in answers]},
        {"role": "model", "parts": [{"text": "I have read them."}]},
    ]


GIANTS = {"xml": one_message_of_xml, "anthropic": one_message_of_blocks, "gemini": one_message_of_parts}

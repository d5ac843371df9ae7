"""Conversations over which a context policy and its original are compared, in Chat Completions form.

Drivers of originals in other languages read them as JSON:

    python tests/support/policy_conversations.py > conversations.json
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

WORDS = ("value", "count", "index", "buffer", "parser", "request", "handler", "result", "config", "error")


@dataclass(frozen=True)
class Conversation:
    """Messages, and the seconds before each request that follows a pause, by the index of the message after it."""

    messages: list[dict[str, Any]]
    pauses: dict[int, float] = field(default_factory=dict)


def text(seed: int, characters: int) -> str:
    """Lines of code with some numbers in them, the same for the same seed, of at least `characters`."""
    lines, size, at = [], 0, seed
    while size < characters:
        at = (at * 1_103_515_245 + 12_345) % 2**31
        line = f"    {WORDS[at % 10]}_{at % 97} = self.{WORDS[at // 10 % 10]}({at % 1_000}, {WORDS[at // 100 % 10]!r})"
        lines.append(line)
        size += len(line) + 1
    return "\n".join(lines)


def asks(*calls: tuple[str, str, dict[str, Any]], said: str = "") -> dict[str, Any]:
    """An answer of the model with calls, each an id, a tool and arguments."""
    made = [
        {"id": known, "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
        for known, tool, arguments in calls
    ]
    return {"role": "assistant", "content": said or None, "tool_calls": made}


def gives(known: str, content: str) -> dict[str, Any]:
    """The result of a call."""
    return {"role": "tool", "tool_call_id": known, "content": content}


def long_work(rounds: int = 60, characters: int = 4_000) -> Iterator[dict[str, Any]]:
    """Yield one task of many rounds: files read, some twice, commands that fail, edits, several calls at once."""
    yield {"role": "system", "content": "You are a careful engineer."}
    yield {"role": "user", "content": "Make the parser faster, and keep its tests green."}
    for number in range(rounds):
        known, path = f"call_{number}", f"src/module_{number % 17}.py"
        if number % 9 == 4:
            yield asks((known, "bash", {"command": f"pytest tests/test_{number}.py"}), said="Now the tests.")
            yield gives(known, f"Error: command failed with exit code 1\n{text(number, 600)}")
        elif number % 7 == 3:
            arguments = {"path": path, "old_string": text(number % 17, 80), "new_string": text(900 + number, 400)}
            yield asks((known, "edit", arguments))
            yield gives(known, "The file has been updated.")
        elif number % 11 == 6:
            second = f"{known}b"
            yield asks((known, "grep", {"pattern": f"handler_{number}"}), (second, "read", {"path": path}))
            yield gives(known, text(500 + number, characters // 4))
            yield gives(second, text(number % 17, characters))
        else:
            yield asks((known, "read", {"path": path}), said="" if number % 2 else f"I read {path} again.")
            yield gives(known, text(number % 17, characters))
    yield {"role": "assistant", "content": "The parser is faster, and the tests are green."}


def talk(turns: int = 8) -> Iterator[dict[str, Any]]:
    """Yield a talk of several turns, each with a few calls, and an answer in words at the end of each."""
    yield {"role": "system", "content": "You answer questions about orders."}
    for turn in range(turns):
        yield {"role": "user", "content": f"What about order {turn}? And why is it late?"}
        for step in range(turn % 4):
            known = f"call_{turn}_{step}"
            yield asks((known, "find_order", {"order": turn, "step": step}))
            yield gives(known, text(turn * 10 + step, 300 if step % 2 else 9_000))
        yield {"role": "assistant", "content": f"Order {turn} is late because the truck of line {turn} broke down."}


def turns(number: int = 10) -> Iterator[dict[str, Any]]:
    """Yield a task in turns of the user, each with files that are read, a command, a search and an edit."""
    yield {"role": "system", "content": "You are a careful engineer."}
    for turn in range(number):
        yield {"role": "user", "content": f"Now improve module {turn}, please."}
        for step in range(4):
            known, path = f"call_{turn}_{step}", f"src/module_{(turn * 3 + step) % 7}.py"
            yield asks((known, "read", {"path": path}))
            yield gives(known, text(turn * 3 + step, 14_000 if step % 2 else 7_000))
        ran, found, edited = (f"call_{turn}_{name}" for name in ("ran", "found", "edited"))
        yield asks((ran, "bash", {"command": "pytest"}), (found, "grep", {"pattern": f"handler_{turn}"}))
        yield gives(ran, f"Output: {text(turn, 9_000)}\nExit Code: {turn % 2}")
        yield gives(found, text(500 + turn, 1_500))
        yield asks((edited, "edit", {"path": path, "new_string": text(turn, 300)}), said="I edit it.")
        yield gives(edited, "The file has been updated. ✓" if turn % 2 else "")
        yield {"role": "assistant", "content": f"Module {turn} is better now."}


def giants() -> Iterator[dict[str, Any]]:
    """Yield a task with results of very different sizes, up to 400,000 characters, in one line and in many."""
    yield {"role": "user", "content": "Look at the logs."}
    for number, size in enumerate((10, 900, 12_000, 60_000, 400_000, 2_500, 30_000, 100_000)):
        known = f"call_{number}"
        yield asks((known, "bash", {"command": f"cat log_{number}"}))
        yield gives(known, text(number, size) if number % 3 else "x" * size)
    yield {"role": "assistant", "content": "I have seen the logs."}


def looks() -> Iterator[dict[str, Any]]:
    """Yield a task with tools named as in Claude Code, whose looks are repeated, widened and narrowed."""
    yield {"role": "user", "content": "Find the slow function."}
    spans = [{"offset": at * 10 % 40, "limit": 50} if at % 4 else {} for at in range(9)]
    commands = ("git status", "git diff | head", "git status", "pytest", "pytest")
    asked = [
        *(("Read", {"path": f"./src/file_{at % 3}.py", **span}) for at, span in enumerate(spans)),
        *(("Grep", {"pattern": f"slow_{at % 2}", "path": "./src" if at % 3 else "src"}) for at in range(6)),
        *(("Bash", {"command": command}) for command in commands),
        *(("Glob", {"pattern": "*.py"}) for _ in range(2)),
    ]
    for number, (tool, arguments) in enumerate(asked):
        yield asks((f"call_{number}", tool, arguments))
        yield gives(f"call_{number}", text(number % 7, 900 + 700 * (number % 4)))
    yield {"role": "assistant", "content": "The parser is slow."}


def alphabets() -> Iterator[dict[str, Any]]:
    """Yield a task whose results are empty, or of many alphabets and line ends, at sizes around limits of policies."""
    yield {"role": "system", "content": "You are a careful engineer."}
    yield {"role": "user", "content": "Read it all. 😀"}
    tools, letters = (
        ("read", "bash", "grep", "fetch"),
        ("😀", "漢字かな", "é", "한글", "👩‍👩‍👧", "a\u0301", "\U00020001x"),
    )
    ends = ("\n", "\r\n", "\u2028", "\x0b", "\x85", "\r", "\x0c")
    for number, size in enumerate((0, 1, 251, 501, 2_001, 4_003, 8_193, 16_001, 45_001, 80_001, 0, 120_001, 7, 9_000)):
        letter = letters[number % len(letters)]
        lines = (letter * (1 + at % 60) + ends[at % len(ends)] for at in range(size))
        known = f"call_{number}"
        yield asks((known, tools[number % 4], {"path": f"{letter}.py"}), said=letter if number % 3 else "")
        yield gives(known, "".join(islice(lines, size // 30 + 1))[:size])
    yield asks(("call_big", "bash", {"command": "cat log"}))
    yield gives("call_big", "😀 line\n" * 140_000)
    yield {"role": "assistant", "content": "Read. ✓"}


def odd_order() -> Iterator[dict[str, Any]]:
    """Yield a talk that the model begins; its user writes twice and interrupts; results come in any order."""
    yield {"role": "assistant", "content": "Hello, what can I do?"}
    yield {"role": "user", "content": "Look at the files."}
    yield {"role": "user", "content": "And at the tests."}
    for number in range(14):
        ids = [f"call_{number}_{at}" for at in range(1 + number % 4)]
        tools = zip(ids, ("read", "bash", "grep", "edit"), strict=False)
        yield asks(
            *((known, tool, {"path": f"file_{number % 5}"}) for known, tool in tools), said="" if number % 3 else "So."
        )
        for known in reversed(ids) if number % 2 else ids:
            yield gives(known, text(number, 9_000 if number % 3 else 200))
        if number % 4 == 3:
            yield {"role": "assistant", "content": f"Part {number} is done."}
            yield {"role": "user", "content": "Yes."}
            yield {"role": "user", "content": "Quickly."}
        if number == 9:
            yield {"role": "user", "content": "Also the docs."}
    yield {"role": "user", "content": "Thanks."}


def all_conversations() -> dict[str, Conversation]:
    """Make the conversations, by name."""
    work, in_turns = list(long_work()), list(turns())
    rounds = [at for at, message in enumerate(work) if message["role"] == "assistant"]
    first_rounds = [at + 1 for at, message in enumerate(in_turns) if message["role"] == "user"]
    return {
        "long work": Conversation(work),
        "long work with pauses": Conversation(work, {rounds[9]: 400.0, rounds[28]: 4_000.0, rounds[42]: 90_000.0}),
        "large results": Conversation(list(long_work(40, 40_000))),
        "talk": Conversation(list(talk())),
        "turns with pauses": Conversation(
            in_turns, dict(zip(first_rounds[3::2], (200.0, 400.0, 4_000.0, 90_000.0), strict=False))
        ),
        "giants": Conversation(list(giants())),
        "looks": Conversation(list(looks())),
        "alphabets": Conversation(list(alphabets())),
        "odd order": Conversation(list(odd_order())),
    }


def read_conversations(file: Path) -> dict[str, Conversation]:
    """Read conversations that this module printed, or others in the same form."""
    known = json.loads(file.read_text(encoding="utf-8"))
    return {
        name: Conversation(each["messages"], {int(at): pause for at, pause in each.get("pauses", {}).items()})
        for name, each in known.items()
    }


if __name__ == "__main__":
    known = {name: {"messages": each.messages, "pauses": each.pauses} for name, each in all_conversations().items()}
    json.dump(known, sys.stdout)

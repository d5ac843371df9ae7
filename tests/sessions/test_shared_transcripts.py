"""Every recorded session of the shared folder is read, by its own agent's reader, into what a provider accepts.

The figures are those of the folder's own table. The check of calls and results here shares no code with the readers.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tables import each_row

from autoprune.sessions import NO_RESULT, Session, load

FOLDER = Path(__file__).parents[3] / "shared" / "transcripts"
FILES = sorted(path for path in FOLDER.glob("*--*.json*") if path.suffix in (".json", ".jsonl"))
ROW = re.compile(r"^\| `(?P<file>[^`]+)` \| [\d.]+ \| [\d,]+ \| (?P<results>[\d,]+) \|", re.MULTILINE)
# Where fewer results are sent than the table counts in the file, and why.
FEWER = {
    "claude-code--entireio-cli--7eb280e769.jsonl": (303 - 109, "before the compaction"),
    "codex--entireio-git-sync--9904c9f963.jsonl": (277 - 60, "before the compaction"),
    "codex--entityprocess-agentv--34f597b72d.jsonl": (177 - 65, "before the second compaction"),
    "openhands--all-hands-ai-openhands--multi-swe-bench-examples.jsonl": (2, "errors that answer no call: words to it"),
}
Messages = list[Any]

needs_transcripts = pytest.mark.skipif(not FILES, reason="the shared transcripts are not here")


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
        if kind in ("function_call", "custom_tool_call", "local_shell_call"):
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


def faults(session: Session) -> list[str]:
    """What the provider of a session's agent would refuse."""
    check: Callable[[Messages], Iterator[str]] = chat_faults
    if session.agent in ("claude-code", "cline", "pi"):
        check = anthropic_faults
    elif session.agent == "gemini-cli":
        check = gemini_faults
    elif session.agent == "codex" or any("role" not in message for message in session.messages):
        check = responses_faults
    return list(check(session.messages))


def is_result(value: object) -> bool:
    """Whether a part of a message is a result that the log held."""
    match value:
        case {"type": "tool_result", "content": payload} | {"role": "tool", "content": payload}:
            return payload != NO_RESULT
        case {"functionResponse": {"response": payload}}:
            return payload != {"error": NO_RESULT}
        case {"type": "function_call_output" | "custom_tool_call_output", "output": payload}:
            return payload != "aborted"
    return False


def results(session: Session) -> int:
    """How many results of the log stand in the messages."""
    parts = [part for message in session.messages for part in message.get("parts", message.get("content")) or []]
    return sum(map(is_result, session.messages)) + sum(map(is_result, parts))


def sessions(path: Path) -> list[Session]:
    """Every conversation of a file."""
    text = path.read_text(encoding="utf-8")
    first = load(text, path.name)
    return [first, *(load(text, path.name, run) for run in range(2, first.conversations + 1))]


@needs_transcripts
@each_row("path", FILES, ids=lambda path: path.name[:60])
def test_a_shared_transcript_is_read_by_its_agents_reader_into_what_a_provider_accepts(path: Path):
    found = sessions(path)
    assert all(session.agent and session.agent.startswith(path.name.split("--")[0]) for session in found)
    assert [faults(session) for session in found] == [[] for _ in found]
    assert all(len(session.messages) > 5 for session in found)


@needs_transcripts
@each_row("path", FILES, ids=lambda path: path.name[:60])
def test_the_results_of_a_shared_transcript_are_all_there(path: Path):
    table = (FOLDER / "README.md").read_text(encoding="utf-8")
    counts = {row["file"]: int(row["results"].replace(",", "")) for row in ROW.finditer(table)}
    fewer, _ = FEWER.get(path.name, (0, ""))
    assert sum(map(results, sessions(path))) == counts[path.name] - fewer


@needs_transcripts
@each_row("path", FILES, ids=lambda path: path.name[:60])
def test_a_shared_transcript_is_written_back_as_a_list_of_messages(path: Path):
    session = sessions(path)[0]
    assert json.loads(session.write(session.messages)) == session.messages


@needs_transcripts
def test_every_file_of_the_shared_table_is_read():
    table = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert {path.name for path in FILES} == {row["file"] for row in ROW.finditer(table)}

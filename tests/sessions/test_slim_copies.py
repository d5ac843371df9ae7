"""A slimmer copy of a session is read again as the same conversation with cleared results, and changes nothing else."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session_texts import changed, lines, places, samples_in, values_of
from tables import each_row

from autoprune.apps.clients import CLIENTS
from autoprune.apps.sessions import CopyChanges, recordings, slim_copy
from autoprune.errors import SessionError

ROOT = Path(__file__).parents[2]
NEW, CLEARED = "0a6c0c4e-2222-4f6f-9a57-00000000000f", "[Cleared]"
NAMES = ("claude-code", "codex", "pi")
SAMPLES = [path for path in samples_in(ROOT / "fixtures" / "readers") if path.name.startswith(NAMES)]
SHARED = ROOT.parent / "shared" / "transcripts"
RECORDED = [path for path in sorted(SHARED.glob("*--*.jsonl")) if path.name.startswith(NAMES)]
# What may change: the fields of the id, of a result and its copies, of the newest usage, and links over thinking.
MAY_CHANGE = {
    "claude-code": {"sessionId", "parentUuid", "toolUseResult", "data", "message.content", "message.usage"},
    "codex": {"id", "payload.id", "payload.session_id", "payload.output", "output", "payload.replacement_history"}
    | {f"payload.{name}" for name in ("stdout", "stderr", "aggregated_output", "formatted_output", "result", "item")}
    | {"payload.info"},
    "pi": {"id", "message.content", "message.usage"},
}


def copy_of(text: str, *, saved: int = 1_000) -> tuple[str, CopyChanges, str]:
    """A copy of a session in which every result is cleared, what was changed, and the agent."""
    found = recordings(text, "session")[-1][-1]
    cleared = dict.fromkeys(calls_in(found.messages), CLEARED)
    changes = CopyChanges(NEW, cleared, saved)
    return slim_copy(text, found.agent or "", changes), changes, found.agent or ""


def calls_in(messages: Any) -> Iterator[str]:
    """The ids of the calls with a result."""
    for message in messages:
        if "output" in message:
            yield message["call_id"]
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if block.get("type") == "tool_result":
                yield block["tool_use_id"]


def with_cleared(messages: Any) -> list[Any]:
    """The messages with every result cleared, as a program that shares no code with ours would do it."""
    changed = json.loads(json.dumps(messages))
    for message in changed:
        if "output" in message:
            message["output"] = CLEARED
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if block.get("type") == "tool_result":
                block["content"] = CLEARED
    return changed


def words_of(value: Any) -> Iterator[str]:
    """Every string that a user message of any agent holds, other than in results."""
    for line in value:
        message = line.get("payload") or line.get("message") or line
        if isinstance(message, dict) and message.get("role") == "user":
            content = message.get("content")
            blocks = content if isinstance(content, list) else [{"text": content}]
            yield from (block["text"] for block in blocks if isinstance(block.get("text"), str))


def changed_fields(old: Any, new: Any) -> set[str]:
    """The fields in which two records differ, two levels deep."""
    found = set()
    for name in {**old, **new}:
        a, b = old.get(name), new.get(name)
        if a != b and name in ("message", "payload") and isinstance(a, dict) and isinstance(b, dict):
            found |= {f"{name}.{inner}" for inner in {**a, **b} if a.get(inner) != b.get(inner)}
        elif a != b:
            found.add(name)
    return found


def values(text: str) -> list[Any]:
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def look_at_copy(text: str) -> None:
    """The copy is read as the cleared conversation, has the user's words, and changes no other field."""
    copy, changes, agent = copy_of(text)
    assert recordings(copy, "copy")[-1][-1].messages == with_cleared(recordings(text, "session")[-1][-1].messages)
    assert [*words_of(values(copy))] == [*words_of(values(text))]
    pairs, left_out = paired(text, copy, agent)
    assert left_out <= changes.thoughts
    assert all(line == copied for line, copied in pairs if json.loads(line) == json.loads(copied))
    ids = {json.loads(copied).get("sessionId", NEW) for _, copied in pairs}
    assert ids == {NEW}


def paired(text: str, copy: str, agent: str) -> tuple[list[tuple[str, str]], int]:
    """Each line of the copy with the line that it stands for, in their order, and the number of lines left out."""
    copied = [line for line in copy.split("\n") if line]
    pairs: list[tuple[str, str]] = []
    old = [line for line in text.split("\n") if line.strip()]
    for line in old:
        at = len(pairs)
        if at < len(copied) and changed_fields(json.loads(line), json.loads(copied[at])) <= MAY_CHANGE[agent]:
            pairs.append((line, copied[at]))
    assert len(pairs) == len(copied)
    return pairs, len(old) - len(pairs)


@each_row("path", SAMPLES, ids=lambda path: path.name)
def test_a_copy_of_a_sample_is_the_same_conversation_with_cleared_results(path: Path):
    look_at_copy(path.read_text(encoding="utf-8"))


@pytest.mark.full
@pytest.mark.skipif(not RECORDED, reason="the shared transcripts are not here")
@each_row("path", RECORDED or [ROOT], ids=lambda path: path.name[:60])
def test_a_copy_of_a_recorded_session_is_the_same_conversation_with_cleared_results(path: Path):
    look_at_copy(path.read_text(encoding="utf-8"))


def session_of_claude_code(*blocks: list[dict[str, Any]]) -> str:
    """A session of Claude Code with one line for each list of blocks, after the user's request."""
    records = [_line(0, {"role": "user", "content": "Go."})]
    for at, content in enumerate(blocks, 1):
        usage = {"input_tokens": 5, "cache_read_input_tokens": 900, "output_tokens": 9}
        answer = {"role": "assistant", "content": content, "id": f"m{at}", "usage": usage}
        records.append(_line(at, {"role": "user", "content": content} if "tool_use_id" in content[0] else answer))
    return lines(*records)


def _line(at: int, message: dict[str, Any]) -> dict[str, Any]:
    place = {"uuid": f"u{at}", "parentUuid": f"u{at - 1}" if at else None, "sessionId": "old", "version": "2.1.332"}
    return {**place, "type": message["role"], "message": message}


def test_lines_of_thinking_are_left_out_and_the_lines_after_them_linked_to_those_before():
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    copy, changes, _ = copy_of(session_of_claude_code([thought], [thought], [{"type": "text", "text": "Done."}]))
    assert [(each["uuid"], each["parentUuid"]) for each in values(copy)] == [("u0", None), ("u3", "u0")]
    assert (changes.thoughts, changes.version) == (2, "2.1.332")


@each_row(
    "kept",
    [
        {"preservedSegment": {"headUuid": "u1", "anchorUuid": "s", "tailUuid": "u3"}},
        {"preservedSegment": {"headUuid": "u0", "anchorUuid": "s", "tailUuid": "u1"}},
        {"preservedMessages": {"anchorUuid": "s", "uuids": ["u1", "u2", "u3"]}},
    ],
)
def test_messages_that_a_compaction_kept_are_found_without_their_thinking(kept: dict[str, Any]):
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    before = session_of_claude_code([thought], [{"type": "text", "text": "A."}], [{"type": "text", "text": "B."}])
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "b", "logicalParentUuid": "u3"}
    summary = {**_line(9, {"role": "user", "content": "So far: A."}), "uuid": "s", "isCompactSummary": True}
    text = before + lines({**boundary, "parentUuid": None, "compactMetadata": kept}, {**summary, "parentUuid": "b"})
    copy, _, _ = copy_of(text)
    assert recordings(copy, "copy")[-1][-1].messages == recordings(text, "session")[-1][-1].messages
    assert '"u1"' not in copy


def test_a_line_of_thinking_that_follows_itself_ends_no_search():
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    first, second, third = values(session_of_claude_code([thought], [{"type": "text", "text": "Done."}]))
    copy, _, _ = copy_of(lines(first, {**second, "parentUuid": "u1"}, third))
    assert [each["parentUuid"] for each in values(copy)] == [None, None]


@each_row(
    ("saved", "counts"),
    [(0, (900, 5)), (300, (600, 5)), (902, (0, 3)), (10_000, (0, 0))],
)
def test_the_newest_count_of_tokens_is_lowered_so_that_the_agent_does_not_compact(saved: int, counts: tuple[int, int]):
    text = session_of_claude_code([{"type": "text", "text": "A."}], [{"type": "text", "text": "B."}])
    _, first, second = (each["message"].get("usage") for each in values(copy_of(text, saved=saved)[0]))
    assert (first["cache_read_input_tokens"], first["input_tokens"]) == (900, 5)
    assert (second["cache_read_input_tokens"], second["input_tokens"], second["output_tokens"]) == (*counts, 9)


def test_every_copy_of_a_result_is_cleared():
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "a secret listing"}
    records = values(session_of_claude_code([call], [result]))
    records[-1]["toolUseResult"] = {"stdout": "a secret listing", "stderr": ""}
    data = {"type": "bash_progress", "output": "a secret", "fullOutput": "a secret listing", "elapsedTimeSeconds": 3}
    records.append({"type": "progress", "uuid": "p", "parentUuid": "u1", "parentToolUseID": "t1", "data": data})
    copy, _, _ = copy_of(lines(*records))
    assert "secret" not in copy
    assert values(copy)[-2]["toolUseResult"] == CLEARED
    assert values(copy)[-1]["data"] == {**data, "output": CLEARED, "fullOutput": CLEARED}


def test_what_codex_shows_of_a_result_is_cleared():
    shown = {"call_id": "c1", "command": ["ls"], "aggregated_output": "a secret", "stdout": "", "exit_code": 0}
    answer = {"Ok": {"content": [{"type": "text", "text": "a secret"}], "isError": False}}
    events = [
        {"type": "exec_command_end", **shown},
        {"type": "mcp_tool_call_end", "call_id": "c1", "result": answer},
        {"type": "item_completed", "item": {"type": "CommandExecution", "id": "c1", "aggregated_output": "a secret"}},
    ]
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go."}]},
        {"type": "function_call", "call_id": "c1", "name": "exec_command", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "a secret"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
    ]
    head = {"type": "session_meta", "payload": {"id": "old", "session_id": "old", "cli_version": "0.169.0"}}
    copy, _, _ = copy_of(
        lines(
            head,
            *({"type": "response_item", "payload": each} for each in items),
            *({"type": "event_msg", "payload": each} for each in events),
        )
    )
    assert "secret" not in copy
    first, *_, command, server, item = values(copy)
    assert (first["payload"]["id"], first["payload"]["session_id"]) == (NEW, NEW)
    assert command["payload"] == {**events[0], "aggregated_output": CLEARED}
    assert server["payload"]["result"]["Ok"] == {**answer["Ok"], "content": [{"type": "text", "text": CLEARED}]}
    assert item["payload"]["item"]["aggregated_output"] == CLEARED


def test_a_line_that_was_cut_off_is_left_out_and_another_broken_line_is_an_error():
    text = session_of_claude_code([{"type": "text", "text": "Done \ud800."}], [{"type": "text", "text": "é"}])
    cut = text + text.split("\n")[1][:50]
    assert copy_of(cut)[0] == copy_of(text)[0]
    assert copy_of(text)[0].encode().count(b"\\ud800") == 1  # a lone surrogate stays an escape
    with pytest.raises(SessionError, match="its line 2 is no JSON object"):
        slim_copy("{}\n[]\n{}\n", "claude-code", CopyChanges(NEW, {}, 0))


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A sample of which lines are lost, twice there, or in another place, and values are others."""
    found = values_of(draw(st.sampled_from(SAMPLES)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(found) - 1))
        match draw(st.sampled_from(("lose", "double", "move", "change"))):
            case "lose" if len(found) > 1:
                del found[at]
            case "double":
                found.insert(at, found[at])
            case "move":
                found.insert(draw(st.integers(0, len(found) - 1)), found.pop(at))
            case _:
                other = st.sampled_from((None, 7, "x", [], ["x"], {}, {"x": 1}, "\ud800"))
                found[at] = changed(found[at], draw(st.sampled_from(places(found[at]))), draw(other))
    return lines(*found)


@given(damaged())
def test_a_copy_of_a_damaged_session_has_all_words_of_the_user_or_is_refused(text: str):
    with suppress(SessionError):
        found = recordings(text, "session")
        if found and found[-1] and found[-1][-1].agent in NAMES:
            copy, _, _ = copy_of(text)
            assert [*words_of(values(copy))] == [*words_of(values(text))]
            copy.encode()


@each_row("agent", [client.agent for client in CLIENTS if client.by_id])
def test_sessions_that_are_resumed_by_their_id_can_be_copied(agent: str):
    assert slim_copy("", agent, CopyChanges(NEW, {}, 0)) == ""

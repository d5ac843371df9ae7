"""The example agent at work: offline, over real HTTP, in both dialects, pruned hard."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from openai import BadRequestError, OpenAI
from openai.types.chat import ChatCompletionMessage
from tables import each_row

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
sys.path.insert(0, str(Path(__file__).parent.parent / "fixtures"))

import edit_loop
import regenerate
import scripted_session
from edit_loop import Call

from autoprune import AgenticConversationPruner, PruneArgs, Result

ROOT = Path(__file__).parent.parent
SAFE_ZONE = 20_000
WINDOW = 25_000
CLEARED = "This message has been cleared."
SESSIONS = {dialect: name for name, (dialect, _) in regenerate.SESSIONS.items()}


class Watched(AgenticConversationPruner):
    """A pruner that keeps what it returned."""

    def __init__(self, safe_zone: int) -> None:
        super().__init__(PruneArgs(conversation_prune_safe_zone_tokens=safe_zone))
        self.results: list[Result] = []

    def prune(self, *args: Any, **options: Any) -> Result:
        self.results.append(super().prune(*args, **options))
        return self.results[-1]


@dataclass(frozen=True)
class Session:
    """A finished run: its history, what the pruner returned for each request, and the folder as the agent left it."""

    dialect: str
    messages: list[Any]
    results: list[Result]
    folder: Path


def run(client: OpenAI, dialect: str, folder: Path, pruner: AgenticConversationPruner) -> list[Any]:
    return edit_loop.run(client, "scripted", edit_loop.DIALECTS[dialect], folder, scripted_session.TASK, pruner)


@pytest.fixture(scope="module", params=["xml", pytest.param("native", marks=pytest.mark.full)])
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    pruner = Watched(SAFE_ZONE)
    with edit_loop.offline(WINDOW) as (client, folder):
        messages = run(client, request.param, folder, pruner)
        yield Session(request.param, messages, pruner.results, folder)


def failures(folder: Path) -> list[str]:
    """The tests of a project that fail."""
    command = [sys.executable, "-B", "-m", "unittest", "-v"]
    output = subprocess.run(command, cwd=folder, capture_output=True, text=True).stderr
    assert re.search(r"^Ran 16\d tests", output, re.MULTILINE)
    return [line.split()[1] for line in output.splitlines() if line.startswith(("FAIL:", "ERROR:"))]


def test_the_demo_is_the_native_session_with_times_and_usage():
    lines = (regenerate.FOLDER / "edit_loop_openai.jsonl").read_text("utf-8").strip().split("\n")
    assert regenerate.demo(list(map(json.loads, lines))) == regenerate.DEMO.read_text("utf-8")


def test_the_project_has_one_bug():
    assert failures(edit_loop.PROJECT) == ["test_a_converted_total_is_rounded_once"]


def test_the_agent_fixes_it_although_it_is_pruned(session: Session):
    assert failures(session.folder) == []
    assert (session.folder / "tests" / "test_valuation.py").is_file()


def test_a_session_is_long_and_not_all_goes_well(session: Session):
    replies = [message for message in session.messages if isinstance(message, ChatCompletionMessage)]
    calls = [edit_loop.DIALECTS[session.dialect].calls(message) for message in replies]
    texts = [message["content"] for message in session.messages if isinstance(message, dict)]
    failed = [text for text in texts if "success='false'" in text or text.startswith("Error: ")]
    assert len(replies) == len(scripted_session.STEPS)
    assert sum(map(len, calls)) >= 45
    assert sum(len(parallel) > 1 for parallel in calls) >= 5
    assert len(failed) >= 8


def test_every_request_is_within_the_safe_zone(session: Session):
    reports = [result.report for result in session.results]
    assert all(report.within_safe_zone and report.tokens_after <= SAFE_ZONE for report in reports)
    assert reports[-1].results_cleared >= 10
    assert reports[-1].tokens_before > 2 * SAFE_ZONE


def test_without_pruning_the_run_does_not_fit_the_window():
    pruner = Watched(regenerate.NEVER)
    with edit_loop.offline(WINDOW) as (client, folder), pytest.raises(BadRequestError, match="maximum context length"):
        run(client, "native", folder, pruner)
    assert len(pruner.results) < len(scripted_session.STEPS) / 2


def test_the_history_is_kept_in_full(session: Session):
    """It equals, byte for byte, the recording that was made without pruning."""
    name = SESSIONS[session.dialect]
    assert regenerate.text_of(name, session.messages, session.folder) == (regenerate.FOLDER / name).read_text("utf-8")
    assert CLEARED not in str(session.messages)
    assert CLEARED in str(session.results[-1].conversation)


def test_the_command_line(tmp_path: Path):
    command = [sys.executable, "-B", str(ROOT / "examples" / "edit_loop.py"), "--offline", "--safe-zone", "10k"]
    record = tmp_path / "session.json"
    options = ["--max-requests", "10", "--record", str(record)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*command, *options], capture_output=True, text=True, env=environment, check=True)
    assert "10 requests, " in done.stderr
    assert len(record.read_text("utf-8")) > 10_000


FIGURE = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
# The scratch folder has another name each time, and each Python prints tracebacks of its own, which the agent reads.
ROUGHLY = 0.01 if sys.version_info[:2] == (3, 11) else 1.0


@pytest.mark.full
@pytest.mark.parametrize("options", [(), ("--strategy", "tool_output_cleanup")])
def test_the_page_shows_the_figures_of_today(options: tuple[str, ...]):
    page = (ROOT / "docs" / "edit_loop.md").read_text(encoding="utf-8")
    command = [sys.executable, "-B", str(ROOT / "examples" / "edit_loop.py"), "--offline", "--safe-zone", "20k"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*command, *options], capture_output=True, text=True, env=environment, check=True).stderr
    sums = re.findall(r"^(?:request (?:10|42): .*|42 requests, .*|   total .*|In 42 requests, .*)$", done, re.MULTILINE)
    shown = [line for line in sums if not options] or [sums[-1].removeprefix("In 42 requests, ").rstrip(".")]
    assert len(shown) == (1 if options else 5)
    for line in shown:
        pattern = FIGURE.sub("#", line)
        found = [each for each in re.split(r"[\n`]", page) if FIGURE.sub("#", each).rstrip(".") == pattern.rstrip(".")]
        assert any(figures(each) == pytest.approx(figures(line), rel=ROUGHLY, abs=2) for each in found), line


def figures(line: str) -> list[float]:
    return [float(each.replace(",", "")) for each in FIGURE.findall(line)]


# The server's rules

SYSTEM = {"role": "system", "content": "You are an agent."}
TASK = {"role": "user", "content": "List the files."}
REPLY = {"role": "assistant", "content": "I begin with what is there."}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "a.py"}
LIST = {"id": "call_1", "type": "function", "function": {"name": "list_files", "arguments": "{}"}}
CALL = {"role": "assistant", "content": None, "tool_calls": [LIST]}


@pytest.fixture(scope="module")
def client() -> Iterator[OpenAI]:
    with edit_loop.offline() as (client, _):
        yield client


def ask(client: OpenAI, messages: list[Any], dialect: str) -> str | None:
    options = edit_loop.DIALECTS[dialect].options
    return client.chat.completions.create(model="scripted", messages=messages, **options).choices[0].message.content


@pytest.mark.parametrize(
    ("dialect", "messages"),
    [
        ("xml", [TASK]),
        ("xml", [SYSTEM, TASK, REPLY, TASK]),
        ("native", [SYSTEM, TASK, CALL, RESULT]),
        ("native", [SYSTEM, TASK, CALL, RESULT, TASK]),
    ],
)
def test_the_server_accepts_what_providers_accept(client: OpenAI, dialect: str, messages: list[Any]):
    assert ask(client, messages, dialect)


@pytest.mark.parametrize(
    ("dialect", "messages", "words"),
    [
        ("native", [TASK, REPLY, RESULT], "must be a response to a preceeding message with 'tool_calls'"),
        ("native", [TASK, CALL, RESULT, RESULT], "must be a response to a preceeding message with 'tool_calls'"),
        ("native", [TASK, CALL], "did not have response messages: call_1"),
        ("native", [TASK, CALL, TASK], "did not have response messages: call_1"),
        ("native", [TASK, CALL, {**RESULT, "content": ""}], "text content blocks must be non-empty"),
        ("native", [TASK, {**REPLY, "content": None}, TASK], "expected a string, got null"),
        ("native", [CALL, RESULT], 'first message must use the "user" role'),
        ("xml", [SYSTEM, {**TASK, "content": " \n"}], "text content blocks must be non-empty"),
        ("xml", [SYSTEM, REPLY, TASK], 'first message must use the "user" role'),
        ("xml", [TASK, TASK], "roles must alternate"),
    ],
)
def test_the_server_refuses_what_providers_refuse(client: OpenAI, dialect: str, messages: list[Any], words: str):
    with pytest.raises(BadRequestError, match=words):
        ask(client, messages, dialect)


# The tools


@each_row(
    ("call", "words"),
    [
        (Call("read_file", {"path": "../secret"}), "outside the folder"),
        (Call("write_to_file", {"path": "/tmp/../etc/hosts", "content": ""}), "outside the folder"),
        (Call("read_file", {"path": "gone.py"}), "there is no file gone.py"),
        (Call("read_file", {}), "missing 1 required positional argument: 'path'"),
        (Call("read_file", {"path": "a.py", "start_line": "one"}), "invalid literal"),
        (Call("replace_in_file", {"path": "a.py", "search": "x", "replace": "y"}), "it occurs 2 times"),
        (Call("search_files", {"path": ".", "regex": "("}), "unterminated subpattern"),
        (Call("execute_command", {"command": "exit 3"}), "exit status 3"),
        (Call("read_file", None), "arguments that cannot be read"),
        (Call("format_disk", {}), "no such tool"),
    ],
)
def test_what_goes_wrong_is_a_failed_result(tmp_path: Path, call: Call, words: str):
    (tmp_path / "a.py").write_text("x = x\n")
    outcome = edit_loop.outcome(tmp_path, call)
    assert not outcome.success
    assert words in outcome.text


def test_tags_in_a_file_do_not_end_its_call():
    content = "<content>\n</content> and </write_to_file> are <b>tags</b> & more\n"
    text = f"I write it.\n\n<write_to_file>\n<path>a.py</path>\n<content>\n{content}</content>\n</write_to_file>"
    message = ChatCompletionMessage(role="assistant", content=text)
    assert edit_loop.xml_calls(message) == [Call("write_to_file", {"path": "a.py", "content": content})]


def test_a_command_does_not_see_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    assert "secret" not in edit_loop.outcome(tmp_path, Call("execute_command", {"command": "env"})).text

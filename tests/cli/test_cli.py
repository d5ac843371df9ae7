"""The command line: options, files, pipes, output and exit codes."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from command_line import OPENAI, READERS, SESSIONS, XML, number, run, run_process
from shipped import PRESETS
from tables import each_row

from autoprune.strategies.catalog import CLEARING, STRATEGIES

CLAUDE = f"{READERS}/claude-code.jsonl"


@each_row("session", [XML, OPENAI])
def test_the_pruned_conversation_goes_to_standard_output_and_messages_to_standard_error(session: str):
    done = run("prune", session, "--safe-zone", "20k")
    text = done.stdout.decode()
    messages = json.loads(text) if session == XML else [json.loads(line) for line in text.splitlines()]
    assert done.returncode == 0
    assert "[Cleared at request " in text  # by cache_aware
    assert messages[0]["role"] == "system"
    assert "within the safe zone of 20,480" in done.stderr.decode()


def test_output_is_written_to_the_named_file(tmp_path: Path):
    out = tmp_path / "out.json"
    done = run("prune", XML, "--safe-zone", "20k", "-o", str(out))
    assert done.stdout == b""
    assert "[Cleared at request " in out.read_text(encoding="utf-8")
    stats = json.loads(run("stats", XML, str(out), "--json").stdout)
    assert stats["pruned_tokens"] <= 20_480 < stats["original_tokens"]
    assert stats["tool_results_cleaned"] > 0


@pytest.mark.full
def test_a_dash_is_standard_input_and_output_in_a_separate_process_too():
    piped = run_process("prune", "-", "-o", "-", "--safe-zone", "20k", stdin=Path(XML).read_bytes())
    alone = run("prune", XML, "--safe-zone", "20k")
    assert (piped.returncode, piped.stdout, piped.stderr) == (alone.returncode, alone.stdout, alone.stderr)


def test_explain_is_a_table_of_every_result_with_its_reason():
    lines = run("prune", XML, "--safe-zone", "20k", "--explain").stdout.decode().splitlines()
    results, legend = lines[1 : lines.index("")], lines[lines.index("") + 1 :]
    assert lines[0].split() == ["message", "turn", "tool", "target", "tokens", "why"]
    assert sum("ListFilesTool" in line for line in results) >= 1
    assert any("cleared" in line and "worth" in line and "→" in line for line in results)
    assert any(line.split("  ")[0] == "no gain" and "a placeholder would not be smaller" in line for line in legend)
    assert any("tally/money.py" in line for line in results)
    assert number(results) == 60


def test_json_is_the_whole_report():
    report = json.loads(run("prune", XML, "--safe-zone", "20k", "--json").stdout)
    assert report["within_safe_zone"] is True
    assert len(report["results"]) == report["tool_results"] == 60
    assert sum(report["floor"].values()) == report["pruned_tokens"]
    assert sum(row["cleared"] for row in report["results"]) == report["tool_results_cleaned"]


def test_a_strategy_may_have_parameters():
    done = run("prune", XML, "--safe-zone", "20k", "--strategy", "low_water(target=0.5)", "--json")
    assert json.loads(done.stdout)["pruned_tokens"] <= 10_240


def test_the_strategies_are_listed():
    named = [row["name"] for row in json.loads(run("strategies", "--json").stdout)]
    assert named == [*CLEARING, *PRESETS]
    assert set(named) == STRATEGIES.keys()
    assert "minimum_reclaim=0.1" in run("strategies").stdout.decode()


@each_row(
    ("arguments", "code", "said"),
    [
        (("prune", XML, "--safe-zone", "20"), 1, "still over the safe zone of 20"),
        (("prune", XML, "--safe-zone", "abc"), 2, "the safe zone is 'abc'"),
        (("prune", XML, "--safe-zone", "0.5"), 2, "model"),
        (
            ("prune", XML, "--strategy", "best"),
            2,
            "there is no strategy 'best'; there are tool_output_cleanup, low_water",
        ),
        (("prune", XML, "--strategy", "low_water(goal=1)"), 2, "target=0.75"),
        (("prune", XML, "--json", "-o", "-"), 2, "cannot both write to standard output"),
        (("prune", XML, "--nonsense"), 2, "No such option"),
        (("prune", "missing.json"), 3, "missing.json cannot be read: No such file or directory"),
        (
            ("prune", str(SESSIONS)),
            3,
            "is a folder: name one session file in it; `autoprune replay` reads whole folders",
        ),
        (("prune", ""), 3, "autoprune: the name of the session file is empty: give a path, or - for standard input"),
        (("check", ""), 3, "the name of the session file is empty"),
        (("stats", XML, ""), 3, "the name of the session file is empty"),
        (("prune", " "), 3, "autoprune: ' ' cannot be read: No such file or directory"),
        (("prune", str(SESSIONS.parent / "README.md")), 3, "README.md is not JSON: give"),
        (("prune", XML, "--safe-zone", "20k", "-o", "/nowhere/out.json"), 3, "/nowhere/out.json cannot be written"),
        (("stats", XML, "missing.json"), 3, "missing.json cannot be read"),
    ],
)
def test_the_exit_code_says_who_must_act(arguments: tuple[str, ...], code: int, said: str):
    done = run(*arguments)
    words = " ".join(done.stderr.decode().split())
    assert (done.returncode, said in words) == (code, True), words


def test_an_exception_in_a_strategy_has_its_own_exit_code(tmp_path: Path):
    file = tmp_path / "broken.py"
    file.write_text("class Broken:\n    name = 'broken'\n    def step(self, view): raise KeyError('oh')\n")
    done = run_process("prune", OPENAI, "--strategy", f"{file}:Broken", "--safe-zone", "20k")
    assert (done.returncode, done.stdout) == (5, b"")
    words = done.stderr.decode()
    assert (f'File "{file}", line 3, in step' in words, words.splitlines()[-1]) == (True, "KeyError: 'oh'")


def test_an_error_names_bytes_that_are_not_text():
    done = run("prune", "-", stdin=b'[{"role": "user", "content": "' + b"\xff" * 20 + b'"}]')
    assert (done.returncode, done.stdout) == (3, b"")
    assert "standard input is not UTF-8 text: byte 30 is 0xff" in done.stderr.decode()


@pytest.mark.full
def test_a_closed_pipe_prints_no_error():
    process = subprocess.Popen(
        [sys.executable, "-m", "autoprune", "prune", XML, "--safe-zone", "1m"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    words = process.stderr.read().decode()
    process.stderr.close()
    process.wait()
    assert "Traceback" not in words
    assert "Broken pipe" not in words


def test_the_version_is_printed():
    assert run("--version").stdout.decode().strip().count(".") == 2


ORPHAN = {"role": "tool", "tool_call_id": "gone", "content": "left behind"}
BROKEN = [{"role": "user", "content": "Fix it."}, ORPHAN]


def written(path: Path, messages: object) -> str:
    path.write_text(json.dumps(messages), encoding="utf-8")
    return str(path)


def test_an_agents_session_file_is_pruned_to_messages_for_its_provider(tmp_path: Path):
    out = tmp_path / "out.json"
    done = run("prune", str(READERS / "claude-code.jsonl"), "--safe-zone", "100", "--validate", "-o", str(out))
    assert "note: claude-code session" in done.stderr.decode()
    messages = json.loads(out.read_text(encoding="utf-8"))
    blocks = [block for message in messages for block in message["content"] if isinstance(block, dict)]
    assert {"tool_use", "tool_result"} <= {block["type"] for block in blocks}
    assert run("check", str(out), "--provider", "anthropic").returncode == 0


TASKS = """
from autoprune.apps.sessions import Conversation, Reader

READER = Reader("tasks", lambda values: True, lambda values: [Conversation(task) for task in values[0]["tasks"]])
"""


def test_a_number_selects_one_of_several_conversations_in_a_file(tmp_path: Path):
    file = written(tmp_path / "tasks.json", {"tasks": [[{"role": "user", "content": each}] for each in "ab"]})
    (tmp_path / "tasks.py").write_text(TASKS, encoding="utf-8")
    reader = ("--reader", f"{tmp_path}/tasks.py:READER")
    first, second = (run("prune", file, *reader, "--conversation", number) for number in "12")
    assert "choose with --conversation" in first.stderr.decode()
    assert json.loads(first.stdout) != json.loads(second.stdout)
    missing = run("prune", file, *reader, "--conversation", "99")
    assert (missing.returncode, b"has no conversation 99" in missing.stderr) == (3, True)


def test_check_lists_broken_rules_with_the_providers_messages(tmp_path: Path):
    done = run("check", written(tmp_path / "broken.json", BROKEN), "--json")
    (problem,) = json.loads(done.stdout)
    assert done.returncode == 4
    assert (problem["provider"], problem["rule"], problem["path"][0]) == ("openai_chat", "orphan_result", 1)
    assert problem["message"].startswith("messages with role 'tool' must be a response to a preceeding message")


def test_check_finds_nothing_in_a_valid_conversation():
    done = run("check", OPENAI)
    assert (done.returncode, b"no rule is broken" in done.stdout) == (0, True)


def test_check_writes_a_repaired_conversation(tmp_path: Path):
    broken, fixed = written(tmp_path / "broken.json", BROKEN), tmp_path / "fixed.json"
    done = run("check", broken, "--repair", str(fixed))
    assert (done.returncode, done.stderr) == (0, b"repaired: removed the result\n")
    assert json.loads(fixed.read_text(encoding="utf-8")) == BROKEN[:1]
    assert json.loads(Path(broken).read_text(encoding="utf-8")) == BROKEN
    twice = run("check", written(tmp_path / "twice.json", [*BROKEN, *BROKEN[1:]]), "--repair", str(fixed))
    assert twice.stderr == b"repaired: removed the result, 2 times\n"


def test_validate_refuses_what_the_provider_would_refuse(tmp_path: Path):
    broken = written(tmp_path / "broken.json", BROKEN)
    assert run("prune", broken).returncode == 0
    refused = run("prune", broken, "--validate")
    assert (refused.returncode, refused.stdout) == (4, b"")
    assert (
        "Your messages had such problems before they were pruned: `autoprune check FILE --repair OUT` mends"
        in refused.stderr.decode()
    )


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--format", "claude", "there is no format 'claude'; there are openai_chat, openai_responses, anthropic"),
        ("--thinking-policy", "keep", "thinking_policy is 'keep': give one of drop_block, strip, refuse, report"),
        (
            "--strategy",
            "low_water(clamp=5)",
            "give a Clamp, such as Clamp(...), or in a text clamp={'max_result_tokens': 4000}",
        ),
        ("--strategy", "low_water(protect={'last': 5})", "low_water has the parameters: target=0.75"),
    ],
)
def test_an_error_names_an_invalid_option_and_the_valid_values(option: str, value: str, said: str):
    done = run("prune", XML, option, value)
    assert done.returncode == 2
    assert said in done.stderr.decode()


# What folds

OWN = '''
from autoprune.conversation.edits import Fold
from autoprune.conversation.edits import Reason
from autoprune.planning.protections import Retention


class OldestHalf:
    """Drop the older half of the groups if there are many."""

    name = "oldest_half"
    retain = Retention(first_request=True)

    def step(self, view):
        groups = view.groups(1, 2) if view.count > 60 else []
        for group in groups[: len(groups) // 2]:
            yield Fold(group.messages, Reason.TOO_MANY_MESSAGES, 0)
'''
HEAD = "[Summary of "


def contents(done: subprocess.CompletedProcess[bytes], session: str = OPENAI) -> list[str]:
    text = done.stdout.decode()
    messages = json.loads(text) if session == XML else [json.loads(line) for line in text.splitlines()]
    return [message["content"] or "" for message in messages]


@pytest.mark.parametrize("session", [XML, OPENAI])
@pytest.mark.parametrize(("strategy", "summaries"), [("hybrid", 1), ("summarize(group_size=2)", 1), ("truncate", 0)])
def test_whole_messages_are_folded_or_dropped(session: str, strategy: str, summaries: int):
    done = run("prune", session, "--safe-zone", "20k", "--strategy", strategy, "--validate")
    words = done.stderr.decode()
    assert done.returncode == 0, words
    assert sum(text.startswith(HEAD) for text in contents(done, session)) == summaries
    assert f"by {strategy.partition('(')[0]}, within the safe zone of 20,480" in " ".join(words.split())
    assert ("messages summed up" in words, "messages dropped" in words) == (bool(summaries), not summaries)


def test_a_strategy_in_a_file_may_fold(tmp_path: Path):
    file = tmp_path / "oldest_half.py"
    file.write_text(OWN, encoding="utf-8")
    done = run("prune", OPENAI, "--strategy", f"{file}:OldestHalf", "--safe-zone", "1m", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["strategy"], report["messages_summarized"]) == (0, "oldest_half", 0)
    assert report["messages_removed"] == sum(len(fold["messages"]) for fold in report["folds"]) > 0


def test_explain_lists_folds_before_results():
    done = run("prune", OPENAI, "--safe-zone", "20k", "--strategy", "hybrid", "--explain")
    head, *lines = done.stdout.decode().splitlines()
    assert head.split() == ["messages", "request", "tokens", "why"]
    first, second = (at for at, line in enumerate(lines) if not line)
    folds, results, legend = lines[:first], lines[first + 1 : second], lines[second + 1 :]
    assert all("summed up" in line and "oldest first" in line for line in folds)
    assert results[0].split() == ["message", "turn", "tool", "target", "tokens", "why"]
    assert number(results[1:]) == 60
    assert any("→ 0" in line and "summed up" in line for line in results)
    assert any("kept" in line and "not needed" in line for line in results)
    assert "not needed the prompt is within the safe zone" in " ".join(" ".join(legend).split())


def test_folding_strategies_are_listed_with_their_parameters():
    rows = {row["name"]: row for row in json.loads(run("strategies", "--json").stdout)}
    assert rows["keep_last"]["description"] == "Keep the last n messages and the system's; drop the others."
    settings = {"safe_zone_tokens": 51_200, "group_size": 4}
    assert rows["keep_last"]["config"] == {**settings, "over_messages": 10, "keep": 10, "drops": True}
    assert "hybrid(group_size=None, buffer=0.2, summary_tokens=None)" in run("strategies").stdout.decode().splitlines()


# What a model sums up


class Completions(BaseHTTPRequestHandler):
    """Answers each request for a completion with the same summary."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, self.headers["Authorization"], body["model"]))  # type: ignore[attr-defined]
        message = {"role": "assistant", "content": "They fixed the tally."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 900, "completion_tokens": 5, "total_tokens": 905}
        named = {"id": "c", "object": "chat.completion", "created": 0, "model": body["model"]}
        text = json.dumps({**named, "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *words: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), Completions) as found:
        found.asked = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


BY_MODEL = ("--summarizer", "openai", "--model", "gpt-4o-mini", "--strategy", "chat_summary(trigger=60, keep=20)")


def test_a_model_writes_the_summary_if_named(server: HTTPServer):
    url = f"http://127.0.0.1:{server.server_port}/v1"
    environ = {"OPENAI_API_KEY": "secret", "OPENAI_BASE_URL": url}
    done = run("prune", OPENAI, "--safe-zone", "1m", *BY_MODEL, environ=environ)
    assert done.returncode == 0, done.stderr.decode()
    assert "They fixed the tally." in contents(done)[1]
    assert set(server.asked) == {("/v1/chat/completions", "Bearer secret", "gpt-4o-mini")}  # type: ignore[attr-defined]
    assert len(server.asked) == 1  # type: ignore[attr-defined]
    assert "1 call of a model" in " ".join(done.stderr.decode().split())


@pytest.mark.full
def test_if_the_model_is_unreachable_a_note_says_so_and_the_digest_is_used():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and never listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        environ = {"OPENAI_API_KEY": "secret", "OPENAI_BASE_URL": url}
        done = run("prune", OPENAI, "--safe-zone", "1m", *BY_MODEL, environ=environ)
    words = " ".join(done.stderr.decode().split())
    assert (done.returncode, contents(done)[1].startswith(HEAD)) == (0, True)
    assert "note: the summarizer failed (APIConnectionError" in words
    assert "secret" not in words


@each_row(
    ("arguments", "said"),
    [
        (BY_MODEL, "autoprune: the summarizer openai cannot be used: "),
        (("--summarizer", "openai", "--strategy", "hybrid"), "the summarizer openai needs a model: --model gpt-5-mini"),
        (
            ("--summarizer", "claude", "--strategy", "hybrid"),
            "there is no summarizer 'claude'; there are digest, openai",
        ),
        (("--summarizer", "digest"), "a summarizer needs a strategy that folds messages: one of summarize, truncate"),
        (("--strategy", "hybrid(buffer=1)"), "hybrid: buffer is 1: give a share, 0 or more and less than 1"),
        (("--strategy", "keep_last(n=-1)"), "keep_last: n is -1: give a number, 0 or more, or None"),
        (("--strategy", "keep_last(m=1)"), "keep_last has the parameters: n=10"),
        (("--strategy", "hybrid(retain={'turn': 1})"), "hybrid has the parameters: group_size=None"),
        (("--strategy", "hybrid(retain={'turns': -1})"), "turns is -1: give a number, 0 or more"),
    ],
)
def test_invalid_folding_options_are_errors(arguments: tuple[str, ...], said: str):
    done = run("prune", OPENAI, *arguments, environ={"OPENAI_API_KEY": None})
    words = " ".join(done.stderr.decode().split())
    assert (done.returncode, done.stdout, said in words) == (2, b"", True), words


def test_prices_are_those_of_the_model_in_the_session():
    known, unknown = (run("prune", path, "--strategy", "cache_aware", "--dry-run") for path in (CLAUDE, XML))
    said = "the prices are not known"
    assert (said in known.stderr.decode(), said in unknown.stderr.decode()) == (False, True)

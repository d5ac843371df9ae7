"""The command line, run as a user runs it: in a process, with files and pipes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from autoprune.strategies import NAMES
from autoprune.strategies.presets import PRESETS

SESSIONS = Path(__file__).parent.parent / "fixtures" / "sessions"
XML = str(SESSIONS / "edit_loop_xml.json")
OPENAI = str(SESSIONS / "edit_loop_openai.jsonl")
SENTENCE = "This message has been cleared."


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "autoprune", *arguments], input=stdin, capture_output=True, check=False
    )


@pytest.mark.parametrize("session", [XML, OPENAI])
def test_the_pruned_conversation_goes_to_standard_output_and_words_to_standard_error(session: str):
    done = run("prune", session, "--safe-zone", "20k")
    text = done.stdout.decode()
    messages = json.loads(text) if session == XML else [json.loads(line) for line in text.splitlines()]
    assert done.returncode == 0
    assert SENTENCE in text
    assert messages[0]["role"] == "system"
    assert "within the safe zone of 20,480" in done.stderr.decode()


def test_a_session_within_the_safe_zone_comes_back_as_it_was():
    done = run("prune", OPENAI, "--safe-zone", "1m")
    given = [json.loads(line) for line in Path(OPENAI).read_text(encoding="utf-8").splitlines()]
    assert [json.loads(line) for line in done.stdout.splitlines()] == given
    assert "0 of 60 tool results cleared" in done.stderr.decode()


def test_a_file_is_written_where_it_is_asked_for(tmp_path: Path):
    out = tmp_path / "out.json"
    done = run("prune", XML, "--safe-zone", "20k", "-o", str(out))
    assert done.stdout == b""
    assert SENTENCE in out.read_text(encoding="utf-8")
    stats = json.loads(run("stats", XML, str(out), "--json").stdout)
    assert stats["pruned_tokens"] <= 20_480 < stats["original_tokens"]
    assert stats["tool_results_cleaned"] > 0


def test_a_dash_is_standard_input_and_output():
    piped = run("prune", "-", "-o", "-", "--safe-zone", "20k", stdin=Path(XML).read_bytes())
    assert piped.stdout == run("prune", XML, "--safe-zone", "20k").stdout


def test_a_dry_run_writes_no_conversation(tmp_path: Path):
    out = tmp_path / "out.json"
    done = run("prune", XML, "--safe-zone", "20k", "--dry-run", "-o", str(out))
    assert (done.stdout, out.exists(), done.returncode) == (b"", False, 0)
    assert "ReadFileTool" in done.stderr.decode()


def test_explain_is_a_table_of_every_result_with_its_reason():
    lines = run("prune", XML, "--safe-zone", "20k", "--explain").stdout.decode().splitlines()
    assert lines[0].split() == ["message", "turn", "tool", "target", "tokens", "why"]
    assert sum("ListFilesTool" in line for line in lines) >= 1
    assert any("cleared" in line and "oldest first" in line and "→" in line for line in lines)
    assert any("a placeholder would not be smaller" in line for line in lines)
    assert any("tally/money.py" in line for line in lines)
    assert len([line for line in lines[1:] if line.strip()]) == 60


def test_json_is_the_whole_report():
    report = json.loads(run("prune", XML, "--safe-zone", "20k", "--json").stdout)
    assert report["within_safe_zone"] is True
    assert len(report["results"]) == report["tool_results"] == 60
    assert sum(report["floor"].values()) == report["pruned_tokens"]
    assert sum(row["cleared"] for row in report["results"]) == report["tool_results_cleaned"]


def test_a_strategy_can_be_written_with_its_parameters():
    done = run("prune", XML, "--safe-zone", "20k", "--strategy", "low_water(target=0.5)", "--json")
    assert json.loads(done.stdout)["pruned_tokens"] <= 10_240


def test_the_log_line_is_printed_when_asked_for():
    assert "tool_output_cleanup: " in run("prune", XML, "--safe-zone", "20k", "--verbose", "--dry-run").stderr.decode()


def test_the_strategies_are_listed():
    named = [row["name"] for row in json.loads(run("strategies", "--json").stdout)]
    assert named == ["tool_output_cleanup", "low_water", *PRESETS]
    assert set(named) == NAMES
    assert "minimum_reclaim=0.1" in run("strategies").stdout.decode()


@pytest.mark.parametrize(
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
        (("prune", XML, "--json", "-o", "-"), 2, "both want standard output"),
        (("prune", XML, "--nonsense"), 2, "No such option"),
        (("prune", "missing.json"), 3, "missing.json cannot be read: No such file or directory"),
        (("prune", str(SESSIONS)), 3, "cannot be read: Is a directory"),
        (("prune", str(SESSIONS.parent / "README.md")), 3, "broken JSON at line 1, column 1"),
        (("prune", XML, "--safe-zone", "20k", "-o", "/nowhere/out.json"), 3, "/nowhere/out.json cannot be written"),
        (("stats", XML, "missing.json"), 3, "missing.json cannot be read"),
    ],
)
def test_the_exit_code_says_who_must_act(arguments: tuple[str, ...], code: int, said: str):
    done = run(*arguments)
    words = " ".join(done.stderr.decode().split())
    assert (done.returncode, said in words) == (code, True), words


def test_bytes_that_are_no_text_are_named():
    done = run("prune", "-", stdin=b'[{"role": "user", "content": "\xff"}]')
    assert (done.returncode, done.stdout) == (3, b"")
    assert "standard input is no UTF-8 text: byte 30 is 0xff" in done.stderr.decode()


def test_a_reader_that_has_had_enough_is_no_error():
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


READERS = Path(__file__).parent.parent / "fixtures" / "readers"
ORPHAN = {"role": "tool", "tool_call_id": "gone", "content": "left behind"}
BROKEN = [{"role": "user", "content": "Fix it."}, ORPHAN]


def written(path: Path, messages: list[dict[str, object]]) -> str:
    path.write_text(json.dumps(messages), encoding="utf-8")
    return str(path)


def test_an_agents_own_session_file_is_pruned_into_messages_for_its_provider(tmp_path: Path):
    out = tmp_path / "out.json"
    done = run("prune", str(READERS / "claude-code.jsonl"), "--safe-zone", "100", "--validate", "-o", str(out))
    assert "note: claude-code session" in done.stderr.decode()
    messages = json.loads(out.read_text(encoding="utf-8"))
    blocks = [block for message in messages for block in message["content"] if isinstance(block, dict)]
    assert {"tool_use", "tool_result"} <= {block["type"] for block in blocks}
    assert run("check", str(out), "--provider", "anthropic").returncode == 0


def test_one_of_several_conversations_in_a_file_is_chosen_by_its_number():
    file = str(READERS / "tau-bench.json")
    first, second = (run("prune", file, "--safe-zone", "1m", "--run", number) for number in "12")
    assert "choose with --run" in first.stderr.decode()
    assert json.loads(first.stdout) != json.loads(second.stdout)
    missing = run("prune", file, "--run", "99")
    assert (missing.returncode, b"has no run 99" in missing.stderr) == (3, True)


def test_check_lists_the_rules_that_are_broken_in_the_providers_words(tmp_path: Path):
    done = run("check", written(tmp_path / "broken.json", BROKEN), "--json")
    (problem,) = json.loads(done.stdout)
    assert done.returncode == 4
    assert (problem["provider"], problem["rule"], problem["path"][0]) == ("openai_chat", "orphan_result", 1)
    assert problem["message"].startswith("messages with role 'tool' must be a response to a preceeding message")


def test_check_finds_nothing_in_a_good_conversation():
    done = run("check", OPENAI)
    assert (done.returncode, b"no rule is broken" in done.stdout) == (0, True)


def test_check_repairs_where_it_is_asked_to(tmp_path: Path):
    broken, fixed = written(tmp_path / "broken.json", BROKEN), tmp_path / "fixed.json"
    done = run("check", broken, "--repair", str(fixed))
    assert (done.returncode, b"repaired: " in done.stderr) == (4, True)
    assert json.loads(fixed.read_text(encoding="utf-8")) == BROKEN[:1]
    assert json.loads(Path(broken).read_text(encoding="utf-8")) == BROKEN


def test_prune_refuses_what_the_provider_would_refuse_if_it_is_asked_to(tmp_path: Path):
    broken = written(tmp_path / "broken.json", BROKEN)
    assert run("prune", broken).returncode == 0
    refused = run("prune", broken, "--validate")
    assert (refused.returncode, refused.stdout) == (4, b"")
    assert "they were in it before it was pruned" in refused.stderr.decode()


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--format", "claude", "there is no format 'claude'; there are openai_chat, openai_responses, anthropic"),
        ("--thinking-policy", "keep", "thinking_policy is 'keep': give one of drop_block, strip, refuse, report"),
        ("--strategy", "low_water(clamp=5)", "the strategy's clamp is 5: give a Clamp"),
        ("--strategy", "low_water(protect={'last': 5})", "low_water has the parameters: target=0.75"),
    ],
)
def test_an_option_that_cannot_be_read_is_named_with_what_there_is(option: str, value: str, said: str):
    done = run("prune", XML, option, value)
    assert done.returncode == 2
    assert said in done.stderr.decode()

"""Reading and writing files: no content of the user is lost if something goes wrong."""

import gzip
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import OPENAI, READERS, SENTENCE, XML, run, run_process
from tables import each_row

from autoprune.apps.cli import input_output
from autoprune.apps.cli.input_output import refuse_agent_log, write_output
from autoprune.apps.sessions import load
from autoprune.errors import SessionError

OLD = '[{"role": "user", "content": "what was here before"}]'
SMALL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); "
MAIN = "from autoprune.apps.cli import main; main()"


def old_file(folder: Path, name: str = "out.json") -> Path:
    path = folder / name
    path.write_text(OLD, encoding="utf-8")
    return path


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


# Whole or not at all


@pytest.mark.parametrize(
    "arguments", [("prune", XML, "--safe-zone", "20k", "-o"), ("check", XML, "--repair")], ids=["prune", "check"]
)
def test_a_full_disk_leaves_the_old_file_whole(tmp_path: Path, arguments: tuple[str, ...]):
    out = old_file(tmp_path)
    done = python(SMALL + MAIN, *arguments, str(out))
    assert (done.returncode, f"{out} cannot be written: File too large" in done.stderr) == (3, True), done.stderr
    assert out.read_text(encoding="utf-8") == OLD
    assert list(tmp_path.iterdir()) == [out]


WAITING = """
import os, time
def fsync(descriptor):  # a slow disk
    print("writing", flush=True)
    time.sleep(60)
os.fsync = fsync
"""


def test_an_interrupt_during_writing_leaves_the_old_file_whole(tmp_path: Path):
    out = old_file(tmp_path)
    command = [sys.executable, "-c", WAITING + MAIN, "prune", XML, "--safe-zone", "20k", "-o", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "writing\n"
        process.send_signal(signal.SIGINT)
        _, words = process.communicate(timeout=60)
    assert (process.returncode, words) == (130, "autoprune: interrupted\n")
    assert out.read_text(encoding="utf-8") == OLD
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o660])
def test_the_mode_of_a_file_is_kept_and_links_are_followed(tmp_path: Path, mode: int):
    out = old_file(tmp_path)
    out.chmod(mode)
    (tmp_path / "folder").mkdir()
    link, again = tmp_path / "folder" / "link.json", tmp_path / "again.json"
    link.symlink_to("../out.json")
    again.symlink_to(link)
    write_output(str(again), "new")
    assert (out.read_text(encoding="utf-8"), stat.S_IMODE(out.stat().st_mode)) == ("new", mode)
    assert (link.is_symlink(), again.is_symlink(), out.is_symlink()) == (True, True, False)


def test_a_new_file_has_the_default_mode_and_a_dangling_link_creates_its_target(tmp_path: Path):
    (tmp_path / "link").symlink_to("new")
    write_output(str(tmp_path / "link"), "text")
    (tmp_path / "plain").write_text("text", encoding="utf-8")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nowhere/out.json", "there is no folder .*nowhere"),
        (".", "Is a directory"),
        ("out.json/inside", "Not a directory"),
        ("x" * 300, "File name too long"),
    ],
)
def test_an_error_names_a_file_that_cannot_be_written(tmp_path: Path, name: str, why: str):
    out = old_file(tmp_path)
    with pytest.raises(SessionError, match=f"cannot be written: {why}"):
        write_output(str(tmp_path / name), "new")
    assert (out.read_text(encoding="utf-8"), list(tmp_path.iterdir())) == (OLD, [out])


def test_a_read_only_file_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    out = old_file(tmp_path)
    monkeypatch.setattr(input_output.os, "access", lambda path, mode: False)  # root may write everything
    with pytest.raises(SessionError, match="cannot be written: it is read-only"):
        write_output(str(out), "new")
    assert out.read_text(encoding="utf-8") == OLD


def test_devices_and_pipes_are_written_directly(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
        write_output(str(pipe), "text")
        assert reader.communicate(timeout=60)[0] == "text"
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    write_output(os.devnull, "text")
    with pytest.raises(SessionError, match="/dev/full cannot be written: No space left on device"):
        write_output("/dev/full", "text")


def test_dev_stdout_is_appended_to_and_not_replaced(tmp_path: Path):
    out = old_file(tmp_path)
    with out.open("ab") as appended:
        command = [sys.executable, "-m", "autoprune", "prune", XML, "--safe-zone", "20k", "-o", "/dev/stdout"]
        subprocess.run(command, stdout=appended, stderr=subprocess.DEVNULL, check=True)
        appended.write(b"more")
    assert out.read_text(encoding="utf-8").endswith("more")


def test_a_gz_file_is_compressed_to_the_same_bytes_each_time(tmp_path: Path):
    packed, out = tmp_path / "session.jsonl.gz", tmp_path / "out.json.gz"
    packed.write_bytes(gzip.compress(Path(OPENAI).read_bytes()))
    assert run("prune", str(packed), "--safe-zone", "20k", "-o", str(out)).returncode == 0
    plain = run("prune", OPENAI, "--safe-zone", "20k").stdout
    assert gzip.decompress(out.read_bytes()) == plain
    first = out.read_bytes()
    write_output(str(out), plain.decode())
    assert out.read_bytes() == first


def test_a_session_in_utf_16_is_read_from_a_file_and_from_standard_input(tmp_path: Path):
    data = Path(XML).read_text(encoding="utf-8").encode("utf-16")
    (tmp_path / "s.json").write_bytes(data)
    plain = run("prune", XML, "--safe-zone", "20k").stdout
    assert run("prune", str(tmp_path / "s.json"), "--safe-zone", "20k").stdout == plain
    assert run("prune", "-", "--safe-zone", "20k", stdin=data).stdout == plain


# An agent's own log


@pytest.mark.parametrize("sample", ["claude-code.jsonl", "codex.jsonl", "gemini-cli.json"])
def test_an_agents_log_is_overwritten_only_with_force(tmp_path: Path, sample: str):
    log = tmp_path / "log.json"
    data = (READERS / sample).read_bytes()
    agent = load(data.decode(), "s").agent
    log.write_bytes(data)
    for arguments in (("prune", str(log), "-o", str(log)), ("check", str(log), "--repair", str(log))):
        done = run(*arguments)
        words = done.stderr.decode()
        assert (done.returncode, done.stdout, log.read_bytes()) == (3, b"", data)
        assert f"{log} is a session file of {agent}" in words
        assert "would be lost: times, usage" in words
        assert "--force" in words
    assert run("prune", str(log), "--dry-run", "-o", str(log)).returncode == 0
    assert run("prune", str(log), "-o", str(log), "--force").returncode == 0
    written = load(log.read_text(encoding="utf-8"), "s")
    assert written.agent is None
    assert run("prune", str(log), "-o", str(log)).returncode == 0


@each_row(("lines", "size"), [(1, ""), (2, " of 2 lines"), (3, " of 3 lines")])
def test_the_refusal_counts_the_lines_of_the_log(tmp_path: Path, lines: int, size: str):
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join((READERS / "pi.jsonl").read_text(encoding="utf-8").splitlines()[:lines]), encoding="utf-8")
    with pytest.raises(SessionError, match=f"is a session file of pi{size}: pi cannot continue"):
        refuse_agent_log(str(log), force=False)


# Lines that are broken


def test_a_broken_line_is_an_error_unless_it_is_skipped(tmp_path: Path):
    lines = Path(OPENAI).read_text(encoding="utf-8").splitlines()
    file = tmp_path / "s.jsonl"
    file.write_text("\n".join([*lines[:3], "oops", *lines[3:]]), encoding="utf-8")
    refused = run("prune", str(file), "--safe-zone", "20k")
    assert (refused.returncode, refused.stdout) == (3, b"")
    assert b"broken JSON at line 4, column 1: Expecting value; --skip-broken leaves such lines out" in refused.stderr
    done = run("prune", str(file), "--safe-zone", "20k", "--skip-broken")
    assert (done.returncode, done.stdout) == (0, run("prune", OPENAI, "--safe-zone", "20k").stdout)
    assert b"note: line 4 is broken, left out" in done.stderr


def test_an_incomplete_last_line_is_skipped_with_a_note(tmp_path: Path):
    file = tmp_path / "s.jsonl"
    file.write_bytes(Path(OPENAI).read_bytes()[:-20])
    done = run("check", str(file), "--json")
    assert (done.returncode, b"is cut off, left out" in done.stderr) == (0, True)


def test_a_bad_byte_in_a_log_is_noted_and_the_log_is_not_overwritten(tmp_path: Path):
    data = (READERS / "claude-code.jsonl").read_bytes()
    at = data.index(b'"role": "user", "content": "') + 30
    file, out = tmp_path / "s.jsonl", tmp_path / "out.json"
    file.write_bytes(data[:at] + b"\xff" + data[at:])
    done = run("prune", str(file), "-o", str(out))
    assert (done.returncode, b"which stand for bytes that are not UTF-8: 1" in done.stderr) == (0, True)
    assert "\ufffd" in out.read_text(encoding="utf-8")
    refused = run("prune", str(file), "-o", str(file))
    assert (refused.returncode, b"is a session file of claude-code" in refused.stderr) == (3, True)
    assert file.read_bytes() == data[:at] + b"\xff" + data[at:]


def test_a_bad_byte_outside_of_a_string_is_an_error_unless_its_line_is_skipped(tmp_path: Path):
    lines = Path(OPENAI).read_bytes().splitlines()
    file = tmp_path / "s.jsonl"
    file.write_bytes(b"\n".join([*lines[:3], b'{"role": \xff}', *lines[3:]]))
    refused = run("prune", str(file), "--safe-zone", "20k")
    assert (refused.returncode, refused.stdout) == (3, b"")
    assert b"line 4, column 10: Expecting value; --skip-broken" in refused.stderr
    done = run("prune", str(file), "--safe-zone", "20k", "--skip-broken")
    assert (done.returncode, done.stdout) == (0, run("prune", OPENAI, "--safe-zone", "20k").stdout)


# Readers of installed packages

READER = """
from autoprune.apps.sessions import Conversation, Reader, fields

READER = Reader("mine", lambda values: "mine" in fields(values[0]), lambda values: [Conversation(values[0]["mine"])])
"""


def test_an_installed_reader_is_found_by_its_name(tmp_path: Path):
    (tmp_path / "my_agent.py").write_text(READER, encoding="utf-8")
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: mine\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(
        "[autoprune.readers]\nmine = my_agent:READER\n[autoprune.strategies]\nours = my_agent:Ours\n", encoding="utf-8"
    )
    file = tmp_path / "session.json"
    file.write_text(json.dumps({"mine": [{"role": "user", "content": "Go."}]}), encoding="utf-8")
    environ = {"PYTHONPATH": os.pathsep.join((str(tmp_path), *filter(None, (os.environ.get("PYTHONPATH"),))))}
    done = run_process("prune", str(file), "--reader", "mine", environ=environ)
    assert (done.returncode, json.loads(done.stdout)) == (0, [{"role": "user", "content": "Go."}]), done.stderr
    assert b"note: mine session" in done.stderr
    assert run_process("strategies", environ=environ).stdout.rstrip().endswith(b"From installed packages: ours")
    unknown = run_process("prune", str(file), "--reader", "mien", environ=environ)
    assert (unknown.returncode, b"did you mean mine?" in unknown.stderr) == (2, True), unknown.stderr


# Exit codes


@pytest.mark.full
@each_row(
    ("is_both", "arguments"),
    [
        (False, ("prune", XML, "--safe-zone", "1m")),
        (False, ("prune", XML, "--safe-zone", "20k", "--explain")),
        (True, ("prune", XML, "--safe-zone", "20k", "--json")),
        (False, ("strategies",)),
        (True, ("check", XML, "--json")),
        (True, ("prune", "-h")),
    ],
)
def test_a_closed_pipe_exits_with_141_without_a_message(is_both: bool, arguments: tuple[str, ...]):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "autoprune", *arguments]
    words = writing if is_both else subprocess.PIPE
    done = subprocess.run(command, stdout=writing, stderr=words, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, None if is_both else b"")


@pytest.mark.full
@each_row("unbuffered", ["", "1"])
def test_a_pipe_that_closes_in_the_middle_exits_with_141(unbuffered: str):
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "autoprune", "prune", XML, "--safe-zone", "1m"]
    environ = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(command, stdout=writing, stderr=subprocess.PIPE, env=environ) as process:
        os.close(writing)
        os.read(reading, 10)
        os.close(reading)
        assert (process.wait(), process.stderr and process.stderr.read()) == (141, b"")


ORPHAN = [
    {"role": "user", "content": "Fix it."},
    {"role": "tool", "tool_call_id": "gone", "content": "left behind"},
]


def test_a_full_standard_output_is_an_error():
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "autoprune", "prune", XML, "--safe-zone", "1m"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (
        3,
        b"autoprune: standard output cannot be written: No space left on device\n",
    )


@pytest.mark.parametrize(
    ("messages", "code"), [(ORPHAN, 0), ([*ORPHAN, {"role": "stranger", "content": "x"}], 4)], ids=["mended", "not"]
)
def test_a_repair_succeeds_if_no_rule_is_broken_afterwards(tmp_path: Path, messages: list[object], code: int):
    broken, fixed = tmp_path / "broken.json", tmp_path / "fixed.json"
    broken.write_text(json.dumps(messages), encoding="utf-8")
    done = run("check", str(broken), "--repair", str(fixed), "--provider", "openai")
    assert (done.returncode, b"still broken" in done.stderr) == (code, bool(code)), done.stderr.decode()
    assert run("check", str(fixed), "--provider", "openai").returncode == code
    assert SENTENCE not in fixed.read_text(encoding="utf-8")

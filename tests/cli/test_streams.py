"""No traceback for other encodings, or Ctrl-C while the commands are loading."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import OPENAI, XML
from tables import each_row

AUTOPRUNE = [sys.executable, "-m", "autoprune"]
ARROWS = [{"role": "user", "content": "见 → … \udce9"}, {"role": "assistant", "content": "naïve — “yes”"}]
REPLAY = ("--strategy", "low_water", "--safe-zone", "20k", "--jobs", "1")


def run(*arguments: str, encoding: str = "", folder: Path | str = ".") -> tuple[int, bytes, bytes]:
    """Run the command. Returns exit code and outputs."""
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    environ |= {"PYTHONIOENCODING": encoding} if encoding else {}
    command = [*AUTOPRUNE, *arguments]
    done = subprocess.run(command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert b"Traceback" not in done.stderr
    assert b"Error" not in done.stderr
    return done.returncode, done.stdout, done.stderr


# Every command that prints tables, arrows or text of the user, with its exit code.
PRINTING = [
    (("prune", XML, "-s", "20k", "--explain"), 0),
    (("prune", XML, "-s", "20k", "--dry-run"), 0),
    (("prune", OPENAI, "-s", "20k", "--strategy", "hybrid", "--explain"), 0),
    (("stats", XML, OPENAI), 0),
    (("check", OPENAI), 0),
    (("replay", XML, *REPLAY), 0),
    (("tune", XML, "--strategy", "low_water @ 20k", "--jobs", "1"), 0),
    (("strategies",), 0),
    (("settings",), 0),
    (("savings",), 0),
    (("--help",), 0),
    (("prune", "--help"), 0),
    (("run", "--print", "claude"), 0),
    (("prune", "gone → \udce9.json"), 3),
    (("recall", "→", "--archive", "nowhere"), 3),
]


@pytest.mark.full
@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
@each_row(("arguments", "code"), PRINTING)
def test_characters_that_an_encoding_lacks_are_replaced(
    arguments: tuple[str, ...], code: int, encoding: str, tmp_path: Path
):
    returned, out, err = run(*arguments, encoding=encoding, folder=tmp_path)
    assert returned == code
    is_clicks = encoding == "ascii" and "--help" in arguments  # click writes UTF-8 in place of ASCII
    assert out.decode("utf-8" if is_clicks else encoding) + err.decode(encoding)


@each_row("encoding", ["ascii", "cp1252", "utf-8"])
def test_results_keep_every_character_in_any_encoding(encoding: str, tmp_path: Path):
    session = tmp_path / "session.json"
    session.write_text(json.dumps(ARROWS), encoding="utf-8")
    _, out, _ = run("prune", str(session), "-o", "-", encoding=encoding)
    assert json.loads(out) == ARROWS
    _, out, _ = run("check", str(session), "--repair", "-", encoding=encoding)
    assert json.loads(out) == ARROWS
    _, out, _ = run("prune", XML, "-s", "20k", "--json", "--model", "naïve →", encoding=encoding)
    assert "→" in str(json.loads(out.decode(encoding))["fallbacks"])


INTERRUPT_A_CLASS = """
import sys
from importlib.abc import MetaPathFinder

class Interrupting:
    def __set_name__(self, owner, name):
        raise KeyboardInterrupt

class Finder(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == interrupted:
            type("Loading", (), {"field": Interrupting()})

interrupted = sys.argv.pop()
sys.argv = ["autoprune", "strategies"]
sys.meta_path.insert(0, Finder())
from autoprune.apps.cli import main
main()
"""


@each_row("module", ["autoprune.pruners.result", "autoprune.apps.cli.tune", "autoprune.strategies.presets"])
def test_ctrl_c_while_a_class_is_created_is_one_line(module: str):
    """The package, the commands, and what a command loads are imported at different times."""
    command = [sys.executable, "-c", INTERRUPT_A_CLASS, module]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == "autoprune: interrupted\n"


@pytest.mark.full
def test_ctrl_c_is_one_line_at_any_time():
    """Ctrl-C may come at any time after the first import of the package."""
    seen = set()
    for number in range(24):
        command = [sys.executable, "-X", "faulthandler", *AUTOPRUNE[1:], "replay", XML, *REPLAY]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            wait_until(process, loaded=number)
            process.send_signal(signal.SIGINT)
            err = error_output(process)
        seen.add(err.decode().rpartition("\n")[0].rpartition("\n")[2])
        # Python itself may be interrupted before the first import: a clone's finder, which it loads then, has our name.
        assert b"Traceback" not in err or b"autoprune" not in err or b"init_import_site" in err
        assert process.returncode in (-signal.SIGINT, 130, 0, 1), err.decode()
    assert "autoprune: interrupted" in seen


def error_output(process: subprocess.Popen[bytes]) -> bytes:
    """Wait for a process that should end soon, and return its standard error. Show the stacks of one that hangs."""
    try:
        return process.communicate(timeout=60)[1]
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        return process.communicate()[1]


def wait_until(process: subprocess.Popen[bytes], loaded: int) -> None:
    """Wait longer for larger numbers, so that interrupts come at different stages of loading."""
    time.sleep(0.1 + 0.05 * loaded)

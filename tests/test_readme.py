"""Every example in the README and in docs/ runs as it stands."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_the_python_examples_run_one_after_the_other(capsys: pytest.CaptureFixture[str]):
    names: dict[str, object] = {}
    found = blocks("python")
    for block in found:
        exec(compile(block, "README.md", "exec"), names)
    assert len(found) >= 4
    assert "cleared" in capsys.readouterr().out


COMMANDS = [line for block in blocks("bash") for line in block.splitlines() if not line.startswith("python3 -m venv")]


def test_there_are_commands():
    assert len(COMMANDS) >= 5


def test_the_commands_run_one_after_the_other(tmp_path: Path):
    for name in ("fixtures", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    for command in COMMANDS:
        words = shlex.split(command)
        program = {"autoprune": [sys.executable, "-m", "autoprune"], "python": [sys.executable]}[words[0]]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [*program, *words[1:]], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert done.stdout or done.stderr


def test_the_first_command_prints_what_the_readme_shows():
    first = re.search(r"\.venv/bin/autoprune (prune .*)\n```\n\n```\n(.*?)```", README, re.DOTALL)
    assert first
    command = [sys.executable, "-m", "autoprune", *shlex.split(first[1])]
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert [line.rstrip() for line in done.stderr.strip().splitlines()] == first[2].strip().splitlines()


def test_every_file_that_the_pages_link_to_exists():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    for page in pages:
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).stat().st_size > 0, f"{page.name} links to {link}"

"""What a release needs fits together: the parts of the checks, the workflows, the Dockerfile, the completion."""

import configparser
import re
import subprocess

import pytest
from pages import ROOT
from typer.testing import CliRunner

from autoprune.apps.cli.command_table import app

CHECKS = (ROOT / ".github" / "workflows" / "checks.yml").read_text(encoding="utf-8")
SCRIPT = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
SETUP = (ROOT / "setup.cfg").read_text(encoding="utf-8")
PARTS = re.search(r"^parts=\((.*)\)", SCRIPT, re.MULTILINE)


def test_each_part_of_the_checks_is_a_function_and_runs_on_github():
    assert PARTS
    parts = PARTS[1].split()
    assert re.search(r"part: \[(.*)\]", CHECKS)[1].split(", ") == parts  # type: ignore[index]
    functions = set(re.findall(r"^(\w+)\(\) \{", SCRIPT, re.MULTILINE))
    assert functions == {*parts, "prepare", "browser"}


def test_the_checks_run_on_every_python_that_the_package_names():
    named = re.findall(r"Programming Language :: Python :: (3\.\d+)$", SETUP, re.MULTILINE)
    assert named
    assert [each for each in named if f'"{each}"' not in CHECKS] == []


def test_an_unknown_part_is_an_error_before_anything_runs():
    done = subprocess.run([ROOT / ".ci" / "run", "lnit"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("no part lnit; there are: tests ")


def test_actions_are_pinned_to_versions():
    used = [line for path in (ROOT / ".github" / "workflows").glob("*.yml") for line in path.read_text().splitlines()]
    actions = [line.partition("uses: ")[2] for line in used if "uses: " in line]
    assert len(actions) >= 7
    assert [each for each in actions if not re.fullmatch(r"[\w./-]+@v\d+(\.\d+){0,2}", each)] == []


def test_the_image_copies_what_the_build_needs_and_installs_extras_that_exist():
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    copied = re.search(r"^COPY (setup.*) \./$", image, re.MULTILINE)
    assert copied
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert [name for name in (*copied[1].split(), "autoprune") if f"!{name}" not in ignored] == []
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    extras = re.search(r"'\.\[(.*)\]'", image)
    assert extras
    assert set(extras[1].split(",")) <= set(setup["options.extras_require"])
    assert "\nUSER 10001" in image


@pytest.mark.parametrize(
    ("words", "offered"),
    [("autoprune pr", "prune\nproxy"), ("autoprune prune --sa", "--safe-zone"), ("autoprune run cl", "claude\ncline")],
)
def test_a_shell_completes_commands_options_and_assistants(words: str, offered: str):
    environ = {
        "_AUTOPRUNE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = CliRunner().invoke(app, [], env=environ, prog_name="autoprune")
    assert done.stdout.strip() == offered

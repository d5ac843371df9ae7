"""Every example in the README runs and prints what the README shows."""

import contextlib
import io
import re
import runpy
import shlex
from pathlib import Path

import pytest
from command_line import run_text
from pages import ROOT, bare_clone, blocks, run_commands, run_in_clone

README = (ROOT / "README.md").read_text(encoding="utf-8")
LONGEST = 120  # lines: the README is a front page, not a manual


def test_the_loop_prints_what_the_readme_shows():
    code, shown = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", README, re.DOTALL)[0]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue() == shown


def test_the_readme_has_one_python_example():
    assert len(blocks(README, "python")) == 1


def test_the_first_command_prints_what_the_readme_shows():
    first = re.search(r"\.venv/bin/autoprune (prune [^\n]*)\n```\n\n```\n(.*?)```", README, re.DOTALL)
    assert first
    done = run_text(*shlex.split(first[1]), folder=ROOT)
    assert [line.rstrip() for line in done.stderr.strip().splitlines()] == first[2].strip().splitlines()


@pytest.mark.full
def test_the_demo_is_a_session_that_replay_advises_to_prune():
    done = run_text("replay", "fixtures/demo.jsonl", folder=ROOT, environ={"COLUMNS": "1000"})
    assert re.search("^Use cache_aware.*, as `autoprune run` does: ", done.stdout, re.MULTILINE)
    says = re.search(r'of which `autoprune replay fixtures/demo.jsonl` says "([^"]*)"', README)
    assert says
    assert f"At API list prices {says[1]} with `autoprune run`: " in done.stdout
    assert "broke a guarantee" not in done.stdout


def test_the_command_for_the_tests_is_the_one_of_contributors_and_of_every_change():
    (whole,) = re.findall(r"`(python3 -m venv [^`]*pytest)`", README)
    assert f"\n    {whole}\n" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert [step for step in whole.split(" && ") if f"\n    {step}" not in script] == []


def test_the_commands_run_one_after_the_other(tmp_path: Path):
    run_commands(README, tmp_path)


@pytest.mark.full
def test_the_installed_commands_run_in_a_bare_clone(tmp_path: Path):
    clone = bare_clone(tmp_path)
    steps = [step for block in blocks(README, "bash") for line in block.splitlines() for step in line.split(" && ")]
    run = [step for step in steps if step.startswith(".venv/bin/autoprune ")]
    assert run
    for step in run:
        done = run_in_clone(step, clone)
        assert done.returncode == 0, f"{step}\n{done.stderr}"


def test_the_readme_is_a_front_page():
    assert len(README.splitlines()) <= LONGEST


def test_every_file_that_the_readme_names_exists():
    named = re.findall(r"(?:`|\]\()((?:docs|examples|fixtures)/[\w./-]+|\w+\.md)", README)
    assert "docs/loop.md" in named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_description_on_the_package_index_has_no_relative_links():
    shown = runpy.run_path(str(ROOT / "setup.py"))["long_description"]()
    assert "I have a loop or a framework" in shown
    assert re.findall(r"\]\((?!https?:|#)[^)]*\)", shown) == []


def test_the_picture_and_its_caption_show_the_current_figures():
    """If this fails, run `python docs/pictures.py` and copy the last figures to the README."""
    pictures = runpy.run_path(str(ROOT / "docs" / "pictures.py"))
    known = pictures["figures"](pictures["recorded"]())
    assert pictures["described"](known) in pictures["PICTURE"].read_text(encoding="utf-8")
    last = {name: f"{figures[-1]:,}" for name, figures in known.items()}
    shown = f"{last['tool_output_cleanup']} by tool_output_cleanup and {last['cache_aware']} by cache_aware."
    for page in (README, (ROOT / "docs" / "index.md").read_text(encoding="utf-8")):
        caption = re.search(r"!\[The size of each prompt ([^\]]*)\]", page)
        assert caption
        assert f": {last['not pruned']} tokens in the last request without pruning;" in caption[1]
        assert caption[1].endswith(shown)

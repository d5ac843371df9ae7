"""The examples in docs/ run and print what the pages show."""

import json
import re
import shutil
import types
from pathlib import Path
from typing import Any

import pytest
from command_line import run_text
from pages import ROOT, bare_clone, blocks, run_commands, run_in_clone
from shipped import PRESETS

from autoprune import AgenticConversationPruner, PruneArgs, SettingsError
from autoprune.apps.cli.input_output import load_readers
from autoprune.strategies.catalog import clearing_named, folding_named

DOCS = ROOT / "docs"
SENTENCE = AgenticConversationPruner(None).replacement_message
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
HERE = [page for page in PAGES if not page.startswith("integrations/")]  # those are run in tests/integrations
OTHERWISE = {"folding.md", "formats.md"}  # tested below


def code(page: str) -> list[str]:
    """The Python code on a page."""
    return blocks(text(page), "python")


def text(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [page for page in HERE if code(page) and page not in OTHERWISE])
def test_the_examples_of_a_page_run_one_after_the_other(page: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    for block in code(page):
        exec(compile(block, page, "exec"), names)


def test_the_ledger_example_prints_the_ledger_on_the_page(capsys: pytest.CaptureFixture[str]):
    exec(compile(code("ledger.md")[0], "ledger.md", "exec"), {})
    shown = "".join(line.removeprefix("    ") for line in text("ledger.md").splitlines(keepends=True))
    assert capsys.readouterr().out in shown


@pytest.mark.full
@pytest.mark.parametrize("page", [page for page in HERE if blocks(text(page), "bash")])
def test_the_commands_of_a_page_run_one_after_the_other(page: str, tmp_path: Path):
    run_commands(text(page), tmp_path)


SESSION_ID = "0a6c0c4e-2222-4f6f-9a57-000000000001"
# The beginnings of commands that cannot run in a clone, and why.
NOT_IN_A_CLONE = {
    "autoprune replay ~/.claude/projects --parquet": "it needs an extra",
    "autoprune doctor": "it needs an assistant",
    "autoprune proxy": "it serves until it is stopped; tests/proxy starts it",
    "autoprune run": "it needs an assistant; tests/e2e runs four",
    "autoprune resume c": "it needs an old session; tests/cli/test_resume.py writes one",
    "python benchmarks/": "they take long, or need other repositories",
    "python examples/edit_loop.py --base-url": "it needs a model",
}
FENCED = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"^ {4}(.*)$", re.MULTILINE)


def commands(page: str) -> list[str]:
    """Return the commands in the blocks of a page, fenced or indented."""
    lines = [line for block in FENCED.findall(page) for line in block.splitlines()]
    return [line for line in (*lines, *INDENTED.findall(page)) if line.startswith(("autoprune ", "python "))]


@pytest.mark.full
def test_the_commands_of_all_pages_run_in_a_bare_clone(tmp_path: Path):
    clone = bare_clone(tmp_path)
    project = tmp_path / ".claude" / "projects" / "-home-me-shop"
    for folder, name in ((clone / "sessions" / "assistants", "one.json"), (project, f"{SESSION_ID}.jsonl")):
        folder.mkdir(parents=True)
        shutil.copyfile(ROOT / "fixtures" / "sessions" / "edit_loop_openai.jsonl", folder / name)
    skipped, count = set(), 0
    for page in HERE:
        for command in commands(text(page)):
            if reason := next((each for each in NOT_IN_A_CLONE if command.startswith(each)), None):
                skipped.add(reason)
                continue
            done = run_in_clone(command, clone)
            assert done.returncode == 0, f"{page}: {command}\n{done.stderr}"
            count += 1
    assert skipped == {*NOT_IN_A_CLONE}
    assert count > 20


def test_every_file_that_a_page_links_to_exists():
    for page in [ROOT / "CONTRIBUTING.md", *(DOCS / name for name in PAGES)]:
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).stat().st_size > 0, f"{page.name} links to {link}"


def test_every_page_is_in_the_menu_of_the_site():
    menu = re.findall(r"([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(menu) == PAGES


def test_no_extra_is_installed_by_the_name_of_the_package():
    """There is no release, so anybody could register the name on a package index."""
    folders = (ROOT / name for name in ("autoprune", "docs", "examples"))
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".md", ".js")]
    assert len(files) > 100
    named = re.compile(r"autoprune\[|pip install '?\"?autoprune\b")
    assert [path.name for path in (ROOT / "README.md", *files) if named.search(path.read_text(encoding="utf-8"))] == []
    assert named.search("pip install 'autoprune[proxy]'")


def test_the_glossary_is_short():
    words = re.findall(r"^\| (\w[\w ]*) \|", text("glossary.md"), re.MULTILINE)[1:]
    assert len(words) == len({*words}) <= 30


def vercel() -> types.ModuleType:
    """The format in docs/formats.md, as a module."""
    module = types.ModuleType("vercel")
    exec(code("formats.md")[0], module.__dict__)
    return module


def call(number: int) -> dict[str, Any]:
    part = {"type": "tool-call", "toolCallId": f"c{number}", "toolName": "read", "input": {"path": f"{number}.py"}}
    return {"role": "assistant", "content": [{"type": "text", "text": "I look."}, part]}


def result(number: int, text: str, kind: str = "text") -> dict[str, Any]:
    output = {"type": kind, "value": text}
    part = {"type": "tool-result", "toolCallId": f"c{number}", "toolName": "read", "output": output}
    return {"role": "tool", "content": [part]}


def test_the_format_of_the_page_is_pruned_like_the_included_ones():
    text = "some words of a file " * 100
    messages = [
        {"role": "user", "content": "Fix it."},
        *(call(0), result(0, text), call(1), result(1, text, "error-text"), call(2), result(2, text)),
    ]
    pruner = AgenticConversationPruner(PruneArgs(600), formats=[vercel()])
    outcome = pruner.prune(messages)
    assert outcome.conversation == [
        messages[0],
        *(call(0), result(0, SENTENCE), call(1), result(1, SENTENCE, "error-text"), call(2), result(2, text)),
    ]
    assert [row["failed"] for row in outcome.report.rows] == [False, True, False]
    assert [row["target"] for row in outcome.report.rows] == ["0.py", "1.py", "2.py"]
    assert pruner.prune_conversations(outcome.conversation) is outcome.conversation


def test_the_page_names_the_included_formats():
    from autoprune.wire import SHIPPED

    page = text("formats.md")
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == [known.NAME for known in SHIPPED]


def test_the_reader_of_the_page_works_on_the_command_line(tmp_path: Path):
    *_, reader, usage, _ = code("session_files.md")
    (tmp_path / "my_agent.py").write_text(reader)
    log = re.findall(r'"""\n(.*?)"""', usage, re.DOTALL)[0]
    (tmp_path / "session.jsonl").write_text(log)
    done = run_text("prune", "session.jsonl", "--reader", "my_agent.py:READER", folder=tmp_path)
    assert [message["role"] for message in json.loads(done.stdout)] == ["user", *["assistant", "tool"] * 2]
    assert "note: my-agent session\nnote: ticks of the clock, left out: 1\n" in done.stderr
    assert set(re.findall(r"from (autoprune\S*) import", reader)) == {"autoprune.apps.sessions"}


def test_the_provider_of_the_page_works_in_python_and_on_the_command_line(tmp_path: Path):
    _, provider, usage = code("validation.md")
    names: dict[str, object] = {}
    for block in (provider, usage):
        exec(compile(block, "validation.md", "exec"), names)
    assert names["messages"] == [{"role": "user", "content": "What is in a.py?"}]
    (tmp_path / "gateway.py").write_text(provider)
    (tmp_path / "session.json").write_text('[{"role": "user", "name": "ann", "content": "Go."}]')
    done = run_text("check", "session.json", "--provider", "gateway.py:GATEWAY", "--json", folder=tmp_path)
    assert (done.returncode, [problem["rule"] for problem in json.loads(done.stdout)]) == (4, ["unknown_field"])


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("nothing", "there is no reader 'nothing'"),
        ("reader.py", "the reader is 'reader.py': write it as path/to/file.py:NAME"),
        ("nowhere.py:READER", "nowhere.py cannot be read: No such file or directory"),
        ("mine.py:OTHER", "mine.py has no reader OTHER: it needs OTHER = Reader(name, detect, read)"),
        ("broken.py:READER", "broken.py is not valid Python: invalid syntax at line 1"),
        ("missing.py:READER", "missing.py cannot be run: No module named 'nothing_such'"),
    ],
)
def test_a_reader_that_cannot_be_loaded_is_an_error(
    named: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    for file, content in {"mine.py": "OTHER = 3", "broken.py": "1 +* 2", "missing.py": "import nothing_such"}.items():
        Path(file).write_text(content)
    with pytest.raises(SettingsError, match=re.escape(said)):
        load_readers(named)


def test_the_page_on_folding_runs(capsys: pytest.CaptureFixture[str]):
    names: dict[str, object] = {}
    for block in code("folding.md"):
        exec(compile(block, "folding.md", "exec"), names)
    assert "messages summed up, within the safe zone of 10,240" in capsys.readouterr().out


def test_the_page_on_strategies_names_their_defaults():
    named = re.findall(r"^- `(\w+)((?:\(.*?\))?)`", text("strategies.md"), re.MULTILINE)
    assert [name for name, _ in named] == ["tool_output_cleanup", "low_water", "cache_aware", "observation_masking"]
    for name, parameters in named:
        assert clearing_named(name + parameters) == clearing_named(name)


def test_the_page_on_folding_names_every_strategy_with_its_defaults():
    page = text("folding.md")
    named = re.findall(r"^\| `(\w+)(?:\((.*)\))?` \|", page, re.MULTILINE)
    assert [name for name, _ in named] == ["summarize", "truncate", "hybrid", *[*PRESETS][3:]]
    for name, parameters in named:
        assert folding_named(f"{name}({parameters})") == PRESETS[name]()

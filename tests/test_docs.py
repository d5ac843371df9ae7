"""What the pages in docs/ show is run as it stands there."""

import re
import types
from pathlib import Path
from typing import Any

import pytest
from shipped import PRESETS

from autoprune import AgenticConversationPruner, PruneArgs
from autoprune.strategies.by_name import folding_named

DOCS = Path(__file__).parent.parent / "docs"
SENTENCE = AgenticConversationPruner(None).replacement_message


def blocks(page: str) -> list[str]:
    """The Python code on a page."""
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


def vercel() -> types.ModuleType:
    """The format that docs/formats.md writes, as a module."""
    module = types.ModuleType("vercel")
    exec(blocks("formats.md")[0], module.__dict__)
    return module


def call(number: int) -> dict[str, Any]:
    part = {"type": "tool-call", "toolCallId": f"c{number}", "toolName": "read", "input": {"path": f"{number}.py"}}
    return {"role": "assistant", "content": [{"type": "text", "text": "I look."}, part]}


def result(number: int, text: str, kind: str = "text") -> dict[str, Any]:
    output = {"type": kind, "value": text}
    part = {"type": "tool-result", "toolCallId": f"c{number}", "toolName": "read", "output": output}
    return {"role": "tool", "content": [part]}


def test_the_format_of_the_page_is_pruned_like_those_that_ship():
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


def test_the_page_names_the_formats_that_ship():
    from autoprune.formats.detection import SHIPPED

    page = (DOCS / "formats.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == [known.NAME for known in SHIPPED]


def test_the_page_about_session_files_runs_as_it_stands(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(DOCS.parent)
    found = blocks("session_files.md")
    for block in found:
        exec(compile(block, "session_files.md", "exec"), {})
    assert found


def test_the_page_about_the_rules_runs_as_it_stands():
    names: dict[str, object] = {}
    found = blocks("validation.md")
    for block in found:
        exec(compile(block, "validation.md", "exec"), names)
    assert found


def test_the_page_on_folding_runs(capsys: pytest.CaptureFixture[str]):
    names: dict[str, object] = {}
    for block in blocks("folding.md"):
        exec(compile(block, "folding.md", "exec"), names)
    assert "messages summed up, within the safe zone of 10,240" in capsys.readouterr().out


def test_the_page_on_folding_names_every_strategy_with_its_defaults():
    page = (DOCS / "folding.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `(\w+)(?:\((.*)\))?` \|", page, re.MULTILINE)
    assert [name for name, _ in named] == ["summarize", "truncate", "hybrid", *[*PRESETS][3:]]
    for name, parameters in named:
        assert folding_named(f"{name}({parameters})") == PRESETS[name]()

"""What the pages on frameworks show, and the examples of them, run as they stand there."""

import re
import subprocess
import sys
from typing import Any

import pytest
from pages import ROOT, blocks


def names_of_langchain() -> dict[str, Any]:
    agents = pytest.importorskip("langchain.agents")
    prebuilt = pytest.importorskip("langgraph.prebuilt")
    from langchain_loop import Scripted, read_file

    made = {"create_agent": agents.create_agent, "create_react_agent": prebuilt.create_react_agent}
    return {**made, "model": Scripted(), "tools": [read_file]}


def names_of_pydantic_ai() -> dict[str, Any]:
    library = pytest.importorskip("pydantic_ai")
    return {"Agent": library.Agent, "model": "test", "tools": []}


NAMES = {"langchain": names_of_langchain, "pydantic_ai": names_of_pydantic_ai}


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
@pytest.mark.parametrize("page", NAMES)
def test_the_examples_of_a_page_run_one_after_the_other(page: str):
    names = NAMES[page]()
    text = (ROOT / "docs" / "integrations" / f"{page}.md").read_text(encoding="utf-8")
    for block in blocks(text, "python"):
        exec(compile(block, page, "exec"), names)


@pytest.mark.parametrize("package", ["langchain", "pydantic_ai"])
def test_an_example_prunes_what_is_sent_and_keeps_what_it_has_read(package: str):
    pytest.importorskip(package)
    command = [sys.executable, f"examples/{package}_agent.py"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=True).stdout
    *pruned, last = said.splitlines()
    (kept,) = re.findall(r"([\d,]+) characters", last)
    assert int(kept.replace(",", "")) == sum(len(page.read_text(encoding="utf-8")) for page in ROOT.glob("docs/*.md"))
    assert all(re.fullmatch(r"[\d,]+ → [\d,]+ tokens, \d+ of \d+ results cleared", line) for line in pruned)
    assert len(pruned) > 5

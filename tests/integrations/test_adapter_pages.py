"""The code on the pages about adapters, and the examples of them, run."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from pages import ROOT, blocks
from strict_provider.server import Provider


def names_of_openai_agents() -> dict[str, Any]:
    agents = pytest.importorskip("agents")
    pytest.importorskip("agents.testing")
    from openai_agents_loop import agent, scripted

    return {
        "asyncio": asyncio,
        "ModelSettings": agents.ModelSettings,
        "RunConfig": agents.RunConfig,
        "Runner": agents.Runner,
        "agent": agent(scripted(last=3)),
    }


def names_of_adk() -> dict[str, Any]:
    pytest.importorskip("google.adk")
    from adk_loop import App, LlmAgent, Scripted, read_file

    return {"App": App, "LlmAgent": LlmAgent, "model": Scripted(), "tools": [read_file]}


def names_of_strands() -> dict[str, Any]:
    strands = pytest.importorskip("strands")
    from strands_loop import Scripted, read_file

    return {"Agent": strands.Agent, "model": Scripted(), "tools": [read_file]}


def names_of_langchain() -> dict[str, Any]:
    agents = pytest.importorskip("langchain.agents")
    prebuilt = pytest.importorskip("langgraph.prebuilt")
    from langchain_loop import Scripted, read_file

    made = {"create_agent": agents.create_agent, "create_react_agent": prebuilt.create_react_agent}
    return {**made, "model": Scripted(), "tools": [read_file]}


def names_of_pydantic_ai() -> dict[str, Any]:
    library = pytest.importorskip("pydantic_ai")
    return {"Agent": library.Agent, "model": "test", "tools": []}


def names_of_clients() -> dict[str, Any]:
    return {"OpenAI": pytest.importorskip("openai").OpenAI, "model": "gpt-4.1", **REQUEST}


def names_of_litellm() -> dict[str, Any]:
    return {"litellm": pytest.importorskip("litellm"), "model": "openai/gpt-4.1", **REQUEST}


READ_FILE = {"type": "function", "function": {"name": "read_file", "parameters": {"type": "object", "properties": {}}}}
REQUEST = {"messages": [{"role": "user", "content": "Read a file."}], "tools": [READ_FILE]}
NAMES: dict[str, Callable[[], dict[str, Any]]] = {
    "openai_agents": names_of_openai_agents,
    "adk": names_of_adk,
    "strands": names_of_strands,
    "langchain": names_of_langchain,
    "pydantic_ai": names_of_pydantic_ai,
    "clients": names_of_clients,
    "litellm": names_of_litellm,
}
EXAMPLES = {
    "openai_agents": ("agents.testing", "openai_agents_agent.py"),
    "adk": ("google.adk", "adk_agent.py"),
    "strands": ("strands", "strands_agent.py"),
    "litellm": ("litellm", "litellm_calls.py"),
    "clients": ("openai", "attached_client.py"),
}


def text(page: str) -> str:
    return (ROOT / "docs" / "integrations" / f"{page}.md").read_text(encoding="utf-8")


def said(example: str) -> str:
    """The output of an example."""
    command = [sys.executable, f"examples/{example}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=True).stdout


def test_the_code_of_every_page_runs():
    pages = {page.stem for page in (ROOT / "docs" / "integrations").glob("*.md")}
    assert pages == {*NAMES, "recipes", "plugins"}  # test_recipes.py and tests/e2e/test_assistant_plugins.py run these


def test_a_pruner_that_no_adapter_gets_names_its_strategy():
    # Adapters replace the class's default, the literal rule, by cache_aware.
    calls = [call for page in NAMES for call in re.findall(r"AgenticConversationPruner\(.* formats=.*", text(page))]
    assert calls
    assert [call for call in calls if 'strategy="cache_aware"' not in call] == []


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved", "ignore:Item .* on TypedDict class")
@pytest.mark.parametrize("page", NAMES)
def test_the_code_of_a_page_runs_one_block_after_the_other(
    page: str, strict_provider: Provider, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_BASE_URL", f"{strict_provider.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # read at import: nothing is fetched from elsewhere
    names = NAMES[page]()
    for block in blocks(text(page), "python"):
        exec(compile(block, page, "exec"), names)


@pytest.mark.full
@pytest.mark.parametrize("page", EXAMPLES)
def test_an_example_prints_what_its_page_shows(page: str):
    package, example = EXAMPLES[page]
    pytest.importorskip(package)
    assert f"```\n{said(example)}```\n" in text(page)


@pytest.mark.full
@pytest.mark.parametrize("package", ["langchain", "pydantic_ai"])
def test_an_example_prunes_its_requests_and_keeps_its_history(package: str):
    pytest.importorskip(package)
    *pruned, last = said(f"{package}_agent.py").splitlines()
    (kept,) = re.findall(r"([\d,]+) characters", last)
    assert int(kept.replace(",", "")) == sum(len(page.read_text(encoding="utf-8")) for page in ROOT.glob("docs/*.md"))
    assert all(re.fullmatch(r"[\d,]+ → [\d,]+ tokens, \d+ of \d+ results cleared", line) for line in pruned)
    assert len(pruned) > 5

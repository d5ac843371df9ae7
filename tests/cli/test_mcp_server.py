"""`autoprune mcp` answers the SDK's own client: each test starts the command as an assistant does."""

import asyncio
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import run_text
from pages import ROOT

from autoprune.apps.cli.recalling import DEFINITIONS
from autoprune.conversation.archive import Directory
from autoprune.conversation.edits import content_id
from autoprune.conversation.limited_archive import LimitedDirectory, project_folder
from autoprune.tokens import exact

SOURCE = "import os\n\ndef load_settings(path):\n    return read(path)  # \ud800\n"
ID, UNKNOWN = content_id(SOURCE), "0" * 15
READABLE = SOURCE.replace("\ud800", "?")

Call = tuple[str, dict[str, object]]


def served(
    calls: Sequence[Call], home: Path, *options: str, environ: Mapping[str, str] | None = None
) -> tuple[list[dict[str, Any]], list[tuple[bool, str]]]:
    """Start the server in a project of a home. Return its tools, and for each call whether it failed and the text."""
    mcp = pytest.importorskip("mcp")
    (project := home / "project").mkdir(parents=True, exist_ok=True)
    started = mcp.StdioServerParameters(
        command=sys.executable,
        args=["-m", "autoprune", "mcp", *options],
        env={"HOME": str(home), "PYTHONPATH": str(ROOT), **(environ or {})},
        cwd=project,
    )

    async def talk() -> tuple[list[dict[str, Any]], list[tuple[bool, str]]]:
        async with mcp.Client(mcp.stdio_client(started), read_timeout_seconds=60) as client:
            tools = [each.model_dump(exclude_none=True) for each in (await client.list_tools()).tools]
            results = [await client.call_tool(name, arguments) for name, arguments in calls]
            return tools, [(each.is_error, each.content[0].text) for each in results]

    return asyncio.run(talk())


def kept_for(home: Path, folder: Path) -> LimitedDirectory:
    """The archive that `autoprune run` keeps in a home for a project."""
    return LimitedDirectory(project_folder(str(home / ".local/state/autoprune/archive"), str(folder)))


def test_the_server_lists_two_tools_that_only_read(tmp_path: Path):
    tools, _ = served([], tmp_path)
    assert tools == [{**each, "annotations": {"read_only_hint": True}} for each in DEFINITIONS]


def test_the_tools_return_what_run_kept(tmp_path: Path):
    archive = kept_for(tmp_path, tmp_path / "project")
    archive[ID] = SOURCE
    archive.describe(ID, "read src/config.py")
    other = "load_settings of another project"
    kept_for(tmp_path, tmp_path / "other")[content_id(other)] = other
    calls: list[Call] = [
        ("recall", {"id": ID}),
        ("recall", {"id": ID, "first_line": 3, "last_line": 3}),
        ("recall", {"id": content_id(other)}),
        ("search", {"words": "load_settings\0 nothing"}),
    ]
    texts = [
        READABLE,
        "def load_settings(path):",
        other,
        f"{ID}  read src/config.py\n    line 3: def load_settings(path):\n",
    ]
    assert served(calls, tmp_path)[1] == [(False, text) for text in texts]


def test_the_server_reads_an_archive_that_is_named(tmp_path: Path):
    folder = str(tmp_path / "kept")
    Directory(folder)[ID] = SOURCE
    calls: list[Call] = [("recall", {"id": ID}), ("search", {"words": "os"})]
    found = [(False, READABLE), (False, f"{ID}\n    line 1: import os\n")]
    assert served(calls, tmp_path, "--archive", folder)[1] == found
    assert served(calls, tmp_path, environ={"AUTOPRUNE_ARCHIVE": folder})[1] == found


def test_a_wrong_call_is_an_error_for_the_model_and_the_server_goes_on(tmp_path: Path):
    calls: list[Call] = [
        ("recall", {"id": "7"}),
        ("recall", {}),
        ("recall", {"id": UNKNOWN}),
        ("search", {"words": "load"}),
        ("search", {"words": "!"}),
        ("search", {"word": "load"}),
        ("read", {"path": "a"}),
    ]
    beginnings = [
        "Error: '7' is not a recall id: use the 15 digits",
        "Error: '' is not a recall id: use the 15 digits",
        f"Error: nothing is kept under {UNKNOWN}: look whether",
        "Error: nothing in what `autoprune run` has kept for this project has any of the words 'load'",
        "Error: nothing in what `autoprune run` has kept for this project has any of the words '!'",
        "Error: search with {'word': 'load'}: call recall with an id, or search with words",
        "Error: read with {'path': 'a'}: call recall with an id, or search with words",
    ]
    results = served(calls, tmp_path)[1]
    assert [(is_error, text[: len(begin)]) for (is_error, text), begin in zip(results, beginnings, strict=True)] == [
        (True, begin) for begin in beginnings
    ]
    missing = str(tmp_path / "missing")
    assert (
        served(calls[2:4], tmp_path, "--archive", missing)[1]
        == [(True, f"Error: there is no folder {missing}: give the --archive with which the session was pruned")] * 2
    )
    assert [*tmp_path.iterdir()] == [tmp_path / "project"]


def test_without_the_sdk_the_command_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    done = run_text("mcp")
    assert (done.returncode, done.stdout) == (2, "")
    assert "an MCP server needs mcp 2: run pip install '.[mcp]'" in " ".join(done.stderr.split())


def test_the_page_says_what_the_definitions_cost():
    tokens = sum(exact()(json.dumps(each, ensure_ascii=False)) for each in DEFINITIONS)
    page = (ROOT / "docs" / "recall.md").read_text(encoding="utf-8")
    assert re.findall(r"(\d+)\s+tokens in each prompt", page) == [str(tokens)]

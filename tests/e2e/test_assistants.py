"""Real assistants make forty tool calls through `autoprune run`, with a provider that refuses what real ones refuse.

ASSISTANTS names the folder in which npm has installed them (see `tests/support/real_assistants.py`). Without it these
tests are skipped, unless ASSISTANTS_REQUIRED is set, as in `.ci/run`.
"""

import json
import os
from pathlib import Path

import pytest
import real_assistants as assistants
from reading_tasks import Comparing, document
from real_assistants import CODEX, GEMINI_CLI, OPENCODE_RUN, Assistant
from strict_provider.caching import marks
from strict_provider.counting import tokens
from strict_provider.server import Provider, serve

BOUND, UNBOUND = assistants.claude("claude-opus-5-5"), assistants.claude("claude-sonnet-4-5")
MARGIN = 1.05  # the provider counts all strings of a body, pruning counts as the API does


@pytest.fixture(scope="module")
def prefix() -> Path:
    """The folder with the assistants."""
    named = os.environ.get("ASSISTANTS")
    if named is None and not os.environ.get("ASSISTANTS_REQUIRED"):
        pytest.skip("ASSISTANTS names no folder with assistants")
    return Path(named or ".").resolve()


@pytest.mark.parametrize(
    "assistant",
    [BOUND, UNBOUND, CODEX, GEMINI_CLI, OPENCODE_RUN],
    ids=["claude bound", "claude", "codex", "gemini", "opencode"],
)
def test_an_assistant_finishes_its_task_within_the_safe_zone(assistant: Assistant, prefix: Path, tmp_path: Path):
    with serve(assistants.script(assistant)) as provider:
        provider.play.is_aside = assistants.is_aside
        options = ("--upstream", provider.url, "--safe-zone", str(assistants.SAFE_ZONE))
        done = assistants.run(assistant, tmp_path, prefix, options)

    assert provider.refusals == [], done.stderr
    assert (done.returncode, assistants.END in done.stdout) == (0, True), done.stderr
    assert (tmp_path / "project" / "done.txt").read_text().split() == [f"{n:02}" for n in range(assistants.CALLS)]
    bodies = [request.body for request in provider.requests if not assistants.is_aside(request)]
    assert len(bodies) == assistants.CALLS + 1
    assert max(map(tokens, bodies)) < assistants.SAFE_ZONE * MARGIN
    assert len({*assistants.thoughts(bodies[-1])}) == assistant.thoughts
    assert f"{assistants.CALLS + 1} requests, the last prompt" in done.stderr
    assert "ERROR" not in done.stderr
    for name, content in assistant.files.items():
        assert content.items() <= json.loads((tmp_path / "home" / name).read_text()).items()
    if assistant.name == "claude":
        look_at_what_claude_code_marks(provider, is_bound=assistant is BOUND)


@pytest.mark.parametrize("kind", ["csv", "access log"])
def test_files_that_claude_code_compares_are_in_view_together(kind: str, prefix: Path, tmp_path: Path):
    files = {f"data/{number}.txt": document(kind, number, 20_000) for number in range(2)}
    model = Comparing(files, lambda path: UNBOUND.tool(f"cat {path}"))
    with serve(model) as provider:
        provider.play.is_aside = assistants.is_aside
        done = assistants.run(UNBOUND, tmp_path, prefix, ("--upstream", provider.url), files)
    assert "All documents are compared." in done.stdout, done.stderr
    assert set(model.asked.values()) == {1}


def look_at_what_claude_code_marks(provider: Provider, *, is_bound: bool) -> None:
    """Its three cache marks stay in place, and only the provider drops bound thinking."""
    bodies = [request.body for request in provider.requests if not assistants.is_aside(request)]
    assert {(marks(body["system"]), marks(body["messages"][-1])) for body in bodies} == {(2, 1)}
    assert {marks(body) for body in bodies} == {3}
    drops = ["drop_block" in json.dumps(body["thinking"]) for body in bodies if "thinking" in body]
    assert drops[-1] == is_bound

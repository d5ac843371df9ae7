"""Which paths a call names, and which globs and kinds of file they match."""

import json
import time
from collections import OrderedDict
from types import MappingProxyType, SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tables import each_row

from autoprune.conversation.transcript import Location, ToolCall
from autoprune.facts.calls import (
    command,
    identifiers,
    is_instruction_file,
    is_plan,
    matches,
    paths,
    polled_command,
    target,
)

PATCH = """*** Begin Patch
*** Update File: src/a.py
*** Move to: src/b.py
@@
-old
+*** Update File: no/header.py
*** Add File: docs/new page.md
+text
*** Delete File: C:\\old.txt
*** End Patch"""
PATCHED = ("src/a.py", "src/b.py", "docs/new page.md", "C:/old.txt")
DIFF = """diff --git a/src/a.py b/src/a.py
--- a/src/a.py\t2026-01-02
+++ b/src/a.py
@@ -1 +1 @@
--- b/c
-x
--- /dev/null
+++ b/new.py
@@ -0,0 +1 @@
+x
"""


def call(arguments: Any) -> ToolCall:
    return ToolCall(Location((0,)), 0, "id", "tool", arguments)


@each_row(
    ("arguments", "expected"),
    [
        ({"path": "src/a.py"}, ("src/a.py",)),
        ({"file_path": "/src/a.py", "old_string": "b.py"}, ("/src/a.py",)),
        ({"filePath": "a.py"}, ("a.py",)),
        ({"FilePath": "a.py"}, ("a.py",)),
        ({"file-path": "a.py"}, ("a.py",)),
        ({"filename": "a.py"}, ("a.py",)),
        ({"file": "a.py"}, ("a.py",)),
        ({"target_file": "a.py"}, ("a.py",)),
        ({"notebook_path": "a.ipynb"}, ("a.ipynb",)),
        ({"absolute_path": "/a.py"}, ("/a.py",)),
        ({"AbsolutePath": "/a.py"}, ("/a.py",)),
        ({"relative_workspace_path": "src"}, ("src",)),
        ({"paths": ["a.py", "b.py", "a.py"]}, ("a.py", "b.py")),
        ({"files": ["a.py", {"path": "b.py"}]}, ("a.py", "b.py")),
        ({"target_directories": ["src", "docs"]}, ("src", "docs")),
        ({"edits": [{"path": "a.py", "text": "x"}, {"file_path": "b.py"}]}, ("a.py", "b.py")),
        ({"args": {"file": [{"path": "a.py", "line_range": "1-2"}, {"path": "b.py"}]}}, ("a.py", "b.py")),
        ({"source_path": "a.py", "destination_path": "b.py"}, ("a.py", "b.py")),
        ({"path": "C:\\src\\a.py"}, ("C:/src/a.py",)),
        ({"path": "./src//a b.py"}, ("./src//a b.py",)),
        ({"input": PATCH}, PATCHED),
        ({"patchText": PATCH}, PATCHED),
        ({"command": ["apply_patch", PATCH]}, PATCHED),
        ({"cmd": f"apply_patch <<'EOF'\n{PATCH}\nEOF"}, PATCHED),
        ({"diff": DIFF}, ("src/a.py", "new.py")),
        (PATCH, PATCHED),
        (DIFF, ("src/a.py", "new.py")),
        ('{"path": "a.py"}', ("a.py",)),
        ('{"input": ' + json.dumps(PATCH) + "}", PATCHED),
        (OrderedDict(path="a.py"), ("a.py",)),
        (MappingProxyType({"paths": ("a.py", "b.py")}), ("a.py", "b.py")),
    ],
)
def test_every_path_in_the_arguments_is_found(arguments: Any, expected: tuple[str, ...]):
    assert paths(call(arguments)) == expected


@each_row(
    "arguments",
    [
        {},
        {"command": "cat src/a.py"},
        {"pattern": "*.py", "query": "a.py", "url": "https://example.com/a.py"},
        {"profile": "a.py", "xpath": "//div"},
        {"content": PATCH, "text": DIFF},
        {"path": ""},
        {"path": " \n"},
        {"file": "many\nlines"},
        {"path": "x" * 5_000},
        {"path": None, "file": 3, "files": [None, 4, ["a.py"]], 5: "a.py"},
        "",
        "not json",
        '{"path": "a.py"',
        "[" * 100_000,
        "null",
        '"a.py"',
        "[1, 2]",
        None,
        7,
        ["a.py"],
        SimpleNamespace(path="a.py"),
    ],
)
def test_other_arguments_are_not_paths(arguments: Any):
    assert paths(call(arguments)) == ()


def test_recursive_arguments_terminate():
    arguments: dict[str, Any] = {"path": "a.py"}
    arguments["edits"] = [arguments]
    assert paths(call(arguments)) == ("a.py",)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(["path", "files", "edits", "input"]), st.text(max_size=5)), inner),
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_arguments_have_paths_and_a_target(arguments: Any):
    written = call(json.dumps(arguments))
    assert paths(written) == paths(call(arguments)) or isinstance(arguments, str)
    assert all(path and "\\" not in path for path in paths(written))
    assert isinstance(target(written), str)


@each_row(
    ("text", "names"),
    [
        ("load_settings(AppError)", ["load_settings", "AppError"]),
        (r'{"body": "Summary\n\nWhenever:\tloadSettings\u003cAppError>"}', ["loadSettings", "AppError"]),
        (r'{"body": "{\"text\": \"\\nload_settings\"}"}', ["load_settings"]),
        (r"src\shell\node_modules", ["node_modules"]),
        (r'"C:\\src\\new_files"', ["new_files"]),
        (f"GITHUB_TOKEN=ghp_{'aB3' * 12} sk-proj-{'aB3_' * 9} AKIA{'Q7' * 8}", ["GITHUB_TOKEN"]),
    ],
)
def test_identifiers_are_names_without_escapes_and_without_tokens(text: str, names: list[str]):
    assert identifiers(text) == names


@each_row("unit", [" ", "\\", "\\n", "sk-", "_"])
def test_identifiers_in_a_long_text_take_no_time(unit: str):
    began = time.monotonic()
    identifiers(unit * 60_000)
    assert time.monotonic() - began < 1


@each_row(
    ("path", "glob", "expected"),
    [
        ("README.md", "*.md", True),
        ("docs/a/README.md", "*.md", True),
        ("/home/dev/docs/README.md", "*.md", True),
        ("C:\\docs\\README.md", "*.md", True),
        ("README.MD", "*.md", False),
        ("README.md.txt", "*.md", False),
        ("docs/README.md", "README.md", True),
        ("docs/OLD_README.md", "README.md", False),
        ("src/a.py", "src/**", True),
        ("src/a/b/c.py", "src/**", True),
        ("/home/dev/src/a/b.py", "src/**", True),
        ("./src/a.py", "src/**", True),
        ("src/a.py", "./src/**", True),
        ("my_src/a.py", "src/**", False),
        ("lib/a.py", "src/**", False),
        ("x.py", "**/x.py", True),
        ("a/b/x.py", "**/x.py", True),
        ("a/b/xx.py", "**/x.py", False),
        ("src/a.py", "src/*.py", True),
        ("src/a/b.py", "src/*.py", False),
        ("src/b.py", "src/**/b.py", True),
        ("src/a/c/b.py", "src/**/b.py", True),
        ("src/a/b.py", "src/*/b.py", True),
        ("src\\a\\b.py", "src/*/b.py", True),
        ("src/a/b.py", "src\\*\\b.py", True),
        ("docs/a/b.txt", "docs/", True),
        ("docs.txt", "docs/", False),
        ("/repo/src/a.py", "/repo/src/*.py", True),
        ("/other/repo/src/a.py", "/repo/src/*.py", False),
        ("src/a.py", "/repo/src/*.py", False),
        ("src/a.py", "src/a.py", True),
        ("/repo/src/a.py", "src/a.py", True),
        ("src/a.py", "/src/a.py", False),
        ("a1.py", "a?.py", True),
        ("a/.py", "a?.py", False),
        ("a1.py", "a[0-9].py", True),
        ("ab.py", "a[!0-9].py", True),
        ("a1.py", "a[^0-9].py", False),
        ("a/b", "a[!x]b", False),
        ("a.tsx", "*.{ts,tsx}", True),
        ("src/lib/a.js", "src/{lib,test}/*.js", True),
        ("a.py", "*.{ts,tsx}", False),
        ("app/[id]/page.tsx", "app/[id]/page.tsx", True),
        ("/repo/app/[id]/page.tsx", "app/[id]/page.tsx", True),
        ("a+b (c).py", "a+b (c).py", True),
        ("aab.py", "a+b.py", False),
        ("a", "[z-a]", False),
        ("[z-a]", "[z-a]", True),
        ("x[", "x[", True),
        ("x", "[[]", False),
        ("[", "[[]", True),
        ("a&&b", "a[&&]&b", True),
        ("anything/at/all", "**", True),
        ("anything", "", False),
        ("", "*", True),
    ],
)
def test_globs_match_as_users_expect(path: str, glob: str, expected: bool):
    assert matches(path, [glob]) is expected


@each_row(
    "path",
    [
        "AGENTS.md",
        "/repo/packages/a/agents.md",
        "C:\\repo\\CLAUDE.md",
        "CLAUDE.local.md",
        ".claude/rules/style.md",
        "GEMINI.md",
        "/repo/.cursorrules",
        ".cursor/rules/style.mdc",
        "/repo/.cursor/rules/web/style.mdc",
        ".windsurfrules",
        ".windsurf/rules/style.md",
        ".clinerules",
        ".clinerules/01-style.md",
        ".roorules-code",
        ".roo/rules-code/style.md",
        ".github/copilot-instructions.md",
        ".github/instructions/python.instructions.md",
        "skills/pdf/SKILL.md",
        "CONVENTIONS.md",
        ".goosehints",
        ".junie/guidelines.md",
        ".openhands/microagents/repo.md",
        ".trae/rules/project_rules.md",
        ".amazonq/rules/style.md",
        ".kiro/steering/tech.md",
        ".rules",
    ],
)
def test_instruction_files_are_recognized(path: str):
    assert is_instruction_file(path)


@each_row(
    "path",
    [
        "README.md",
        "docs/agents.md.txt",
        "my-agents.md",
        "AGENTS.py",
        "cursor/rules/a.mdc",
        "src/rules/a.md",
        "guidelines.md",
        "",
    ],
)
def test_other_files_are_not_instruction_files(path: str):
    assert not is_instruction_file(path)


# What the name of a tool says


def named(tool: str) -> ToolCall:
    return ToolCall(Location((0,)), 0, None, tool, {"command": "ls", "task_id": "b1"})


@each_row(
    ("tools", "plans"),
    [
        ("TodoWrite mcp__x__TodoWrite write_todos todowrite SetTodoList manage_todo_list mark_todo_as_done", True),
        ("update_plan ExitPlanMode plan_mode_respond TaskCreate TaskList mcp__a__sequentialthinking", True),
        ("TaskOutput TaskStop change_plan asana_update_task mcp__shop__change_plan", False),
    ],
)
def test_tools_that_plan_are_known_by_their_names(tools: str, plans: bool):
    assert {tool for tool in tools.split() if is_plan(named(tool)) is not plans} == set()


@each_row(
    ("tools", "polls"),
    [
        (
            "BashOutput KillShell TaskOutput TaskStop write_stdin read_bash stop_bash job_output get_terminal_output",
            True,
        ),
        ("read_terminal check_command_status AwaitShell Await", True),
        ("TaskUpdate asana_get browser_click", False),
    ],
)
def test_tools_that_poll_a_command_are_known_by_their_names(tools: str, polls: bool):
    assert {tool for tool in tools.split() if bool(polled_command(named(tool))) is not polls} == set()


@each_row(
    ("tools", "runs"),
    [
        ("Bash run_shell_command execute_command mcp__js-sandbox__bash mcp__page-tools__run_in_terminal", True),
        ("puppeteer_evaluate run_js browser_execute execute_sql", False),
    ],
)
def test_tools_that_run_a_shell_are_known_by_their_names(tools: str, runs: bool):
    assert {tool for tool in tools.split() if bool(command(named(tool))) is not runs} == set()

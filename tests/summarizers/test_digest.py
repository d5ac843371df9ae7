"""The summary that needs no model: what it keeps, what it drops first, how it is carried on."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples, size
from tables import each_row

from autoprune.apps import sessions
from autoprune.conversation.edits import SENTENCE
from autoprune.conversation.transcript import Location, Speaker, ToolCall, ToolResult
from autoprune.facts import shell
from autoprune.facts.utterances import Utterance, utterances
from autoprune.summarizers.brief import Brief, Written
from autoprune.summarizers.digest import Digest
from autoprune.summarizers.digest._contents import Contents
from autoprune.summarizers.digest._contents import parse_contents as read_back
from autoprune.summarizers.digest._reading import extend_contents, findings
from autoprune.summarizers.sections import parse_sections
from autoprune.tokens import Count, exact
from autoprune.wire import new_parser
from autoprune.wire.parsing import parse

COUNT = exact()
LARGE = 100_000  # tokens: everything fits
QUICK = examples(20)


# A conversation in few words


def user(words: str) -> Utterance:
    return Utterance(Speaker.USER, words)


def model(words: str) -> Utterance:
    return Utterance(Speaker.MODEL, words)


def did(tool: str, arguments: object, text: str | None = "", is_error: bool | None = None) -> list[Utterance]:
    """A call and its result; None for a call that is not answered yet."""
    did.number += 1  # type: ignore[attr-defined]
    call = ToolCall(Location((did.number, "call")), 0, None, tool, arguments)  # type: ignore[attr-defined]
    made = Utterance(Speaker.MODEL, "", (call,))
    return [made] if text is None else [made, Utterance(Speaker.TOOL, "", (), (result(call, text, is_error),))]


did.number = 0  # type: ignore[attr-defined]


def result(call: ToolCall, text: str, is_error: bool | None) -> ToolResult:
    return ToolResult(
        location=Location((*call.location.path, "result")),
        request=0,
        tool=call.name,
        piece=text,
        start=0,
        stop=len(text),
        piece_tokens=len(text),
        count=len,
        sent=1,
        kind="test",
        is_error=is_error,
        call=call,
    )


def ran(command: str, text: str | None = "", is_error: bool | None = None) -> list[Utterance]:
    return did("bash", {"command": command}, text, is_error)


def told(*parts: Utterance | list[Utterance]) -> tuple[Utterance, ...]:
    return tuple(one for part in parts for one in (part if isinstance(part, list) else [part]))


def digest(told: Sequence[Utterance], max_tokens: int = LARGE, previous: str = "") -> str:
    return written(Brief(tuple(told), previous, max_tokens, COUNT))


def written(brief: Brief) -> str:
    answer = Digest()(brief)
    return answer.text if isinstance(answer, Written) else ""


def sections(text: str) -> Mapping[str, list[str]]:
    return {section.title: section.body.split("\n") for section in parse_sections(text) or ()}


# What is kept


def test_a_digest_says_what_was_asked_done_and_found():
    text = digest(
        told(
            user("Make the tests pass. Never touch the API."),
            did("read_file", {"path": "src/app.py"}, "def app(): ..."),
            ran("pytest", "E   TypeError: no\n== 1 failed in 0.1s ==", True),
            model("The cause is a missing argument in app()."),
            did("edit_file", {"path": "src/app.py", "new": "…"}, "The file src/app.py has been updated."),
            ran("pytest", "1 passed"),
            model("All tests pass now."),
            user("Commit it."),
            ran("git commit -am fix", None),
        )
    )
    assert text == "\n".join(
        (
            "## The user's first request (1 line)",
            "Make the tests pass. Never touch the API.",
            "",
            "## What the user asked later, and the answers (3 lines)",
            "- (the first request)",
            "  → All tests pass now.",
            "- Commit it.",
            "",
            "## Files changed (1 line)",
            "- src/app.py → edited",
            "",
            "## State of version control and tests (1 line)",
            "- last test run → pytest: 1 passed",
            "",
            "## Commands, and how they went last (2 lines)",
            "- pytest → ran (×2)",
            "- git commit -am fix → no result yet",
            "",
            "## Errors resolved later (1 line)",
            "- pytest → failed: E TypeError: no",
            "",
            "## What the assistant found and decided (1 line)",
            "- The cause is a missing argument in app().",
            "",
            "## Tools (3 lines)",
            "- read_file → called",
            "- edit_file → called",
            "- bash → called ×3, failed",
            "",
            "## What went on last (1 line)",
            "- git commit -am fix: no result yet",
        )
    )


@each_row(
    ("tool", "arguments", "text", "title", "entry"),
    [
        ("Read", {"file_path": "a.py"}, "x", "Files and pages read", "- a.py → read"),
        ("Write", {"file_path": "a.py"}, "File created successfully at: a.py", "Files changed", "- a.py → created"),
        ("write_to_file", {"path": "a.py"}, "ok", "Files changed", "- a.py → written"),
        ("str_replace_editor", {"command": "view", "path": "a.py"}, "x", "Files and pages read", "- a.py → read"),
        ("str_replace_editor", {"command": "insert", "path": "a.py"}, "x", "Files changed", "- a.py → edited"),
        ("delete_file", {"path": "a.py"}, "", "Files changed", "- a.py → deleted"),
        ("bash", {"command": "sed -n '1,9p' src/a.py"}, "x", "Files and pages read", "- src/a.py → read"),
        ("bash", {"command": "rm -f src/a.py"}, "", "Files changed", "- src/a.py → deleted"),
        ("bash", {"command": "cat > a.py <<'EOF'\nx > b.py\nEOF"}, "", "Files changed", "- a.py → written"),
        ("bash", {"command": "cat <<EOF > a.py\nx\nEOF\necho 1"}, "", "Files changed", "- a.py → written"),
        ("bash", {"command": "echo a <<A\nx\nA\nsed -i s/a/b/ src/a.py"}, "", "Files changed", "- src/a.py → edited"),
        ("bash", {"command": "sed -i.bak -e 's/a/b/' src/a.py"}, "", "Files changed", "- src/a.py → edited"),
        ("bash", {"command": "sed --in-place s/a/b/ src/a.py"}, "", "Files changed", "- src/a.py → edited"),
        ("bash", {"command": "perl -pi -e 's/a/b/' src/a.py"}, "", "Files changed", "- src/a.py → edited"),
        ("bash", {"command": "perl -i -pe 's/a/b/' src/a.py"}, "", "Files changed", "- src/a.py → edited"),
        ("bash", {"command": "make | tee out.log"}, "", "Files changed", "- out.log → written"),
        ("bash", {"command": "cp old.py src/new.py"}, "", "Files changed", "- src/new.py → created"),
        ("bash", {"command": "cp -r src/a.py lib/"}, "", "Files changed", "- lib/a.py → created"),
        ("bash", {"command": "gofmt -s -w src/a.go"}, "", "Files changed", "- src/a.go → edited"),
        (
            "bash",
            {"command": "python3 - <<'PY'\np = Path('src/a.py')\np.write_text(p.read_text())\nPY"},
            "",
            "Files changed",
            "- src/a.py → written",
        ),
        ("bash", {"command": "python -c \"open('a.txt', 'w').write('x')\""}, "", "Files changed", "- a.txt → written"),
        (
            "bash",
            {"command": "git apply <<'D'\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-a\n+b\nD"},
            "",
            "Files changed",
            "- src/a.py → edited",
        ),
        (
            "shell",
            {
                "command": [
                    "bash",
                    "-lc",
                    "apply_patch <<'E'\n*** Begin Patch\n*** Update File: a.py\n+x\n*** End Patch\nE",
                ]
            },
            "Success. Updated the following files:",
            "Files changed",
            "- a.py → edited",
        ),
        (
            "bash",
            {"command": "edit 14:75\nx\nend_of_edit"},
            "[File: /t/a.py (9 lines total)]\n1:x",
            "Files changed",
            "- /t/a.py → edited",
        ),
        (
            "bash",
            {"command": "create a.py"},
            "[File: /t/a.py (1 lines total)]\n1:",
            "Files changed",
            "- /t/a.py → written",
        ),
        (
            "edit",
            {"search": "a", "replace": "b"},
            "Text replaced.\n(Open file: /t/a.py)\nbash-$",
            "Files changed",
            "- /t/a.py → edited",
        ),
        (
            "apply_patch",
            "*** Begin Patch\n*** Add File: a.py\n+x\n*** End Patch",
            "Success. Updated the following files:",
            "Files changed",
            "- a.py → created",
        ),
    ],
)
def test_files_are_listed_with_what_was_done_to_them(tool: str, arguments: Any, text: str, title: str, entry: str):
    assert sections(digest(told(user("Go."), did(tool, arguments, text))))[title] == [entry]


@each_row(
    ("command", "created"),
    [("mv src/a.py src/b.py", "src/b.py"), ("mv -f src/a.py lib/", "lib/a.py"), ("git mv src/a.py lib/", "lib/a.py")],
)
def test_moving_a_file_names_both_of_its_names(command: str, created: str):
    text = digest(told(user("Go."), ran(command, "")))
    assert sections(text)["Files changed"] == ["- src/a.py → moved", f"- {created} → created"]


def test_an_edit_that_the_editor_refused_is_not_a_change():
    refused = "Your proposed edit has introduced new syntax error(s).\n(Open file: /t/a.py)\n(Current directory: /t)"
    assert "Files changed" not in sections(digest(told(user("Go."), ran("edit 1:2\nx\nend_of_edit", refused))))


@each_row(
    ("command", "text", "state"),
    [
        (
            "git status",
            "On branch main\nYour branch is ahead of 'origin/main' by 1 commit.\n\nChanges:\n\tmodified:   a.py\n",
            "git status → on main; Your branch is ahead of 'origin/main' by 1 commit.; 1 changed file: a.py",
        ),
        (
            "git status -sb",
            "## main...origin/main\n M a.py\n?? b.py",
            "git status → on main...origin/main; 2 changed files: a.py, b.py",
        ),
        (
            "git status",
            "On branch x\nnothing to commit, working tree clean",
            "git status → on x; nothing to commit, working tree clean",
        ),
        (
            "git commit -m Fix",
            "[main 1234567] Fix\n 2 files changed, 3 insertions(+)",
            "last commit → 1234567 on main: Fix (2 files changed, 3 insertions(+))",
        ),
        ("git push", "To github.com:a/b\n   1234567..89abcde  main -> main", "last push → main -> main"),
        ("pytest -q", "....\n1 failed, 3 passed in 0.12s", "last test run → pytest -q: 1 failed, 3 passed in 0.12s"),
        ("pytest", "=== 4 passed in 0.12s ===", "last test run → pytest: 4 passed in 0.12s"),
        (
            "npx jest",
            "Tests:       1 failed, 2 passed, 3 total",
            "last test run → npx jest: Tests: 1 failed, 2 passed, 3 total",
        ),
        (
            "cargo test",
            "test result: ok. 4 passed; 0 failed",
            "last test run → cargo test: test result: ok. 4 passed; 0 failed",
        ),
        (
            "go test ./...",
            "ok  \ta/b\t1s\n--- FAIL: TestA\nFAIL\ta/c",
            "last test run → go test ./...: 1 package ok, 2 failed (TestA, a/c)",
        ),
        (
            "python -m unittest",
            "Ran 3 tests in 0.1s\n\nOK",
            "last test run → python -m unittest: Ran 3 tests in 0.1s; OK",
        ),
        ("go test ./...", "FAIL\nFAIL\ta/c\t1s", "last test run → go test ./...: 0 packages ok, 1 failed (a/c)"),
        (
            "mvn test",
            "[INFO] Tests run: 12, Failures: 0, Errors: 0\n[INFO] BUILD SUCCESS",
            "last test run → mvn test: Tests run: 12, Failures: 0, Errors: 0",
        ),
        ("mix test", "11 tests, 1 failure\nRandomized", "last test run → mix test: 11 tests, 1 failure"),
        (
            "cargo nextest run",
            "     Summary [   0.012s] 3 tests run: 3 passed, 0 skipped",
            "last test run → cargo nextest run: Summary [ 0.012s] 3 tests run: 3 passed, 0 skipped",
        ),
        (
            "dotnet test",
            "Passed!  - Failed:     0, Passed:    12 - a.dll",
            "last test run → dotnet test: Passed! - Failed: 0, Passed: 12 - a.dll",
        ),
        ("bun test", '{"output": " 3 pass\\n 0 fail\\n"}', "last test run → bun test: 3 pass; 0 fail"),
    ],
)
def test_the_state_is_from_the_latest_command_output(command: str, text: str, state: str):
    earlier = ran("pytest", "9 failed") if "test run" in state else []
    found = sections(digest(told(user("Go."), earlier, ran(command, text))))["State of version control and tests"]
    assert found == [f"- {state}"]


def test_a_status_from_before_a_commit_is_dropped():
    status = ran("git status -s", " M a.py")
    commit = ran("git commit -am Fix", "[main 1234567] Fix\n 1 file changed, 1 insertion(+)")
    found = sections(digest(told(user("Go."), status, commit)))["State of version control and tests"]
    assert found == ["- last commit → 1234567 on main: Fix (1 file changed, 1 insertion(+))"]


CLEAN = "On branch x\nnothing to commit, working tree clean"


@each_row(
    "later, state",
    [
        (ran("git switch main", "Switched to branch 'main'"), []),
        (ran("git merge origin/main", "CONFLICT (content): Merge conflict in a.py"), []),
        (
            ran("sed -i s/a/b/ a.py", ""),
            ["- git status → on x; nothing to commit, working tree clean [before later changes]"],
        ),
        (
            did("write", {"path": "a.py"}, "ok") * 2,
            ["- git status → on x; nothing to commit, working tree clean [before later changes]"],
        ),
        (ran("cat a.py", "x = 1"), ["- git status → on x; nothing to commit, working tree clean"]),
    ],
)
def test_a_status_says_that_it_is_from_before_changes_and_goes_with_its_branch(
    later: list[Utterance], state: list[str]
):
    given = told(user("Go."), ran("git status", CLEAN), later)
    assert sections(digest(given)).get("State of version control and tests", []) == state


@each_row(
    "command",
    [
        *(
            "git add x.test.ts",
            "cat x.test.ts",
            "grep -c passed results.txt",
            "npx eslint x.test.ts",
            "git diff tests/",
        ),
        *("cd app && rm -r tests/old", "sed -i s/a/b/ tests/test_a.py", "head -5 check.log | grep passed"),
    ],
)
def test_a_command_that_only_names_tests_does_not_hide_the_last_run(command: str):
    run, other = ran("pytest -q", "3 passed in 0.12s"), ran(command, "5 passed in 0.1s")
    found = sections(digest(told(user("Go."), run, other)))["State of version control and tests"]
    assert found == ["- last test run → pytest -q: 3 passed in 0.12s"]


@each_row(
    ("command", "text", "state"),
    [
        ("git rebase main", "Successfully rebased and updated refs/heads/x.", []),
        ("git commit --amend --no-edit", "", []),
        ("git checkout other", "Switched to branch 'other'", []),
        ("git pull", "Updating 1234567..89abcde\nFast-forward", []),
        ("git reset --hard HEAD~1", "HEAD is now at 89abcde Before", ["- last commit → 89abcde: Before"]),
        ("git checkout -- a.py", "Updated 1 path from the index", ["- last commit → 1234567 on main: Fix"]),
        ("git reset -- a.py", "", ["- last commit → 1234567 on main: Fix"]),
    ],
)
def test_the_last_commit_is_dropped_when_another_one_may_be_the_last(command: str, text: str, state: list[str]):
    commit = ran("git commit -am Fix", "[main 1234567] Fix")
    found = sections(digest(told(user("Go."), commit, ran(command, text))))
    assert found.get("State of version control and tests", []) == state


def test_the_latest_values_of_short_commands_are_kept():
    work = [*ran("git rev-parse HEAD", "1234567"), *ran("node --version", "v20.1.0"), *ran("node --version", "v22.1.0")]
    work += [
        *ran("make", "all is well"),
        *ran("gh auth token", f"ghp_{'a1B2' * 9}"),
        *ran("npm run dev", "<shellId: 21 completed with exit code 0>"),
        *ran("cat a.py", "a = 1\nb = 2"),
        *ran("ls gone.py", "Error: no gone.py", True),
    ]
    text = digest(told(user("Go."), *work))
    assert sections(text)["What short commands printed last"] == [
        "- git rev-parse HEAD → 1234567",
        "- node --version → v22.1.0",
    ]
    many = digest([one for number in range(20) for one in ran(f"echo $A{number}", f"{number}")], previous=text)
    assert len(sections(many)["What short commands printed last"]) == 8


def test_a_file_is_listed_once_by_relative_and_absolute_paths():
    edits = [*did("edit", {"path": "/home/me/project/src/a.py"}, "ok"), *ran("sed -i s/a/b/ src/a.py", "")]
    assert sections(digest(told(user("Go."), *edits)))["Files changed"] == ["- /home/me/project/src/a.py → edited ×2"]


def test_a_file_in_another_worktree_is_listed_by_its_whole_path():
    read = ran("cd /w/app && cat src/a.py src/b.py src/c.py")
    edited = ran("cd /w/app-fix && sed -i s/1/2/ src/a.py")
    found = sections(digest(told(user("Go."), read, edited), previous=digest(told(user("Go."), read))))
    assert found["The folder that paths are in"] == ["/w/app"]
    assert found["Files changed"] == ["- /w/app-fix/src/a.py → edited"]
    assert "- src/a.py → read ×2" in found["Files and pages read"]


def commands(*parts: Any, previous: str = "") -> list[str]:
    return sections(digest(told(*parts), previous=previous))["Commands, and how they went last"]


@each_row(
    ("command", "text", "entry"),
    [
        ("pytest -q | tail -3", "1 failed in 0.2s", "- pytest -q | tail -3 → failed"),
        ("cd /src && pytest -q 2>&1 | tail -3", "collecting", "- pytest -q | tail -3 → ran"),
        ("git push | tail", "error: failed to push some refs", "- git push | tail → failed"),
        ("make || true", "cc -c a.c", "- make || true → ran"),
        ("pytest -q | tail -3", "3 passed in 0.2s", "- pytest -q | tail -3 → ok"),
        ("pytest -q", "collecting", "- pytest -q → ok"),
        ("pytest -q", SENTENCE, "- pytest -q → ran"),
    ],
)
def test_a_false_error_flag_does_not_hide_a_failure(command: str, text: str, entry: str):
    assert commands(user("Go."), ran(command, text, False)) == [entry]


STARTED = "Chunk ID: a1\nWall time: 1.0 seconds\nProcess running with session ID 7\nOutput:\n"
ENDED = "Chunk ID: a2\nWall time: 0.1 seconds\nProcess exited with code {}\nOutput:\n{}"


@each_row("is_folded_between", [False, True])
@each_row(
    ("started", "waits", "outcome"),
    [
        (
            STARTED,
            did("write_stdin", {"session_id": 7, "chars": ""}, ENDED.format(1, "no\n")),
            "failed, exit code 1",
        ),
        (STARTED, did("write_stdin", {"session_id": 7}, ENDED.format(0, "fine\n")), "ok"),
        (STARTED, did("write_stdin", {"session_id": 8}, ENDED.format(0, "fine\n")), "still running as 7"),
        (STARTED, did("write_stdin", {"session_id": 7}, STARTED), "still running as 7"),
        (
            "Command running in background with ID: b1. Output is being written to: /tmp/b1.output",
            did("BashOutput", {"bash_id": "b1"}, "<status>failed</status>\n<exit_code>2</exit_code>", False),
            "failed, exit code 2",
        ),
        (STARTED, did("KillShell", {"shell_id": "7"}, '{"message": "Successfully killed shell: 7"}', False), "stopped"),
    ],
)
def test_the_exit_code_of_a_background_command_belongs_to_that_command(
    started: str, waits: list[Utterance], outcome: str, is_folded_between: bool
):
    first = [user("Go."), *ran("go test ./...", started, False)]
    entry = [f"- go test ./... → {outcome}"]
    if is_folded_between:
        assert commands(waits, previous=digest(told(first))) == entry
    else:
        assert commands(first, waits) == entry


def test_a_file_that_was_read_and_then_changed_is_listed_once():
    text = digest(
        told(did("read", {"path": "a.py"}, "x"), did("edit", {"path": "a.py"}, "x"), did("edit", {"path": "a.py"}))
    )
    assert "Files and pages read" not in sections(text)
    assert sections(text)["Files changed"] == ["- a.py → edited ×2"]


def test_paths_are_relative_to_the_folder_that_was_worked_in():
    text = digest(
        told(
            ran("cd /home/me/project && make", "ok"),
            did("read", {"path": "/home/me/project/a.py"}, "x"),
            did("read", {"path": "/etc/hosts"}, "x"),
        )
    )
    assert sections(text)["The folder that paths are in"] == ["/home/me/project"]
    assert sections(text)["Files and pages read"] == ["- a.py → read", "- /etc/hosts → read"]


def test_relative_and_absolute_spellings_of_a_path_match():
    first = told(
        ran("cd /home/me/project && touch a.py"),
        did("edit", {"path": "/home/me/project/a.py"}, "ok"),
        did("edit", {"path": "/home/me/project/b.py"}, "Error: no match", True),
    )
    then = told(
        did("read", {"path": "/home/me/project/a.py"}, "x"),
        did("edit", {"path": "/home/me/project/a.py"}, "ok"),
        did("edit", {"path": "/home/me/project/b.py"}, "ok"),
    )
    carried = digest(then, previous=digest(first))
    assert carried == digest((*first, *then))
    assert sections(carried)["Files changed"] == ["- a.py → created, edited ×2", "- b.py → edited"]
    assert sections(carried)["Errors resolved later"] == ["- edit(b.py) → failed: Error: no match"]


@each_row(
    ("command", "essence"),
    [
        ("cd /a && pytest -q 2>&1 | tail -20", "pytest -q | tail -20"),
        ("pytest -q 2>/dev/null || true", "pytest -q || true"),
        ("# look\nnpm   run check", "npm run check"),
        ("CI=1 timeout 60 make test; ", "make test"),
        ("sudo make", "make"),
        ("sudo -u postgres psql", "sudo -u postgres psql"),
        ("git commit -m \"$(cat <<'EOF'\nAdd it\n\nMore\nEOF\n)\"", 'git commit -m "$(cat <<… Add it'),
        ("cd /a", "cd /a"),
        ("", ""),
    ],
)
def test_a_command_is_listed_by_its_essence(command: str, essence: str):
    assert shell.essence(command) == essence


def test_an_error_is_resolved_by_a_later_success_of_the_same_command():
    failed = ran("npm run check 2>&1 | tail -5", "error: no types\n\nCommand exited with code 2")
    still = digest(told(user("Go."), failed, ran("npm test", "ok")))
    assert sections(still)["Errors not seen to be resolved"] == [
        "- npm run check | tail -5 → failed, exit code 2: error: no types"
    ]
    later = digest(told(user("Go."), failed, ran("cd /a && npm run check", "ok")))
    assert "Errors not seen to be resolved" not in sections(later)
    assert "Errors not seen to be resolved" not in sections(digest(told(failed, ran("make && npm run check", "ok"))))
    assert sections(later)["Errors resolved later"] == [
        "- npm run check | tail -5 → failed, exit code 2: error: no types"
    ]


def opened(*parts: Utterance | list[Utterance]) -> list[str]:
    return sections(digest(told(user("Go."), *parts))).get("Errors not seen to be resolved", [])


BUN = "(fail) a test\n 1330 pass\n 1 fail\nRan 1331 tests across 90 files."
PASSED = " 1331 pass\n 0 fail\nRan 1331 tests across 90 files. [9.00s]"


def test_a_failure_is_open_only_until_the_same_program_succeeds_on_the_same_target():
    failed = ran("bun run test 2>&1 | tail -80", BUN)
    assert len(opened(failed)) == 1
    assert opened(failed, ran("cd /a && bun run test | tail -20", PASSED)) == []
    assert len(opened(failed, ran("bun run lint", "ok", False))) == 1
    push = ran("git push -u origin main", "fatal: Authentication failed for 'https://a.b/c.git'", True)
    assert len(opened(push)) == 1
    assert opened(push, ran("git push", "To https://a.b/c.git\n   1..2  main -> main", False)) == []
    tests = ran("go test ./...", "--- FAIL: TestA (0.00s)\nFAIL\ta.b/c\t0.1s", True)
    assert opened(tests, ran("env GOFLAGS=-mod=mod go test ./... 2>&1 | tail -3", "ok  \ta.b/c\t0.1s")) == []


def test_a_broader_run_that_fails_takes_the_place_of_a_narrower_one():
    narrow = ran("go test ./internal/auth -run TestLogin", "--- FAIL: TestLogin (0.00s)\nFAIL\ta.b/auth\t0.1s", True)
    broad = ran("go test ./...", "--- FAIL: TestOther (0.00s)\nFAIL\ta.b/other\t0.1s", True)
    (one,) = opened(narrow, broad)
    assert one.startswith("- go test ./... → failed")


@each_row(
    "failed",
    [
        ran("sed -n '1,9p' src/gone.py && cat b.py", "sed: can't read src/gone.py: No such file or directory", True),
        ran("git log --no-stat | head", "fatal: unrecognized argument: --no-stat", True),
        did("Read", {"file_path": "/a/gone.py"}, "File does not exist.", True),
        did("Grep", {"pattern": "x", "path": "/gone"}, "Path does not exist: /gone", True),
        did("Bash", {"command": "make"}, "<tool_use_error>Cancelled: parallel tool call Bash(ls) errored", True),
        did("Glob", {"pattern": "*"}, "<tool_use_error>Sibling tool call errored</tool_use_error>", True),
        did("Skill", {"skill": "gone"}, "<tool_use_error>Unknown skill: gone</tool_use_error>", True),
        ran("rm -rf build", "Permission to use Bash with command rm -rf build has been denied.", True),
    ],
)
def test_a_malformed_or_refused_call_is_not_an_open_error(failed: list[Utterance]):
    assert opened(failed) == []


def test_an_edit_that_failed_is_resolved_when_the_file_is_changed_by_anything():
    failed = did("Edit", {"file_path": "/a/src/app.py"}, "<tool_use_error>String to replace not found", True)
    assert len(opened(failed)) == 1
    patch = "*** Begin Patch\n*** Update File: src/app.py\n*** Update File: b.py\n+x\n*** End Patch"
    assert opened(failed, did("apply_patch", {"input": patch}, "Success. Updated the following files:\nM b.py")) == []
    assert opened(failed, ran("sed -i s/a/b/ src/app.py", "", False)) == []
    assert len(opened(failed, did("Edit", {"file_path": "/a/src/other.py"}, "The file has been updated.", False))) == 1


BOOKED = '{"reservation_id": "HATHAT", "user_id": "mia_3668", "passengers": [{"id": 1}], "price": 120}'


@each_row(
    ("tool", "arguments", "text", "line"),
    [
        (
            "book_flight",
            {"flight": "LH123"},
            BOOKED,
            "book_flight(LH123) → ran: reservation_id HATHAT, user_id mia_3668",
        ),
        ("send_email", {"to": "a@b.de", "body": "x" * 90}, '{"success": true}', "send_email(a@b.de) → ok"),
        ("change_plan", {"id": "C1", "plan": "Unlimited Plus"}, "Done.", "change_plan(C1 Unlimited Plus) → ran"),
        ("asana_update_task", {"task_id": "12"}, "Error: no such task", "asana_update_task(12) → failed"),
        ("puppeteer_evaluate", {"script": "x > 1; rm(a.b)"}, '"$15"', "puppeteer_evaluate(x > 1; rm(a.b)) → ran"),
    ],
)
def test_what_other_tools_did_is_listed_with_what_they_returned(tool: str, arguments: Any, text: str, line: str):
    found = sections(digest(told(user("Go."), did(tool, arguments, text))))
    assert found["Commands, and how they went last"] == [f"- {line}"]
    assert not {"Plan, and what is still open", "Files changed"} & found.keys()


@each_row(
    ("tool", "arguments"),
    [
        ("send_message_to_user", {"content": "Order W77 is cancelled."}),
        ("message_notify_user", {"text": "Order W77 is cancelled.", "attachments": ["/a/b.txt"]}),
        ("finish", {"message": "Order W77 is cancelled.", "task_completed": "true"}),
        ("attempt_completion", {"result": "Order W77 is cancelled.", "command": "open index.html"}),
        ("final_answer", {"answer": ["Order W77 is cancelled."]}),
        ("final_answer", {"answer": 42.5}),
    ],
)
def test_what_the_model_answers_through_a_tool_is_its_answer(tool: str, arguments: Any):
    found = sections(digest(told(user("Cancel W77."), did(tool, arguments, "Delivered."), user("Thanks. And W78?"))))
    answer = "42.5" if arguments == {"answer": 42.5} else "Order W77 is cancelled."
    assert found["What the user asked later, and the answers"][1] == f"  → {answer}"


def test_the_short_texts_of_tools_that_act_are_kept():
    texts = {
        "send_certificate": "Certificate certificate_32 added.",
        "run_sql": "sum\n129.2",
        "click": "a\nb\n1",
        "create_token": "made tk_129",
    }
    found = sections(digest(told(user("Go."), *(did(tool, {"id": 7}, text) for tool, text in texts.items()))))
    values = ["- send_certificate(7) → Certificate certificate_32 added.", "- run_sql(7) → sum / 129.2"]
    assert found["What short commands printed last"] == values


def test_pages_that_were_read_are_listed():
    pages = (
        did("WebFetch", {"url": "https://a.b/c"}, "text"),
        did("scrape", {"url": "https://d.e"}, "text"),
    )
    found = sections(digest(told(user("Go."), *pages, did("post_form", {"url": "https://f.g"}, "ok"))))
    assert found["Files and pages read"] == ["- https://a.b/c → read", "- https://d.e → read"]


@each_row("tool", ["get_order", "search_flights", "ask_human", "think", "update_plan", "BashOutput", "WebFetch"])
def test_a_call_that_only_reads_asks_plans_or_polls_is_not_listed(tool: str):
    found = sections(digest(told(user("Go."), did(tool, {"task_id": "b1"}, "text"))))
    assert "Commands, and how they went last" not in found


def test_the_error_of_a_call_on_a_task_is_open_until_the_call_on_the_same_one_succeeds():
    failed = did("cancel_task", {"task_id": "12", "reason": "no longer needed"}, "Error: Not authorized")
    assert opened(failed) == ["- cancel_task(12 no longer needed) → failed: Error: Not authorized"]
    assert len(opened(failed, did("cancel_task", {"task_id": "13", "reason": "no longer needed"}, "Done."))) == 1
    assert opened(failed, did("cancel_task", {"task_id": "12", "reason": "mistake"}, "Done.")) == []


VIEW = {"command": "view", "path": "/r/web/b.py"}
EDITOR = "str_replace_based_edit_tool"
NOT_REPLACED = "No replacement was performed, old_str `x` did not appear verbatim in /r/web/a.py."


@each_row(
    ("failed", "then"),
    [
        (ran("python3 a.py", "ModuleNotFoundError", True), ("bash", {"command": "python3 a.py", "restart": True})),
        (ran("git merge dev", "Automatic merge failed;", True), ("bash", {"command": "git merge --abort"})),
        (ran("git push", "fatal: no remote", True), ("bash", {"command": "git push --dry-run"})),
        (ran("eslint src", "1 error", True), ("bash", {"command": "eslint src | grep no-unused | head"})),
        (did(EDITOR, {"command": "str_replace", "path": "/r/web/a.py"}, NOT_REPLACED, True), (EDITOR, VIEW)),
        (did("Edit", {"file_path": "/r/web/a.py"}, NOT_REPLACED, True), ("Edit", {"file_path": "/r/api/a.py"})),
    ],
)
def test_an_error_is_not_resolved_by_a_call_that_does_something_else(failed: list[Utterance], then: tuple[str, Any]):
    assert len(opened(failed)) == len(opened(failed, did(*then))) == 1


def test_a_plan_in_a_text_ends_with_its_turn():
    plan = did("ExitPlanMode", {"plan": "# Plan\n\n## Context\n- Add a button."}, "User has approved your plan.", False)
    first = told(user("Plan it."), plan)
    assert sections(digest(first))["Plan, and what is still open"] == ["- # Plan", "- ## Context", "- Add a button."]
    more = told(*first, model("It is done."), user("Now commit."))
    assert "Plan, and what is still open" not in sections(digest(more))
    todo = did("TodoWrite", {"todos": [{"content": "b", "status": "pending"}]})
    assert sections(digest(told(user("Go."), todo, user("On."))))["Plan, and what is still open"] == ["- [ ] b"]


@pytest.mark.parametrize(
    ("tool", "arguments", "plan"),
    [
        (
            "TodoWrite",
            {"todos": [{"content": "b", "status": "pending"}, {"content": "a", "status": "completed"}]},
            ["- [x] a", "- [ ] b"],
        ),
        ("update_plan", {"plan": [{"step": "a", "status": "in_progress"}]}, ["- [~] a"]),
        ("todowrite", {"todos": [{"content": "a", "status": "in_progress"}]}, ["- [~] a"]),
        ("update_todo_list", {"todos": "[x] a\n[ ] b"}, ["- [x] a", "- [ ] b"]),
        ("ExitPlanMode", {"plan": "# Do it\n```\ncode\n```\n- now"}, ["- # Do it", "- now"]),
        ("plan_mode_respond", {"response": "- Add a button."}, ["- Add a button."]),
        ("update_plan", {"plan": [{"step": "a b"}], "explanation": "It is easier."}, ["- [ ] a b"]),
    ],
)
def test_the_plan_is_that_of_the_last_call_that_gave_one(tool: str, arguments: Any, plan: list[str]):
    earlier = did("TodoWrite", {"todos": [{"content": "old", "status": "pending"}]}, "ok")
    assert sections(digest(told(earlier, did(tool, arguments, "ok"))))["Plan, and what is still open"] == plan


def test_tasks_are_matched_by_number_across_digests():
    created = told(did("TaskCreate", {"subject": "Write it"}, "Task #3 created successfully: Write it"))
    done = told(did("TaskUpdate", {"taskId": "3", "status": "completed"}, "Updated task #3 status"))
    assert sections(digest(done, previous=digest(created)))["Plan, and what is still open"] == ["- [x] #3 Write it"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("Let me check because it fails.", []),
        ("The root cause is a race between the two writers, not the lock.", None),
        (
            "Found it: the problem is here. The cache is never cleared.",
            ["Found it: the problem is here. The cache is never cleared."],
        ),
        ("```\nthe bug is here in the code\n```\nNothing else to say.", []),
    ],
)
def test_a_finding_is_a_cause_an_outcome_or_a_decision(words: str, found: list[str] | None):
    assert [*findings(words)] == ([words] if found is None else found)


@each_row(
    ("words", "own"),
    [
        ("<local-command-caveat>Caveat: no\n</local-command-caveat>", ""),
        ("Caveat: The messages below were generated by the user while running local commands. DO NOT respond.", ""),
        ("[Request interrupted by user for tool use]", ""),
        (
            "<command-name>/exit</command-name>\n<command-message>exit</command-message>\n<command-args></command-args>",
            "",
        ),
        ("<command-name>/review</command-name>\n<command-args>#12</command-args>", "/review\n#12"),
        ("<bash-input>git status</bash-input>\n<bash-stdout>clean</bash-stdout>", "git status"),
        ("<skill>\n<name>coordinator</name>\nNever edit.\n</skill>", ""),
        ("Base directory for this skill: /a/b\n\n# Review\n\nNever push.", ""),
        ("Base directory for this skill: /a/b\n\n# Plans\n\nNever push.\n\nARGUMENTS: use one agent", "use one agent"),
        ("Stop hook feedback:\n- [./check.sh]: the tests fail", ""),
        ("PostToolUse:Edit hook additional context: formatted", ""),
        ("<task-notification>\n<x>1</x>\n</task-notification>\nRead the output file to retrieve the result: a.out", ""),
        ("<system-reminder>\nno\n</system-reminder>\nGo on.", "Go on."),
        ("<task-notification>\n<x>1</x>\n</task-notification>\nFull transcript available at: /tmp/a.output", ""),
        (
            "Implement the following plan:\n\n# Tabs\n\nIf you need specific details from before exiting plan mode "
            "(like exact code snippets), read the full transcript at: /home/dev/a.jsonl",
            "Implement the following plan:\n\n# Tabs",
        ),
        ("ERROR! Your Patch is empty. Please provide a patch that fixes the problem.", ""),
        (
            "<system-reminder>x</system-reminder>\n\nPlease continue with the next step, or if the task is complete or "
            "you need clarification, use the 'task_done' tool to provide a summary.",
            "",
        ),
        ("Parameter 'command' is expected.\n[Error occurred in processing last action]", ""),
        ("The log says: Full transcript available at: /tmp/a", "The log says: Full transcript available at: /tmp/a"),
        ("Please continue with the next step.", "Please continue with the next step."),
        ("Why does it say `Stop hook feedback:`?", "Why does it say `Stop hook feedback:`?"),
        ("What is <skill> for?", "What is <skill> for?"),
    ],
)
def test_a_message_that_the_harness_wrote_is_not_a_request(words: str, own: str):
    assert user(words).user_words == own


def test_the_prompt_after_a_users_command_is_the_harnesss():
    command = "<command-message>simplify</command-message>\n<command-name>/simplify</command-name>"
    args = f"{command}\n<command-args>only a.py</command-args>"
    prompt = "# Simplify\n\nReview all changed files."
    to_program = command.replace("simplify", "model")
    for texts, own in (
        ((command, prompt), "/simplify"),
        ((args, prompt, "And be quick."), "/simplify\nonly a.py\n\nAnd be quick."),
        ((to_program, "Fix it."), "Fix it."),
        (("Fix it.", prompt), f"Fix it.\n\n{prompt}"),
    ):
        blocks = [{"type": "text", "text": text} for text in texts]
        messages: list[Any] = [{"role": "user", "content": blocks}]
        (one,) = utterances(parse(messages, new_parser(COUNT), 0).entries)
        assert one.user_words == own


@pytest.mark.parametrize(("tool", "own"), [("Skill", ""), ("Read", "use one agent")])
def test_the_models_arguments_to_a_skill_are_not_the_users_words(tool: str, own: str):
    skill = "Base directory for this skill: /a/b\n\n# Plans\n\nNever push.\n\nARGUMENTS: use one agent"
    made = {"type": "tool_use", "id": "t", "name": tool, "input": {"skill": "plans", "args": "use one agent"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "Launching skill: plans"}
    messages: list[Any] = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": [made]},
        {"role": "user", "content": [result, {"type": "text", "text": skill}]},
    ]
    *_, last = utterances(parse(messages, new_parser(COUNT), 0).entries)
    assert last.user_words == own


def test_the_summary_of_an_earlier_conversation_is_not_a_request():
    before = "This session is being continued from a previous conversation that ran out of context.\n\nWe ported it."
    text = digest(told(user(before), did("edit", {"path": "a.py"}, "ok"), user("And now the tests.")))
    assert sections(text)["Earlier summary"] == before.split("\n")
    assert sections(text)["What the user asked later, and the answers"] == ["- And now the tests."]


def test_a_repeated_long_request_is_listed_once_with_a_count():
    again = "Your patch is empty. Please provide a patch that fixes the problem."
    text = digest(told(user("Go."), user(again), model("It is there."), user("Yes."), user(again), user("Yes.")))
    assert sections(text)["What the user asked later, and the answers"] == [
        "- Yes.",
        f"- (1 line, asked 2 times) {again}",
        "  → It is there.",
        "- Yes.",
    ]


def test_a_request_repeated_in_a_row_is_listed_once():
    again = user("ERROR! Your patch is empty.")
    text = digest(told(user("Go."), model("Done."), again, model("It is there."), again, model("It is."), again))
    assert sections(text)["What the user asked later, and the answers"] == [
        "- (the first request)",
        "  → Done.",
        "- (1 line, asked 3 times) ERROR! Your patch is empty.",
        "  → It is. [asked again]",
    ]
    more = digest(told(model("Now it is not empty."), user("Thanks.")), previous=text)
    assert sections(more)["What the user asked later, and the answers"][3:] == ["  → Now it is not empty.", "- Thanks."]


# Whose answer it is


ASKED = "What the user asked later, and the answers"


def behind(one: Utterance) -> Utterance:
    """A message behind a request that stays in the conversation."""
    return replace(one, after_request=True)


def by_tool(words: str) -> Utterance:
    return replace(user(f"[answered AskUserQuestion]\n{words}"), is_answer=True)


def test_the_harnesss_filler_is_not_an_answer():
    text = digest([user("Why?"), model("The port was taken."), model("No response requested."), user("Thanks.")])
    assert sections(text)[ASKED] == ["- (the first request)", "  → The port was taken.", "- Thanks."]


def test_a_request_without_an_answer_does_not_get_another_ones():
    text = digest([user("Why?"), behind(model("I look at a.py."))])
    assert sections(text)[ASKED] == ["- (the first request)", "  → [none kept]"]
    more = digest([model("And at b.py."), user("Fix it."), user("On.")], previous=text)
    assert sections(more)[ASKED] == [
        "- (the first request)",
        "  → [none kept]",
        "- Fix it.",
        "  → And at b.py.",
        "- On.",
    ]


def test_an_answer_that_stays_is_said_to_be_below_until_it_is_folded():
    text = digest([user("Why?"), model("I look."), replace(behind(model("I fix it.")), answer_stays=True)])
    assert sections(text)[ASKED] == ["- (the first request)", "  → [below]"]
    more = digest([replace(behind(model("It is fixed.")), answer_stays=True)], previous=text)  # another answer
    assert sections(more)[ASKED] == ["- (the first request)", "  → [below]"]
    folded = digest([model("The port was taken."), user("Fix it."), user("Thanks.")], previous=more)
    assert sections(folded)[ASKED] == [
        "- (the first request)",
        "  → The port was taken.",
        "- Fix it.",
        "  → It is fixed.",
        "- Thanks.",
    ]


def test_an_answer_through_a_tool_does_not_end_an_exchange():
    text = digest([user("Build it."), model("Let me ask."), by_tool("sqlite"), model("It is built."), user("Thanks.")])
    assert sections(text)[ASKED] == [
        "- (the first request)",
        "  → It is built.",
        "- (2 lines) [answered AskUserQuestion]",
        "sqlite",
        "- Thanks.",
    ]


# What is dropped first


WORK = told(
    user("Port the parser to Rust.\n\nKeep the tests."),
    *(
        [
            *did("read", {"path": f"src/part_{number}.py"}, "x"),
            *did("edit", {"path": f"src/part_{number}.rs"}, "ok"),
            *ran(f"cargo test part_{number}", "ok"),
            model(f"Part {number} is done because its tests pass: it needed a new lexer state."),
            user(f"Now do part {number + 1}, as before."),
        ]
        for number in range(40)
    ),
    model("I look at the last part."),
)


@each_row("cap", [60, 100, 150, 250, 500, 1_000, 2_000, 4_000])
def test_the_first_and_the_latest_request_stand_word_for_word_and_old_entries_go_first(cap: int):
    text = digest(WORK, cap)
    assert COUNT(text) <= cap
    assert COUNT(text) > cap * 0.75 or cap > COUNT(digest(WORK))
    assert "Port the parser to Rust.\n\nKeep the tests." in text
    assert "Now do part 40, as before." in text
    kept = [number for number in range(1, 41) if f"- Now do part {number}, as before." in text]
    assert kept == [*range(kept[0], 41)]


def test_the_goal_keeps_its_heading_where_nothing_else_fits():
    told = [user("Port the parser."), user("And the " + "printer " * 40)]
    assert digest(told, 14) == "## The user's first request (1 line)\nPort the parser."


SKILL = "# Reviewing code\n" + "Look at each file and judge its names, and its tests, too. " * 200


@each_row(
    "request_",
    [
        f"Use this skill on the parser.\n\n{SKILL}",
        f"{SKILL}\n\nCan you use it on the parser?",
        f"Here it is:\n{SKILL}\nCan you use it on the parser?\n{SKILL}\nThat is all.",
        f"Das hier:\n{SKILL}\nBitte auf den Parser anwenden.\n{SKILL}\nDanke.",
        f"技能\n{SKILL}\n请把它用在解析器上。\n{SKILL}\n完。",
    ],
)
def test_a_pasted_file_in_a_request_is_cut_but_not_the_sentence_that_asks(request_: str):
    asking = next(line for line in request_.split("\n") if "arser" in line or "解析器" in line)
    text = ""
    for words in (request_, "And then?", "Step 2.", "Step 3."):  # carried on
        text = digest([user("Go."), user(words)] if not text else [user(words)], 500, text)
        assert COUNT(text) <= 500
        assert asking in text
        assert text.count("characters left out …]") == 1
        assert len(next(line for line in text.split("\n") if "lines)" in line)) > 10


# Carried on


def test_requests_stay_when_lists_go():
    work = [user("Port it. Never push."), user("please use tabs, not spaces")]
    for number in range(60):
        work += [*did("read", {"path": f"src/module_{number}/read.py"}, "x"), *ran(f"make part_{number}", "ok")]
    work += [user(f"Correction {number}: leave the file number {number} as it is, for now.") for number in range(12)]
    text = digest(told(*work), 420)
    assert COUNT(text) <= 420
    asked = [one.words for one in work if one.speaker is Speaker.USER]
    assert [words for words in asked if words not in text] == []
    assert "Rules that the user gave" not in text


def test_a_continued_digest_equals_the_digest_of_all_messages():
    for at in (1, 9, 16, 161, len(WORK) - 1):
        assert digest(WORK[at:], previous=digest(WORK[:at])) == digest(WORK)


@pytest.mark.parametrize("cap", [120, 300, 2_000])
def test_after_twenty_digests_the_first_request_is_kept_and_the_limit_holds(cap: int):
    text = ""
    for number in range(20):
        more = told(
            user("Port the parser to Rust.\n\n- Keep the tests.") if number == 0 else user(f"Now part {number}."),
            did("edit", {"path": f"part_{number}.rs"}, "ok"),
            ran("cargo test", "error: no\n\nCommand exited with code 1" if number % 2 else "ok"),
            model(f"Part {number} is ported."),
        )
        text = digest(more, cap, text)
        assert COUNT(text) <= cap
        assert sections(text)["The user's first request"] == ["Port the parser to Rust.", "", "- Keep the tests."]
        assert number == 0 or f"- Now part {number}." in text
    kept = [number for number in range(1, 20) if f"- Now part {number}." in text]
    assert kept == [*range(kept[0], 20)]


def test_another_summarizers_summary_is_kept():
    text = digest(
        told(user("And now part 2."), did("edit", {"path": "b.py"}, "ok")),
        previous="We ported part 1.\n\n## Next\nPart 2.",
    )
    assert sections(text)["Earlier summary"] == ["We ported part 1.", "", "## Next", "Part 2."]
    assert "The user's first request" not in sections(text)
    again = digest(told(user("And part 3.")), previous=text)
    assert sections(again)["Earlier summary"] == ["We ported part 1.", "", "## Next", "Part 2."]
    assert sections(again)["What the user asked later, and the answers"] == ["- And now part 2.", "- And part 3."]


def test_the_first_request_is_found_in_another_summarizers_sections():
    other = "## The user's first request (1 line)\nPort it.\n\n## Done (1 line)\nPart 1."
    text = digest(told(user("Part 2.")), previous=other)
    assert sections(text) == {
        "The user's first request": ["Port it."],
        "Earlier summary": ["## Done (1 line)", "Part 1."],
        "What the user asked later, and the answers": ["- Part 2."],
    }


def test_an_earlier_summary_is_cut_only_if_it_would_leave_no_room():
    earlier = "We did this and that. " * 60
    text = digest(told(user("Go on."), *(ran(f"make part_{number}", "ok") for number in range(200))), 600, earlier)
    assert earlier.strip() in text
    assert COUNT(text) <= 600
    cut = digest(told(user("Go on.")), 250, earlier)
    assert "left out" in cut
    assert "Go on." in cut


# Any brief

WORDS = st.one_of(
    st.text(max_size=80),
    st.lists(
        st.sampled_from(
            (
                *(
                    "Fix it. ",
                    "never ",
                    "\n",
                    "\n- ",
                    "- (2 lines) a\nb",
                    "  → x",
                    "## Plan (1 line)\n",
                    "[3 older ones left out]",
                ),
                *(
                    "\ud800",
                    "\x00",
                    "\x1f",
                    "\u2028",
                    "→",
                    "×2",
                    "(the first request)",
                    "<task>",
                    "```",
                    "The cause is. ",
                ),
            )
        ),
        max_size=8,
    ).map("".join),
)
ARGUMENTS = st.one_of(
    st.none(),
    st.integers(),
    WORDS,
    st.dictionaries(
        st.sampled_from(("path", "command", "cmd", "todos", "plan", "workdir", "paths", "x")),
        st.one_of(
            WORDS, st.none(), st.integers(), st.lists(WORDS, max_size=3), st.dictionaries(WORDS, WORDS, max_size=2)
        ),
        max_size=4,
    ),
)
TOOLS = st.one_of(
    st.sampled_from(("bash", "edit", "read", "TodoWrite", "TaskUpdate", "update_plan", "a, b ×2 → c", "")), WORDS
)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Utterance, ...]:
    """Anything that may be said and done."""
    found: list[Utterance] = []
    for _ in range(draw(st.integers(0, 6))):
        if draw(st.booleans()):
            found.append(Utterance(draw(st.sampled_from(Speaker)), draw(WORDS)))
        else:
            text = draw(st.one_of(st.none(), WORDS, st.just("error: no\n\nCommand exited with code 2")))
            found += did(draw(TOOLS), draw(ARGUMENTS), text, draw(st.sampled_from((None, True, False))))
    return tuple(found)


@QUICK
@given(
    conversations(), conversations(), st.one_of(st.just(""), WORDS), st.integers(0, 300), st.sampled_from((COUNT, len))
)
def test_any_brief_gives_a_digest_within_its_tokens(
    first: tuple[Utterance, ...], then: tuple[Utterance, ...], previous: str, cap: int, count: Count
):
    text = written(Brief(first, previous, cap, count))
    more = written(Brief(then, text, cap, count))
    for one in (text, more):
        assert count(one) <= cap
        assert one.strip() or cap < 4
        one.encode()
    assert written(Brief(first, previous, cap, count)) == text


@QUICK
@given(conversations())
def test_a_digest_is_parsed_as_it_was_written(told: tuple[Utterance, ...]):
    contents = extend_contents(Contents(), told, "")
    text = str(contents)
    assert str(read_back(text)) == text
    again = read_back(text)
    assert (again.goal, again.folder) == (contents.goal, contents.folder)
    assert {title: dict(entries) for title, entries in again.lists.items()} == {
        title: dict(entries) for title, entries in contents.lists.items() if entries
    }


HUGE = size(5_000_000)  # characters


@pytest.mark.full
@each_row("piece", ["a word and another. ", " ", "<task>\n", "|'", "```\n# \n"])
def test_a_huge_message_takes_no_more_than_a_moment(piece: str):
    words = (piece * (HUGE // len(piece)))[:HUGE]
    start = time.process_time()
    text = digest(told(user("Go."), user(words), model(words), ran(words, words), did("edit", {"path": words})), 500)
    assert time.process_time() - start < 20  # seconds, on any machine
    assert COUNT(text) <= 500


# Recorded sessions


TRANSCRIPTS = Path(__file__).parents[3] / "shared" / "transcripts"


@pytest.mark.full
@pytest.mark.skipif(not TRANSCRIPTS.is_dir(), reason="the recorded sessions are not here")
def test_recorded_sessions_fit_every_limit():
    agents = tuple(reader.name for reader in sessions.READERS)
    paths = [path for path in sorted(TRANSCRIPTS.glob("*--*.json*")) if path.name.startswith(agents)]
    assert paths
    for path in paths:
        messages = sessions.load(path.read_text(encoding="utf-8"), path.name).messages
        told = utterances(parse(messages, new_parser(COUNT), 0).entries)
        for cap in (30, 1_000, 4_000):
            half = digest(told[: len(told) // 2], cap)
            assert 0 < COUNT(digest(told[len(told) // 2 :], cap, half)) <= cap


def test_last_words_without_room_for_their_list_are_the_answer_so_far():
    answer = "The port 8080 was taken by the old worker, so I stopped it."
    asked = told(user("Fix CI."), *[did("read", {"path": f"src/{at}.py"}, "x") for at in range(9)], model(answer))
    short = digest(asked, 56)
    shown = "What the user asked later, and the answers"
    assert sections(short) == {
        "The user's first request": ["Fix CI."],
        shown: ["- (the first request)", f"  → {answer} [so far]"],
    }
    assert f"  → {answer}" in sections(digest(told(user("Thanks.")), LARGE, short))[shown]
    more = told(model("It was the proxy."), user("Thanks."))
    assert "  → It was the proxy." in sections(digest(more, LARGE, short))[shown]

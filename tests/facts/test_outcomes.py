"""What a result's text says about how its call went, as the harnesses of agents write it."""

import pytest
from tables import each_row

from autoprune.conversation.edits import append_mark, mark
from autoprune.conversation.transcript import Location, ToolCall
from autoprune.facts.outcomes import (
    background_id,
    error_lines,
    exit_code,
    has_failed,
    is_cancellation,
    is_data,
    is_refusal,
)

TRACEBACK = """Traceback (most recent call last):
  File "/src/run.py", line 9, in <module>
    main()
    ~~~~^^
  File "/src/app.py", line 5, in main
    return 1 / 0
           ~~^~~
ZeroDivisionError: division by zero"""

CODEX = "Chunk ID: a1b2c3\nWall time: 0.4 seconds\nProcess exited with code {}\nOriginal token count: 3\nOutput:\n{}"
GEMINI = "Command: ls\nDirectory: (root)\nOutput: {}\nError: (none)\nExit Code: {}\nSignal: 0\nProcess Group PGID: 12"
COMMAND = 'Command: /bin/zsh -lc "cat <<EOF\nsome text\nEOF"\n'


@each_row(
    "text", ["x\nExit code: 2\n", "ok\n=== 1 failed in 0.1s ===", "=== 3 passed in 0.1s ===", TRACEBACK, "all good"]
)
def test_the_archive_id_at_the_end_of_a_cut_text_does_not_hide_the_outcome(text: str):
    assert has_failed(append_mark(text, mark(text), gap="\n"), None) == has_failed(text, None)


def test_a_warning_after_the_word_error_is_not_a_failure():
    warning = "Error: /a/torch/cuda/__init__.py:61: FutureWarning: The package is deprecated.\n  import pynvml"
    assert has_failed(warning, None) is None
    assert has_failed(f"{warning}\n{TRACEBACK}", None) is True
    assert has_failed("Error: /a/x.py:61: no such name", None) is True


@each_row(
    ("text", "is_cancelled", "is_refused"),
    [
        ("<tool_use_error>Cancelled: parallel tool call Bash(ls) errored</tool_use_error>", True, False),
        ("Sibling tool call errored", True, False),
        ("Permission to use Bash with command make has been denied.", False, True),
        ("the job was Cancelled: parallel tool call", False, False),
        ("User rejected the tool call", False, True),
        ("User declined the meeting invitation on May 3.", False, False),
        ("User rejected the changes. Feedback: use tabs", False, True),
        ("The user rejected your proposed code edits", False, True),
        ("The user refused to execute this command", False, True),
        ("[Cleared at request 9: Bash make, not run, 40 tokens]", True, False),
        (
            "[Cleared at request 9: Bash echo 'it was, not run, they say', 40 tokens. Names in it: load_all]",
            False,
            False,
        ),
        ("[Cleared at request 9: Bash make, failed, 40 tokens]", False, False),
    ],
)
def test_a_cancelled_call_is_recognized(text: str, is_cancelled: bool, is_refused: bool):
    assert (is_cancellation(text), is_refusal(text)) == (is_cancelled, is_refused)


@each_row("text", ["all good", "", "0 failed", "x: error handling", "def fail(): ..."])
def test_an_error_flag_that_is_false_means_success_unless_the_text_contradicts_it(text: str):
    assert has_failed(text, False) is False


@each_row(
    ("text", "code"),
    [
        ("Exit code 128\nfatal: unable to access", 128),  # Claude Code
        ("Exit code 1", 1),
        ("Exit code: 0\nWall time: 0.2 seconds\nOutput:\nSuccess. Updated the following files:\nM a.py\n", 0),  # Codex
        ("Exit code: 2\nWall time: 0.2 seconds\nOutput:\n", 2),
        ("Exit code: 0\n\nCommand output:\n\n```\nok\n```", 0),  # Cursor
        (CODEX.format(0, "ok\n"), 0),
        (CODEX.format(127, "sh: foo: not found\n"), 127),
        (COMMAND + CODEX.format(1, ""), 1),
        (
            '{"output":"Success. Updated the following files:","metadata":{"exit_code":0,"duration_seconds":0.0}}',
            0,
        ),
        ('{"output":"' + "x" * 20_000 + '","metadata":{"exit_code":3,"duration_seconds":0.1}}', 3),
        ('{"exit_code": 1, "stdout": "{}"}', 1),
        ("<returncode>1</returncode>\n<output>\ncat: x: No such file or directory\n</output>", 1),  # mini-swe-agent
        ("<returncode>0</returncode>\n<output>\nTraceback (most recent call last):\n</output>", 0),
        ("<retrieval_status>success</retrieval_status>\n\n<status>completed</status>\n\n<exit_code>1</exit_code>", 1),
        ("no match\n\n\nCommand exited with code 1", 1),  # pi
        ("a.py\n<shellId: 51 completed with exit code 0>", 0),  # Copilot CLI
        ("ok\n[The command completed with exit code 0.]", 0),  # OpenHands
        (
            "[The command completed with exit code 2.]\n[Python: /bin/py]\n[Command finished with exit code 2]",
            2,
        ),
        (GEMINI.format("ok", 0), 0),
        (GEMINI.format("(empty)", 1), 1),
        ("building\nexit status 2", 2),
        ("tests\nExited with code 1\n", 1),
    ],
)
def test_an_exit_code_is_found_where_harnesses_write_it(text: str, code: int):
    in_xml = f"\n<message>It ran.</message>\n<content>\n{text}\n</content>\n"
    assert exit_code(text) == exit_code(in_xml) == code
    assert has_failed(text, None) is has_failed(in_xml, None) is (code != 0)


@each_row(
    "text",
    [
        "Exit code 1 means that nothing was found.\nExit code 2 is an error.",
        "checks:\nexit code: 0",  # the echo of an earlier command, perhaps
        "Exit code: 0 is what we want",
        "Process exited with code 0\n",
        "Wall time: 1.0 seconds\nProcess running with session ID 7\nOutput:\nProcess exited with code 0\n",
        "1: Command exited with code 1\n2: and so on",
        "[The command completed with exit code 0.]\nis what it prints",
        '{"output": "{\\"metadata\\":{\\"exit_code\\":1}}"}',
        '{"exit_codes": [1]}',
        '{"exit_code": "1"}',
        "{not json",
        "",
    ],
)
def test_an_exit_code_elsewhere_is_ignored(text: str):
    assert exit_code(text) is None
    assert has_failed(text, None) is None


@each_row(
    "text",
    [
        "<tool_use_error>File does not exist.</tool_use_error>",
        "The user doesn't want to proceed with this tool use. The tool use was rejected",
        "Error: gift card balance is not enough",
        "ERROR:\nNo replacement was performed, old_str `x` did not appear verbatim in a.py.",
        "error: pathspec 'x' did not match any file(s) known to git",
        "fatal: not a git repository",
        "error[E0425]: cannot find value `x` in this scope",
        "Error running bash command: timed out",
        "An error occurred while running the tool. Please try again. Error: no",
        "apply_patch verification failed: Failed to find expected lines in a.go",
        "No replacement was performed. Multiple occurrences of old_str",
        "Invalid `view_range`: [620, 660].",
        "Ran into [Errno 2] No such file or directory: 'x' while trying to write to x",
        "ENOENT: no such file or directory, open 'x'",
        "MCP error -32602: Invalid arguments",
        "bash: line 1: foo: command not found",
        "sh: 1: foo: not found\n",
        "zsh: command not found: foo",
        "/bin/sh: 3: cd: can't cd to x\nbash: ./ponyc: No such file or directory",
        "gcc -c a.c\nmake: *** [Makefile:192: build] Error 2",
        "Waiting...\n\n\nCommand aborted",
        "Command timed out after 120 seconds",
        "Segmentation fault (core dumped)",
        "zsh:1: command not found: foo\n(eval):1: command not found: foo",
        "'foo' is not recognized as an internal or external command,\noperable program or batch file.",
        "foo : The term 'foo' is not recognized\n    + FullyQualifiedErrorId : CommandNotFoundException",
        "building\n[lint:go] ERROR task failed",
        "/r/web:\n\u2009ERR_PNPM_RECURSIVE_RUN_FIRST_FAIL\u2009 web@0.1.0 test: `jest`",
        "\u2009ERR_PNPM_UNSUPPORTED_ENGINE\u2009 x\n\nTo fix this issue, install the required Node version.",
        "building\nError: no such table",
        "ok  \tpkg/a\t0.1s\nFAIL\tpkg/b\t0.2s\nFAIL",
        "test result: FAILED. 1 passed; 1 failed; 0 ignored",
        "a.py F\n========= 1 failed, 2 passed in 0.12s =========",
        "To github.com:a/b.git\nerror: failed to push some refs to 'github.com:a/b.git'",
        "some output\n" + TRACEBACK,
        "x" * 100_000 + "\n" + TRACEBACK + "\n\n",
        "x" * 9_000 + "\n" + TRACEBACK + ": " + "a line of the message" * 40,
        TRACEBACK + "\nsee the docs\nfor more",
        '{"error": "no such reservation"}',
        '{"error": {"code": 404}}',
        '{"success": false, "message": "no"}',
        '{"isError": true, "content": []}',
        '{"status": "error", "message": "no"}',
        '{"ok": false}',
        '<message>Error: tool failed</message><content>{"a": 1}</content>',
        "<content>{ build log }\n===== 3 failed, 2 passed in 1.20s =====</content>",
        'Error from server (NotFound): pods "web" not found',
        "### Result\nError: locator.fill: Timeout 5000ms exceeded.\nCall log:\n  - waiting for locator",
        "Fehler: Vertrag nicht gefunden",
        "错误：余额不足",
        "Traceback (most recent call last)\nCell In[3]\n----> 1 df.head()\n\nNameError: name 'df' is unknown",
        '{"object": "error", "status": 404, "message": "Could not find the page"}',
        '{"message": "Not Found", "documentation_url": "https://docs.github.com", "status": "404"}',
        '{"errorMessages": ["It is not on the screen"], "errors": {}}',
        '{"errors": [{"message": "Cannot query field"}], "data": null}',
    ],
)
def test_a_failure_is_seen_in_the_first_words_or_the_last_line(text: str):
    assert has_failed(text, None) is True


@each_row(
    "text",
    [
        "The file /src/a.py has been updated successfully.",
        "The file /src/a.py has been edited. Here's the result of running `cat -n` on a snippet",
        "File created successfully at: /src/a.py",
        "Here's the result of running `cat -n` on /src/a.py:\n     1\traise ValueError\n",
        "Success. Updated the following files:\nM a.py\n",
        "Successfully wrote 120 bytes to a.py",
        "Successfully replaced text in a.py. Changed 1 characters to 2 characters.",
        "Successfully modified file: a.py (1 replacements).",
        '{"success": true, "error": null}',
        '{"isError": false}',
        "======== 3 passed in 0.12s ========",
        "12 passed, 1 skipped in 3.01s",
        "Ran 3 tests in 0.001s\n\nOK",
        "Tests:       5 passed, 5 total",
        "All checks passed!",
    ],
)
def test_a_success_is_seen_in_the_words_of_a_tool(text: str):
    assert has_failed(text, None) is False


@each_row(
    "text",
    [
        "",
        "ok",
        "No files found",
        "def has_failed(text):\n    raise ValueError('error: no')\n",
        "ERROR:root:a line of a log\nINFO:root:another\n",
        "EXAMPLE: how to write it",
        "errors: 0",
        "FAILED tests are listed below\nnone",
        "0 failed, 3 passed",
        "The traceback was:\n" + TRACEBACK + "\n" + "and then it went on\n" * 20,
        TRACEBACK + "\n" * 2 + "\n".join(f"INFO step {number} is done" for number in range(20)),
        '  File "a.py", line 1\n',
        '{"error": null, "data": 1}',
        '{"error": ""}',
        '{"errors": ["x"]}',
        '{"status": "failed"}',
        '[{"error": "x"}]',
        '{"error": "' + "x" * 10_000 + '"}',
        "Error",
        "done\nerror: " + "x" * 500,
        "\ud800",
    ],
)
def test_without_clear_evidence_the_outcome_is_unknown(text: str):
    assert has_failed(text, None) is None


@each_row("unit", ["=", "= 1 failed in 1s ", "<a>", "{", '{"a":', "\n", " ", "Command: \n", "[x]\n", "--- "])
def test_a_long_text_takes_no_longer_than_a_short_one(unit: str):
    assert has_failed(unit * 1_000_000, None) in (None, True)


# What the text certainly says, against a flag or an exit code that says fine


def ran(command: str, tool: str = "Bash") -> ToolCall:
    return ToolCall(Location((0,)), 0, None, tool, {"command": command})


def used(tool: str) -> ToolCall:
    return ToolCall(Location((0,)), 0, None, tool, {})


LOG = "starting\nfatal: could not open the database"


@each_row(
    ("call", "text", "failed"),
    [
        (used("send_email"), "Failed to send: SMTP authentication", True),
        (used("get_page"), "Failed to launch: the story of a rocket", None),
        (ran("make"), "Failed to find ccache, going on without it\nbuilt", None),
        (used("get_logs"), LOG, None),
        (ran("kubectl logs web --tail=9"), LOG, None),
        (ran("tail app.log"), "bash: line 1: tail: command not found", True),
        (ran("journalctl -u web"), f"web[1]: on\n{TRACEBACK}", None),
        (ran("git show x"), "fatal: bad object x", True),
        (used("read_file"), TRACEBACK, True),
        (used("get_job"), '{"job_id": 4, "status": "error", "reason": "out of memory"}', None),
        (used("get_job"), '{"request_id": 4, "status": "error", "message": "no such job"}', True),
        (used("get_order"), '{"order_id": 4, "error": "no such order"}', True),
        (used("get_order"), '{"success": false, "status": 404, "order_id": "1", "error": "no such order"}', True),
        (used("get_order"), '{"order_id": null, "status": "error", "error": "no such order"}', True),
        (used("create_payment"), '{"id": 4, "status": "error"}', True),
        (used("create_list"), "Failed to create the list", True),
        (used("Agent"), "Could not find any use of it.", None),
        (used("Agent"), "Failed to find any use of it.\nSo it can go.", None),
    ],
)
def test_what_a_tool_fetched_is_not_taken_for_its_own_error(call: ToolCall, text: str, failed: bool | None):
    assert has_failed(text, None, call) is failed


@each_row(
    ("tool", "is_fetching"),
    [
        *(("browser_snapshot", True), ("retrieve_page", True), ("git_status", True), ("list_orders", True)),
        *(
            ("create_list", False),
            ("search_replace", False),
            ("update_search_index", False),
            ("mark_as_read", False),
            ("restore_snapshot", False),
        ),
    ],
)
def test_a_tool_that_acts_fetches_no_data(tool: str, is_fetching: bool):
    assert is_data(used(tool)) is is_fetching


@each_row(
    ("sql", "is_fetching"),
    [
        *(("UPDATE jobs SET done = 1", False), ("drop table if exists jobs", False), ("DELETE FROM jobs", False)),
        *(("SELECT 1", True), ("create react app", True), ("update pip", True)),
    ],
)
def test_a_query_that_changes_a_database_fetches_no_data(sql: str, is_fetching: bool):
    assert is_data(ToolCall(Location((0,)), 0, None, "execute_query", {"query": sql})) is is_fetching
    assert is_data(ToolCall(Location((0,)), 0, None, "web_search", {"query": sql}))


GIT_PUSH = "To github.com:a/b.git\n ! [rejected] main -> main (fetch first)\nerror: failed to push some refs to 'b'\n"
HINTS = "hint: Updates were rejected because the remote contains work\nhint: that you do not have locally.\n"


@each_row(
    ("command", "text"),
    [
        ("pytest -q | tail -3", "FAILED test_a.py::test_a\n1 failed, 3 passed in 0.31s"),
        ("pytest -q 2>&1 | tail -3; echo done", "1 failed in 0.31s\ndone"),
        ("pytest || true", "= short test summary =\n=== 2 errors in 1.20s ==="),
        ("git push | tail", "error: failed to push some refs to 'origin'"),
        ("git push 2>&1 | tail -20", GIT_PUSH + HINTS),
        ("cd /src && go test ./... 2>&1 | head -40", "--- FAIL: TestA (0.00s)\nok  \tpkg/b\t0.1s"),
        ("npm run build 2>&1 | tail -3", "npm error command failed\nWaiting for the debugger"),
        ("npx jest | tail", "Tests:       1 failed, 4 passed, 5 total\nSnapshots:   0 total"),
        ("npx tsc --noEmit | head", "src/a.ts(3,1): error TS2322: no\nsrc/b.ts"),
        ("cargo test | tail", "error: could not compile `a` (bin) due to 1 previous error"),
        ("make; echo exit=$?", "cc a.c\nexit=2"),
        ("golangci-lint run | tail -5", "3 issues:\n* errcheck: 2\n* goconst: 1"),
        ("mise run fmt && mise run lint | tail", "[lint] 1 issues:\n[lint] * revive: 1\n[fmt] $ gofmt -w ."),
        ("mise run lint | tail", "\x1b[32m[lint:go]\x1b[0m \x1b[31mERROR\x1b[0m task failed\n[fmt] $ gofmt -w ."),
        ("pnpm install | tail", "\u2009ERR_PNPM_OUTDATED_LOCKFILE\u2009 Cannot install\n\nFailure reason"),
        ("npm test", "  1 failing"),
        ("pytest", "\x1b[31m\x1b[1m1 failed\x1b[0m in 0.1s"),
        ("./deploy.sh", "copying\nbash: line 3: kubectl: command not found"),
        ("python a.py", TRACEBACK),
        ("pytest", "1 failed in 0.1s"),
    ],
)
def test_a_clear_failure_in_the_text_outweighs_a_false_error_flag(command: str, text: str):
    assert has_failed(text, False, ran(command)) is True
    assert has_failed(CODEX.format(0, text), None, ran(command, "exec_command")) is True


@each_row(
    ("command", "text"),
    [
        ("cat a.py", "cat: a.py: No such file or directory"),
        ("cd b && cat a.py", "bash: cd: b: No such file or directory"),
        (
            "rm a.py b.py",
            "rm: cannot remove 'a.py': No such file or directory\nrm: cannot remove 'b.py': Is a directory",
        ),
        ("Get-Content a.py", "\x1b[31;1mGet-Content: \x1b[0mCannot find path 'C:\\a.py' because it does not exist."),
        (
            "Get-Content a.py",
            "Get-Content : Cannot find path 'C:\\a.py'.\nAt line:1 char:1\n+ Get-Content a.py\n    + CategoryInfo : x",
        ),
        ("docker exec app ls", "Error response from daemon: No such container: app"),
        ("mysql -e 'select 1'", "ERROR 1045 (28000): Access denied for user 'a'"),
        ("javac A.java", "A.java:3: error: ';' expected\n1 error"),
        ("mvn test", "[ERROR] Tests run: 12, Failures: 1, Errors: 0\n[INFO] BUILD FAILURE\n[ERROR] -> [Help 1]"),
        ("./gradlew test", "12 tests completed, 1 failed\nBUILD FAILED in 3s\n4 actionable tasks: 4 executed"),
        ("mix test", "11 tests, 1 failure\n\nRandomized with seed 1"),
        ("swift test", "Test Suite 'a' failed.\n\t Executed 5 tests, with 1 failure (0 unexpected) in 0.1 seconds"),
        ("dotnet test", "Failed!  - Failed:     1, Passed:    11, Skipped:     0, Total:    12 - a.dll"),
        ("node --test", "\u2139 tests 5\n\u2139 fail 1\n\u2139 duration_ms 45"),
    ],
)
def test_without_a_flag_and_an_exit_code_a_command_failed_if_its_program_says_so(command: str, text: str):
    assert has_failed(text, None, ran(command)) is True


@each_row(
    ("command", "text"),
    [
        ("cat a.log", "cat: b.py: No such file or directory\nthe end"),
        ("cat a.log", "rm: cannot remove 'b.py': No such file or directory"),
        ("make", "make: Nothing to be done for 'all'."),
        ("cat status", "status: failed"),
        ("cat report.txt", "a: 1\n2 errors"),
        ("npx envinfo", "System:\nNode.js v22.1.0"),
        ("python report.py", "Test coverage: 3 failures in a week"),
        ("mvn test", "[INFO] Tests run: 12, Failures: 0, Errors: 0, Skipped: 0\n[INFO] BUILD SUCCESS"),
        ("cat build.log", "[INFO] BUILD FAILURE\n[ERROR] -> [Help 1]"),
        ("mix test", "11 tests, 0 failures\n\nRandomized with seed 1"),
        ("git commit -m x", "[main 1234567] Fix tests: 2 failures\n 1 file changed"),
        ("docker logs worker --tail 1", "worker: connection refused"),
        ("rm a || true", "rm: cannot remove 'a': No such file or directory"),
        ("python train.py", "100 runs mean error 1e-5"),
        ("python train.py", "Test: 3.2 error 1.5"),
        ("./deploy.sh", "1 failed\nretry ok\ndone"),
    ],
)
def test_a_complaint_of_another_program_or_among_other_words_is_not_a_failure(command: str, text: str):
    assert has_failed(text, None, ran(command)) is None


def test_a_complaint_does_not_contradict_a_flag():
    text = "rm: cannot remove 'a': No such file or directory"
    assert has_failed(text, False, ran("rm a; mkdir a")) is None


@each_row(
    "command",
    [
        *("pytest -q | tail -3", "pytest -q |& tee log", "pytest || true", "make || echo no", "pytest; ls", "a\nb"),
        *("npm run dev &", "for f in *.py; do python $f; done", "cat a.txt | head", "(pytest | tail) && echo done"),
    ],
)
def test_the_outcome_of_a_command_that_hides_failures_is_unknown(command: str):
    assert has_failed("collecting", False, ran(command)) is None
    assert has_failed(CODEX.format(0, "collecting"), None, ran(command)) is None


@each_row(
    "command",
    [
        *("pytest -q", "cd a; pytest", "export A=1; make", "set -e\nmake\nmake test", "echo y | git reset -p"),
        *("set -o pipefail; pytest | tail", "git push 2>&1", "grep 'a|b' c", 'git commit -m "a; b | c"', "ls &> log"),
        "git commit -m \"$(cat <<'EOF'\nFix a | b\n\nMore; words\nEOF\n)\"",
        "python - <<'EOF'\na(); b() | c\nEOF",
    ],
)
def test_a_false_error_flag_means_success_for_other_commands(command: str):
    assert has_failed("collecting", False, ran(command)) is False


def test_a_count_of_all_tests_is_recognized_after_a_pipe_too():
    assert has_failed("...\n3 passed in 0.1s", False, ran("pytest -q | tail -3")) is False


REPORT = "\n\nSUMMARY\nTotal: 1\nWritten to results/index.jsonl\n"


@each_row(
    "verdict",
    [
        *("RESULT: FAIL  (0/1 scored >= 80%, mean: 0%)", "Result: FAILED", "Status: failed", "Overall: FAIL"),
        *("Verdict: fail", "Overall result: FAILED (3 of 5)", "Test Result: FAIL", "Build status: failure"),
        *(
            "=== RESULT: FAIL ===",
            "❌ Result: Failed!",
            "Status: ❌ FAILED",
            "Outcome: FAILED - no answer",
            "STATUS:FAIL\r",
        ),
        *("\x1b[31mRESULT: FAIL\x1b[0m", "RESULT: FAIL (0 passed, 2 failed)", "RESULT: PASS\nRESULT: FAIL"),
    ],
)
def test_a_failed_verdict_on_its_own_line_is_a_failure_anywhere(verdict: str):
    for text in (verdict, f"$ run evals\n{verdict}{REPORT}", verdict + REPORT + "a line\n" * 2_000):
        assert has_failed(text, None) is True
        assert has_failed(text, False, ran("bun agentv eval run a.yaml --dry-run")) is True
        assert has_failed(CODEX.format(0, text), None, ran("bun agentv eval run a.yaml", "exec_command")) is True
        assert has_failed(text, False, ran("cat run.log")) is False
        assert has_failed(text, False, ran("./eval || ./eval --retry")) is None


@each_row(
    "line",
    [
        *(
            "Result: 0 failed",
            "Status: failed tests: 0",
            "Result: FAILED: 0",
            "Result: FAILED (0)",
            "Status: failed - 0",
        ),
        *(
            "Result: FAIL/PASS",
            "Status: failed | passed",
            "Status: failover",
            "Result: fail count 3",
            "Overall: 3 failed",
        ),
        *(
            "  Status: failed",
            "- Result: FAIL",
            "status: failed",
            "the RESULT: FAIL",
            "print('Result: FAIL')",
            "FAIL: 0",
        ),
        *(
            "Expected result: FAIL",
            "Result:\nFAIL, or PASS",
            "RESULT: FAIL\nRESULT: PASS",
            "Status: failed\nResult: ok",
        ),
    ],
)
def test_a_line_that_only_looks_like_a_verdict_is_not_a_failure(line: str):
    text = f"$ run evals\n{line}{REPORT}"
    assert has_failed(text, None) is None
    assert has_failed(text, False, ran("bun agentv eval run a.yaml --dry-run")) is False


@each_row(
    ("command", "text"),
    [
        (
            "pnpm build | tail",
            "\u2009WARN\u2009 Unsupported engine: wanted: {}\n\u2009ERR_PNPM_UNSUPPORTED_ENGINE\u2009 x\ndone",
        ),
        ("make check | tail", "0 issues:\n2 issues:\nall fixed"),
        ("make; cat expected.txt", "built\nError: no such table"),
        ("cat run.log", "[lint] ERROR task failed"),
    ],
)
def test_a_warning_or_a_text_that_is_only_printed_is_not_a_failure(command: str, text: str):
    assert has_failed(text, False, ran(command)) is not True


def test_a_fallback_makes_up_for_a_failure():
    text = "fatal: Needed a single revision\nSwitched to a new branch 'a'"
    assert has_failed(text, False, ran("git rev-parse --verify a || git checkout -b a")) is None


@each_row(
    "call",
    [
        *(ran("cat run.log"), ran("grep -rn failed . | head"), ran("git log -3"), ran("gh run view 7 --log")),
        *(ToolCall(Location((0,)), 0, None, name, {"path": "run.log"}) for name in ("Read", "read_file", "WebFetch")),
    ],
    ids=lambda call: f"{call.name} {call.arguments}",
)
def test_an_error_message_in_fetched_text_does_not_mean_failure(call: ToolCall):
    assert has_failed("Error: no such table\n1 failed in 0.1s", False, call) is None


@pytest.mark.parametrize(
    ("text", "session"),
    [
        ("Chunk ID: a1\nWall time: 1.0 seconds\nProcess running with session ID 66991\nOutput:\n", "66991"),
        ('Command: /bin/zsh -lc "go test"\nChunk ID: a1\nProcess running with session ID 7\n', "7"),
        ("Command running in background with ID: bowd1. Output is being written to: /tmp/bowd1.output", "bowd1"),
        ("<command with shellId: 12 is still running after 30 seconds.>", "12"),
        ("Output:\nProcess running with session ID 7", ""),
        ("the server is running in background with ID: x", ""),
    ],
)
def test_a_command_that_has_not_ended_has_no_outcome(text: str, session: str):
    assert background_id(text) == session
    assert not session or has_failed(text, False) is None


@each_row("unit", ["<<a\n", "|", "'", '"', "\\", "a; ", "# ", "$(", "<<'E'\n\n"])
def test_a_long_command_takes_no_longer_than_a_short_one(unit: str):
    assert has_failed("x", False, ran(unit * 100_000)) in (None, False)


# Error lines


def found(text: str, start: int = 0, stop: int | None = None) -> list[str]:
    return [text[begin:end] for begin, end in error_lines(text, start, len(text) if stop is None else stop)]


@each_row(
    "line",
    [
        "ValueError: invalid literal\n",
        "E       AssertionError: assert 1 == 2\n",
        "KeyError\n",
        "requests.exceptions.ConnectionError: no\n",
        "TypeError: x is not a function\n",
        "error: no\n",
        "error[E0308]: mismatched types\n",
        "src/a.c:12:5: error: expected ';'\n",
        "src/a.ts(28,2): error TS2739: Type\n",
        "fatal: not a git repository\n",
        "panic: runtime error: index out of range\n",
        "Caused by: java.lang.IllegalStateException\n",
        "npm ERR! code ELIFECYCLE\n",
        "--- FAIL: TestPlan (0.00s)\n",
        "FAIL\tpkg/a\t0.1s\n",
        "FAILED tests/test_a.py::test_b - assert 1 == 2\n",
        "make[1]: *** [all] Error 2\n",
        "2026-01-02 10:00:00 ERROR cannot connect\n",
        "2026-01-02T10:00:00Z [ERROR] cannot connect\n",
        "\x1b[31mERROR\x1b[0m cannot connect\n",
        "bash: foo: command not found\n",
        "(eval):1: command not found: foo\n",
        "'foo' is not recognized as an internal or external command,\n",
        "    + FullyQualifiedErrorId : CommandNotFoundException\n",
        "\u2009ERR_PNPM_NO_SCRIPT\u2009 None of the packages has a script\n",
        "[lint] ERROR task failed\n",
        "[lint] cmd/a.go:42:5: error is not nil but it returns nil (nilerr)\n",
        "Segmentation fault (core dumped)\n",
        "npm script exited with code 1\n",
        "exit status 2\n",
        "RESULT: FAIL  (0/1 scored >= 80%, mean: 0%)\n",
        "Status: failed\n",
    ],
)
def test_lines_that_report_a_failure_are_found(line: str):
    assert found(f"all good\n{line}all good\n") == [line]


@each_row(
    "line",
    [
        "    return fmt.Errorf(err)\n",
        "except ValueError:\n",
        "   12\traise ValueError(x)\n",
        "it prints errors in red\n",
        "errors = 0\n",
        "logger.error('no')\n",
        "ERROR = 3\n",
        "exit code 0\n",
        "Status: failed tests: 0\n",
        "404 page not found here\n",
        "a.go:42:5: a line (found) here\n",
        f"error: {'x' * 500}\n",
    ],
)
def test_lines_that_only_mention_errors_are_not_found(line: str):
    assert found(f"all good\n{line}all good\n") == []


def test_the_end_of_the_last_traceback_comes_first_then_lines_in_their_order():
    first = TRACEBACK.replace("ZeroDivision", "Overflow") + "\n"
    longer = TRACEBACK.replace("  File", '  File "/src/start.py", line 1, in <module>\n    run()\n  File', 1) + "\n"
    text = f"error: one\n{first}ok\n{longer}error: two"
    assert found(text) == [
        longer[longer.index('  File "/src/run.py"') :],
        "error: one\n",
        "OverflowError: division by zero\n",
        "ZeroDivisionError: division by zero\n",
        "error: two",
    ]


def test_only_whole_lines_between_the_offsets_are_found():
    text = "an error: one\nerror: two\nerror: three\n"
    assert found(text, 3, len(text) - 3) == ["error: two\n"]
    assert found(text, 14, 25) == ["error: two\n"]
    assert found(text, 15, 24) == []


def test_a_traceback_inside_a_line_is_found_by_its_exception():
    assert found(f"12:00 {TRACEBACK}\n") == ["ZeroDivisionError: division by zero\n"]


def test_lines_that_differ_only_in_digits_are_found_once():
    assert found("".join(f"error: try {number}\n" for number in range(9))) == ["error: try 0\n"]

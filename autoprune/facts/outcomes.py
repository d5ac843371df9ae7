"""Find out how a tool call ended, from its result's text: whether it failed, and what the user said in it.

The patterns come from the output of the programs that their comments name. Only parts of long texts are read.

The user may speak through a tool: with an answer to its question, or a reason for refusing a call. The names and texts
for that are those that agents such as Claude Code, Codex, Gemini CLI, Cline and SWE-agent write.
"""

import json
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import islice

from autoprune.conversation.edits import split_mark
from autoprune.conversation.transcript import ToolCall, ToolResult
from autoprune.facts.calls import arguments, command, target, tool_words
from autoprune.facts.shell import has_fallback, hides_failures, only_prints_texts, program_names

HEAD = 4_000  # characters that are read: a harness's header, with the command that it ran
TAIL = 4_000  # characters that are read: a harness's footer, or the last frames of a traceback
LONGEST_JSON = 8_000  # characters; of a longer document only the end is read
MESSAGE_LINES = 8  # of an exception's message
LONGEST_LINE = 400  # characters; a longer line is data, not an error message
MOST_LINES = 20_000  # with a telling word, that are checked

# Exit codes where agents' harnesses put them. Elsewhere in a text, a command may have printed the same words.
HEADERS = re.compile(
    r"\s*(?:"
    r"Exit code:? (?P<first>[1-9]\d*|-\d+)[ \r]*(?:\n|\Z)"  # Claude Code, Cursor, Roo, Codex's apply_patch
    r"|Exit code: (?P<zero>0)\n\s*(?:Wall time|Output|Command output)\b"  # the same; these words prove the harness
    r"|(?:<(\w+)>[^<]*</\3>\s*)*<(?:returncode|exit_code)>(?P<tag>-?\d+)<"  # mini-swe-agent, Claude Code's tasks
    r"|(?:Command|Chunk ID|Wall time): (?:(?!Output:\n)[^\n]*\n)*?Process exited with code (?P<codex>-?\d+)\n"  # Codex
    r")"
)
FOOTERS = re.compile(
    r"(?:^|\n)(?:"
    r"Command exited with code (?P<pi>-?\d+)"  # pi
    r"|<shellId: \S+ completed with exit code (?P<copilot>-?\d+)>"  # Copilot CLI
    r"|\[(?:The command completed|Command finished) with exit code (?P<openhands>-?\d+)\.?\](?:\n\[[^\n]*\])*"
    r"|Exit Code: (?P<gemini>-?\d+)(?:\n(?:Signal|Background PIDs|Process Group PGID): [^\n]*)+"  # Gemini CLI
    r"|(?i:exit(?:ed with)? (?:code|status)):? (?P<last>[1-9]\d*)"  # any tool; a zero may belong to an earlier command
    r")\s*\Z"
)
LAST_MEMBERS = re.compile(
    r'[{,]\s*"(?:exit_?code|return_?code)"\s*:\s*(-?\d+)\s*(?:,\s*"\w+"\s*:\s*[-\w.]+\s*)*\}\s*\}?\s*\Z', re.IGNORECASE
)
# How a text begins if a person refused the call.
REFUSED = (
    r"(?:The user (?:doesn't|does not|didn't|did not) (?:want|allow|approve)\b"  # Claude Code
    r"|(?:The )?[Uu]ser (?:has )?(?:denied|rejected|declined|refused) (?:this|permission|tool"
    r"|to (?:run|execute|allow|use|answer|proceed)"
    r"|(?:the|these|that|your) (?:\w+ ){0,2}(?:tool|call|command|operation|request|action|edit|change|write|diff|patch"
    r"|plan|execution)s?)\b"
    r"|Permission for this tool use was denied|Request interrupted by user"  # Claude Code
    r"|The tool call (?:is|was) rejected\b|Plan rejected\b)"  # Kimi CLI; Gemini CLI, Qwen Code
)
# How a text begins if a call was not made because a parallel one had failed.
CANCELLED = re.compile(r"\s*(?:<tool_use_error>)?\s*(?:Cancelled: parallel tool call|Sibling tool call errored)")
DENIED = r"Permission to use \w+ (?:with|has been)\b"  # by a rule, or by a person without a comment
SAYS_REFUSED = re.compile(rf"\s*(?:<message>\s*)?(?:[Ee]rror: )?{REFUSED}")
BEGINS_REFUSED = re.compile(rf"\s*(?:<message>\s*)?(?:[Ee]rror: )?(?:{REFUSED}|{DENIED})")
# How a text begins that is only an error message.
FIRST_WORDS = re.compile(
    r"\s*(?:<message>\s*)?(?:"
    rf"<tool_use_error>|{REFUSED}"
    r"|(?:[Ee]rror|ERROR|fatal|FATAL)(?:\[\w+\])?:\s(?!\S+:\d+: \w*Warning: )"
    r"|(?:Error|Failed to) (?:call|execut|run|read|writ|edit|search)\w*\b"
    r"|An error occurred\b"  # openai-agents
    r"|apply_patch verification failed"  # Codex
    r"|No replacement was performed|Ran into .{1,400} while trying to"  # Anthropic's text editor, as many agents use it
    r"|Invalid `\w+`(?: parameter)?: |File content \(.{1,40}\) exceeds maximum"  # the same
    r"|E(?:NOENT|ACCES|PERM|ISDIR|NOTDIR|EXIST|CONNREFUSED|CONNRESET|TIMEDOUT|NOTFOUND|INVAL|NOSPC): \w"  # Node
    r"|MCP error -?\d+|Tool '?[\w.-]+'? not found|Unknown tool\b"
    r"|(?:Error from server|ERROR \d+) \(\w+\)|### (?:Result\nError: |Error\n)"  # kubectl, MySQL, Playwright
    r"|Error response from daemon: |OCI runtime \w+ failed: "  # Docker
    r"|(?:Fehler|Erreur|Errore|Erro|错误|出错|失败|エラー|오류)[:：]"  # "error" in other languages
    r")"
)
NOT_ABLE = re.compile(r"\s*Failed to \w[^\n]{0,300}\s*")  # how tools that are no commands say so, and no more
# How tools that edit or show files report success, in phrases that no command prints.
DONE = re.compile(
    r"\s*(?:"
    r"The file .{1,400} has been (?:updated|edited|created|written)\b|File created successfully at: "  # Claude Code
    r"|Here's the (?:result of running `cat -n` on|files and directories up to) "  # Anthropic's text editor
    r"|Success\. Updated the following files:|File .{1,400} updated with changes\."  # Codex, Copilot CLI
    r"|Successfully (?:wrote \d+ bytes to|replaced text in) "  # pi
    r"|Successfully (?:modified|overwrote|created and wrote to new) file: "  # Gemini CLI
    r")"
)
# How a text ends if the last command failed.
LAST_LINE = re.compile(
    r"(?:"
    r"(?:\S*/)?(?:ba|da|k|z|)sh(?:\[\d+\])?: (?:(?:line )?\d+: )?(?:\S+: )?(?:command not found|not found|No such file"
    r"|Permission denied|cannot execute|syntax error).*"
    r"|(?:error|fatal|ERROR): \S.*"  # git, compilers
    r"|g?make(?:\[\d+\])?: \*\*\* .*"
    r"|Command (?:aborted|timed out\b.*|was aborted\b.*)"
    r"|Aborting\.?|(?:\S+: )?(?:Segmentation fault|Bus error|Aborted)(?: \(core dumped\))?"
    r"|=+ .*\b\d+ (?:failed|errors?)\b.* in [\d.]+s[^=]*=+"  # pytest
    r"|FAIL(?:\t.*)?|test result: FAILED\..*"  # Go, Rust
    r"|To fix this issue, install the required Node version\.|operable program or batch file\."  # pnpm, cmd.exe
    r")"
)
# What test runners, compilers and git print once, anywhere, if something has failed.
SUMMARY = re.compile(
    r"^(?:"
    r"=* ?(?:\d+ \w+, )*[1-9]\d* (?:failed|errors?)\b.* in [\d.]+m?s\b.*"  # pytest
    r"|FAILED \((?:failures|errors)=.*"  # unittest
    r"|FAIL(?:\t.*)?|[ \t]*--- FAIL: .*|test result: FAILED\..*"  # Go, Rust
    r"|(?:\[\w+\] )?[^\w\n]{0,12}(?:Tests?|Test Files|Test Suites):?[ \t]+"
    r"(?:\d+ \w+(?:, | \| ))*[1-9]\d* failed\b.*"  # Jest, Vitest
    r"|(?:\[\w+\] )?Tests(?: run)?: \w.*(?i:failed|failures?|errors?):? [1-9]\d*(?![\w%]).*"  # Maven, PHPUnit, sbt
    r"|[^\w\n]{0,12}(?:Executed |Summary \[.{0,40}\] +)?\d+ (?:examples?|tests?|runs?)(?: run| completed)?[,:] .*"
    r"\b[1-9]\d* (?:failed|failures?|errors?)\b.*"  # RSpec, Minitest, ExUnit, XCTest, nextest, Gradle
    r"|FAILURES!|Failed! +- .*"  # PHPUnit, .NET
    r"|[^\w\n]{0,4}Test run .* failed after .*|\*\* \w+ FAILED \*\*"  # Swift, Xcode
    r"|\*\* \([A-Z][\w.]*\) .*|[1-9]\d* errors?(?: generated\.)?"  # Elixir, javac and clang
    r"|Errors while running CTest"
    r"|[ \t]*[1-9]\d* (?:failing|failed|fail)|[#ℹ] fail [1-9]\d*"  # Mocha, Playwright, Bun, TAP, Node
    r"|(?:\[\w+\] )?(?:BUILD FAILED|BUILD FAILURE|Build FAILED)\b.*"  # Gradle, Maven, .NET
    r"|g?make(?:\[\d+\])?: \*\*\* .*|npm (?:ERR!|error)\b.*|[^\w\n]*ELIFECYCLE\b.*"
    r"|Found [1-9]\d* errors?\b(?!.* 0 remaining).*|\S+\(\d+,\d+\): error TS\d+: .*"  # tsc, mypy, ruff
    r"|[^\w\n]*[1-9]\d* problems? \([1-9]\d* errors?\b.*"  # ESLint
    r"|error(?:\[E\d+\])?: (?:could not compile|aborting due to|failed to push|pathspec|src refspec|patch failed).*"
    r"|fatal: \S.*| ! \[(?:remote )?rejected\] .*|CONFLICT \(.*|Automatic merge failed;.*"  # git
    r"|(?:\S+: )?(?:line \d+: )?\S+: command not found|(?:zsh|\(eval\)):(?:\d+:)? command not found: .*"
    r"|[ \t]*\+ FullyQualifiedErrorId ?: .*|'.{1,200}' is not recognized as an internal or external command,"  # Windows
    r"|\[[\w:.-]+\] ERROR task failed|[^\w\n]*ERR_PNPM_(?!UNSUPPORTED_ENGINE)[A-Z_]+\b.*"  # mise, pnpm
    r"|(?:\[\S+\] )?[1-9]\d* issues:\n(?:\[\S+\] )?\* \w+: \d+"  # golangci-lint
    r"|(?i:exit(?:ed)?(?: with)?(?:[ _]?(?:code|status))?) ?[:=]? ?[1-9]\d*\.?"  # of `echo "exit: $?"`
    r")[ \t\r]*$",
    re.MULTILINE,
)
# The overall verdict of evaluation runners and check scripts, on its own line, perhaps before a report. A word or a
# number right after it belongs to a count ("failed tests: 0"); a good verdict overrides one before it.
JUDGED = (
    r"(?:[=*]{1,80} ?|[✗✘✖❌] ?)?(?=[A-Z])"
    r"(?i:(?:(?:overall|final|test|build) )?(?:results?|status|verdict|outcome)|overall):[ \t]*"
)
FAILED_VERDICT = (
    rf"{JUDGED}(?:[✗✘✖❌] ?)?(?i:fail(?:ed|ure)?)"
    r"(?:[ \t]+(?:\((?!0\)).*|[-–—] (?!0\b).*))?[ \t\r=*!.]*"
)
VERDICT = re.compile(rf"^(?:(?P<failed>{FAILED_VERDICT})|{JUDGED}[^\w\n]{{0,4}}(?i:pass|ok\b|succe).*)$", re.MULTILINE)
# How a text ends that counts all tests, or all problems, without a failure.
PASSED = re.compile(
    r"(?:=* ?(?:\d+ (?:passed|skipped|deselected|xfailed|xpassed|warnings?|subtests passed)(?:, )?)+ in [\d.]+m?s\b.*"
    r"|OK(?: \(.*\))?|Tests:[ \t]+(?:\d+ (?:skipped|todo|passed), )*\d+ total"
    r"|All checks passed!|Success: no issues found in .*)\s*"
)
# How a program of a script says that it cannot do something, and the other lines of such a message in PowerShell.
COMPLAINT = re.compile(
    r"(?:\S*/)?(?:(?:ba|z)?sh: (?:(?:line )?\d+: )?)?(?P<program>[\w.+-]+) ?: .*"
    r"(?i:no such |cannot |can't |could(?: not|n't) |not (?:found|recognized|permitted)|denied|refused"
    r"|(?:is|not) a directory|failed|returned error).*"
)
TESTS = re.compile(r"\b(?:tests?|check|build)\b")  # in scripts whose output may end with something else
COMPLAINT_GOES_ON = re.compile(r"\s|\+|At line:|\Z")
FAINT = re.compile(r"(?:hint: .*|\s*)\Z")  # last lines that are only advice
COLORS = re.compile(r"\x1b\[[\d;]*m")
# Tags around a text in the XML dialect, and around an error in others.
OPENING = re.compile(r"\s*(?:<message>[^<]{0,2000}</message>\s*)?<content>")
CLOSING = re.compile(r"</content>\s*\Z")
# Placeholders of cleared results: this package's, and those of agents that clear results themselves. Each is the whole
# text, since a tool may print the placeholder of another result.
CLEARED = re.compile(
    r"\s*+\"?(?:<message>Content cleared to save tokens</message>(?:\s*<content>(?:(?!</content>).){0,2000}</content>)?"
    r"|(?:This message has been cleared\.|\[Tool result cleared\b|<MASKED>|Old environment output: \()[^\n]{0,500}"
    r"|\[Old tool result content cleared\]|\[Cleared at request \d{1,9}: (?P<what>[^\n]{1,900})\])\"?\s*",
    re.DOTALL,
)
# How placeholders of `cache_aware` and lines of folded steps state what became of a call.
FAILED, NOT_RUN = "failed", "not run"
HOW = f"{FAILED}|{NOT_RUN}"
OUTCOME = re.compile(rf", (?P<how>{HOW}), [\d,]+ tokens(?:\. [^\n]*)?\Z")
# How a harness reports a command that has not ended; the group is the command's id.
BACKGROUND = re.compile(
    r"\s*(?:"
    r"(?:(?:Command|Chunk ID|Wall time): (?:(?!Output:\n)[^\n]*\n)*?)?Process running with session ID (?P<codex>\w+)"
    r"|Command (?:running|was manually backgrounded by user|is running|started)\b[^\n]{0,60}\bID:? (?P<claude>[\w-]+)"
    r"|(?:[^\n]*\n){0,200}?<command (?:started [^>\n]{0,60}?)?with shellId:? (?P<copilot>[\w-]+)"
    r")"
)
# Words in the names of tools that fetch text: an error message in such a result need not be the tool's. ACTING ones
# outweigh them: create_list, search_replace.
DATA = frozenset(
    (
        *("read", "view", "open", "cat", "show", "fetch", "search", "grep", "glob", "list", "find", "get", "ls"),
        *("lookup", "query", "browse", "web", "describe", "retrieve", "inspect", "status", "history", "logs"),
        *("snapshot", "screenshot", "scrape", "crawl", "extract"),
    )
)
ACTING = frozenset(
    (
        *("add", "cancel", "change", "clear", "create", "delete", "edit", "insert", "mark", "move", "remove"),
        *("replace", "restore", "send", "set", "submit", "update", "upload", "write"),
    )
)
# Statements of SQL that change something, in the arguments of tools that query a database too.
CHANGES_DATABASE = re.compile(
    r"\s*(?:insert\s+into|update\s+\S+\s+set|delete\s+from|truncate|merge\s+into"
    r"|(?:create|alter|drop)\s+(?:\w+\s+){0,3}?(?:table|index|view|database|schema|column|role|user))\s",
    re.IGNORECASE,
)
QUERYING = frozenset(("sql", "query", "execute", "db", "database", "postgres", "mysql", "sqlite"))
OWN_ID = re.compile(r"(?!request)(?:\w{1,40}_id|\w{1,40}Id|id)")  # of what a JSON object describes
LOGS = re.compile(r"\b(?:logs|journalctl|dmesg)\b|\.log\b")  # in commands that print logs
FRAME = re.compile(r'\n  File "[^"\n]+", line \d+|\n-+> \d+ ')  # of Python and of IPython
EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?::\s|\Z)")
FIGURES = re.compile(r"\d+")
TRACEBACK = re.compile(r"Traceback \(most recent call last\):\r?\n(?P<frames>(?:[ \t][^\n]*\n)+)[^\n]*\n?")
# A fast search for parts of words, before the line itself is checked: code that mentions errors is no error line.
TELLING = re.compile(
    r"rror|ERR|FAIL|atal|FATAL|xception|panic|CRITICAL|SEVERE|t found|t recogn|xit|aused|core dumped"
    r"|\*\*\* |:[ \t]*[Ff]ail|\.go:\d+:\d+: "
)
ERROR_LINE = re.compile(
    r"(?:\x1b\[[\d;]*m)*(?:"
    r"(?:E +)?[A-Za-z_][\w.]*(?:Error|Exception)(?:: \S|\s*\Z)"  # Python, pytest, JavaScript, Java
    r"|(?:[Ee]rror|fatal|panic|Caused by|Exception in thread)(?:\[\w+\])?:? \S"
    r"|npm (?:ERR!|error) \S|thread '.*' panicked|\s*--- FAIL: |(?:FAIL|FAILED)\s+\S|g?make(?:\[\d+\])?: \*\*\*"
    r"|[^\s:(]+[:(]\d+[\d:,)]*:? (?:fatal )?error\b"  # compilers: file.c:12:5: error, file.ts(28,2): error TS2739
    r"|(?:\S+ ){0,4}\[?(?:\x1b\[[\d;]*m)?(?:ERROR|FATAL|CRITICAL|SEVERE)\b(?!\s*[=(])"  # logs
    r"|.{0,60}(?:command not found|core dumped\))\s*\Z|(?:zsh|\(eval\)):(?:\d+:)? command not found: \S"
    r"|\W{0,4}ERR_PNPM_[A-Z_]+\b|[ \t]*\+ FullyQualifiedErrorId|'.{1,200}' is not recognized as an internal"
    r"|(?:\[\S+\] )?[^\s:(]+\.go:\d+:\d+: .* \(\w+\)\s*\Z"  # golangci-lint
    r"|.{0,60}\b(?i:exit(?:ed)?(?: with)?(?: code| status):?) [1-9]"
    rf"|{FAILED_VERDICT}$"
    r")"
)


def has_failed(text: str, is_error: bool | None, call: ToolCall | None = None) -> bool | None:
    """Return whether a call failed, from its result; None if the result does not say for certain.

    `is_error` is the format's flag. If the flag is True, the call failed. If the flag is False, or the exit code is 0,
    a clear failure in the text outweighs both, and both are ignored for a command that hides its failures, such as
    `pytest | tail`. A cleared result has only its flag and its placeholder.
    """
    if is_error:
        return True
    text = split_mark(text)[0]
    if cleared := CLEARED.fullmatch(text):
        return True if OUTCOME.search(cleared["what"] or "") else None
    code = exit_code(text)
    is_alone = is_error is None and code != 0  # nothing contradicts the text
    says = True if code else _says_failed(text, call, is_alone=is_alone)
    if is_alone:
        return says
    if says:
        return None if is_data(call) else True  # the call may have searched for error messages
    # An exit code of 0 means nothing if the command hides failures, or has not ended.
    return says if hides_failures(command(call)) or background_id(text) else False


def is_cleared(text: str) -> bool:
    """Return whether a text looks like the placeholder of a cleared result."""
    return CLEARED.fullmatch(split_mark(text)[0]) is not None


def is_data(call: ToolCall | None) -> bool:
    """Return whether a call fetches text that is not the tool's own: a file, a page, a log."""
    if call is None:
        return False
    script = command(call)
    words = tool_words(call.name)
    if script:
        return only_prints_texts(script)
    return not DATA.isdisjoint(words) and ACTING.isdisjoint(words) and not CHANGES_DATABASE.match(_statement(call))


def _statement(call: ToolCall) -> str:
    """Return the SQL that a call runs; "" if it runs none. A query may also be for a search."""
    names = ("sql", "query", "statement") if not QUERYING.isdisjoint(tool_words(call.name)) else ("sql",)
    return next((sql for name in names if isinstance(sql := arguments(call).get(name), str)), "")


def is_refusal(text: str) -> bool:
    """Return whether a text begins by saying that a person refused the call."""
    return BEGINS_REFUSED.match(text[:HEAD]) is not None


def is_refused(result: ToolResult) -> bool:
    """Return whether a result says only that a person refused the call. A fetched text does not count."""
    is_short = result.stop - result.start <= REFUSAL_HEAD
    return is_short and bool(SAYS_REFUSED.match(result.text)) and (result.is_error or not is_data(result.call))


def is_cancellation(text: str) -> bool:
    """Return whether a text says that the call was not made because a parallel call had failed."""
    if cleared := CLEARED.fullmatch(split_mark(text)[0]):
        outcome = OUTCOME.search(cleared["what"] or "")
        return outcome is not None and outcome["how"] == NOT_RUN
    return CANCELLED.match(text[:HEAD]) is not None


def background_id(text: str) -> str:
    """Return the id of a command that continues in the background after its result; "" for other results."""
    match = BACKGROUND.match(_without_tags(text)[:HEAD])
    return next(name for name in match.groups() if name) if match else ""


def _says_failed(text: str, call: ToolCall | None, *, is_alone: bool) -> bool | None:
    """Return whether the text says that the call failed; None if it does not say for certain.

    `is_alone`: nothing else says how the call went.
    """
    body = _without_tags(text)
    if body[:1] == "{" and not FIRST_WORDS.match(text[:HEAD]):
        document = parse_document(body)
        if document is not None or body is text:
            return _document_failed(document, call)
    head, tail = _both_ends(text)
    script = command(call)
    is_made_up_for = has_fallback(script)
    begins_badly = FIRST_WORDS.match(head) or FIRST_WORDS.match(text[:HEAD])
    # The end of a log or a page says nothing about the call. A single line may be all that the shell says.
    is_content = "\n" in head.strip() and (LOGS.search(script) if script else not head.startswith("Traceback"))
    if (begins_badly and not is_made_up_for) or (_ends_badly(tail) and not (is_content and is_data(call))):
        return True
    if is_alone and not is_made_up_for and not hides_failures(script) and _only_complains(head, script):
        return True
    if not is_data(call):
        last = tail.rpartition("\n")[2]
        is_test = is_alone and TESTS.search(script) and not PASSED.fullmatch(last)
        is_anywhere = (is_test or hides_failures(script)) and not is_made_up_for
        if call and not script and NOT_ABLE.fullmatch(head):
            return True
        if last.startswith("Error: ") and not hides_failures(script):  # else perhaps that of an earlier command
            return True
        if SUMMARY.search(last) or (is_anywhere and (SUMMARY.search(head) or SUMMARY.search(tail))):
            return True
        if not is_made_up_for and _verdict_failed(head, tail):
            return True
        if PASSED.fullmatch(last):
            return False
    return False if DONE.match(head) else None


def _only_complains(head: str, script: str) -> bool:
    """Return whether all that a script printed are complaints of its programs, such as `cat: a.py: No such file …`."""
    found = [COMPLAINT.fullmatch(line) for line in head.split("\n") if not COMPLAINT_GOES_ON.match(line)]
    named = {match["program"].lower() for match in found if match}
    return bool(named) and all(found) and named <= {"cd", *map(str.lower, program_names(script))}


def _verdict_failed(head: str, tail: str) -> bool:
    """Return whether the last line with a verdict, in either end of a text, says that something failed."""
    verdicts = [*VERDICT.finditer(head), *VERDICT.finditer(tail)]
    return bool(verdicts) and verdicts[-1]["failed"] is not None


def _both_ends(text: str) -> tuple[str, str]:
    """Return the beginning and the end of a tool's output, without a dialect's tags and terminal colors."""
    body = _without_tags(text)
    head, tail = body[:HEAD], CLOSING.sub("", body[-TAIL:]).rstrip()
    while (last := tail.rpartition("\n"))[0] and FAINT.fullmatch(last[2]):
        tail = last[0].rstrip()
    return (COLORS.sub("", head), COLORS.sub("", tail)) if "\x1b" in text else (head, tail)


def _without_tags(text: str) -> str:
    """Return the content of a result in the XML dialect; any other text unchanged."""
    return CLOSING.sub("", text[match.end() :]).strip() if (match := OPENING.match(text)) else text


def exit_code(text: str) -> int | None:
    """Return the exit code that a harness wrote at the head or foot of a result; None if there is no exit code."""
    text = _without_tags(text)
    tail = text[-TAIL:]
    match = HEADERS.match(text[:HEAD]) or (FOOTERS.search(tail) if "xit" in tail.lower() else None)
    if match:
        return next(int(code) for name, code in match.groupdict().items() if code is not None)
    if text[:1] != "{":
        return None
    match = LAST_MEMBERS.search(tail)
    return int(match[1]) if match else _member_code(parse_document(text))


def parse_document(text: str) -> object:
    """Parse a short JSON text. Return None for a long text and for text that is not JSON."""
    try:
        return json.loads(text) if len(text) <= LONGEST_JSON else None
    except (ValueError, RecursionError):
        return None


def _member_code(document: object) -> int | None:
    """Return the exit code in a JSON document; None if there is none."""
    match document:
        case (
            {"exit_code": int(code)} | {"exitCode": int(code)} | {"returncode": int(code)} | {"return_code": int(code)}
        ):
            return code
        case {"metadata": {"exit_code": int(code)}}:
            return code
    return None


def _document_failed(document: object, call: ToolCall | None) -> bool | None:
    """Return whether a JSON document says that the call failed; None if it does not say."""
    match document:
        case {"success": bool(success)}:
            return not success
        case {"isError": bool(is_error)} | {"is_error": bool(is_error)}:
            return is_error
        case {"status": _} if is_data(call) and _names_itself(document):
            return None  # it describes something that was fetched, such as a job with the status "error"
        case {"ok": False} | {"status": "error" | "denied"}:
            return True
        case {"error": str() | Mapping() as error} if error:
            return True
        case {"object": "error"} | {"message": str(), "documentation_url": str()} | {"errorMessages": [_, *_]}:
            return True  # Notion; GitHub; Jira
        case {"errors": [{"message": str()}, *_], "data": None}:  # GraphQL
            return True
    return None


def _names_itself(document: object) -> bool:
    """Return whether a JSON object has the id of what it describes."""
    return isinstance(document, dict) and any(value and OWN_ID.fullmatch(name) for name, value in document.items())


def _ends_badly(tail: str) -> bool:
    last = tail.rpartition("\n")[2]
    return bool(len(last) <= LONGEST_LINE and LAST_LINE.fullmatch(last)) or _ends_in_traceback(tail)


def _ends_in_traceback(tail: str) -> bool:
    """Return whether a text ends in a Python traceback with the exception's message."""
    frames = [match.end() for match in FRAME.finditer("\n" + tail)]
    if not frames:
        return False
    lines = tail[frames[-1] - 1 :].split("\n")[1:]
    # Indented lines belong to the frame; the first line without indentation is the exception.
    message = next((at for at, line in enumerate(lines) if line and not line[0].isspace()), None)
    if message is None or len(lines) - message > MESSAGE_LINES:
        return False
    return bool(EXCEPTION.match(lines[message]))


def error_lines(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of whole lines between two offsets that report a failure, the most telling ones first.

    First comes the end of the last traceback (its last two frames and the exception), then, in order, lines with an
    error or an exit status. Of lines that differ only in digits, only the first is yielded.
    """
    if start and text[start - 1] != "\n":
        start = text.find("\n", start, stop) + 1 or stop
    if stop < len(text):
        stop = text.rfind("\n", start, stop) + 1 or start
    yield from _last_traceback(text, start, stop)
    seen: set[str] = set()
    for begin, end in islice(_telling_lines(text, start, stop), MOST_LINES):
        line = text[begin:end]
        shape = FIGURES.sub("", line)
        if shape not in seen and ERROR_LINE.match(line):
            seen.add(shape)
            yield begin, end


def _last_traceback(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    at = text.rfind("Traceback (most recent call last):", start, stop)
    match = TRACEBACK.match(text, at, stop) if at >= 0 and (at == start or text[at - 1] == "\n") else None
    if match:
        before = match.start("frames") - 1  # a frame is found by the line break before it
        frames = [found.start() + 1 for found in FRAME.finditer(text, before, match.end("frames"))]
        yield (frames[-2] if len(frames) > 2 else at), match.end()


def _telling_lines(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of lines that contain a telling word; lines that are too long are skipped."""
    at = start
    while match := TELLING.search(text, at, stop):
        begin = text.rfind("\n", at, match.start()) + 1 or at
        at = text.find("\n", match.end(), stop) + 1 or stop
        if at - begin <= LONGEST_LINE:
            yield begin, at


# What the user said

# Tools whose results are the user's words.
ANSWER_TOOLS = (
    *("AskUserQuestion", "ask_user_question"),  # Claude Code, Kimi CLI; Qwen Code, Windsurf
    *("ask_user", "*__ask_user"),  # Gemini CLI, Copilot CLI; MCP servers
    *("ask_followup_question", "AskFollowupQuestionTool", "ask_question"),  # Cline, Roo Code, Kilo Code
    *("plan_mode_respond", "attempt_completion"),  # Cline: what the user says to a plan, or to what was done
    "request_user_input",  # Codex
    *("question", "AskQuestion", "vscode_askQuestions"),  # opencode, Cursor, VS Code
    *("ask_human", "*__ask_human", "ask_human_via_console", "AskHuman"),  # OpenManus, browser agents; CAMEL; LangChain
    *("human", "human_assistance", "human_input"),  # LangChain, LangGraph
    *("message_ask_user", "user_input", "get_user_input", "handoff_to_user"),  # Manus, smolagents, Agno, Strands
)
# Arguments that show that such a tool asks a server, not a person: DeepWiki's ask_question has a repoName.
ELSEWHERE = frozenset(("repoName", "repo", "repository", "url", "urls", "library", "libraryName", "notebook_id"))
NEAR = 400  # characters between a refusal and the user's words
REFUSAL_HEAD = 1_000  # characters that are searched for a refusal
# Arguments with the question.
QUESTIONS = ("question", "questions", "prompt", "message", "text", "response", "query", "inquire")
DEEPEST = 4  # levels of lists and objects in arguments that are searched
LONGEST_QUESTION = 500  # characters
LONGEST_TARGET = 120

# What may come before the first word: tags, "Error:", members of a JSON object.
BEFORE = (
    r"(?:\s|<message>[^<]{0,300}</message>(?=\s*<content>)|<(?:tool_use_error|message|content|error|output)>|Error: ?"
    r"|\{|\"(?:status|error|message|output)\":|\"\w+\",)*\"?"
)
SAID = (
    r"(?:[Tt]he user said|with the message|(?:[Ff]eedback|[Rr]eason|[Mm]essage|[Cc]omment)(?: from the user)?)\"?:\s*"
)
REJECTED = re.compile(
    rf"{BEFORE}{REFUSED}(?:.|\n){{0,{NEAR}}}?{SAID}"
    r"(?:\",\s*\"feedback\":\s*\")?(?:</message>\s*<content>\s*)?(?:<(?:feedback|user_message)>\s*)?(?!</)(?=\S)"
)
# How a question fails that nobody answered. The first group are beginnings that only programs write. The others are
# whole texts, since a user may begin an answer with such words.
FAILED_BY_PROGRAM = (
    r"\[?Request interrupted by user|The user interrupted\b|(?:InputValidation|Validation|Abort|Timeout)Error\b"
    r"|MCP error -?\d+|Traceback \(most recent call last\)|Cancelled: parallel tool call|Sibling tool call errored"
    r"|(?:No such|Unknown) (?:tool|function)(?: available)?(?::|\Z)|(?:Tool|Function) not found:"
    r"|No tool named '?[\w.-]+'?\.?\s*\Z"
    r"|Tool '?[\w.-]+'? (?:not found|is not available)|\w+ is (?:unavailable|not available) in \w+ mode"
    r"|(?:[Ee]rror|[Ff]ailed to) (?:call|execut|run|pars|ask)\w*(?: (?:the )?(?:tool|function)\b|:)"
    r"|The tool execution failed\b"
    r"|[Ii]nvalid (?:tool )?(?:input|argument|parameter|param)s?(?: for \S+)?(?::|\Z)|[Ii]nvalid \w+ for tool\b"
    r"|(?:params|arguments) must (?:have|be)\b|Missing (?:value for )?required (?:parameter|argument)"
)
BY_WHOM = r"(?: by (?:the )?user)?(?: for tool use)?(?: after [\d.]+ ?\w+)?[.!\]]*\s*(?:</[\w>/<\s]+)?\Z"
NOT_ANSWERED = (
    r"\[?(?:(?:The |User )?(?:\w+ )?(?i:question|request|prompt|input|call|execution|operation|tool use)"
    r" (?:was |has been )?)?"
    rf"(?:[Tt]imed out|[Aa]borted|[Cc]ancell?ed|[Ii]nterrupted){BY_WHOM}"
    r"|(?:[Tt]imeout|[Tt]imed out)(?: waiting for [^\n]{1,60}|: no (?:answer|response)[^\n]{0,60})?\s*\Z"
    r"|(?:The )?[Uu]ser (?:did not|didn't) (?:answer|respond|reply)[^\n]{0,60}\Z"
    r"|(?:The )?[Uu]ser (?:has )?(?:cancell?ed|declined|dismissed|skipped)\b[^\n]{0,60}\Z"
    r"|No (?:answer|response|reply) from (?:the )?user[^\n]{0,60}\Z"
)
UNANSWERED = re.compile(
    rf"\s*(?:<message>\s*)?(?:<tool_use_error>|(?:\[?(?:[Ee]rror|ERROR)\]?:? ?)?(?:{FAILED_BY_PROGRAM}|{NOT_ANSWERED}))"
)
ANSWER_CLOSING = re.compile(r"\s*You can now continue with (?:the user's|these) answers in mind\.?\s*\Z")
UNCLEAR = re.compile(r"\s*The user wants to clarify these questions\.")
GIVEN = re.compile(r"^[ \t]*- (\"[^\n]*\")\n[ \t]*Answer: ([^\n]*)$", re.MULTILINE)
MADE = re.compile(r"\[(?:answered|refused) ")
TAGS = re.compile(r"</?(?:message|content|answer|feedback|user_message|output|tool_use_error)>")


def is_answer(result: ToolResult, tools: tuple[str, ...] = ANSWER_TOOLS) -> bool:
    """Return whether a result contains the user's own words.

    Such a result is an answer from one of `tools` (names or globs), or a refused call with the user's reason. A
    question that failed has no answer.
    """
    if matches_tool(result.tool, tools) and not _asks_elsewhere(result) and not _is_unanswered(result):
        return True
    return _refusal(result) is not None


def _is_unanswered(result: ToolResult) -> bool:
    """Return whether a question failed: by the format's flag, a program's error message, or a refusal to answer.

    Without the flag only known messages count, since a user may answer with an error message.
    """
    text = result.text[:REFUSAL_HEAD]
    if result.is_error or UNANSWERED.match(text) or is_refusal(text):
        return True
    return text[:1] == "{" and has_failed(result.text, None, result.call) is True


def _asks_elsewhere(result: ToolResult) -> bool:
    """Return whether a call asks a server rather than a person."""
    return result.call is not None and not ELSEWHERE.isdisjoint(arguments(result.call))


@lru_cache(maxsize=1_024)
def matches_tool(tool: str, tools: tuple[str, ...]) -> bool:
    """Return whether a tool matches one of the names or globs."""
    return any(fnmatchcase(tool, glob) for glob in tools)


def answer_text(result: ToolResult) -> str:
    """Return the user's words in a result, after the question or the refused call; "" if there are none (any more)."""
    if is_cleared(result.text):
        return ""
    match = _refusal(result)
    if not match and is_refused(result):
        return ""
    if match:
        touched = " ".join(target(result.call).split())[:LONGEST_TARGET]
        said = _without_clarification(_strip_tags(result.text[match.end() - result.start :]))
        return f"[refused {result.tool}{f'({touched})' if touched else ''}] {said}" if said else ""
    said = ANSWER_CLOSING.sub("", _strip_tags(result.text))
    values = arguments(result.call) if result.call else {}
    questions = [question for question in dict.fromkeys(_question_texts(values, 0)) if question not in said]
    return "\n".join((f"[answered {result.tool}]", *questions, said)) if said else ""


def is_answer_text(text: str) -> bool:
    """Return whether `answer_text` wrote a text."""
    return MADE.match(text) is not None


def _without_clarification(said: str) -> str:
    """Replace a harness's note that the questions are unclear with the answers in it."""
    if not UNCLEAR.match(said):
        return said
    return "\n".join(f"{match[1]} {match[2]}" for match in GIVEN.finditer(said))


def _refusal(result: ToolResult) -> re.Match[str] | None:
    """Find the refusal before the user's words in the result of a call that the user refused.

    A fetched file or page that begins with such words does not count, unless the format's flag says that the call
    failed: otherwise its author could speak in the user's name.
    """
    match = REJECTED.match(result.piece, result.start, min(result.stop, result.start + REFUSAL_HEAD))
    if not match or not (result.is_error or not is_data(result.call)):
        return None
    return match if has_failed(result.text, result.is_error, result.call) else None


def _strip_tags(text: str) -> str:
    """Drop the tags around the user's words."""
    said = TAGS.sub("", OPENING.sub("", text, count=1) if OPENING.match(text) else text).strip()
    return said.removesuffix('"}').rstrip() if said.endswith('"}') and not said.startswith("{") else said


def _question_texts(value: object, depth: int) -> Iterator[str]:
    """Yield the texts of arguments that are named like questions, at any level."""
    if depth > DEEPEST:
        return
    if isinstance(value, Mapping):
        for name in QUESTIONS:
            question = value.get(name)
            if isinstance(question, str) and question.strip():
                yield " ".join(question.split())[:LONGEST_QUESTION]
            elif question is not None:
                yield from _question_texts(question, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _question_texts(item, depth + 1)

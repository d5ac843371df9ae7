"""Find out whether a tool call failed, from its result's text, and which lines say so. Reads only parts of long texts.

The patterns come from the output of the programs that their comments name.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice

from autoprune.conversation.edits import split_mark
from autoprune.conversation.transcript import ToolCall
from autoprune.facts.calls import command, tool_words
from autoprune.facts.shell import has_fallback, hides_failures, only_prints_texts

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
    r"|(?:The )?[Uu]ser (?:has )?(?:denied|rejected|declined|refused) (?:this|the|that|your|to|permission|tool)\b"
    r"|Permission for this tool use was denied|Request interrupted by user"  # Claude Code
    r"|The tool call (?:is|was) rejected\b|Plan rejected\b)"  # Kimi CLI; Gemini CLI, Qwen Code
)
# How a text begins if a call was not made because a parallel one had failed.
CANCELLED = re.compile(r"\s*(?:<tool_use_error>)?\s*(?:Cancelled: parallel tool call|Sibling tool call errored)")
DENIED = r"Permission to use \w+ (?:with|has been)\b"  # by a rule, or by a person without a comment
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
    r")"
)
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
    r")"
)
# What test runners, compilers and git print once, anywhere, if something has failed.
SUMMARY = re.compile(
    r"^(?:"
    r"=* ?(?:\d+ \w+, )*[1-9]\d* (?:failed|errors?)\b.* in [\d.]+m?s\b.*"  # pytest
    r"|FAILED \((?:failures|errors)=.*"  # unittest
    r"|FAIL(?:\t.*)?|[ \t]*--- FAIL: .*|test result: FAILED\..*"  # Go, Rust
    r"|[ \t]*(?:Tests?|Test Files|Test Suites):?[ \t]+(?:\d+ \w+(?:, | \| ))*[1-9]\d* failed\b.*"  # Jest, Vitest
    r"|[ \t]*[1-9]\d* (?:failing|fail)|# fail [1-9]\d*"  # Mocha, Bun, TAP
    r"|\d+ (?:examples?|tests?|runs?)\b.* [1-9]\d* (?:failures?|errors?)\b.*|FAILURES!"  # RSpec, Minitest, PHPUnit
    r"|(?:\[\w+\] )?(?:BUILD FAILED|BUILD FAILURE|Build FAILED)\b.*"  # Gradle, Maven, .NET
    r"|g?make(?:\[\d+\])?: \*\*\* .*|npm (?:ERR!|error)\b.*|[\W ]*ELIFECYCLE\b.*"
    r"|Found [1-9]\d* errors?\b(?!.* 0 remaining).*|\S+\(\d+,\d+\): error TS\d+: .*"  # tsc, mypy, ruff
    r"|[^\w\n]*[1-9]\d* problems? \([1-9]\d* errors?\b.*"  # ESLint
    r"|error(?:\[E\d+\])?: (?:could not compile|aborting due to|failed to push|pathspec|src refspec|patch failed).*"
    r"|fatal: \S.*| ! \[(?:remote )?rejected\] .*|CONFLICT \(.*|Automatic merge failed;.*"  # git
    r"|(?:\S+: )?(?:line \d+: )?\S+: command not found|zsh:(?:\d+:)? command not found: .*"
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
FAILURE = ", failed, "  # in a placeholder of `cache_aware`
# How a harness reports a command that has not ended; the group is the command's id.
BACKGROUND = re.compile(
    r"\s*(?:"
    r"(?:(?:Command|Chunk ID|Wall time): (?:(?!Output:\n)[^\n]*\n)*?)?Process running with session ID (?P<codex>\w+)"
    r"|Command (?:running|was manually backgrounded by user|is running|started)\b[^\n]{0,60}\bID:? (?P<claude>[\w-]+)"
    r"|(?:[^\n]*\n){0,200}?<command (?:started [^>\n]{0,60}?)?with shellId:? (?P<copilot>[\w-]+)"
    r")"
)
# Words in the names of tools that fetch text: an error message in such a result need not be the tool's.
DATA = frozenset(
    (
        *("read", "view", "open", "cat", "show", "fetch", "search", "grep", "glob", "list", "find", "get", "ls"),
        *("lookup", "query", "browse", "web"),
    )
)
FRAME = re.compile(r'\n  File "[^"\n]+", line \d+')
EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?::\s|\Z)")
FIGURES = re.compile(r"\d+")
TRACEBACK = re.compile(r"Traceback \(most recent call last\):\r?\n(?P<frames>(?:[ \t][^\n]*\n)+)[^\n]*\n?")
# A fast search for parts of words, before the line itself is checked: code that mentions errors is no error line.
TELLING = re.compile(
    r"rror|ERR|FAIL|atal|FATAL|xception|panic|CRITICAL|SEVERE|t found|xit|aused|core dumped|\*\*\* |:[ \t]*[Ff]ail"
)
ERROR_LINE = re.compile(
    r"(?:\x1b\[[\d;]*m)*(?:"
    r"(?:E +)?[A-Za-z_][\w.]*(?:Error|Exception)(?:: \S|\s*\Z)"  # Python, pytest, JavaScript, Java
    r"|(?:[Ee]rror|fatal|panic|Caused by|Exception in thread)(?:\[\w+\])?:? \S"
    r"|npm (?:ERR!|error) \S|thread '.*' panicked|\s*--- FAIL: |(?:FAIL|FAILED)\s+\S|g?make(?:\[\d+\])?: \*\*\*"
    r"|[^\s:(]+[:(]\d+[\d:,)]*:? (?:fatal )?error\b"  # compilers: file.c:12:5: error, file.ts(28,2): error TS2739
    r"|(?:\S+ ){0,4}\[?(?:\x1b\[[\d;]*m)?(?:ERROR|FATAL|CRITICAL|SEVERE)\b(?!\s*[=(])"  # logs
    r"|.{0,60}(?:command not found|core dumped\))\s*\Z"
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
        return True if FAILURE in (cleared["what"] or "") else None
    code = exit_code(text)
    says = True if code else _says_failed(text, call)
    if is_error is None and code != 0:  # nothing contradicts the text
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
    return only_prints_texts(script) if script else not DATA.isdisjoint(tool_words(call.name))


def is_refusal(text: str) -> bool:
    """Return whether a text begins by saying that a person refused the call."""
    return BEGINS_REFUSED.match(text[:HEAD]) is not None


def is_cancellation(text: str) -> bool:
    """Return whether a text says that the call was not made because a parallel call had failed."""
    return CANCELLED.match(text[:HEAD]) is not None


def background_id(text: str) -> str:
    """Return the id of a command that continues in the background after its result; "" for other results."""
    match = BACKGROUND.match(text[:HEAD])
    return next(name for name in match.groups() if name) if match else ""


def _says_failed(text: str, call: ToolCall | None) -> bool | None:
    """Return whether the text alone says that the call failed; None if it does not say for certain."""
    if text[:1] == "{":
        return _document_failed(_parse_document(text))
    head, tail = _both_ends(text)
    script = command(call)
    is_made_up_for = has_fallback(script)
    begins_badly = FIRST_WORDS.match(head) or FIRST_WORDS.match(text[:HEAD])
    if (begins_badly and not is_made_up_for) or _ends_badly(tail):
        return True
    if not is_data(call):
        is_anywhere = hides_failures(script) and not is_made_up_for
        last = tail.rpartition("\n")[2]
        if SUMMARY.search(last) or (is_anywhere and (SUMMARY.search(head) or SUMMARY.search(tail))):
            return True
        if not is_made_up_for and _verdict_failed(head, tail):
            return True
        if PASSED.fullmatch(last):
            return False
    return False if DONE.match(head) else None


def _verdict_failed(head: str, tail: str) -> bool:
    """Return whether the last line with a verdict, in either end of a text, says that something failed."""
    verdicts = [*VERDICT.finditer(head), *VERDICT.finditer(tail)]
    return bool(verdicts) and verdicts[-1]["failed"] is not None


def _both_ends(text: str) -> tuple[str, str]:
    """Return the beginning and the end of a tool's output, without a dialect's tags and terminal colors."""
    start = match.end() if (match := OPENING.match(text)) else 0
    head, tail = text[start : start + HEAD], CLOSING.sub("", text[max(start, len(text) - TAIL) :]).rstrip()
    while (last := tail.rpartition("\n"))[0] and FAINT.fullmatch(last[2]):
        tail = last[0].rstrip()
    return (COLORS.sub("", head), COLORS.sub("", tail)) if "\x1b" in text else (head, tail)


def exit_code(text: str) -> int | None:
    """Return the exit code that a harness wrote at the head or foot of a result; None if there is no exit code."""
    tail = text[-TAIL:]
    match = HEADERS.match(text[:HEAD]) or (FOOTERS.search(tail) if "xit" in tail.lower() else None)
    if match:
        return next(int(code) for name, code in match.groupdict().items() if code is not None)
    if text[:1] != "{":
        return None
    match = LAST_MEMBERS.search(tail)
    return int(match[1]) if match else _member_code(_parse_document(text))


def _parse_document(text: str) -> object:
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


def _document_failed(document: object) -> bool | None:
    """Return whether a JSON document says that the call failed; None if it does not say."""
    match document:
        case {"success": bool(success)}:
            return not success
        case {"isError": bool(is_error)} | {"is_error": bool(is_error)}:
            return is_error
        case {"ok": False} | {"status": "error" | "denied"}:
            return True
        case {"error": str() | Mapping() as error} if error:
            return True
    return None


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

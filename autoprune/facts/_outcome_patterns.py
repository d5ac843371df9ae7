"""Patterns of what harnesses, tools and test runners write about how a call went, for `outcomes`.

Each is written down from the output of the programs that its comment names.
"""

import re

# Exit codes where the harnesses of agents put them; a command may print the same words anywhere else.
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
    r"|(?i:exit(?:ed with)? (?:code|status)):? (?P<last>[1-9]\d*)"  # anybody; a zero may be that of an earlier command
    r")\s*\Z"
)
LAST_MEMBERS = re.compile(
    r'[{,]\s*"(?:exit_?code|return_?code)"\s*:\s*(-?\d+)\s*(?:,\s*"\w+"\s*:\s*[-\w.]+\s*)*\}\s*\}?\s*\Z', re.IGNORECASE
)

# How a text begins that says that a person said no.
REFUSED = (
    r"(?:The user (?:doesn't|does not|didn't|did not) (?:want|allow|approve)\b"  # Claude Code
    r"|(?:The )?[Uu]ser (?:has )?(?:denied|rejected|declined|refused) (?:this|the|that|your|to|permission|tool)\b"
    r"|Permission for this tool use was denied|Request interrupted by user"  # Claude Code
    r"|The tool call (?:is|was) rejected\b|Plan rejected\b)"  # Kimi CLI; Gemini CLI, Qwen Code
)
# How a text begins that says that a call was not made, because another one beside it had failed.
CANCELLED = re.compile(r"\s*(?:<tool_use_error>)?\s*(?:Cancelled: parallel tool call|Sibling tool call errored)")
DENIED = r"Permission to use \w+ (?:with|has been)\b"  # by a rule, or by a person without a word
BEGINS_REFUSED = re.compile(rf"\s*(?:<message>\s*)?(?:[Ee]rror: )?(?:{REFUSED}|{DENIED})")
# How a text begins that is an error message and nothing else.
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
# How a tool that edits or shows files says that it did: words that no command prints.
DONE = re.compile(
    r"\s*(?:"
    r"The file .{1,400} has been (?:updated|edited|created|written)\b|File created successfully at: "  # Claude Code
    r"|Here's the (?:result of running `cat -n` on|files and directories up to) "  # Anthropic's text editor
    r"|Success\. Updated the following files:|File .{1,400} updated with changes\."  # Codex, Copilot CLI
    r"|Successfully (?:wrote \d+ bytes to|replaced text in) "  # pi
    r"|Successfully (?:modified|overwrote|created and wrote to new) file: "  # Gemini CLI
    r")"
)
# How a text ends whose last command failed.
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
# What test runners, compilers and git say once, wherever it stands, when something has failed.
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
# What runners of evaluations and scripts of checks say of the whole, on a line of its own, perhaps before a report. A
# word or a number right behind it belongs to a count ("failed tests: 0"); a good verdict takes back one before it.
JUDGED = (
    r"(?:[=*]{1,80} ?|[✗✘✖❌] ?)?(?=[A-Z])"
    r"(?i:(?:(?:overall|final|test|build) )?(?:results?|status|verdict|outcome)|overall):[ \t]*"
)
FAILED_VERDICT = (
    rf"{JUDGED}(?:[✗✘✖❌] ?)?(?i:fail(?:ed|ure)?)"
    r"(?:[ \t]+(?:\((?!0\)).*|[-–—] (?!0\b).*))?[ \t\r=*!.]*"
)
VERDICT = re.compile(rf"^(?:(?P<failed>{FAILED_VERDICT})|{JUDGED}[^\w\n]{{0,4}}(?i:pass|ok\b|succe).*)$", re.MULTILINE)
# How a text ends that counts all tests, or all problems, and no failure among them.
PASSED = re.compile(
    r"(?:=* ?(?:\d+ (?:passed|skipped|deselected|xfailed|xpassed|warnings?|subtests passed)(?:, )?)+ in [\d.]+m?s\b.*"
    r"|OK(?: \(.*\))?|Tests:[ \t]+(?:\d+ (?:skipped|todo|passed), )*\d+ total"
    r"|All checks passed!|Success: no issues found in .*)\s*"
)
FAINT = re.compile(r"(?:hint: .*|\s*)\Z")  # last lines that are only advice
COLORS = re.compile(r"\x1b\[[\d;]*m")
# What may stand around a text in the XML dialect, and around an error in others.
OPENING = re.compile(r"\s*(?:<message>[^<]{0,2000}</message>\s*)?<content>")
CLOSING = re.compile(r"</content>\s*\Z")
# What stands in place of a result that was cleared: this package's words, and those of agents that clear by themselves.
CLEARED = re.compile(
    r"\s*(?:<message>Content cleared to save tokens</message>|This message has been cleared\."
    r"|\[Old tool result content cleared\]|\[Tool result cleared\b|\[Cleared at request \d+: |<MASKED>"
    r"|Old environment output: \()"
)
CLEARED_FAILURE = re.compile(r"\[Cleared at request \d+: [^\n]*, failed, ")
# What a harness says of a command that has not ended; the group is what it is known by.
BACKGROUND = re.compile(
    r"\s*(?:"
    r"(?:(?:Command|Chunk ID|Wall time): (?:(?!Output:\n)[^\n]*\n)*?)?Process running with session ID (?P<codex>\w+)"
    r"|Command (?:running|was manually backgrounded by user|is running|started)\b[^\n]{0,60}\bID:? (?P<claude>[\w-]+)"
    r"|(?:[^\n]*\n){0,200}?<command (?:started [^>\n]{0,60}?)?with shellId:? (?P<copilot>[\w-]+)"
    r")"
)
# Words of a tool's name that say that its result is somebody's text: an error message in it need not be the tool's.
DATA = frozenset(
    (
        *("read", "view", "open", "cat", "show", "fetch", "search", "grep", "glob", "list", "find", "get", "ls"),
        *("lookup", "query", "browse", "web"),
    )
)
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
WORDS = re.compile(r"[a-z]+")
FRAME = re.compile(r'\n  File "[^"\n]+", line \d+')
EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?::\s|\Z)")

FIGURES = re.compile(r"\d+")
TRACEBACK = re.compile(r"Traceback \(most recent call last\):\r?\n(?P<frames>(?:[ \t][^\n]*\n)+)[^\n]*\n?")
# A quick search for parts of words, and then a look at the line: code that speaks of errors is no error line.
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

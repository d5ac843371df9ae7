"""Tool calls with their results: the tool, its target, the outcome, and the files that it read or changed.

An access to a file is a verb and a path: ("read", "a.py"), ("edited", "a.py"), ("created", "b.py") and so on.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain, islice

import autoprune.facts.outcomes as outcomes
from autoprune.conversation.edits import split_mark
from autoprune.conversation.messages import one_line
from autoprune.conversation.transcript import ToolCall, ToolResult
from autoprune.facts import shell
from autoprune.facts.calls import (
    SECRET,
    argument_texts,
    arguments,
    command,
    is_plan,
    paths,
    polled_command,
    target,
    tool_words,
)
from autoprune.facts.shell import (
    LONGEST,
    QUOTED,
    READING,
    REDIRECTED,
    as_posix,
    edits_in_place,
    posix_name,
    split_heredocs,
)
from autoprune.facts.utterances import Utterance

# What a word in a tool's name says about its path, the most certain first.
VERBS: Mapping[str, str] = {
    **dict.fromkeys(("delete", "remove", "unlink"), "deleted"),
    **dict.fromkeys(("move", "rename"), "moved"),
    **dict.fromkeys(("create", "write", "save"), "written"),
    **dict.fromkeys(
        ("edit", "editor", "multiedit", "replace", "insert", "patch", "update", "modify", "append"), "edited"
    ),
    **dict.fromkeys(("read", "view", "open", "cat", "show", "fetch"), "read"),
}
INTO = re.compile(r"[nN]ew|[dD]est|[tT]arget|[tT]o(?=_|[A-Z]|\Z)")  # how an argument with the new path of a file begins
# Words for parts of a file: a tool that deletes or renames one edits the file.
PARTS = frozenset(("line", "lines", "symbol", "cell", "cells", "section", "block", "function", "method", "import"))
# The same for tools with an argument `command`, such as Anthropic's text editor.
EDITOR_COMMANDS: Mapping[object, str] = {
    **dict.fromkeys(("view", "open", "read"), "read"),
    **dict.fromkeys(("create", "write"), "written"),
    **dict.fromkeys(("str_replace", "insert", "replace", "edit", "undo_edit", "delete_lines"), "edited"),
}
# Codex's apply_patch.
PATCH = re.compile(r"^\*\*\* (Add|Update|Delete) File: ([^\r\n]+)(?:\r?\n\*\*\* Move to: ([^\r\n]+))?", re.MULTILINE)
HUNK = re.compile(r"^@@", re.MULTILINE)
CHANGING = frozenset(("created", "written", "edited"))  # the verbs of a file whose content is new
PATCH_VERBS = {"Add": "created", "Update": "edited", "Delete": "deleted"}
# SWE-agent's commands work on the file that is open: "edit 14:75", "insert 3", "create a.py".
ON_OPEN_FILE = re.compile(r"\s*(edit|insert|append|create|open|goto|scroll)(?:_\w+)?(?=\s|\Z)")
OPEN_FILE = re.compile(r"^[(\[](?:Open file|File): ((?!n/a)[^\n()]+?)(?: \(\d+ lines total\)\]|\))\s*$", re.MULTILINE)
NOT_EDITED = re.compile(r"\s*Your proposed edit has introduced new syntax error")
CREATED = re.compile(r"\b(?:created|new file|\"type\": ?\"create\")", re.IGNORECASE)
CREATED_IN = 300  # characters at a result's start that may say that the file is new
# How tools refuse to show a file again: Claude Code, Qwen Code, Hermes Agent and others.
UNCHANGED = re.compile(
    r"(?i)\b(?:file|content|contents)\b[^.\n]{0,40}\b(?:unchanged|not changed|has not been modified|not been modified)"
    r"\b[^.\n]{0,20}\bsince\b[^.\n]{0,20}\b(?:last|previous|earlier)(?: \w+)? read\b"
)
LONGEST_REFERENCE = 1_000  # characters of such an answer
LONGEST_WORD = 200  # characters of a path in a command
COMMAND_JOINT = re.compile(r"&&|\|\||[;\n|]")
REDIRECTION = re.compile(r"\s(?:\d|&)?>|>")
PATH_WORD = re.compile(r"(?:[A-Za-z]:(?=/))?[\w@+.~/\[\]-]+")
NAME_OF_FILE = re.compile(r"[\w@+\[\]-][\w@+.\[\]-]*\.[A-Za-z][A-Za-z0-9]{0,9}")
SED_SCRIPT = re.compile(r"s/.*|/.*/[dp]")  # an argument of sed that is no path
GIT_VERBS = {"rm": "deleted", "restore": "restored"}
INDEX = frozenset(("--cached", "--staged", "-S"))  # with these the files themselves stay as they are
WORKTREE = frozenset(("--worktree", "-W"))  # unless one of these is there as well
# Python that writes files: open("a", "w"), Path("a").write_text(…), p = Path("a") with p.write_text(…).
ASSIGNED = re.compile(
    r"^[ \t]*(\w+)\s*=\s*(?:(?:pathlib\.)?Path\(\s*)?([\"'])([^\"'\n]{1,200})\2\s*\)?[ \t]*;?[ \t]*$", re.MULTILINE
)
PYTHON_WRITES = re.compile(
    r"\bopen\(\s*(?:[\"'](?P<opened>[^\"'\n]{1,200})[\"']|(?P<name>\w+))\s*,\s*(?:mode\s*=\s*)?[\"'](?:[wax]|r\+)"
    r"|\bPath\(\s*[\"'](?P<path>[^\"'\n]{1,200})[\"']\s*\)\.write_(?:text|bytes)\("
    r"|\b(?P<variable>\w+)\.write_(?:text|bytes)\("
)
APPLIES_DIFF = re.compile(r"\bgit\s+apply\b|\bpatch\s+-")
PATCHED_BY_SHELL = re.compile(r"^\+\+\+ (?:b/)?([^\t\r\n ]+)", re.MULTILINE)
COMMAND_VERBS = {
    **dict.fromkeys((*READING, "sed"), "read"),
    "touch": "created",
    "rm": "deleted",
    "truncate": "written",
}


def open_file_access(call: ToolCall | None, result: ToolResult | None, tool: str) -> tuple[str, str] | None:
    """Return a SWE-agent command's access to the open file, which only the result names; None for other calls."""
    if not call or not result or paths(call):
        return None
    command = arguments(call).get("command", tool)
    match = ON_OPEN_FILE.match(command) if isinstance(command, str) else None
    file = OPEN_FILE.search(result.text) if match else None
    if not match or not file:
        return None
    is_refused = NOT_EDITED.match(result.text)
    verb = "read" if is_refused or match[1] in ("open", "goto", "scroll") else VERBS.get(match[1], "edited")
    return verb, file[1]


def refers_to_earlier_read(result: ToolResult) -> bool:
    """Return whether a tool answered a read only by saying that the file is unchanged since an earlier read."""
    if result.stop - result.start > LONGEST_REFERENCE or not UNCHANGED.search(result.text):
        return False
    return any(verb == "read" for verb, _ in argument_files(result.call, result, result.tool))


def patched_files(call: ToolCall | None) -> list[tuple[str, str]]:
    """Return the files that a patch in the arguments names, each with a verb for what the patch does."""
    found: list[tuple[str, str]] = []
    for verb, path, new_path in PATCH.findall(_patch(call)):
        does = ((PATCH_VERBS[verb], path),) if not new_path else (("moved", path), ("edited", new_path))
        found += ((each, name.rstrip()) for each, name in does)
    return found


def edited_places(call: ToolCall | None) -> int:
    """Return how many places a patch or a list of edits in the arguments names; 0 if there is neither."""
    edits = arguments(call).get("edits") if call else None
    return len(edits) if isinstance(edits, list | tuple) else len(HUNK.findall(_patch(call)))


def _patch(call: ToolCall | None) -> str:
    """Return the patch in the arguments; "" if there is none."""
    values = [*arguments(call).values(), call.arguments] if call else []  # as JSON text a patch has no lines
    texts = (text for value in values for text in (value if isinstance(value, list | tuple) else [value]))
    return next((text for text in texts if isinstance(text, str) and "*** Begin Patch" in text), "")


def argument_files(call: ToolCall | None, result: ToolResult | None, tool: str) -> Iterator[tuple[str, str]]:
    """Yield the paths in the arguments, with the verb that the tool's name or its command implies."""
    verb = _tool_verb(call, tool)
    if not call or not verb:
        return
    if verb == "written" and result and CREATED.search(result.text[:CREATED_IN]):
        verb = "created"
    into = [name for name in arguments(call) if INTO.match(name)] if verb == "moved" and len(paths(call)) == 2 else []
    new = str(arguments(call)[into[0]]).replace("\\", "/") if into else ""
    yield from (("created" if path == new else verb, path) for path in paths(call))


def editor_command(call: ToolCall | None) -> str:
    """Return the command of a text editor that a call gives, such as "view" or "str_replace"; "" for other calls."""
    command = arguments(call).get("command") if call else None
    return command if isinstance(command, str) and command in EDITOR_COMMANDS else ""


def _tool_verb(call: ToolCall | None, tool: str) -> str | None:
    if command := editor_command(call):
        return EDITOR_COMMANDS[command]
    # The operation of OpenAI's apply_patch tool, such as "delete_file", says more than the tool's name.
    does = arguments(call).get("type") if call and tool == "apply_patch" else None
    words = (*(tool_words(does) if isinstance(does, str) else ()), *tool_words(tool))
    verb = next((verb for word, verb in VERBS.items() if word in words), None)
    return "edited" if verb in ("deleted", "moved") and not PARTS.isdisjoint(words) else verb


def shell_files(command: str) -> Iterator[tuple[str, str]]:
    """Yield the file accesses that are evident from a shell script's text."""
    script, heredocs = split_heredocs(as_posix(command[:LONGEST]))
    bodies = "\n".join(heredocs)
    text = QUOTED.sub(_unquote, script)
    for match in REDIRECTED.finditer(text):
        if _is_path(path := match[1] or match[2]):
            yield "written", path
    for part in COMMAND_JOINT.split(text):
        yield from _command_files(REDIRECTION.split(part, maxsplit=1)[0].split())
    if "python" in script:
        yield from (("written", path) for path in _python_files(f"{script}\n{bodies}") if _is_path(path))
    if APPLIES_DIFF.search(script):
        yield from (("edited", path) for path in PATCHED_BY_SHELL.findall(bodies) if _is_path(path))


def _python_files(text: str) -> Iterator[str]:
    """Yield the files that a Python script writes to, if it names them literally."""
    named = {match[1]: match[3] for match in ASSIGNED.finditer(text)}
    for match in PYTHON_WRITES.finditer(text):
        name = match["name"] or match["variable"]
        if path := match["path"] or match["opened"] or named.get(name or ""):
            yield path


def _unquote(match: re.Match[str]) -> str:
    """Remove the quotes of a quoted path; empty any other quoted text."""
    return match[0][1:-1] if PATH_WORD.fullmatch(match[0][1:-1]) else "''"


def _command_files(words: list[str]) -> Iterator[tuple[str, str]]:
    words = words[1:] if words[:1] == ["sudo"] or words[:2] == ["git", "mv"] else words
    if words[:1] == ["git"] and words[1:2] and words[1] in GIT_VERBS:
        in_index = not INDEX.isdisjoint(words) and WORKTREE.isdisjoint(words)
        yield from ((GIT_VERBS[words[1]], path) for path in words[2:] if not in_index and _is_path(path))
        return
    if not words:
        return
    program = posix_name(words[0])
    if program in ("cp", "mv", "ln"):
        given = [word for word in words[1:] if word[:1] != "-"] or [""]
        *sources, into = (*given[1:], given[0]) if "-t" in words else given  # `-t` comes before the target folder
        yield from (("moved", path) for path in sources if program == "mv" and _is_path(path))
        if PATH_WORD.fullmatch(into):
            known = [*filter(PATH_WORD.fullmatch, sources), into]
            yield from (("created", path) for path in _copy_targets(known) if _is_path(path))
        return
    operands = [word for word in words[1:] if _is_path(word) and not SED_SCRIPT.fullmatch(word)]
    does = "edited" if edits_in_place(words) else COMMAND_VERBS.get(program)
    yield from ((does, path) for path in operands if does)


def _copy_targets(paths: list[str]) -> Iterator[str]:
    """Yield the files that `cp`, `mv` and `ln` create: the last path, or each source's name in the target folder."""
    *sources, into = paths or [""]
    if into.endswith("/") or len(sources) > 1:
        yield from (f"{into.rstrip('/')}/{source.rpartition('/')[2]}" for source in sources)
    elif sources:
        yield into


def _is_path(word: str) -> bool:
    if len(word) > LONGEST_WORD or word[:1] == "-" or word.startswith("/dev/") or not PATH_WORD.fullmatch(word):
        return False
    return "/" in word.strip("/") or bool(NAME_OF_FILE.fullmatch(word))


LONGEST_TOOL = 80  # characters of a tool's name
LONGEST_SUBJECT = 160
LONGEST_COMMAND = 220
LONGEST_ID = 40  # of an argument that is an identifier
LONGEST_IDS = 80  # of such arguments together
LONGEST_REASON = 160
MOST_IDS = 3  # of those that a tool returned
SEARCHED = 8_000  # characters of the arguments that are searched for these ids
NAMED = ". Names in it: "  # in a placeholder, before the names
# The name and the value of a member with an identifier.
ID_NAME = re.compile(r"(?:\w{0,40}(?:_|(?=[A-Z])))?(?i:id|key|number|reference|url|status)")
ID_VALUE = re.compile(r"[\w:/.#@?=&+-]{1,100}")
# Members that may be a secret, or the number of a person's card or telephone.
PRIVATE = re.compile(
    rf"{SECRET.pattern}|(?i:secret|token|passw|passport|credential|signature|webhook|hooks\.|(?:card|phone)_?number"
    r"|(?:api|access|private|session|auth|encryption|signing|license|recovery)_?key|[?&](?:sig|key|code)=|://[^/ ]*@)",
    re.ASCII,
)
LONGEST_ERROR = 300
ERROR_SPANS = 3  # places with error lines that are read
FIRST_LINES = 4_000  # characters that are searched for a first or last line
FOLDERS = ("workdir", "cwd", "working_directory", "workingDirectory")  # arguments with a command's working directory
SOUGHT = ("pattern", "query", "regex")  # arguments that are searched for in a path
# Lines that harnesses put around an output and that add nothing to the exit code.
NOISE = re.compile(
    r"(?i)\W*(?:(?:\w+ ){0,4}(?:exit\w*|return)(?: with)?[ _]?(?:code|status)?\W*-?\d+\W*"
    r"|(?:command|chunk id|wall time|original token count|total output lines): .*|output:|debugger attached\."
    r"|shellid: \S+ completed with .*)"
)
TAGS = re.compile(r"</?(?:tool_use_error|error|returncode|output|stderr|stdout)>")
MALFORMED = re.compile(r"\s*(?:<tool_use_error>|Unknown tool\b|Tool '?[\w.-]+'? not found|MCP error -32602\b)")
NO_RESULT = "no result yet"
STILL_RUNNING = "still running as"  # the outcome of a command that has not ended, before its id
REFUSED = "refused by the user"


@dataclass(frozen=True)
class Action:
    """A tool call with its result; the call or the result is None if it is unknown.

    `is_late`: the call was in earlier messages, and only its result is in the current messages.
    """

    call: ToolCall | None
    result: ToolResult | None
    is_late: bool = False

    @property
    def tool(self) -> str:
        """The tool's name on one line."""
        name = self.call.name if self.call else self.result.tool if self.result else ""
        return one_line(name, LONGEST_TOOL) or "a tool"

    @cached_property
    def command(self) -> str:
        """The shell command that was run; "" if the call runs no command."""
        return "" if self._open_file else command(self.call)

    @cached_property
    def name(self) -> str:
        """A short name that is the same for equal actions: the essence of a command, or a tool and its target."""
        if script := self.command:
            return shell.abbreviate(shell.essence(script), LONGEST_COMMAND) or self.tool
        if self._open_file:
            word = str(self._arguments.get("command", self.tool)).split()[0]
            return f"{one_line(word, LONGEST_TOOL)}({self._open_file[1]})"
        patched = " ".join(path for _, path in patched_files(self.call))
        named = patched or target(self.call) or " ".join(self._paths) or self._ids
        return f"{self.tool}({one_line(named, LONGEST_SUBJECT)})" if named.strip() else self.tool

    def subject(self, most: int = LONGEST_SUBJECT) -> str:
        """Return the subject of the call: a path, a command or a pattern, or else the arguments.

        The subject has at most `most` characters.
        """
        if self.call is None:
            return ""
        what, files, values = target(self.call), ", ".join(self._paths), self.call.arguments
        if not what and not files and values:
            what = values if isinstance(values, str) else json.dumps(values, ensure_ascii=False, default=str)
        where = files if files and len(what) > LONGEST_SUBJECT else what or files
        sought = next((value for name in SOUGHT if isinstance(value := self._arguments.get(name), str) and value), "")
        return one_line(f"{sought} in {where}" if sought and sought != what else _end_of_path(where, most), most)

    @property
    def folder(self) -> str:
        """The absolute path of a command's working directory; "" if it is not known."""
        named = next((value for name in FOLDERS if isinstance(value := self._arguments.get(name), str)), "")
        folder = (named or (self.command and shell.start_folder(self.command))).rstrip("/")
        return folder if folder.startswith("/") and "\n" not in folder else ""

    def files(self) -> Iterator[tuple[str, str]]:
        """Yield the file accesses: ("read", path), ("edited", path), ("created", path) and so on."""
        if patched := patched_files(self.call):
            yield from patched
        elif self._open_file:
            yield self._open_file
        elif script := self.command:
            yield from shell_files(script)
        else:
            yield from argument_files(self.call, self.result, self.tool)

    @cached_property
    def failed(self) -> bool | None:
        """Whether the call failed, from its result; None if the result does not say or is missing."""
        return outcomes.has_failed(self.result.text, self.result.is_error, self.call) if self.result else None

    @property
    def is_refused(self) -> bool:
        """Whether the user refused the call."""
        return bool(self.result and self.failed and outcomes.is_refusal(self.result.text))

    @property
    def is_cancelled(self) -> bool:
        """Whether the call was not made because a parallel call had failed."""
        return bool(self.result and outcomes.is_cancellation(self.result.text))

    @property
    def is_malformed(self) -> bool:
        """Whether the harness rejected the call as malformed, so that only the call itself is at fault."""
        text = self.result.text if self.result else ""
        return MALFORMED.match(text) is not None and not self._paths

    @cached_property
    def is_read_only(self) -> bool:
        """Whether the call only reads or lists."""
        if script := self.command:
            return shell.is_read_only(script)
        does = {verb for verb, _ in self.files()}
        return does == {"read"} or (not does and outcomes.is_data(self.call))

    @cached_property
    def acts(self) -> bool:
        """Whether a tool other than the shell may have changed something other than files, such as a booking."""
        if self.call is None or self.command or self.is_read_only or self.waits_for or is_plan(self.call):
            return False
        return not (any(self.files()) or (self.result and outcomes.is_answer(self.result)))

    @property
    def returned_ids(self) -> Iterator[str]:
        """Short identifiers in the JSON object that such a tool returned, and not in its call: "booking_id X7BYG1"."""
        text = self.result.text if self.result else ""
        found = _id_members(text) if len(text) <= outcomes.LONGEST_JSON else ()
        if not found or self.failed or not self.acts or self.call is None:
            return
        numbers = (str(value) for value in self._arguments.values() if isinstance(value, int))
        given = "\n".join((argument_texts(self.call)[:SEARCHED], *numbers))
        new = ((name, value) for name, value in found if value not in given)
        if PRIVATE.search(self.tool):  # its key is no identifier: create_api_key
            new = ((name, value) for name, value in new if not name.lower().endswith(("key", "url")))
        yield from islice((f"{name} {value}" for name, value in new), MOST_IDS)

    @cached_property
    def runs_as(self) -> str:
        """The id of a command that was still running when its result was written; "" for other calls."""
        return outcomes.background_id(self.result.text) if self.result else ""

    @property
    def waits_for(self) -> str:
        """The id of the background command that this call polls; "" for other calls."""
        return polled_command(self.call)

    @property
    def exit_code(self) -> int | None:
        """The exit code in the result, if it has one."""
        return outcomes.exit_code(self.result.text) if self.result else None

    @property
    def outcome(self) -> str:
        """The outcome in a few words, such as "ok" or "failed, exit code 1"."""
        if self.result is None:
            return NO_RESULT
        if self.runs_as:
            return f"{'failed, ' if self.failed else ''}{STILL_RUNNING} {self.runs_as}"
        if not self.failed:
            return "ok" if self.failed is False else "ran"
        if self.is_refused:
            return REFUSED
        return f"failed, exit code {self.exit_code}" if self.exit_code else "failed"

    @property
    def reason(self) -> str:
        """The line of the result that best explains the failure; "" if no line does."""
        text = self.result.text if self.result else ""
        telling = (text[begin:end].rstrip().rpartition("\n")[2] for begin, end in _error_spans(text))
        lines = map(str.strip, chain(telling, text[:FIRST_LINES].split("\n")))
        return one_line(next((line for line in lines if line and not NOISE.fullmatch(line)), ""), LONGEST_REASON)

    @property
    def error(self) -> str:
        """All lines of the result that explain the failure, joined to one line; "" if no line does."""
        said = TAGS.sub(" ", _error_text(self.result.text)) if self.result else ""
        return one_line(said.replace("→", "->"), LONGEST_ERROR)

    def as_command(self, text: str) -> "Action":
        """Return this action as the late result of an earlier command."""
        call = replace(self.call, arguments={"command": text}) if self.call else None
        return Action(call, self.result, is_late=True)

    @property
    def _arguments(self) -> Mapping[str, object]:
        return arguments(self.call) if self.call else {}

    @property
    def _paths(self) -> tuple[str, ...]:
        return paths(self.call) if self.call else ()

    @property
    def _ids(self) -> str:
        """The short texts and identifiers among the arguments, without passwords and the like."""
        texts = (
            (name, str(value))
            for name, value in self._arguments.items()
            if isinstance(value, str) or (isinstance(value, int) and str(name).lower().endswith("id"))
        )
        short = ((name, text) for name, text in texts if 0 < len(text) <= LONGEST_ID)
        return " ".join(text for name, text in short if not PRIVATE.search(f"{name} {text}"))[:LONGEST_IDS]

    @cached_property
    def _open_file(self) -> tuple[str, str] | None:
        return open_file_access(self.call, self.result, self.tool)


def read_actions(utterances: Sequence[Utterance]) -> Iterator[tuple[Action, ...]]:
    """Yield each message's calls with their results, and the results of calls from before these messages."""
    results = {result.call.location: result for one in utterances for result in one.results if result.call}
    own_calls = {call.location for one in utterances for call in one.calls}
    for one in utterances:
        calls = (Action(call, results.get(call.location)) for call in one.calls)
        others = (result for result in one.results if not result.call or result.call.location not in own_calls)
        yield (*calls, *(Action(result.call, result, result.call is not None) for result in others))


@lru_cache(maxsize=1_024)  # a strategy asks for them at each request
def _id_members(text: str) -> tuple[tuple[str, str], ...]:
    """Return the names and values of a JSON object that look like identifiers, or those that a placeholder names."""
    members: list[tuple[str, str]] = []
    if outcomes.is_cleared(text):
        _, has_names, named = split_mark(text)[0].strip('"]').rpartition(NAMED)
        pairs = (each.partition(" ") for each in named.split(", ") if has_names)
        members += ((name, value) for name, _, value in pairs)
    elif isinstance(document := outcomes.parse_document(text) if text[:1] == "{" else None, dict):
        inner = (each.items() for name, each in document.items() if isinstance(each, dict) and not PRIVATE.search(name))
        plain = (each for each in chain(document.items(), *inner) if isinstance(each[1], str | int))
        members += ((name, str(value)) for name, value in plain if not isinstance(value, bool))
    return tuple(
        (name, value)
        for name, value in members
        if ID_NAME.fullmatch(name) and ID_VALUE.fullmatch(value) and not PRIVATE.search(f"{name} {value}")
    )


def _end_of_path(text: str, most: int) -> str:
    """Drop the first folders of a long path, since the end says more."""
    if len(text) <= most or " " in text or "/" not in text[1 - most :]:
        return text
    end = text[1 - most :]
    return "…" + end[end.index("/") :]


def _error_spans(text: str) -> list[tuple[int, int]]:
    return [*islice(outcomes.error_lines(text, 0, len(text)), ERROR_SPANS)]


def _error_text(text: str) -> str:
    """Return the error lines of a text, or else its first and last lines."""
    spans = sorted(_error_spans(text))
    telling = [span for begin, end in spans if not NOISE.fullmatch(span := text[begin:end].strip())]
    if telling:
        return " / ".join(telling)
    lines = (line.strip() for line in (text[:FIRST_LINES] + text[FIRST_LINES:][-FIRST_LINES:]).split("\n"))
    said = [line for line in lines if line and not NOISE.fullmatch(line)]
    return " / ".join(dict.fromkeys((*said[:1], *said[-1:])))

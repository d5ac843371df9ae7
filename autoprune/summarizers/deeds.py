"""What a call did: which files it read or changed, which command it ran, how it went. Reads both, runs nothing."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

from autoprune.conversation.calls import arguments, paths, target
from autoprune.conversation.commands import RUNNING, command, continues
from autoprune.conversation.outcomes import error_lines, exit_code, failed, refused, running
from autoprune.conversation.transcript import ToolCall, ToolResult
from autoprune.summarizers import shell
from autoprune.summarizers.sections import one_line
from autoprune.summarizers.utterances import Utterance

LONGEST_NAME = 60  # characters of a tool's name
LONGEST_TARGET = 160  # of what a call touches
LONGEST_COMMAND = 220
LONGEST_ID = 40  # of an argument that names something: an id
LONGEST_GIVEN = 80  # of such arguments together
LONGEST_ERROR = 300
ERROR_SPANS = 3
FIRST_LINES = 4_000  # characters that are searched for a first line, or a last one
FOLDERS = ("workdir", "cwd", "working_directory", "workingDirectory")  # arguments that say where it is run
# What a word of a tool's name says that it does with a path, the most certain first.
DOES: Mapping[str, str] = {
    **dict.fromkeys(("delete", "remove", "unlink"), "deleted"),
    **dict.fromkeys(("move", "rename"), "moved"),
    **dict.fromkeys(("create", "write", "save"), "written"),
    **dict.fromkeys(
        ("edit", "editor", "multiedit", "replace", "insert", "patch", "update", "modify", "append"), "edited"
    ),
    **dict.fromkeys(("read", "view", "open", "cat", "show", "fetch"), "read"),
}
# What editors with a `command` do.
EDITORS: Mapping[object, str] = {
    **dict.fromkeys(("view", "open", "read"), "read"),
    **dict.fromkeys(("create", "write"), "written"),
    **dict.fromkeys(("str_replace", "insert", "replace", "edit", "undo_edit", "delete_lines"), "edited"),
}
PATCH = re.compile(r"^\*\*\* (Add|Update|Delete) File: ([^\r\n]+)", re.MULTILINE)
PATCH_DOES = {"Add": "created", "Update": "edited", "Delete": "deleted"}
# SWE-agent's commands work on the file that is open: "edit 14:75", "insert 3", "create a.py".
OPENED = re.compile(r"\s*(edit|insert|append|create|open|goto|scroll)(?:_\w+)?(?=\s|\Z)")
OPEN_FILE = re.compile(r"^[(\[](?:Open file|File): ((?!n/a)[^\n()]+?)(?: \(\d+ lines total\)\]|\))\s*$", re.MULTILINE)
NOT_EDITED = re.compile(r"\s*Your proposed edit has introduced new syntax error")
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
WORDS = re.compile(r"[a-z]+")
CREATED = re.compile(r"\b(?:created|new file|\"type\": ?\"create\")", re.IGNORECASE)
CREATED_IN = 300  # characters of a result that may say so
# Lines that programs of agents add, and that tell nothing but the exit code.
NOISE = re.compile(
    r"(?i)\W*(?:\w+ ){0,4}(?:exit\w*|return)(?: with)?[ _]?(?:code|status)?\W*-?\d+\W*"
    r"|(?:Chunk ID|Wall time|Original token count|Command): .*|Output:|Debugger attached\."
)
OPEN = "no result yet"
REFUSED = "refused by the user"
TAGS = re.compile(r"</?(?:tool_use_error|error|returncode|output|stderr|stdout)>")


@dataclass(frozen=True)
class Deed:
    """A call with its result, as far as both are known; the call of one that `is_late` was told of before."""

    call: ToolCall | None
    result: ToolResult | None
    is_late: bool = False

    @property
    def tool(self) -> str:
        """The tool's name on one line."""
        name = self.call.name if self.call else self.result.tool if self.result else ""
        return one_line(name, LONGEST_NAME) or "a tool"

    @cached_property
    def failed(self) -> bool | None:
        """Whether the result says that the call failed; None where it does not say, or where there is none."""
        return failed(self.result.text, self.result.is_error, self.call) if self.result else None

    @cached_property
    def command(self) -> str:
        """The shell command that was run; "" where none was."""
        return "" if self._opened else command(self.call)

    @cached_property
    def name(self) -> str:
        """What was done, on one line: a command's essence, or a tool with what it touches."""
        if command := self.command:
            return one_line(shell.essence(command), LONGEST_COMMAND) or self.tool
        if self._opened:
            known = arguments(self.call) if self.call else {}
            word = str(known.get("command", self.tool)).split()[0]
            return f"{one_line(word, LONGEST_NAME)}({self._opened[1]})"
        patched = " ".join(path for _, path in self._patched())
        touched = one_line(patched or target(self.call) or " ".join(self.paths) or self._given, LONGEST_TARGET)
        return f"{self.tool}({touched})" if touched else self.tool

    @property
    def _given(self) -> str:
        """The short texts and numbers among the arguments, where none says what is touched: ids and names."""
        known = arguments(self.call) if self.call else {}
        plain = (
            value if isinstance(value, str) or str(name).lower().endswith("id") else "" for name, value in known.items()
        )
        return " ".join(text for value in plain if 0 < len(text := str(value)) <= LONGEST_ID)[:LONGEST_GIVEN]

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths in the call's arguments."""
        return paths(self.call) if self.call else ()

    @property
    def folders(self) -> tuple[str, ...]:
        """The folder that a command was run in, where it is known and absolute."""
        known = arguments(self.call) if self.call else {}
        given = next((value for name in FOLDERS if isinstance(value := known.get(name), str)), "")
        folder = (given or shell.folder(self.command)).rstrip("/")
        return (folder,) if folder.startswith("/") and "\n" not in folder else ()

    @property
    def outcome(self) -> str:
        """How it went, in a few words."""
        if self.result is None:
            return OPEN
        if session := running(self.result.text):
            return f"{'failed, ' if self.failed else ''}{RUNNING} {session}"
        if not self.failed:
            return "ok" if self.failed is False else "ran"
        if self.is_refused:
            return REFUSED
        code = exit_code(self.result.text)
        return f"failed, exit code {code}" if code else "failed"

    @property
    def is_refused(self) -> bool:
        """Whether it was not done because the user did not want it."""
        return bool(self.result and self.failed and refused(self.result.text))

    @property
    def continues(self) -> str:
        """What the command is known by whose output it waits for; "" where it does not."""
        return continues(self.call)

    def as_command(self, text: str) -> "Deed":
        """The same as the late result of a command that was run before."""
        call = replace(self.call, arguments={"command": text}) if self.call else None
        return Deed(call, self.result, is_late=True)

    @property
    def error(self) -> str:
        """The lines that tell why it failed, on one line; "" where none does."""
        said = TAGS.sub(" ", _why(self.result.text)) if self.result else ""
        return one_line(said.replace("→", "->"), LONGEST_ERROR)

    def files(self) -> Iterator[tuple[str, str]]:
        """What it did with which files: ("read", path), ("edited", path), ("created", path) and so on."""
        if patched := self._patched():
            yield from patched
        elif self._opened:
            yield self._opened
        elif command := self.command:
            yield from shell.files(command)
        elif does := self._does():
            is_new = does == "written" and self.result and CREATED.search(self.result.text[:CREATED_IN])
            yield from (("created" if is_new else does, path) for path in self.paths)

    @cached_property
    def _opened(self) -> tuple[str, str] | None:
        """What a command of SWE-agent's did with the file that was open, which only its result names."""
        command = arguments(self.call).get("command", self.tool) if self.call else ""
        match = OPENED.match(command) if isinstance(command, str) and not self.paths else None
        file = OPEN_FILE.search(self.result.text) if match and self.result else None
        if not match or not file or not self.result:
            return None
        refused = NOT_EDITED.match(self.result.text)
        return "read" if refused or match[1] in ("open", "goto", "scroll") else DOES.get(match[1], "edited"), file[1]

    def _patched(self) -> list[tuple[str, str]]:
        given = self.call.arguments if self.call else None
        held = [given, *arguments(self.call).values()] if self.call else []
        texts = (text for value in held for text in (value if isinstance(value, list | tuple) else [value]))
        patches = (text for text in texts if isinstance(text, str) and "*** Begin Patch" in text)
        return [(PATCH_DOES[does], path.rstrip()) for text in islice(patches, 1) for does, path in PATCH.findall(text)]

    def _does(self) -> str | None:
        known = arguments(self.call) if self.call else {}
        command = known.get("command")
        if isinstance(command, str) and command in EDITORS:
            return EDITORS[command]
        words = set(WORDS.findall(CAMEL.sub("_", self.tool).lower()))
        return next((does for word, does in DOES.items() if word in words), None)


def deeds(utterances: Sequence[Utterance]) -> Iterator[tuple[Deed, ...]]:
    """What was done in each of some messages: their calls, and results of calls that were made before them."""
    results = {result.call.location: result for one in utterances for result in one.results if result.call}
    made = {call.location for one in utterances for call in one.calls}
    for one in utterances:
        calls = (Deed(call, results.get(call.location)) for call in one.calls)
        others = (result for result in one.results if not result.call or result.call.location not in made)
        yield (*calls, *(Deed(result.call, result, result.call is not None) for result in others))


def _why(text: str) -> str:
    """The lines that tell why a call failed; where none tells, the first and the last one."""
    spans = sorted(islice(error_lines(text, 0, len(text)), ERROR_SPANS))
    telling = [piece for begin, end in spans if not NOISE.fullmatch(piece := text[begin:end].strip())]
    if telling:
        return " / ".join(telling)
    lines = (line.strip() for line in (text[:FIRST_LINES] + text[FIRST_LINES:][-FIRST_LINES:]).split("\n"))
    said = [line for line in lines if line and not NOISE.fullmatch(line)]
    return " / ".join(dict.fromkeys((*said[:1], *said[-1:])))

"""Tool calls with their results: the tool, its target and the outcome."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice

from autoprune.conversation.transcript import ToolCall, ToolResult
from autoprune.facts import file_access, shell
from autoprune.facts.calls import arguments, command, paths, polled_command, target
from autoprune.facts.outcomes import (
    background_id,
    error_lines,
    exit_code,
    has_failed,
    is_cancellation,
    is_data,
    is_refusal,
)
from autoprune.facts.plain_text import one_line
from autoprune.facts.utterances import Utterance

LONGEST_TOOL = 80  # characters of a tool's name
LONGEST_SUBJECT = 160
LONGEST_COMMAND = 220
LONGEST_ID = 40  # of an argument that is an identifier
LONGEST_IDS = 80  # of such arguments together
LONGEST_REASON = 160
LONGEST_ERROR = 300
ERROR_SPANS = 3  # places with error lines that are read
FIRST_LINES = 4_000  # characters that are searched for a first or last line
FOLDERS = ("workdir", "cwd", "working_directory", "workingDirectory")  # arguments with a command's working directory
SOUGHT = ("pattern", "query", "regex")  # arguments that are searched for in a path
# Lines that harnesses put around an output and that add nothing to the exit code.
NOISE = re.compile(
    r"(?i)\W*(?:(?:\w+ ){0,4}(?:exit\w*|return)(?: with)?[ _]?(?:code|status)?\W*-?\d+\W*"
    r"|(?:command|chunk id|wall time|original token count|total output lines): .*|output:|debugger attached\.)"
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
        patched = " ".join(path for _, path in file_access.patched_files(self.call))
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
        folder = (named or shell.start_folder(self.command)).rstrip("/")
        return folder if folder.startswith("/") and "\n" not in folder else ""

    def files(self) -> Iterator[tuple[str, str]]:
        """Yield the file accesses: ("read", path), ("edited", path), ("created", path) and so on."""
        if patched := file_access.patched_files(self.call):
            yield from patched
        elif self._open_file:
            yield self._open_file
        elif script := self.command:
            yield from file_access.shell_files(script)
        else:
            yield from file_access.argument_files(self.call, self.result, self.tool)

    @cached_property
    def failed(self) -> bool | None:
        """Whether the call failed, from its result; None if the result does not say or is missing."""
        return has_failed(self.result.text, self.result.is_error, self.call) if self.result else None

    @property
    def is_refused(self) -> bool:
        """Whether the user refused the call."""
        return bool(self.result and self.failed and is_refusal(self.result.text))

    @property
    def is_cancelled(self) -> bool:
        """Whether the call was not made because a parallel call had failed."""
        return bool(self.result and is_cancellation(self.result.text))

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
        return does == {"read"} or (not does and is_data(self.call))

    @cached_property
    def runs_as(self) -> str:
        """The id of a command that was still running when its result was written; "" for other calls."""
        return background_id(self.result.text) if self.result else ""

    @property
    def waits_for(self) -> str:
        """The id of the background command that this call polls; "" for other calls."""
        return polled_command(self.call)

    @property
    def exit_code(self) -> int | None:
        """The exit code in the result, if it has one."""
        return exit_code(self.result.text) if self.result else None

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
        """The short texts and identifiers among the arguments."""
        texts = (
            str(value)
            for name, value in self._arguments.items()
            if isinstance(value, str) or str(name).lower().endswith("id")
        )
        return " ".join(text for text in texts if 0 < len(text) <= LONGEST_ID)[:LONGEST_IDS]

    @cached_property
    def _open_file(self) -> tuple[str, str] | None:
        return file_access.open_file_access(self.call, self.result, self.tool)


def read_actions(utterances: Sequence[Utterance]) -> Iterator[tuple[Action, ...]]:
    """Yield each message's calls with their results, and the results of calls from before these messages."""
    results = {result.call.location: result for one in utterances for result in one.results if result.call}
    own_calls = {call.location for one in utterances for call in one.calls}
    for one in utterances:
        calls = (Action(call, results.get(call.location)) for call in one.calls)
        others = (result for result in one.results if not result.call or result.call.location not in own_calls)
        yield (*calls, *(Action(result.call, result, result.call is not None) for result in others))


def _end_of_path(text: str, most: int) -> str:
    """Drop the first folders of a long path, since the end says more."""
    if len(text) <= most or " " in text or "/" not in text[1 - most :]:
        return text
    end = text[1 - most :]
    return "…" + end[end.index("/") :]


def _error_spans(text: str) -> list[tuple[int, int]]:
    return [*islice(error_lines(text, 0, len(text)), ERROR_SPANS)]


def _error_text(text: str) -> str:
    """Return the error lines of a text, or else its first and last lines."""
    spans = sorted(_error_spans(text))
    telling = [span for begin, end in spans if not NOISE.fullmatch(span := text[begin:end].strip())]
    if telling:
        return " / ".join(telling)
    lines = (line.strip() for line in (text[:FIRST_LINES] + text[FIRST_LINES:][-FIRST_LINES:]).split("\n"))
    said = [line for line in lines if line and not NOISE.fullmatch(line)]
    return " / ".join(dict.fromkeys((*said[:1], *said[-1:])))

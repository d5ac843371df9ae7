"""What an agent did, one line per call: from utterances to a text, and from the text back. Leaves nothing out."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from autoprune.conversation.calls import arguments, paths, target
from autoprune.conversation.commands import RUNNING, continues
from autoprune.conversation.outcomes import error_lines, exit_code, failed, running
from autoprune.conversation.transcript import Speaker, ToolCall, ToolResult
from autoprune.summarizers.sections import figure, one_line
from autoprune.summarizers.utterances import Utterance

LONGEST_NAME = 80  # characters
LONGEST_TEXT = 160  # characters of what a call touches, of an error, or of what the user said
ERRORS = 3  # error lines that are looked at
FIRST_LINES = 4_000  # characters that are searched for a first line
HEADER = re.compile(r"(\S.*): ([0-9]{1,9}) (call|message)s?(?:, ([0-9]{1,9}) failed)?")
LINE = re.compile(r"- (failed )?#([0-9]{1,9}) (.*?)(?: ×([0-9]{1,9}))?")
DETAIL = "  | "
SOUGHT = ("pattern", "query", "regex")  # arguments that say what is looked for in a path
# Lines that say nothing beside the exit code: that line itself, and what else stands at the head of a result.
EMPTY = re.compile(
    r"(?i)\W*(?:(?:\w+ ){0,4}(?:exit\w*|return)(?: with)?[ _]?(?:code|status)?\W*-?\d+\W*"
    r"|(?:command|chunk id|wall time|original token count|total output lines|output):.*)"
)

Key = tuple[str, str]
USER: Key = ("user", "message")


@dataclass(frozen=True)
class Group:
    """The calls of a tool, or the user's messages: how many there were, and how many failed."""

    key: Key
    times: int = 0
    failed: int = 0

    def __str__(self) -> str:
        """Its line."""
        name, unit = self.key
        return f"{name}: {figure(self.times, unit)}" + (f", {self.failed} failed" if self.failed else "")


@dataclass(frozen=True)
class Act:
    """A call with its outcome, or a message of the user, on one line; the last of `times` equal ones has `number`."""

    key: Key
    number: int
    text: str
    is_failed: bool = False
    times: int = 1
    details: tuple[str, ...] = ()

    @property
    def is_telling(self) -> bool:
        """Whether it is kept for longer: an error, and what the user said."""
        return self.is_failed or self.key == USER

    def __str__(self) -> str:
        """Its line, and its details below."""
        repeated = f" ×{self.times}" if self.times > 1 else ""
        first = f"- {'failed ' if self.is_failed else ''}#{self.number} {self.text}{repeated}"
        return "\n".join((first, *(DETAIL + line for line in self.details)))


@dataclass(frozen=True)
class Acts:
    """What was done: `groups` count all of it, `listed` are those that are known one by one, oldest first."""

    groups: tuple[Group, ...] = ()
    listed: tuple[Act, ...] = ()

    @property
    def number(self) -> int:
        """The number of the last one."""
        return sum(group.times for group in self.groups)

    def __str__(self) -> str:
        """Each group with its acts below."""
        of = {group.key: [str(group)] for group in self.groups}
        for act in self.listed:
            of[act.key].append(str(act))
        return "\n".join(line for lines in of.values() for line in lines)


def continued(acts: Acts, more: Sequence[Act]) -> Acts:
    """What was done, and then some more; equal ones that follow each other within their group become one."""
    groups = {group.key: group for group in acts.groups}
    for act in more:
        group = groups.get(act.key, Group(act.key))
        groups[act.key] = replace(group, times=group.times + 1, failed=group.failed + act.is_failed)
    last: dict[Key, Act] = {}
    listed: dict[int, Act] = {}
    for act in (*acts.listed, *more):
        before = last.get(act.key)
        if before and (before.text, before.is_failed) == (act.text, act.is_failed):
            act = replace(act, times=before.times + act.times)
            del listed[before.number]
        last[act.key] = listed[act.number] = act
    return Acts(tuple(groups.values()), tuple(listed.values()))


def read(text: str) -> Acts | None:
    """What a text of `str(acts)` says; None for a text that is none."""
    groups: list[Group] = []
    listed: list[Act] = []
    for line in text.split("\n"):
        if line.startswith(DETAIL) and listed:
            listed[-1] = replace(listed[-1], details=(*listed[-1].details, line.removeprefix(DETAIL)))
        elif (match := LINE.fullmatch(line)) and groups:
            listed.append(Act(groups[-1].key, int(match[2]), match[3], bool(match[1]), int(match[4] or 1)))
        elif match := HEADER.fullmatch(line):
            groups.append(Group((match[1], match[3]), int(match[2]), int(match[4] or 0)))
        else:
            return None
    acts = Acts(tuple(groups), tuple(sorted(listed, key=lambda act: act.number)))
    numbers = {act.number for act in listed}
    return acts if len(numbers) == len(listed) and max(numbers, default=0) <= acts.number else None


def done(utterances: Sequence[Utterance], start: int, request: str) -> Iterator[tuple[Act, ToolResult | None]]:
    """What was done in some messages, numbered from `start`, each with its result; the first request is left out."""
    made = chain.from_iterable(_made(utterances, request))
    return ((replace(act, number=number), result) for number, (act, result) in enumerate(made, start))


def _made(utterances: Sequence[Utterance], request: str) -> Iterator[Iterator[tuple[Act, ToolResult | None]]]:
    results = {result.call.location: result for one in utterances for result in one.results if result.call}
    made = {call.location for one in utterances for call in one.calls}
    answered = ((result.call, running(result.text)) for result in results.values())
    started = {session: touched(call) for call, session in answered if session and not continues(call)}
    for one in utterances:
        words = one.said if one.speaker is Speaker.USER else ""
        if words and words != request:
            yield iter(((Act(USER, 0, _plain(words)), None),))
        pairs = ((call, results.get(call.location)) for call in one.calls)
        yield ((_act(call, result, started.get(continues(call), "")), result) for call, result in pairs)
        alone = (result for result in one.results if not result.call or result.call.location not in made)
        yield ((_act(result.call, result), result) for result in alone)


def _act(call: ToolCall | None, result: ToolResult | None, waits_for: str = "") -> Act:
    """A call with its outcome; one that is not known goes by the name that its result gives.

    `waits_for` is the command that was started before and whose output the call reads.
    """
    tool = one_line(call.name if call else result.tool if result else "", LONGEST_NAME).lstrip("- ")
    text = ": ".join(part for part in (waits_for or touched(call), outcome(result)) if part)
    return Act((tool or "a tool", "call"), 0, _plain(text, 2), _failed(result))


def touched(call: ToolCall | None, most: int = LONGEST_TEXT) -> str:
    """What a call touches, in `most` characters: its path, command or pattern; a patch's paths; else its arguments."""
    if call is None:
        return ""
    known, what, files = arguments(call), target(call), ", ".join(paths(call))
    if not what and not files and call.arguments:
        given = call.arguments
        what = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)
    where = files if files and len(what) > LONGEST_TEXT else what or files
    sought = next((value for name in SOUGHT if isinstance(value := known.get(name), str) and value), "")
    return one_line(f"{sought} in {where}" if sought and sought != what else _path(where, most), most)


def _path(text: str, most: int) -> str:
    """A long path without its first folders: its end tells more."""
    if len(text) <= most or " " in text or "/" not in text[1 - most :]:
        return text
    end = text[1 - most :]
    return "…" + end[end.index("/") :]


def _failed(result: ToolResult | None) -> bool:
    return bool(result and failed(result.text, result.is_error, result.call))


def outcome(result: ToolResult | None) -> str:
    """How a call went, as far as its result says so."""
    if result is None:
        return "no result"
    how = failed(result.text, result.is_error, result.call)
    if session := running(result.text):
        return f"{RUNNING} {session}"
    if not how:
        return "ok" if how is False else ""
    code = exit_code(result.text)
    return ": ".join(part for part in (f"exit code {code}" if code else "", why(result)) if part) or "error"


def why(result: ToolResult) -> str:
    """The line of a result that tells why the call failed; "" where none does."""
    text = result.text
    spans = islice(error_lines(text, 0, len(text)), ERRORS)
    telling = (text[begin:end].rstrip().rpartition("\n")[2] for begin, end in spans)
    lines: Iterable[str] = chain(telling, text[:FIRST_LINES].split("\n"))
    found = next((line for line in map(str.strip, lines) if line and not EMPTY.fullmatch(line)), "")
    return one_line(found, LONGEST_TEXT)


def _plain(text: str, times: int = 1) -> str:
    """A text that reads as nothing but itself: on one line, without the sign for repeats."""
    return one_line(text, LONGEST_TEXT * times).replace("×", "x") or "()"

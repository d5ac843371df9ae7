"""maka's archive: large tool results, and results that newer ones replace, become placeholders with a reference."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from autoprune.apps.policies import Changes, RequestView
from autoprune.conversation.transcript import Part, Speaker, ToolResult

from prunebench.policies._published import Published

LARGE = 2_048  # tokens: larger results are archived
WORTHWHILE = 256  # tokens: smaller results stay, even if a newer one replaces them
FULL_TURNS = 2  # earlier turns whose results are sent in full
CHARACTERS = 4  # for one token, as maka estimates
MOST_READS = 64  # newer reads of a file that are compared with an older one
ACTIVE, STALE = "maka.active_archived_tool_result", "maka.archived_tool_result"
ACTIVE_REASON = "active_current_turn_tool_result_pruned_before_next_step"
STALE_REASON = "stale_tool_result_pruned_before_compact"
INSTRUCTIONS = (
    'This result is archived but still readable. Call ArchiveRead with the provided ref and operation "inspect"; use'
    ' operation "query" with itemId for one structured item, or operation "read" with offset/limit for a bounded page.'
    " Do not use Glob to find the archive."
)
GIT_STATE = re.compile(r"git(?:\s+-C\s+\S+)?\s+(?:status|diff|log|show|branch|rev-parse)(?:\s|$)")
SHELL_SYNTAX = re.compile(r"[;&|<>`\n\r]|\$\(")


def to_json(value: object) -> str:
    """Write JSON as JSON.stringify does."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _estimate(text: str) -> int:
    utf16 = len(text) + sum(character > "\uffff" for character in text)
    return -(-utf16 // CHARACTERS)


def _identifier(name: str) -> str:
    return str(uuid5(NAMESPACE_URL, name))  # maka's are random


@dataclass(frozen=True, eq=False)
class _Stored:
    """A result as it is archived."""

    result: ToolResult = field(repr=False)
    turn: int
    step: int

    @cached_property
    def body(self) -> str:
        return to_json(self.result.text)

    @cached_property
    def tokens(self) -> int:
        return _estimate(self.body)

    @cached_property
    def digest(self) -> str:
        return sha256(self.body.encode(errors="surrogatepass")).hexdigest()

    @property
    def call(self) -> str:
        made = self.result.call
        return made.id or f"call_{self.result.request}" if made else ""

    @cached_property
    def arguments(self) -> Any:
        """The arguments of the call, as a mapping if they are JSON."""
        told = self.result.call.arguments if self.result.call else None
        try:
            return json.loads(told) if isinstance(told, str) else told
        except ValueError:
            return told

    def placeholder(self, kind: str, replaced_by: Mapping[str, str] | None = None) -> str:
        """Write the placeholder. The archive's id is derived from what it holds, as in maka."""
        turn, event = _identifier(f"turn {self.turn}"), _identifier(f"event {self.call}")
        event = f"active:{turn}:{self.call}:{self.digest}" if kind == ACTIVE else event
        session = _identifier("session")
        known = {"toolCallId": self.call, "toolName": self.result.tool, "bodySha256": self.digest}
        named = {"sessionId": session, "runtimeEventId": event, **known, "rewriteVersion": 1}
        archive = "tool-result-archive-" + sha256(to_json(named).encode()).hexdigest()[:32]
        size = len(self.body.encode(errors="replace"))
        return to_json(
            {
                "kind": kind,
                "rewriteVersion": 1,
                "artifactId": archive,
                "resourceRef": f"maka://archive/{archive}/{self.digest}/{size}",
                "readInstructions": INSTRUCTIONS,
                **({"turnId": turn} if kind == ACTIVE else {"runtimeEventId": event}),
                **known,
                "originalEstimatedTokens": self.tokens,
                "originalBytes": size,
                "reason": ACTIVE_REASON if kind == ACTIVE else STALE_REASON,
                **({"supersession": replaced_by} if replaced_by else {}),
            }
        )


class MakaArchive:
    """Replace large or superseded results of the current turn, and large results from before the last two turns."""

    def __init__(self, large: int = LARGE, newest: bool = True) -> None:
        """Archive results of more than `large` tokens; those of the newest step only with `newest`."""
        self._large = large
        self._newest = newest
        self._stored: dict[ToolResult, _Stored] = {}

    def changes(self, request: RequestView) -> Changes:
        """Replace what is archived. The two turns before the current one are sent in full."""
        stored = list(self._store(request))
        turn = _turns(request)[-1] if request.entries else 0
        first_full = turn - FULL_TURNS
        texts: dict[Part, str] = {
            each.result: each.placeholder(STALE)
            for each in stored
            if each.turn < first_full and each.tokens > self._large
        }
        now = [each for each in stored if each.turn == turn]
        replaced = dict(_superseded(now))
        last = max((each.step for each in now), default=0)
        for each in now:
            if self._newest or each.step < last:
                texts.update(self._archived(each, replaced.get(each)))
        return Changes(texts)

    def _archived(self, stored: _Stored, replaced_by: Mapping[str, str] | None) -> Iterator[tuple[Part, str]]:
        if stored.tokens < WORTHWHILE if replaced_by else stored.tokens <= self._large:
            return
        text = stored.placeholder(ACTIVE, replaced_by)
        if not replaced_by or _estimate(text) < stored.tokens:
            yield stored.result, text

    def _store(self, request: RequestView) -> Iterator[_Stored]:
        turns = _turns(request)
        for result in request.results:
            if result not in self._stored:
                self._stored[result] = _Stored(result, turns[result.location.message], result.request)
            yield self._stored[result]


def _turns(request: RequestView) -> list[int]:
    """Return the number of the user's prompts up to each message."""
    turns, turn = [], 0
    for entry in request.entries:
        turn += entry.speaker is Speaker.USER and not entry.results
        turns.append(turn)
    return turns


def _superseded(stored: Sequence[_Stored]) -> Iterator[tuple[_Stored, dict[str, str]]]:
    """Yield the results that a later step made redundant, and why; calls of one step do not replace each other."""
    exact: dict[str, _Stored] = {}
    reads: dict[str, list[_Stored]] = {}
    states: dict[str, _Stored] = {}
    for each in reversed(stored):
        error = "error" if each.result.is_error else "success"
        same = "\0".join(
            (each.result.tool, json.dumps(each.arguments, sort_keys=True, default=str), error, each.digest)
        )
        newer = exact.setdefault(same, each)
        subject, span = _subject(each.result.tool, each.arguments)
        if newer.step > each.step:
            yield each, {"reason": "exact_duplicate", "supersededByToolCallId": newer.call}
        elif subject:
            yield from _replaced(each, [states[subject]] if subject in states else reads.get(subject, ()), span)
        if subject and not each.result.is_error:
            if span is None:
                states.setdefault(subject, each)
            elif len(known := reads.setdefault(subject, [])) < MOST_READS:
                known.append(each)


def _replaced(
    stored: _Stored, candidates: Sequence[_Stored], span: tuple[float, float] | None
) -> Iterator[tuple[_Stored, dict[str, str]]]:
    for newer in candidates:
        if newer.step > stored.step and _covers(newer, span):
            reason = "newer_read_covers_range" if span else "newer_snapshot"
            told = {"reason": reason, "supersededByToolCallId": newer.call}
            if stored.result.is_error:
                told |= {"reason": "failure_resolved", "failureBodySha256": stored.digest}
            yield stored, told
            return


def _covers(newer: _Stored, span: tuple[float, float] | None) -> bool:
    other = _subject(newer.result.tool, newer.arguments)[1]
    return not (span and other) or (other[0] <= span[0] and other[1] >= span[1])


def _subject(tool: str, given: Any) -> tuple[str, tuple[float, float] | None]:
    """Return what a call of maka's tools looks at, "" if unknown, and the lines that it reads."""
    texts = {key: value for key, value in given.items() if isinstance(value, str)} if isinstance(given, dict) else {}
    if tool == "Read" and texts.get("path"):
        start, limit = given.get("offset"), given.get("limit")
        first = start if type(start) is int and start >= 0 else 0
        return "Read\0" + _path(texts["path"]), (
            first,
            first + limit if type(limit) is int and limit > 0 else float("inf"),
        )
    optional = {"Glob": ("cwd",), "Grep": ("path", "glob")}.get(tool)
    if optional and "pattern" in texts and all(name in texts for name in optional if name in given):
        place = _path(texts.get(optional[0], "."))
        return "\0".join((tool, texts["pattern"], place, repr(texts.get("glob") if tool == "Grep" else None))), None
    return (_git_state(given, texts) if tool == "Bash" else ""), None


def _git_state(given: Any, texts: Mapping[str, str]) -> str:
    command = texts.get("command", "").strip()
    is_state = GIT_STATE.match(command) and not SHELL_SYNTAX.search(command)
    is_alone = is_state and all(given.get(flag, False) is False for flag in ("run_in_background", "pty"))
    return "Bash\0" + command if is_alone else ""


def _path(path: str) -> str:
    while path.startswith("./"):
        path = path[2:]
    return path or "."


PUBLISHED = (
    Published(
        name="maka_archive",
        new=MakaArchive,
        tool="maka",
        source=(
            "github.com/maka-agent/maka-agent (now apache/maka), packages/runtime/src/active-tool-result-prune.ts,"
            " active-tool-result-working-set.ts and tool-result-archive.ts, commit f19eede, 2026-08-23"
        ),
        decides=(
            "A result of the current turn of more than 2,048 tokens (4 characters each) becomes a JSON placeholder of"
            " about 1,000 characters before it is first sent, and so does a result of at least 256 tokens that a"
            " later step repeats or replaces. Large results of earlier turns are sent in full for two turns, then"
            " archived again."
        ),
        defaults=(
            "2,048 and 256 tokens, two full turns. Results of the newest step are included if the model's window is"
            " known, since mid-turn compaction is then on by default; newest=False leaves them out."
        ),
        left_out=(
            "ArchiveRead, with which the model reads an archived result; compaction with a model. Tools other than"
            " Read, Glob, Grep and Bash with maka's arguments are only compared for exact repetition."
        ),
        idle="If no result is larger than 8,192 characters, and none is repeated.",
        checked="maka at f19eede",
        is_arrival=True,
    ),
)

"""A slimmer copy of a session, which is resumed without a proxy: what it clears, costs and keeps, and its file."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from autoprune.apps.cli.input_output import replace_private
from autoprune.apps.cli.resumed import FirstRequest, prune_resumed
from autoprune.apps.clients import Client
from autoprune.apps.replay.atoms import GROUPS
from autoprune.apps.replay.episode import episode
from autoprune.apps.replay.rows import MAIN
from autoprune.apps.sessions import Changes, Recording, recordings, slim_copy
from autoprune.conversation.limited_archive import LimitedDirectory
from autoprune.conversation.placeholders import content_id, text_to_archive
from autoprune.errors import SessionError
from autoprune.facts.calls import target
from autoprune.pruners.result import Result
from autoprune.tokens import exact

SESSION_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")  # at the end of a file's name
STRATEGY = "cache_aware"  # it only clears: finished steps cannot be folded in a session file
RECENT = 40  # requests at the end of a session, whose evidence is counted
NUMBER = re.compile(r"\d{1,9}")


@dataclass(frozen=True)
class SlimSession:
    """A slimmer copy of the session in `source`, which is not written yet.

    `used` counts the names, edits and facts that the last requests took from earlier results, and `kept` those of them
    that the copy still shows.
    """

    source: Path
    path: Path
    text: str
    changes: Changes
    age: float
    first: FirstRequest
    result: Result[Any]
    payloads: Mapping[str, str]  # what was cleared, by the ids in the placeholders
    used: int
    kept: int

    @property
    def id(self) -> str:
        """The session id of the copy."""
        return self.changes.id

    def describe(self) -> Iterator[str]:
        """Yield lines on what the copy costs and keeps."""
        (pruned, whole), costs = self.first.tokens, self.first.costs
        for name, at, tokens in (("as it is", 1, whole), ("the copy", 0, pruned)):
            cost = f"about ${costs[at]:,.2f}, " if costs else ""
            yield f"{name}: first request {cost}{tokens:,} tokens"
        thoughts = f", and {self.changes.thoughts:,} blocks of thinking left out" if self.changes.thoughts else ""
        yield f"the copy: {len(self.changes.cleared):,} results cleared{thoughts}"
        if self.used:
            evidence = f"names, edits and facts that the last {RECENT} requests used"
            yield f"the copy: shows the sources of {self.kept} of the {self.used} {evidence}"

    def receipt(self, client: str) -> dict[str, object]:
        """Return what was changed, without texts."""
        return {
            "client": client,
            "version": self.changes.version,
            "source": str(self.source),
            "copy": str(self.path),
            "session": self.id,
            "age_seconds": round(self.age),
            "tokens": {"as_it_is": self.first.tokens[1], "slim": self.first.tokens[0]},
            "dollars": self.first.costs and {"as_it_is": self.first.costs[1], "slim": self.first.costs[0]},
            "evidence": {"requests": RECENT, "used": self.used, "kept": self.kept},
            "thinking_left_out": self.changes.thoughts,
            "cleared": [
                {"call": part.call and part.call.id, "tool": part.tool, "tokens": part.tokens, "id": edit.recall_id}
                for part, edit in self.result.plan.results.items()
            ],
        }

    def write(self, archive: LimitedDirectory | None) -> None:
        """Write the copy beside its source, readable for its owner only, and before that what it cleared.

        Raises SessionError if that fails.
        """
        try:
            if archive is not None:
                archive.update(self.payloads)
                for part in self.result.plan.results:
                    with suppress(OSError):  # it only lacks a name in searches
                        archive.describe(content_id(text_to_archive(part)), f"{part.tool} {target(part.call)}".strip())
            if not self.path.exists():  # else it is the same copy, which an assistant may continue at this moment
                replace_private(self.path, self.text)
                used = self.source.stat().st_mtime - 1  # the session itself stays the newer one
                os.utime(self.path, (used, used))
        except OSError as error:
            raise SessionError(f"{error.filename or self.path} cannot be written: {error.strerror}") from error


def slim_session(client: Client, file: Path, text: str, age: float, *, has_ids: bool = True) -> SlimSession:
    """Prepare a slimmer copy of a session file. `has_ids` says that placeholders have the ids of what they replace.

    Raises SessionError for a file that cannot be read or copied, and if the copy would not be cheaper than the session
    as it is.
    """
    found = next((stretches[-1] for stretches in recordings(text, str(file)) if stretches), None)
    if found is None or found.agent != client.agent:
        raise SessionError(f"{file} is no session of {client.title}")
    payloads: dict[str, str] = {}
    result, first = prune_resumed(found, age, STRATEGY, payloads if has_ids else None)
    if not first.is_cheaper:
        raise SessionError("little of the session can be cleared, so a copy would not be cheaper")
    cleared, saved = dict(_cleared(result)), first.tokens[1] - first.tokens[0]
    # The same session has the same copy, so that it is written once, unless that has been continued since.
    digest = sha256(f"{has_ids} {text}".encode("utf-8", "surrogatepass")).digest()
    for id in (str(UUID(bytes=digest[:16], version=4)), str(uuid4())):
        path, changes = _place_of_copy(file, id), Changes(id, cleared, saved)
        try:
            copy = slim_copy(text, client.agent, changes)
        except RecursionError as error:
            raise SessionError(f"{file} is nested too deeply: {error}") from error
        if _may_hold(path, copy):
            break
    if recordings(copy, str(path))[-1][-1].messages != result.conversation:
        raise SessionError(f"{file} cannot be copied without a loss")
    used, kept = _evidence(found, result)
    return SlimSession(file, path, copy, changes, age, first, result, payloads, used, kept)


def _place_of_copy(file: Path, id: str) -> Path:
    old = SESSION_ID.search(file.stem)
    return file.with_name(f"{file.stem.removesuffix(old[0]) if old else ''}{id}{file.suffix}")


def _may_hold(path: Path, text: str) -> bool:
    """Whether there is no file yet, or only the same copy."""
    try:
        return path.read_bytes() == text.encode("utf-8", "replace")
    except OSError as error:
        return isinstance(error, FileNotFoundError)


def _cleared(result: Result[Any]) -> Iterator[tuple[str, object]]:
    """Yield the payloads that replace results, each with its call's id."""
    for part in result.plan.results:
        payload: Any = result.conversation
        for step in part.location.path:
            payload = payload[step]
        if part.call and part.call.id:
            yield part.call.id, payload


def _evidence(found: Recording, result: Result[Any]) -> tuple[int, int]:
    """Count the evidence that the last requests of a session used, and how much of it the pruned one still shows."""
    known = episode(found, "", exact())
    gone = {part.location for part in result.plan.results}
    shown = [each.location not in gone for each in known.transcript.results]
    kinds = {kind for group in MAIN for kind in GROUPS[group]}
    recent = [
        need
        for need in known.evidence.needs
        if need.request >= len(found.requests) - RECENT and need.atom.kind in kinds
    ]
    return len(recent), sum(bool(need.written) or any(shown[at] for at in need.sources) for need in recent)


def untried(client: Client, version: str) -> str:
    """Warn of a version of the assistant with which copies were not tried; "" for others."""
    known, tried = ([int(each) for each in NUMBER.findall(of)[:3]] for of in (version, client.tried))
    if client.agent == "pi":  # its files have a version of their own
        known, tried = known[:1], [3]
    if known and known <= tried:
        return ""
    of = f"version {version}" if version else "an unknown version"
    return f"the session is of {of} of {client.title}, and copies were tried up to version {client.tried}"

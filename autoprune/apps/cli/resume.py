"""`autoprune resume`: list the newest sessions, or resume one as a slimmer copy, without a proxy."""

import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID, uuid4

import typer

import autoprune.apps.cli.options as options
from autoprune.apps.cli.input_output import refuse_agent_log, replace_private, write_output
from autoprune.apps.cli.recalling import archive_parent
from autoprune.apps.cli.resumed import (
    LEAST_NAME,
    FirstRequest,
    duration,
    first_costs,
    folder_of,
    last_used,
    prune_resumed,
    read_stretches,
    session_files,
    session_times,
)
from autoprune.apps.cli.run import find_program, path_variable, wait_for
from autoprune.apps.clients import CLIENTS, Client, find_client
from autoprune.apps.replay.atoms import GROUPS
from autoprune.apps.replay.episode import episode
from autoprune.apps.replay.rows import MAIN
from autoprune.apps.replay.titles import title_of
from autoprune.apps.sessions import CopyChanges, Recording, decode, dump, recordings, slim_copy
from autoprune.conversation.edits import content_id, text_to_archive
from autoprune.conversation.limited_archive import LimitedDirectory, project_folder
from autoprune.conversation.messages import one_line
from autoprune.errors import SessionError, SettingsError, near_or_all
from autoprune.facts.calls import target
from autoprune.pruners.report.drawing import printable
from autoprune.pruners.result import Result
from autoprune.strategies.catalog import RUN_STRATEGY
from autoprune.tokens import exact

EXAMPLES = options.examples("resume", "resume claude --dry-run", "resume codex --print")
RESUMABLE = {client.name: (client.name, *client.by_id) for client in CLIENTS if client.by_id}  # before a session's id
MOST_LISTED, WIDTH = 10, 80  # sessions; columns


def resume_session(
    client: Annotated[
        str | None, typer.Argument(metavar="CLIENT", help=f"The assistant: {', '.join(RESUMABLE)}.")
    ] = None,
    session: Annotated[
        str | None,
        typer.Argument(metavar="SESSION", help="Its id or its file. Default: the newest one of this folder."),
    ] = None,
    only_list: Annotated[bool, typer.Option("--list", help="List the newest sessions.")] = False,
    only_say: Annotated[bool, typer.Option("--dry-run", help="Only say what a copy would cost and keep.")] = False,
    only_print: Annotated[
        bool, typer.Option("--print", help="Write the copy and print its command; start nothing.")
    ] = False,
    receipt: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write what is changed to this file, as JSON without texts.")
    ] = None,
    no_archive: options.NoArchive = False,
) -> None:
    """Resume a session as a slimmer copy, or list the newest sessions.

    If the cache of a session has expired, old tool results are cleared in a copy with its own id, and the
    assistant is started with the copy. The session itself is not changed. Without CLIENT, the newest sessions are
    listed.
    """
    if client is not None and client not in RESUMABLE:
        raise SettingsError(f"sessions of {client!r} cannot be resumed{near_or_all(client, RESUMABLE)}")
    if client is None or only_list:
        print("\n\n".join(list_sessions(list(RESUMABLE) if client is None else [client])))
        return
    try:
        refuse_agent_log(receipt, force=False)
    except SessionError as error:
        raise SessionError(f"{receipt} is a session file: write the receipt to another file") from error
    chosen = find_client(client)
    file = find_session(chosen, session)
    folder = folder_of(file) or os.curdir
    program = "" if only_say or only_print else find_program(chosen)
    if not only_say and not (os.path.isdir(folder) and folder.isprintable()):
        raise SessionError(f"the folder of the session does not exist any more, so it cannot be resumed: {folder}")
    try:
        data, age = file.read_bytes(), time.time() - last_used(file)
    except OSError as error:
        raise SessionError(f"{file} cannot be read: {error.strerror}") from error
    try:
        copy = slim_session(chosen, file, decode(data, str(file)), age, has_ids=not no_archive)
    except SessionError as error:
        as_it_is = f"cd {shlex.quote(folder)} && {shlex.join((*RESUMABLE[client], _id_of(file)))}"
        raise SessionError(f"{error}; `{as_it_is}` resumes the session as it is") from error
    for line in filter(None, (untried(chosen, copy.changes.version), *copy.describe())):
        typer.echo(f"autoprune: {printable(line)}", err=True)
    if not only_say:
        copy.write(None if no_archive else LimitedDirectory(project_folder(archive_parent(), folder)))
    if receipt:
        write_output(receipt, dump(copy.receipt(client), 2) + "\n")
    command = (*RESUMABLE[client], copy.id)
    if only_print:
        print(f"cd {shlex.quote(folder)} && {shlex.join(command)}")
    elif not only_say:
        environ = {**os.environ, **path_variable(os.environ)}
        with subprocess.Popen([program, *command[1:]], cwd=folder, env=environ) as process:
            raise typer.Exit(wait_for(process))


def find_session(client: Client, named: str | None) -> Path:
    """Find a session file of a client: by its id or the beginning of it, by its path, or as the newest of this folder.

    Raises SessionError if there is none, or several.
    """
    files = [file for file in session_files(client) if SESSION_ID.search(file.stem)]  # not those of sub-agents
    if named is None:
        try:
            found = [file for file in files if folder_of(file) == os.getcwd()][:1]
        except FileNotFoundError as error:
            raise SessionError("the working directory does not exist any more: change to one that does") from error
        others = "in this folder: give the id of another one, as `autoprune resume` lists them"
        missing = others if files else "on this machine"
    else:
        path = os.path.realpath(named)
        if os.path.isfile(path) and not SESSION_ID.search(Path(path).stem):
            raise SessionError(
                f"{printable(named)} is not named like a session: its name must end with the session's id"
            )
        begins = [file for file in files if len(named) >= LEAST_NAME and _id_of(file).startswith(named)]
        found = [file for file in files if os.path.realpath(file) == path] or begins
        missing = f"of this id, or file where {client.title} keeps its sessions: {printable(named)}"
    if not found:
        raise SessionError(f"there is no session of {client.title} {missing}")
    if len(found) > 1:
        raise SessionError(f"{len(found)} sessions of {client.title} begin with {named}: give a whole id")
    return found[0]


def _id_of(file: Path) -> str:
    """Return the id of a session, with which the name of its file ends."""
    return file.stem[-ID_LENGTH:]


def list_sessions(names: list[str]) -> list[str]:
    """Describe the newest sessions of clients. Raises SessionError if there are none."""
    files = {file: name for name in names for file in session_files(find_client(name)) if SESSION_ID.search(file.stem)}
    times = session_times(list(files))
    newest = sorted(files, key=lambda file: -times.get(file.stem, 0.0))
    shown = [*islice(filter(None, (_describe(file, files[file]) for file in newest)), MOST_LISTED)]
    if not shown:
        raise SessionError(f"there are no sessions of {', '.join(names)} on this machine")
    return shown


def _describe(file: Path, name: str) -> str:
    """Describe a session of a client in a few lines; "" if it cannot be read."""
    if (read := read_stretches(file)) is None:
        return ""
    stretches, age = read
    title, costs = title_of(str(file), stretches), first_costs(stretches[-1], age, RUN_STRATEGY)
    cost = [f"    first request about ${costs[0]:,.2f}, without pruning ${costs[1]:,.2f}"] if costs else []
    place = stretches[-1].folder
    command = f"autoprune run {shlex.join((*RESUMABLE[name], _id_of(file)))}"
    if place and os.path.isdir(place):
        command = f"cd {shlex.quote(place)} && {command}"
    elif place:
        command = f"{command}  # in {place}, which is not there"
    about = ": ".join(filter(None, (title.project, title.prompt)))
    heading = one_line(f"{duration(age)} ago, {about}", WIDTH)
    return "\n".join(map(printable, (heading, *cost, f"    {command}")))


SESSION_ID, ID_LENGTH = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$"), 36  # ends a file's name
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
    changes: CopyChanges
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
        """Write what the copy cleared, then the copy beside its source, for its owner only. Raises SessionError."""
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

    Raises SessionError for a file that cannot be read or copied, and if the copy would not be cheaper.
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
        path = file.with_name(f"{file.stem.removesuffix(_id_of(file))}{id}{file.suffix}")
        changes = CopyChanges(id, cleared, saved)
        try:
            copy = slim_copy(text, client.agent, changes)
        except RecursionError as error:
            raise SessionError(f"{file} is nested too deeply: {error}") from error
        if _may_hold(path, copy):
            break
    if [*map(_plain, recordings(copy, str(path))[-1][-1].messages)] != [*map(_plain, result.conversation)]:
        raise SessionError(f"{file} cannot be copied without a loss")
    used, kept = _evidence(found, result)
    return SlimSession(file, path, copy, changes, age, first, result, payloads, used, kept)


def _plain(value: Any) -> Any:
    """Return a message with each result of one text block as that text: pi's log does not tell the two apart."""
    match value:
        case {"type": "tool_result", "content": [{"type": "text", "text": str(words)}]}:
            return {**value, "content": words}
        case {"content": [*blocks]}:
            return {**value, "content": [*map(_plain, blocks)]}
    return value


def _may_hold(path: Path, text: str) -> bool:
    """Return whether there is no file yet, or only the same copy."""
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

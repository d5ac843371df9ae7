"""`autoprune resume`: list the newest sessions, or resume one as a slimmer copy, without a proxy."""

import os
import shlex
import subprocess
import time
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

import autoprune.apps.cli.options as options
from autoprune.apps.cli.config_files import load_defaults
from autoprune.apps.cli.input_output import refuse_agent_log, write_output
from autoprune.apps.cli.recalling import archive_parent
from autoprune.apps.cli.resumed import (
    LEAST_NAME,
    duration,
    first_costs,
    folder_of,
    read_stretches,
    session_files,
    session_times,
)
from autoprune.apps.cli.run import find_program, path_variable, wait_for
from autoprune.apps.cli.slimming import SESSION_ID, slim_session, untried
from autoprune.apps.clients import Client, find_client
from autoprune.apps.replay.policies import RUN
from autoprune.apps.replay.titles import title_of
from autoprune.apps.sessions import decode, dump
from autoprune.conversation.limited_archive import LimitedDirectory, project_folder
from autoprune.errors import SessionError, SettingsError, near_or_all
from autoprune.facts.plain_text import one_line
from autoprune.pruners.report.drawing import printable

EXAMPLES = options.examples("resume", "resume claude --dry-run", "resume codex --print")
# The arguments before a session's id, by client.
BY_ID = {"claude": ("claude", "--resume"), "codex": ("codex", "resume"), "pi": ("pi", "--session")}
MOST_LISTED, WIDTH = 10, 80  # sessions; columns


def resume_session(
    context: typer.Context,
    client: Annotated[str | None, typer.Argument(metavar="CLIENT", help="The assistant: claude, codex or pi.")] = None,
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
    no_archive: Annotated[
        bool, typer.Option("--no-archive", help="Keep no cleared results for `autoprune recall`.")
    ] = False,
) -> None:
    """Resume a session as a slimmer copy, without a proxy, or list the newest sessions.

    If the cache of a session has expired, old tool results are cleared in a copy with an id of its own, and the
    assistant is started with the copy. The session itself is not changed. Without CLIENT, the newest sessions are
    listed.
    """
    if client is not None and client not in BY_ID:
        raise SettingsError(f"sessions of {client!r} cannot be resumed{near_or_all(client, BY_ID)}")
    if client is None or only_list:
        print("\n\n".join(list_sessions(list(BY_ID) if client is None else [client])))
        return
    of_run = load_defaults(context, "run").get("no_archive")
    is_private = no_archive or bool(of_run and of_run.value)
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
        data, age = file.read_bytes(), time.time() - file.stat().st_mtime
    except OSError as error:
        raise SessionError(f"{file} cannot be read: {error.strerror}") from error
    try:
        copy = slim_session(chosen, file, decode(data, str(file)), age, has_ids=not is_private)
    except SessionError as error:
        as_it_is = f"cd {shlex.quote(folder)} && {shlex.join((*BY_ID[client], _id_of(file)))}"
        raise SessionError(f"{error}; `{as_it_is}` resumes the session as it is") from error
    for line in filter(None, (untried(chosen, copy.changes.version), *copy.describe())):
        typer.echo(f"autoprune: {printable(line)}", err=True)
    if not only_say:
        copy.write(None if is_private else LimitedDirectory(project_folder(archive_parent(), folder)))
    if receipt:
        write_output(receipt, dump(copy.receipt(client), 2) + "\n")
    command = (*BY_ID[client], copy.id)
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
        missing = "in this folder: give the id of another one, as `autoprune resume` lists them"
    else:
        path = os.path.realpath(named)
        begins = [file for file in files if len(named) >= LEAST_NAME and _id_of(file).startswith(named)]
        found = [file for file in files if os.path.realpath(file) == path] or begins
        missing = f"of this id, or file where {client.title} keeps its sessions: {printable(named)}"
    if not found:
        raise SessionError(f"there is no session of {client.title} {missing}")
    if len(found) > 1:
        raise SessionError(f"{len(found)} sessions of {client.title} begin with {named}: give a whole id")
    return found[0]


def _id_of(file: Path) -> str:
    match = SESSION_ID.search(file.stem)
    return match[0] if match else file.stem


# The list


def list_sessions(names: list[str]) -> list[str]:
    """Describe the newest sessions of clients. Raises SessionError if there are none."""
    files = {file: name for name in names for file in session_files(find_client(name)) if SESSION_ID.search(file.stem)}
    times = session_times(list(files))
    newest = sorted(files, key=lambda file: -times.get(file.stem, 0.0))
    shown = [*islice(filter(None, (_describe(file, files[file]) for file in newest)), MOST_LISTED)]
    if not shown:
        raise SessionError(f"no sessions of {' or '.join(names)} were found on this machine")
    return shown


def _describe(file: Path, name: str) -> str:
    """Describe a session of a client in a few lines; "" if it cannot be read."""
    if (read := read_stretches(file)) is None:
        return ""
    stretches, age = read
    title, costs = title_of(str(file), stretches), first_costs(stretches[-1], age, RUN)
    cost = [f"    first request about ${costs[0]:,.2f}, without pruning ${costs[1]:,.2f}"] if costs else []
    place = stretches[-1].folder
    folder = f"cd {shlex.quote(place)} && " if place else ""
    about = ": ".join(filter(None, (title.project, title.prompt)))
    heading = one_line(f"{duration(age)} ago, {about}", WIDTH)
    command = shlex.join((*BY_ID[name], _id_of(file)))
    return "\n".join(map(printable, (heading, *cost, f"    {folder}autoprune run {command}")))

"""Sessions that an assistant resumes: `autoprune resume` lists them, and `run` says what their first request costs."""

import json
import re
import shlex
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

import autoprune.apps.cli.options as options
from autoprune.apps.clients import Client, User, find_client
from autoprune.apps.replay.policies import RUN
from autoprune.apps.replay.titles import title_of
from autoprune.apps.sessions import Recording, decode, places, recordings
from autoprune.economics import prices
from autoprune.errors import SessionError, SettingsError, near_or_all
from autoprune.facts.plain_text import one_line
from autoprune.pruners.agentic import AgenticConversationPruner
from autoprune.pruners.report.drawing import printable
from autoprune.settings import PruneArgs, usual_zone

EXAMPLES = options.examples("resume", "resume codex")
BY_ID = {"claude": "claude --resume", "codex": "codex resume"}  # the arguments before a session's id, by client
SESSION_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
MOST_LISTED, WIDTH = 10, 80  # sessions; columns
# Arguments that resume the newest session of the folder, by client.
NEWEST = {"claude": ("--continue", "-c"), "codex": ("--last",), "pi": ("--continue", "-c"), "copilot": ("--continue",)}
LEAST_NAME = 8  # characters of an argument that may name a session
FOLDER = re.compile(rb'"cwd"\s*:\s*("(?:[^"\\]|\\.)*")')
HEAD_BYTES = 100_000  # of a session file, in which its folder is looked for
DAY, HOUR, MINUTE = 86_400, 3_600, 60  # seconds
LEAST_SAVED = 0.01  # share of the cost of a request
LARGEST = 50_000_000  # bytes of a session file that is read while the user waits for the assistant


def session_files(client: Client) -> list[Path]:
    """A client's own session files on this machine, the newest first."""
    return places.at_home(Path.home()).get(client.agent, [])


def session_times(files: Sequence[Path]) -> dict[str, float]:
    """When each session file was last written, by its name without a suffix."""
    found = {}
    for file in files:
        with suppress(OSError):  # removed meanwhile
            found[file.stem] = file.stat().st_mtime
    return found


def find_resumed(client: Client, user: User, files: Sequence[Path]) -> Path | None:
    """Find the session file that the client's arguments resume, by its id or as the newest of the folder."""
    named = [each for each in user.arguments if len(each) >= LEAST_NAME]
    by_name = (file for file in files for name in named if file.stem.endswith(name) or str(file) == name)
    if found := next(by_name, None):
        return found
    if not set(NEWEST.get(client.name, ())).intersection(user.arguments):
        return None
    return next((file for file in files if _folder_of(file) == str(user.folder)), None)


def _folder_of(file: Path) -> str:
    """The folder in which a session began; "" if its file does not say."""
    with suppress(OSError, ValueError), file.open("rb") as opened:
        if match := FOLDER.search(opened.read(HEAD_BYTES)):
            return str(json.loads(match[1]))
    return ""


@dataclass(frozen=True)
class FirstRequest:
    """The first request of a session that is resumed after its cache has expired: its cost in dollars, two ways."""

    age: str
    pruned: float
    whole: float


def describe_cost(file: Path, strategy: str) -> str:
    """Say what the first request of a resumed session costs, pruned and whole; "" if its cache has not expired.

    "" too if the model's price is not known, if pruning would save nothing, or if the file is very large or cannot be
    read: an assistant starts without this line.
    """
    found = _read(file)
    if found is None or (first := first_request(found[0][-1], found[1], strategy)) is None:
        return ""
    return (
        f"the session is {first.age} old, and its cache has expired: its first request costs about "
        f"${first.pruned:,.2f}, without pruning ${first.whole:,.2f}, at API list prices"
    )


def _read(file: Path) -> tuple[list[Recording], float] | None:
    """Read a session's stretches, of which the last is resumed, and its age in seconds; None if that takes long."""
    with suppress(OSError, ValueError, LookupError, RecursionError):  # errors of autoprune are ValueErrors
        status = file.stat()
        if status.st_size <= LARGEST:
            stretches = recordings(decode(file.read_bytes(), str(file)), str(file))[-1]
            return (stretches, time.time() - status.st_mtime) if stretches else None
    return None


def first_request(found: Recording, age: float, strategy: str) -> FirstRequest | None:
    """Compute what a session of this age, in seconds, costs at first; None where `describe_cost` says nothing."""
    last = next((each for each in reversed(found.requests) if each.usage and each.model), None)
    if last is None or last.usage is None:
        return None
    with suppress(ValueError, LookupError, RecursionError):
        at, messages = prices(None, last.model, life=last.life), found.messages
        if age <= at.life or at.input_price is None:
            return None
        args, now = PruneArgs(usual_zone(last.model), model=last.model), len(messages)
        pruner = AgenticConversationPruner(args, strategy=strategy)
        report = pruner.prune(messages, pauses={now: age}, history={0: {}, now: {}}).report
        whole = last.usage.prompt + last.usage.output
        pruned = whole - (report.tokens_before - report.tokens_after)
        cost, cost_pruned = (at.input_price * at.request(each, 0, 0) for each in (whole, pruned))
        if 0 < cost_pruned <= (1 - LEAST_SAVED) * cost:
            return FirstRequest(_duration(age), cost_pruned, cost)
    return None


def _duration(seconds: float) -> str:
    for length, name in ((DAY, "days"), (HOUR, "hours")):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {name}"
    minutes = max(0, round(seconds / MINUTE))  # a file may be from the future
    return f"{minutes} minute{'' if minutes == 1 else 's'}"


def list_sessions(
    client: Annotated[
        str | None, typer.Argument(metavar="CLIENT", help="Only those of this assistant: claude or codex.")
    ] = None,
) -> None:
    """List the newest sessions of Claude Code and Codex, with the command that resumes each.

    Of sessions whose cache has expired it says what the first request costs, pruned as by `autoprune run` and whole.
    """
    if client is not None and client not in BY_ID:
        raise SettingsError(f"sessions of {client!r} are not listed{near_or_all(client, BY_ID)}")
    names = BY_ID if client is None else (client,)
    files = {file: name for name in names for file in session_files(find_client(name)) if SESSION_ID.search(file.stem)}
    times = session_times(list(files))
    newest = sorted(files, key=lambda file: -times.get(file.stem, 0.0))
    shown = [*islice(filter(None, (_lines(file, files[file]) for file in newest)), MOST_LISTED)]
    if not shown:
        raise SessionError(f"no sessions of {' or '.join(names)} were found on this machine")
    print("\n\n".join("\n".join(lines) for lines in shown))


def _lines(file: Path, name: str) -> list[str]:
    """Describe a session of a client; [] if it cannot be read."""
    read, match = _read(file), SESSION_ID.search(file.stem)
    if read is None or match is None:
        return []
    stretches, age = read
    title, first = title_of(str(file), stretches), first_request(stretches[-1], age, RUN)
    cost = [f"    first request about ${first.pruned:,.2f}, without pruning ${first.whole:,.2f}"] if first else []
    place = stretches[-1].folder
    folder = f"cd {shlex.quote(place)} && " if place else ""
    about = ": ".join(filter(None, (title.project, title.prompt)))
    heading = one_line(f"{_duration(age)} ago, {about}", WIDTH)
    return [*map(printable, (heading, *cost, f"    {folder}autoprune run {BY_ID[name]} {match[0]}"))]

"""Sessions that an assistant resumes: their files, and what their first request costs, pruned and whole."""

import json
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoprune.apps.clients import Client, User
from autoprune.apps.sessions import Recording, decode, parse_time, places, recordings
from autoprune.conversation.archive import Archive
from autoprune.economics import prices
from autoprune.errors import SessionError, count_noun
from autoprune.pruners.pruner import AgenticConversationPruner
from autoprune.pruners.result import Result
from autoprune.settings.values import PruneArgs, usual_zone

LEAST_NAME = 8  # characters of an argument that may name a session
FOLDER = re.compile(rb'"cwd"\s*:\s*("(?:[^"\\]|\\.)*")')
HEAD_BYTES = 100_000  # of a session file, in which its folder is looked for
DAY, HOUR, MINUTE = 86_400, 3_600, 60  # seconds
LEAST_SAVED = 0.01  # share of the cost of a request
TIME = re.compile(rb'"timestamp"\s*:\s*"([^"\\]{10,40})"')
TAIL_BYTES = 200_000  # of a session file, in which its newest time is looked for
LARGEST = 50_000_000  # bytes of a session file that is read while the user waits for the assistant


def session_files(client: Client) -> list[Path]:
    """Return a client's own session files on this machine, the newest first."""
    return places.at_home(Path.home()).get(client.agent, [])


def session_times(files: Sequence[Path]) -> dict[str, float]:
    """Return the time at which each session was last used, by its file's name without a suffix."""
    found = {}
    for file in files:
        with suppress(OSError):  # removed meanwhile
            found[file.stem] = last_used(file)
    return found


def last_used(file: Path) -> float:
    """Return the time at which a session was last used: the newest one in its file, at most that of its last change.

    A file that was copied or restored today is newer than its session. Raises OSError.
    """
    status = file.stat()
    if time.time() - status.st_mtime > DAY:
        return status.st_mtime  # no cache lives that long
    with file.open("rb") as opened:
        opened.seek(max(0, status.st_size - TAIL_BYTES))
        tail = opened.read()
    whole = tail if status.st_size <= TAIL_BYTES else tail.partition(b"\n")[2]  # without a part of a line
    times = [parse_time(each.decode("ascii", "replace")) for each in TIME.findall(whole)]
    return min(max((each for each in times if each is not None), default=status.st_mtime), status.st_mtime)


def find_resumed(client: Client, user: User, files: Sequence[Path]) -> Path | None:
    """Find the session file that the client's arguments resume, by its id or as the newest of the folder."""
    named = [each for each in user.arguments if len(each) >= LEAST_NAME]
    by_name = (file for file in files for name in named if file.stem.endswith(name) or str(file) == name)
    if found := next(by_name, None):
        return found
    if not set(client.newest).intersection(user.arguments):
        return None
    return next((file for file in files if folder_of(file) == str(user.folder)), None)


def folder_of(file: Path) -> str:
    """Return the folder in which a session began; "" if its file does not say."""
    with suppress(OSError, ValueError), file.open("rb") as opened:
        if match := FOLDER.search(opened.read(HEAD_BYTES)):
            return str(json.loads(match[1]))
    return ""


@dataclass(frozen=True)
class FirstRequest:
    """The first request of a resumed session, pruned and whole: its tokens, and dollars if the price is known."""

    tokens: tuple[int, int]
    costs: tuple[float, float] | None

    @property
    def is_cheaper(self) -> bool:
        """Whether pruning saves something that is worth the trouble."""
        pruned, whole = self.costs or self.tokens
        return 0 < pruned <= (1 - LEAST_SAVED) * whole


def prune_resumed(
    found: Recording, age: float, strategy: str, archive: Archive | None = None
) -> tuple[Result[Any], FirstRequest]:
    """Prune a session that was last used `age` seconds ago as its next request would be.

    Raises SessionError if its cache has not expired, and if no request since its last compaction names a model.
    """
    last = next((each for each in reversed(found.requests) if each.usage and each.model), None)
    if last is None or last.usage is None:
        raise SessionError(
            "no request since the session began or was compacted names a model and tokens, so a copy cannot be priced"
        )
    at, now = prices(None, last.model, life=last.life), len(found.messages)
    if age <= at.life:
        raise SessionError(
            f"the cache of the session lives for {duration(at.life - age)} more, so a copy would be dearer"
        )
    args = PruneArgs(usual_zone(last.model), model=last.model)
    pruner = AgenticConversationPruner(args, strategy=strategy, archive=archive)
    result = pruner.prune(found.messages, pauses={now: age}, history={0: {}, now: {}})
    whole = last.usage.prompt + last.usage.output
    tokens = whole - (result.report.tokens_before - result.report.tokens_after), whole
    if at.input_price is None:
        return result, FirstRequest(tokens, None)
    pruned, unpruned = (at.input_price * at.request(each, 0, 0) for each in tokens)
    return result, FirstRequest(tokens, (pruned, unpruned))


def describe_cost(file: Path, strategy: str) -> str:
    """Say what the first request of a resumed session costs, pruned and whole; "" if its cache has not expired.

    "" too if the model's price is not known, if pruning would save nothing, or if the file is very large or cannot be
    read: an assistant starts without this line.
    """
    found = read_stretches(file)
    costs = first_costs(found[0][-1], found[1], strategy) if found else None
    if found is None or costs is None:
        return ""
    return (
        f"the session is {duration(found[1])} old, and its cache has expired: its first request costs about "
        f"${costs[0]:,.2f}, without pruning ${costs[1]:,.2f}, at API list prices"
    )


def read_stretches(file: Path) -> tuple[list[Recording], float] | None:
    """Read a session's stretches, of which the last is resumed, and its age in seconds; None if that takes long."""
    with suppress(OSError, ValueError, LookupError, RecursionError):  # errors of autoprune are ValueErrors
        if file.stat().st_size <= LARGEST:
            stretches = recordings(decode(file.read_bytes(), str(file)), str(file))[-1]
            return (stretches, time.time() - last_used(file)) if stretches else None
    return None


def first_costs(found: Recording, age: float, strategy: str) -> tuple[float, float] | None:
    """Compute what the first request costs, pruned and whole; None where `describe_cost` says nothing."""
    with suppress(ValueError, LookupError, RecursionError):
        _, first = prune_resumed(found, age, strategy)
        return first.costs if first.is_cheaper else None
    return None


def duration(seconds: float) -> str:
    """Write how long ago something was."""
    for length, name in ((DAY, "days"), (HOUR, "hours")):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {name}"
    return count_noun(max(0, round(seconds / MINUTE)), "minute")  # a file may be from the future

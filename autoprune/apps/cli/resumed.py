"""What `autoprune run` knows of the session that an assistant resumes: its age, and what its first request costs."""

import json
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from autoprune.apps.clients import Client, User
from autoprune.apps.sessions import decode, places, recordings
from autoprune.economics import prices
from autoprune.pruners.agentic import AgenticConversationPruner
from autoprune.settings import PruneArgs, usual_zone

# Arguments that resume the newest session of the folder, by client.
NEWEST = {"claude": ("--continue", "-c"), "codex": ("--last",), "pi": ("--continue", "-c"), "copilot": ("--continue",)}
LEAST_NAME = 8  # characters of an argument that may name a session
FOLDER = re.compile(rb'"cwd"\s*:\s*("(?:[^"\\]|\\.)*")')
HEAD_BYTES = 100_000  # of a session file, in which its folder is looked for
HOUR, MINUTE = 3_600, 60  # seconds
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


def describe_cost(file: Path, strategy: str) -> str:
    """Say what the first request of a resumed session costs, pruned and whole; "" if its cache has not expired.

    "" too if the model's price is not known, if pruning would save nothing, or if the file is very large or cannot be
    read: an assistant starts without this line.
    """
    try:
        status = file.stat()
        if status.st_size > LARGEST:
            return ""
        return _describe_cost(file, strategy, time.time() - status.st_mtime)
    except (OSError, ValueError, LookupError, RecursionError):  # errors of autoprune are ValueErrors
        return ""


def _describe_cost(file: Path, strategy: str, age: float) -> str:
    """Describe the cost of a session of this age, in seconds. Raises ValueError or LookupError for a bad file."""
    recording = recordings(decode(file.read_bytes(), str(file)), str(file))[-1][-1]
    last = next((each for each in reversed(recording.requests) if each.usage and each.model), None)
    if last is None or last.usage is None:
        return ""
    at, messages = prices(None, last.model, life=last.life), recording.messages
    if age <= at.life or at.input_price is None:
        return ""
    args, now = PruneArgs(usual_zone(last.model), model=last.model), len(messages)
    pruner = AgenticConversationPruner(args, strategy=strategy)
    report = pruner.prune(messages, pauses={now: age}, history={0: {}, now: {}}).report
    whole = last.usage.prompt + last.usage.output
    pruned = whole - (report.tokens_before - report.tokens_after)
    cost, cost_pruned = (at.input_price * at.request(each, 0, 0) for each in (whole, pruned))
    if not 0 < cost_pruned <= (1 - LEAST_SAVED) * cost:
        return ""
    old = f"{age / HOUR:,.0f} hours" if age >= 2 * HOUR else f"{age / MINUTE:.0f} minutes"
    return (
        f"the session is {old} old, and its cache has expired: its first request costs about ${cost_pruned:,.2f}, "
        f"without pruning ${cost:,.2f}, at API list prices"
    )

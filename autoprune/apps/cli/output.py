"""What commands print: tables, JSON, a bar, where a session came from."""

import json
import os
import sys
import time

from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from autoprune.apps.cli.starting import check_output
from autoprune.apps.sessions import Session, dump
from autoprune.pruners.naming import AnyPruner
from autoprune.pruners.report.drawing import printable

PIPE_WIDTH = 140  # columns of a table that is not printed on a terminal, and whose width nobody gave
SLOW_SECONDS = 1.0


class Terminal(Console):
    """A console that leaves it to the command line what a closed pipe means."""

    def on_broken_pipe(self) -> None:
        """Raise the error again, where rich would end the program with 1."""
        raise BrokenPipeError


def show(table: RenderableType, *, to_stderr: bool = False, wraps: bool = True) -> None:
    """Print a table, as wide as the terminal or the variable COLUMNS says; lines that must not break are longer."""
    console = Terminal(stderr=to_stderr)
    is_known = console.is_terminal or os.environ.get("COLUMNS", "").isdigit()
    Terminal(stderr=to_stderr, width=None if is_known else PIPE_WIDTH).print(table, soft_wrap=not wraps)


def show_json(value: object) -> None:
    """Print a value as JSON, escaped if the encoding of standard output lacks a character."""
    check_output()
    text = dump(value, 2)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=2)
    print(text)


def origin(session: Session) -> RenderableType:
    """Say whose session file it is, which of its conversations, and what was left out of it or made up."""
    lines = [f"{session.agent} session" if session.agent else "", *session.notes]
    if session.conversations > 1:
        lines.insert(1, f"one of {session.conversations} conversations in the file (choose with --conversation)")
    return Group(*(Text(f"note: {printable(line)}", style="dim") for line in lines if line))


def count_with_progress(pruner: AnyPruner, messages: list[object]) -> None:
    """Count each message beforehand, with a bar where that takes longer than a second: the pruner remembers counts."""
    started = time.monotonic()
    console = Terminal(stderr=True)
    # A bar that is not on a terminal would leave an empty line where it was.
    columns = TextColumn("counting tokens"), BarColumn()
    progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = progress.add_task("", total=len(messages))
    try:
        for message in messages:
            pruner.count_tokens([message])
            progress.advance(task)
            if time.monotonic() - started > SLOW_SECONDS and not progress.live.is_started:
                progress.start()
    finally:
        if progress.live.is_started:
            progress.stop()

"""Print tables, JSON, progress and notes; turn errors into one line and an exit code."""

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import typer
from rich.console import Console, Group, RenderableType
from rich.constrain import Constrain
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text
from typer.core import TyperGroup

from autoprune.apps.cli.startup import INTERRUPTED
from autoprune.apps.sessions import Session, dump
from autoprune.errors import ArchiveError, AutopruneError, ConversationError, RuleError, SessionError
from autoprune.interrupts import is_interrupt
from autoprune.pruners.naming import AnyPruner, parameter_name
from autoprune.pruners.report.drawing import printable

OVER_SAFE_ZONE, WRONG_OPTION, UNREADABLE, RULE_BROKEN = 1, 2, 3, 4
CLOSED_PIPE = 141  # 128 + SIGPIPE, as a shell reports it
PIPE_WIDTH = 140  # columns of a table that goes to a pipe or a file, unless COLUMNS is set
REPORT_WIDTH = 100  # the most columns of a report, whose sentences are hard to read in longer lines
SLOW_SECONDS = 1.0  # a progress bar that appears and vanishes within a second only flickers
STRATEGY_FIELD = re.compile(r"^(\w+): (\w+)(?= is )")  # in an error such as "keep_last: over_messages is -1: …"


class Commands(TyperGroup):
    """The group of all commands. Reports each autoprune error as one line and an exit code."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Parse the command line. `--help` prints here."""
        with _exit_codes():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with _exit_codes():
            return super().invoke(ctx)


@contextmanager
def _exit_codes() -> Iterator[None]:
    """Turn errors into a line on standard error and an exit code."""
    try:
        try:
            yield
        except AutopruneError as error:
            _print_error(_in_options(str(error)))
            raise typer.Exit(_exit_code(error)) from error
        finally:
            # Flush here: nothing could handle an error that occurs when the interpreter exits.
            sys.stdout.flush()
    except BrokenPipeError as error:  # the reader has closed the pipe: `autoprune prune … | head`
        _discard_output()
        raise typer.Exit(CLOSED_PIPE) from error
    except OSError as error:
        _discard_output()
        _print_error(f"standard output cannot be written: {error.strerror}")
        raise typer.Exit(UNREADABLE) from error
    except (KeyboardInterrupt, RuntimeError) as error:
        if not is_interrupt(error):
            raise
        _print_error("interrupted")
        raise typer.Exit(INTERRUPTED) from error


def _in_options(message: str) -> str:
    """Replace keyword arguments and dataclass fields in an error message by command line options."""
    message = message.replace("(window=200_000)", "(--window 200000)")
    message = message.replace("autoprune.repair mends them", "`autoprune check FILE --repair OUT` mends them")
    return STRATEGY_FIELD.sub(lambda match: f"{match[1]}: {parameter_name(match[1], match[2])}", message)


def _exit_code(error: AutopruneError) -> int:
    if isinstance(error, RuleError):
        return RULE_BROKEN
    return UNREADABLE if isinstance(error, SessionError | ConversationError | ArchiveError) else WRONG_OPTION


def _print_error(message: str) -> None:
    with suppress(OSError):
        print(f"autoprune: {message}", file=sys.stderr)


def _discard_output() -> None:
    """Send the rest of standard output's buffer to the null device, so that flushing raises no second error."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


class Terminal(Console):
    """A rich console that raises BrokenPipeError, so that the exit code is 141. Rich would exit with 1.

    With NO_COLOR it writes no styles at all; rich alone would still write bold and dim text.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, color_system=None if os.environ.get("NO_COLOR") else "auto")

    def on_broken_pipe(self) -> None:
        """Raise the error that rich has caught."""
        raise BrokenPipeError


def show(table: RenderableType, *, to_stderr: bool = False, wraps: bool = True) -> None:
    """Print a table, as wide as the terminal or COLUMNS. With `wraps=False` long lines are not broken."""
    console = Terminal(stderr=to_stderr)
    if not console.is_terminal and not os.environ.get("COLUMNS", "").isdigit():
        console.width = PIPE_WIDTH
    console.print(table, soft_wrap=not wraps)


def show_report(report: RenderableType, *, to_stderr: bool = False) -> None:
    """Print a report with sentences, in lines of at most 100 columns."""
    show(Constrain(report, REPORT_WIDTH), to_stderr=to_stderr)


def show_json(value: object) -> None:
    """Print a value as JSON, escaped if the encoding of standard output lacks a character."""
    text = dump(value, 2)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=2)
    print(text)


def session_notes(session: Session) -> RenderableType:
    """Notes on a session: its agent, the number of its conversations, and dropped or assumed content."""
    lines = [f"{session.agent} session" if session.agent else "", *session.notes]
    if session.conversations > 1:
        lines.insert(1, f"one of {session.conversations} conversations in the file (choose with --conversation)")
    return Group(*(Text(f"note: {printable(line)}", style="dim") for line in lines if line))


def count_with_progress(pruner: AnyPruner, messages: list[object]) -> None:
    """Count the tokens of each message, with a progress bar if that takes more than a second.

    The pruner caches the counts, so the prune that follows does not count again.
    """
    started = time.monotonic()
    console = Terminal(stderr=True)
    columns = TextColumn("counting tokens"), BarColumn()
    # Off a terminal rich would leave an empty line in place of the bar.
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

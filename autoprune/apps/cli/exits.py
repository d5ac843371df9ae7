"""Exit codes, and how an error becomes one line and its code."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import typer
from typer.core import TyperGroup

from autoprune.apps.cli.starting import INTERRUPTED
from autoprune.errors import ArchiveError, AutopruneError, ConversationError, RuleError, SessionError
from autoprune.pruners.naming import parameter

OVER_SAFE_ZONE, WRONG_OPTION, UNREADABLE, RULE_BROKEN = 1, 2, 3, 4
CLOSED_PIPE = 141  # 128 + the number of the signal, as a shell reports it
FIELD = re.compile(r"^(\w+): (\w+)(?= is )")  # of a strategy, in an error about its value


class Commands(TyperGroup):
    """The commands. Every error that autoprune knows becomes one line and an exit code."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Read the command line; `--help` prints here."""
        with _exit_codes():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with _exit_codes():
            return super().invoke(ctx)


@contextmanager
def _exit_codes() -> Iterator[None]:
    """Turn errors into a line on standard error and an exit code.

    The output is flushed here: an error at the interpreter's exit could not be turned into anything any more.
    """
    try:
        try:
            yield
        except AutopruneError as error:
            _say(_as_typed(str(error)))
            raise typer.Exit(_code(error)) from error
        finally:
            sys.stdout.flush()
    except BrokenPipeError as error:  # whoever read the output has had enough: `autoprune prune … | head`
        _silence()
        raise typer.Exit(CLOSED_PIPE) from error
    except OSError as error:
        _silence()
        _say(f"standard output cannot be written: {error.strerror}")
        raise typer.Exit(UNREADABLE) from error
    except KeyboardInterrupt as error:
        _say("interrupted")
        raise typer.Exit(INTERRUPTED) from error


def _as_typed(words: str) -> str:
    """Return an error in terms of the command line: a preset's parameter for its field, an option for a keyword."""
    words = words.replace("(window=200_000)", "(--window 200000)")
    return FIELD.sub(lambda match: f"{match[1]}: {parameter(match[1], match[2])}", words)


def _code(error: AutopruneError) -> int:
    if isinstance(error, RuleError):
        return RULE_BROKEN
    return UNREADABLE if isinstance(error, SessionError | ConversationError | ArchiveError) else WRONG_OPTION


def _say(words: str) -> None:
    with suppress(OSError):
        print(f"autoprune: {words}", file=sys.stderr)


def _silence() -> None:
    """Send what is still in the buffer of standard output nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)

"""Start the command line: streams that can be written to, and Ctrl-C while the commands are loaded."""

import codecs
import os
import sys
from io import TextIOWrapper

from autoprune.errors import SessionError

INTERRUPTED = 130  # 128 + the number of the signal, as a shell reports it
READABLE = "autoprune.readable"  # the name of the error handler of the streams
# What stands for a character that the encoding of a stream lacks; "?" for any other.
PLAIN = {
    **dict(zip("→←…≥≤", ("->", "<-", "...", ">=", "<="), strict=True)),
    **dict(zip("·×≈–—“”‘’━╸╺", ".x~--\"\"''---", strict=True)),
}


def main() -> None:
    """Run the command line. The commands are imported here: that takes half a second, in which Ctrl-C may come."""
    sys.excepthook = sys.__excepthook__  # the package's own was for the time until here
    try:
        open_streams()
        from autoprune.apps.cli.app import app

        app()
    except KeyboardInterrupt:
        print("autoprune: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


def open_streams() -> None:
    """Open the standard streams that are closed, and let the others write what their encoding lacks.

    A file that is opened later must not get the number of a closed stream, or words would be written into it. So the
    null device takes its place, as for cron jobs and daemons: words are lost, and data has to ask `check_output`.
    """
    codecs.register_error(READABLE, readable)
    for number in range(3):
        _fill(number)
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the program ends
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=READABLE)


def check_output() -> None:
    """Raise SessionError if standard output was closed when the program began: a result would be lost."""
    if getattr(sys.stdout, "name", None) == os.devnull:
        raise SessionError("standard output is closed, so the result cannot be written there")


def readable(error: UnicodeError) -> tuple[str, int]:
    """Return plain characters for those that cannot be encoded, and where encoding continues."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(PLAIN.get(each, "?") for each in error.object[error.start : error.end]), error.end


def _fill(number: int) -> None:
    """Open the null device under the number of a stream if nothing is open there."""
    try:
        os.fstat(number)
    except OSError:
        opened = os.open(os.devnull, os.O_RDWR)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)

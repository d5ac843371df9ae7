"""Start the command line: make the standard streams writable, and handle Ctrl-C while the commands are loading."""

import codecs
import os
import sys
from io import TextIOWrapper

from autoprune.errors import SessionError

INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
REPLACE_WITH_ASCII = "autoprune.ascii"  # the name of the streams' error handler
# ASCII for characters that an encoding such as cp1252 lacks. All others become "?".
ASCII = {
    **dict(zip("→←…≥≤", ("->", "<-", "...", ">=", "<="), strict=True)),
    **dict(zip("·×≈–—“”‘’━╸╺", ".x~--\"\"''---", strict=True)),
}


def main() -> None:
    """Run the command line.

    The commands are imported here and not above: that takes half a second, in which Ctrl-C may arrive.
    """
    sys.excepthook = sys.__excepthook__  # the hook of `autoprune._starting` is no longer needed
    try:
        open_streams()
        from autoprune.apps.cli.command_table import app

        app()
    except KeyboardInterrupt:
        print("autoprune: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


def open_streams() -> None:
    """Open closed standard streams on the null device, and replace characters that the encoding of a stream lacks.

    Cron jobs and daemons may start with closed streams. The next file to be opened would get the number of a closed
    stream, and messages would be written to it. With the null device, messages are lost; code that writes results
    calls `check_output` first.
    """
    codecs.register_error(REPLACE_WITH_ASCII, replace_with_ascii)
    for number in range(3):
        _ensure_open(number)
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the program ends
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=REPLACE_WITH_ASCII)


def check_output() -> None:
    """Raise SessionError if standard output was closed when the program started, because a result would be lost."""
    if getattr(sys.stdout, "name", None) == os.devnull:
        raise SessionError("standard output is closed, so the result cannot be written there")


def replace_with_ascii(error: UnicodeError) -> tuple[str, int]:
    """Codec error handler: return ASCII for characters that cannot be encoded, and the position to continue at."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(ASCII.get(each, "?") for each in error.object[error.start : error.end]), error.end


def _ensure_open(number: int) -> None:
    """Open the null device as this file descriptor if nothing is open there."""
    try:
        os.fstat(number)
    except OSError:
        opened = os.open(os.devnull, os.O_RDWR)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)

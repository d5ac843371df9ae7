"""Start the command line: make the standard streams writable, and handle Ctrl-C while the commands are loading."""

import os
import sys
import traceback
from io import RawIOBase, TextIOWrapper

from autoprune.interrupts import is_interrupt

FAULT = 5  # an exception that nothing handles
INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it


def main() -> None:
    """Run the command line. The commands are imported here: that takes half a second, in which Ctrl-C may arrive."""
    sys.excepthook = sys.__excepthook__  # the hook of `autoprune.interrupts` is no longer needed
    try:
        open_streams()
        from autoprune.apps.cli.command_table import app

        app()
    except (KeyboardInterrupt, Exception) as error:
        if is_interrupt(error):
            print("autoprune: interrupted", file=sys.stderr)
            sys.exit(INTERRUPTED)
        traceback.print_exc()  # of this program or a strategy in a file; Python would exit with 1
        sys.exit(FAULT)


def open_streams() -> None:
    """Make the standard streams writable.

    Closed ones are opened on the null device, and characters that an encoding lacks are printed as "?". With
    PYTHONUNBUFFERED=1 standard output has no buffer, and writes only a part if the reader closes the pipe.
    """
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the program ends
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    own = sys.__stdout__
    if own and sys.stdout is own and isinstance(own.buffer, RawIOBase):
        sys.stdout = open(own.fileno(), "w", 1, encoding=own.encoding, closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")

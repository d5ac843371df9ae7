"""One line in place of a traceback for Ctrl-C while the command line is loading. Does nothing in any other program.

The package is imported before any code of the command line runs, and that takes half a second. `cli.startup` takes
the hook away once it can handle Ctrl-C itself.
"""

import os
import sys
from types import TracebackType

SCRIPTS = ("autoprune", "autoprune.exe", "autoprune-script.py")


def is_command_line() -> bool:
    """Return whether this process is `autoprune` or `python -m autoprune`, which imports packages as "-m" at first."""
    name = sys.argv[0] if sys.argv else ""
    return name == "-m" or os.path.basename(name) in SCRIPTS


def is_interrupt(error: BaseException) -> bool:
    """Return whether an error is Ctrl-C. While a class is created, Python 3.11 makes it the cause of a RuntimeError."""
    return isinstance(error, KeyboardInterrupt) or (
        type(error) is RuntimeError and isinstance(error.__cause__, KeyboardInterrupt)
    )


def report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Report an error that nothing catches, as Python does, but Ctrl-C as the command line does."""
    if is_interrupt(error) and sys.stderr:
        sys.stderr.write("autoprune: interrupted\n")
    else:
        sys.__excepthook__(kind, error, trace)


if is_command_line():
    sys.excepthook = report

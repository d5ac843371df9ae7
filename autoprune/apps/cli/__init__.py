"""The command line. Results go to standard output, messages to standard error.

Exit codes: 0 within the safe zone; 1 still over it, and the report says why; 2 a wrong option; 3 a file that cannot be
read as a conversation, or cannot be written; 4 a broken provider rule; 5 an exception; 130 interrupted; 141 closed
pipe.
"""

from autoprune.apps.cli.startup import main

__all__ = ["main"]

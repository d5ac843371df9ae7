"""The command line. Results go to standard output, words to standard error.

Exit codes: 0 within the safe zone; 1 still over it, and the report says why; 2 an option is wrong; 3 a file cannot be
read as a conversation or written; 4 a provider's rule is broken; 130 interrupted; 141 nobody reads the output any more.
"""

from autoprune.apps.cli.starting import main

__all__ = ["main"]

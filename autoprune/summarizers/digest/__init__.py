"""Sum up messages without a model: the user's requests, the work done, the failures, the findings.

A digest is the text of a `Contents` (`_contents`), parsed from the previous digest. New messages are read into it one
by one (`_reading`): a request begins an exchange, a sentence of the assistant's may be a finding, and a call counts its
tool, updates the lists of files, commands and errors, and may report the state of version control and tests
(`_commands`). An error counts as resolved when the same command runs again and succeeds. If the text exceeds its room
(`_digest`), long requests are shortened, and each list keeps as many of its newest items as fit into its share of the
room; a line says how many older ones are left out. For example:

    ## The user's first request (1 line)
    Fix the failing test.

    ## What the user asked later, and the answers (3 lines)
    - (the first request)
      → I found the cause: add() subtracts.
    - Now commit it.

    ## Files changed (1 line)
    - /repo/app/sums.py → edited

    ## Commands, and how they went last (1 line)
    - pytest -q → ok (×2)

    ## Errors resolved later (1 line)
    - pytest -q → failed, exit code 1: AssertionError: 3 != 4

The number of lines in each heading makes the text parseable, whatever it contains.
"""

from autoprune.summarizers.digest._digest import Digest

__all__ = ["Digest"]

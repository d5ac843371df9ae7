"""Sum up messages without a model: the user's requests, the work done, the failures, the findings.

A digest is the text of a `Contents` (`_contents`), parsed from the previous digest. New messages are read into it one
by one (`_reading`): a request begins an exchange, a sentence of the assistant's may be a finding, and a call counts its
tool, updates the lists of files, commands and errors, and may report the state of version control and tests
(`_commands`). An error counts as resolved when the same command runs again and succeeds. If the text exceeds its room
(`_fitting`), long requests are shortened, and each list keeps as many of its newest items as fit into its share of the
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

from dataclasses import dataclass
from typing import ClassVar

from autoprune.conversation.messages import sendable
from autoprune.summarizers.brief import Answer, Brief, Failed, Written
from autoprune.summarizers.digest._contents import REQUESTS, parse_contents
from autoprune.summarizers.digest._fitting import fit_contents
from autoprune.summarizers.digest._reading import extend_contents
from autoprune.summarizers.sections import left_out_note, parse_sections, request_of

__all__ = ["Digest"]


@dataclass(frozen=True)
class Digest:
    """Write a digest of a brief: sections with the user's requests, plan, files, commands, errors and findings.

    Deterministic: the same brief gives the same text, in any process. The text has at most `brief.max_tokens` tokens
    and is blank only if not even a character fits. The user's words are kept verbatim as far as they fit: the first
    request, the latest request and another summarizer's earlier summary are shortened last.

    A previous digest (`brief.previous`) is parsed and continued, so that it loses only its oldest items that do not
    fit; any other previous text is kept as an earlier summary.
    """

    calls_model: ClassVar[bool] = False
    keeps_request: ClassVar[bool] = True
    fallback: ClassVar[None] = None

    def __call__(self, brief: Brief) -> Answer:
        """Return the digest."""
        contents = extend_contents(parse_contents(sendable(brief.previous)), brief.utterances, request_of(brief))
        text = fit_contents(contents, brief.count, brief.max_tokens)
        if not text:
            return Failed("there is no room for a word")
        is_whole = parse_sections(text) is not None
        shown = [one.request for one in parse_contents(text).exchanges if one.request] if is_whole else []
        requests = contents.left_out.get(REQUESTS, 0) + sum(bool(one.request) for one in contents.exchanges)
        return Written(text, notes=tuple(left_out_note(contents.goal, text, shown, requests - len(shown))))

"""A summary that needs no model: what the user asked, what was done, what failed, what was found. Pure."""

from dataclasses import dataclass
from typing import ClassVar

from autoprune.summarizers.brief import Brief
from autoprune.summarizers.digest.bookkeeping import continued
from autoprune.summarizers.digest.fitting import fitted
from autoprune.summarizers.digest.ledger import parsed
from autoprune.summarizers.utterances import sendable


@dataclass(frozen=True)
class Digest:
    """Writes a digest of a brief: sections with the user's requests, plan, files, commands, errors and findings.

    Deterministic: the same brief gives the same text, in any process. It has at most `brief.max_tokens` tokens and is
    not blank, unless not even a character fits. The user's words stand in it word for word as far as they fit: of all
    that it holds, the first request, the latest one and a summary that somebody else wrote before are shortened last:
    where they take more than nine tenths of the tokens; then to three quarters, to leave room for what was done.

    A digest that it wrote before (`brief.previous`) is read back and carried on, so that it loses nothing but what is
    oldest and does not fit; any other text is kept as an earlier summary.
    """

    calls_model: ClassVar[bool] = False
    keeps_request: ClassVar[bool] = True
    fallback: ClassVar[None] = None

    def __call__(self, brief: Brief) -> str:
        """The digest."""
        ledger = continued(parsed(sendable(brief.previous)), brief.utterances)
        return fitted(ledger, brief.count, brief.max_tokens)

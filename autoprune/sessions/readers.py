"""Which agent wrote a session file. Told by its content alone, never by its name."""

from collections.abc import Sequence
from typing import Protocol

from autoprune.sessions import (
    claude_code,
    cline,
    codex,
    copilot_cli,
    gemini_cli,
    inspect_log,
    mini_swe_agent,
    openhands,
    pi,
    swe_agent,
    tau_bench,
    trae,
)
from autoprune.sessions.recording import Run


class Reader(Protocol):
    """What a reader's module offers."""

    NAME: str

    def detect(self, values: Sequence[object]) -> bool:
        """Whether an agent wrote the values: one per line of JSONL, or the one value of a JSON file."""

    def read(self, values: Sequence[object]) -> list[Run]:
        """The conversations in the values; raises SessionError saying what is wrong and where."""


READERS: tuple[Reader, ...] = (
    claude_code,
    codex,
    gemini_cli,
    copilot_cli,
    pi,
    cline,
    openhands,
    swe_agent,
    mini_swe_agent,
    trae,
    inspect_log,
    tau_bench,
)


def chosen(values: Sequence[object]) -> Reader | None:
    """The reader for a file; None where no agent is known to have written it."""
    return next((reader for reader in READERS if reader.detect(values)), None)

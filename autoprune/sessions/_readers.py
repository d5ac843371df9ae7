"""The readers that ship, and the one that reads a file. Which it is, is told by the content alone, never by a name."""

from collections.abc import Sequence

from autoprune.sessions import (
    _claude_code,
    _cline,
    _codex,
    _copilot_cli,
    _gemini_cli,
    _inspect_log,
    _mini_swe_agent,
    _openhands,
    _pi,
    _swe_agent,
    _tau_bench,
    _trae,
)
from autoprune.sessions._reader import Reader

# The first one that detects a file reads it.
READERS = (
    _claude_code.READER,
    _codex.READER,
    _gemini_cli.READER,
    _copilot_cli.READER,
    _pi.READER,
    _cline.READER,
    _openhands.READER,
    _swe_agent.READER,
    _mini_swe_agent.READER,
    _trae.READER,
    _inspect_log.READER,
    _tau_bench.READER,
)


def reader_for(values: Sequence[object], readers: Sequence[Reader] = ()) -> Reader | None:
    """Return the first of `readers`, then of those that ship, that detects the values; None where none does."""
    return next((reader for reader in (*readers, *READERS) if reader.detect(values)), None)

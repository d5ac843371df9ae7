"""The readers that ship, and the one that reads a file. Which it is, is told by the content alone, never by a name."""

from collections.abc import Sequence

from autoprune.apps.sessions._claude_code import READER as CLAUDE_CODE
from autoprune.apps.sessions._cline import READER as CLINE
from autoprune.apps.sessions._codex import READER as CODEX
from autoprune.apps.sessions._copilot_cli import READER as COPILOT_CLI
from autoprune.apps.sessions._gemini_cli import READER as GEMINI_CLI
from autoprune.apps.sessions._inspect_log import READER as INSPECT
from autoprune.apps.sessions._mini_swe_agent import READER as MINI_SWE_AGENT
from autoprune.apps.sessions._openhands import READER as OPENHANDS
from autoprune.apps.sessions._pi import READER as PI
from autoprune.apps.sessions._recorded import Reader
from autoprune.apps.sessions._swe_agent import READER as SWE_AGENT
from autoprune.apps.sessions._tau_bench import READER as TAU_BENCH
from autoprune.apps.sessions._trae import READER as TRAE

# To ship a reader, write its module in this package and add a line. The first one that detects a file reads it.
READERS = (
    CLAUDE_CODE,
    CODEX,
    GEMINI_CLI,
    COPILOT_CLI,
    PI,
    CLINE,
    OPENHANDS,
    SWE_AGENT,
    MINI_SWE_AGENT,
    TRAE,
    INSPECT,
    TAU_BENCH,
)


def reader_for(values: Sequence[object], readers: Sequence[Reader] = ()) -> Reader | None:
    """Return the first of `readers`, then of those that ship, that detects the values; None where none does."""
    return next((reader for reader in (*readers, *READERS) if reader.detect(values)), None)

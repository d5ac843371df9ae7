"""Observation masking as in SWE-agent, and as in "The Complexity Trap", whose agent is a fork of SWE-agent."""

from typing import Any

from autoprune.apps.policies import Changes, ContextPolicy, RequestView

from prunebench.policies._published import Published

TEXT = "Old environment output: ({lines} lines omitted)"  # what both send


class LastObservations:
    """Keep the newest observations, and replace all older ones by the number of their lines.

    The task counts as the first observation, and is never replaced. With `polling`, the number of observations is
    rounded down to a multiple of it, so that the window moves only once in so many observations.
    """

    def __init__(self, keep: int = 5, polling: int = 1) -> None:
        """Keep `keep` to `keep + polling - 1` observations."""
        self._keep = keep
        self._polling = polling

    def changes(self, request: RequestView) -> Changes:
        """Replace the results before the window."""
        observations = 1 + len(request.results)
        omitted = observations // self._polling * self._polling - self._keep
        old = request.results[: max(0, omitted - 1)]
        return Changes({result: TEXT.format(lines=len(result.text.splitlines())) for result in old})


def _published(name: str, keep: int, polling: int, **told: Any) -> Published:
    def new(keep: int = keep, polling: int = polling) -> ContextPolicy:
        return LastObservations(keep, polling)

    return Published(name=name, new=new, **told)


_SWE_AGENT = (
    "github.com/SWE-agent/SWE-agent, sweagent/agent/history_processors.py (LastNObservations), 1.1.0,"
    " commit 3ea751c, 2026-07-16; the file was last changed on 2025-07-09"
)
_LEFT_OUT = (
    "The tags keep_output and remove_output, since no tool of a default configuration sets them; the count of omitted"
    " images."
)
PUBLISHED = (
    _published(
        "swe_agent",
        keep=5,
        polling=1,
        tool="SWE-agent",
        source=_SWE_AGENT,
        decides="At each request, every tool result but the newest n is replaced by the number of its lines.",
        defaults="n = 5, as in the paper, config/sweagent_0_7 and others; the default configuration masks nothing.",
        left_out=_LEFT_OUT,
        idle="With n results or fewer.",
        checked="SWE-agent 1.1.0",
    ),
    _published(
        "swe_agent_polling",
        keep=5,
        polling=10,
        tool="SWE-agent",
        source=_SWE_AGENT,
        decides=(
            "The newest n to n + polling - 1 tool results are kept: the window moves once in `polling` results, so that"
            " the prompt cache holds in between."
        ),
        defaults="n = 5. No configuration of the repository sets polling; 10 is our choice.",
        left_out=_LEFT_OUT,
        idle="With n results or fewer, or with fewer than polling - 1.",
        checked="SWE-agent 1.1.0",
    ),
    _published(
        "complexity_trap",
        keep=10,
        polling=1,
        tool="The Complexity Trap",
        source=(
            "github.com/Recursive-Safeguarding/the-complexity-trap, sweagent/agent/history_processors.py"
            " (LastNObservations) and config/default_no_demo_N=1_M=10.yaml, a fork of SWE-agent 1.0.1, 2025-10-13;"
            " arXiv 2508.21433"
        ),
        decides="At each request, every tool result but the newest M is replaced by the number of its lines.",
        defaults="M = 10. The paper also tries other windows; config/ has 20 as well.",
        left_out=_LEFT_OUT + " The paper's summaries, and its omission of whole turns, are other strategies.",
        idle="With M results or fewer.",
        checked="the paper's fork of SWE-agent 1.0.1",
    ),
)

"""What a prune did, and why.

`Report` is the account of one prune, `statistics` compares any two conversations. `drawing` needs rich, draws
both for a terminal or a notebook, and is imported only there. `advice` finds the next step if the safe zone is out of
reach.
"""

from autoprune.pruners.report._figures import LASTING, cleanup_statistics, reason, statistics, token_figures
from autoprune.pruners.report._report import Report, cache_note

__all__ = ["LASTING", "Report", "cache_note", "cleanup_statistics", "reason", "statistics", "token_figures"]

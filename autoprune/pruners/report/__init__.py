"""What a prune did, and why.

`Report` is the account of one prune, `statistics` compares any two conversations. `tables` and `explanation`, which
need rich, draw both for a terminal or a notebook and are imported only there.
"""

from autoprune.pruners.report._breakdown import LASTING, reason
from autoprune.pruners.report._cache_cost import cache_note
from autoprune.pruners.report._report import Report
from autoprune.pruners.report._statistics import cleanup_statistics, statistics, token_figures

__all__ = ["LASTING", "Report", "cache_note", "cleanup_statistics", "reason", "statistics", "token_figures"]

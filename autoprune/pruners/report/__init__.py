"""Reports on prunes: what was done, and why.

`Report` describes one prune, and `cleanup_statistics` compares any two conversations. `drawing` renders both for a
terminal or a notebook. This needs rich, so `drawing` is imported lazily. `advice` suggests a next step if the safe zone
is not reached.
"""

from autoprune.pruners.report._figures import cleanup_statistics, reason
from autoprune.pruners.report._report import Report, constant, ledger_figures

__all__ = ["Report", "cleanup_statistics", "constant", "ledger_figures", "reason"]

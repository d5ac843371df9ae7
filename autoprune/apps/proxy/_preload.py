"""Prune once at import, so that workers forked from the fork server share the data that a first prune loads.

The fork server accepts only names of modules to import, so this module does its work at import.
"""

import gc

from autoprune.apps.proxy._configuration import Settings
from autoprune.apps.proxy._pruning import Work

Work(Settings()).warm()
gc.collect()
# The collector would write to the shared pages: without this, two workers hold 12 of 371 MB more (benchmarks/proxy.py).
gc.freeze()

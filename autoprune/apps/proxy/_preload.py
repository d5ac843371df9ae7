"""Prune once at import, so that workers forked from the fork server share what a first prune loads.

The fork server takes names of modules to import and no function to call, so this module does its work at import.
"""

import gc

from autoprune.apps.proxy._memory import give_back
from autoprune.apps.proxy._pruning import Work
from autoprune.apps.proxy._settings import Settings

# Allocations between searches for cycles: a prune makes next to none, and a search touches every object of the process.
RARELY = 100_000, 50, 50

give_back()
Work(Settings()).warm()
gc.collect()
gc.freeze()  # the collector would write to the pages that forked processes share
gc.set_threshold(*RARELY)

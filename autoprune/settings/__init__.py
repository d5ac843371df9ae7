"""What a caller sets: the safe zone, what it depends on, and where each value came from.

`PruneArgs` holds the settings of a pruner, `effective_settings` says which values count and who gave them: the call,
the arguments, an AUTOPRUNE_* variable or the default. The functions named for a setting return its checked value.
"""

from autoprune.settings._args import (
    SAFE_ZONE_TOKENS,
    SETTINGS,
    VARIABLES,
    PruneArgs,
    Setting,
    Source,
    attribute_values,
    unknown_variables,
    variables,
)
from autoprune.settings._budgets import SHARE, UNKNOWN_ZONE, budget_tokens, duration, usual_zone
from autoprune.settings._lookup import (
    cache_ttl,
    effective_settings,
    filled_in,
    group_size,
    missing_safe_zone,
    overhead_tokens,
    resolve,
    safe_zone,
    setting,
    text_setting,
)
from autoprune.settings.plugins import load_plugin, plugin_names

__all__ = [
    "SAFE_ZONE_TOKENS",
    "SETTINGS",
    "SHARE",
    "UNKNOWN_ZONE",
    "VARIABLES",
    "PruneArgs",
    "Setting",
    "Source",
    "attribute_values",
    "budget_tokens",
    "cache_ttl",
    "duration",
    "effective_settings",
    "filled_in",
    "group_size",
    "load_plugin",
    "missing_safe_zone",
    "overhead_tokens",
    "plugin_names",
    "resolve",
    "safe_zone",
    "setting",
    "text_setting",
    "unknown_variables",
    "usual_zone",
    "variables",
]

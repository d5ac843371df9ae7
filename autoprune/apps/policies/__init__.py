"""Context policies of other tools, as they really decide, for comparison in a replay. None of them can be used live.

Each module holds the policies of one tool and their sources (`PUBLISHED`). A policy decides from a `RequestView` and
answers with `Changes`; `PolicyPrompts` sends what it decides. To add one, write such a class, describe it with
`Published`, and add its module below.
"""

from collections.abc import Mapping
from types import MappingProxyType

from autoprune.apps.policies import (
    adk_filter,
    claude_microcompact,
    clear_tool_uses,
    codex_truncation,
    compressors,
    context_guru,
    deepagents,
    gemini_masking,
    haystack_pruning,
    inspect_compaction,
    maka,
    masking,
    openclaw,
    opencode,
    opencode_dcp,
    openhands_condensers,
    qwen_clearing,
    strands_window,
)
from autoprune.apps.policies._policy import NOTHING, Changes, ContextPolicy, Published, RequestView
from autoprune.apps.policies._prompts import PolicyPrompts

__all__ = ["NOTHING", "POLICIES", "Changes", "ContextPolicy", "PolicyPrompts", "Published", "RequestView"]

MODULES = (
    adk_filter,
    claude_microcompact,
    clear_tool_uses,
    codex_truncation,
    compressors,
    context_guru,
    deepagents,
    gemini_masking,
    haystack_pruning,
    inspect_compaction,
    maka,
    masking,
    openclaw,
    opencode,
    opencode_dcp,
    openhands_condensers,
    qwen_clearing,
    strands_window,
)
POLICIES: Mapping[str, Published] = MappingProxyType({each.name: each for tool in MODULES for each in tool.PUBLISHED})

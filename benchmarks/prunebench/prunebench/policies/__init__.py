"""Context policies of other tools, as they really decide, for comparison in a replay. None of them can be used live.

Each module holds the policies of one tool and their sources (`PUBLISHED`). To add one, write a policy as for `--policy
mine.py:Mine`, describe it with `Published`, add its module below, and a line to the entry points in pyproject.toml.
"""

from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace

from prunebench.policies import (
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
from prunebench.policies._published import Published

__all__ = ["NEW", "POLICIES", "Published"]

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
NEW = SimpleNamespace(**{name: each.new for name, each in POLICIES.items()})  # what the entry points name

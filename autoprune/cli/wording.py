"""What the library says in the names of Python, said in those of the command line."""

import re
from collections.abc import Mapping

from autoprune.pruners.by_name import is_strategy, parameter

# Longer names first, so that none is found inside another.
OPTIONS: Mapping[str, str] = {
    "conversation_prune_safe_zone_tokens": "--safe-zone",
    "conversation_prune_group_size": "AUTOPRUNE_GROUP_SIZE",
    "thinking_policy": "--thinking-policy",
    "overhead_tokens": "--overhead",
    "safe_zone": "--safe-zone",
    "window": "--window",
}
KEYWORD = re.compile(r"(?:, as in |, such as )?PruneArgs\((?:[^()=]*, )?(\w+)=[^()]*\)")
ATTRIBUTE = re.compile(rf"(?<![\w-])(?:{'|'.join(OPTIONS)})(?!\w)")
CLASS = re.compile(r"give a (Clamp|Protections|Retention|ToolInputs), such as \1\(\.\.\.\)")
AS_DICT = {
    "Clamp": "clamp={'max_result_tokens': 4000}",
    "Protections": "protect={'last_results': 5}",
    "Retention": "retain={'turns': 2}",
    "ToolInputs": "clear_tool_inputs={'above': 200}",
}


BUDGET = re.compile(r"^(the safe zone is '(\w+)(?:\(.*\))?')(?=: )")
HINT = " (a strategy is given with --strategy)"
FIELD = re.compile(r"^(\w+): (\w+)(?= is )")


def as_typed(words: str) -> str:
    """An error or a note of the library, with the names of options in place of Python's."""
    words = KEYWORD.sub(_option, words)
    words = CLASS.sub(lambda match: f"write it as {AS_DICT[match[1]]}", words)
    words = FIELD.sub(lambda match: f"{match[1]}: {parameter(match[1], match[2])}", words)
    words = BUDGET.sub(lambda match: f"{match[1]}{HINT if is_strategy(match[2]) else ''}", words)
    return ATTRIBUTE.sub(lambda match: OPTIONS[match[0]], words)


def _option(match: re.Match[str]) -> str:
    name = OPTIONS.get(match[1], f"--{match[1].replace('_', '-')}")
    return f" with {name}" if match[0].startswith(",") else name

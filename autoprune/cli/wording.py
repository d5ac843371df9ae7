"""The library's errors and notes, said in the names of the command line.

The library names settings and fields as a program writes them, and a user types something else for them. A rule
rewrites one way in which the library does that:

    needs a model: PruneArgs(model=...)            needs a model: --model
    overhead_tokens is -5: give …                  --overhead is -5: give …
    keep_last: over_messages is -1: give …         keep_last: n is -1: give …
    give a Retention, such as Retention(...)       write it as retain={'turns': 2}
    the safe zone is 'hybrid': write it as …       the safe zone is 'hybrid' (a strategy is given with --strategy): …

A text to which no rule applies is said as it is.
"""

import re
from collections.abc import Callable

from autoprune.pruners.by_name import is_strategy, parameter

# Longer names first, so that none is found inside another.
OPTIONS = {
    "conversation_prune_safe_zone_tokens": "--safe-zone",
    "conversation_prune_group_size": "AUTOPRUNE_GROUP_SIZE",
    "thinking_policy": "--thinking-policy",
    "overhead_tokens": "--overhead",
    "safe_zone": "--safe-zone",
    "window": "--window",
}
AS_DICT = {
    "Clamp": "clamp={'max_result_tokens': 4000}",
    "Protections": "protect={'last_results': 5}",
    "Retention": "retain={'turns': 2}",
    "ToolInputs": "clear_tool_inputs={'above': 200}",
}


def as_typed(words: str) -> str:
    """Return an error or a note of the library with the names that a user types."""
    for pattern, say in RULES:
        words = pattern.sub(say, words)
    return words


def _keyword(match: re.Match[str]) -> str:
    option = OPTIONS.get(match["name"], f"--{match['name'].replace('_', '-')}")
    return f" with {option}" if match["as_in"] else option


def _class(match: re.Match[str]) -> str:
    return f"write it as {AS_DICT[match['name']]}"


def _field(match: re.Match[str]) -> str:
    return f"{match['strategy']}: {parameter(match['strategy'], match['field'])}"


def _budget(match: re.Match[str]) -> str:
    return f"{match[0]}{' (a strategy is given with --strategy)' if is_strategy(match['name']) else ''}"


def _attribute(match: re.Match[str]) -> str:
    return OPTIONS[match[0]]


RULES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"(?P<as_in>, as in |, such as )?PruneArgs\((?:[^()=]*, )?(?P<name>\w+)=[^()]*\)"), _keyword),
    (re.compile(rf"give a (?P<name>{'|'.join(AS_DICT)}), such as (?P=name)\(\.\.\.\)"), _class),
    (re.compile(r"^(?P<strategy>\w+): (?P<field>\w+)(?= is )"), _field),
    (re.compile(r"^the safe zone is '(?P<name>\w+)(?:\(.*\))?'(?=: )"), _budget),
    (re.compile(rf"(?<![\w-])(?:{'|'.join(OPTIONS)})(?!\w)"), _attribute),
)

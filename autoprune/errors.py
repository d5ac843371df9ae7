"""The errors that autoprune raises, split by who must act.

AutopruneError
├── SettingsError       the program that configures autoprune: a budget, a model or an option is wrong
├── ConversationError   the program that builds the messages: one of them is not a message (`path` says which)
│   └── RuleError       the same: the provider would reject the messages (`prune(..., validate=True)`; `problems`)
├── ArchiveError        the caller of recall: the id is wrong, or nothing is stored under it
├── ClientError         the person who starts an assistant: its requests cannot be routed to the proxy
└── SessionError        the person who names the file: it cannot be read as a conversation

    try:
        messages = pruner.prune_conversations(messages)
    except autoprune.AutopruneError as error:
        ...  # nothing was changed: send `messages` unpruned, or stop

Checks of values raise them. Errors and reports share the functions that write numbers, types and hints as words.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import UnionType

UVX = re.compile(r"\buv[/\\](?:archive|environments)-v\d+[/\\]")  # a folder of uv's cache
# Commands that install a tool, by the file that they leave in its environment.
INSTALLERS = {"uv-receipt.toml": "uv tool install --force", "pipx_metadata.json": "pipx install --force"}


def how_to_install(extra: str, prefix: str = sys.prefix) -> str:
    """Say how to install an extra of this package, which has no release on a package index.

    Tools that are installed by uv or pipx have an environment of their own, at `prefix`, which pip does not reach; uvx
    makes one in uv's cache for a single run.
    """
    if UVX.search(prefix):
        return f"in a clone of autoprune, start it with uvx --from '.[{extra}]' autoprune"
    command = next((each for file, each in INSTALLERS.items() if Path(prefix, file).exists()), "pip install")
    return f"run {command} '.[{extra}]' in a clone of autoprune"


class AutopruneError(ValueError):
    """Base class of all errors. The message names the problem, its place, and the remedy."""


class SettingsError(AutopruneError):
    """A setting that cannot be used."""


class ConversationError(AutopruneError):
    """A conversation that cannot be read; `path` is the JSON path of the fault, () for the whole conversation."""

    def __init__(self, message: str, path: tuple[int | str, ...] = ()) -> None:
        """Set the message, with the path after it if there is one."""
        super().__init__(f"{message} (at {'.'.join(map(str, path))})" if path else message)
        self.path = path


class RuleError(ConversationError):
    """A conversation that its provider would reject; `problems` lists the rules that it breaks."""

    def __init__(self, message: str, problems: Sequence[object] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class ArchiveError(AutopruneError):
    """An id for which no payload can be recalled."""


class ClientError(AutopruneError):
    """An assistant whose requests cannot be routed to the proxy."""


class SessionError(AutopruneError):
    """A session file that cannot be read as a conversation; `line` numbers a broken line that can be skipped."""

    def __init__(self, message: str, line: int | None = None) -> None:
        """Set the message, and the number of the broken line if skipping that line would help."""
        super().__init__(message)
        self.line = line


def is_number(value: object, least: float = 0, kind: type | UnionType = int) -> bool:
    """Return whether a value is a number of at least `least`; True and False are not numbers."""
    return isinstance(value, kind) and not isinstance(value, bool) and bool(value >= least)  # type: ignore[operator]


def is_share(value: object) -> bool:
    """Return whether a value is a number between 0 and 1."""
    return is_number(value, 0, int | float) and value <= 1  # type: ignore[operator]


def check_number(
    name: str,
    value: object,
    least: int,
    what: str = "a number",
    *,
    optional: bool = False,
    kind: type | UnionType = int,
) -> None:
    """Raise SettingsError unless a value is a whole number of at least `least`, or one of `kind`.

    `optional` allows None.
    """
    if not is_number(value, least, kind) and not (optional and value is None):
        raise SettingsError(f"{name} is {value!r}: give {what}, {least} or more{', or None' if optional else ''}")


def check_flag(name: str, value: object) -> None:
    """Raise SettingsError unless a value is True or False."""
    if not isinstance(value, bool):
        raise SettingsError(f"{name} is {value!r}: give True or False")


@contextmanager
def require_keys(what: str) -> Iterator[None]:
    """Turn a KeyError in the block into a SettingsError that names the missing key."""
    try:
        yield
    except KeyError as error:
        raise SettingsError(f"{what} has no {error}: give all that to_dict() returned") from error


def type_of(value: object) -> str:
    """Name a value's type with its article, such as "an int" or "a UserDict"."""
    name = type(value).__name__
    return f"{'an' if name[:1] in 'aeioAEIO' else 'a'} {name}"


def count_noun(number: int, noun: str) -> str:
    """Format a number with its noun, such as "1 file" or "1,200 files"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


# Characters of a name: shorter parts match too much, and comparing longer misspelled names is slow.
LEAST_PART, LONGEST_NAME = 4, 80
ALIKE = 0.65  # of letters in common: "nope" is not openai


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint such as " (did you mean low_water?)" with the most similar known name; "" if none is similar."""
    from difflib import get_close_matches

    names = {_letters(name): name for name in known}
    asked = _letters(word[:LONGEST_NAME])
    parts = [each for each in names if len(asked) >= LEAST_PART and (asked in each or each in asked)]
    near = get_close_matches(asked, parts, 1, 0.0) or get_close_matches(asked, names, 1, ALIKE)
    return f" (did you mean {names[near[0]]}?)" if near else ""


def near_or_all(word: str, known: Iterable[str]) -> str:
    """Return a hint with the most similar name, such as " (did you mean low_water?)", or else with all known names."""
    names = tuple(known)
    return did_you_mean(word, names) or f"; there are {', '.join(names)}"


def _letters(name: str) -> str:
    """Normalize a name for comparison: low-water, lowWater and low_water are equal."""
    return "".join(filter(str.isalnum, name.lower()))

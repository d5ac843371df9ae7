"""Write the text of a new strategy, and load strategies and other values from a user's file. Writes no file."""

import keyword
import re
import sys
from collections.abc import Callable, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import PurePath
from string import Template
from types import ModuleType
from typing import TypeVar, cast

from autoprune.errors import SettingsError
from autoprune.planning.view import Strategy
from autoprune.strategies.catalog import make_strategy

Kind = TypeVar("Kind")
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
IN_FILE = re.compile(r"(?P<path>.+\.py):(?P<name>\w+)\s*(?:\((?P<arguments>.*)\))?", re.DOTALL)
# The names of new strategies if the user gives none: their rules.
EXAMPLE, FOLDING_EXAMPLE = "LargestFirst", "AllButLast"


def new_strategy(name: str, *, folding: bool = False) -> Mapping[str, str]:
    """Return the text of a new strategy and of its test, by file name. Both work unchanged.

    The strategy clears the largest results first; with `folding` it folds all but the last messages. `name` may be
    spelled `LargestFirst` or `largest_first`. Raises SettingsError for a name that is invalid.
    """
    class_name, module = names(name)
    pruner = "ConversationPruner" if folding else "AgenticConversationPruner"
    words = {"Name": class_name, "name": module, "Pruner": pruner}
    strategy = FOLDING_STRATEGY if folding else STRATEGY
    return {f"{module}.py": strategy.substitute(words), f"test_{module}.py": TEST.substitute(words)}


def names(name: str) -> tuple[str, str]:
    """Return the names of a new strategy's class and module, such as LargestFirst and largest_first.

    Raises SettingsError for a name that is no ASCII identifier, a keyword, or that of a module of Python.
    """
    words = WORD.findall(name)
    class_name, module = "".join(word[0].upper() + word[1:] for word in words), "_".join(words).lower()
    is_taken = keyword.iskeyword(class_name) or keyword.iskeyword(module) or module in sys.stdlib_module_names
    if is_taken or not (name.isascii() and name.isidentifier() and class_name.isidentifier()):
        raise SettingsError(f"{name!r} is not a valid name: write it like LargestFirst or largest_first")
    return class_name, module


def is_in_file(text: str) -> bool:
    """Return whether a text names a strategy in a file, as `path/to/file.py:Name` does."""
    return IN_FILE.fullmatch(text) is not None


def load_strategy(text: str) -> Strategy:
    """Run a file and return the strategy that `path/to/file.py:Name` or `path/to/file.py:Name(at_least=500)` names.

    `Name` is a strategy or a class that makes one. Raises SettingsError if there is none, and whatever the file's own
    code raises.
    """
    made = make_in_file(text)
    if not callable(getattr(made, "step", None)) or not isinstance(getattr(made, "name", None), str):
        where = text.partition("(")[0].strip()
        raise SettingsError(f"{where} is not a strategy: it needs a str attribute `name` and a method step(view)")
    return cast(Strategy, made)


def make_in_file(text: str) -> object:
    """Run a file and return the object that `path/to/file.py:Name` names, or an instance if `Name` is a class.

    Raises SettingsError if there is none, and whatever the file's own code raises.
    """
    match = IN_FILE.fullmatch(text)
    if match is None:
        raise SettingsError(f"{text!r} does not name a strategy in a file: write it as path/to/file.py:Name")
    path, name, arguments = match["path"], match["name"], match["arguments"]
    found = getattr(run_file(path), name, None)
    if found is None:
        raise SettingsError(f"{path} has no {name}")
    make: Callable[[], object] = found if isinstance(found, type) else lambda: found
    try:
        return make() if arguments is None else make_strategy(f"{name}({arguments})", {name: make})
    except TypeError as error:
        raise SettingsError(f"{path}:{name} cannot be made: {error}") from error


def run_file(path: str) -> ModuleType:
    """Run a Python file and return it as a module.

    Raises SettingsError if it cannot be read or imported, and whatever else its own code raises.
    """
    called = f"autoprune_file_{PurePath(path).stem}"
    spec = spec_from_file_location(called, path)
    if spec is None or spec.loader is None:
        raise SettingsError(f"{path} is not a Python file")
    # Registered, because a dataclass looks up its own module by name.
    module = sys.modules[called] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    except SyntaxError as error:
        raise SettingsError(f"{path} is not valid Python: {error.msg} at line {error.lineno}") from error
    except ImportError as error:
        raise SettingsError(f"{path} cannot be run: {error}") from error
    return module


def value_in_file(named: str, kind: type[Kind], such_as: str) -> Kind:
    """Run a file and return the value of the given kind that `path/to/file.py:NAME` names.

    Raises SettingsError if there is none, and whatever the file's own code raises.
    """
    path, _, name = named.rpartition(":")
    what = kind.__name__.lower()
    if not path:
        raise SettingsError(f"the {what} is {named!r}: write it as path/to/file.py:NAME")
    found = getattr(run_file(path), name, None)
    if not isinstance(found, kind):
        raise SettingsError(f"{path} has no {what} {name}: it needs {name} = {such_as}")
    return found


STRATEGY = Template('''\
"""$Name: which tool results are cleared, in which order, and how far."""

from collections.abc import Iterator
from dataclasses import dataclass

from autoprune.strategies import BaseStrategy, Replace, View


@dataclass(frozen=True)
class $Name(BaseStrategy):
    """Clear the largest tool results first, those that save at least `at_least` tokens.

    Its fields are its configuration. `BaseStrategy` has further attributes that autoprune obeys for it, such as
    `protect`, `clamp` and `every_request`; add any of them as a field.
    """

    at_least: int = 0
    name = "$name"

    def step(self, view: View) -> Iterator[Replace]:
        """Return the results to clear before a request that is over the limit; cleared results stay cleared.

        `view.candidates()` are the results that may be cleared, oldest first, each with the tokens that clearing it
        `saves` and its `part` (`part.tool`, `part.text`, `part.tokens`). Use only the view and the fields: the same
        conversation must lead to the same edits.
        """
        excess = view.tokens - view.limit
        # Sorting is stable: of equal sizes, the older result goes first.
        for candidate in sorted(view.candidates(), key=lambda each: each.saves, reverse=True):
            if excess <= 0 or candidate.saves < self.at_least:
                return
            excess -= candidate.saves
            yield candidate.cleared("largest first")
''')

TEST = Template('''\
"""$Name keeps a conversation within its safe zone, and changes nothing that fits."""

from autoprune import $Pruner, PruneArgs

from $name import $Name

CONVERSATION: list[dict[str, object]] = [{"role": "user", "content": "Find the bug."}]
for at in range(4):
    call = {"id": f"c{at}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    CONVERSATION += [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{at}", "content": "a word " * 900},
    ]
CONVERSATION += [{"role": "assistant", "content": "Found."}, {"role": "user", "content": "Fix it."}]


def test_a_conversation_fits_into_its_safe_zone_and_is_not_changed_again() -> None:
    result = $Pruner(PruneArgs(5_000)).prune(CONVERSATION, $Name())
    assert result.report.within_safe_zone
    again = $Pruner(PruneArgs(5_000)).prune(result.conversation, $Name())
    assert again.conversation is result.conversation


def test_nothing_changes_within_the_safe_zone() -> None:
    assert $Pruner(PruneArgs(50_000)).prune(CONVERSATION, $Name()).conversation is CONVERSATION
''')

FOLDING_STRATEGY = Template('''\
"""$Name: which messages are folded into a summary, and when."""

from collections.abc import Iterator
from dataclasses import dataclass

from autoprune.strategies import BaseFoldingStrategy, CustomReason, Fold, FoldView, Retention

STAYS = Retention(first_request=True)


@dataclass(frozen=True)
class $Name(BaseFoldingStrategy):
    """Over the safe zone, fold all but the last `keep` messages into a summary of at most `room` tokens.

    Its fields are its configuration. autoprune never offers the messages of `retain` for folding: here the system's
    messages and the user's first request. `BaseFoldingStrategy` has further attributes, such as `title`.
    """

    keep: int = 6
    room: int = 2_000
    retain: Retention = STAYS
    name = "$name"

    def step(self, view: FoldView) -> Iterator[Fold]:
        """Return the messages to fold before a request; folded messages stay folded.

        `view.groups()` are the messages that may go, in the order in which they go, never a call without its result. A
        fold without room is a drop. Use only the view and the fields: the same conversation must lead to the same
        edits.
        """
        if view.tokens <= view.limit:
            return
        groups = view.groups(1, self.keep)
        tokens = sum(group.tokens for group in groups)
        if groups and view.gain(tokens, self.room) > 0:
            messages = sorted(at for group in groups for at in group.messages)
            yield Fold(tuple(messages), CustomReason("all but the last messages"), tokens, self.room)
''')

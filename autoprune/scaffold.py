"""A strategy of the user's own in a file: the text to begin with, and how it is loaded. Writes nothing."""

import keyword
import re
import sys
from collections.abc import Callable, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import PurePath
from string import Template
from types import MappingProxyType, ModuleType
from typing import cast

from autoprune.errors import SettingsError
from autoprune.planning import Strategy
from autoprune.strategies import available, configured

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
WRITTEN = re.compile(r"(?P<path>.+\.py):(?P<name>\w+)\s*(?:\((?P<arguments>.*)\))?", re.DOTALL)
IMPORTED = frozenset(("AgenticConversationPruner", "Iterator", "PruneArgs", "Reason", "Replace", "View"))


def new_strategy(name: str) -> Mapping[str, str]:
    """The files of a new strategy and their texts, by file name: the strategy, then its test. Both work as they are.

    `name` is written in either way, `LargestFirst` or `largest_first`. Raises SettingsError for one that cannot be the
    name of a class, a module and a strategy.
    """
    class_name, module = names(name)
    words = {"Name": class_name, "name": module}
    return MappingProxyType(
        {f"{module}.py": STRATEGY.substitute(words), f"test_{module}.py": TEST.substitute(words)},
    )


def names(name: str) -> tuple[str, str]:
    """The name of the class and of the module that a strategy's name stands for, such as LargestFirst, largest_first.

    Raises SettingsError for a name that is no ASCII identifier, is a keyword, or is taken.
    """
    words = WORD.findall(name)
    class_name, module = "".join(word[0].upper() + word[1:] for word in words), "_".join(words).lower()
    if not (name.isascii() and name.isidentifier() and class_name.isidentifier() and words):
        raise SettingsError(f"{name!r} is no name of a strategy: write it like LargestFirst or largest_first")
    if taken := _taken(class_name, module):
        raise SettingsError(f"{name!r} cannot be the name of a strategy: {taken}; give it another name")
    return class_name, module


def _taken(class_name: str, module: str) -> str | None:
    """Why a name cannot be used."""
    if keyword.iskeyword(class_name) or keyword.iskeyword(module):
        return "it is a keyword of Python"
    if module in available():
        return "there is a strategy of that name"
    if module in sys.stdlib_module_names or module in ("autoprune", "pytest", "conftest") or class_name in IMPORTED:
        return "it is taken by what the file imports"
    return "pytest would take it for a test" if module.startswith("test") else None


def is_in_file(text: str) -> bool:
    """Whether a strategy is written as one in a file: `path/to/file.py:Name`."""
    return WRITTEN.fullmatch(text) is not None


def loaded(text: str) -> Strategy:
    """The strategy that `path/to/file.py:Name` or `path/to/file.py:Name(at_least=500)` names: the file is run.

    `Name` is a strategy, or a class that makes one. Raises SettingsError where it cannot be had; what else the file's
    own code raises comes through.
    """
    match = WRITTEN.fullmatch(text)
    if match is None:
        raise SettingsError(f"{text!r} names no strategy in a file: write it as path/to/file.py:Name")
    path, name, arguments = match["path"], match["name"], match["arguments"]
    found = getattr(_run(path), name, None)
    if found is None:
        raise SettingsError(f"{path} has no {name}")
    make: Callable[[], object] = found if isinstance(found, type) else lambda: found
    try:
        made = make() if arguments is None else configured(f"{name}({arguments})", {name: make})
    except TypeError as error:
        raise SettingsError(f"{path}:{name} cannot be made: {error}") from error
    if not callable(getattr(made, "step", None)) or not isinstance(getattr(made, "name", None), str):
        raise SettingsError(f"{path}:{name} is no strategy: it needs a name, which is a text, and a method step(view)")
    return cast(Strategy, made)


def _run(path: str) -> ModuleType:
    """The module that a file makes."""
    called = f"autoprune_strategy_{PurePath(path).stem}"
    spec = spec_from_file_location(called, path)
    if spec is None or spec.loader is None:
        raise SettingsError(f"{path} is no Python file")
    # A dataclass looks up the module that it stands in by its name.
    module = sys.modules[called] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    except SyntaxError as error:
        raise SettingsError(f"{path} is no Python: {error.msg} at line {error.lineno}") from error
    except ImportError as error:
        raise SettingsError(f"{path} cannot be run: {error}") from error
    return module


STRATEGY = Template('''\
"""$name: which tool results are cleared, in which order, and how far."""

from collections.abc import Iterator
from dataclasses import dataclass

from autoprune.edits import Replace
from autoprune.planning import View
from autoprune.reasons import Reason


@dataclass(frozen=True)
class $Name:
    """Clear tool results oldest first, those that save at least `at_least` tokens.

    Its fields are its configuration. A strategy may also have the fields `protect`, `clamp` and `clear_tool_inputs`,
    which autoprune obeys for it.
    """

    at_least: int = 0
    name = "$name"

    def step(self, view: View) -> Iterator[Replace]:
        """The results to clear before a request that is over the limit; what is cleared stays cleared.

        `view.candidates()` are the results that may go, oldest first, each with what it `saves` in tokens and its
        `part` (`part.tool`, `part.text`, `part.tokens`). Look at nothing else than the view and the fields: the same
        conversation must come to the same edits.
        """
        excess = view.tokens - view.limit
        for candidate in view.candidates():
            if excess <= 0:
                return
            if candidate.saves >= self.at_least:
                excess -= candidate.saves
                yield candidate.cleared(Reason.OVER_SAFE_ZONE)
''')

TEST = Template('''\
"""$Name keeps a conversation within its safe zone and clears no more than it must."""

from autoprune import AgenticConversationPruner, PruneArgs

from $name import $Name


def conversation(*results: str) -> list[dict[str, object]]:
    """A conversation with one tool result after the other."""
    messages: list[dict[str, object]] = [{"role": "user", "content": "Find the fault."}]
    for number, text in enumerate(results):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": text})
    return [*messages, {"role": "assistant", "content": "Found."}, {"role": "user", "content": "Mend it."}]


def cleared(messages: list[dict[str, object]], strategy: $Name, safe_zone: int) -> list[object]:
    """The numbers of the results that the strategy clears."""
    result = AgenticConversationPruner(PruneArgs(safe_zone)).prune(messages, strategy)
    again = AgenticConversationPruner(PruneArgs(safe_zone)).prune(result.conversation, strategy)
    assert again.conversation is result.conversation
    return [row["request"] for row in result.report.rows if row["cleared"]]


SMALL, LARGE = "a word " * 200, "a word " * 900


def test_the_oldest_results_are_cleared_until_the_rest_fits():
    assert cleared(conversation(LARGE, LARGE, LARGE), $Name(), safe_zone=2_500) == [0, 1]


def test_nothing_is_cleared_within_the_safe_zone():
    assert cleared(conversation(LARGE, LARGE, LARGE), $Name(), safe_zone=50_000) == []


def test_results_that_save_too_little_are_kept():
    assert cleared(conversation(SMALL, LARGE, LARGE), $Name(at_least=500), safe_zone=3_000) == [1]
''')

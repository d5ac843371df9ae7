"""Run a user's Python file, and return the strategy or another value that it defines."""

import re
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import PurePath
from types import FunctionType, ModuleType
from typing import TypeVar, cast

from autoprune.errors import SettingsError
from autoprune.planning.view import Strategy
from autoprune.strategies.catalog import make_strategy

Kind = TypeVar("Kind")
IN_FILE = re.compile(r"(?P<path>.+\.py):(?P<name>\w+)\s*(?:\((?P<arguments>.*)\))?", re.DOTALL)


def is_in_file(text: str) -> bool:
    """Return whether a text names a strategy in a file, as `path/to/file.py:Name` does."""
    return IN_FILE.fullmatch(text) is not None


def load_strategy(text: str) -> Strategy:
    """Run a file and return the strategy that `path/to/file.py:Name` or `path/to/file.py:Name(at_least=500)` names.

    `Name` is a strategy, or a class or function that makes one. Raises SettingsError if there is none, and whatever the
    file's own code raises.
    """
    made = make_in_file(text)
    if not callable(getattr(made, "step", None)) or not isinstance(getattr(made, "name", None), str):
        where = text.partition("(")[0].strip()
        raise SettingsError(f"{where} is not a strategy: it needs a str attribute `name` and a method step(view)")
    return cast(Strategy, made)


def make_in_file(text: str) -> object:
    """Run a file and return the object that `path/to/file.py:Name` names, or what that class or function makes.

    Raises SettingsError if there is none, and whatever the file's own code raises.
    """
    match = IN_FILE.fullmatch(text)
    if match is None:
        raise SettingsError(f"{text!r} does not name a strategy in a file: write it as path/to/file.py:Name")
    path, name, arguments = match["path"], match["name"], match["arguments"]
    found = getattr(run_file(path), name, None)
    if found is None:
        raise SettingsError(f"{path} has no {name}")
    make: Callable[[], object] = found if isinstance(found, type | FunctionType) else lambda: found
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

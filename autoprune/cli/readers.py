"""The option `--reader`: a session reader of one's own, in a file of Python, which is run."""

import runpy

from autoprune.errors import SettingsError
from autoprune.sessions import Reader


def readers(named: str | None) -> tuple[Reader, ...]:
    """Return the reader that `path/to/file.py:NAME` names; none where no option was given.

    Raises SettingsError where it cannot be had; what else the file's own code raises comes through.
    """
    if named is None:
        return ()
    path, _, name = named.rpartition(":")
    if not path:
        raise SettingsError(f"the reader is {named!r}: write it as path/to/file.py:NAME")
    try:
        found = runpy.run_path(path, run_name="autoprune_reader").get(name)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    except SyntaxError as error:
        raise SettingsError(f"{path} is no Python: {error.msg} at line {error.lineno}") from error
    except ImportError as error:
        raise SettingsError(f"{path} cannot be run: {error}") from error
    if not isinstance(found, Reader):
        raise SettingsError(f"{path} has no reader {name}: it needs {name} = Reader(name, detect, read)")
    return (found,)

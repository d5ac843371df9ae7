"""Results of a replay in a JSONL file, a line a session, so that a run that was interrupted goes on where it stopped.

A line holds the hash of the arguments, the digest of the session's file, and its figures. What was replayed with other
arguments, or has changed since, is replayed again; a later line counts. However a run ends, the file holds whole lines:
one that was cut off is written over.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from autoprune.apps.replay import SessionFigures
from autoprune.apps.sessions import dump
from autoprune.errors import SessionError

ARGUMENTS = "arguments"
BEGINNING = f'{{"{ARGUMENTS}": "'


class Results:
    """The digests of the files whose figures are known, by path, and where new figures are written."""

    def __init__(self, file: BinaryIO, name: str, arguments: str) -> None:
        """Read what the file holds. Raises SessionError where that is anything else than results."""
        self.digests: dict[str, str] = {}
        self._name, self._file, self._arguments = name, file, arguments
        self._places: dict[str, int] = {}
        self._end = 0
        mine = f'{BEGINNING}{arguments}"'.encode()
        for number, line in enumerate(file, 1):
            if not line.startswith(BEGINNING.encode()[: len(line)]):
                raise SessionError(f"{name} line {number} is no result of a replay: write to another file")
            if not line.endswith(b"\n"):
                break
            if line.startswith(mine):
                found = self._parsed(line)
                self.digests[found.path], self._places[found.path] = found.digest, self._end
            self._end += len(line)

    def figures(self, path: str) -> SessionFigures:
        """Return the figures of a file whose digest is known."""
        self._file.seek(self._places[path])
        return self._parsed(self._file.readline())

    def add(self, found: SessionFigures) -> None:
        """Write a line."""
        line = f"{dump({ARGUMENTS: self._arguments, **found.as_json()})}\n".encode()
        try:
            self._file.seek(self._end)
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            raise SessionError(f"{self._name} cannot be written: {error.strerror}") from error
        self._end += len(line)

    def close(self) -> None:
        """Take away a line that was not written whole."""
        self._file.truncate(self._end)
        self._file.close()

    def _parsed(self, line: bytes) -> SessionFigures:
        try:
            record = json.loads(line)
            del record[ARGUMENTS]
            return SessionFigures.of_json(record)
        except (ValueError, LookupError, TypeError) as error:
            raise SessionError(f"{self._name} holds a line that cannot be read: write to another file") from error


@contextmanager
def results(name: str, arguments: str) -> Iterator[Results]:
    """Open a file of results, or begin one. Raises SessionError where it is something else, or cannot be written."""
    try:
        Path(name).touch()
        file = open(name, "r+b")  # noqa: SIM115 - closed with the results
    except OSError as error:
        raise SessionError(f"{name} cannot be written: {error.strerror}") from error
    with file:
        found = Results(file, name, arguments)
        try:
            yield found
        finally:
            found.close()

"""Store cleared payloads, and recall them: for a program, a person, or the model through a tool.

An archive is any mutable mapping from id to text: a dict, a database behind a mapping, or a `Directory`. An archive
makes no decisions: `conversation.edits` computes each id from the payload, even if storing the payload failed.
"""

import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

from autoprune.conversation.edits import (
    DIGITS,
    ID,
    TOOL,
    Replace,
    content_id,
    has_id,
    recall_id,
    split_mark,
    text_to_archive,
)
from autoprune.conversation.transcript import Part
from autoprune.errors import ArchiveError, SettingsError, did_you_mean, is_number

Archive: TypeAlias = MutableMapping[str, str]
ArchiveLike: TypeAlias = Archive | str | os.PathLike[str]  # a path is that of a `Directory`
SUFFIX = ".txt"
LEFTOVER = re.compile(r"\.(?:autoprune-)?[0-9a-f]{16}\.tmp")
DAY = 86_400  # seconds: no writer takes so long
POINTER = "autoprune: {} is a part of, or a placeholder for, {}"
DESCRIPTION = (
    "Return the full content of a tool result or argument that was cleared or cut to save space. The text that "
    "replaced it ends with [autoprune recall …]. If you need the original content, use this tool instead of repeating "
    "the original call. For part of a long content, give first_line and last_line."
)
PARAMETERS: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": f"The id in that mark: {DIGITS} digits."},
        "first_line": {"type": "integer", "description": "The first line to return, from 1."},
        "last_line": {"type": "integer", "description": "The last line to return."},
    },
    "required": ["id"],
}


def remove_leftovers(folder: str | os.PathLike[str]) -> None:
    """Remove temporary files of killed writers from a folder: ours, and older than a day."""
    with suppress(OSError), os.scandir(folder) as found:
        for each in found:
            if LEFTOVER.fullmatch(each.name) and time.time() - each.stat().st_mtime > DAY:
                with suppress(OSError):  # another process may remove it, too
                    os.unlink(each.path)


class Directory(MutableMapping[str, str]):
    """An archive in a folder: one file for each payload, named by its id.

    The first payload creates the folder, with mode 0700; each file has mode 0600. A file is written under a temporary
    name and renamed, so any number of processes may share the folder; what killed processes leave is removed later. A
    key that is not an id never becomes a path. A file that cannot be read raises ArchiveError; other errors of the file
    system raise OSError.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Use the folder `path`, which need not exist. Raises SettingsError if `path` is empty or not a path."""
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise SettingsError(f"an archive in {path!r}: give the path of a folder, such as Directory('archive')")
        self.path = os.path.abspath(os.path.expanduser(path))
        self._is_clean = False

    def __repr__(self) -> str:
        return f"Directory({self.path!r})"

    def __getitem__(self, key: str) -> str:
        """Read a payload. Raises KeyError if nothing is stored under the id, ArchiveError if it cannot be read.

        A damaged file that is no longer UTF-8 is read with replacement characters, so that a caller that checks the
        payload against its id, as `recall` and pruners do, notices the change.
        """
        try:
            data = self._read(self._file(key))
        except (FileNotFoundError, NotADirectoryError):
            raise KeyError(key) from None
        except OSError as error:  # such as a folder in its place, or missing permissions
            raise ArchiveError(f"{error.filename} cannot be read ({error.strerror}): get the content again") from error
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return data.decode("utf-8", "replace")

    def __setitem__(self, key: str, text: str) -> None:
        """Store a payload. Raises KeyError if `key` is not an id."""
        self._write(self._file(key), text)

    def _read(self, place: str) -> bytes:
        with open(place, "rb") as file:
            return file.read()

    def _write(self, place: str, text: str) -> None:
        """Write a file of the folder in one step. Raises OSError if it cannot be written."""
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        if not self._is_clean:
            self._is_clean = True
            remove_leftovers(self.path)
        # Renamed when complete, so that no reader sees half a file.
        beside = os.path.join(self.path, f".{secrets.token_hex(8)}.tmp")
        try:
            with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(text.encode("utf-8", "surrogatepass"))  # tool output may hold lone surrogates
            os.replace(beside, place)
        finally:
            with suppress(FileNotFoundError):  # it exists only if the write failed
                os.unlink(beside)

    def __delitem__(self, key: str) -> None:
        """Remove a payload. Raises KeyError if nothing is stored under the id."""
        try:
            os.unlink(self._file(key))
        except (FileNotFoundError, NotADirectoryError):
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[str]:
        """Yield the ids of all payloads, sorted."""
        # Temporary files and other files in the folder are not payloads.
        names = sorted(os.listdir(self.path)) if os.path.isdir(self.path) else []
        return (id for name in names if name.endswith(SUFFIX) and ID.fullmatch(id := name.removesuffix(SUFFIX)))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _file(self, key: object) -> str:
        if not isinstance(key, str) or not ID.fullmatch(key):
            raise KeyError(key)
        return os.path.join(self.path, key + SUFFIX)


def check_archive(archive: ArchiveLike) -> Archive:
    """Return the archive: a mapping unchanged, and a `Directory` for a path. Raises SettingsError for anything else."""
    if isinstance(archive, str | os.PathLike):
        return Directory(archive)
    if is_mapping(archive):
        return archive
    raise SettingsError(f"archive is {archive!r}: give the path of a folder, or a mutable mapping such as a dict")


def is_mapping(value: object) -> bool:
    """Return whether a value can store texts, as a dict can."""
    return all(callable(getattr(value, name, None)) for name in ("get", "setdefault", "__setitem__"))


def bare_id(id: object) -> str:
    """Return an id as text, without the mark around it."""
    return split_mark(str(id))[1] or str(id)


def recall(archive: ArchiveLike | None, id: str | int) -> str:
    """Return the payload stored under an id, or under that in a mark such as "[autoprune recall 104839926617352]".

    Raises ArchiveError if the id is malformed, if nothing is stored under it, or if the stored text has changed;
    SettingsError without an archive. Exceptions of the archive itself are not caught.
    """
    if archive is None:
        raise SettingsError(
            "there is no archive to recall from: give the pruner archive=, such as the path of a folder"
        )
    archive = check_archive(archive)
    given, id = id, bare_id(id)
    if not ID.fullmatch(id):
        raise ArchiveError(f"{given!r} is not a recall id: use the {DIGITS} digits after 'recall' in the placeholder")
    seen: set[str] = set()
    while True:
        stored = archive.get(id)  # the payload, or a pointer to the id of the whole payload
        if stored is None:
            raise ArchiveError(
                f"nothing is kept under {id}: look whether the id is copied whole and the archive is the one that the "
                "pruner wrote to; else get the content again"
            )
        if isinstance(stored, str) and has_id(stored, id):
            return stored
        whole = pointer_target(stored, id) if isinstance(stored, str) else None
        if whole is None or whole in seen:
            raise ArchiveError(f"what is kept under {id} was changed since: get the content again")
        seen.add(id)
        id = whole


# Storing


def pointer(id: str, whole: str) -> str:
    """Return the text that an archive stores under `id` to point to the payload with the id `whole`.

    `id` belongs to a text that replaced the payload.
    """
    return POINTER.format(id, whole)


def pointer_target(kept: str, id: str) -> str | None:
    """Return the payload's id that a pointer stored under `id` names; None for any other text."""
    whole = kept.rpartition(" ")[2]
    return whole if ID.fullmatch(whole) and kept == pointer(id, whole) else None


def store_payloads(
    archive: Archive,
    edits: Iterable[Replace],
    known: dict[Part, str],
    call_safely: Callable[..., object],
) -> list[str]:
    """Store the payloads that edits replace. Return a note on each failure.

    `known` maps the parts that were stored before to the texts that replaced them, and is updated. Payloads that could
    not be stored are tried again next time. `call_safely` calls a function with arguments, and returns an error instead
    of raising it.
    """
    failures: dict[str, dict[str, None]] = {}  # reason → ids, in order
    # The archive may be another one by now, or may have been emptied; folders lose their oldest payloads first.
    if any(call_safely(archive.get, content_id(text_to_archive(part))) is None for part in [*known][:1]):
        known.clear()
    for edit in edits:
        if known.get(edit.part) == edit.text:
            continue
        is_stored = True
        for id, text in _records(edit, text_to_archive(edit.part)):
            if (conflict := call_safely(_store_record, archive, id, text)) is not None:
                is_stored = False
                failures.setdefault(str(getattr(conflict, "why", conflict)), {})[id] = None
        if is_stored:
            known[edit.part] = edit.text
    return [
        f"the archive failed ({why}): what was cleared cannot be recalled by {', '.join(ids)}"
        for why, ids in failures.items()
    ]


def _records(edit: Replace, content: str) -> Iterator[tuple[str, str]]:
    """Yield the records to store for an edit, each with its id: the payload, and pointers to it.

    Suppose that the payload P was cut to C, and C is then cleared, in the same prune or a later one. The placeholder
    carries C's id, so that id must point to P. The pointer is stored with the cut, since a later prune of pruned output
    only knows C.
    """
    whole, carried = content_id(content), split_mark(edit.mark)[1]
    yield whole, content
    if carried not in ("", whole, split_mark(content)[1]):
        yield carried, pointer(carried, whole)
    # The id that a later placeholder will carry, if it replaces the text of this edit.
    if edit.may_change and (later := recall_id(edit.text)) != carried:
        yield later, pointer(later, carried or whole)


def _store_record(archive: Archive, id: str, text: str) -> str | None:
    """Store a payload or a pointer under an id. Return None, or the conflict that prevents it.

    A pointer replaces the text stored under its id, and stays as long as its payload is stored.
    """
    stored = store_once(archive, id, text)
    if stored == text:
        return None
    is_pointer, whole = not has_id(text, id), pointer_target(stored, id) if isinstance(stored, str) else None
    if whole and is_pointer:
        return "another payload was cut to the same text"
    if whole and archive.get(whole) is not None:
        return None
    if not is_pointer and isinstance(stored, str) and has_id(stored, id):
        return "another payload has the same id"
    archive[id] = text  # the stored text was damaged, or a text and its pointer replace each other
    return None


def store_once(archive: Archive, id: str, text: str) -> str:
    """Store a text unless there is one under the id; return the text that is stored."""
    # The method of dict is atomic, but it would bypass the `__setitem__` of a subclass.
    kind = type(archive)
    is_bypassed = isinstance(archive, dict) and kind.setdefault is dict.setdefault
    if is_bypassed and kind.__setitem__ is not dict.__setitem__:
        return MutableMapping[str, str].setdefault(archive, id, text)
    return archive.setdefault(id, text)


# The model's own tool


def tool_definition(format: str = "openai_chat") -> dict[str, Any]:
    """Return the definition of the `recall` tool, which lets the model recall cleared content.

    `format` names the API as in `PruneArgs.format`. For Gemini, the definition is a function declaration. Raises
    SettingsError if the API is not known.
    """
    if not isinstance(format, str) or format not in SHAPES:
        hint = did_you_mean(str(format), SHAPES)
        raise SettingsError(f"there is no tool definition for {format!r}{hint}; there are {', '.join(SHAPES)}")
    schema = json.loads(json.dumps(PARAMETERS))  # a copy, which the caller may change
    return SHAPES[format]({"name": TOOL, "description": DESCRIPTION}, schema)


# Builds a definition from the name and description, and the parameters.
Shape: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]
SHAPES: Mapping[str, Shape] = {
    "openai_chat": lambda named, schema: {"type": "function", "function": {**named, "parameters": schema}},
    "openai_responses": lambda named, schema: {"type": "function", **named, "parameters": schema},
    "anthropic": lambda named, schema: {**named, "input_schema": schema},
    "gemini": lambda named, schema: {**named, "parameters": schema},
    "bedrock": lambda named, schema: {"toolSpec": {**named, "inputSchema": {"json": schema}}},
}


def handle(archive: ArchiveLike | None, arguments: object) -> str:
    """Run a call of the `recall` tool. Return the payload, or an error message for the model if the call is wrong.

    `arguments` is a mapping or JSON text. Raises SettingsError without an archive; exceptions of the archive itself are
    not caught.
    """
    try:
        return answer(arguments, partial(recall, archive))
    except ArchiveError as error:
        return f"Error: {error}"


def answer(arguments: object, find: Callable[[str], str]) -> str:
    """Return what a call of the `recall` tool asks for. Raises ArchiveError if the call is wrong.

    `find` returns the payload with an id, which may be any value, and raises ArchiveError if there is none.
    """
    asked = _parse_arguments(arguments)
    return _select_lines(find(asked.get("id", "")), asked.get("first_line"), asked.get("last_line"))


def _parse_arguments(arguments: object) -> Mapping[str, Any]:
    """Parse the arguments of a call. Raises ArchiveError if they are not a JSON object."""
    try:
        asked = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError) as error:
        raise ArchiveError(f"the arguments are no JSON: {error}") from error
    if not isinstance(asked, Mapping):
        raise ArchiveError('the arguments are no object: give {"id": "…"}')
    return asked


def _select_lines(text: str, first: object, last: object) -> str:
    """Return the lines from `first` to `last`, or the whole text if both are None.

    Raises ArchiveError if the range is empty.
    """
    if first is None and last is None:
        return text
    lines = text.split("\n")
    begin, end = _line_number(first, 1), _line_number(last, len(lines))
    if begin > min(end, len(lines)):
        raise ArchiveError(f"there are no lines {begin} to {end}: it has {len(lines)} lines, from 1")
    return "\n".join(lines[begin - 1 : end])


def _line_number(number: object, default: int) -> int:
    if number is None:
        return default
    if not isinstance(number, int) or not is_number(number, 1):
        raise ArchiveError(f"{number!r} is no line: give a whole number, 1 or more")
    return number

"""`autoprune recall`: get cleared content back, by the id in its placeholder or by words in it."""

import os
import sys
from typing import Annotated

import typer

import autoprune.apps.cli.options as options
from autoprune.apps.cli.ledgers import ledger_folder
from autoprune.conversation.archive import Directory, recall
from autoprune.conversation.limited_archive import (
    LimitedDirectory,
    nearest_folder,
    project_folder,
    recall_anywhere,
    search,
)
from autoprune.errors import ArchiveError

EXAMPLES = options.examples(
    "recall 104839926617352", "recall --search load_settings", "recall 104839926617352 --archive cleared"
)

ArchiveFolder = Annotated[
    str | None,
    typer.Option(
        "--archive",
        metavar="DIR",
        envvar="AUTOPRUNE_ARCHIVE",
        show_envvar=False,
        help="Look in this folder, not in what `autoprune run` has kept. Default: AUTOPRUNE_ARCHIVE.",
    ),
]


def recall_content(
    id: Annotated[
        str | None, typer.Argument(metavar="ID", help="The id after 'autoprune recall' in a placeholder.")
    ] = None,
    words: Annotated[
        str | None,
        typer.Option("--search", metavar="WORDS", help="List the content with these words, the best match first."),
    ] = None,
    archive: ArchiveFolder = None,
) -> None:
    """Print the content that a placeholder stands for, or search it.

    Without an archive, this is what `autoprune run` has kept: under an ID in any project, for a search in this one.
    """
    if (id is None) == (words is None):
        raise typer.BadParameter("give an ID, or --search WORDS")
    text = list_found(words, archive) if words is not None else find_content(id or "", archive)
    # Bytes, so that the content is printed unchanged in any encoding of standard output.
    sys.stdout.buffer.write(text.encode("utf-8", "surrogatepass"))


def find_content(id: str, archive: str | None) -> str:
    """Return the content with an id: in an archive, or kept for any project. Raises ArchiveError if it is not found."""
    _check_folder(archive)
    return recall(Directory(archive), id) if archive else recall_anywhere(archive_parent(), id)


def list_found(words: str, archive: str | None) -> str:
    """Search an archive, or what was kept for this project. Raises ArchiveError if nothing is found."""
    _check_folder(archive)
    folder = archive or nearest_folder(archive_parent(), os.getcwd())
    found = search(LimitedDirectory(folder), words) if folder else []
    if not found:
        where = archive or "what `autoprune run` has kept for this project"
        raise ArchiveError(f"nothing in {where} has any of the words {words!r}")
    return "".join(f"{f'{each.id}  {each.what}'.rstrip()}\n    line {each.number}: {each.line}\n" for each in found)


def _check_folder(archive: str | None) -> None:
    if archive and not os.path.isdir(archive):
        raise ArchiveError(f"there is no folder {archive}: give the --archive with which the session was pruned")


def archive_parent() -> str:
    """Return the folder with the archives of all projects of this user."""
    return str(ledger_folder().parent / "archive")


def own_memory() -> str:
    """Return the folder with the past of conversations, for a proxy that is started later."""
    return str(ledger_folder().parent / "conversations")


def own_archive() -> str:
    """Return the archive for the working directory, with content that is too old removed."""
    archive = LimitedDirectory(project_folder(archive_parent(), os.getcwd()))
    archive.tidy()
    return archive.path

"""`autoprune recall`: what was cleared, by the id in its placeholder."""

import os
import sys
from typing import Annotated

import typer

import autoprune.apps.cli.options as options
from autoprune.apps.cli.starting import check_output
from autoprune.conversation.archive import Directory
from autoprune.conversation.archive import recall as recalled
from autoprune.errors import ArchiveError, SettingsError

EXAMPLES = options.examples(
    "prune session.jsonl -s 50k -o pruned.json --archive cleared", "recall 1f0c2b6a99d3e570 --archive cleared"
)


def recall(
    id: Annotated[str, typer.Argument(metavar="ID", help="The id behind 'recall id' in a placeholder.")],
    archive: options.Archive = None,
) -> None:
    """Print what was cleared, by the id in its placeholder."""
    if not archive:
        raise SettingsError("no archive is named: give --archive DIR, or set AUTOPRUNE_ARCHIVE")
    if not os.path.isdir(archive):
        raise ArchiveError(f"there is no folder {archive}: name the one that --archive named as the session was pruned")
    try:
        text = recalled(Directory(archive), id)
    except OSError as error:
        file = error.filename or archive
        raise ArchiveError(f"what was cleared under {id} cannot be read from {file}: {error.strerror}") from error
    check_output()
    sys.stdout.buffer.write(text.encode("utf-8", "surrogatepass"))

"""`autoprune recall`: what was cleared, by the id in its placeholder."""

import sys
from typing import Annotated

import typer

import autoprune.cli.options as options
from autoprune.archive import Directory
from autoprune.archive import recall as recalled
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
    try:
        text = recalled(Directory(archive), id)
    except OSError as error:
        raise ArchiveError(f"{archive} cannot be read: {error.strerror}") from error
    sys.stdout.buffer.write(text.encode("utf-8", "surrogatepass"))

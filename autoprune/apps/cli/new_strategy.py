"""`autoprune new-strategy`: a strategy of one's own to begin with."""

from pathlib import Path
from typing import Annotated

import typer

import autoprune.apps.cli.options as options
from autoprune.apps.cli.files import write
from autoprune.errors import SessionError
from autoprune.strategies.scaffold import free_name, names, new_strategy

EXAMPLES = options.examples("new-strategy", "new-strategy MyRule --folder strategies", "new-strategy --folding")


def start_strategy(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="Its name, such as MyRule or my_rule; without one it is called by its rule."
        ),
    ] = None,
    folding: Annotated[
        bool,
        typer.Option("--folding", metavar=options.FLAG, help="One that folds messages into a summary."),
    ] = False,
    folder: Annotated[str, typer.Option(metavar="FOLDER", help="Where the files go.")] = ".",
) -> None:
    """Write a strategy of your own to begin with, and its test. Nothing is written over.

    The strategy clears the largest results first; with --folding it sums up all but the last turns.
    """
    called = free_name(folding=folding) if name is None else name
    texts = {Path(folder, file): text for file, text in new_strategy(called, folding=folding).items()}
    for path in texts:
        if path.exists():
            raise SessionError(f"{path} is there already: nothing was written")
    for path, text in texts.items():
        write(str(path), text)
    strategy, test = texts
    class_name, _ = names(called)
    print(f"{strategy}  the strategy: autoprune prune SESSION --strategy {strategy}:{class_name}")
    print(f"{test}  its test: pytest {test}")

"""The arguments and options that commands share."""

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from autoprune.errors import SettingsError

FLAG = ""  # what stands behind an option without a value in the help


class Command(TyperCommand):
    """A command whose options are not empty, as `--archive "$KEPT"` is where no KEPT is set."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line. Raises SettingsError for an option with an empty value.

        For an empty safe zone the command itself does, and says how one is written.
        """
        rest = super().parse_args(ctx, args)
        for each in self.params:
            value = ctx.params.get(each.name)
            is_empty = value == "" or (isinstance(value, list | tuple) and "" in value)
            if is_empty and each.param_type_name == "option" and each.name != "safe_zone":
                raise SettingsError(f"the value of {each.opts[-1]} is empty: give one, or leave the option out")
        return rest


def examples(*lines: str) -> str:
    """Write the end of a command's help: lines that can be typed as they are."""
    return "\n".join(("Examples:\n\n\b", *(f"  autoprune {line}" for line in lines)))


SessionFile = Annotated[str, typer.Argument(metavar="SESSION", help="A session file; - reads standard input.")]
SafeZone = Annotated[
    str | None,
    typer.Option(
        "-s",
        "--safe-zone",
        metavar="TOKENS",
        help="The token budget: 51200 (the default), 50k, 50*1024, or 0.7 of the model's window.",
    ),
]
StrategyName = Annotated[
    str | None,
    typer.Option(
        metavar="STRATEGY",
        help="low_water, keep_last(n=20), hybrid …; see `autoprune strategies`. One in a file is mine.py:Mine.",
    ),
]
Output = Annotated[
    str | None,
    typer.Option("-o", "--output", metavar="FILE", help="Where the conversation goes; - is standard output."),
]
Force = Annotated[
    bool,
    typer.Option("--force", metavar=FLAG, help="Write even over an agent's own session file."),
]
Summarizer = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Who writes summaries: digest (no model), or openai with --model."),
]
Model = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="The model: for its encoding, its window, its prices, and to write summaries."),
]
Provider = Annotated[
    str | None, typer.Option(metavar="NAME", help="Who serves the model, where its window depends on that.")
]
Window = Annotated[
    str | None,
    typer.Option(metavar="TOKENS", help="The model's context window, 200000 or 200k, for a safe zone such as 0.7."),
]
Overhead = Annotated[
    int | None,
    typer.Option(metavar="TOKENS", min=0, help="Tokens sent beside the messages: system prompt, tool schemas."),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="NAME", help="The wire format of all messages, such as anthropic; else it is found out."
    ),
]
Thinking = Annotated[
    str | None,
    typer.Option(metavar="POLICY", help="Thinking blocks behind an edit: drop_block, strip, refuse or report."),
]
ConversationNumber = Annotated[
    int, typer.Option("--conversation", metavar="N", help="Which conversation, of a file that holds several.")
]
Reader = Annotated[
    str | None,
    typer.Option(metavar="FILE:NAME", help="A session reader of your own, such as mine.py:READER."),
]
SkipBroken = Annotated[
    bool,
    typer.Option("--skip-broken", metavar=FLAG, help="Leave out lines of a JSONL file that cannot be read."),
]
Archive = Annotated[
    str | None,
    typer.Option(
        "--archive",
        metavar="DIR",
        envvar="AUTOPRUNE_ARCHIVE",
        show_envvar=False,
        help="The folder that keeps what is cleared; AUTOPRUNE_ARCHIVE names one too.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", metavar=FLAG, help="Print JSON.")]

"""Shared arguments and options of the commands."""

import re
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from autoprune.apps.cli.config_files import load_defaults, name_file
from autoprune.errors import SettingsError
from autoprune.settings.values import parse_number
from autoprune.summarizers.selection import SUMMARIZERS

PYTHON_TYPE = re.compile(r" <(str|list\[str\])>")


class Command(TyperCommand):
    """A command with defaults from files. Refuses empty option values, such as `--archive "$KEPT"` if KEPT is not set.

    The values from files are the context's `obj`, by the name of the setting and of the option's parameter.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line. Raises SettingsError if the value of an option is empty, or a file is wrong."""
        if ctx.resilient_parsing:  # a shell asks for completions
            return super().parse_args(ctx, args)
        ctx.obj = load_defaults(self.name or "")
        ctx.default_map = {name: given.value for name, given in ctx.obj.items()}
        try:
            rest = super().parse_args(ctx, args)
        except typer.BadParameter as error:
            name = (error.param and error.param.name) or ""
            source = ctx.get_parameter_source(name)
            if source and source.name == "DEFAULT_MAP":
                given = ctx.obj[name]
                raise SettingsError(f"{given.where}: {name} is {given.value!r}: {error.message}") from error
            if source and source.name == "ENVIRONMENT" and error.param:
                raise SettingsError(f"{error.param.envvar}: {error.message}") from error
            raise
        for each in self.params:
            value = ctx.params.get(each.name)
            is_empty = value == "" or (isinstance(value, list | tuple) and "" in value)
            # The commands check the safe zone themselves; their error shows how to write one.
            if is_empty and each.param_type_name == "option" and each.name != "safe_zone":
                raise SettingsError(f"the value of {each.opts[-1]} is empty: give one, or leave the option out")
        return rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and options of the help, without types as Python writes them."""
        for title in ("Argument", "Option"):
            params = (each for each in self.get_params(ctx) if each.param_type_name == title.lower())
            records = (record for each in params if (record := each.get_help_record(ctx)))
            if rows := [(PYTHON_TYPE.sub("", name), text) for name, text in records]:
                with formatter.section(f"{title}s"):
                    formatter.write_dl(rows)

    def invoke(self, ctx: Any) -> Any:
        """Run the command. An error about a value from a file names the file."""
        try:
            return super().invoke(ctx)
        except SettingsError as error:
            raise type(error)(name_file(str(error), ctx.obj or {})) from error


def examples(*lines: str) -> str:
    """Return the epilog of a command's help: example commands, not rewrapped."""
    # Click keeps the lines of a paragraph that begins with \b.
    return "\n".join(("Examples:\n\n\b", *(f"  autoprune {line}" for line in lines)))


def parse_tokens(value: str | int) -> int:
    """Parse a number of tokens, such as "10k"."""
    tokens = parse_number(value)
    if isinstance(tokens, int) and tokens >= 0:
        return tokens
    raise typer.BadParameter(f"{value!r} is no number of tokens: give 0 or more, such as 9000 or 10k")


def safe_zone(help: str, variable: str | None = None) -> Any:
    """Create the option for the safe zone, whose default differs between commands."""
    return typer.Option("-s", "--safe-zone", metavar="TOKENS", envvar=variable, show_envvar=False, help=help)


SessionFile = Annotated[str, typer.Argument(metavar="SESSION", help="A session file, or - for standard input.")]
SafeZone = Annotated[
    str | None,
    safe_zone("The limit of a prompt, in tokens: 51200 (the default), 50k, 50*1024, or 0.7 of the model's window."),
]
StrategyName = Annotated[
    str | None,
    typer.Option(
        metavar="STRATEGY",
        help="A strategy: low_water, keep_last(n=20), hybrid … (see `autoprune strategies`), or your own as "
        "mine.py:Mine. Default: AUTOPRUNE_STRATEGY, else cache_aware.",
    ),
]
Output = Annotated[
    str | None,
    typer.Option("-o", "--output", metavar="FILE", help="Write the conversation to this file; - is standard output."),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite even an agent's own session file.")]
Summarizer = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help=f"The summarizer: {', '.join(SUMMARIZERS)}, or an installed one. openai asks the model in --model; "
        "the others need no model.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL", help="The model. Decides the encoding, the context window and prices; can write summaries."
    ),
]
Provider = Annotated[
    str | None, typer.Option(metavar="NAME", help="The model's provider, if the context window depends on it.")
]
Window = Annotated[
    str | None,
    typer.Option(
        metavar="TOKENS",
        help="The model's context window, such as 200000 (200k is 204,800), for a safe zone such as 0.7.",
    ),
]
Overhead = Annotated[
    int | None,
    typer.Option(
        "--overhead",
        metavar="TOKENS",
        parser=parse_tokens,
        help="Tokens sent in addition to the messages: system prompt, tool schemas.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="The wire format of all messages, such as anthropic. Default: detected for each message.",
    ),
]
Thinking = Annotated[
    str | None,
    typer.Option(
        metavar="POLICY", help="What to do with thinking blocks after an edit: drop_block, strip, refuse or report."
    ),
]
ConversationNumber = Annotated[
    int,
    typer.Option("--conversation", metavar="N", help="The number of the conversation, if the file has several."),
]
Reader = Annotated[
    str | None,
    typer.Option(
        metavar="READER", help="The reader of session files: your own as mine.py:READER, or a name. Default: detected."
    ),
]
SkipBroken = Annotated[bool, typer.Option("--skip-broken", help="Skip lines of a JSONL file that cannot be read.")]
NoArchive = Annotated[
    bool,
    typer.Option(
        "--no-archive",
        envvar="AUTOPRUNE_NO_ARCHIVE",
        show_envvar=False,
        help="Keep no cleared results on disk; placeholders have no ids then. Default: AUTOPRUNE_NO_ARCHIVE.",
    ),
]
Archive = Annotated[
    str | None,
    typer.Option(
        "--archive",
        metavar="DIR",
        envvar="AUTOPRUNE_ARCHIVE",
        show_envvar=False,
        help="Keep cleared content in this folder. Default: AUTOPRUNE_ARCHIVE.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

"""The command line. Results go to standard output, words to standard error.

Exit codes: 0 within the safe zone; 1 still over it, and the report says why; 2 an option is wrong; 3 a file cannot be
read as a conversation or written; 4 a provider's rule is broken.
"""

import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from loguru import logger
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn

from autoprune import __version__
from autoprune.choosing import AnyPruner, chosen, pruner_for
from autoprune.conversation_pruner import ConversationPruner
from autoprune.environment import unknown
from autoprune.errors import AutopruneError, ConversationError, RuleError, SessionError
from autoprune.providers import problems, repair
from autoprune.pruner import AgenticConversationPruner
from autoprune.report import Report
from autoprune.scaffold import names, new_strategy
from autoprune.sessions import Session, dumped, load
from autoprune.settings import PruneArgs, effective_settings
from autoprune.tables import broken_rules, explanation, origin, repairs, settings, statistics, strategies, summary

OVER_SAFE_ZONE, WRONG_OPTION, UNREADABLE, RULE_BROKEN = 1, 2, 3, 4
PIPE_WIDTH = 140  # columns of a table that is not printed on a terminal
SLOW_SECONDS = 1.0

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Keep an agent's conversation inside its token budget.",
    epilog="Exit codes: 0 within the safe zone, 1 still over it, 2 wrong option, 3 unreadable file, 4 broken rule.",
    pretty_exceptions_enable=False,
)

SessionFile = Annotated[str, typer.Argument(help="A session file; - reads standard input.")]
SafeZone = Annotated[
    str | None, typer.Option(help="The token budget: 51200 (the default), 50k, 50*1024, or 0.7 of the model's window.")
]
StrategyName = Annotated[
    str | None, typer.Option(help="A strategy: low_water, keep_last(n=20), hybrid, or one in a file, mine.py:Mine.")
]
Output = Annotated[
    str | None, typer.Option("-o", "--output", help="Where the conversation goes; - is standard output.")
]
Summarizer = Annotated[
    str | None, typer.Option(help="Who writes summaries: digest (no model), or openai with --model.")
]
Model = Annotated[str | None, typer.Option(help="The model: for its encoding, its window, and to write summaries.")]
Provider = Annotated[str | None, typer.Option(help="Who serves the model, where its window depends on that.")]
Overhead = Annotated[int | None, typer.Option(help="Tokens sent beside the messages: system prompt, tool schemas.")]
Format = Annotated[str | None, typer.Option("--format", help="The wire format of all messages; else it is found out.")]
Thinking = Annotated[
    str | None, typer.Option(help="Thinking blocks behind an edit: drop_block, strip, refuse or report.")
]
RunNumber = Annotated[int, typer.Option("--run", help="Which conversation, of a file that holds several.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def main() -> None:
    """Run the command line; every error that autoprune knows becomes one line and an exit code."""
    try:
        app()
    except BrokenPipeError:  # whoever read standard output has had enough: `autoprune prune … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except RuleError as error:
        _fail(error, RULE_BROKEN)
    except (SessionError, ConversationError, OSError) as error:
        _fail(error, UNREADABLE)
    except AutopruneError as error:
        _fail(error, WRONG_OPTION)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Keep an agent's conversation inside its token budget."""
    if show:
        print(__version__)
        raise typer.Exit


@app.command()
def prune(
    session: SessionFile,
    safe_zone: SafeZone = None,
    strategy: StrategyName = None,
    summarizer: Summarizer = None,
    output: Output = None,
    explain: Annotated[bool, typer.Option("--explain", help="Print what was done and why.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write no conversation.")] = False,
    as_json: AsJson = False,
    model: Model = None,
    provider: Provider = None,
    overhead: Overhead = None,
    written_in: Format = None,
    thinking_policy: Thinking = None,
    run: RunNumber = 1,
    validate: Annotated[bool, typer.Option("--validate", help="Refuse what the provider would refuse.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print the log line of the prune.")] = False,
) -> None:
    """Prune a session. The conversation goes to -o, or to standard output when that is no terminal."""
    if as_json and output == "-":
        raise typer.BadParameter("--json and -o - both want standard output")
    if verbose:
        logger.enable("autoprune")
    plan = chosen(strategy, os.environ)
    args = _args(
        conversation_prune_safe_zone_tokens=safe_zone,
        model=model,
        provider=provider,
        overhead_tokens=overhead,
        format=written_in,
        thinking_policy=thinking_policy,
    )
    pruner = pruner_for(plan, args, summarizer, model)
    loaded = _load(session, run)
    _count_with_progress(pruner, loaded.messages)
    result = pruner.prune(loaded.messages, plan, validate=validate)  # type: ignore[arg-type]
    to = _destination(output, is_asked_for_else=dry_run or as_json or explain)
    if to and not dry_run:
        _write(to, loaded.write(result.conversation))
    _show(result.report, explain=explain, as_json=as_json, is_output_taken=to == "-")
    _print(origin(loaded), to_stderr=True)
    raise typer.Exit(0 if result.report.within_safe_zone else OVER_SAFE_ZONE)


@app.command()
def stats(before: SessionFile, after: SessionFile, run: RunNumber = 1, as_json: AsJson = False) -> None:
    """Compare two conversations: tokens, cleared results, messages dropped or summarized."""
    first = _load(before, run)
    second = _load(after)
    sessions = first, second if second.runs == 1 else _load(after, run)
    figures = AgenticConversationPruner(PruneArgs()).get_cleanup_statistics(*(each.messages for each in sessions))
    if as_json:
        _print_json(figures)
    else:
        _print(statistics(figures))


@app.command()
def check(
    session: SessionFile,
    provider: Annotated[str | None, typer.Option(help="Whose rules: anthropic, openai, gemini, bedrock …")] = None,
    fixed: Annotated[str | None, typer.Option("--repair", help="Write a repaired conversation here.")] = None,
    run: RunNumber = 1,
    as_json: AsJson = False,
) -> None:
    """List the provider's rules that a conversation breaks. Exit code 4 where there are any."""
    loaded = _load(session, run)
    found = problems(loaded.messages, provider)
    if as_json:
        _print_json([asdict(problem) for problem in found])
    else:
        _print(broken_rules(found))
    if fixed:
        mended = repair(loaded.messages, provider)
        _write(fixed, loaded.write(list(mended.conversation)))
        _print(repairs(mended.repairs), to_stderr=True)
    raise typer.Exit(RULE_BROKEN if found else 0)


@app.command("strategies")
def list_strategies(as_json: AsJson = False) -> None:
    """List the strategies and their parameters."""
    pruners = AgenticConversationPruner(PruneArgs()), ConversationPruner(PruneArgs())
    rows = [row for pruner in pruners for row in pruner.get_available_strategies()]
    if as_json:
        _print_json(rows)
    else:
        _print(strategies(rows))


@app.command("settings")
def list_settings(as_json: AsJson = False) -> None:
    """List the settings as they count here, and where each comes from: an AUTOPRUNE_* variable, or the default."""
    found = effective_settings()
    AgenticConversationPruner(PruneArgs()).plan([])  # refuses what a prune would
    if as_json:
        _print_json([asdict(each) for each in found])
    else:
        _print(settings(found))
    for name in unknown(os.environ):
        print(f"autoprune: there is no setting {name}", file=sys.stderr)


@app.command("new-strategy")
def start_strategy(
    name: Annotated[str, typer.Argument(help="Its name, such as LargestFirst or largest_first.")],
    folder: Annotated[str, typer.Option(help="Where the files go.")] = ".",
) -> None:
    """Write a strategy of your own to begin with, and its test. Nothing is written over."""
    texts = {Path(folder, file): text for file, text in new_strategy(name).items()}
    for path in texts:
        if path.exists():
            raise SessionError(f"{path} is there already: nothing was written")
    for path, text in texts.items():
        _write(str(path), text)
    strategy, test = texts
    class_name, _ = names(name)
    print(f"{strategy}  the strategy: autoprune prune SESSION --strategy {strategy}:{class_name}")
    print(f"{test}  its test: pytest {test}")


def _args(**options: Any) -> PruneArgs:
    """The options that were given; what was not is left to the environment."""
    return PruneArgs(**{name: value for name, value in options.items() if value is not None})


def _load(name: str, run: int = 1) -> Session:
    """A conversation of a session file, or of standard input."""
    called = "standard input" if name == "-" else name
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return load(data.decode("utf-8-sig"), called, run)
    except OSError as error:
        raise SessionError(f"{called} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SessionError(f"{called} is no UTF-8 text: byte {error.start} is {data[error.start]:#04x}") from error


def _destination(output: str | None, *, is_asked_for_else: bool) -> str | None:
    """Where the conversation goes: nowhere if only something else was asked for, and never unasked to a terminal."""
    if output or is_asked_for_else:
        return output
    return None if sys.stdout.isatty() else "-"


def _write(to: str, text: str) -> None:
    if to == "-":
        sys.stdout.buffer.write(text.encode())
        sys.stdout.flush()
        return
    try:
        Path(to).write_text(text, encoding="utf-8")
    except OSError as error:
        raise SessionError(f"{to} cannot be written: {error.strerror}") from error


def _show(report: Report, *, explain: bool, as_json: bool, is_output_taken: bool) -> None:
    if as_json:
        _print_json(report.to_dict())
    elif explain:
        _print(explanation(report), to_stderr=is_output_taken)
    _print(summary(report), to_stderr=True)


def _count_with_progress(pruner: AnyPruner, messages: list[object]) -> None:
    """Count each message beforehand, with a bar where that takes longer than a second: the pruner remembers counts."""
    started = time.monotonic()
    console = Console(stderr=True)
    # A bar that is not on a terminal would leave an empty line where it was.
    columns = TextColumn("counting tokens"), BarColumn()
    progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = progress.add_task("", total=len(messages))
    try:
        for message in messages:
            pruner.count_tokens([message])
            progress.advance(task)
            if time.monotonic() - started > SLOW_SECONDS and not progress.live.is_started:
                progress.start()
    finally:
        if progress.live.is_started:
            progress.stop()


def _print(table: RenderableType, *, to_stderr: bool = False) -> None:
    console = Console(stderr=to_stderr)
    Console(stderr=to_stderr, width=None if console.is_terminal else PIPE_WIDTH).print(table)


def _print_json(value: object) -> None:
    print(dumped(value, 2))


def _fail(error: Exception, code: int) -> None:
    print(f"autoprune: {error}", file=sys.stderr)
    raise SystemExit(code)


if __name__ == "__main__":
    main()

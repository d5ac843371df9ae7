"""`autoprune prune`: a session in, a shorter conversation and words about it out."""

import os
import sys
from typing import Annotated, Any

import typer
from loguru import logger

import autoprune.apps.cli.options as options
from autoprune.apps.cli.exits import OVER_SAFE_ZONE
from autoprune.apps.cli.files import read, readers, refuse_log, write
from autoprune.apps.cli.output import count_with_progress, origin, show, show_json
from autoprune.apps.cli.starting import check_output
from autoprune.apps.sessions import Session
from autoprune.conversation.archive import Directory
from autoprune.conversation.recall import parted
from autoprune.economics import prices
from autoprune.errors import ArchiveError, SessionError, SettingsError
from autoprune.pruners.by_name import AnyPruner, chosen, pruner_for
from autoprune.pruners.report import Report
from autoprune.pruners.report.explanation import Explanation
from autoprune.pruners.report.tables import summary
from autoprune.settings import PruneArgs, text_setting, variables
from autoprune.strategies.catalog import STRATEGIES, is_named

EXAMPLES = options.examples(
    "prune session.jsonl -s 50k -o pruned.json",
    "prune session.jsonl -s 50k --explain",
    "prune session.jsonl -s 0.7 --model gpt-5 --strategy cache_aware",
    "prune session.jsonl --strategy 'low_water(target=0.6)' --json",
    "prune session.jsonl --strategy hybrid --explain",
)

RETRY = "repair the archive, name another, or give --force"


def prune(
    session: options.SessionFile,
    safe_zone: options.SafeZone = None,
    strategy: options.StrategyName = None,
    summarizer: options.Summarizer = None,
    output: options.Output = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            metavar=options.FLAG,
            help="Write even over an agent's own session file, and over any file if the archive failed.",
        ),
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", metavar=options.FLAG, help="Print what was done and why.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", metavar=options.FLAG, help="Write no conversation.")] = False,
    as_json: options.AsJson = False,
    model: options.Model = None,
    provider: options.Provider = None,
    window: options.Window = None,
    overhead: options.Overhead = None,
    written_in: options.Format = None,
    thinking_policy: options.Thinking = None,
    archive: options.Archive = None,
    conversation: options.ConversationNumber = 1,
    reader: options.Reader = None,
    skip_broken: options.SkipBroken = False,
    validate: Annotated[
        bool, typer.Option("--validate", metavar=options.FLAG, help="Refuse what the provider would refuse.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", metavar=options.FLAG, help="Print the log line of the prune.")
    ] = False,
) -> None:
    """Prune a session. The conversation goes to -o, or to standard output when that is no terminal."""
    if as_json and output == "-":
        raise typer.BadParameter("--json and -o - both want standard output")
    if verbose:
        logger.enable("autoprune")
    if safe_zone and is_named(safe_zone, STRATEGIES):
        raise SettingsError(f"the safe zone is {safe_zone!r}: a strategy is given with --strategy")
    plan = chosen(strategy, os.environ)
    args = _args(
        conversation_prune_safe_zone_tokens=safe_zone,
        model=model,
        provider=provider,
        window=window,
        overhead_tokens=overhead,
        format=written_in,
        thinking_policy=thinking_policy,
    )
    pruner = pruner_for(plan, args, summarizer, model)
    mine = readers(reader)
    loaded = read(session, conversation, mine, skip_broken=skip_broken)
    to = _destination(output, is_asked_for_else=dry_run or as_json or explain)
    if to == "-":
        check_output()
    if not dry_run:
        refuse_log(to, mine, force=force)
    if archive:  # what is not written need not be recalled
        pruner.archive = Directory(archive) if to and not dry_run else {}
    plan = _priced(plan, loaded, args)
    count_with_progress(pruner, loaded.messages)
    result = pruner.prune(loaded.messages, plan, validate=validate)
    has_lost = bool(archive) and not force and _lost(pruner, result.report)
    is_kept = has_lost and to is not None and os.path.isfile(to)
    if to and not dry_run and not is_kept:
        write(to, loaded.write(result.conversation))
    _show(result.report, explain=explain, as_json=as_json, is_output_taken=to == "-")
    show(origin(loaded), to_stderr=True)
    if has_lost:
        said = f"{to} was not overwritten: {RETRY}" if is_kept else "what is missing there cannot be recalled"
        raise SessionError(f"what was cleared could not all be saved in {archive} (see the note above): {said}")
    raise typer.Exit(0 if result.report.within_safe_zone else OVER_SAFE_ZONE)


def _priced(plan: Any, loaded: Session, args: PruneArgs) -> Any:
    """Return a strategy with the prices of the model and the cache that the log names, if nobody names a model."""
    adapt = getattr(plan, "for_prices", None)
    if adapt is None or loaded.last is None or text_setting(args, "model", variables(None)):
        return plan
    return adapt(prices(None, loaded.last.model, loaded.last.life))


def _args(**given: Any) -> PruneArgs:
    """Return the options that were given as arguments; what was not is left to the environment."""
    return PruneArgs(**{name: value for name, value in given.items() if value is not None})


def _destination(output: str | None, *, is_asked_for_else: bool) -> str | None:
    """Return where the conversation goes: never unasked to a terminal, nowhere if only something else was asked for."""
    if output or is_asked_for_else:
        return output
    return None if sys.stdout.isatty() else "-"


def _lost(pruner: AnyPruner, report: Report) -> bool:
    """Return whether something that was cleared cannot be recalled from the pruner's archive."""
    ids = {parted(edit.mark)[1] for edit in report.plan.edits}
    try:
        for id in ids:
            pruner.recall(id)
    except (ArchiveError, OSError):
        return True
    return False


def _show(report: Report, *, explain: bool, as_json: bool, is_output_taken: bool) -> None:
    if as_json:
        show_json(report.to_dict())
    elif explain:
        show(Explanation(report), to_stderr=is_output_taken)
    show(summary(report), to_stderr=True)

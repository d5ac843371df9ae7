"""`autoprune prune` and `stats`: shorten a session, and measure by how much."""

import os
import sys
from typing import Annotated, Any

import typer
from loguru import logger

import autoprune.apps.cli.options as options
from autoprune.apps.cli.config_files import prune_args, without_options
from autoprune.apps.cli.console import OVER_SAFE_ZONE, count_with_progress, session_notes, show, show_json
from autoprune.apps.cli.input_output import load_readers, read_session, refuse_agent_log, write_output
from autoprune.apps.sessions import Session
from autoprune.conversation.archive import Directory
from autoprune.economics import prices
from autoprune.errors import ArchiveError, SessionError, SettingsError
from autoprune.pruners.naming import AnyPruner, choose_strategy, pruner_for
from autoprune.pruners.pruner import AgenticConversationPruner
from autoprune.pruners.report import Report
from autoprune.pruners.report.drawing import Explanation, statistics, summary
from autoprune.settings.values import PruneArgs, text_setting, variables
from autoprune.strategies.catalog import RECOMMENDED, STRATEGIES, clearing_named, is_named

EXAMPLES = options.examples(
    "prune session.jsonl -s 50k -o pruned.json",
    "prune session.jsonl -s 50k --explain",
    "prune session.jsonl -s 0.7 --model gpt-5 -o pruned.json",
    "prune session.jsonl --strategy 'low_water(target=0.6)' --json",
    "prune session.jsonl --strategy hybrid --explain",
)
STATS_EXAMPLES = options.examples("stats session.jsonl pruned.json", "stats session.jsonl pruned.json --json")
RETRY = "repair the archive, name another, or give --force"


def prune_session(
    context: typer.Context,
    session: options.SessionFile,
    safe_zone: options.SafeZone = None,
    strategy: options.StrategyName = None,
    summarizer: options.Summarizer = None,
    output: options.Output = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Overwrite even an agent's own session file, and any file even if the archive failed."
        ),
    ] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Print a table of what was done and why.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Do not write the conversation.")] = False,
    as_json: options.AsJson = False,
    model: options.Model = None,
    provider: options.Provider = None,
    window: options.Window = None,
    overhead_tokens: options.Overhead = None,
    format: options.Format = None,
    thinking_policy: options.Thinking = None,
    archive: options.Archive = None,
    conversation: options.ConversationNumber = 1,
    reader: options.Reader = None,
    skip_broken: options.SkipBroken = False,
    validate: Annotated[
        bool, typer.Option("--validate", help="Fail if the provider would refuse the pruned conversation.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print the log line of the prune.")] = False,
) -> None:
    """Prune a session.

    The conversation is written to -o, or to standard output if that is not a terminal.
    """
    if as_json and output == "-":
        raise typer.BadParameter("--json and -o - cannot both write to standard output")
    if verbose:
        logger.enable("autoprune")
    if safe_zone and is_named(safe_zone, STRATEGIES):
        raise SettingsError(f"the safe zone is {safe_zone!r}: a strategy is given with --strategy")
    plan = choose_strategy(strategy, os.environ) or clearing_named(RECOMMENDED)
    args = prune_args(
        **without_options(context),
        safe_zone=safe_zone,
        model=model,
        provider=provider,
        window=window,
        overhead_tokens=overhead_tokens,
        format=format,
        thinking_policy=thinking_policy,
    )
    pruner = pruner_for(plan, args, summarizer, model)
    custom_readers = load_readers(reader)
    loaded = read_session(session, conversation, custom_readers, skip_broken=skip_broken)
    path = _destination(output, prints_something_else=dry_run or as_json or explain)
    if not dry_run:
        refuse_agent_log(path, custom_readers, force=force)
    if archive:  # if no conversation is written, there are no placeholders to recall content by
        pruner.archive = Directory(archive) if path and not dry_run else {}
    plan = _with_prices(plan, loaded, args)
    count_with_progress(pruner, loaded.messages)
    result = pruner.prune(loaded.messages, plan, validate=validate)
    has_lost = bool(archive) and not force and _has_lost_content(pruner, result.report)
    # Never destroy the only copy of content that the archive has failed to keep.
    is_kept = has_lost and path is not None and os.path.isfile(path)
    if path and not dry_run and not is_kept:
        write_output(path, loaded.write(result.conversation))
    if as_json:
        show_json(result.report.to_dict())
    elif explain:
        show(Explanation(result.report), to_stderr=path == "-")
    show(summary(result.report), to_stderr=True)
    show(session_notes(loaded), to_stderr=True)
    if has_lost:
        outcome = f"{path} was not overwritten: {RETRY}" if is_kept else "the missing content cannot be recalled"
        raise SessionError(f"not all cleared content could be saved in {archive} (see the note above): {outcome}")
    raise typer.Exit(0 if result.report.within_safe_zone else OVER_SAFE_ZONE)


def _with_prices(plan: Any, loaded: Session, args: PruneArgs) -> Any:
    """Give the strategy the prices of the model and the cache in the session's log, unless a model is set."""
    adapt = getattr(plan, "for_prices", None)
    if adapt is None or text_setting(args, "model", variables(None)):
        return plan
    last = loaded.last()
    return adapt(prices(None, last.model, last.life)) if last else plan


def _destination(output: str | None, *, prints_something_else: bool) -> str | None:
    """Return where the conversation goes: without -o to standard output, but never to a terminal; None for nowhere."""
    if output or prints_something_else:
        return output
    return None if sys.stdout.isatty() else "-"


def _has_lost_content(pruner: AnyPruner, report: Report) -> bool:
    """Return whether any cleared content cannot be recalled from the pruner's archive."""
    ids = {edit.recall_id for edit in report.plan.edits}
    try:
        for id in ids:
            pruner.recall(id)
    except (ArchiveError, OSError):
        return True
    return False


def compare_sessions(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="A session file, or - for standard input.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The same session, pruned.")],
    conversation: options.ConversationNumber = 1,
    reader: options.Reader = None,
    skip_broken: options.SkipBroken = False,
    as_json: options.AsJson = False,
) -> None:
    """Compare a conversation before and after pruning.

    Shows tokens, cleared results, and messages that were dropped or summarized.
    """
    custom_readers = load_readers(reader)
    first = read_session(before, conversation, custom_readers, skip_broken=skip_broken)
    # A pruned conversation is usually alone in its file, whatever its number was in the first one.
    second = read_session(after, 1, custom_readers, skip_broken=skip_broken)
    if second.conversations > 1:
        second = read_session(after, conversation, custom_readers, skip_broken=skip_broken)
    figures = AgenticConversationPruner(PruneArgs()).get_cleanup_statistics(first.messages, second.messages)
    if as_json:
        show_json(figures)
    else:
        show(statistics(figures))

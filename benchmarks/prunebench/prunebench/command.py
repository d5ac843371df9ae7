"""`prunebench`: what the context policies of other tools would have cost and lost on recorded sessions.

It replays like `autoprune replay`: each policy once, and each strategy that decides by prices once for each price list.
`figures` sums up the figures.
"""

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import autoprune.apps.cli.options as options
import autoprune.apps.cli.replaying as replaying
import typer
from autoprune import __version__
from autoprune.apps.cli.console import Commands, show
from autoprune.apps.cli.input_output import write_output
from autoprune.apps.cli.replay import figure_cell, share_cell
from autoprune.apps.cli.startup import open_streams
from autoprune.apps.replay import Policy, ReplayArgs
from autoprune.apps.replay.atoms import AtomGroup as Atoms
from autoprune.apps.replay.choices import NO_PRUNING
from autoprune.apps.replay.evidence import ProtectedKind
from autoprune.apps.replay.rows import FEW_ATOMS, rounded
from autoprune.apps.replay.verdict import Standing, round_tokens
from autoprune.economics import Prices
from autoprune.errors import SettingsError, count_noun
from autoprune.pruners.report.drawing import printable
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from prunebench.figures import (
    OURS,
    POLICY_NAMES,
    PRICE_LISTS,
    CorpusFigures,
    Effect,
    benchmark_json,
    corpus_figures,
    published,
)
from prunebench.page import benchmark_page

EXAMPLES = "\n".join(
    (
        "Examples:\n\n\b",
        "  prunebench logs/",
        "  prunebench mini/ more/ --most 100 --html bench.html",
        "  prunebench mini/ --json > bench.json",
        "  prunebench logs/ --policy complexity_trap --policy mine.py:Mine",
    )
)
UNSEEN, UNCHECKED, OUTDATED, IDLE = "*", "†", "§", "○"
BILLS = ("bill", "no re-reads", "worst", "breaks", "code", "edits", "facts")
KEPT: Mapping[str, Atoms] = {"code": Atoms.CODE, "edits": Atoms.EDITS, "facts": Atoms.FACTS}
PROTECTED = {ProtectedKind.WORDS: "words", ProtectedKind.FAILURE: "failure", ProtectedKind.FILES: "files"}
OF_URL = re.compile(r"compress_endpoint\(url='(.*)'\)")
NAME_WIDTH = 26  # columns; longer names continue on the next line
LEGEND = f"""\
bill      cost as a share of the cost without pruning, with its 95% confidence
          interval over projects, as file names tell them, or else sessions; it
          includes results that the agent would have to fetch again; rows are
          sorted by it, and neighbors may differ by chance
no re-reads   the same without fetching results again
worst     the highest bill up to any request of a session, without re-reads
breaks    requests whose prompt broke the cache
code      % of the names, error messages and old texts of edits used by the
          recorded actions that stay in the prompt
edits     the same for the old texts of edits (shell: in shell commands)
facts     the same for numbers, names, quotes and keys that the agent wrote; n is
          their number if it is less than 20
idle      sessions in which all prompts are as long as without the policy
words, failure, files   % of the user's words, of the last failure and of the
          files being edited that stay whole, over all requests
prompt    the 95th percentile of the prompts' tokens, by autoprune's count
refused   requests that the provider would refuse, by its published rules. Only
          some requests are checked: the first eight whose prompt changes, every
          sixteenth after that, and the last
{UNSEEN}         shortens results before the model has seen them
{UNCHECKED}         not compared with its original
{OUTDATED}         not what the newest release of the tool does by itself
{IDLE}         does nothing in more than half of the sessions"""


def bench_policies(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="FOLDER", help="A folder of session files, a file or a glob: each is a corpus."),
    ],
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="POLICY",
            help="Replay this policy; may be repeated: a name, perhaps with parameters, as complexity_trap(keep=5), or "
            "your own, as mine.py:Mine, or the URL of a tool's /v1/compress. Default: all policies of other tools, "
            f"{', '.join(OURS)}.",
        ),
    ] = None,
    price: Annotated[
        list[str] | None,
        typer.Option(
            "--prices",
            metavar="PRICES",
            help=f"Prices as in replay; may be repeated. Default: {', '.join(PRICE_LISTS)}.",
        ),
    ] = None,
    most: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Replay at most N files of each corpus, evenly spread by name."),
    ] = None,
    as_json: options.AsJson = False,
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the tables and charts of all prices as an HTML page.")
    ] = None,
    model: replaying.Model = None,
    jobs: replaying.Jobs = None,
    engine: replaying.EngineName = replaying.ENGINES[0],
    reader: options.Reader = None,
) -> None:
    """Compare the context policies of other tools.

    Each is replayed on recorded sessions as it decides in its own tool, and billed at each price list. No model is
    called. Two runs over the same sessions give the same figures.
    """
    if policy:
        policies = tuple(dict.fromkeys((NO_PRUNING, *map(named, policy))))
        for name in policies:
            Policy(name)  # raises for an unknown policy
    else:
        policies, left_out = usable(POLICY_NAMES)
        for name, reason in left_out.items():
            show(Text(f"{name} is left out: {reason}"), to_stderr=True)
    prices = replaying.parse_prices(price or PRICE_LISTS)
    args = ReplayArgs(policies, prices, model=model, readers=(reader,) if reader else (), by_each_price=True)
    found = {path: sorted(replaying.find_files([path], reader)) for path in dict.fromkeys(paths)}
    chosen = {path: sample(files, most) for path, files in found.items()}
    files = list(dict.fromkeys(file for each in chosen.values() for file in each))
    # The tool behind a URL may have changed since.
    chosen_engine = replaying.choose_engine(engine, jobs, keeps=not any(map(is_url, policy or ())))
    replayed = replaying.replay_all(files, args, chosen_engine, with_curves=True)
    sessions = {each.path: each for each in replayed}
    names = corpus_names(found)
    corpora = [
        corpus_figures(names[path], len(found[path]), [sessions[file] for file in sorted(chosen[path])], args)
        for path in found
    ]
    skipped = replaying.skipped_files(list(sessions.values()))
    show(replaying.skipped_table(skipped, brief=True), to_stderr=True, wraps=False)
    if len(skipped) == len(sessions):
        raise replaying.nothing_replayed(list(sessions.values()))
    if as_json:
        write_output("-", json_text(benchmark_json(corpora, args, __version__)))
    if html:
        write_output(html, benchmark_page(corpora, command=command_line()))
    if not as_json and html != "-":
        for corpus in corpora:
            show(corpus_tables(corpus, prices))
        show(Text(LEGEND, style="dim"))


def named(policy: str) -> str:
    """Return a policy by its name: a URL is a parameter of the one that asks it."""
    return f"compress_endpoint(url={policy!r})" if is_url(policy) else policy  # as OF_URL reads it


def is_url(policy: str) -> bool:
    """Return whether a policy is given as the URL of a tool."""
    return policy.startswith(("http://", "https://"))


def command_line() -> str:
    """The command as the user typed it, which the page shows."""
    return f"prunebench {shlex.join(sys.argv[1:])}"


def usable(names: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Part the policies from those that call a package which is not installed, which are mapped to what is missing."""
    missing = {}
    for name in names:
        try:
            Policy(name)
        except SettingsError as error:
            missing[name] = str(error)
    return tuple(name for name in names if name not in missing), missing


def sample(files: Sequence[str], most: int | None) -> list[str]:
    """Choose at most `most` of the files, evenly spread."""
    count = min(most or len(files), len(files))
    return [files[at * len(files) // count] for at in range(count)]


def corpus_names(paths: Mapping[str, object]) -> dict[str, str]:
    """Name each corpus after its folder or file, or by its whole path if two have the same name."""
    names = {path: os.path.basename(os.path.abspath(path)) or path for path in paths}
    shared = [name for name in names.values() if [*names.values()].count(name) > 1]
    return {path: path if name in shared else name for path, name in names.items()}


def json_text(value: Mapping[str, Any]) -> str:
    """Write the benchmark as JSON, with one row on a line."""
    # A quote within a string is escaped, so this is always the beginning of an object.
    return json.dumps(value, ensure_ascii=False).replace('{"policy": ', '\n{"policy": ') + "\n"


def corpus_tables(corpus: CorpusFigures, prices: Sequence[Prices]) -> RenderableType:
    """Draw the tables of a corpus: the bills at each price list, and what the policies do whatever they cost."""
    whole = corpus.whole
    sizes = f"{count_noun(whole.requests, 'request')}, {round_tokens(whole.tokens)} tokens"
    title = Text.assemble(
        (printable(corpus.name), "bold"), f": {whole.sessions:,} of {count_noun(corpus.files, 'file')}, {sizes}"
    )
    return Group(title, "", *(part for each in prices for part in _bills(corpus, each)), *_effects(corpus))


def _bills(corpus: CorpusFigures, prices: Prices) -> Iterator[RenderableType]:
    relative = f"{prices.write:g} written, {prices.read:g} read, {prices.output:g} of the answer"
    yield Text.assemble((f"prices: {printable(prices)}", "bold"), f" (a token {relative})")
    table = _new_table(*BILLS)
    ranking = corpus.rankings[str(prices)]
    idle = {each.policy for each in corpus.effects if 2 * each.idle_sessions > corpus.whole.sessions}
    for each in ranking:
        name = each.row.strategy
        table.add_row(f"{marked(name)}{IDLE if name in idle - {NO_PRUNING} else ''}", *_bill_cells(each))
    yield Group(table, "")


def _bill_cells(each: Standing) -> Iterator[str]:
    row = each.row
    yield figure_cell(*rounded(each.rereads, ".3f"))
    yield f"{row.bill.value:.3f}"
    yield f"{row.worst:.2f}"
    yield f"{row.cache_breaks:,}"
    for group in KEPT.values():
        share, needed = f"{100 * row.evidence[group].value:.1f}", row.needed[group]
        yield "–" if not needed else f"{share}\nn = {needed}" if needed < FEW_ATOMS else share


def _effects(corpus: CorpusFigures) -> Iterator[RenderableType]:
    """Draw the evidence and the protected content with their intervals, and the prompts."""
    split = [each for each in corpus.effects if each.prices]
    first = next((each.prices for each in split), "")
    shown = sorted((each for each in corpus.effects if each.prices in ("", first)), key=lambda each: -each.row.lowest)
    evidence, others = _new_table(*KEPT, "shell", "idle"), _new_table(*PROTECTED.values(), "prompt", "refused")
    for each in shown:
        name, row = marked(each.policy), each.row
        shares = ((row.evidence[group], row.needed[group]) for group in (*KEPT.values(), Atoms.SHELL_EDITS))
        evidence.add_row(name, *(share_cell(share, needed) for share, needed in shares), f"{each.idle_sessions:,}")
        protected = (row.protected.get(kind) for kind in PROTECTED)
        cells = (figure_cell(*rounded(share, ".1f", 100)) if share else "–" for share in protected)
        others.add_row(name, *cells, _prompt_cell(each), f"{each.refused:,}")
    note = f"; strategies that decide by prices, at {first}" if first else ""
    yield Group(Text.assemble(("whatever the prices", "bold"), note), evidence, "", others, "")


def _prompt_cell(each: Effect) -> str:
    prompt = each.long_prompt
    low, high = round_tokens(round(prompt.low)), round_tokens(round(prompt.high))
    return f"{round_tokens(round(prompt.value))} {low}–{high}" if low != high else low


def _new_table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("policy", overflow="fold", max_width=NAME_WIDTH)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def marked(name: str) -> str:
    """Return the name of a policy with its marks, which the legend explains."""
    known = published(name)
    if known is None:
        asked = OF_URL.fullmatch(name)
        return printable(asked[1] if asked else name)
    marks = ((UNSEEN, known.is_arrival), (UNCHECKED, not known.checked), (OUTDATED, known.outdated))
    return printable(name) + "".join(mark for mark, holds in marks if holds)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("bench", cls=options.Command, epilog=EXAMPLES)(bench_policies)
app.callback()(lambda: None)


def main() -> None:
    """Run the command, `bench`, which is not typed."""
    open_streams()
    app(["bench", *sys.argv[1:]], prog_name="prunebench")

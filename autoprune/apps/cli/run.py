"""`autoprune run`: an assistant behind a proxy of its own, for as long as it runs."""

import os
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

import autoprune.apps.cli.options as options
from autoprune.apps.cli.hiding import hidden, hidden_arguments
from autoprune.apps.cli.launching import past_other_proxies, program, started, user, waited
from autoprune.apps.cli.ledgers import keeping
from autoprune.apps.cli.proxy import SafeZone, Strategy, wanted
from autoprune.apps.clients import CLIENTS, Client, Route, named
from autoprune.economics import lifetime

if TYPE_CHECKING:
    from autoprune.apps.proxy import Running, Session

EXAMPLES = options.examples("run claude", "run --safe-zone 60k codex exec 'Fix the tests.'", "run --print opencode")
NAMES = ", ".join(client.name for client in CLIENTS)
UNKNOWN = "http://127.0.0.1:PORT", "FOLDER"  # what a proxy's address and a temporary folder are shown as
ASK_NOTHING = frozenset(("--version", "-v", "-V", "--help", "-h"))  # of clients, where one stands first
# What stands behind the client's name is the client's own, options and all.
CONTEXT = {"allow_interspersed_args": False, "ignore_unknown_options": True}

ClientName = Annotated[str, typer.Argument(metavar="CLIENT", help=f"The assistant: {NAMES}.")]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGUMENTS", help="What it is given, options and all; autoprune's own stand before CLIENT."),
]
Upstream = Annotated[
    str | None,
    typer.Option(metavar="URL", help="The base address behind the proxy, in place of the one that the client has."),
]


def run(
    client: ClientName,
    arguments: Arguments = None,
    upstream: Upstream = None,
    safe_zone: SafeZone = None,
    strategy: Strategy = "cache_aware",
    only_print: Annotated[
        bool, typer.Option("--print", metavar=options.FLAG, help="Print what would be set, and start nothing.")
    ] = False,
) -> None:
    """Run an assistant with its conversations pruned. Ends with its exit code, and says what pruning has saved.

    A proxy is started on a free port for it. Nothing of its configuration is changed; it has the terminal to itself.
    """
    chosen = named(client)
    route = chosen.route(user(tuple(arguments or ()), upstream))
    if only_print:
        print(*shown(chosen, route), sep="\n")
        return
    wanted()
    from autoprune.apps.proxy import Settings, give_back, running

    give_back()
    settings = Settings(route.upstream, safe_zone, strategy)
    path = program(chosen)
    with running(settings) as proxy, keeping(lambda: proxy.sessions), started(path, route, proxy.url) as process:
        code = waited(process)
    words = silence(chosen, proxy, code) if ASK_NOTHING.isdisjoint((arguments or ())[:1]) else ""
    for line in (*account(proxy), *([f"autoprune: {words}"] if words else ())):
        typer.echo(line, err=True)
    raise typer.Exit(code or int(bool(words)))


def shown(client: Client, route: Route) -> Iterator[str]:
    """Yield lines on what a run sets: variables and the command, as a shell takes them, then the temporary files."""
    real = route.through(*UNKNOWN)
    environ = {**past_other_proxies(os.environ), **real.environ}
    variables = (f"{name}={shlex.quote(hidden(value))}" for name, value in environ.items())
    yield " ".join((*variables, client.program, *map(shlex.quote, hidden_arguments(real.arguments))))
    yield hidden(f"# the proxy passes requests on to {route.upstream or 'the vendor whose API each is for'}")
    for name, text in real.files.items():
        yield f"# {UNKNOWN[1]}/{name}:"
        yield from (f"#   {line}" for line in hidden(text).splitlines())


def account(proxy: "Running") -> Iterator[str]:
    """Yield lines on what went through a proxy: the ledger of the longest conversation, and a line on each other one.

    Conversations of one request, the side questions of an assistant, are counted together, but for the largest where
    there is no other.
    """
    known = sorted(
        (each for each in proxy.sessions if each.requests), key=lambda each: (-each.requests, -each.points[-1].before)
    )
    worked = [each for each in known if each.requests > 1] or known[:1]
    for at, session in enumerate(worked):
        yield introduction(session)
        total = session.ledger.total
        if total.removed:
            net = f"pruning {'saved' if total.net >= 0 else 'lost'} {abs(total.net):,.0f} input tokens"
            yield f"autoprune: {net}" if at else str(session.ledger)
    if others := len(known) - len(worked):
        yield f"autoprune: {others} side question{'s' if others > 1 else ''} besides"


def introduction(session: "Session") -> str:
    """Return the line above a conversation's ledger."""
    last = session.points[-1]
    size = f"the last prompt {last.after:,} tokens, {last.before:,} without pruning"
    zone = f"safe zone {session.safe_zone:,}"
    requests = f"{session.requests} request{'s' if session.requests > 1 else ''}"
    life = lifetime(session.ledger.prices.life)
    cache = f", its cache lives {life}, {session.life_from}" if session.life_from else ""
    return f"autoprune: {session.model or session.path}: {requests}, {size}, {zone}{cache}"


def silence(client: Client, proxy: "Running", code: int) -> str:
    """Return why nothing was pruned, where no conversation came through or none was answered; "" where one was."""
    traffic, sessions = proxy.traffic, proxy.sessions
    elsewhere = "asked its provider at another address"
    what = f"{elsewhere}, or nothing at all" if code == 0 else f"ended with {code} before it asked, or {elsewhere}"
    bypassed = f"so nothing was pruned: {client.title} {what}; see `autoprune doctor {client.name}`"
    if not traffic.requests:
        return f"no request came through the proxy, {bypassed}"
    if not sessions:
        came = f"{traffic.requests} request{'s' if traffic.requests > 1 else ''} came through the proxy"
        words = f"{came}, and none was a conversation that can be read"
        return f"{words}: {traffic.why}" if traffic.why else f"{words}, {bypassed}"
    if all(session.requests == session.failed for session in sessions):
        return f"the upstream did not answer any of {traffic.failed} requests: is it there, and the network up?"
    return ""

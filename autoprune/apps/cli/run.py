"""`autoprune run`: start an assistant behind its own proxy, and report what pruning saved."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

import autoprune.apps.cli.options as options
from autoprune.apps.cli.launching import (
    Arguments,
    ClientName,
    Upstream,
    current_user,
    describe_route,
    find_program,
    start_client,
    wait_for,
)
from autoprune.apps.cli.ledgers import keep_ledgers
from autoprune.apps.cli.proxy import SafeZone, Strategy, check_dependencies
from autoprune.apps.clients import Client, named
from autoprune.economics import lifetime

if TYPE_CHECKING:
    from autoprune.apps.proxy import Running, Session

EXAMPLES = options.examples("run claude", "run --safe-zone 60k codex exec 'Fix the tests.'", "run --print opencode")
NO_REQUEST = frozenset(("--version", "-v", "-V", "--help", "-h"))  # first arguments that make a client ask no model


def run_assistant(
    client: ClientName,
    arguments: Arguments = None,
    upstream: Upstream = None,
    safe_zone: SafeZone = None,
    strategy: Strategy = "cache_aware",
    only_print: Annotated[
        bool, typer.Option("--print", metavar=options.FLAG, help="Print the command and its settings; start nothing.")
    ] = False,
) -> None:
    """Run an assistant with its conversations pruned.

    Starts a proxy for it on a free port, gives it the terminal, and exits with its exit code. At the end a few lines
    say what pruning saved. The assistant's configuration files are not changed.
    """
    chosen = named(client)
    route = chosen.route(current_user(tuple(arguments or ()), upstream))
    if only_print:
        print(*describe_route(chosen, route), sep="\n")
        return
    check_dependencies()
    from autoprune.apps.proxy import Settings, give_back, running

    give_back()
    settings = Settings(route.upstream, safe_zone, strategy)
    path = find_program(chosen)
    with (
        running(settings) as proxy,
        keep_ledgers(lambda: proxy.sessions),
        start_client(path, route, proxy.url) as process,
    ):
        code = wait_for(process)
    failure = explain_silence(chosen, proxy, code) if NO_REQUEST.isdisjoint((arguments or ())[:1]) else ""
    for line in (*summarize_traffic(proxy), *([f"autoprune: {failure}"] if failure else ())):
        typer.echo(line, err=True)
    raise typer.Exit(code or int(bool(failure)))


def summarize_traffic(proxy: "Running") -> Iterator[str]:
    """Yield lines on a proxy's conversations: the ledger of the longest one, and a line on each other one.

    Conversations of one request are side questions of an assistant (a title, a topic). They are only counted, unless
    there are no others; then the largest is shown.
    """
    known = sorted(
        (each for each in proxy.sessions if each.requests), key=lambda each: (-each.requests, -each.points[-1].before)
    )
    main = [each for each in known if each.requests > 1] or known[:1]
    for at, session in enumerate(main):
        yield describe_session(session)
        total = session.ledger.total
        if total.removed:
            net = f"pruning {'saved' if total.net >= 0 else 'lost'} {abs(total.net):,.0f} input tokens"
            yield f"autoprune: {net}" if at else str(session.ledger)
    if others := len(known) - len(main):
        yield f"autoprune: {others} side question{'s' if others > 1 else ''} besides"


def describe_session(session: "Session") -> str:
    """The line above a conversation's ledger."""
    last = session.points[-1]
    size = f"the last prompt {last.after:,} tokens, {last.before:,} without pruning"
    zone = f"safe zone {session.safe_zone:,}"
    requests = f"{session.requests} request{'s' if session.requests > 1 else ''}"
    life = lifetime(session.ledger.prices.life)
    cache = f", its cache lives {life}, {session.life_from}" if session.life_from else ""
    return f"autoprune: {session.model or session.path}: {requests}, {size}, {zone}{cache}"


def explain_silence(client: Client, proxy: "Running", code: int) -> str:
    """Explain why nothing could be pruned: there was no conversation, or none was answered. "" if one was."""
    traffic, sessions = proxy.traffic, proxy.sessions
    elsewhere = "sent its requests to another address"
    what = f"{elsewhere}, or sent none" if code == 0 else f"ended with {code} before its first request, or {elsewhere}"
    bypassed = f"so nothing was pruned: {client.title} {what}; see `autoprune doctor {client.name}`"
    if not traffic.requests:
        return f"no request came through the proxy, {bypassed}"
    if not sessions:
        came = f"{traffic.requests} request{'s' if traffic.requests > 1 else ''} came through the proxy"
        unreadable = f"{came}, and none was a conversation that autoprune can read"
        return f"{unreadable}: {traffic.why}" if traffic.why else f"{unreadable}, {bypassed}"
    if all(session.requests == session.failed for session in sessions):
        requests = f"{traffic.failed} request{'s' if traffic.failed > 1 else ''}"
        return f"the upstream answered none of {requests}: is its address right, and the network up?"
    return ""

"""`autoprune run`: start an assistant behind its own proxy, and report what pruning saved. `doctor` starts one too."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path, PurePath
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

import autoprune.apps.cli.options as options
from autoprune.apps.cli.config_files import without_options
from autoprune.apps.cli.ledgers import keep_ledgers
from autoprune.apps.cli.proxy import (
    PORT,
    Holdout,
    SafeZone,
    Strategy,
    Tier,
    check_dependencies,
    describe_archive,
    describe_zone,
    with_seed,
    with_tier,
)
from autoprune.apps.cli.recalling import own_archive, own_memory
from autoprune.apps.cli.resumed import describe_cost, find_resumed, session_files, session_times
from autoprune.apps.clients import CLIENTS, Client, Route, User, find_client
from autoprune.apps.clients.compactions import rule_of
from autoprune.economics import amount, life_text, model_prices
from autoprune.errors import ClientError, SettingsError, count_noun, did_you_mean
from autoprune.settings.models import LONG
from autoprune.settings.values import UNKNOWN_WINDOW, VARIABLES, budget_tokens, variables, window_of
from autoprune.strategies.catalog import RUN_STRATEGY

if TYPE_CHECKING:
    from autoprune.apps.proxy import ClientSession, Running, Settings

EXAMPLES = options.examples("run claude", "run codex exec 'Fix the tests.'", "run --print opencode")
NO_REQUEST = frozenset(("--version", "-v", "-V", "--help", "-h"))  # first arguments that make a client ask no model
NOT_FOUND, BY_SIGNAL = 127, 128  # exit codes, as a shell reports them
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy")
LEAST_FORCE = "only the model's window and the assistant's own compaction force cuts"
SHARED_OPTIONS = ("--help", "--print")  # clients have these options too
UNKNOWN_PROXY, UNKNOWN_FOLDER = "http://127.0.0.1:PORT", "FOLDER"  # shown for an address and a temporary folder

NAMES = ", ".join(client.name for client in CLIENTS)


def complete_client(incomplete: str) -> list[str]:
    """Return the names of clients that begin as typed, for a shell's completion."""
    return [client.name for client in CLIENTS if client.name.startswith(incomplete)]


ClientName = Annotated[
    str, typer.Argument(metavar="CLIENT", help=f"The assistant: {NAMES}.", autocompletion=complete_client)
]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGUMENTS", help="The assistant's own arguments. Options of autoprune go before CLIENT."),
]
Upstream = Annotated[
    str | None,
    typer.Option(metavar="URL", help="The API's base address, instead of the one that the assistant is set up with."),
]
# Click must not look for options of autoprune after the client's name.
CLIENT_CONTEXT = {"allow_interspersed_args": False, "ignore_unknown_options": True}


class ClientCommand(options.Command):
    """A command whose own options come before the client's name. All arguments after the name belong to the client."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line. Raises SettingsError for an unknown option, or if one comes after the client's name.

        The client would get it, which is rarely intended. A `--` before the name, or before the option, confirms it.
        """
        given = tuple(args)
        rest = super().parse_args(ctx, args)
        if ctx.resilient_parsing:
            return rest
        client, arguments = ctx.params["client"], ctx.params["arguments"] or ()
        own = {name for each in self.params for name in each.opts if name.startswith("--")} - {*SHARED_OPTIONS}
        if client.startswith("-"):
            name = client.partition("=")[0]
            raise SettingsError(f"there is no option {name}{did_you_mean(name, own)}")
        if "--" not in given[: len(given) - len(arguments)]:
            names = [each.partition("=")[0] for each in takewhile(lambda each: each != "--", arguments)]
            if name := next((each for each in names if each in own), ""):
                raise SettingsError(
                    f"{name} comes after {client}, so {client} would get it: write `autoprune {self.name} {name} … "
                    f"{client}`, or `autoprune {self.name} -- {client} … {name}` if it is {client}'s own option"
                )
        return rest


def run_assistant(
    context: typer.Context,
    client: ClientName,
    arguments: Arguments = None,
    upstream: Upstream = None,
    safe_zone: SafeZone = None,
    strategy: Strategy = RUN_STRATEGY,
    tier: Tier = None,
    holdout: Holdout = 0.0,
    no_archive: options.NoArchive = False,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the commands that do the same by hand; start nothing.")
    ] = False,
) -> None:
    """Run an assistant with its conversations pruned.

    Starts a proxy for it on a free port, prints the address of its live page, gives the assistant the terminal, and
    exits with its exit code. At the end a few lines say what pruning saved. The assistant's configuration files are not
    changed.
    """
    chosen = find_client(client)
    user = current_user(tuple(arguments or ()), upstream)
    route = chosen.route(user)
    check_dependencies()
    from autoprune.apps.proxy import Settings, running

    given, files = without_options(context), session_files(chosen)
    settings = Settings(
        upstream=route.upstream,
        safe_zone=safe_zone,
        strategy=with_tier(strategy, tier),
        holdout=holdout,
        compaction=rule_of(chosen.name, user),
        archive=None if no_archive else own_archive(),
        memory=own_memory(),
        written=session_times(files),
        **given,
    )
    resumed = find_resumed(chosen, user, files)
    cost = describe_cost(resumed, settings.strategy) if resumed else ""
    if only_print:
        about = describe_compaction(chosen, user), (cost, warn_of_limit(safe_zone, chosen, user))
        print(*describe_by_hand(chosen, route, settings, given, *about), sep="\n")
        return
    settings = with_seed(settings)
    path = find_program(chosen)
    asks_model = NO_REQUEST.isdisjoint((arguments or ())[:1])
    with running(settings) as proxy, keep_ledgers(lambda: proxy.sessions):
        if asks_model:  # before the client may take the whole screen
            typer.echo(f"autoprune: live page {proxy.page}", err=True)
            for line in filter(None, (cost, warn_of_limit(safe_zone, chosen, user))):
                typer.echo(f"autoprune: {line}", err=True)
        with start_client(path, route, proxy.url) as process:
            code = wait_for(process)
    failure = explain_silence(chosen, proxy, code) if asks_model else ""
    loss = cost_of_limit(proxy.sessions) if safe_zone else ""
    notes = (f"autoprune: {each}" for each in (loss, failure) if each)
    for line in (*summarize_traffic(proxy), *notes):
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
        if session.avoided:
            seen = f"this conversation has seen {session.seen:,} tokens, and was not compacted"
            yield f"autoprune: {seen}: {session.label[0]} compacts at {session.compact_at:,}"
        total = session.ledger.total
        if total.removed:
            net = f"pruning {'saved' if total.net >= 0 else 'lost'} {abs(total.net):,.0f} input tokens"
            yield f"autoprune: {net}" if at else str(session.ledger)
        if session.usage_note and (at or not total.removed):  # else it is in the ledger
            yield f"autoprune: {session.usage_note}"
    if others := len(known) - len(main):
        yield f"autoprune: {count_noun(others, 'side question')} besides"


def warn_of_limit(safe_zone: str | None, client: Client, user: User) -> str:
    """Say that a safe zone that the user chose can cost money, or changes nothing; "" if there is nothing to say."""
    model = user.option("-m", "--model")
    pays = model_prices(model).break_even(1, 1) if model else None
    if not safe_zone or pays == 0:
        return ""
    window = window_of(model) or LONG  # if it is not known, the most that it can be
    point = rule_of(client.name, user).point(window, model)
    if point and budget_tokens(safe_zone, window_tokens=window) > point:
        below = ", and prompts stay below 0.9 of that; to let it compact, set AUTOPRUNE_COMPACT_AT=10m"
        below *= VARIABLES["compact_at"] not in variables(user.environ)
        return f"the safe zone of {safe_zone} changes nothing: {describe_compaction(client, user)}{below}"
    when = f" that pay only after some {pays:.0f} more requests at the prices of {model}" if pays else ""
    return (
        f"the safe zone of {safe_zone} forces cuts{when}, so a session can get dearer than without pruning; without "
        f"--safe-zone {LEAST_FORCE}"
    )


def cost_of_limit(sessions: "Sequence[ClientSession]") -> str:
    """Say what a safe zone that the user chose has cost; "" if pruning saved money, or as much as it cost."""
    for session in sorted(sessions, key=lambda each: each.requests, reverse=True):
        ledger, total = session.ledger, session.ledger.total
        if total.net < 0:
            return (
                f"with the safe zone of {session.safe_zone:,} tokens the prompts cost "
                f"{-total.net / (ledger.unpruned or 1):.0%} more than without pruning, "
                f"{amount(-total.net, ledger.prices)}; without --safe-zone {LEAST_FORCE}"
            )
    return ""


def describe_session(session: "ClientSession") -> str:
    """Return the line above a conversation's ledger."""
    last = session.points[-1]
    size = f"the last prompt {last.after:,} tokens, {last.before:,} without pruning"
    zone = f"safe zone {session.safe_zone:,}"
    requests = count_noun(session.requests, "request")
    life = life_text(session.ledger.prices.life)
    cache = f", its cache lives {life}, {session.life_from}" if session.life_from else ""
    held_out = ", held out: forwarded unpruned" if session.arm == "unpruned" else ""
    return f"autoprune: {session.model or session.path}: {requests}, {size}, {zone}{cache}{held_out}"


def explain_silence(client: Client, proxy: "Running", code: int) -> str:
    """Explain why nothing could be pruned: there was no conversation, or none was answered. "" if one was."""
    traffic, sessions = proxy.traffic, proxy.sessions
    elsewhere = "sent its requests to another address"
    what = f"{elsewhere}, or sent none" if code == 0 else f"ended with {code} before its first request, or {elsewhere}"
    bypassed = f"so nothing was pruned: {client.title} {what}; see `autoprune doctor {client.name}`"
    if not traffic.requests:
        return f"no request came through the proxy, {bypassed}"
    if not sessions:
        came = count_noun(traffic.requests, "request")
        unreadable = f"{came} came through the proxy, and none was a conversation that autoprune can read"
        return f"{unreadable}: {traffic.why}" if traffic.why else f"{unreadable}, {bypassed}"
    if all(session.requests == session.failed for session in sessions):
        requests = count_noun(traffic.failed, "request")
        return f"the upstream answered none of {requests}: is its address right, and the network up?"
    return ""


# Starting an assistant behind a proxy; for `doctor` too


def describe_by_hand(
    client: Client, route: Route, settings: "Settings", given: Mapping[str, Any], compaction: str, notes: Iterable[str]
) -> Iterator[str]:
    """Yield the commands that do by hand what a run does, redacted. `given` are settings that have no option."""
    options = {"port": PORT, "upstream": route.upstream, "safe-zone": settings.safe_zone, "strategy": settings.strategy}
    options["holdout"] = settings.holdout or None
    flags = ("--archive",) if settings.archive else ()
    environ = variables(None) | {VARIABLES[name]: str(value) for name, value in given.items()}
    others = environ.keys() - {VARIABLES["safe_zone"], VARIABLES["strategy"]}  # these have options
    set_before = (f"{name}={shlex.quote(environ[name])}" for name in sorted(others))
    words = (f"--{name} {shlex.quote(str(value))}" for name, value in options.items() if value is not None)
    if shutil.which(client.name) is None:
        yield f"# {client.name} is not installed: {client.install}"
    yield "# By hand, in one terminal; it prints the address of its live page:"
    yield redact(" ".join((*set_before, "autoprune proxy", *words, *flags)))
    yield f"# Safe zone: {describe_zone(settings)}"
    yield f"# Cleared results: {describe_archive(settings)}"
    yield from (f"# {note}" for note in notes if note)
    yield f"# {compaction}"
    yield f"# In another terminal{', with the files below in FOLDER' if route.files else ''}:"
    yield from describe_route(client, route, f"http://127.0.0.1:{PORT}")


def describe_compaction(client: Client, user: User) -> str:
    """Say when a client compacts by itself, for the model that its arguments name, else for the usual window."""
    model = user.option("-m", "--model")
    return rule_of(client.name, user).sentence(client.title, window_of(model) or UNKNOWN_WINDOW, model)


def describe_route(client: Client, route: Route, proxy: str = UNKNOWN_PROXY) -> Iterator[str]:
    """Yield a run's settings, redacted: the command with its variables, in shell syntax, and the temporary files."""
    real = route.through(proxy, UNKNOWN_FOLDER)
    environ = {**no_proxy_variables(os.environ), **real.environ}
    # Redacted before it is quoted: quotes would hide where a value ends.
    variables = (f"{name}={shlex.quote(redact(value))}" for name, value in environ.items())
    yield " ".join((*variables, client.name, *map(shlex.quote, redact_arguments(real.arguments))))
    yield redact(f"# the proxy forwards requests to {route.upstream or 'the vendor of the API that each is for'}")
    for name, text in real.files.items():
        yield f"# {UNKNOWN_FOLDER}/{name}:"
        yield from (f"#   {line}" for line in redact(text).splitlines())


def current_user(arguments: tuple[str, ...], upstream: str | None) -> User:
    """Return the user who runs this command, with the arguments for the client."""
    try:
        folder = Path.cwd()
    except FileNotFoundError as error:
        raise ClientError("the working directory does not exist any more: change to one that does") from error
    return User(
        environ=dict(os.environ),
        arguments=arguments,
        home=Path.home(),
        folder=folder,
        read=_read_user_file,
        upstream=upstream,
    )


def _read_user_file(path: PurePath) -> str | None:
    """Read one of the user's files; None if it does not exist. Raises ClientError if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ClientError(f"{path} cannot be read, and may name another address: {error}") from error


def find_program(client: Client) -> str:
    """Find the path of a client's program. Exits with 127 if it is not installed."""
    found = shutil.which(client.name)
    if found is None:
        typer.echo(f"autoprune: {client.name} is not installed: {client.install}", err=True)
        raise typer.Exit(NOT_FOUND)
    return found


@contextmanager
def start_client(path: str, route: Route, proxy: str, **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start the client's program at `path`, routed through the proxy. Its temporary files are deleted at the exit."""
    with tempfile.TemporaryDirectory(prefix="autoprune-") as folder:
        real = route.through(proxy, folder)
        for name, text in real.files.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        environ = {**os.environ, **path_variable(os.environ), **no_proxy_variables(os.environ), **real.environ}
        try:
            process = subprocess.Popen([path, *real.arguments], env=environ, **streams)
        except OSError as error:
            raise ClientError(f"{path} cannot be started; is it fully installed? {error.strerror}") from error
        with process:
            yield process


def path_variable(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the search path with this program's folder at its end, for `autoprune recall`; none if it is in it."""
    own = sysconfig.get_path("scripts")
    if shutil.which("autoprune") or not shutil.which("autoprune", path=own):
        return {}
    return {"PATH": os.pathsep.join((environ.get("PATH", os.defpath), own))}


def no_proxy_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that let a client reach this machine directly; none unless it uses an HTTP proxy."""
    if not any(name.lower() in PROXY_VARIABLES for name in environ):
        return {}
    exceptions = environ.get("NO_PROXY") or environ.get("no_proxy")
    direct = f"{exceptions},127.0.0.1" if exceptions else "127.0.0.1"
    return {"NO_PROXY": direct, "no_proxy": direct}  # programs read one or the other


def wait_for(process: subprocess.Popen[bytes]) -> int:
    """Wait for a client and return its exit code as a shell reports it.

    The client has the terminal, so it handles Ctrl-C itself; SIGTERM and SIGHUP are forwarded to it.
    """

    def forward(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    # A handler that does nothing instead of SIG_IGN, because the client would inherit that.
    handlers: Mapping[int, Callable[[int, FrameType | None], None]] = {
        signal.SIGINT: lambda number, frame: None,
        signal.SIGTERM: forward,
        signal.SIGHUP: forward,
    }
    previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        code = process.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return shell_exit_code(code)


def shell_exit_code(code: int) -> int:
    """Return the exit code of a process as a shell reports it: 128 plus the signal's number if a signal ended it."""
    return code if code >= 0 else BY_SIGNAL - code


# What is printed holds no secrets

REDACTED = "…"
SECRET_WORDS = r"(?:key|token(?!s\b)|secret|passw|authorization|credential)"  # "tokens" is a number, no secret
SECRET_NAME = rf"(?<![\w.-])-{{0,2}}(?:[\w.-]{{0,80}}{SECRET_WORDS}[\w.-]{{0,80}}|[\w.-]{{0,80}}_pat\b)"
SECRET_OPTION = re.compile(SECRET_NAME, re.IGNORECASE)
OPTION_WITH_VALUE = re.compile(rf"(?=-)({SECRET_NAME}=).+", re.IGNORECASE | re.DOTALL)
SECRETS = (
    # a quoted value in JSON, TOML or Python
    (
        re.compile(rf"""({SECRET_NAME}["']?\s*[=:]\s*(["'])).*?(?<!\\)((?:\\\\)*\2)""", re.IGNORECASE | re.DOTALL),
        r"\3",
    ),
    (re.compile(rf"({SECRET_NAME}=)[^\s\"',;&}}{REDACTED}]+", re.IGNORECASE), ""),  # a variable, or in a URL's query
    (re.compile(r"(\bBearer\s+)[^\s\"']+", re.IGNORECASE), ""),
    (re.compile(r"(\bx-[\w-]{0,60}(?:key|token):\s*)[^\s\"']+", re.IGNORECASE), ""),  # a header
    (re.compile(r"(://)[^/\s@]+(?=@)"), ""),  # user and password before a host
)


def redact(text: str) -> str:
    """Replace the values of keys, tokens and passwords in JSON, TOML, headers and URLs by "…", by their names."""
    for secret, end in SECRETS:
        text = secret.sub(rf"\g<1>{REDACTED}{end}", text)
    return text


def redact_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """Yield a program's arguments redacted, among them the values of options such as `--api-key`."""
    previous = ""
    for argument in arguments:
        is_value = previous.startswith("-") and SECRET_OPTION.fullmatch(previous) and not argument.startswith("-")
        option = OPTION_WITH_VALUE.fullmatch(argument)
        yield REDACTED if is_value else option[1] + REDACTED if option else redact(argument)
        previous = argument

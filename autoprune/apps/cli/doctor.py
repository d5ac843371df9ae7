"""`autoprune doctor`: whether an assistant's requests would arrive at a proxy, and what it loses behind one."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from tempfile import TemporaryFile
from textwrap import fill
from typing import TYPE_CHECKING, Annotated
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import typer

import autoprune.apps.cli.options as options
from autoprune.apps.cli.launching import as_a_shell, program, started, user
from autoprune.apps.cli.proxy import wanted
from autoprune.apps.cli.run import Arguments, ClientName, Upstream, shown
from autoprune.apps.clients import Client, Route, named
from autoprune.pruners.report.drawing import printable

if TYPE_CHECKING:
    from autoprune.apps.proxy import Running

WIDTH = 80  # columns
EXAMPLES = options.examples("doctor claude", "doctor opencode -m anthropic/claude-sonnet-4-5")
NOBODY = "http://127.0.0.1:9"  # the port of "discard", at which nothing listens: no request gets further than the proxy
STEP_SECONDS, VERSION_SECONDS, LEAST_BAD_GATEWAY = 0.05, 30, 502
OWN_WORDS = "autoprune: "  # before what a proxy says itself
LONGEST_WORDS = 300  # characters, of a provider's
MANY = ("not asked: it depends on the model; name one behind the assistant",)
SILENT = "does not answer"
LOOK = "See whether the address is right and answers `curl` on this machine; --upstream URL gives another."
ASK = "The provider says so itself: try again later, or ask who runs it."


def doctor(
    client: ClientName,
    arguments: Arguments = None,
    upstream: Upstream = None,
    patience: Annotated[
        float,
        typer.Option(
            "--wait", metavar="SECONDS", min=1, help="How long to wait for its first request, and for the provider."
        ),
    ] = 60,
) -> None:
    """Say whether an assistant would work behind a proxy.

    Whether its requests arrive there, whether the provider answers, and what it loses. The assistant is asked a
    question that goes no further than the proxy, so it costs nothing. Exit code 1 where no request arrives, or the
    provider behind the proxy does not answer.
    """
    chosen = named(client)
    wanted()
    path = program(chosen)
    print(f"installed     {path}, {version(path)} (tried with {chosen.tried})")
    route = chosen.route(user((*chosen.question, *(arguments or ())), upstream))
    print("would be set", *shown(chosen, route), sep="\n  ")
    arrived, words = arrival(path, route, patience)
    print(f"requests      {words}")
    reached, (words, *why) = answer(route.upstream, patience) if route.upstream else (True, MANY)
    print(f"upstream      {words}{f': {route.upstream}' if route.upstream else ''}")
    print(*(indented(f"{'':14}{line}") for line in why), *losses(chosen), sep="\n")
    raise typer.Exit(int(not (arrived and reached)))


def version(path: str) -> str:
    """Return what a program says of its version."""
    try:
        done = subprocess.run(
            [path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=VERSION_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return "which does not say its version"
    said = done.stdout.strip() or done.stderr.strip()  # pi writes it to standard error
    return printable(said.decode(errors="replace").partition("\n")[0]) or "which does not say its version"


def arrival(path: str, route: Route, patience: float) -> tuple[bool, str]:
    """Return whether something arrives at a proxy with nothing behind it when a client is asked, and words on it."""
    from autoprune.apps.proxy import Settings, running

    with TemporaryFile() as said:
        streams = {"stdin": subprocess.DEVNULL, "stdout": said, "stderr": said, "start_new_session": True}
        with running(Settings(NOBODY)) as proxy, started(path, route, proxy.url, **streams) as process:
            end = time.monotonic() + patience
            while not any(told(proxy)) and process.poll() is None and time.monotonic() < end:
                time.sleep(STEP_SECONDS)
            code = process.poll()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with the programs that it has started
        found = next(told(proxy), "")
        said.seek(0)
        last = printable(said.read().decode(errors="replace").strip().rpartition("\n")[2])
    ending = f"within {patience:g} seconds" if code is None else f"before it ended with {as_a_shell(code)}: {last}"
    return bool(found), found or f"none arrived {ending}"


def told(proxy: "Running") -> Iterator[str]:
    """Yield what is known of each request of a conversation that came through."""
    for session in proxy.sessions:
        for point in session.points:
            yield f"arrive: {session.path}, {session.model or 'a model'}, {point.before:,} tokens"


def answer(upstream: str, patience: float) -> tuple[bool, tuple[str, ...]]:
    """Return whether the provider behind a proxy answers a request without a key, and how; else why, and what to do."""
    from autoprune.apps.proxy import Settings, running

    with running(Settings(upstream)) as proxy:
        try:
            with build_opener(ProxyHandler({})).open(f"{proxy.url}/v1/models", timeout=patience) as response:
                status = response.status
        except HTTPError as error:
            with error:
                status = error.code
                if status >= LEAST_BAD_GATEWAY:
                    return False, refused(status, error.read().decode(errors="replace"))
        except TimeoutError:
            return False, (SILENT, f"it has said nothing for {patience:g} seconds", LOOK)
    return True, (f"answers ({status} to a request without a key)",)


def refused(status: int, body: str) -> tuple[str, str, str]:
    """Return what the provider does in place of an answer, in the proxy's words or its own, and what to do."""
    with suppress(ValueError):
        match json.loads(body):
            case {"error": {"message": str(words)}} | {"message": str(words)}:
                body = words
    words = printable(" ".join(body.split())[:LONGEST_WORDS])
    if words.startswith(OWN_WORDS):
        return SILENT, words.removeprefix(OWN_WORDS), LOOK
    return f"answers only with an error, {status}", words or "without a word", ASK


def losses(client: Client) -> Iterator[str]:
    """Yield what a client loses behind a foreign address."""
    for loss in client.losses or ("nothing that is known",):
        yield indented(f"it loses      {loss}")


def indented(line: str) -> str:
    """Return a line within 80 columns, with what is too long for it below its second column."""
    return fill(line, WIDTH, subsequent_indent=" " * 14, break_on_hyphens=False)

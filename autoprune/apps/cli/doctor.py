"""`autoprune doctor`: test whether an assistant's requests reach a proxy, and list what it loses behind one."""

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
import autoprune.apps.cli.run as run
from autoprune.apps.cli.proxy import check_dependencies
from autoprune.apps.clients import Route, find_client
from autoprune.pruners.report.drawing import printable

if TYPE_CHECKING:
    from autoprune.apps.proxy import Running

WIDTH = 80  # columns
EXAMPLES = options.examples("doctor claude", "doctor opencode -m anthropic/claude-sonnet-4-5")
# The port of the discard service, where nothing listens: no request gets past the proxy, so the test costs nothing.
NO_UPSTREAM = "http://127.0.0.1:9"
POLL_SECONDS = 0.05
VERSION_SECONDS = 30  # Node programs may take seconds to print their version
BAD_GATEWAY = 502
PROXY_PREFIX = "autoprune: "  # begins the errors of the proxy itself
MAX_MESSAGE = 300  # characters of a provider's error message
ANY_VENDOR = ("not tested: it depends on the model; name one after the assistant",)
NO_VERSION = "which does not print its version"
SILENT = "does not answer"
CHECK_ADDRESS = "Check that the address is right and answers `curl` on this machine; --upstream URL gives another."
ASK_PROVIDER = "The provider itself returns this error: try again later, or ask its operator."


def examine(
    client: run.ClientName,
    arguments: run.Arguments = None,
    upstream: run.Upstream = None,
    wait: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=1, help="How long to wait for the assistant's first request, and for the provider."
        ),
    ] = 60,
) -> None:
    """Test whether an assistant works behind a proxy.

    Checks that its requests reach the proxy and that the provider answers, and lists what it loses behind a proxy.
    The question that the assistant is asked goes no further than the proxy, so the test costs nothing. Exits with 1 if
    no request arrives or the provider does not answer.
    """
    chosen = find_client(client)
    check_dependencies()
    path = run.find_program(chosen)
    print(f"installed     {path}, {program_version(path)} (tried with {chosen.tried})")
    user = run.current_user((*chosen.question, *(arguments or ())), upstream)
    route = chosen.route(user)
    print("would be set", *run.describe_route(chosen, route), sep="\n  ")
    print(f"compaction    {run.describe_compaction(chosen, user)}")
    has_arrived, requests = probe_arrival(path, route, wait)
    print(f"requests      {requests}")
    is_reached, (state, *why) = probe_upstream(route.upstream, wait) if route.upstream else (True, ANY_VENDOR)
    print(f"upstream      {state}{f': {route.upstream}' if route.upstream else ''}")
    losses = chosen.losses or ("nothing that is known",)
    for line in (*(f"{'':14}{each}" for each in why), *(f"it loses      {each}" for each in losses)):
        print(fill(line, WIDTH, subsequent_indent=" " * 14, break_on_hyphens=False))
    raise typer.Exit(int(not (has_arrived and is_reached)))


def program_version(path: str) -> str:
    """Return the first line that a program prints for `--version`."""
    try:
        done = subprocess.run(
            [path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=VERSION_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return NO_VERSION
    printed = done.stdout.strip() or done.stderr.strip()  # pi prints it to standard error
    return printable(printed.decode(errors="replace").partition("\n")[0]) or NO_VERSION


def probe_arrival(path: str, route: Route, wait: float) -> tuple[bool, str]:
    """Ask a client behind a proxy with no upstream. Returns whether a request arrived, and a description."""
    from autoprune.apps.proxy import Settings, running

    with TemporaryFile() as printed:
        streams = {"stdin": subprocess.DEVNULL, "stdout": printed, "stderr": printed, "start_new_session": True}
        with running(Settings(NO_UPSTREAM)) as proxy, run.start_client(path, route, proxy.url, **streams) as process:
            end = time.monotonic() + wait
            while not any(_request_lines(proxy)) and process.poll() is None and time.monotonic() < end:
                time.sleep(POLL_SECONDS)
            code = process.poll()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the group: clients start programs of their own
        found = next(_request_lines(proxy), "")
        printed.seek(0)
        last_line = printable(printed.read().decode(errors="replace").strip().rpartition("\n")[2])
    if code is not None:
        return bool(found), found or f"none arrived before it ended with {run.shell_exit_code(code)}: {last_line}"
    return bool(found), found or f"none arrived within {wait:g} seconds"


def _request_lines(proxy: "Running") -> Iterator[str]:
    for session in proxy.sessions:
        for point in session.points:
            yield f"arrive: {session.path}, {session.model or 'a model'}, {point.before:,} tokens"


def probe_upstream(upstream: str, wait: float) -> tuple[bool, tuple[str, ...]]:
    """Send a request without a key through a proxy. Returns whether the provider answers, a state, why and advice."""
    from autoprune.apps.proxy import Settings, running

    with running(Settings(upstream)) as proxy:
        try:
            with build_opener(ProxyHandler({})).open(f"{proxy.url}/v1/models", timeout=wait) as response:
                status = response.status
        except HTTPError as error:
            with error:
                status = error.code
                if status >= BAD_GATEWAY:
                    return False, _describe_error(status, error.read().decode(errors="replace"))
        except TimeoutError:
            return False, (SILENT, f"it did not answer within {wait:g} seconds", CHECK_ADDRESS)
    # Any other status, such as 401, is an answer of the provider.
    return True, (f"answers ({status} to a request without a key)",)


def _describe_error(status: int, body: str) -> tuple[str, str, str]:
    """Return a state, the error message of the proxy or the provider, and advice."""
    with suppress(ValueError):
        match json.loads(body):
            case {"error": {"message": str(message)}} | {"message": str(message)}:
                body = message
    message = printable(" ".join(body.split())[:MAX_MESSAGE])
    if message.startswith(PROXY_PREFIX):
        return SILENT, message.removeprefix(PROXY_PREFIX), CHECK_ADDRESS
    return f"answers only with an error, {status}", message or "without a message", ASK_PROVIDER

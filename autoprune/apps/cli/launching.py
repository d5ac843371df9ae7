"""What `run` and `doctor` have in common: whose an option is, who the user is, and a client started behind a proxy."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path, PurePath
from types import FrameType
from typing import Any

import typer

import autoprune.apps.cli.options as options
from autoprune.apps.clients import Client, Route, User
from autoprune.errors import ClientError, SettingsError

NOT_FOUND, BY_SIGNAL = 127, 128  # exit codes, as a shell reports them
OTHER_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
OF_BOTH = ("--help", "--print")  # options that clients have themselves


class Leading(options.Command):
    """A command whose own options stand before the client's name, and the client's behind it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line. Raises SettingsError for an option of its own behind the client's name.

        Where `--` stands before the name, or before the option, it is the client's in any case.
        """
        given = tuple(args)
        rest = super().parse_args(ctx, args)
        client, behind = ctx.params["client"], ctx.params["arguments"] or ()
        if "--" not in given[: len(given) - len(behind)]:
            self._check(client, takewhile(lambda each: each != "--", behind))
        return rest

    def _check(self, client: str, behind: Iterable[str]) -> None:
        own = {name for each in self.params for name in each.opts if name.startswith("--")}.difference(OF_BOTH)
        for name in (each.partition("=")[0] for each in behind):
            if name in own:
                raise SettingsError(
                    f"{name} stands behind {client}, which would be given it: write `autoprune {self.name} {name} … "
                    f"{client}`, or `autoprune {self.name} -- {client} … {name}` where it is {client}'s own"
                )


def user(arguments: tuple[str, ...], upstream: str | None) -> User:
    """Return who runs this command, with arguments for the client."""
    try:
        folder = Path.cwd()
    except FileNotFoundError as error:
        raise ClientError("the working folder is not there any more: go to one that is") from error
    return User(dict(os.environ), arguments, Path.home(), folder, read, upstream)


def read(path: PurePath) -> str | None:
    """Return the text of one of the user's files; None where there is none. Raises ClientError for one of no use."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ClientError(f"{path} cannot be read, and may name another address: {error}") from error


def program(client: Client) -> str:
    """Return the path of a client's program. Ends with exit code 127 where it is not installed."""
    found = shutil.which(client.program)
    if found is None:
        typer.echo(f"autoprune: {client.program} is not installed: {client.install}", err=True)
        raise typer.Exit(NOT_FOUND)
    return found


@contextmanager
def started(path: str, route: Route, proxy: str, **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start a client's program at `path` so that it uses the proxy; its temporary files last as long as the context."""
    with tempfile.TemporaryDirectory(prefix="autoprune-") as folder:
        real = route.through(proxy, folder)
        for name, text in real.files.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        having = {**os.environ, **past_other_proxies(os.environ), **real.environ}
        try:
            process = subprocess.Popen([path, *real.arguments], env=having, **streams)
        except OSError as error:
            raise ClientError(f"{path} cannot be started, is it installed in full? {error.strerror}") from error
        with process:
            yield process


def past_other_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which a client reaches this machine directly, where it goes out through another proxy."""
    if not any(name.lower() in OTHER_PROXIES for name in environ):
        return {}
    known = environ.get("NO_PROXY") or environ.get("no_proxy")
    direct = f"{known},127.0.0.1" if known else "127.0.0.1"
    return {"NO_PROXY": direct, "no_proxy": direct}


def waited(process: subprocess.Popen[bytes]) -> int:
    """Wait for a client, which has the terminal: Ctrl-C is its own, and an end that is asked of this program too.

    Returns its exit code; 128 and the number of the signal where one ended it.
    """

    def hand_on(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    # Handlers, and not SIG_IGN, which the client would have been started with.
    handlers: Mapping[int, Callable[[int, FrameType | None], None]] = {
        signal.SIGINT: lambda number, frame: None,
        signal.SIGTERM: hand_on,
        signal.SIGHUP: hand_on,
    }
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return as_a_shell(code)


def as_a_shell(code: int) -> int:
    """Return the exit code of a process; 128 and the number of the signal where one ended it."""
    return code if code >= 0 else BY_SIGNAL - code

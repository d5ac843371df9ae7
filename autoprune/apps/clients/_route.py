"""How a client is led to a proxy: what is known of its user, and what is set for one run. Reads nothing by itself.

How it works. A client's base address is split: where it goes today is the upstream that the proxy passes requests on
to, and its path stays, so that the proxy sees the paths that the provider would have seen.

    https://openrouter.ai/api/v1  →  upstream https://openrouter.ai, base address {proxy}/api/v1

A route is written before the proxy has a port and the temporary folder a name: `{proxy}` and `{folder}` stand for them.
"""

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, takewhile
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

from autoprune.errors import ClientError

PROXY, FOLDER = "{proxy}", "{folder}"
QUESTION = "Say that you are there."
ANTHROPIC, OPENAI = "https://api.anthropic.com", "https://api.openai.com/v1"
GEMINI = "https://generativelanguage.googleapis.com"
# What a line of a .env file sets.
SETS = re.compile(r"""^[ \t]*(?:export[ \t]+)?([\w.]+)[ \t]*=[ \t]*("[^"]*"|'[^']*'|[^\s#]*)""", re.MULTILINE)
QUOTES = ("'", '"')


@dataclass(frozen=True)
class User:
    """Who starts a client: their variables, their arguments for it, their home and working folder.

    `read` returns the text of a file of theirs, None where there is none. `upstream` is the base address that
    `--upstream` names in place of the client's own.
    """

    environ: Mapping[str, str]
    arguments: tuple[str, ...]
    home: PurePath
    folder: PurePath
    read: Callable[[PurePath], str | None] = field(repr=False)
    upstream: str | None = None

    def variable(self, *names: str) -> str | None:
        """Return the first of these variables that is set to something."""
        return next((self.environ[name] for name in names if self.environ.get(name)), None)

    def folder_of(self, variable: str, *usual: str) -> PurePath:
        """Return the folder that a variable names, or else the usual one in the home folder."""
        named = self.environ.get(variable)
        return PurePath(named) if named else self.home.joinpath(*usual)

    def json(self, path: PurePath) -> dict[str, Any]:
        """Return an object from a JSON file, comments allowed; {} where there is none. Raises ClientError."""
        return as_json(self.read(path) or "{}", str(path))

    def toml(self, path: PurePath) -> dict[str, Any]:
        """Return the table of a TOML file; {} where there is none. Raises ClientError."""
        try:
            return tomllib.loads(self.read(path) or "")
        except tomllib.TOMLDecodeError as error:
            raise ClientError(f"{path} is no TOML: {error}") from error

    def with_env_file(self, *paths: PurePath) -> "User":
        """Return the user with the variables of the first of these files that there is, but for those that are set."""
        text = next((text for path in paths if (text := self.read(path)) is not None), "")
        said = {name: value.strip(value[:1]) if value[:1] in QUOTES else value for name, value in SETS.findall(text)}
        return replace(self, environ={**said, **self.environ})

    @property
    def options(self) -> tuple[str, ...]:
        """The arguments before `--`, behind which there are no options."""
        return tuple(takewhile(lambda each: each != "--", self.arguments))

    def option(self, *names: str) -> str | None:
        """Return the last value of an option: of `-m VALUE`, `-mVALUE`, `--model VALUE` or `--model=VALUE`."""
        found = None
        for each, behind in pairwise((*self.options, None)):
            name, equals, value = str(each).partition("=")
            if name in names:
                found = value if equals else behind or found
            elif name[:2] in names:
                found = str(each)[2:]
        return found


@dataclass(frozen=True)
class Route:
    """What one run of a client is given. `upstream` is where the proxy passes requests on; None: by their paths.

    `environ` is set besides the user's variables, `arguments` are all of the client's, `files` are temporary ones by
    their names in `{folder}`. Nothing else is written.
    """

    upstream: str | None
    environ: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def through(self, proxy: str, folder: str) -> "Route":
        """Return the route with the proxy's address and the temporary folder in their places."""

        def put(text: str) -> str:
            return text.replace(PROXY, proxy).replace(FOLDER, folder)

        return replace(
            self,
            environ={name: put(value) for name, value in self.environ.items()},
            arguments=tuple(map(put, self.arguments)),
            files={name: put(text) for name, text in self.files.items()},
        )


@dataclass(frozen=True)
class Client:
    """An assistant that can be led to a proxy.

    `name` is what is typed, `program` what is run, `install` the command that installs it. `route` returns how it is
    led, or raises ClientError where its requests would go past the proxy. `tried` is the version that was seen to work,
    `losses` are sentences on what it does without behind a foreign address.
    """

    name: str
    title: str
    program: str
    install: str
    route: Callable[[User], Route] = field(repr=False)
    question: tuple[str, ...]
    tried: str
    losses: tuple[str, ...] = ()


def led(user: User, address: str, called: str) -> tuple[str, str]:
    """Return the upstream of a client's base address, and the same address at the proxy.

    An upstream that the user names takes its place; one without a path has the path of the client's. Raises ClientError
    for what is no address; `called` names it.
    """
    if user.upstream:
        upstream, at_proxy = _split(user.upstream, "--upstream")
        return upstream, at_proxy if at_proxy != PROXY else PROXY + urlsplit(address).path.rstrip("/")
    return _split(address, called)


def _split(address: str, called: str) -> tuple[str, str]:
    try:
        parts = urlsplit(address)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of brackets that are not closed, or a port that is no number
        is_address = False
    if not is_address:
        raise ClientError(f"{called} is {address!r}: give an address such as https://gateway.example/v1")
    return f"{parts.scheme}://{parts.netloc}", PROXY + parts.path.rstrip("/")


def all_led(user: User, addresses: Mapping[str, str], usual: Mapping[str, str]) -> tuple[str | None, dict[str, str]]:
    """Return the upstream of several providers' base addresses, and the addresses at the proxy.

    Where all are the `usual` ones the upstream is None: the proxy knows it by the path. One that is not decides, and
    the others are not led. Raises ClientError where two such are different.
    """
    own = {name: address for name, address in addresses.items() if address != usual.get(name)}
    split = {name: led(user, address, name) for name, address in (own or addresses).items()}
    upstreams = {upstream for upstream, _ in split.values()}
    if own and len(upstreams) > 1:
        raise ClientError(f"{' and '.join(own)} have different addresses: choose one with the client's own option")
    return (upstreams.pop() if len(upstreams) == 1 else None), {name: at_proxy for name, (_, at_proxy) in split.items()}


def with_env_file_of(user: User, own: str, *addresses: str) -> User:
    """Return a user with the variables of their .env file, as Gemini CLI and Qwen Code look for it: `own` is a folder.

    Raises ClientError where a project's file names one of the `addresses`: whether the project is trusted, and so may
    say where keys are sent, the client alone knows.
    """
    folders = dict.fromkeys((user.folder, *user.folder.parents, user.home))
    files = [folder / name for folder in folders for name in (f"{own}/.env", ".env")]
    nearest = next((file for file in files if user.read(file) is not None), None)
    if nearest is None:
        return user
    found = user.with_env_file(nearest)
    if nearest.is_relative_to(user.home / own) or nearest == user.home / ".env":
        return found
    new = [name for name in addresses if found.variable(name) and not user.variable(name)]
    if new and not user.upstream:
        raise ClientError(f"{nearest} names {new[0]}: set that variable to have its address used, or give --upstream")
    return user


def refuse_elsewhere(user: User, title: str, *names: str) -> None:
    """Raise ClientError for an option, or a command as the first argument, that makes another process ask the model.

    That process has the address that it was started with, so its requests would go past the proxy.
    """
    given = {each.partition("=")[0] for each in user.options if each.startswith("-")}
    if found := next((name for name in names if name in {*given, *user.arguments[:1]}), None):
        raise ClientError(f"{title} would go past the proxy with {found}: another process asks the model then")


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return two objects as one. Where both have a value, that of `above` counts, and objects are merged."""
    both = dict(below)
    for name, value in above.items():
        old = below.get(name)
        both[name] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return both


def is_on(value: str | None) -> bool:
    """Return whether a variable is switched on: set, and not to 0, false, no or off."""
    return (value or "").strip().lower() not in ("", "0", "false", "no", "off")


def as_json(text: str, called: str) -> dict[str, Any]:
    """Return the object of a JSON text in which comments and trailing commas may stand. Raises ClientError."""
    strings = r'("(?:\\.|[^"\\])*")'
    bare = re.sub(rf"{strings}|//[^\n]*|/\*.*?\*/", lambda match: match[1] or "", text, flags=re.DOTALL)
    plain = re.sub(rf"{strings}|,(?=\s*[}}\]])", lambda match: match[1] or "", bare)
    try:
        value = json.loads(plain)
    except ValueError as error:
        raise ClientError(f"{called} is no JSON: {error}") from error
    return value if isinstance(value, dict) else {}


def inside(value: object, *names: str) -> Any:
    """Return what stands in an object under these names, one in the other; None where there is nothing."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def without(arguments: Sequence[str], dropped: Callable[[str], bool]) -> tuple[str, ...]:
    """Return arguments without the pairs of an option and a value for which `dropped` says so of `option=value`."""
    kept: list[str] = []
    index = 0
    while index < len(arguments):
        pair = "=".join(arguments[index : index + 2])
        if dropped(arguments[index]):
            index += 1
        elif index + 1 < len(arguments) and dropped(pair):
            index += 2
        else:
            kept.append(arguments[index])
            index += 1
    return tuple(kept)

"""Route clients through a proxy: the user who runs a client, and the settings for one run. Reads no files itself.

A client's base URL is split. Its current host becomes the upstream of the proxy;
the path stays, so that the proxy sees the same paths as the provider:

    https://openrouter.ai/api/v1  →  upstream https://openrouter.ai, base URL {proxy}/api/v1

A route is computed before the proxy has a port and the temporary folder a name, so it has `{proxy}` and `{folder}`.
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
QUESTION = "Say that you are there."  # the prompt with which `autoprune doctor` tests a client
ANTHROPIC, OPENAI = "https://api.anthropic.com", "https://api.openai.com/v1"
GEMINI = "https://generativelanguage.googleapis.com"
# An assignment in a .env file.
ASSIGNMENT = re.compile(r"""^[ \t]*(?:export[ \t]+)?([\w.]+)[ \t]*=[ \t]*("[^"]*"|'[^']*'|[^\s#]*)""", re.MULTILINE)
QUOTES = ("'", '"')


# Users, routes and clients


@dataclass(frozen=True)
class User:
    """The person who runs a client: environment variables, the client's arguments, home and working folder.

    `read` returns the text of a file, or None if there is no such file. `upstream` is the base URL from `--upstream`,
    which replaces the client's own.
    """

    environ: Mapping[str, str]
    arguments: tuple[str, ...]
    home: PurePath
    folder: PurePath
    read: Callable[[PurePath], str | None] = field(repr=False)
    upstream: str | None = None

    def variable(self, *names: str) -> str | None:
        """Return the value of the first of these variables that is set and not empty."""
        return next((self.environ[name] for name in names if self.environ.get(name)), None)

    def folder_of(self, variable: str, *usual: str) -> PurePath:
        """Return the folder that a variable names, or else the usual one in the home folder."""
        given = self.environ.get(variable)
        return PurePath(given) if given else self.home.joinpath(*usual)

    def json(self, path: PurePath) -> dict[str, Any]:
        """Read an object from a JSON file with comments; {} if there is no file. Raises ClientError."""
        return parse_object(self.read(path) or "{}", str(path))

    def toml(self, path: PurePath) -> dict[str, Any]:
        """Read a TOML file; {} if there is none. Raises ClientError."""
        try:
            return tomllib.loads(self.read(path) or "")
        except tomllib.TOMLDecodeError as error:
            raise ClientError(f"{path} is not valid TOML: {error}") from error

    def with_env_file(self, path: PurePath) -> "User":
        """Add the variables of a file, if it exists, except those that are set already."""
        found = ASSIGNMENT.findall(self.read(path) or "")
        values = {name: value.strip(value[:1]) if value[:1] in QUOTES else value for name, value in found}
        return replace(self, environ={**values, **self.environ})

    @property
    def options(self) -> tuple[str, ...]:
        """The arguments before `--`, which ends the options."""
        return tuple(takewhile(lambda each: each != "--", self.arguments))

    def option(self, *names: str) -> str | None:
        """Return the last value of an option, given as `-m VALUE`, `-mVALUE`, `--model VALUE` or `--model=VALUE`."""
        found = None
        for each, following in pairwise((*self.options, None)):
            name, equals, value = str(each).partition("=")
            if name in names:
                found = value if equals else following or found
            elif name[:2] in names:
                found = str(each)[2:]
        return found


@dataclass(frozen=True)
class Route:
    """The settings for one run of a client.

    `upstream` is the URL that the proxy forwards requests to, None to choose the vendor by their paths. `environ` is
    set in addition to the user's variables. `arguments` are all of the client's arguments. `files` are temporary files
    by their names in `{folder}`; nothing else is written.
    """

    upstream: str | None
    environ: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)

    def through(self, proxy: str, folder: str) -> "Route":
        """Replace the placeholders by the proxy's URL and the temporary folder."""

        def fill_in(text: str) -> str:
            return text.replace(PROXY, proxy).replace(FOLDER, folder)

        return replace(
            self,
            environ={name: fill_in(value) for name, value in self.environ.items()},
            arguments=tuple(map(fill_in, self.arguments)),
            files={name: fill_in(text) for name, text in self.files.items()},
        )


@dataclass(frozen=True)
class Client:
    """An assistant that can be routed through a proxy.

    `name` is its name on the command line, which is also that of its executable, and `install` the command that
    installs it. `route` returns its route, or raises ClientError if its requests would bypass the proxy. `tried` is the
    version that was tested. `question` are arguments that make it ask the model once. `losses` are sentences on
    features that do not work at another base URL. `agent` is the name of the reader of its session files, "" if none
    reads them. `newest` are the options that resume the newest session of the folder, and `by_id` the arguments before
    a session's id, () if its sessions cannot be copied.
    """

    name: str
    title: str
    install: str
    route: Callable[[User], Route] = field(repr=False)
    tried: str
    question: tuple[str, ...] = ("-p", QUESTION)
    losses: tuple[str, ...] = ()
    agent: str = ""
    newest: tuple[str, ...] = ()
    by_id: tuple[str, ...] = ()


# Base URLs


def is_http_url(text: str) -> bool:
    """Return whether a text is an absolute URL that HTTP clients take."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # unbalanced brackets, or a port that is not a number
        return False


def reroute(user: User, url: str, called: str) -> tuple[str, str]:
    """Split a client's base URL into the upstream and the base URL at the proxy.

    The user's `--upstream` replaces the URL; if that has no path, the path of the client's URL is kept. Raises
    ClientError if either is not a URL; `called` is the name of the client's URL in the message.
    """
    if user.upstream:
        upstream, at_proxy = _split(user.upstream, "--upstream")
        return upstream, at_proxy if at_proxy != PROXY else PROXY + urlsplit(url).path.rstrip("/")
    return _split(url, called)


def _split(url: str, called: str) -> tuple[str, str]:
    if not is_http_url(url):
        raise ClientError(f"{called} is {url!r}: give an address such as https://gateway.example/v1")
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}", PROXY + parts.path.rstrip("/")


def reroute_all(user: User, urls: Mapping[str, str], usual: Mapping[str, str]) -> tuple[str | None, dict[str, str]]:
    """Split the base URLs of several providers into one upstream and their base URLs at the proxy.

    If all are `usual`, the upstream is None, because the proxy finds it by the path. Otherwise only those that are not
    usual are routed. Raises ClientError if they differ, since a proxy has one upstream.
    """
    own = {name: url for name, url in urls.items() if url != usual.get(name)}
    split = {name: reroute(user, url, name) for name, url in (own or urls).items()}
    upstreams = {upstream for upstream, _ in split.values()}
    if own and len(upstreams) > 1:
        raise ClientError(f"{' and '.join(own)} have different addresses: choose one with the client's own option")
    return (upstreams.pop() if len(upstreams) == 1 else None), {name: at_proxy for name, (_, at_proxy) in split.items()}


# The user's configuration


def with_nearest_env_file(user: User, own: str, *urls: str) -> User:
    """Add the variables of the .env file that Gemini CLI and Qwen Code would read; `own` is the client's folder.

    `urls` are the variables that name a base URL. Raises ClientError if a project's file sets one of them: a project
    may decide where keys are sent only if the user trusts it, and only the client knows that.
    """
    folders = dict.fromkeys((user.folder, *user.folder.parents, user.home))
    files = [folder / name for folder in folders for name in (f"{own}/.env", ".env")]
    nearest = next((file for file in files if user.read(file) is not None), None)
    if nearest is None:
        return user
    found = user.with_env_file(nearest)
    if nearest.is_relative_to(user.home / own) or nearest == user.home / ".env":
        return found
    new = [name for name in urls if found.variable(name) and not user.variable(name)]
    if new and not user.upstream:
        raise ClientError(f"{nearest} sets {new[0]}: set it in the environment to use that address, or give --upstream")
    return user


def refuse_other_process(user: User, title: str, *names: str) -> None:
    """Raise ClientError for an option, or a subcommand, that makes another process call the model.

    That process keeps the base URL from its start, so its requests would bypass the proxy.
    """
    given = {each.partition("=")[0] for each in user.options if each.startswith("-")}
    if found := next((name for name in names if name in {*given, *user.arguments[:1]}), None):
        raise ClientError(f"{title} would bypass the proxy with {found}, because another process then calls the model")


def is_on(value: str | None) -> bool:
    """Return whether a variable is set to anything but 0, false, no or off."""
    return (value or "").strip().lower() not in ("", "0", "false", "no", "off")


def parse_object(text: str, called: str) -> dict[str, Any]:
    """Parse a JSON object with comments and trailing commas. Raises ClientError; `called` names it in the message."""
    strings = r'("(?:\\.|[^"\\])*")'
    bare = re.sub(rf"{strings}|//[^\n]*|/\*.*?\*/", lambda match: match[1] or "", text, flags=re.DOTALL)
    plain = re.sub(rf"{strings}|,(?=\s*[}}\]])", lambda match: match[1] or "", bare)
    try:
        value = json.loads(plain)
    except ValueError as error:
        raise ClientError(f"{called} is not valid JSON: {error}") from error
    return value if isinstance(value, dict) else {}


def get_in(value: object, *names: str) -> Any:
    """Return the value at a path of names in nested objects; None if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def merge_objects(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two objects, nested ones too. If both have a value, that of `above` takes precedence."""
    merged = dict(below)
    for name, value in above.items():
        old = below.get(name)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            value = merge_objects(old, value)
        merged[name] = value
    return merged


def drop_options(arguments: Sequence[str], *beginnings: str) -> tuple[str, ...]:
    """Remove options that begin so as `option=value`, such as `--model=`, even if given as two arguments."""
    rest: list[str] = []
    index = 0
    while index < len(arguments):
        if arguments[index].startswith(beginnings):
            index += 1
        elif "=".join(arguments[index : index + 2]).startswith(beginnings):
            index += 2
        else:
            rest.append(arguments[index])
            index += 1
    return tuple(rest)

"""Pruning for the plain `openai` and `anthropic` clients: requests are pruned, the caller's messages are not changed.

    client = attach(OpenAI(), "50k")
    client.chat.completions.create(model="gpt-5", messages=messages, tools=tools)

How it works: Both libraries have a hook for subclasses, `_prepare_options`, which gets each request before it is
serialized, and again before each retry; the clients for Azure, Bedrock and Vertex are built on it. `attach` replaces it
on one client. So the HTTP library (`httpx2` or `httpx`) does not matter, and responses, streams and errors are not
touched.
"""

import copy
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, TypeVar, cast

from autoprune.errors import SettingsError, type_of
from autoprune.integrations._hooks import Pruning, RequestPruner
from autoprune.planning.view import Strategy
from autoprune.pruners.requests import place

Client = TypeVar("Client")
COPIES = ("copy", "with_options")  # the methods that return a copy of a client


def attach(client: Client, pruning: Pruning, *, strategy: str | Strategy | None = None) -> Client:
    """Prune the requests of a client and of its copies (`with_options`) from now on; return the client.

    `client` is any client of `openai` or `anthropic`, synchronous or asynchronous. `pruning` is a safe zone, settings,
    or a pruner. Requests to Chat Completions, Responses and Messages are pruned; all others, such as uploads and token
    counts, are not. Raises SettingsError for any other object.
    """
    return _attach(client, RequestPruner(pruning, strategy))


def _attach(client: Client, pruner: RequestPruner) -> Client:
    untyped = cast(Any, client)
    if isinstance(client, type):
        raise SettingsError(f"cannot attach to the class {client.__name__}: give a client, such as {client.__name__}()")
    prepare = getattr(client, "_prepare_options", None)
    if prepare is None:
        raise SettingsError(f"cannot attach to {type_of(client)}: give a client of openai or anthropic")
    edit = partial(_prune_options, pruner, untyped.default_headers)
    untyped._prepare_options = lambda options: prepare(edit(options))  # an awaitable if the client is asynchronous
    for name in COPIES:
        setattr(client, name, _attach_to_copies(getattr(client, name), pruner))
    return client


def _attach_to_copies(method: Callable[..., Client], pruner: RequestPruner) -> Callable[..., Client]:
    @wraps(method)
    def copy_attached(*arguments: Any, **options: Any) -> Client:
        return _attach(method(*arguments, **options), pruner)

    return copy_attached


def _prune_options(pruner: RequestPruner, defaults: Mapping[str, str], options: Any) -> Any:
    """Prune a request's options; the same object if nothing was pruned. `defaults` are the client's headers."""
    body = _body(options)
    found = place(options.url, body)
    if found is None or found.counts_only:
        return options
    own = options.headers if isinstance(options.headers, Mapping) else {}
    headers = {**_without_omitted(defaults), **_without_omitted(own)}
    sent = pruner.prune(body, options.url, headers)
    if sent.body is body:
        return options
    # Only new or changed headers: the client merges its defaults into the request itself.
    said = {name: value for name, value in sent.headers.items() if headers.get(name) != value}
    # A copy, since the client prepares the original options again for each retry.
    edited = copy.copy(options)
    edited.json_data, edited.extra_json = sent.body, None
    if said:
        edited.headers = {**{name: value for name, value in own.items() if name.lower() not in said}, **said}
    return edited


def _body(options: Any) -> Mapping[str, Any]:
    """Return the body of a request: its own fields and those that the caller added."""
    given = options.json_data
    if not isinstance(given, Mapping):
        return {}
    return {**given, **options.extra_json} if options.extra_json else given


def _without_omitted(headers: Mapping[str, object]) -> dict[str, str]:
    """Convert header names to lower case, and drop the headers that the caller omitted."""
    return {name.lower(): value for name, value in headers.items() if isinstance(value, str)}

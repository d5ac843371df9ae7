"""Pruning for the plain `openai` and `anthropic` clients: whatever they send is pruned, your messages are not changed.

    client = attach(OpenAI(), "50k")
    client.chat.completions.create(model="gpt-5", messages=messages, tools=tools)

How it works. Both libraries have a hook for subclasses, `_prepare_options`, which gets each request before it becomes
bytes, and again before each retry; Azure's, Bedrock's and Vertex's clients are made with it. `attach` sets it on one
client. So nothing depends on the HTTP library below (`httpx2` or `httpx`), and answers, streams and errors come back as
ever.
"""

import copy
import inspect
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, TypeVar, cast

from autoprune.errors import SettingsError
from autoprune.integrations._hooks import AnyPruner, Pruning, pruned, pruner_of
from autoprune.planning.view import Strategy
from autoprune.pruners.requests import place

Client = TypeVar("Client")
COPIES = ("copy", "with_options")  # the methods that return a client like this one


def attach(client: Client, pruning: Pruning, *, strategy: str | Strategy | None = None) -> Client:
    """Prune what a client sends from now on, and what its copies (`with_options`) send; return the client.

    `client` is one of `openai` or `anthropic`, of any kind that they have, synchronous or asynchronous; `pruning` is a
    safe zone, settings, or a pruner. Requests to Chat Completions, Responses and Messages are pruned; all others, such
    as uploads and counts of tokens, are not touched. Raises SettingsError for what is no such client.
    """
    pruner, own = pruner_of(pruning), cast(Any, client)
    prepare = getattr(client, "_prepare_options", None)
    if prepare is None:
        raise SettingsError(f"a {type(client).__name__} cannot be attached to: give a client of openai or anthropic")
    edit = partial(_edited, pruner, strategy, own.default_headers)
    own._prepare_options = _async(prepare, edit) if inspect.iscoroutinefunction(prepare) else _sync(prepare, edit)
    for name in COPIES:
        setattr(client, name, _attaching(getattr(client, name), pruner, strategy))
    return client


def _sync(prepare: Callable[[Any], Any], edit: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda options: prepare(edit(options))


def _async(prepare: Callable[[Any], Any], edit: Callable[[Any], Any]) -> Callable[[Any], Any]:
    async def prepared(options: Any) -> Any:
        return await prepare(edit(options))

    return prepared


def _attaching(
    method: Callable[..., Client], pruner: AnyPruner, strategy: str | Strategy | None
) -> Callable[..., Client]:
    @wraps(method)
    def copied(*arguments: Any, **options: Any) -> Client:
        return attach(method(*arguments, **options), pruner, strategy=strategy)

    return copied


def _edited(pruner: AnyPruner, strategy: str | Strategy | None, defaults: Mapping[str, str], options: Any) -> Any:
    """Return the options of a request with its conversation pruned; themselves where nothing was done.

    `defaults` are the headers that the client sends with every request.
    """
    body = _body(options)
    found = place(options.url, body)
    if found is None or found.counts_only:
        return options
    own = options.headers if isinstance(options.headers, Mapping) else {}
    headers = {**_strings(defaults), **_strings(own)}
    sent = pruned(pruner, strategy, body, options.url, headers)
    if sent.body is body:
        return options
    said = {name: value for name, value in sent.headers.items() if headers.get(name) != value}
    edited = copy.copy(options)
    edited.json_data, edited.extra_json = sent.body, None
    if said:
        edited.headers = {**{name: value for name, value in own.items() if name.lower() not in said}, **said}
    return edited


def _body(options: Any) -> Mapping[str, Any]:
    """Return the body of a request as it will be sent: its own fields, and those that the caller added."""
    given = options.json_data
    if not isinstance(given, Mapping):
        return {}
    return {**given, **options.extra_json} if options.extra_json else given


def _strings(headers: Mapping[str, object]) -> dict[str, str]:
    """Return headers by names in lower case, without those that a caller has omitted."""
    return {name.lower(): value for name, value in headers.items() if isinstance(value, str)}

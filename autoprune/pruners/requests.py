"""A provider's request in, the same request with its conversation pruned out: what proxies and clients' hooks need.

    pruned = prune_request(pruner, body, "/v1/messages", headers)
    send(pruned.body, pruned.headers)

How it works. The path tells the API, and that where in the body the messages stand and what is sent beside them (the
system prompt, the schemas of tools), which is counted and added to what the safe zone is compared with. The model is
the request's own, unless the pruner's settings name one. Everything else in the body is passed on as it is.

What cannot be read goes on unchanged, with a note that says why: a path of another kind, a body that is no
conversation, a history that the provider keeps itself (`previous_response_id`, `conversation`, `cachedContent`).
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

from autoprune.errors import ConversationError
from autoprune.providers import merged
from autoprune.providers.thinking import BETA_HEADER
from autoprune.pruners.agentic import AgenticConversationPruner
from autoprune.pruners.conversation import ConversationPruner
from autoprune.pruners.result import Result

__all__ = ["APIS", "Api", "Place", "PrunedRequest", "place", "prune_request"]

HEADERS = "extra_headers"  # what a prune says of headers, and how SDKs take them
NO_HEADERS: Mapping[str, str] = {}


@dataclass(frozen=True)
class Api:
    """One API. `path` matches how its paths end, with the model where that stands there.

    `messages` is the field of the messages, `wrappers` are fields that may hold the whole. What stands in `beside` is
    sent beside the messages and weighs. A value in one of `on_server` says that the provider keeps the history itself.
    """

    format: str
    path: re.Pattern[str]
    messages: str
    beside: tuple[str, ...]
    on_server: tuple[str, ...] = ()
    wrappers: tuple[str, ...] = ()


# To add an API, add a line. The names of `format` are those of `autoprune.formats`.
APIS = (
    Api("openai_chat", re.compile(r"/chat/completions$"), "messages", ("tools", "functions")),
    Api(
        "openai_responses",
        re.compile(r"/responses(?P<counts>/input_tokens)?$"),
        "input",
        ("instructions", "tools"),
        on_server=("previous_response_id", "conversation"),
    ),
    Api("anthropic", re.compile(r"/messages(?P<counts>/count_tokens)?$"), "messages", ("system", "tools")),
    Api(
        "gemini",
        re.compile(
            r"(?:/models/(?P<model>[^/:]+)|/v1internal):(?:(?P<counts>countTokens)|(?:g|streamG)enerateContent)$"
        ),
        "contents",
        ("systemInstruction", "system_instruction", "tools"),
        on_server=("cachedContent", "cached_content"),
        wrappers=("request", "generateContentRequest"),
    ),
    Api("bedrock", re.compile(r"/model/(?P<model>[^/]+)/converse(?:-stream)?$"), "messages", ("system", "toolConfig")),
)


@dataclass(frozen=True)
class Place:
    """Where the conversation of a request stands: its API, the field that wraps it ("" for none), and the model.

    `counts_only` says that the request asks for a count of tokens and not for an answer.
    """

    api: Api
    wrapper: str
    model: str | None
    counts_only: bool

    def inside(self, body: Mapping[str, object]) -> Mapping[str, object]:
        """Return the part of the body in which the messages stand."""
        inner = body[self.wrapper] if self.wrapper else body
        return inner if isinstance(inner, Mapping) else {}

    def messages(self, body: Mapping[str, object]) -> object:
        """Return what stands where the messages should."""
        return self.inside(body).get(self.api.messages)

    def beside(self, body: Mapping[str, object]) -> list[object]:
        """Return what is sent beside the messages."""
        inner = self.inside(body)
        return [inner[name] for name in self.api.beside if inner.get(name)]

    def kept_on_server(self, body: Mapping[str, object]) -> str:
        """Return the field by which the provider keeps the history itself; "" if none does."""
        inner = self.inside(body)
        return next((name for name in self.api.on_server if inner.get(name)), "")

    def replaced(self, body: Mapping[str, object], messages: list[object]) -> dict[str, object]:
        """Return a body with other messages in the place of its own."""
        inner = {**self.inside(body), self.api.messages: messages}
        return {**body, self.wrapper: inner} if self.wrapper else inner


def place(path: str, body: Mapping[str, object]) -> Place | None:
    """Return where a request to a path has its conversation; None if it has none. A query does not count."""
    ending = unquote(urlsplit(path).path).rstrip("/")
    for api in APIS:
        if match := api.path.search(ending):
            found = match.groupdict()
            wrapper = next((name for name in api.wrappers if isinstance(body.get(name), Mapping)), "")
            return Place(api, wrapper, _model(found.get("model"), body), bool(found.get("counts")))
    return None


def _model(in_path: str | None, body: Mapping[str, object]) -> str | None:
    named = in_path or body.get("model")
    return named.removeprefix("models/") if isinstance(named, str) and named else None


@dataclass(frozen=True)
class PrunedRequest:
    """A request to send. `body` and `headers` are the caller's own objects where nothing was done.

    `result` is that of the prune; None if the conversation was not read, and then `note` says why. `counts_only`
    marks a request for a count of tokens, which is no request of the conversation.
    """

    body: Any = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    result: Result | None = None
    note: str = ""
    counts_only: bool = False


def prune_request(
    pruner: AgenticConversationPruner | ConversationPruner,
    body: Any,
    path: str,
    headers: Mapping[str, str] | None = None,
    **options: Any,
) -> PrunedRequest:
    """Prune the conversation in a request to a provider's API. Nothing of the caller's is changed.

    `body` is the request's body as JSON-like data, `path` that of its URL: Chat Completions, Responses, Messages and
    its count_tokens, generateContent, streamGenerateContent and countTokens, Converse and ConverseStream. `headers` are
    those of the request: where models bind thinking to what stands before it, a beta is merged into them. `options` are
    those of the pruner's `prune`: strategy, calibration, pauses, ….

    Raises SettingsError for settings that cannot be used. What is wrong with the conversation raises nothing: the
    request goes on unchanged, and `note` says what is wrong.
    """
    given = NO_HEADERS if headers is None else headers
    if not isinstance(body, Mapping):
        return PrunedRequest(body, given, note=f"the body is {type(body).__name__}, not an object with messages")
    found = place(path, body)
    if found is None:
        return PrunedRequest(body, given, note=f"{path} is no path of a request with a conversation")
    unchanged = partial(PrunedRequest, body, given, counts_only=found.counts_only)
    messages = found.messages(body)
    if field_name := found.kept_on_server(body):
        return unchanged(note=f"{field_name}: the provider keeps the history, nothing of it can be pruned here")
    if not isinstance(messages, list):
        what = "missing" if messages is None else f"of type {type(messages).__name__}"
        return unchanged(note=f"{found.api.messages} is {what}: there is no conversation to prune")
    try:
        result = _of(pruner, found, body).prune(messages, **options)
    except ConversationError as error:
        return unchanged(note=str(error))
    return _written(unchanged(result=result), found, messages)


def _of(pruner: Any, found: Place, body: Mapping[str, object]) -> Any:
    """Return the pruner for a request: with its model, its format, and the tokens beside its messages."""
    of_model = pruner.fill_in(model=found.model, format=found.api.format)
    return of_model.fill_in(overhead_tokens=sum(tokens_of(each, of_model.count_text) for each in found.beside(body)))


def tokens_of(value: object, count: Callable[[str], int]) -> int:
    """Return the tokens of JSON-like data: lists item by item, so that one that is known is not counted again."""
    if isinstance(value, list | tuple):
        return sum(tokens_of(each, count) for each in value)
    return count(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def _written(unchanged: PrunedRequest, found: Place, messages: list[Any]) -> PrunedRequest:
    """Return the request with what a prune returned in it, and with what the request must say besides."""
    result = unchanged.result
    if result is None or (result.conversation is messages and not result.request_parameters):
        return unchanged
    body = found.replaced(unchanged.body, result.conversation)
    if not result.request_parameters:
        return replace(unchanged, body=body)
    betas = {name: value for name, value in unchanged.headers.items() if name.lower() == BETA_HEADER}
    both = merged(result.request_parameters, {**body, HEADERS: betas})
    others = {name: value for name, value in unchanged.headers.items() if name not in betas}
    said: Any = both.pop(HEADERS)
    return replace(unchanged, headers={**others, **said}, body=both)

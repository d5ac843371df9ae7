"""Prune the conversation in a request to a provider's API, for proxies and hooks of clients.

    pruned = prune_request(pruner, body, "/v1/messages", headers)
    send(pruned.body, pruned.headers)

The path identifies the API, and the API says which field of the body holds the messages and which fields are sent
beside them (the system prompt, the schemas of tools and of the answer). Their tokens count towards the safe zone. The
model is that of the request, unless the pruner's settings name one. Without a safe zone, a strategy that weighs prices
gets the window of a known model without room for the reply. All other fields are passed on unchanged.

A request that cannot be pruned is returned unchanged, with a note that gives the reason: an unknown path, a body
without a conversation, or a history that the provider stores (`previous_response_id`, `conversation`, `cachedContent`,
`thread`).
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any
from urllib.parse import unquote, urlsplit

from autoprune.conversation.messages import MARK, cache_marks, fields_of
from autoprune.economics import prices
from autoprune.errors import ConversationError, SettingsError
from autoprune.planning.plan import ThinkingPolicy
from autoprune.planning.thinking import BETA_HEADER, merged, policy
from autoprune.pruners._marks import mark_before_cut
from autoprune.pruners.conversation import ConversationPruner
from autoprune.pruners.history import Agent, History, check_history
from autoprune.pruners.pruner import AgenticConversationPruner
from autoprune.pruners.result import Result
from autoprune.settings.models import asks_for_long
from autoprune.settings.values import cache_ttl, duration, text_setting, ttl_seconds, window_of

__all__ = ["APIS", "Api", "Place", "PrunedRequest", "place", "prune_request", "requested_life"]

HEADERS = "extra_headers"  # the request parameter in which a prune, like SDKs, passes headers
NO_HEADERS: Mapping[str, str] = {}
NO_HISTORY: History = {}


@dataclass(frozen=True)
class Api:
    """One API. `path` matches the end of its paths, with a group for the model if the path names it.

    `format` is "" if requests may have messages of any format; the format of each message is then detected.
    `messages` is the field with the messages, and `wrappers` are fields that may hold the whole request. `beside` are
    the fields that are sent beside the messages and have tokens, also fields of objects (with dots). If one of
    `on_server` is set, the provider stores the history.
    """

    format: str
    path: re.Pattern[str]
    messages: str
    beside: tuple[str, ...]
    on_server: tuple[str, ...] = ()
    wrappers: tuple[str, ...] = ()


# To add an API, add a line. The names of `format` are those of the shipped formats.
APIS = (
    Api(
        "openai_chat",
        re.compile(r"/chat/completions$"),
        "messages",
        ("tools", "functions", "response_format.json_schema"),
    ),
    Api(
        "openai_responses",
        re.compile(r"/responses(?P<counts>/input_tokens)?$"),
        "input",
        ("instructions", "tools", "text.format"),
        on_server=("previous_response_id", "conversation"),
    ),
    Api(
        "anthropic",
        re.compile(r"/messages(?P<counts>/count_tokens)?$"),
        "messages",
        ("system", "tools", "output_config.format", "output_format"),
        on_server=("thread",),
    ),
    Api(
        "gemini",
        re.compile(
            r"(?:/models/(?P<model>[^/:]+)|/v1internal):(?:(?P<counts>countTokens)|(?:g|streamG)enerateContent)$"
        ),
        "contents",
        (
            *("systemInstruction", "system_instruction", "tools"),
            *("generationConfig.responseSchema", "generationConfig.responseJsonSchema"),
        ),
        on_server=("cachedContent", "cached_content"),
        wrappers=("request", "generateContentRequest"),
    ),
    # Asked by gateways. They take only the messages from the answer, so thinking cannot be dropped by a parameter.
    Api("", re.compile(r"/v1/compress$"), "messages", ("system", "tools")),
    Api("bedrock", re.compile(r"/model/(?P<model>[^/]+)/converse(?:-stream)?$"), "messages", ("system", "toolConfig")),
)


@dataclass(frozen=True)
class Place:
    """The location of a request's conversation: its API, the field that wraps it ("" for none), and the model.

    `counts_only` is True for a request that only counts tokens.
    """

    api: Api
    wrapper: str
    model: str | None
    counts_only: bool

    def inside(self, body: Mapping[str, object]) -> Mapping[str, object]:
        """Return the part of the body that holds the messages."""
        inner = body[self.wrapper] if self.wrapper else body
        return inner if isinstance(inner, Mapping) else {}

    def messages(self, body: Mapping[str, object]) -> object:
        """Return the value of the messages' field, of any type; None if it is missing."""
        return self.inside(body).get(self.api.messages)

    def beside(self, body: Mapping[str, object]) -> list[object]:
        """Return the values that are sent beside the messages and have tokens."""
        inner = self.inside(body)
        values = (reduce(_get, name.split("."), inner) for name in self.api.beside)
        return [each for each in values if each]

    def mark_before_cut(self, request: "PrunedRequest", given: list[Any], result: Result[Any]) -> Result[Any]:
        """Mark the pruned prompt for the provider's cache, if the client does. The report says which message."""
        inner = self.inside(request.body)
        beside = {name: inner[name] for name in (MARK, *self.api.beside) if name in inner}
        messages = [*result.conversation]
        at = mark_before_cut(self.api.format, result.plan, given, messages, beside, request.history)
        if at is None:
            return result
        return replace(result, conversation=messages, report=replace(result.report, cache_mark=at))

    def history_field(self, body: Mapping[str, object]) -> str:
        """Return the field that makes the provider store the history; "" if there is none."""
        inner = self.inside(body)
        return next((name for name in self.api.on_server if inner.get(name)), "")

    def with_messages(self, body: Mapping[str, object], messages: list[object]) -> dict[str, object]:
        """Return a copy of the body with other messages."""
        inner = {**self.inside(body), self.api.messages: messages}
        return {**body, self.wrapper: inner} if self.wrapper else inner


def _get(value: object, name: str) -> Any:
    return fields_of(value).get(name)


def place(path: str, body: Mapping[str, object]) -> Place | None:
    """Locate the conversation of a request to a path; None if it has none. The query string is ignored."""
    ending = unquote(urlsplit(path).path).rstrip("/")
    for api in APIS:
        if match := api.path.search(ending):
            found = match.groupdict()
            wrapper = next((name for name in api.wrappers if isinstance(body.get(name), Mapping)), "")
            named = found.get("model") or body.get("model")
            model = named.removeprefix("models/") if isinstance(named, str) and named else None
            return Place(api, wrapper, model, bool(found.get("counts")))
    return None


def requested_life(found: Place, body: Mapping[str, Any], *, charges_writes: bool) -> float | None:
    """Read the cache life that a request asks for; None if it asks for none.

    If marks ask for several lives, the life that covers most messages counts, since tool results are in messages. Marks
    on the system prompt and the tools count only if no message is marked. OpenAI's models that charge for cache writes
    (`charges_writes`) ignore `prompt_cache_retention`.
    """
    inside = found.inside(body)
    options = inside.get("prompt_cache_options")
    life = ttl_seconds(options.get("ttl")) if isinstance(options, Mapping) else None
    if life is None and not charges_writes:
        life = ttl_seconds(inside.get("prompt_cache_retention"))
    if life is not None:
        return life
    messages = found.messages(body)
    lives = _marked_lives(messages if isinstance(messages, list) else [], inside.get(MARK))
    lives = lives or _marked_lives([{"content": each} for each in found.beside(body)])
    return max(lives, key=lambda each: lives[each], default=None)


def _marked_lives(messages: Sequence[object], whole: object = None) -> Mapping[float | None, int]:
    """Count the messages for which cache marks ask for each life in seconds; None is the provider's default.

    `whole` is Anthropic's mark on the last block, wherever it is.
    """
    covered: Counter[float | None] = Counter()
    done = 0
    for at, message in enumerate(messages, 1):
        for mark in cache_marks(message):
            covered[ttl_seconds(mark.get("ttl"))] += at - done  # a mark covers all messages since the previous mark
            done = at
    if isinstance(whole, Mapping):
        covered[ttl_seconds(whole.get("ttl"))] += len(messages) - done
    return covered


@dataclass(frozen=True)
class PrunedRequest:
    """A request to send. `body` and `headers` are the caller's objects if nothing was changed.

    `result` is the result of the prune; None if the conversation was not read, and then `note` gives the reason.
    `counts_only` is True for a request that only counts tokens, which is not part of the conversation. `history` holds
    the settings of the conversation's requests so far: pass it with the next one.
    """

    body: Any = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    result: Result[Any] | None = None
    note: str = ""
    counts_only: bool = False
    history: History = field(default_factory=dict, repr=False)


def prune_request(
    pruner: AgenticConversationPruner | ConversationPruner,
    body: Any,
    path: str,
    headers: Mapping[str, str] | None = None,
    *,
    history: History = NO_HISTORY,
    calibration: float = 1.0,
    **options: Any,
) -> PrunedRequest:
    """Prune the conversation in a request to a provider's API. The caller's objects are not changed.

    `body` is the request's body as JSON-like data, and `path` the path of its URL: Chat Completions, Responses,
    Messages and its count_tokens, generateContent, streamGenerateContent and countTokens, Converse and ConverseStream.
    `headers` are the request's headers, to which a beta is added if the model's thinking blocks require it. `options`
    are keywords of the pruner's `prune`, such as strategy or pauses.

    A prompt that was cut gets a mark for the provider's cache on the last message before the cut that ended an earlier
    request, if the client marks the messages itself and has one of its four marks left (Anthropic and Bedrock). The
    marked message is a new object, as pruned messages are, and the report's `cache_mark` is its index.

    `history` is the `history` of the conversation's previous pruned request. The model, the tokens beside the messages,
    the pruner's settings and the calibration may then change from request to request: they apply from this request on,
    and what was cleared stays cleared. A `ConversationPruner` ignores it.

    Raises SettingsError for invalid settings. A faulty conversation raises nothing: the request is returned unchanged,
    and `note` says what is wrong.
    """
    if not hasattr(pruner, "fill_in") or not isinstance(path, str):
        raise SettingsError(
            f"prune_request got {pruner!r} as a pruner and {path!r} as a path: give a pruner, the request's body and a "
            'path such as "/v1/messages"'
        )
    given = NO_HEADERS if headers is None else headers
    if not isinstance(body, Mapping):
        return PrunedRequest(body, given, note=f"the body is {type(body).__name__}, not an object with messages")
    found = place(path, body)
    if found is None:
        return PrunedRequest(body, given, note=f"{path} is no path of a request with a conversation")
    unchanged = partial(PrunedRequest, body, given, counts_only=found.counts_only, history=history)
    messages = found.messages(body)
    if field_name := found.history_field(body):
        return unchanged(note=f"{field_name}: the provider keeps the history, nothing of it can be pruned here")
    if not isinstance(messages, list):
        what = "missing" if messages is None else f"of type {type(messages).__name__}"
        return unchanged(note=f"{found.api.messages} is {what}: there is no conversation to prune")
    try:
        own = _pruner_for_request(pruner, found, body, history)
        model = text_setting(own.args, "model", own._environ)
        if asks_for_long(model, betas := requested_betas(given, found.inside(body))):
            own = own.fill_in(window=window_of(model, betas))
        own = own.with_usual_zone(options.get("strategy"))
        if isinstance(own, AgenticConversationPruner):
            own, settings, history = own.with_history(history, len(messages), calibration)
        else:
            settings = {"calibration": calibration}
        result = own.prune(messages, **settings, **options)
    except ConversationError as error:
        return unchanged(note=str(error))
    if not found.counts_only:
        unchanged = partial(unchanged, history=history)
    return _apply_result(unchanged(result=result), found, messages)


def _pruner_for_request(pruner: Any, found: Place, body: Mapping[str, object], history: History) -> Any:
    """Return the pruner with the request's model, format and cache life, and the tokens beside its messages."""
    of_model = pruner.fill_in(model=found.model, **({"format": found.api.format} if found.api.format else {}))
    if isinstance(pruner, AgenticConversationPruner) and cache_ttl(pruner.args, pruner._environ) is None:
        asked = requested_life(found, body, charges_writes=prices(None, found.model).write > 1)
        known = (duration(changes.get("cache_ttl")) for changes in check_history(history).values())
        # What was written for an hour may live that long, whatever later requests ask for.
        if lives := [*filter(None, (asked, *known))]:
            of_model = of_model.fill_in(cache_ttl=max(lives))
    if not found.api.format and policy(None, found.model) is ThinkingPolicy.DROP_BLOCK:
        of_model = of_model.fill_in(thinking_policy=ThinkingPolicy.REFUSE)
    return of_model.fill_in(overhead_tokens=sum(tokens_of(each, of_model.count_text) for each in found.beside(body)))


def agent_of_request(pruner: Any, body: Mapping[str, object], path: str) -> Agent:
    """Return the settings of a request that tell apart the agents that continue a conversation."""
    found = place(path, body)
    return _pruner_for_request(pruner, found, body, NO_HISTORY).agent if found else ()


def tokens_of(value: object, count: Callable[[str], int]) -> int:
    """Count the tokens of JSON-like data. Lists are counted item by item, so that known items come from the cache."""
    if isinstance(value, list | tuple):
        return sum(tokens_of(each, count) for each in value)
    return count(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def _apply_result(unchanged: PrunedRequest, found: Place, messages: list[Any]) -> PrunedRequest:
    """Return the request with the pruned messages and the parameters and headers that the prune requires."""
    result = unchanged.result
    if result is None or (result.conversation is messages and not result.request_parameters):
        return unchanged
    if result.conversation is not messages and not unchanged.counts_only:
        result = found.mark_before_cut(unchanged, messages, result)
        unchanged = replace(unchanged, result=result)
    body = found.with_messages(unchanged.body, result.conversation)
    if not result.request_parameters:
        return replace(unchanged, body=body)
    # Only the beta header is merged; all other headers stay unchanged.
    given: Mapping[str, Any] = unchanged.headers
    betas = {name: _join_values(value) for name, value in given.items() if name.lower() == BETA_HEADER}
    both = merged(result.request_parameters, {**body, HEADERS: betas})
    others = {name: value for name, value in unchanged.headers.items() if name not in betas}
    said: Any = both.pop(HEADERS)
    return replace(unchanged, headers={**others, **said}, body=both)


def requested_betas(headers: Mapping[str, Any], body: Mapping[str, Any]) -> list[str]:
    """Return the betas of Anthropic's API that a request names in its header, or in its body as at Bedrock."""
    named = (str(_join_values(value)) for name, value in headers.items() if str(name).lower() == BETA_HEADER)
    given = body.get("anthropic_beta")
    return [*",".join(named).split(","), *map(str, given if isinstance(given, list) else ())]


def _join_values(header: Any) -> Any:
    """Join the values of a header that is given as a list."""
    return ",".join(map(str, header)) if isinstance(header, list | tuple) else header

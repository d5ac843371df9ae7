"""Shared code of the adapters for frameworks and clients. Imports no framework.

An adapter is whatever a framework calls before each request to the model: a function, or a class of the framework's
own. It takes a safe zone, settings or a pruner (`pruning`) and a `strategy`, and replaces the request's messages. If
the hook receives messages as an API writes them, `RequestPruner` prunes the request:

    class PruningHook(BaseHook):
        def __init__(self, pruning: Pruning, *, strategy: str | Strategy | None = None) -> None:
            self._pruner = RequestPruner(pruning, strategy)

        def before_request(self, request: Request) -> None:
            body = {"model": request.model, "messages": request.messages, "system": request.system, "tools": ...}
            request.messages = self._pruner.prune(body, "/v1/messages").body["messages"]

If it receives messages of the framework's own classes, write a format that reads these (`langchain_messages` is an
example; docs/formats.md describes formats), and give it to `FrameworkPruner`:

    self._pruner = FrameworkPruner(my_messages, pruning, strategy)
    ...
    result = self._pruner.prune(request.messages, request.model, [request.system, *schemas_as_json])
    request.messages = result.conversation

Some models need parameters in the next request, because it has thinking after an edit (docs/thinking.md).
`RequestPruner` adds them to the body. `FrameworkPruner` returns them as `result.request_parameters`: merge them with
`thinking_settings`, or raise `cannot_send` if the framework has no place for them.

A prune changes no message in place, and returns what it does not prune as the same objects. docs/architecture.md lists
what else an adapter needs so that it ships: a page, an extra, and a row in a test.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

from loguru import logger

from autoprune.errors import SettingsError
from autoprune.planning.thinking import BETA, merged
from autoprune.planning.view import Strategy
from autoprune.pruners import AgenticConversationPruner
from autoprune.pruners.conversation import ConversationPruner
from autoprune.pruners.history import Agent, Branch, Branches, Recent, prefix_digests
from autoprune.pruners.naming import AnyPruner
from autoprune.pruners.requests import PrunedRequest, agent_of_request, place, prune_request
from autoprune.pruners.result import Result
from autoprune.settings.values import PruneArgs
from autoprune.wire import Format

Pruning: TypeAlias = AnyPruner | PruneArgs | int | float | str
MOST_CONVERSATIONS = 64  # whose settings an adapter remembers


class RequestPruner:
    """Prunes requests that hold messages as an API writes them.

    `pruning` is a safe zone such as `"50k"`, settings, or a pruner. `strategy` is a strategy or the name of one in the
    pruner. By default, it is the pruner's strategy if one was given to its constructor or in AUTOPRUNE_STRATEGY, else
    `cache_aware`.
    """

    def __init__(self, pruning: Pruning, strategy: str | Strategy | None) -> None:
        """Find the pruner, and check its settings as far as they need no request. Raises SettingsError."""
        self._pruner = _find_pruner(pruning, strategy)
        self._past = Recent(MOST_CONVERSATIONS, lambda head: Branches())

    def prune(self, body: Mapping[str, Any], path: str, headers: Mapping[str, str] | None = None) -> PrunedRequest:
        """Prune a request's body. If it cannot be read, log a warning and return it unchanged.

        `path` names the API: "/v1/chat/completions", "/v1/responses", "/v1/messages",
        "/v1beta/models/NAME:generateContent" or "/model/NAME/converse". If a framework has no body, give the values
        that its hook receives, under the API's field names. Raises SettingsError.
        """
        found = place(path, body)
        messages = found.messages(body) if found else None
        past = _find_past(self._past, messages, lambda: agent_of_request(self._pruner, body, path))
        request = prune_request(self._pruner, body, path, headers, history=past.history)
        past.history = request.history
        if request.note:
            logger.warning("{}", request.note)
        return request


def _find_past(known: Recent[Branches], messages: object, agent: Callable[[], Agent]) -> Branch:
    """Find the branch that a request continues; an empty one for messages that cannot be read."""
    if not isinstance(messages, list):
        return Branch()
    try:
        return known.match("", prefix_digests(messages)).find(messages, agent)
    except (TypeError, ValueError, RecursionError):  # keys that are not texts, or an endless message
        return Branch()


def _find_pruner(pruning: Pruning, strategy: str | Strategy | None) -> AnyPruner:
    """Return the given pruner, or a new one for settings or a safe zone, with the strategy to use."""
    pruner = pruning if isinstance(pruning, AnyPruner) else AgenticConversationPruner(pruning)
    return pruner.with_strategy(strategy).check_settings()


def thinking_settings(
    parameters: Mapping[str, object], thinking: object, betas: Sequence[str] | None
) -> tuple[object, list[str]]:
    """Merge the parameters of a prune into a request's `thinking` and betas for Anthropic's API."""
    both = merged(parameters, into={"thinking": thinking} if thinking else {})
    return both["thinking"], [*dict.fromkeys((*(betas or ()), BETA))]


def cannot_send(what: str, parameters: Mapping[str, object], instead: str = "") -> SettingsError:
    """Create the error for a request that cannot carry the parameters that its pruned messages need."""
    return SettingsError(
        f"{what} cannot send {dict(parameters)!r}: use {instead}a pruner with PruneArgs(thinking_policy='refuse')"
    )


class FrameworkFormat(Format, Protocol):
    """The format of a framework whose messages may hold data that is not sent, such as a tool's artifact.

    That data may have any size, and may even contain cycles, so a pruner gets messages without it.
    """

    def strip_unsent(self, message: Any, at: int, /) -> Any:
        """Replace the unsent data of message number `at` by that number; unchanged without such data."""

    def restore_unsent(self, message: Any, messages: Sequence[Any], /) -> Any:
        """Restore the unsent data of a stripped message by its number; unchanged without a number."""


class FrameworkPruner:
    """Prunes messages that the format `written_in` reads, with a copy of the caller's pruner or a new one.

    `pruning` and `strategy` are those of `RequestPruner`. A pruner keeps its settings, archive and callbacks, and is
    never changed.
    """

    def __init__(self, written_in: FrameworkFormat, pruning: Pruning, strategy: str | Strategy | None) -> None:
        """Find the pruner, and check its settings as far as they need no request. Raises SettingsError."""
        # A copy, since the caller may use the pruner elsewhere, without this format.
        pruner = copy(_find_pruner(pruning, strategy))
        pruner.formats = (written_in, *pruner.formats)
        self._pruner = pruner
        self._written_in = written_in
        self._past = Recent(MOST_CONVERSATIONS, lambda head: Branches())

    def prune(self, messages: list[Any], model: str | None = None, beside: Sequence[str] = ()) -> Result:
        """Prune messages that are sent to a `model`; the texts in `beside` are the system prompt and the tools."""
        stripped = self._strip(messages)
        pruner, options = self._pruner_for(stripped, model, beside)
        return self._restore(pruner.prune(stripped, **options), stripped, messages)

    async def aprune(self, messages: list[Any], model: str | None = None, beside: Sequence[str] = ()) -> Result:
        """Prune like `prune`, and await an asynchronous summarizer."""
        stripped = self._strip(messages)
        pruner, options = self._pruner_for(stripped, model, beside)
        result = await pruner.aprune(stripped, **options)
        return self._restore(result, stripped, messages)

    def _strip(self, messages: list[Any]) -> list[Any]:
        return [self._written_in.strip_unsent(message, at) for at, message in enumerate(messages)]

    def _restore(self, result: Result, stripped: list[Any], messages: list[Any]) -> Result:
        """Restore the unsent data in a result. Messages that were not pruned become the caller's objects again."""
        if result.conversation is stripped:
            return replace(result, conversation=messages)
        # Compare by identity: pruning returns unchanged messages as the same objects.
        own = {id(one): message for one, message in zip(stripped, messages, strict=True)}
        pruned = (own.get(id(one)) or self._written_in.restore_unsent(one, messages) for one in result.conversation)
        return replace(result, conversation=[*pruned])

    def _pruner_for(
        self, messages: list[Any], model: str | None, beside: Sequence[str]
    ) -> tuple[AnyPruner, Mapping[str, Any]]:
        """Return the pruner for a request, with its model and the tokens beside its messages, and more options."""
        pruner = self._pruner.fill_in(model=model).with_usual_zone()
        pruner = pruner.fill_in(overhead_tokens=sum(map(pruner.count_text, beside)))
        if isinstance(pruner, ConversationPruner):
            return pruner, {}
        past = _find_past(self._past, messages, lambda: pruner.agent)
        pruner, options, past.history = pruner.with_history(past.history, len(messages))
        return pruner, options

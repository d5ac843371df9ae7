"""Pruning for LiteLLM: a hook for its proxy, and a wrapper for the functions of its SDK.

    pruning = PruningHook("50k")  # in config.yaml: litellm_settings: {callbacks: my_module.pruning}
    completion = prunes(litellm.completion, "50k")  # or acompletion, responses, router.completion, …

Only what is sent is pruned; the caller's messages are not changed.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from litellm.integrations.custom_logger import CustomLogger

from autoprune.conversation.messages import fields_of
from autoprune.errors import SettingsError
from autoprune.integrations._hooks import AnyPruner, Pruning, pruned, pruner_of
from autoprune.planning.plan import ThinkingPolicy
from autoprune.planning.view import Strategy
from autoprune.providers import merged
from autoprune.providers.thinking import BETA_HEADER, drop_block, policy

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
# The paths of the APIs that LiteLLM's functions and calls stand for, by their names.
PATHS = {
    **dict.fromkeys(("completion", "acompletion"), CHAT),
    **dict.fromkeys(("responses", "aresponses"), RESPONSES),
    **dict.fromkeys(("anthropic_messages", "aanthropic_messages"), MESSAGES),
}
P = ParamSpec("P")
R = TypeVar("R")


class PruningHook(CustomLogger):
    """Prunes what the proxy is asked: Chat Completions, Responses and Messages. Other calls are not touched."""

    def __init__(self, pruning: Pruning, *, strategy: str | Strategy | None = None) -> None:
        """Take a safe zone, settings, or a pruner."""
        super().__init__()
        self._pruner = pruner_of(pruning)
        self._strategy = strategy

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> dict[str, Any]:
        """Return the request to make: `data`, with its conversation pruned."""
        path = PATHS.get(str(call_type))
        return data if path is None else {**data, **_changed(self._pruner, self._strategy, data, path)}


def prunes(function: Callable[P, R], pruning: Pruning, *, strategy: str | Strategy | None = None) -> Callable[P, R]:
    """Return a function of LiteLLM that prunes the messages it is given, synchronous or asynchronous as it was.

    `function` is one of `completion`, `responses` and `anthropic_messages`, an asynchronous twin, or the same of a
    router; `pruning` is a safe zone, settings, or a pruner. Raises SettingsError for any other function.
    """
    name = getattr(function, "__name__", "")
    if name not in PATHS:
        raise SettingsError(f"{name or function} cannot be pruned: give one of litellm's {', '.join(PATHS)}")
    pruner = pruner_of(pruning)
    call, signature = cast(Callable[..., R], function), inspect.signature(function)

    @wraps(function)
    def called(*arguments: P.args, **keywords: P.kwargs) -> R:
        named = signature.bind(*arguments, **keywords).arguments
        more = named.pop("kwargs", {})
        request = {**named, **more}
        return call(**(request | _changed(pruner, strategy, request, PATHS[name])))

    return called


def _changed(
    pruner: AnyPruner, strategy: str | Strategy | None, request: Mapping[str, Any], path: str
) -> dict[str, Any]:
    """Return the fields of a request that are to be others: its messages, and what the API must be told of thinking."""
    field = "input" if path == RESPONSES else "messages"
    sent = pruned(pruner, strategy, request, path)
    if sent.result is None:
        return {}
    changed = {} if sent.body is request else {field: sent.result.conversation}
    parameters = sent.result.request_parameters or _for_thinking_blocks(request)
    return changed | _told(request, parameters) if parameters else changed


def _for_thinking_blocks(request: Mapping[str, Any]) -> Mapping[str, object]:
    """Return what a model that binds thinking must be told where LiteLLM has put thinking beside a chat's texts."""
    has_thinking = any(fields_of(message).get("thinking_blocks") for message in request.get("messages") or ())
    binds = policy(None, str(request.get("model"))) is ThinkingPolicy.DROP_BLOCK
    return drop_block() if has_thinking and binds else {}


def _told(request: Mapping[str, Any], parameters: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields of a request that parameters of Anthropic's API are merged into.

    The proxy keeps a client's own `anthropic-beta` in `provider_specific_header`, which would go before
    `extra_headers`: so it is taken over into these.
    """
    given = request.get("provider_specific_header") or []
    scoped = given if isinstance(given, list) else [given]
    known = [each["extra_headers"] for each in scoped if BETA_HEADER in each["extra_headers"]]
    headers = {**(request.get("extra_headers") or {}), **(known[0] if known else {})}
    both = merged(parameters, into={**request, "extra_headers": headers})
    told = {name: both[name] for name in ("thinking", "extra_headers")}
    if not known:
        return told
    others = [each for each in scoped if BETA_HEADER not in each["extra_headers"]]
    return {**told, "provider_specific_header": others}

"""Pruning for LiteLLM: a hook for its proxy, and a wrapper for the functions of its SDK.

    pruning = PruningHook("50k")  # in config.yaml: litellm_settings: {callbacks: my_module.pruning}
    completion = prunes(litellm.completion, "50k")  # or acompletion, responses, router.completion, …

Only the sent messages are pruned; the caller's objects are not changed.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from litellm.integrations.custom_logger import CustomLogger

from autoprune.conversation.messages import fields_of
from autoprune.errors import SettingsError
from autoprune.integrations._hooks import Pruning, RequestPruner
from autoprune.planning.plan import ThinkingPolicy
from autoprune.planning.thinking import BETA_HEADER, drop_block, merged, policy
from autoprune.planning.view import Strategy

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
# The path of the API that each of LiteLLM's functions calls, by its name.
PATHS = {
    **dict.fromkeys(("completion", "acompletion"), CHAT),
    **dict.fromkeys(("responses", "aresponses"), RESPONSES),
    **dict.fromkeys(("anthropic_messages", "aanthropic_messages"), MESSAGES),
}
P = ParamSpec("P")
R = TypeVar("R")


class PruningHook(CustomLogger):
    """Prunes the requests to a proxy: Chat Completions, Responses and Messages. Other calls are not changed."""

    def __init__(self, pruning: Pruning, *, strategy: str | Strategy | None = None) -> None:
        """Store a safe zone, settings, or a pruner."""
        super().__init__()
        self._pruner = RequestPruner(pruning, strategy)

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> dict[str, Any]:
        """Prune the conversation of the request `data`."""
        path = PATHS.get(str(call_type))
        return data if path is None else {**data, **_find_changes(self._pruner, data, path)}


def prunes(function: Callable[P, R], pruning: Pruning, *, strategy: str | Strategy | None = None) -> Callable[P, R]:
    """Wrap a function of LiteLLM so that it prunes its messages. An asynchronous function remains asynchronous.

    `function` is `completion`, `responses` or `anthropic_messages`, its asynchronous variant, or that of a router.
    `pruning` is a safe zone, settings, or a pruner. Raises SettingsError for any other function.
    """
    name = getattr(function, "__name__", "")
    if name not in PATHS:
        raise SettingsError(f"{name or function} cannot be pruned: give one of litellm's {', '.join(PATHS)}")
    pruner = RequestPruner(pruning, strategy)
    call, signature = cast(Callable[..., R], function), inspect.signature(function)

    @wraps(function)
    def call_pruned(*arguments: P.args, **keywords: P.kwargs) -> R:
        # LiteLLM's functions accept their arguments by position too.
        named = signature.bind(*arguments, **keywords).arguments
        more = named.pop("kwargs", {})
        request = {**named, **more}
        return call(**(request | _find_changes(pruner, request, PATHS[name])))

    return call_pruned


def _find_changes(pruner: RequestPruner, request: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return the fields of a request that change: its messages, and the parameters that their thinking needs."""
    field = "input" if path == RESPONSES else "messages"
    sent = pruner.prune(request, path)
    if sent.result is None:
        return {}
    changed = {} if sent.body is request else {field: sent.result.conversation}
    parameters = sent.result.request_parameters or _thinking_parameters(request)
    return changed | _merge_parameters(request, parameters) if parameters else changed


def _thinking_parameters(request: Mapping[str, Any]) -> Mapping[str, object]:
    """Return the parameters for a model that binds thinking, if messages have LiteLLM's `thinking_blocks`."""
    has_thinking = any(fields_of(message).get("thinking_blocks") for message in request.get("messages") or ())
    binds = policy(None, str(request.get("model"))) is ThinkingPolicy.DROP_BLOCK
    return drop_block() if has_thinking and binds else {}


def _merge_parameters(request: Mapping[str, Any], parameters: Mapping[str, object]) -> dict[str, Any]:
    """Merge parameters of Anthropic's API into a request, and return the fields that change.

    LiteLLM's proxy stores a client's `anthropic-beta` in `provider_specific_header`, which overrides `extra_headers`.
    So it is moved into `extra_headers`.
    """
    given = request.get("provider_specific_header") or []
    scoped = given if isinstance(given, list) else [given]
    known = [each["extra_headers"] for each in scoped if BETA_HEADER in each["extra_headers"]]
    headers = {**(request.get("extra_headers") or {}), **(known[0] if known else {})}
    both = merged(parameters, into={**request, "extra_headers": headers})
    fields = {name: both[name] for name in ("thinking", "extra_headers")}
    if not known:
        return fields
    others = [each for each in scoped if BETA_HEADER not in each["extra_headers"]]
    return {**fields, "provider_specific_header": others}

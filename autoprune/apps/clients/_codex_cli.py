"""Codex: `-c` overrides of its configuration. With a ChatGPT login the upstream is ChatGPT's backend."""

import json
import re
import tomllib
from itertools import pairwise
from pathlib import PurePath
from typing import Any

from autoprune.apps.clients._routing import (
    OPENAI,
    QUESTION,
    Client,
    Route,
    User,
    drop_options,
    get_in,
    merge_objects,
    refuse_other_process,
    reroute,
)
from autoprune.errors import ClientError

CHATGPT = "https://chatgpt.com/backend-api/codex"
OVERRIDE, PROFILE = ("-c", "--config"), ("-p", "--profile")
JOINED_OVERRIDE = re.compile(r"(?:--config=|-c=?)(.+=.*)", re.DOTALL)
# Codex tries a WebSocket first. Status 426 makes it use HTTP at once, but it logs the refusal as an error all the same.
QUIET = "codex_api::endpoint::responses_websocket=off"
BUILT_IN = ("amazon-bedrock", "ollama", "lmstudio")  # providers whose base URLs cannot be configured


def route(user: User) -> Route:
    """Route Codex by the configuration key that names the base URL of its model provider."""
    refuse_other_process(user, "Codex", "--remote", "cloud")
    provider = _provider(user)
    key = "openai_base_url" if provider == "openai" else f"model_providers.{provider}.base_url"
    of_user = _overrides(user).get(key) or get_in(_config(user), *key.split("."))
    upstream, at_proxy = reroute(user, of_user or _usual_url(user, provider), key)
    arguments = drop_options(user.arguments, *(f"{option}{key}=" for option in ("-c", "-c=", "--config=")))
    logs = ",".join((user.variable("RUST_LOG") or "error", QUIET))
    return Route(upstream, {"RUST_LOG": logs}, ("-c", f"{key}={json.dumps(at_proxy)}", *arguments))


def codex_setting(user: User, key: str) -> Any:
    """Return a value of the configuration, by the precedence of Codex; None if there is none."""
    config = _config(user)
    profile = user.option(*PROFILE) or config.get("profile")  # a table in versions before 0.169
    of_profile = get_in(config, "profiles", str(profile), key)
    return next((each for each in (_overrides(user).get(key), of_profile, config.get(key)) if each is not None), None)


def _codex_file(user: User, name: str) -> PurePath:
    return user.folder_of("CODEX_HOME", ".codex") / name


def _config(user: User) -> dict[str, Any]:
    """Return the configuration, merged with the file of the profile that `--profile` names."""
    config = user.toml(_codex_file(user, "config.toml"))
    profile = user.option(*PROFILE)
    return merge_objects(config, user.toml(_codex_file(user, f"{profile}.config.toml"))) if profile else config


def _overrides(user: User) -> dict[str, Any]:
    """Return the values of all `-c key=value` arguments: TOML, or plain text if that does not parse."""
    pairs = [pair for option, pair in pairwise(user.arguments) if option in OVERRIDE]
    pairs += [pair[1] for each in user.arguments if (pair := JOINED_OVERRIDE.fullmatch(each))]
    found: dict[str, Any] = {}
    for key, _, value in (pair.partition("=") for pair in pairs):
        try:
            found[key] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[key] = value
    return found


def _provider(user: User) -> str:
    """Return the model provider in use. Raises ClientError for one whose base URL cannot be configured."""
    name = codex_setting(user, "model_provider") or "openai"
    if "--oss" in user.arguments or name in BUILT_IN:
        which = "--oss" if "--oss" in user.arguments else f"the model provider {name}"
        raise ClientError(f"Codex would bypass the proxy with {which}: use one with a base_url in [model_providers]")
    return str(name)


def _usual_url(user: User, provider: str) -> str:
    """Return the default base URL, which depends on the login. Raises ClientError for an unknown provider."""
    if provider != "openai":
        raise ClientError(f"config.toml has no model_providers.{provider}.base_url: add it, or give --upstream")
    if user.variable("CODEX_API_KEY"):
        return OPENAI
    login = user.json(_codex_file(user, "auth.json"))
    return CHATGPT if login.get("tokens") and login.get("auth_mode", "chatgpt") == "chatgpt" else OPENAI


CLIENT = Client(
    name="codex",
    title="Codex",
    install="npm install -g @openai/codex",
    route=route,
    question=("exec", "--skip-git-repo-check", QUESTION),
    tried="0.171.0",
    agent="codex",
    newest=("--last",),
    by_id=("resume",),
    losses=("its WebSocket: the proxy refuses it, and Codex switches to HTTPS by itself, with the whole history",),
)

"""Codex: `-c` overrides of its configuration. With a ChatGPT login the upstream is ChatGPT's backend."""

import json
import re
import tomllib
from itertools import pairwise
from pathlib import PurePath
from typing import Any

from autoprune.apps.clients._route import (
    OPENAI,
    QUESTION,
    Client,
    Route,
    User,
    inside,
    led,
    merged,
    refuse_elsewhere,
    without,
)
from autoprune.errors import ClientError

CHATGPT = "https://chatgpt.com/backend-api/codex"
OPTIONS, PROFILE = ("-c", "--config"), ("-p", "--profile")
TOGETHER = re.compile(r"(?:--config=|-c=?)(.+=.*)", re.DOTALL)
ELSEWHERE = ("amazon-bedrock", "ollama", "lmstudio")  # whose addresses are Codex's own


def route(user: User) -> Route:
    """Lead Codex by the key of its configuration that names the address of its model provider."""
    refuse_elsewhere(user, "Codex", "--remote", "cloud")
    config = _config(user)
    given = _overrides(user)
    provider = _provider(user, config, given)
    key = "openai_base_url" if provider == "openai" else f"model_providers.{provider}.base_url"
    of_config = inside(config, *key.split("."))
    upstream, at_proxy = led(user, given.get(key) or of_config or _usual(user, provider), key)
    ways = tuple(f"{option}{key}=" for option in ("-c", "-c=", "--config="))
    arguments = without(user.arguments, lambda each: each.startswith(ways))
    return Route(upstream, {}, ("-c", f"{key}={json.dumps(at_proxy)}", *arguments))


def _file(user: User, name: str) -> PurePath:
    return user.folder_of("CODEX_HOME", ".codex") / name


def _config(user: User) -> dict[str, Any]:
    """Return the configuration, with the file of the profile that `--profile` names on top of it."""
    config = user.toml(_file(user, "config.toml"))
    profile = user.option(*PROFILE)
    return merged(config, user.toml(_file(user, f"{profile}.config.toml"))) if profile else config


def _overrides(user: User) -> dict[str, Any]:
    """Return what `-c key=value`, also without the space, among the arguments sets: TOML, or else a text."""
    pairs = [pair for option, pair in pairwise(user.arguments) if option in OPTIONS]
    pairs += [pair[1] for each in user.arguments if (pair := TOGETHER.fullmatch(each))]
    found: dict[str, Any] = {}
    for key, _, value in (pair.partition("=") for pair in pairs):
        try:
            found[key] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[key] = value
    return found


def _provider(user: User, config: dict[str, Any], given: dict[str, Any]) -> str:
    """Return the model provider in use. Raises ClientError for one whose address cannot be set."""
    profile = user.option(*PROFILE) or config.get("profile")  # a table in versions before 0.169
    of_profile = inside(config, "profiles", str(profile), "model_provider")
    named = given.get("model_provider") or of_profile or config.get("model_provider") or "openai"
    if "--oss" in user.arguments or named in ELSEWHERE:
        which = "--oss" if "--oss" in user.arguments else f"the model provider {named}"
        raise ClientError(f"Codex would go past the proxy with {which}: write it as one of [model_providers] by hand")
    return str(named)


def _usual(user: User, provider: str) -> str:
    """Return where Codex goes when nobody names an address: it depends on how it is logged in."""
    if provider != "openai":
        raise ClientError(f"config.toml has no model_providers.{provider}.base_url: write it there, or give --upstream")
    if user.variable("CODEX_API_KEY"):
        return OPENAI
    login = user.json(_file(user, "auth.json"))
    return CHATGPT if login.get("tokens") and login.get("auth_mode", "chatgpt") == "chatgpt" else OPENAI


CLIENT = Client(
    name="codex",
    title="Codex",
    program="codex",
    install="npm install -g @openai/codex",
    route=route,
    question=("exec", "--skip-git-repo-check", QUESTION),
    tried="0.169.0",
    losses=("its WebSocket: the proxy refuses it, and Codex goes on over HTTPS by itself, with the whole history",),
)

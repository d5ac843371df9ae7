"""opencode: a configuration in a variable, which counts before all of its files."""

import json
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from autoprune.apps.clients._route import (
    ANTHROPIC,
    GEMINI,
    OPENAI,
    QUESTION,
    Client,
    Route,
    User,
    all_led,
    as_json,
    inside,
    merged,
    refuse_elsewhere,
)
from autoprune.errors import ClientError

CONTENT = "OPENCODE_CONFIG_CONTENT"
VARIABLES = {"anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL"}  # which its libraries read
USUAL = {"anthropic": f"{ANTHROPIC}/v1", "openai": OPENAI, "google": f"{GEMINI}/v1beta"}


def route(user: User) -> Route:
    """Lead opencode's provider by its baseURL; the three that everybody has where the model is not named."""
    refuse_elsewhere(user, "opencode", "--attach", "attach")
    config = _config(user)
    model = user.option("-m", "--model") or config.get("model") or ""
    names = [model.partition("/")[0]] if model else [*USUAL]
    for name in names:
        _refuse_login(user, name)
    upstream, addresses = all_led(user, {name: _address(user, config, name) for name in names}, USUAL)
    providers = {name: {"options": {"baseURL": address}} for name, address in addresses.items()}
    content = merged(as_json(user.environ.get(CONTENT) or "{}", CONTENT), {"provider": providers})
    return Route(upstream, {CONTENT: json.dumps(content)}, user.arguments)


def _address(user: User, config: Mapping[str, Any], name: str) -> str:
    of_config = inside(config, "provider", name, "options", "baseURL")
    address = of_config or user.variable(VARIABLES.get(name, "")) or USUAL.get(name) or user.upstream
    if address is None:
        raise ClientError(f"opencode's provider {name} has no baseURL in its configuration: name it with --upstream")
    return re.sub(r"\{env:(\w+)\}", lambda named: user.environ.get(named[1], ""), str(address))


def _refuse_login(user: User, name: str) -> None:
    """Raise ClientError where a provider is used by subscription, which has an address of its own."""
    logins = user.json(user.folder_of("XDG_DATA_HOME", ".local", "share") / "opencode" / "auth.json")
    if inside(logins, name, "type") == "oauth" and not user.upstream:
        raise ClientError(
            f"opencode is logged in to {name} by subscription, and would go past the proxy: "
            f"`opencode auth logout`, then log in with an API key; or name another provider's model with -m"
        )


def _config(user: User) -> dict[str, Any]:
    """Return the configuration from all of the user's files, of which the nearest counts."""
    folder = user.folder_of("XDG_CONFIG_HOME", ".config") / "opencode"
    named = user.environ.get("OPENCODE_CONFIG")
    files = [folder / "opencode.json", folder / "opencode.jsonc", *([PurePath(named)] if named else ())]
    for each in (*reversed(user.folder.parents), user.folder):
        files += [each / "opencode.json", each / "opencode.jsonc"]
    found: dict[str, Any] = {}
    for file in files:
        found = merged(found, user.json(file))
    return merged(found, as_json(user.environ.get(CONTENT) or "{}", CONTENT))


CLIENT = Client(
    name="opencode",
    title="opencode",
    program="opencode",
    install="npm install -g opencode-ai",
    route=route,
    question=("run", QUESTION),
    tried="1.18.33",
)

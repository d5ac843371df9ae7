"""pi: a temporary extension that gives its providers other addresses."""

import json
from typing import Any

from autoprune.apps.clients._route import (
    ANTHROPIC,
    FOLDER,
    GEMINI,
    OPENAI,
    QUESTION,
    Client,
    Route,
    User,
    all_led,
    inside,
)
from autoprune.errors import ClientError

USUAL = {"anthropic": ANTHROPIC, "openai": OPENAI, "google": f"{GEMINI}/v1beta"}
FILE = "proxy.ts"


def route(user: User) -> Route:
    """Lead pi's provider by its baseUrl; the three that everybody has where none is named."""
    folder = user.folder_of("PI_CODING_AGENT_DIR", ".pi", "agent")
    own = inside(user.json(folder / "models.json"), "providers") or {}
    chosen = _provider(user, inside(user.json(folder / "settings.json"), "defaultProvider"))
    addresses = {name: _address(user, own, name) for name in ([chosen] if chosen else USUAL)}
    upstream, at_proxy = all_led(user, addresses, USUAL)
    lines = [
        f"  pi.registerProvider({json.dumps(name)}, {{ baseUrl: {json.dumps(address)} }});"
        for name, address in at_proxy.items()
    ]
    extension = "\n".join(("export default function (pi) {", *lines, "}\n"))
    return Route(upstream, {}, ("--extension", f"{FOLDER}/{FILE}", *user.arguments), {FILE: extension})


def _provider(user: User, usual: str | None) -> str | None:
    """Return the provider that the arguments or the settings name; the model may name it too."""
    model = user.option("--model") or ""
    return user.option("--provider") or (model.partition("/")[0] if "/" in model else usual)


def _address(user: User, own: Any, name: str) -> str:
    address = inside(own, name, "baseUrl") or USUAL.get(name) or user.upstream
    if address is None:
        raise ClientError(f"the address of pi's provider {name} is not known here: name it with --upstream")
    return str(address)


CLIENT = Client(
    name="pi",
    title="pi",
    program="pi",
    install="npm install -g @mariozechner/pi-coding-agent",
    route=route,
    question=("-p", QUESTION),
    tried="0.73.1",
)

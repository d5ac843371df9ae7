"""Cline's command line: a temporary copy of its providers, named by a variable."""

import json
from pathlib import PurePath

from autoprune.clients._route import ANTHROPIC, FOLDER, OPENAI, QUESTION, Client, Route, User, inside, led
from autoprune.errors import ClientError

FILE, VARIABLE = "providers.json", "CLINE_PROVIDER_SETTINGS_PATH"
# Its daemon keeps the variables that it was started with, and would outlive the copy.
WITHOUT_DAEMON = {"CLINE_SESSION_BACKEND_MODE": "local"}
USUAL = {"anthropic": f"{ANTHROPIC}/v1", "openai-native": OPENAI}


def route(user: User) -> Route:
    """Lead Cline's provider by the baseUrl of its settings, in a copy."""
    settings = user.json(_file(user))
    name = user.option("-P", "--provider") or settings.get("lastUsedProvider")
    mine = inside(settings, "providers", str(name), "settings")
    if mine is None:
        raise ClientError(
            "Cline has no provider with an address that can be set: "
            "`cline auth openai-compatible -k KEY -m MODEL -b https://api.openai.com/v1` writes one"
        )
    address = mine.get("baseUrl") or USUAL.get(str(name)) or user.upstream
    if address is None or "auth" in mine:
        raise ClientError(f"Cline's provider {name} has a login of its own, and would go past the proxy: take a key")
    upstream, at_proxy = led(user, address, "baseUrl")
    entry = {**settings["providers"][name], "settings": {**mine, "baseUrl": at_proxy}}
    copy = {**settings, "providers": {**settings["providers"], name: entry}}
    environ = {VARIABLE: f"{FOLDER}/{FILE}", **WITHOUT_DAEMON}
    return Route(upstream, environ, user.arguments, {FILE: json.dumps(copy)})


def _file(user: User) -> PurePath:
    """Return where the user's providers are kept."""
    if named := user.environ.get(VARIABLE):
        return PurePath(named)
    data = user.option("--data-dir")
    folder = PurePath(data) if data else user.folder_of("CLINE_DATA_DIR", ".cline", "data")
    return folder / "settings" / FILE


CLIENT = Client(
    name="cline",
    title="Cline",
    program="cline",
    install="npm install -g cline",
    route=route,
    question=("--json", QUESTION),
    tried="3.0.65",
    losses=("nothing, but it compacts by its own count of the unpruned history: --compaction off ends that",),
)

"""Cline's command line: a temporary copy of its providers, named by a variable."""

import json
from pathlib import PurePath

from autoprune.apps.clients._route import ANTHROPIC, FOLDER, OPENAI, QUESTION, Client, Route, User, inside, led, without
from autoprune.errors import ClientError

FILE, MODELS, VARIABLE = "providers.json", "models.json", "CLINE_PROVIDER_SETTINGS_PATH"
OPTION, SANDBOX = "--data-dir", "CLINE_SANDBOX"
# Its daemon keeps the variables that it was started with, and would outlive the copy.
WITHOUT_DAEMON = {"CLINE_SESSION_BACKEND_MODE": "local"}
USUAL = {"anthropic": f"{ANTHROPIC}/v1", "openai-native": OPENAI}
# The variables that --data-dir sets in Cline, besides that of the providers, each with its place in the folder.
OF_SANDBOX = {
    "CLINE_DATA_DIR": "",
    "CLINE_DB_DATA_DIR": "db",
    "CLINE_SESSION_DATA_DIR": "sessions",
    "CLINE_TEAM_DATA_DIR": "teams",
    "CLINE_HOOKS_LOG_PATH": "logs/hooks.jsonl",
}


def route(user: User) -> Route:
    """Route Cline's provider by the baseUrl of its settings, in a copy.

    With --data-dir, or CLINE_SANDBOX=1, Cline overwrites the variable that names the copy. So both are replaced by the
    other variables that they would set.
    """
    if user.arguments[:1] == ("auth",):
        raise ClientError("Cline would save the key in a temporary file: type `cline auth …` without autoprune")
    sandbox = _sandbox(user)
    file = sandbox / "settings" / FILE if sandbox else _file(user)
    settings = user.json(file)
    name = user.option("-P", "--provider") or settings.get("lastUsedProvider")
    mine = inside(settings, "providers", str(name), "settings")
    if mine is None:
        raise ClientError(
            f"Cline has no provider with an address that can be set in {file}: "
            "`cline auth openai-compatible -k KEY -m MODEL -b https://api.openai.com/v1` writes one"
        )
    address = mine.get("baseUrl") or USUAL.get(str(name)) or user.upstream
    if address is None or "auth" in mine:
        raise ClientError(f"Cline's provider {name} has a login of its own, and would go past the proxy: take a key")
    upstream, at_proxy = led(user, address, "baseUrl")
    entry = {**settings["providers"][name], "settings": {**mine, "baseUrl": at_proxy}}
    files = {FILE: json.dumps({**settings, "providers": {**settings["providers"], name: entry}})}
    if models := user.read(file.with_name(MODELS)):
        files[MODELS] = models  # which Cline reads from beside its providers
    environ = {VARIABLE: f"{FOLDER}/{FILE}", **WITHOUT_DAEMON}
    if sandbox is None:
        return Route(upstream, environ, user.arguments, files)
    environ |= {SANDBOX: "0", **{each: str(sandbox / place) for each, place in OF_SANDBOX.items()}}
    return Route(upstream, environ, without(user.arguments, lambda each: each.startswith(f"{OPTION}=")), files)


def _sandbox(user: User) -> PurePath | None:
    """Return the folder of an isolated state, as --data-dir or CLINE_SANDBOX=1 asks for; None without them."""
    named = user.option(OPTION)
    if named is None and user.environ.get(SANDBOX, "").strip() != "1":
        return None
    usual = PurePath(user.variable("TMPDIR", "TMP", "TEMP") or "/tmp", "cline-sandbox")
    folder = user.folder / (user.option("-c", "--cwd") or "")
    return folder / (named or user.variable("CLINE_SANDBOX_DATA_DIR") or usual)


def _file(user: User) -> PurePath:
    """Return where the user's providers are kept outside a sandbox."""
    if named := user.variable(VARIABLE):
        return PurePath(named)
    own = PurePath(user.option("--config") or user.variable("CLINE_DIR") or user.home / ".cline")
    return user.folder / (user.variable("CLINE_DATA_DIR") or own / "data") / "settings" / FILE


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

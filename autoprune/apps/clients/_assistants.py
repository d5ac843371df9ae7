"""Clients whose configuration is simple: a variable, or one file or option that takes precedence over other settings.

Claude Code and Codex have their own modules.
"""

import json
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from autoprune.apps.clients._routing import (
    ANTHROPIC,
    FOLDER,
    GEMINI,
    OPENAI,
    QUESTION,
    Client,
    Route,
    User,
    drop_options,
    get_in,
    is_on,
    merge_objects,
    parse_object,
    refuse_other_process,
    reroute,
    reroute_all,
    with_nearest_env_file,
)
from autoprune.errors import ClientError

# Gemini CLI

GEMINI_KEY_URL, GEMINI_LOGIN_URL = "GOOGLE_GEMINI_BASE_URL", "CODE_ASSIST_ENDPOINT"
CODE_ASSIST = "https://cloudcode-pa.googleapis.com"  # for a login with a Google account


def route_gemini(user: User) -> Route:
    """Route Gemini CLI by a variable, which depends on the login."""
    user = with_nearest_env_file(user, ".gemini", GEMINI_KEY_URL, GEMINI_LOGIN_URL)
    login = _gemini_login(user)
    if login in ("vertex-ai", "cloud-shell", "compute-default-credentials"):
        raise ClientError(
            f"Gemini CLI would bypass the proxy with the login {login}: set GEMINI_API_KEY, and choose it under /auth"
        )
    name, usual = (GEMINI_LOGIN_URL, CODE_ASSIST) if login == "oauth-personal" else (GEMINI_KEY_URL, GEMINI)
    upstream, at_proxy = reroute(user, user.variable(name) or usual, name)
    return Route(upstream, {name: at_proxy}, user.arguments)


def _gemini_login(user: User) -> str:
    """Return the login of Gemini CLI: from its settings, the project's first, or else from the variables."""
    for folder in (user.folder, user.home):
        settings = user.json(folder / ".gemini" / "settings.json")
        if chosen := get_in(settings, "security", "auth", "selectedType") or settings.get("selectedAuthType"):
            return str(chosen)
    if is_on(user.variable("GOOGLE_GENAI_USE_GCA")):
        return "oauth-personal"
    return "vertex-ai" if is_on(user.variable("GOOGLE_GENAI_USE_VERTEXAI")) else "gemini-api-key"


GEMINI_CLI = Client(
    name="gemini",
    agent="gemini-cli",
    title="Gemini CLI",
    install="npm install -g @google/gemini-cli",
    route=route_gemini,
    tried="0.61.0",
)


# opencode

OPENCODE_CONFIG = "OPENCODE_CONFIG_CONTENT"
OPENCODE_VARIABLES = {"anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL"}  # its SDKs read these
OPENCODE_URLS = {"anthropic": f"{ANTHROPIC}/v1", "openai": OPENAI, "google": f"{GEMINI}/v1beta"}


def route_opencode(user: User) -> Route:
    """Route opencode by a configuration in a variable, which takes precedence over its files.

    It sets the base URL of the model's provider; if no model is named, those of the three that need no configuration.
    """
    refuse_other_process(user, "opencode", "--attach", "attach")
    config = opencode_config(user)
    model = user.option("-m", "--model") or config.get("model") or ""
    names = [model.partition("/")[0]] if model else [*OPENCODE_URLS]
    for name in names:
        _refuse_subscription(user, name)
    urls = {name: _opencode_url(user, config, name) for name in names}
    upstream, at_proxy = reroute_all(user, urls, OPENCODE_URLS)
    providers = {name: {"options": {"baseURL": url}} for name, url in at_proxy.items()}
    own = parse_object(user.environ.get(OPENCODE_CONFIG) or "{}", OPENCODE_CONFIG)
    content = merge_objects(own, {"provider": providers})
    return Route(upstream, {OPENCODE_CONFIG: json.dumps(content)}, user.arguments)


def _opencode_url(user: User, config: Mapping[str, Any], name: str) -> str:
    of_config = get_in(config, "provider", name, "options", "baseURL")
    url = of_config or user.variable(OPENCODE_VARIABLES.get(name, "")) or OPENCODE_URLS.get(name) or user.upstream
    if url is None:
        raise ClientError(f"opencode's provider {name} has no baseURL in its configuration: give it with --upstream")
    return re.sub(r"\{env:(\w+)\}", lambda match: user.environ.get(match[1], ""), str(url))


def _refuse_subscription(user: User, name: str) -> None:
    """Raise ClientError for a provider used by subscription, whose base URL cannot be set."""
    logins = user.json(user.folder_of("XDG_DATA_HOME", ".local", "share") / "opencode" / "auth.json")
    if get_in(logins, name, "type") == "oauth" and not user.upstream:
        raise ClientError(
            f"opencode is logged in to {name} by subscription, and would bypass the proxy: "
            f"`opencode auth logout`, then log in with an API key; or name another provider's model with -m"
        )


def opencode_config(user: User) -> dict[str, Any]:
    """Return the configuration from all of the user's files; the nearest to the working folder takes precedence."""
    folder = user.folder_of("XDG_CONFIG_HOME", ".config") / "opencode"
    given = user.environ.get("OPENCODE_CONFIG")
    files = [folder / "opencode.json", folder / "opencode.jsonc", *([PurePath(given)] if given else ())]
    for each in (*reversed(user.folder.parents), user.folder):
        files += [each / "opencode.json", each / "opencode.jsonc"]
    found: dict[str, Any] = {}
    for file in files:
        found = merge_objects(found, user.json(file))
    return merge_objects(found, parse_object(user.environ.get(OPENCODE_CONFIG) or "{}", OPENCODE_CONFIG))


OPENCODE = Client(
    name="opencode",
    title="opencode",
    install="npm install -g opencode-ai",
    route=route_opencode,
    question=("run", QUESTION),
    tried="1.18.33",
)


# Qwen Code

QWEN_URL, QWEN_OPTION = "OPENAI_BASE_URL", "--openai-base-url"


def route_qwen(user: User) -> Route:
    """Route Qwen Code by OPENAI_BASE_URL, and also by its option if that option or a setting would take precedence."""
    user = with_nearest_env_file(user, ".qwen", QWEN_URL)
    of_home = user.json(user.home / ".qwen" / "settings.json")
    settings = get_in(of_home, "security", "auth")
    login = user.option("--auth-type") or get_in(settings, "selectedType") or "openai"
    if login != "openai":
        raise ClientError(
            f"Qwen Code would bypass the proxy with the login {login}: give --auth-type openai, and an API key"
        )
    _refuse_model_url(user, of_home)
    chosen = user.option(QWEN_OPTION) or get_in(settings, "baseUrl")
    upstream, at_proxy = reroute(user, chosen or user.variable(QWEN_URL) or OPENAI, QWEN_URL)
    others = drop_options(user.arguments, f"{QWEN_OPTION}=")
    return Route(upstream, {QWEN_URL: at_proxy}, (QWEN_OPTION, at_proxy, *others) if chosen else others)


def _refuse_model_url(user: User, settings: Mapping[str, Any]) -> None:
    """Raise ClientError if Qwen Code's settings give its model a base URL, which takes precedence over any option."""
    models = user.option("-m", "--model"), user.variable("OPENAI_MODEL"), get_in(settings, "model", "name")
    for each in get_in(settings, "modelProviders", "openai") or ():
        if get_in(each, "baseUrl") and get_in(each, "id") in models:
            raise ClientError(
                f"Qwen Code would bypass the proxy, because modelProviders in its settings.json sets the baseUrl of "
                f"{each['id']}: remove that, and set OPENAI_BASE_URL to {each['baseUrl']}"
            )


QWEN = Client(
    name="qwen",
    title="Qwen Code",
    install="npm install -g @qwen-code/qwen-code",
    route=route_qwen,
    tried="0.24.4",
)


# Copilot CLI

COPILOT_URL, COPILOT_MOST = "COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_MAX_PROMPT_TOKENS"
# Tokens. Copilot compacts by its own count of the unpruned history, which never reaches this number.
OUT_OF_REACH = "900000"


def route_copilot(user: User) -> Route:
    """Route Copilot CLI if it uses the user's own provider; requests to GitHub would bypass the proxy."""
    is_anthropic = user.variable("COPILOT_PROVIDER_TYPE") == "anthropic"
    url = user.variable(COPILOT_URL) or (user.upstream and (ANTHROPIC if is_anthropic else OPENAI))
    if url is None:
        raise ClientError(
            f"Copilot CLI would send requests to GitHub and bypass the proxy: set {COPILOT_URL}, "
            "COPILOT_PROVIDER_API_KEY and COPILOT_MODEL for your own provider (`copilot help providers`)"
        )
    upstream, at_proxy = reroute(user, url, COPILOT_URL)
    most = user.variable(COPILOT_MOST) or OUT_OF_REACH
    return Route(upstream, {COPILOT_URL: at_proxy, COPILOT_MOST: most}, user.arguments)


COPILOT = Client(
    name="copilot",
    agent="copilot-cli",
    newest=("--continue",),
    title="Copilot CLI",
    install="npm install -g @github/copilot",
    route=route_copilot,
    tried="1.0.102",
    losses=(
        f"nothing, but it compacts by its own count of the unpruned history. {COPILOT_MOST}={OUT_OF_REACH}, which is "
        "set unless you set it, prevents that for models that it does not know; for one that it knows, give the "
        "model's name in COPILOT_PROVIDER_WIRE_MODEL and an id of your own in COPILOT_PROVIDER_MODEL_ID",
    ),
)


# Cline

CLINE_FILE, CLINE_MODELS, CLINE_FILE_VARIABLE = "providers.json", "models.json", "CLINE_PROVIDER_SETTINGS_PATH"
CLINE_FOLDER_OPTION, CLINE_SANDBOX = "--data-dir", "CLINE_SANDBOX"
# Without its daemon, which keeps the variables from its start, and would outlive the temporary copy.
CLINE_NO_DAEMON = {"CLINE_SESSION_BACKEND_MODE": "local"}
CLINE_URLS = {"anthropic": f"{ANTHROPIC}/v1", "openai-native": OPENAI}
# The variables that --data-dir sets in Cline, except the one of the providers, with their places in the folder.
CLINE_SANDBOX_VARIABLES = {
    "CLINE_DATA_DIR": "",
    "CLINE_DB_DATA_DIR": "db",
    "CLINE_SESSION_DATA_DIR": "sessions",
    "CLINE_TEAM_DATA_DIR": "teams",
    "CLINE_HOOKS_LOG_PATH": "logs/hooks.jsonl",
}


def route_cline(user: User) -> Route:
    """Route Cline by the baseUrl of its provider, in a temporary copy of its providers that a variable names.

    With --data-dir or CLINE_SANDBOX=1, Cline overwrites that variable: both are replaced by the others that they set.
    """
    if user.arguments[:1] == ("auth",):
        raise ClientError("Cline would save the key in a temporary file: run `cline auth …` without autoprune")
    sandbox = _cline_sandbox(user)
    file = sandbox / "settings" / CLINE_FILE if sandbox else _cline_file(user)
    settings = user.json(file)
    name = user.option("-P", "--provider") or settings.get("lastUsedProvider")
    own = get_in(settings, "providers", str(name), "settings")
    if own is None:
        raise ClientError(
            f"{file} has no Cline provider whose address can be set: "
            "`cline auth openai-compatible -k KEY -m MODEL -b https://api.openai.com/v1` adds one"
        )
    url = own.get("baseUrl") or CLINE_URLS.get(str(name)) or user.upstream
    if url is None or "auth" in own:
        raise ClientError(f"Cline would bypass the proxy with the login of its provider {name}: use an API key")
    upstream, at_proxy = reroute(user, url, "baseUrl")
    entry = {**settings["providers"][name], "settings": {**own, "baseUrl": at_proxy}}
    files = {CLINE_FILE: json.dumps({**settings, "providers": {**settings["providers"], name: entry}})}
    if models := user.read(file.with_name(CLINE_MODELS)):
        files[CLINE_MODELS] = models  # Cline looks for it next to the providers' file
    environ = {CLINE_FILE_VARIABLE: f"{FOLDER}/{CLINE_FILE}", **CLINE_NO_DAEMON}
    if sandbox is None:
        return Route(upstream, environ, user.arguments, files)
    environ |= {CLINE_SANDBOX: "0", **{each: str(sandbox / place) for each, place in CLINE_SANDBOX_VARIABLES.items()}}
    others = drop_options(user.arguments, f"{CLINE_FOLDER_OPTION}=")
    return Route(upstream, environ, others, files)


def _cline_sandbox(user: User) -> PurePath | None:
    """Return the folder of an isolated state, from --data-dir or CLINE_SANDBOX=1; None if neither is set."""
    given = user.option(CLINE_FOLDER_OPTION)
    if given is None and user.environ.get(CLINE_SANDBOX, "").strip() != "1":
        return None
    usual = PurePath(user.variable("TMPDIR", "TMP", "TEMP") or "/tmp", "cline-sandbox")
    folder = user.folder / (user.option("-c", "--cwd") or "")
    return folder / (given or user.variable("CLINE_SANDBOX_DATA_DIR") or usual)


def _cline_file(user: User) -> PurePath:
    """Return the file with the user's providers, if there is no sandbox."""
    if given := user.variable(CLINE_FILE_VARIABLE):
        return PurePath(given)
    own = PurePath(user.option("--config") or user.variable("CLINE_DIR") or user.home / ".cline")
    return user.folder / (user.variable("CLINE_DATA_DIR") or own / "data") / "settings" / CLINE_FILE


CLINE = Client(
    name="cline",
    agent="cline",
    title="Cline",
    install="npm install -g cline",
    route=route_cline,
    question=("--json", QUESTION),
    tried="3.0.65",
    losses=("nothing, but it compacts by its own count of the unpruned history: --compaction off prevents that",),
)


# pi

PI_URLS = {"anthropic": ANTHROPIC, "openai": OPENAI, "google": f"{GEMINI}/v1beta"}
PI_FILE = "proxy.ts"


def route_pi(user: User) -> Route:
    """Route pi by a temporary extension that sets the baseUrl of its provider, or of three if none is named."""
    folder = user.folder_of("PI_CODING_AGENT_DIR", ".pi", "agent")
    own = get_in(user.json(folder / "models.json"), "providers") or {}
    usual = get_in(user.json(folder / "settings.json"), "defaultProvider")
    model = user.option("--model") or ""  # perhaps with its provider
    chosen = user.option("--provider") or (model.partition("/")[0] if "/" in model else usual)
    urls = {name: _pi_url(user, own, name) for name in ([chosen] if chosen else PI_URLS)}
    upstream, at_proxy = reroute_all(user, urls, PI_URLS)
    lines = [
        f"  pi.registerProvider({json.dumps(name)}, {{ baseUrl: {json.dumps(url)} }});"
        for name, url in at_proxy.items()
    ]
    extension = "\n".join(("export default function (pi) {", *lines, "}\n"))
    return Route(upstream, {}, ("--extension", f"{FOLDER}/{PI_FILE}", *user.arguments), {PI_FILE: extension})


def _pi_url(user: User, own: Any, name: str) -> str:
    url = get_in(own, name, "baseUrl") or PI_URLS.get(name) or user.upstream
    if url is None:
        raise ClientError(f"the address of pi's provider {name} is not known: give it with --upstream")
    return str(url)


PI = Client(
    name="pi",
    agent="pi",
    newest=("--continue", "-c"),
    by_id=("--session",),
    title="pi",
    install="npm install -g @earendil-works/pi-coding-agent",
    route=route_pi,
    tried="1.6.0",
)


# mini-swe-agent

# By provider: the variables of LiteLLM's clients for its base URL, and the usual one.
MINI_URLS = {
    "openai": (("OPENAI_BASE_URL", "OPENAI_API_BASE"), OPENAI),
    "anthropic": (("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"), ANTHROPIC),
    "gemini": (("GEMINI_API_BASE",), f"{GEMINI}/v1beta"),
}


def route_mini(user: User) -> Route:
    """Route mini-swe-agent by LiteLLM's variables: those of the model's provider, or all if no model is named."""
    usual = user.folder_of("XDG_CONFIG_HOME", ".config") / "mini-swe-agent"
    user = user.with_env_file(user.folder_of("MSWEA_GLOBAL_CONFIG_DIR", str(usual)) / ".env")
    model = user.option("-m", "--model") or user.variable("MSWEA_MODEL_NAME") or ""
    provider = model.partition("/")[0]
    names = [provider] if provider in MINI_URLS else [*MINI_URLS]
    urls = {name: user.variable(*MINI_URLS[name][0]) or MINI_URLS[name][1] for name in names}
    upstream, at_proxy = reroute_all(user, urls, {name: url for name, (_, url) in MINI_URLS.items()})
    environ = {variable: at_proxy[name] for name in at_proxy for variable in MINI_URLS[name][0]}
    return Route(upstream, environ, user.arguments)


MINI = Client(
    name="mini",
    agent="mini-swe-agent",
    title="mini-swe-agent",
    install="pip install mini-swe-agent",
    route=route_mini,
    question=("-t", QUESTION, "-y", "--exit-immediately"),
    tried="2.4.6",
)

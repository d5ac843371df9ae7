"""Clients that take their address from variables alone: Qwen Code, Copilot CLI, mini-swe-agent."""

from collections.abc import Mapping
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
    inside,
    led,
    with_env_file_of,
    without,
)
from autoprune.errors import ClientError

OF_QWEN = "--openai-base-url"
OF_COPILOT, MOST_OF_COPILOT = "COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_MAX_PROMPT_TOKENS"
OUT_OF_REACH = "900000"  # tokens: more than what is pruned will ever count
# Of each provider of mini-swe-agent: the variables that may name its address, and the usual one.
OF_MINI = {
    "openai": (("OPENAI_BASE_URL", "OPENAI_API_BASE"), OPENAI),
    "anthropic": (("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"), ANTHROPIC),
    "gemini": (("GEMINI_API_BASE",), f"{GEMINI}/v1beta"),
}


def qwen(user: User) -> Route:
    """Lead Qwen Code by OPENAI_BASE_URL, or by the option that counts before it where that or a setting is in use."""
    user = with_env_file_of(user, ".qwen", "OPENAI_BASE_URL")
    of_home = user.json(user.home / ".qwen" / "settings.json")
    settings = inside(of_home, "security", "auth")
    login = user.option("--auth-type") or inside(settings, "selectedType") or "openai"
    if login != "openai":
        raise ClientError(
            f"Qwen Code would go past the proxy with the login {login}: give --auth-type openai, and a key"
        )
    _refuse_own_address(user, of_home)
    named = user.option(OF_QWEN) or inside(settings, "baseUrl")
    upstream, at_proxy = led(user, named or user.variable("OPENAI_BASE_URL") or OPENAI, "OPENAI_BASE_URL")
    others = without(user.arguments, lambda each: each.startswith(f"{OF_QWEN}="))
    return Route(upstream, {"OPENAI_BASE_URL": at_proxy}, (OF_QWEN, at_proxy, *others) if named else others)


def _refuse_own_address(user: User, settings: Mapping[str, Any]) -> None:
    """Raise ClientError where Qwen Code's settings give its model an address, which counts before any option."""
    models = user.option("-m", "--model"), user.variable("OPENAI_MODEL"), inside(settings, "model", "name")
    for each in inside(settings, "modelProviders", "openai") or ():
        if inside(each, "baseUrl") and inside(each, "id") in models:
            raise ClientError(
                f"Qwen Code would go past the proxy, because modelProviders in its settings.json names the address of "
                f"{each['id']}: take that out, and set OPENAI_BASE_URL to {each['baseUrl']}"
            )


def copilot(user: User) -> Route:
    """Lead Copilot CLI where it uses a provider of the user's own; GitHub's routing would go past the proxy."""
    is_anthropic = user.variable("COPILOT_PROVIDER_TYPE") == "anthropic"
    named = user.variable(OF_COPILOT) or (user.upstream and (ANTHROPIC if is_anthropic else OPENAI))
    if named is None:
        raise ClientError(
            f"Copilot CLI would go to GitHub, past the proxy: set {OF_COPILOT}, COPILOT_PROVIDER_API_KEY and "
            "COPILOT_MODEL for a provider of your own (`copilot help providers`)"
        )
    upstream, at_proxy = led(user, named, OF_COPILOT)
    most = user.variable(MOST_OF_COPILOT) or OUT_OF_REACH
    return Route(upstream, {OF_COPILOT: at_proxy, MOST_OF_COPILOT: most}, user.arguments)


def mini(user: User) -> Route:
    """Lead mini-swe-agent by the variables of LiteLLM: those of the model's provider, or of all where none is named."""
    usual = user.folder_of("XDG_CONFIG_HOME", ".config") / "mini-swe-agent"
    user = user.with_env_file(user.folder_of("MSWEA_GLOBAL_CONFIG_DIR", str(usual)) / ".env")
    model = user.option("-m", "--model") or user.variable("MSWEA_MODEL_NAME") or ""
    provider = model.partition("/")[0]
    names = [provider] if provider in OF_MINI else [*OF_MINI]
    addresses = {name: user.variable(*OF_MINI[name][0]) or OF_MINI[name][1] for name in names}
    upstream, at_proxy = all_led(user, addresses, {name: address for name, (_, address) in OF_MINI.items()})
    environ = {variable: at_proxy[name] for name in at_proxy for variable in OF_MINI[name][0]}
    return Route(upstream, environ, user.arguments)


QWEN = Client(
    name="qwen",
    title="Qwen Code",
    program="qwen",
    install="npm install -g @qwen-code/qwen-code",
    route=qwen,
    question=("-p", QUESTION),
    tried="0.15.10",
)
COPILOT = Client(
    name="copilot",
    title="Copilot CLI",
    program="copilot",
    install="npm install -g @github/copilot",
    route=copilot,
    question=("-p", QUESTION),
    tried="1.0.102",
    losses=(
        f"nothing, but it compacts by its own count of the unpruned history: {MOST_OF_COPILOT}={OUT_OF_REACH}, which "
        "is set unless you set it, ends that for a model that it does not know; name one that it knows by "
        "COPILOT_PROVIDER_WIRE_MODEL, with an id of your own in COPILOT_PROVIDER_MODEL_ID",
    ),
)
MINI = Client(
    name="mini",
    title="mini-swe-agent",
    program="mini",
    install="pip install mini-swe-agent",
    route=mini,
    question=("-t", QUESTION, "-y", "--exit-immediately"),
    tried="2.4.6",
)

"""Claude Code: one variable, or a setting where the user's own settings name an address. A login goes with it."""

import json
from collections.abc import Mapping
from typing import Any

from autoprune.apps.clients._route import (
    ANTHROPIC,
    FOLDER,
    QUESTION,
    Client,
    Route,
    User,
    as_json,
    inside,
    is_on,
    led,
    refuse_elsewhere,
    without,
)
from autoprune.errors import ClientError

ADDRESS = "ANTHROPIC_BASE_URL"
OPTION, FILE = "--settings", "settings.json"
OF_PROJECT = "settings.json", "settings.local.json"
ELSEWHERE = (  # other clouds, whose requests are signed for their address
    *("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY", "CLAUDE_CODE_USE_MANTLE"),
    *("CLAUDE_CODE_USE_ANTHROPIC_AWS", "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD", "ANTHROPIC_UNIX_SOCKET"),
)


# Options and commands with which another process, or another machine, asks the model.
OTHER_PROCESSES = ("--bg", "--background", "--cloud", "--environment", "attach", "respawn", "ultrareview")


def route(user: User) -> Route:
    """Lead Claude Code by ANTHROPIC_BASE_URL. Settings files come before variables, and `--settings` before those."""
    refuse_elsewhere(user, "Claude Code", *OTHER_PROCESSES)
    given = _given(user)
    of_home = _env(user.json(user.folder_of("CLAUDE_CONFIG_DIR", ".claude") / "settings.json"))
    files = (user.folder / ".claude" / name for name in OF_PROJECT)
    of_project = {name: value for file in files for name, value in _env(user.json(file)).items()}
    of_settings = {**of_home, **of_project, **_env(given)}  # of which the last counts
    if ADDRESS not in _env(given):
        _check_trust(user, of_project.get(ADDRESS))
    counting = {**user.environ, **of_settings}
    if far := next((name for name in ELSEWHERE if is_on(counting.get(name))), None):
        raise ClientError(
            f"Claude Code would go past the proxy, because {far} is set: unset it, or run it without this"
        )
    upstream, address = led(user, counting.get(ADDRESS) or ANTHROPIC, ADDRESS)
    if ADDRESS not in of_settings:
        return Route(upstream, {ADDRESS: address}, user.arguments)
    settings = json.dumps({**given, "env": {**(inside(given, "env") or {}), ADDRESS: address}})
    if not given:
        return Route(upstream, {ADDRESS: address}, (OPTION, settings, *user.arguments))
    others = without(user.arguments, lambda each: each.startswith(f"{OPTION}="))
    # What the user gives may hold keys, which would be seen in the list of processes.
    return Route(upstream, {ADDRESS: address}, (OPTION, f"{FOLDER}/{FILE}", *others), {FILE: settings})


def _given(user: User) -> dict[str, Any]:
    """Return the settings that `--settings` gives: as JSON, or in a file."""
    given = user.option(OPTION)
    if not given:
        return {}
    return as_json(given, OPTION) if given.lstrip().startswith("{") else user.json(user.folder / given)


def _check_trust(user: User, address: str | None) -> None:
    """Raise ClientError where a project's settings alone say where keys are sent.

    Whether the user trusts the project, Claude Code asks later.
    """
    if address and not user.upstream and address != user.variable(ADDRESS):
        raise ClientError(
            f"settings in {user.folder / '.claude'} name {ADDRESS} {address}: set that variable to the same address to "
            "have it used, or give --upstream"
        )


def _env(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables that settings set, as texts."""
    own = inside(settings, "env")
    return {name: str(value) for name, value in own.items() if value is not None} if isinstance(own, Mapping) else {}


CLIENT = Client(
    name="claude",
    title="Claude Code",
    program="claude",
    install="npm install -g @anthropic-ai/claude-code",
    route=route,
    question=("-p", QUESTION),
    tried="2.1.330",
    losses=(
        "nothing in 2.1.330; other versions may lose deferred tools (ToolSearch), which ENABLE_TOOL_SEARCH=true "
        "brings back, and the window of a million tokens, which [1m] behind the model's name does",
    ),
)

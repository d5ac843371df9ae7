"""Claude Code: one variable, or a setting if the user's settings name a base URL. Works with a subscription login."""

import json
from collections.abc import Mapping
from functools import reduce
from typing import Any

from autoprune.apps.clients._routing import (
    ANTHROPIC,
    FOLDER,
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
)
from autoprune.errors import ClientError

BASE_URL = "ANTHROPIC_BASE_URL"
TOOL_SEARCH = "ENABLE_TOOL_SEARCH"
OPTION, FILE = "--settings", "settings.json"  # the option that passes settings, and our temporary file for it
PROJECT_FILES = "settings.json", "settings.local.json"
OTHER_CLOUDS = (  # their requests are signed for their own host
    *("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY", "CLAUDE_CODE_USE_MANTLE"),
    *("CLAUDE_CODE_USE_ANTHROPIC_AWS", "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD", "ANTHROPIC_UNIX_SOCKET"),
)
# Options and subcommands that make another process, or another machine, call the model.
OTHER_PROCESSES = ("--bg", "--background", "--cloud", "--environment", "attach", "respawn", "ultrareview")


def route(user: User) -> Route:
    """Route Claude Code by ANTHROPIC_BASE_URL.

    Settings files take precedence over variables, and `--settings` over files. So if any settings name a base URL, the
    proxy's is passed with `--settings`.

    Some versions load the schemas of all tools at a base URL that is not Anthropic's. ENABLE_TOOL_SEARCH makes them
    defer tools as without the proxy. It is left alone if the user sets it, and if the upstream is not Anthropic's API.
    """
    refuse_other_process(user, "Claude Code", *OTHER_PROCESSES)
    own, *project, given = _settings(user)
    of_settings = _env(own, *project, given)
    if BASE_URL not in _env(given):
        _check_trust(user, _env(*project).get(BASE_URL))
    effective = {**user.environ, **of_settings}
    if cloud := next((name for name in OTHER_CLOUDS if is_on(effective.get(name))), None):
        raise ClientError(
            f"Claude Code would bypass the proxy, because {cloud} is set: unset it, or run it without autoprune"
        )
    upstream, at_proxy = reroute(user, effective.get(BASE_URL) or ANTHROPIC, BASE_URL)
    keeps_search = upstream == ANTHROPIC and TOOL_SEARCH not in effective
    environ = {BASE_URL: at_proxy} | ({TOOL_SEARCH: "true"} if keeps_search else {})
    if BASE_URL not in of_settings:
        return Route(upstream, environ, user.arguments)
    settings = json.dumps({**given, "env": {**(get_in(given, "env") or {}), BASE_URL: at_proxy}})
    if not given:
        return Route(upstream, environ, (OPTION, settings, *user.arguments))
    others = drop_options(user.arguments, f"{OPTION}=")
    # A file, because the user's settings may hold keys, and arguments are visible in the list of processes.
    return Route(upstream, environ, (OPTION, f"{FOLDER}/{FILE}", *others), {FILE: settings})


def claude_settings(user: User) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the environment variables that Claude Code sees, and its settings from all files."""
    files = _settings(user)
    return {**user.environ, **_env(*files)}, reduce(merge_objects, files)


def _settings(user: User) -> list[dict[str, Any]]:
    """Return the settings of the user, the project's files and the option; each takes precedence over those before."""
    own = user.folder_of("CLAUDE_CONFIG_DIR", ".claude") / "settings.json"
    files = [user.json(each) for each in (own, *(user.folder / ".claude" / name for name in PROJECT_FILES))]
    given = user.option(OPTION) or "{}"  # JSON, or the name of a file
    option = parse_object(given, OPTION) if given.lstrip().startswith("{") else user.json(user.folder / given)
    return [*files, option]


def _check_trust(user: User, url: str | None) -> None:
    """Raise ClientError if only a project's settings decide where keys are sent.

    Claude Code asks the user whether to trust the project, but only later.
    """
    if url and not user.upstream and url != user.variable(BASE_URL):
        raise ClientError(
            f"the settings in {user.folder / '.claude'} set {BASE_URL} to {url}: set it to the same address in the "
            "environment to use it, or give --upstream"
        )


def _env(*settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment variables in settings, the last of which take precedence."""
    objects = (own for each in settings if isinstance(own := get_in(each, "env"), Mapping))
    return {name: str(value) for own in objects for name, value in own.items() if value is not None}


CLIENT = Client(
    name="claude",
    title="Claude Code",
    install="npm install -g @anthropic-ai/claude-code",
    route=route,
    tried="2.1.332",
    agent="claude-code",
    newest=("--continue", "-c"),
    by_id=("--resume",),
    losses=(
        "what it offers only at Anthropic's address: the system prompt's cache that sessions share, the API's cache "
        "diagnosis, settings that an organization manages on the server, and Remote Control",
        "in other versions the window of a million tokens, which [1m] after the model's name restores",
    ),
)

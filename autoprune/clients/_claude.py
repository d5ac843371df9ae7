"""Claude Code: one variable, or a setting where the user's own settings name an address. A login goes with it."""

import json
from collections.abc import Mapping

from autoprune.clients._route import ANTHROPIC, QUESTION, Client, Route, User, inside, is_on, led
from autoprune.errors import ClientError

ADDRESS = "ANTHROPIC_BASE_URL"
ELSEWHERE = (  # other clouds, whose requests are signed for their address
    *("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY", "CLAUDE_CODE_USE_MANTLE"),
    *("CLAUDE_CODE_USE_ANTHROPIC_AWS", "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD", "ANTHROPIC_UNIX_SOCKET"),
)


def route(user: User) -> Route:
    """Lead Claude Code by ANTHROPIC_BASE_URL. Settings files come before variables, and `--settings` before those."""
    of_settings = _variables(user)
    counting = {**user.environ, **of_settings}
    if far := next((name for name in ELSEWHERE if is_on(counting.get(name))), None):
        raise ClientError(
            f"Claude Code would go past the proxy, because {far} is set: unset it, or run it without this"
        )
    upstream, address = led(user, counting.get(ADDRESS) or ANTHROPIC, ADDRESS)
    if ADDRESS not in of_settings:
        return Route(upstream, {ADDRESS: address}, user.arguments)
    if user.option("--settings"):
        raise ClientError(f"a settings file names {ADDRESS}, which --settings would set: leave one of them out")
    settings = json.dumps({"env": {ADDRESS: address}})
    return Route(upstream, {ADDRESS: address}, ("--settings", settings, *user.arguments))


def _variables(user: User) -> Mapping[str, str]:
    """Return the variables that the user's settings files set, as texts, of which the nearest counts."""
    files = [
        user.folder_of("CLAUDE_CONFIG_DIR", ".claude") / "settings.json",
        user.folder / ".claude" / "settings.json",
        user.folder / ".claude" / "settings.local.json",
    ]
    found: dict[str, str] = {}
    for file in files:
        own = inside(user.json(file), "env")
        known = own.items() if isinstance(own, Mapping) else ()
        found |= {name: str(value) for name, value in known if value is not None}
    return found


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

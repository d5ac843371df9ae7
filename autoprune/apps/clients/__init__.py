"""Assistants that can be led to a proxy: one value for each says what must be set for one run. Sets nothing itself.

client = named("claude")
route = client.route(user)  # raises ClientError where its requests would go past the proxy
run(client.program, route.through(proxy.url, folder))
"""

from autoprune.apps.clients import _by_variables, _claude, _cline, _codex, _gemini, _opencode, _pi
from autoprune.apps.clients._route import Client, Route, User
from autoprune.errors import ClientError, did_you_mean

__all__ = ["CLIENTS", "Client", "Route", "User", "named"]

# To add a client, add a line.
CLIENTS = (
    _claude.CLIENT,
    _codex.CLIENT,
    _gemini.CLIENT,
    _opencode.CLIENT,
    _by_variables.QWEN,
    _by_variables.COPILOT,
    _cline.CLIENT,
    _pi.CLIENT,
    _by_variables.MINI,
)


def named(name: str) -> Client:
    """Return the client of a name. Raises ClientError where there is none."""
    known = {client.name: client for client in CLIENTS}
    if name not in known:
        raise ClientError(f"there is no client {name!r}{did_you_mean(name, known)}; there are {', '.join(known)}")
    return known[name]

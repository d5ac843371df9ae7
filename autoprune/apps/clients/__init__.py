"""Assistants that can be routed through a proxy: each `Client` gives the settings for one run. Applies none itself.

client = find_client("claude")
route = client.route(user)  # raises ClientError if its requests would bypass the proxy
run(client.name, route.through(proxy.url, folder))
"""

from autoprune.apps.clients import _assistants, _claude_cli, _codex_cli
from autoprune.apps.clients._routing import Client, Route, User, is_http_url
from autoprune.errors import ClientError, near_or_all

__all__ = ["CLIENTS", "Client", "Route", "User", "find_client", "is_http_url"]

# To add a client, add its constant here.
CLIENTS = (
    _claude_cli.CLIENT,
    _codex_cli.CLIENT,
    _assistants.GEMINI_CLI,
    _assistants.OPENCODE,
    _assistants.QWEN,
    _assistants.COPILOT,
    _assistants.CLINE,
    _assistants.PI,
    _assistants.MINI,
)


def find_client(name: str) -> Client:
    """Look up a client by its name. Raises ClientError if there is none."""
    known = {client.name: client for client in CLIENTS}
    if name not in known:
        raise ClientError(f"there is no client {name!r}{near_or_all(name, known)}")
    return known[name]

"""A proxy in front of a provider's API that prunes each conversation that passes through it.

    with running(Settings(safe_zone="100k")) as proxy:
        ...  # use proxy.url as the client's base URL
    print(proxy.sessions[-1].ledger)

Requests that are not conversations are forwarded unchanged. API keys pass through and are never stored. Needs the extra
`proxy`: `pip install '.[proxy]'` in a clone.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from autoprune.apps.proxy._configuration import Settings, usual_jobs

if TYPE_CHECKING:
    from autoprune.apps.proxy._server import Running, running, server
    from autoprune.apps.proxy._traffic import ClientSession, Point

__all__ = ["ClientSession", "Point", "Running", "Settings", "running", "server", "usual_jobs"]
# Lazy imports: worker processes need no server, which would be a third of their memory.
LAZY = {
    **dict.fromkeys(("Running", "running", "server"), "_server"),
    **dict.fromkeys(("Point", "ClientSession"), "_traffic"),
}


def __getattr__(name: str) -> Any:
    if name not in LAZY:
        raise AttributeError(f"module 'autoprune.apps.proxy' has no attribute {name!r}")
    return getattr(import_module(f"autoprune.apps.proxy.{LAZY[name]}"), name)

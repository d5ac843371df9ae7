"""A proxy in front of a provider's API that prunes each conversation on its way, for assistants of somebody else's.

    with running(Settings(safe_zone="100k")) as proxy:
        ...  # point a client's base address at proxy.url
    print(proxy.sessions[-1].ledger)

It prunes what is a conversation and passes on everything else; keys pass through and are never stored. Needs the extra
`proxy`: pip install 'autoprune[proxy]'.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from autoprune.apps.proxy._memory import give_back
from autoprune.apps.proxy._settings import Settings, usual_jobs

if TYPE_CHECKING:
    from autoprune.apps.proxy._server import Running, running, server
    from autoprune.apps.proxy._sessions import Point, Session

__all__ = ["Point", "Running", "Session", "Settings", "give_back", "running", "server", "usual_jobs"]
# The processes that prune need no server, which is a third of what they would hold.
LATE = {
    **dict.fromkeys(("Running", "running", "server"), "_server"),
    **dict.fromkeys(("Point", "Session"), "_sessions"),
}


def __getattr__(name: str) -> Any:
    """A public name whose module is loaded when it is first asked for."""
    if name not in LATE:
        raise AttributeError(f"module 'autoprune.apps.proxy' has no attribute {name!r}")
    return getattr(import_module(f"autoprune.apps.proxy.{LATE[name]}"), name)

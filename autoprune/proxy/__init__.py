"""A proxy in front of a provider's API that prunes each conversation on its way, for assistants of somebody else's.

    with running(Settings(safe_zone="100k")) as proxy:
        ...  # point a client's base address at proxy.url
    print(proxy.sessions[-1].ledger)

It prunes what is a conversation and passes on everything else; keys pass through and are never stored. Needs the extra
`proxy`: pip install 'autoprune[proxy]'.
"""

from autoprune.proxy._server import Running, running, server
from autoprune.proxy._sessions import Point, Session
from autoprune.proxy._settings import Settings, usual_jobs

__all__ = ["Point", "Running", "Session", "Settings", "running", "server", "usual_jobs"]

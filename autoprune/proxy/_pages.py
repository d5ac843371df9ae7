"""What the proxy serves itself: metrics."""

from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from autoprune.proxy._app import Proxy


def pages(proxy: Proxy) -> Any:
    """Return the application of the proxy's own pages."""

    async def home(request: Request) -> PlainTextResponse:
        return PlainTextResponse("autoprune")

    application = Starlette()
    application.add_route("/", home)
    return application

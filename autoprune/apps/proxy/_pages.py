"""What the proxy serves itself: its page with state and recall behind it, and metrics.

    /?token=…               sets a cookie and goes on to /, so that the token does not stay in the address
    /                       the page, with its files under /autoprune/
    /autoprune/state        what went through, as JSON; ?session=NAME gives the details of that conversation alone
    /autoprune/recall/ID    a payload that was cleared, as text
    /metrics                for Prometheus

The page shows what tools said, and only to who has the token; metrics are figures, which programs of this machine may
read without it. No answer may be framed or kept, and none can run anything but the page's own scripts.
"""

import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from autoprune.apps.frontend import asset
from autoprune.apps.proxy._app import Proxy, names
from autoprune.apps.proxy._guard import TOKEN_QUERY, cookie_name, quoted
from autoprune.apps.proxy._metrics import CONTENT_TYPE, metrics
from autoprune.apps.proxy._state import revision, state

STATE, RECALL, FILES = "/autoprune/state", "/autoprune/recall/", "/autoprune/"
KINDS: Mapping[str, str] = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
PAGE, REFUSAL, STYLE = "index.html", "refused.html", "page.css"
FREE = ("/metrics", f"{FILES}{STYLE}")  # without the token, but for other machines
SCRIPTS = ("page.js", "cleared.js", "session.js", "words.js")
SHARED_SCRIPTS = ("chart.js", "columns.js", "dom.js", "numbers.js")
BASE_STYLE = "base.css"
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Pages:
    """The application of the proxy's own pages."""

    def __init__(self, proxy: Proxy) -> None:
        """Take the proxy whose traffic is shown."""
        self._proxy = proxy
        self._files = {name: asset(f"page/{name}", "autoprune.apps.proxy") for name in (PAGE, REFUSAL, STYLE, *SCRIPTS)}
        self._files |= {name: asset(name) for name in SHARED_SCRIPTS}
        self._files[STYLE] = asset(BASE_STYLE) + self._files[STYLE]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        response = await self._answer(Request(scope))
        response.headers.update(HEADERS)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        headers, path = names(request.scope), request.url.path
        if words := self._proxy.guard.foreign(headers):
            return PlainTextResponse(f"autoprune: {words}\n", 403)
        is_free = path in FREE and not self._proxy.settings.is_open
        if not is_free and not self._proxy.guard.may_look(headers, request.url.query):
            return self._served(REFUSAL, 403)
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("autoprune: this address is read with GET\n", 405, {"allow": "GET, HEAD"})
        return await self._looked_at(request, path)

    async def _looked_at(self, request: Request, path: str) -> Response:
        """Return what stands at a path, to who may look at it."""
        if path == "/":
            return self._entered(request) if TOKEN_QUERY in request.query_params else self._served(PAGE)
        if path == "/metrics":
            text = metrics(self._proxy.sessions)
            return Response(text.encode("utf-8", "replace"), media_type=CONTENT_TYPE)
        if path == STATE:
            return self._state(request)
        if path.startswith(RECALL):
            return await self._recalled(path.removeprefix(RECALL))
        name = path.removeprefix(FILES)
        return (
            self._served(name) if name in self._files else PlainTextResponse("autoprune: there is no such page\n", 404)
        )

    def _served(self, name: str, status: int = 200) -> Response:
        return Response(self._files[name], status, media_type=KINDS[name.rpartition(".")[2]])

    def _entered(self, request: Request) -> Response:
        """Keep the token in a cookie, and go on without it in the address."""
        response = RedirectResponse("/", 303)
        name = cookie_name(request.headers.get("host", ""))
        response.set_cookie(name, quoted(self._proxy.settings.token), httponly=True, samesite="strict")
        return response

    def _state(self, request: Request) -> Response:
        wanted = request.query_params.get("session")
        mark = f'"{revision(self._proxy.sessions, wanted)}"'
        if request.headers.get("if-none-match") == mark:
            return Response(status_code=304, headers={"etag": mark})
        found = state(self._proxy.settings, self._proxy.sessions, wanted)
        return Response(json.dumps(found), headers={"etag": mark}, media_type="application/json")

    async def _recalled(self, id: str) -> Response:
        text = await self._proxy.lanes.recall(id)
        if text is None:
            words = f"autoprune: nothing is kept under {id!r}: only the newest payloads are, and none after a restart\n"
            return PlainTextResponse(words.encode("utf-8", "replace"), 404)
        return PlainTextResponse(text.encode("utf-8", "replace"))


def pages(proxy: Proxy) -> Any:
    """Return the application of the proxy's own pages."""
    return Pages(proxy)

"""The proxy as an ASGI application: guards, prunes, passes on, and keeps account.

    client → guard → body → lane (prune) → upstream → client
                              │                  │
                              └── session ◄──────┘ usage, status

A request that is no conversation, that cannot be read, or that is an assistant's own compaction goes on as it came.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from autoprune.proxy._bodies import unpacked
from autoprune.proxy._forward import (
    ClientGoneError,
    Outgoing,
    Receive,
    Scope,
    Send,
    UpstreamError,
    answered,
    body_of,
    disconnected,
    new_client,
    pass_back,
)
from autoprune.proxy._guard import Guard, cookie_name
from autoprune.proxy._lanes import Lanes
from autoprune.proxy._pruning import Done, Job
from autoprune.proxy._sessions import Session, Sessions, session_of
from autoprune.proxy._settings import Settings
from autoprune.proxy._upstream import OWN, address, error, passed_on, with_changed, without_cookie
from autoprune.proxy._usage import UsageReader
from autoprune.requests import place

COMPACTION = ("x-interaction-type", "conversation-compaction")  # how Copilot marks its own
SIGNED = "AWS4-"  # a signature of the whole request, its body too
REFUSED = 400
NO_UPGRADE = 426  # by which Codex knows at once that it must go on over HTTP; after any other it tries five times


@dataclass
class Asked:
    """A request as it came, and what was found out about it."""

    scope: Scope
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def path(self) -> str:
        """The path as it was written, with its escapes."""
        raw: bytes = self.scope.get("raw_path") or self.scope["path"].encode()
        return raw.partition(b"?")[0].decode("latin-1")

    @property
    def query(self) -> str:
        """What stands behind the question mark."""
        query: bytes = self.scope["query_string"]
        return query.decode("latin-1")


class Proxy:
    """The application. `sessions` is what went through it."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        """Take the settings, and start the lanes. Raises SettingsError where the upstream cannot be reached."""
        self.settings = settings
        self.sessions = Sessions()
        self.guard = Guard(settings)
        self._client = new_client()
        self.lanes = Lanes(settings)
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        asked = Asked(scope, names(scope))
        if words := self.guard.refusal(asked.headers):
            await refuse(send, asked, 403, words)
            return
        if asked.headers.get("upgrade", "").lower() == "websocket":
            await refuse(send, asked, NO_UPGRADE, "WebSockets are not passed on: ask over HTTP")
            return
        with suppress(ClientGoneError):
            asked.body = await body_of(receive)
            await self._serve(asked, receive, send)

    async def close(self) -> None:
        """Close the connections, and end the lanes."""
        await self._client.aclose()
        await asyncio.to_thread(self.lanes.close)

    async def _serve(self, asked: Asked, receive: Receive, send: Send) -> None:
        self.sessions.requests += 1
        job = await self._job(asked)
        lane = await self.lanes.of(job) if job else 0
        done = await self.lanes.prune(lane, job) if job else Done()
        session = self._session(done, job, asked) if job and done.conversation and not done.counts_only else None
        if session is None:
            self.sessions.pass_on(done.note)
        outgoing = self._outgoing(asked, done)
        asked.body, job, done = b"", job and replace(job, body=b""), replace(done, body=None)  # an answer may take long
        gone = asyncio.ensure_future(disconnected(receive))
        noting = asyncio.ensure_future(self._note(lane, session, done, job))
        try:
            usage = await self._forward(asked, outgoing, send, gone, session)
        finally:
            gone.cancel()
            await noting
        if session and usage:
            session.usage = usage
            await self.lanes.answered(lane, session.name, usage)

    async def _note(self, lane: int, session: Session | None, done: Done, job: Job | None) -> None:
        """Enter a request into its session's account, while it is on its way."""
        if session and job and (account := await self.lanes.account(lane, done.number)):
            session.sent(account, done, job)

    async def _job(self, asked: Asked) -> Job | None:
        """Return what there is to prune in a request; None where it is passed on as it is."""
        is_theirs = asked.headers.get(COMPACTION[0]) == COMPACTION[1]
        is_signed = asked.headers.get("authorization", "").startswith(SIGNED)
        if is_theirs or is_signed or asked.scope["method"] != "POST" or place(asked.path, {}) is None:
            return None
        encoding = asked.headers.get("content-encoding", "")
        body = await asyncio.to_thread(unpacked, asked.body, encoding) if encoding else asked.body
        if body is None:
            return None
        betas = {name: value for name, value in asked.headers.items() if name == "anthropic-beta"}
        return Job(asked.path, betas, body, session_of(asked.headers), self._clock())

    def _session(self, done: Done, job: Job, asked: Asked) -> Session:
        return self.sessions.of(done, job, asked.headers.get("user-agent", ""))

    def _outgoing(self, asked: Asked, done: Done) -> Outgoing:
        """Return the request to the upstream: what came, or what pruning made of it."""
        url = address(self.settings, asked.path, asked.query, asked.headers)
        own = without_cookie(asked.scope["headers"], cookie_name(asked.headers.get("host", "")))
        if done.body is None:
            return Outgoing(asked.scope["method"], url, passed_on(own, *OWN), asked.body)
        changed = {name: value for name, value in done.headers.items() if asked.headers.get(name) != value}
        headers = with_changed(passed_on(own, *OWN, "content-encoding"), changed)
        return Outgoing(asked.scope["method"], url, headers, done.body)

    async def _forward(
        self, asked: Asked, outgoing: Outgoing, send: Send, gone: asyncio.Future[None], session: Session | None
    ) -> dict[str, Any]:
        """Send a request on and its answer back; return the usage in it, {} where there is none."""
        try:
            async with answered(self._client, outgoing, gone) as response:
                self._status(response.status_code, session)
                kind, encoding = (response.headers.get(f"content-{each}", "") for each in ("type", "encoding"))
                reader = UsageReader(kind, encoding)
                await pass_back(response, send, gone, reader.feed)
        except UpstreamError as failure:
            self.sessions.failed += 1
            if session:
                session.failed += 1
            await refuse(send, asked, failure.status, str(failure))
            return {}
        return reader.end() if response.status_code < REFUSED else {}

    def _status(self, status: int, session: Session | None) -> None:
        self.sessions.refused += status >= REFUSED
        if session:
            session.refused += status >= REFUSED


def names(scope: Scope) -> dict[str, str]:
    """Return the headers of a request by their names in lower case; the values of one that comes twice are joined."""
    found: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name, text = raw.decode("latin-1").lower(), value.decode("latin-1")
        found[name] = f"{found[name]}, {text}" if name in found else text
    return found


async def refuse(send: Send, asked: Asked, status: int, words: str) -> None:
    """Answer with an error, written as the API of the request writes its own."""
    body = error(asked.path, asked.headers, status, f"autoprune: {words}")
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def lifespan(proxy: Proxy, pages: Any) -> Any:
    """Return the whole application: the pages that it serves itself, the proxy for all else, and its end."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await live(proxy, receive, send)
        elif scope["type"] == "http":
            await (pages if is_page(scope) else proxy)(scope, receive, send)

    return application


def is_page(scope: Scope) -> bool:
    """Return whether a request is for the proxy's own pages."""
    return scope["path"] in ("/", "/metrics", "/favicon.ico") or scope["path"].startswith("/autoprune/")


async def live(proxy: Proxy, receive: Receive, send: Send) -> None:
    """Begin and end with the server."""
    while True:
        event = (await receive())["type"]
        if event == "lifespan.startup":
            proxy.lanes.warm()
        if event == "lifespan.shutdown":
            await proxy.close()
        await send({"type": f"{event}.complete"})
        if event == "lifespan.shutdown":
            return

"""The proxy as an ASGI application: guards, prunes, passes on, and keeps account.

    client → guard → body → lane (prune) → upstream → client
                              │                  │
                              └── session ◄──────┘ usage, status

A request that is no conversation, that cannot be read, or that is an assistant's own compaction goes on as it came. So
does one at which pruning fails, whatever the fault: the client must have its answer.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from autoprune.apps.proxy._bodies import UnreadError, unpacked
from autoprune.apps.proxy._connections import HEAD_BYTES
from autoprune.apps.proxy._forward import (
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
from autoprune.apps.proxy._guard import Guard, cookie_name
from autoprune.apps.proxy._lanes import Lanes
from autoprune.apps.proxy._pruning import Done, Job
from autoprune.apps.proxy._sessions import Session, Sessions, session_of
from autoprune.apps.proxy._settings import Settings
from autoprune.apps.proxy._upstream import (
    OWN,
    address,
    error,
    passed_on,
    with_changed,
    with_readable_answer,
    without_cookie,
)
from autoprune.apps.proxy._usage import UsageReader
from autoprune.pruners.requests import place

COMPACTION = ("x-interaction-type", "conversation-compaction")  # how Copilot marks its own
SIGNED = "AWS4-"  # a signature of the whole request, its body too
REFUSED = 400
LAST_ACCOUNTS = 10.0  # seconds that the last requests may take to be accounted for when the proxy ends
MOST_FIELDS = 256  # of a request's head: assistants send some thirty, and what is done with them takes their square
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


@dataclass(frozen=True)
class Taken:
    """What was made of a request, by which lane; `session` is that of its conversation, None if there is none."""

    done: Done
    job: Job | None = None
    lane: int = 0
    session: Session | None = None


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
        self._noting: set[asyncio.Future[int]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        asked = Asked(scope, names(scope))
        if words := self.guard.refusal(asked.headers):
            await refuse(send, asked, 403, words)
            return
        if has_dots(asked.path):
            await refuse(send, asked, 400, "the path has a segment . or .., which servers resolve: leave it out")
            return
        if asked.headers.get("upgrade", "").lower() == "websocket":
            await refuse(send, asked, NO_UPGRADE, "WebSockets are not passed on: ask over HTTP")
            return
        with suppress(ClientGoneError):
            asked.body = await body_of(receive)
            await self._serve(asked, receive, send)

    async def close(self) -> None:
        """Close the connections, and end the lanes, once the accounts of what was sent are made."""
        if self._noting:
            await asyncio.wait(self._noting, timeout=LAST_ACCOUNTS)
        await self._client.aclose()
        await asyncio.to_thread(self.lanes.close)

    async def _serve(self, asked: Asked, receive: Receive, send: Send) -> None:
        self.sessions.requests += 1
        taken = await self._taken(asked)
        if taken.session is None:
            self.sessions.pass_on(taken.done.note)
        sending = [self._outgoing(asked, taken)]
        # An answer may take long, and does not need the bodies.
        asked.body, done, job = b"", replace(taken.done, body=None), taken.job and replace(taken.job, body=b"")
        taken = replace(taken, done=done, job=job)
        gone = asyncio.ensure_future(disconnected(receive))
        noting = asyncio.ensure_future(self._note(taken))
        self._noting.add(noting)
        noting.add_done_callback(self._noting.discard)
        try:
            usage = await self._forward(asked, sending.pop(), send, gone, taken.session)
        finally:
            gone.cancel()
            number = await asyncio.shield(noting)  # the server cancels what takes long when it ends
        if taken.session and usage is None:
            taken.session.take_back(number)
        if taken.session and usage:
            taken.session.usage = usage
            with self._noting_faults():
                await self.lanes.answered(taken.lane, taken.session.name, usage)

    async def _taken(self, asked: Asked) -> Taken:
        """Return a request with its conversation pruned; as it came, with a note, if that cannot be."""
        try:
            job = await self._job(asked)
            return await self._pruned(asked, job) if job else Taken(Done())
        except UnreadError as error:
            return Taken(Done(note=str(error)))
        except Exception as error:  # a fault of this program
            return Taken(Done(note=fault(error)))

    async def _pruned(self, asked: Asked, job: Job) -> Taken:
        lane, done = await self.lanes.prune(job)
        has_session = done.conversation and not done.counts_only
        client = asked.headers.get("user-agent", "")
        return Taken(done, job, lane, self.sessions.of(done, job, client) if has_session else None)

    async def _note(self, taken: Taken) -> int:
        """Enter a request into its session's account, while it is on its way; return its number there, 0 for none."""
        with self._noting_faults():
            if taken.session and taken.job and (account := await self.lanes.account(taken.lane, taken.done.number)):
                taken.session.sent(account, taken.done, taken.job)
                return taken.session.requests
        return 0

    @contextmanager
    def _noting_faults(self) -> Iterator[None]:
        """Note a fault of this program in the context, which must keep no answer from its client."""
        try:
            yield
        except Exception as error:
            self.sessions.why = fault(error)

    async def _job(self, asked: Asked) -> Job | None:
        """Return what there is to prune in a request; None if it is passed on unread. Raises UnreadError."""
        is_theirs = asked.headers.get(COMPACTION[0]) == COMPACTION[1]
        is_signed = asked.headers.get("authorization", "").startswith(SIGNED)
        if is_theirs or is_signed or asked.scope["method"] != "POST" or place(asked.path, {}) is None:
            return None
        encoding = asked.headers.get("content-encoding", "")
        packed = asked.body, encoding
        body = await asyncio.to_thread(unpacked, *packed) if encoding else unpacked(*packed)
        betas = {name: value for name, value in asked.headers.items() if name == "anthropic-beta"}
        return Job(asked.path, betas, body, session_of(asked.headers), self._clock())

    def _outgoing(self, asked: Asked, taken: Taken) -> Outgoing:
        """Return the request to the upstream: what came, or what pruning made of it."""
        done, method = taken.done, asked.scope["method"]
        url = address(self.settings, asked.path, asked.query, asked.headers)
        own = without_cookie(asked.scope["headers"], cookie_name(asked.headers.get("host", "")))
        if taken.session:
            own = with_readable_answer(own)
        if done.body is None:
            return Outgoing(method, url, passed_on(own, *OWN), asked.body)
        changed = {name: value for name, value in done.headers.items() if asked.headers.get(name) != value}
        headers = with_changed(passed_on(own, *OWN, "content-encoding"), changed)
        return Outgoing(method, url, headers, done.body)

    async def _forward(
        self, asked: Asked, outgoing: Outgoing, send: Send, gone: asyncio.Future[None], session: Session | None
    ) -> dict[str, Any] | None:
        """Send a request on and its answer back; return the usage in it, {} without any, None without an answer."""
        try:
            async with answered(self._client, outgoing, gone) as response:
                self._status(response.status_code, session)
                kind, encoding = (response.headers.get(f"content-{each}", "") for each in ("type", "encoding"))
                reader = UsageReader(kind, encoding) if session else None  # nobody asks for that of others
                await pass_back(response, send, gone, reader.feed if reader else None)
        except UpstreamError as failure:
            self.sessions.failed += 1
            if session:
                session.failed += 1
            await refuse(send, asked, failure.status, str(failure))
            return None
        if response.status_code >= REFUSED:
            return None
        return reader.end() if reader else {}

    def _status(self, status: int, session: Session | None) -> None:
        self.sessions.refused += status >= REFUSED
        if session:
            session.refused += status >= REFUSED


def fault(error: Exception) -> str:
    """Return what is said of a fault of this program."""
    return f"{type(error).__name__}: {error}"


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


def has_dots(path: str) -> bool:
    """Return whether a path has a segment that stands for a folder itself or the one above it, however escaped.

    Behind a base address with a path it would lead out of that.
    """
    segments = unquote(path).replace("\\", "/").split("/")
    return any(each.partition(";")[0] in (".", "..") for each in segments)


def lifespan(proxy: Proxy, pages: Any) -> Any:
    """Return the whole application: the pages that it serves itself, the proxy for all else, and its end."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await live(proxy, receive, send)
        elif scope["type"] == "http":
            await answer(pages if is_page(scope) else proxy, scope, receive, send)

    return application


async def answer(application: Any, scope: Scope, receive: Receive, send: Send) -> None:
    """Have a request answered. A fault of this program is an error in words, before the answer has begun."""
    has_begun = False

    async def sending(event: Mapping[str, Any]) -> None:
        nonlocal has_begun
        has_begun = True
        await send(event)

    fields = scope["headers"]
    if len(fields) > MOST_FIELDS or sum(len(name) + len(value) for name, value in fields) > HEAD_BYTES:
        words = f"more than {MOST_FIELDS} header fields, or {HEAD_BYTES:,} bytes of them"
        await refuse(send, Asked(scope, {}), 431, words)
        return
    try:
        await application(scope, receive, sending)
    except Exception as error:
        if has_begun:
            raise  # the server breaks the answer off
        await refuse(send, Asked(scope, {}), 500, f"a fault of the proxy: {fault(error)}")


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

"""The proxy as an ASGI application: it checks requests, prunes them, forwards them, and keeps the ledgers.

    client → guard → body → lane (prune) → upstream → client
                              │                  │
                              └── session ◄──────┘ usage, status

A request is forwarded unchanged if it is not a conversation, if it cannot be read, or if it is an assistant's
compaction. A request is also forwarded unchanged if pruning fails for any reason: the client must get its answer.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import httpx

from autoprune.apps.clients.compactions import CLIENT_HEADERS
from autoprune.apps.proxy._bodies import UnreadError, UsageReader, decompress
from autoprune.apps.proxy._configuration import TOKEN_HEADER, Guard, Settings, cookie_name
from autoprune.apps.proxy._forwarding import (
    MOST_BODY,
    NOT_FORWARDED,
    ClientGoneError,
    Outgoing,
    Receive,
    Scope,
    Send,
    TooLargeError,
    UpstreamError,
    end_to_end,
    error_body,
    host_name,
    limit_encodings,
    new_client,
    open_answer,
    read_body,
    remove_cookie,
    replace_headers,
    stream_back,
    upstream_url,
    wait_for_disconnect,
)
from autoprune.apps.proxy._lanes import Lanes
from autoprune.apps.proxy._pruning import COMPRESS, Job, Outcome, to_json
from autoprune.apps.proxy._traffic import ClientSession, ClientSessions, Point, session_name
from autoprune.pruners.requests import place

BEARER = "Bearer "
SIGNED = "AWS4-"  # AWS signs the whole request, so that a changed body would be rejected
ERROR_STATUS = 400  # and above
TOO_LONG = (400, 413)  # statuses for a prompt that is longer than the context window
LAST_ACCOUNTS = 10.0  # seconds to wait for the accounts of the last requests when the proxy shuts down
HEAD_BYTES = 65_536  # of a request's head; the same limit as in h11 and most servers
TARGET_BYTES = 60_000  # of a path with its query: httpx takes URLs of 65,536 characters, with the upstream's base URL
MOST_FIELDS = 256  # in a request's head: assistants send about thirty, and processing time grows with their square
NO_UPGRADE = 426  # Codex then switches from WebSockets to HTTP at once; after any other status it tries five times


@dataclass
class Incoming:
    """A client's request. The names in `headers` are in lower case."""

    scope: Scope
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def path(self) -> str:
        """The path as the client wrote it, with its escapes."""
        raw: bytes = self.scope.get("raw_path") or self.scope["path"].encode()
        return raw.partition(b"?")[0].decode("latin-1")

    @property
    def query(self) -> str:
        query: bytes = self.scope["query_string"]
        return query.decode("latin-1")

    @property
    def is_compress(self) -> bool:
        """Whether the request asks for pruned messages, and for no answer of a model."""
        return self.path == COMPRESS and self.scope["method"] == "POST"


@dataclass(frozen=True)
class Handled:
    """The outcome of pruning a request that came at `at`, its lane, and its conversation as `session`, if any."""

    outcome: Outcome
    at: float = 0.0
    lane: int = 0
    session: ClientSession | None = None


@dataclass(frozen=True)
class AnswerUsage:
    """The usage in an answer: {} if it has none, None if the request was refused or not answered.

    `window` is the model's context window in tokens if the error states it. `miss` is why the provider's cache was not
    read, by its own diagnosis. `broken` is the error that ended the answer before its end.
    """

    usage: dict[str, Any] | None
    window: int | None = None
    miss: str = ""
    broken: Exception | None = None


class Proxy:
    """The application for all requests that go upstream. `sessions` holds the conversations."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        """Set the settings, and a clock in seconds. Raises SettingsError for an unusable environment."""
        self.settings = settings
        self.sessions = ClientSessions()
        self.guard = Guard(settings)
        self._client = new_client()
        self.lanes = Lanes(settings)
        self._clock = clock
        self._accounting: set[asyncio.Future[Point | None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        incoming = Incoming(scope, header_dict(scope))
        if incoming.is_compress and incoming.headers.get("authorization", "").startswith(BEARER):  # as gateways send it
            token = incoming.headers["authorization"].removeprefix(BEARER)
            incoming.headers = {TOKEN_HEADER: token, **incoming.headers}
        if reason := self.guard.objection(incoming.headers):
            await send_error(send, incoming, 403, reason)
            return
        if has_dot_segment(incoming.path):
            await send_error(send, incoming, 400, "the path contains a . or .. segment: resolve it first")
            return
        if incoming.headers.get("upgrade", "").lower() == "websocket":
            await send_error(send, incoming, NO_UPGRADE, "WebSockets are not supported: use HTTP")
            return
        with suppress(ClientGoneError):
            try:
                incoming.body = await read_body(receive, incoming.headers.get("content-length", ""))
            except TooLargeError:
                reason = f"the body is larger than {MOST_BODY:,} bytes: send it to the provider without this proxy"
                await send_error(send, incoming, 413, reason)
                return
            await self._handle(incoming, receive, send)

    async def close(self) -> None:
        """Complete the accounts of the last requests, then close connections and lanes."""
        if self._accounting:
            await asyncio.wait(self._accounting, timeout=LAST_ACCOUNTS)
        await self._client.aclose()
        await asyncio.to_thread(self.lanes.close)

    async def _handle(self, incoming: Incoming, receive: Receive, send: Send) -> None:
        self.sessions.requests += 1
        handled = await self._try_to_prune(incoming)
        if handled.session is None:
            self.sessions.count_passed(handled.outcome.note)
        if incoming.is_compress:
            await self._answer_compress(incoming, handled, send)
            return
        outgoing = self._outgoing(incoming, handled)
        incoming.body = b""  # after pruning it would stay in memory until the answer ends, which may take minutes
        gone = asyncio.ensure_future(wait_for_disconnect(receive))
        accounting = asyncio.ensure_future(self._record(handled))
        self._accounting.add(accounting)
        accounting.add_done_callback(self._accounting.discard)
        try:
            answer = await self._forward(incoming, outgoing, send, gone, handled.session)
        finally:
            gone.cancel()
            point = await asyncio.shield(accounting)  # at shutdown the server cancels requests that take long
        if session := handled.session:
            if answer.miss and point and point.cleared:
                session.count_note(f"results were cleared, and the provider's cache diagnosis says {answer.miss}")
            await self._settle(session, point, handled, answer.usage)
        if answer.window:
            with self._noting_faults():
                await self.lanes.learn_window(handled.outcome.target, answer.window)
        if answer.broken:
            raise answer.broken

    async def _answer_compress(self, incoming: Incoming, handled: Handled, send: Send) -> None:
        """Answer with the pruned messages of a request, or with its own if they could not be pruned."""
        point, note = await self._record(handled), handled.outcome.note
        try:
            messages = (await asyncio.to_thread(json.loads, handled.outcome.body or incoming.body))["messages"]
        except (ValueError, TypeError, KeyError, RecursionError):
            messages = None
        if not isinstance(messages, list):
            await send_error(send, incoming, 400, note or "the body is no JSON object with messages")
            return
        before, after = (point.before, point.after) if point else (0, 0)
        answer = {
            "messages": messages,
            "tokens_before": before,
            "tokens_after": after,
            "tokens_saved": before - after,
            "compression_ratio": after / before if before else 1.0,
            **({"note": note} if note and not point else {}),
        }
        await send_json(send, 200, await asyncio.to_thread(to_json, answer))

    async def _settle(
        self, session: ClientSession, point: Point | None, handled: Handled, usage: dict[str, Any] | None
    ) -> None:
        """Use the usage in an answer; take a request without an answer out of the ledger."""
        if usage is None and point:
            session.take_back(point.request)
        if usage:
            session.usage = usage
            with self._noting_faults():
                await self.lanes.learn(handled.lane, handled.outcome, usage)

    # Pruning

    async def _try_to_prune(self, incoming: Incoming) -> Handled:
        """Prune the conversation in a request. If pruning is impossible, a note gives the reason."""
        try:
            job = await self._job(incoming)
            if job is None:
                return Handled(Outcome())
            lane, outcome = await self.lanes.prune(job)
            has_session = outcome.conversation and not outcome.counts_only
            return Handled(outcome, job.at, lane, self.sessions.find(outcome, job) if has_session else None)
        except UnreadError as error:
            return Handled(Outcome(note=str(error)))
        except Exception as error:  # a fault of this program must not keep the answer from the client
            return Handled(Outcome(note=describe_fault(error)))

    async def _job(self, incoming: Incoming) -> Job | None:
        """Create the job for a request that may be a conversation; None for other requests. Raises UnreadError."""
        headers = incoming.headers
        is_signed = headers.get("authorization", "").startswith(SIGNED)
        if is_signed or incoming.scope["method"] != "POST" or place(incoming.path, {}) is None:
            return None
        body = await asyncio.to_thread(decompress, incoming.body, headers.get("content-encoding", ""))
        return Job(
            path=incoming.path,
            headers={name: value for name, value in headers.items() if name == "anthropic-beta"},
            body=body,
            session=session_name(headers),
            at=self._clock(),
            upstream=host_name(upstream_url(self.settings, incoming.path, "", headers)),
            client={name: headers[name] for name in CLIENT_HEADERS if name in headers},
        )

    async def _record(self, handled: Handled) -> Point | None:
        """Record a request in its session after it was sent; return its figures, None if it has no account."""
        session, outcome = handled.session, handled.outcome
        with self._noting_faults():
            if session and (account := await self.lanes.account(handled.lane, outcome.number)):
                return session.enter_request(account, outcome, handled.at)
        return None

    @contextmanager
    def _noting_faults(self) -> Iterator[None]:
        """Turn an exception within the context into a note, so that the client still gets its answer."""
        try:
            yield
        except Exception as error:
            self.sessions.why = describe_fault(error)

    # Forwarding

    def _outgoing(self, incoming: Incoming, handled: Handled) -> Outgoing:
        """Create the request for the upstream, with the client's bytes or the pruned bytes."""
        outcome, method = handled.outcome, incoming.scope["method"]
        url = upstream_url(self.settings, incoming.path, incoming.query, incoming.headers)
        own = remove_cookie(incoming.scope["headers"], cookie_name(incoming.headers.get("host", "")))
        if handled.session:
            own = limit_encodings(own)
        if outcome.body is None:
            return Outgoing(method, url, end_to_end(own, *NOT_FORWARDED), incoming.body)
        changed = {name: value for name, value in outcome.headers.items() if incoming.headers.get(name) != value}
        headers = replace_headers(end_to_end(own, *NOT_FORWARDED, "content-encoding"), changed)
        return Outgoing(method, url, headers, outcome.body)

    async def _forward(
        self,
        incoming: Incoming,
        outgoing: Outgoing,
        send: Send,
        gone: asyncio.Future[None],
        session: ClientSession | None,
    ) -> AnswerUsage:
        """Forward a request to the upstream, and its answer to the client."""
        broken: Exception | None = None
        try:
            async with open_answer(self._client, outgoing, gone) as response:
                is_refused = response.status_code >= ERROR_STATUS
                self.sessions.refused += is_refused
                if session:
                    session.refused += is_refused
                kind, encoding = (response.headers.get(f"content-{each}", "") for each in ("type", "encoding"))
                reader = UsageReader(kind, encoding) if session else None
                try:
                    await stream_back(response, send, gone, reader.feed if reader else None)
                except (ClientGoneError, httpx.TransportError) as error:  # the prompt is charged for all the same
                    broken = error
        except UpstreamError as failure:
            self.sessions.failed += 1
            if session:
                session.failed += 1
            await send_error(send, incoming, failure.status, str(failure))
            return AnswerUsage(None)
        if is_refused:
            if reader and response.status_code in TOO_LONG:
                reader.end()
                return AnswerUsage(None, reader.window, broken=broken)
            return AnswerUsage(None, broken=broken)
        return AnswerUsage(reader.end(), miss=reader.miss, broken=broken) if reader else AnswerUsage({}, broken=broken)


def describe_fault(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def header_dict(scope: Scope) -> dict[str, str]:
    """Map the headers of a request by lower-case name; the values of a repeated header are joined."""
    headers: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name, text = raw.decode("latin-1").lower(), value.decode("latin-1")
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    return headers


async def send_error(send: Send, incoming: Incoming, status: int, message: str) -> None:
    """Send an error in the shape of the API that the request is for."""
    body = error_body(incoming.path, incoming.headers, status, f"autoprune: {message}")
    await send_json(send, status, body)


async def send_json(send: Send, status: int, body: bytes) -> None:
    """Send a whole answer in JSON."""
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def has_dot_segment(path: str) -> bool:
    """Return whether a path has a `.` or `..` segment, however escaped.

    The upstream would resolve such a segment, and so escape the path of the configured base URL.
    """
    segments = unquote(path).replace("\\", "/").split("/")
    return any(each.partition(";")[0] in (".", "..") for each in segments)


# The whole application


def with_pages(proxy: Proxy, pages: Any) -> Any:
    """Combine the proxy, its pages, startup and shutdown into one ASGI application."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await run_lifespan(proxy, receive, send)
        elif scope["type"] == "http":
            await respond(pages if is_page(scope) else proxy, scope, receive, send)

    return application


async def respond(application: Any, scope: Scope, receive: Receive, send: Send) -> None:
    """Run an application for a request. If it raises before its answer has begun, send an error."""
    has_begun = False

    async def noting_send(event: Mapping[str, Any]) -> None:
        nonlocal has_begun
        has_begun = True
        await send(event)

    fields = scope["headers"]
    if len(fields) > MOST_FIELDS or sum(len(name) + len(value) for name, value in fields) > HEAD_BYTES:
        message = f"the request has more than {MOST_FIELDS} header fields or {HEAD_BYTES:,} bytes of them"
        await send_error(send, Incoming(scope, {}), 431, message)
        return
    if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > TARGET_BYTES:
        await send_error(send, Incoming(scope, {}), 414, f"the path and query are longer than {TARGET_BYTES:,} bytes")
        return
    try:
        await application(scope, receive, noting_send)
    except Exception as error:
        if has_begun:
            raise  # the server then aborts the answer
        await send_error(send, Incoming(scope, {}), 500, f"internal error of the proxy: {describe_fault(error)}")


def is_page(scope: Scope) -> bool:
    """Return whether a request is for the proxy's own pages."""
    return scope["path"] in ("/", "/metrics", "/favicon.ico") or scope["path"].startswith("/autoprune/")


async def run_lifespan(proxy: Proxy, receive: Receive, send: Send) -> None:
    """Warm the lanes when the server starts, and close the proxy when it shuts down."""
    await receive()  # lifespan.startup
    proxy.lanes.warm()
    await send({"type": "lifespan.startup.complete"})
    await receive()  # lifespan.shutdown
    await proxy.close()
    await send({"type": "lifespan.shutdown.complete"})

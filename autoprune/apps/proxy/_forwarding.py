"""Send a request to the upstream and stream its answer back, byte for byte. Knows nothing of pruning.

Each request is sent at most once: it is retried only if no connection was made, so that no server can have accepted it.
(httpx notices that the upstream has closed a pooled connection before it uses it.) Any other failure before the answer
begins is an error of status 502 or 504 in the API's format. If an answer breaks off, the answer to the client does
too. If the client goes away, the connection to the upstream is closed.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

from autoprune.apps.proxy._bodies import ANSWER_DECODERS
from autoprune.apps.proxy._configuration import TOKEN_HEADER, Settings
from autoprune.errors import SettingsError

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

CONNECT_SECONDS, READ_SECONDS = 15.0, 900.0  # a model may think for minutes before the first byte
MOST_BODY = 64_000_000  # bytes of a request as sent: twice the largest that is pruned, and each is held in memory
KEEP_SECONDS = 4.0  # for idle connections to the upstream: less than the servers' timeouts (Node.js and uvicorn: 5 s)
MOST_IDLE = 100  # connections to the upstream
CONNECT_TRIES = 2
NOT_IN_TARGET = re.compile(rb"[^\x21-\x7e]")  # bytes that must be escaped in a request line
CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")  # uvicorn raises if a header contains these
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout)
ENVIRONMENT = "HTTP_PROXY, HTTPS_PROXY, ALL_PROXY or SSL_CERT_FILE"

VENDORS = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com",
    "gemini": "https://generativelanguage.googleapis.com",
}
VERSION = "/v1"  # part of the base URL of OpenAI's clients, while gateways may have another path
# Headers of the connection rather than the message. Source: RFC 9110, section 7.6.1.
HOP_BY_HOP = frozenset(
    (
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    )
)
NOT_FORWARDED = ("host", "content-length", TOKEN_HEADER)  # httpx computes the first two
# Names of errors by status. Sources: the error references of Gemini's API and of Anthropic's.
GEMINI_ERRORS = {
    400: "INVALID_ARGUMENT",
    403: "PERMISSION_DENIED",
    426: "FAILED_PRECONDITION",
    431: "INVALID_ARGUMENT",
    500: "INTERNAL",
    502: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
ANTHROPIC_ERRORS = {400: "invalid_request_error", 403: "permission_error", 431: "invalid_request_error"}


# The upstream


def vendor(path: str, headers: Mapping[str, str]) -> str:
    """Find the vendor whose API a request is for, by its path and headers."""
    if "anthropic-version" in headers or path.startswith("/v1/messages"):
        return "anthropic"
    if path.startswith(("/v1beta/", "/v1alpha/", "/v1internal", "/upload/v1beta/")) or "x-goog-api-key" in headers:
        return "gemini"
    return "openai"


def upstream_url(settings: Settings, path: str, query: str, headers: Mapping[str, str]) -> str:
    """Build the upstream URL of a request, using the vendor's own base URL unless another one is configured."""
    name = vendor(path, headers)
    base = settings.upstream
    if base is None and name in settings.bases:
        base = settings.bases[name]
        path = path.removeprefix(VERSION) if name == "openai" and f"{path}/".startswith(f"{VERSION}/") else path
    # A path without a leading slash, as in GET @elsewhere, would become part of the host.
    url = f"{(base or VENDORS[name]).rstrip('/')}/{path.removeprefix('/')}"
    return f"{url}?{query}" if query else url


def host_name(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


class RawURL(httpx.URL):
    """A URL whose path and query are sent exactly as given, and whose query is not logged.

    httpx would resolve `..` and escape more characters. It logs URLs, and Gemini's clients may put their key there.
    """

    def __init__(self, url: str) -> None:
        """Parse a URL with a path. Raises httpx.InvalidURL."""
        super().__init__(url)
        target = url.partition("://")[2].partition("/")[2]
        self._target = b"/" + NOT_IN_TARGET.sub(lambda each: b"%%%02X" % ord(each[0]), target.encode("latin-1"))

    @property
    def raw_path(self) -> bytes:
        return self._target

    def __str__(self) -> str:
        return str(self.copy_with(query=None))


# Headers


def end_to_end(headers: Iterable[tuple[bytes, bytes]], *dropped: str) -> Headers:
    """Remove the headers of the connection, the headers that `Connection` lists, and the headers in `dropped`."""
    known = list(headers)
    listed = (value.decode("latin-1") for name, value in known if name.lower() == b"connection")
    own = {word.strip().lower() for value in listed for word in value.split(",")}
    if any(name.lower() == b"transfer-encoding" for name, _ in known):
        own.add("content-length")  # it does not count beside this one. Source: RFC 9112, section 6.3
    gone = {each.encode("latin-1") for each in {*HOP_BY_HOP, *own, *dropped}}
    return [(name, value) for name, value in known if name.lower() not in gone]


def remove_cookie(headers: Headers, name: str) -> Headers:
    rest: Headers = []
    for header, value in headers:
        if header.lower() == b"cookie":
            pairs = [each for each in value.split(b";") if each.partition(b"=")[0].strip() != name.encode()]
            rest += [(header, b";".join(pairs).strip())] if pairs else []
        else:
            rest.append((header, value))
    return rest


def replace_headers(headers: Headers, changed: Mapping[str, str]) -> Headers:
    names = {name.lower().encode("latin-1") for name in changed}
    rest = [(name, value) for name, value in headers if name.lower() not in names]
    return [*rest, *((name.encode("latin-1"), value.encode("latin-1")) for name, value in changed.items())]


def limit_encodings(headers: Headers) -> Headers:
    """Offer the provider only content encodings that the proxy can decode to read an answer's usage."""
    return [(name, _readable(value) if name.lower() == b"accept-encoding" else value) for name, value in headers]


def _readable(accepted: bytes) -> bytes:
    codings = [(each, each.partition(b";")[0].strip().lower().decode("latin-1")) for each in accepted.split(b",")]
    rest = b",".join(each for each, name in codings if name in ANSWER_DECODERS)
    return accepted if len(rest) == len(accepted) else rest.strip() or b"identity"


# Errors


class TooLargeError(Exception):
    """Raised if the body of a request is larger than `MOST_BODY`."""


class ClientGoneError(Exception):
    """Raised if the client goes away before its answer is complete."""


class UpstreamError(Exception):
    """Raised if the upstream did not answer; `status` is the status to send to the client."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def error_body(path: str, headers: Mapping[str, str], status: int, message: str) -> bytes:
    """Write an error in the shape of the API that the request is for, so that its clients can read the error."""
    name = vendor(path, headers)
    if "/model/" in path:  # Bedrock's Converse
        body: object = {"message": message}
    elif name == "anthropic":
        body = {"type": "error", "error": {"type": ANTHROPIC_ERRORS.get(status, "api_error"), "message": message}}
    elif name == "gemini":
        body = {"error": {"code": status, "message": message, "status": GEMINI_ERRORS.get(status, "UNKNOWN")}}
    else:
        body = {"error": {"message": message, "type": "api_error", "param": None, "code": "autoprune"}}
    return json.dumps(body).encode()


# Requests and answers


@dataclass(frozen=True)
class Outgoing:
    """A request to the upstream."""

    method: str
    url: str
    headers: Headers = field(repr=False)
    body: bytes = field(repr=False)


def new_client() -> httpx.AsyncClient:
    """Create a client that follows no redirects, and uses the environment's HTTP proxies and certificates.

    Raises SettingsError if the environment's settings cannot be used.
    """
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=MOST_IDLE, keepalive_expiry=KEEP_SECONDS)
    timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS, pool=None)
    try:
        return httpx.AsyncClient(limits=limits, timeout=timeout, follow_redirects=False)
    except (ImportError, OSError, ValueError, httpx.InvalidURL) as error:
        raise SettingsError(f"cannot use the environment's proxy or certificates ({ENVIRONMENT}): {error}") from error


@asynccontextmanager
async def open_answer(client: httpx.AsyncClient, outgoing: Outgoing, gone: asyncio.Future[None]) -> AsyncIterator[Any]:
    """Send a request, and yield the answer as soon as its head arrives. Raises UpstreamError and ClientGoneError."""
    response = await _unless_gone(_send_with_retry(client, outgoing), gone)
    try:
        if not 200 <= response.status_code < 600:
            raise UpstreamError(502, f"{host_name(outgoing.url)} answered with the status {response.status_code}")
        yield response
    finally:
        await response.aclose()


async def stream_back(
    response: httpx.Response, send: Send, gone: asyncio.Future[None], look: Callable[[bytes], None] | None
) -> None:
    """Stream an answer to the client, and pass each piece to `look` if there is one. Raises ClientGoneError."""
    headers = [(name, CONTROL.sub(b" ", value)) for name, value in end_to_end(response.headers.raw)]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    pieces = response.aiter_raw()
    while (piece := await _unless_gone(anext(pieces, None), gone)) is not None:
        if look:
            look(piece)
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _send_with_retry(client: httpx.AsyncClient, outgoing: Outgoing) -> httpx.Response:
    host = host_name(outgoing.url)
    for left in reversed(range(CONNECT_TRIES)):
        try:
            # client.request would add httpx's own headers, such as a user agent.
            request = httpx.Request(outgoing.method, outgoing.url, headers=outgoing.headers, content=outgoing.body)
            request.url = RawURL(outgoing.url)
            return await client.send(request, stream=True)
        except NEVER_SENT as error:
            if not left:
                reason = error or f"timed out after {CONNECT_SECONDS:g} s"
                raise UpstreamError(502, f"no connection to {host}: {reason}") from error
        except httpx.TimeoutException as error:
            raise UpstreamError(504, f"{host} did not answer within {READ_SECONDS:,.0f} s") from error
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise UpstreamError(502, f"{host} did not answer: {str(error) or type(error).__name__}") from error
    raise AssertionError("unreachable")


async def _unless_gone(work: Any, gone: asyncio.Future[None]) -> Any:
    """Await `work` unless the client goes away first. Raises ClientGoneError after `work` was cancelled."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGoneError
    finally:
        await _cancel(task)


async def _cancel(task: asyncio.Future[Any]) -> None:
    """Cancel a task, and close the answer if one has arrived in the meantime."""
    if task.done():
        return
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and task.exception() is None and isinstance(task.result(), httpx.Response):
        await task.result().aclose()


async def read_body(receive: Receive, declared: str) -> bytes:
    """Read the body of a client's request, whose `content-length` is `declared`, "" without one.

    Raises TooLargeError before it holds more than `MOST_BODY` bytes, and ClientGoneError if the client goes away.
    """
    if declared.isdecimal() and int(declared) > MOST_BODY:
        raise TooLargeError
    pieces: list[bytes] = []
    left = MOST_BODY
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise ClientGoneError
        piece = event.get("body", b"")
        left -= len(piece)
        if left < 0:
            raise TooLargeError
        pieces.append(piece)
        if not event.get("more_body"):
            return b"".join(pieces)


async def wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

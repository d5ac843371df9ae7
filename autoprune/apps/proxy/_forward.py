"""Pass one request on to the upstream and its answer back, byte for byte as it comes. Knows nothing of pruning.

What a client asks once is sent once. A request is tried again only where no connection came about, so that nobody can
have accepted it; a pooled connection that the upstream has closed is seen before it is used. Everything else that fails
before the answer begins is an error of status 502 or 504; an answer that breaks off in the middle breaks off here too.
A client that goes away closes the connection to the upstream.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from autoprune.apps.proxy._upstream import Headers, host_of, passed_on
from autoprune.errors import SettingsError

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

CONNECT_SECONDS, READ_SECONDS = 15.0, 900.0  # a model may think for long before it says the first word
KEEP_SECONDS = 4.0  # for an idle connection: below what servers keep theirs
CONNECT_TRIES = 2
AS_NO_TARGET = re.compile(rb"[^\x21-\x7e]")  # bytes that cannot stand in a request's first line
CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")  # which the server refuses to send in a header
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout)


class ClientGoneError(Exception):
    """The client went away before its answer was complete."""


class UpstreamError(Exception):
    """The upstream did not answer; `status` is what the client gets."""

    def __init__(self, status: int, words: str) -> None:
        """Hold the status and the words."""
        super().__init__(words)
        self.status = status


@dataclass(frozen=True)
class Outgoing:
    """A request to the upstream."""

    method: str
    url: str
    headers: Headers = field(repr=False)
    body: bytes = field(repr=False)


class Address(httpx.URL):
    """An address of which the path and the query are sent as they were written, and the query is in no log.

    httpx would resolve `..` and escape what it misses; it logs addresses, and Gemini's clients may put their key there.
    """

    def __init__(self, url: str) -> None:
        """Take an address with a path. Raises httpx.InvalidURL."""
        super().__init__(url)
        target = url.partition("://")[2].partition("/")[2]
        self._target = b"/" + AS_NO_TARGET.sub(lambda each: b"%%%02X" % ord(each[0]), target.encode("latin-1"))

    @property
    def raw_path(self) -> bytes:
        """The path and the query, as they are sent."""
        return self._target

    def __str__(self) -> str:
        """Return the address without its query."""
        return str(self.copy_with(query=None))


def new_client() -> httpx.AsyncClient:
    """Return a client that changes nothing: it follows no redirects, and reads no proxies but the environment's.

    Raises SettingsError where the environment names a proxy or certificates that cannot be used.
    """
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=KEEP_SECONDS)
    timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS, pool=None)
    try:
        return httpx.AsyncClient(limits=limits, timeout=timeout, follow_redirects=False)
    except (ImportError, OSError, ValueError, httpx.InvalidURL) as error:
        where = "HTTP_PROXY, HTTPS_PROXY, ALL_PROXY or SSL_CERT_FILE"
        raise SettingsError(f"the upstream cannot be reached as the environment says ({where}): {error}") from error


@asynccontextmanager
async def answered(client: httpx.AsyncClient, outgoing: Outgoing, gone: asyncio.Future[None]) -> AsyncIterator[Any]:
    """Yield the upstream's answer, of which the head has come. Raises UpstreamError, and ClientGoneError."""
    response = await _until_gone(_sent(client, outgoing), gone)
    try:
        if not 200 <= response.status_code < 600:
            raise UpstreamError(502, f"{host_of(outgoing.url)} answered with the status {response.status_code}")
        yield response
    finally:
        await response.aclose()


async def pass_back(
    response: httpx.Response, send: Send, gone: asyncio.Future[None], look: Callable[[bytes], None] | None
) -> None:
    """Send an answer to the client as it comes, and let `look` see its bytes, if given. Raises ClientGoneError."""
    headers = [(name, CONTROL.sub(b" ", value)) for name, value in passed_on(response.headers.raw)]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    pieces = response.aiter_raw()
    while (piece := await _until_gone(_next(pieces), gone)) is not None:
        if look:
            look(piece)
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _sent(client: httpx.AsyncClient, outgoing: Outgoing) -> httpx.Response:
    for left in reversed(range(CONNECT_TRIES)):
        try:
            # httpx would add headers of its own, such as a user agent: the request has the client's and no other.
            request = httpx.Request(outgoing.method, outgoing.url, headers=outgoing.headers, content=outgoing.body)
            request.url = Address(outgoing.url)
            return await client.send(request, stream=True)
        except NEVER_SENT as error:
            if not left:
                words = f"no connection to {host_of(outgoing.url)}: {error or f'none within {CONNECT_SECONDS:g} s'}"
                raise UpstreamError(502, words) from error
        except httpx.TimeoutException as error:
            raise UpstreamError(504, f"{host_of(outgoing.url)} has not answered in {READ_SECONDS:,.0f} s") from error
        except (httpx.TransportError, httpx.InvalidURL) as error:
            words = f"{host_of(outgoing.url)} did not answer: {str(error) or type(error).__name__}"
            raise UpstreamError(502, words) from error
    raise AssertionError("unreachable")


async def _next(pieces: AsyncIterator[bytes]) -> bytes | None:
    return await anext(pieces, None)


async def _until_gone(work: Any, gone: asyncio.Future[None]) -> Any:
    """Return what `work` comes to, unless the client goes away before. It has ended when this returns or raises."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGoneError
    finally:
        await _end(task)


async def _end(task: asyncio.Future[Any]) -> None:
    """Cancel what is still under way, and close the answer that came in the meantime."""
    if task.done():
        return
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and task.exception() is None and isinstance(task.result(), httpx.Response):
        await task.result().aclose()


async def body_of(receive: Receive) -> bytes:
    """Return the body of a request. Raises ClientGoneError where it does not come to an end."""
    pieces: list[bytes] = []
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise ClientGoneError
        pieces.append(event.get("body", b""))
        if not event.get("more_body"):
            return b"".join(pieces)


async def disconnected(receive: Receive) -> None:
    """Return when the client goes away."""
    while (await receive())["type"] != "http.disconnect":
        pass

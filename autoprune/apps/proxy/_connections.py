"""The connections of clients, with the limits that uvicorn and httptools do not have.

How it works. A connection waits for a request, takes its head, takes its body, and is busy with the answer:

    waiting ──first byte──► head ──► body ──► busy ──answer sent──► waiting

    limit                                                what happens
    HEAD_SECONDS for a whole head, from the connection   408, closed
    HEAD_BYTES for a head                                431, closed; the application counts the fields of whole heads
    BODY_SECONDS of silence within a body                408, closed
    `most` connections                                   the one that has waited longest without any request is closed,
                                                         else the one that has waited longest; 503 if all are busy

So that half-open connections keep nobody out, however many there are. An idle connection that has had an answer is
uvicorn's to close, after its own time.
"""

from asyncio import TimerHandle, Transport
from enum import Enum, auto
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS, BODY_SECONDS = 20.0, 60.0
HEAD_BYTES = 65_536  # as h11 and most servers have it
FRAMING = (b"content-length", b"transfer-encoding")  # headers that say where a body ends
TOO_SLOW, TOO_LARGE, TOO_MANY = "408 Request Timeout", "431 Request Header Fields Too Large", "503 Service Unavailable"


class Stage(Enum):
    """What the parser of a connection takes next."""

    NOTHING = auto()
    HEAD = auto()
    BODY = auto()


class Crowd:
    """The connections that wait, those that never had a request first."""

    def __init__(self, most: int) -> None:
        """Begin with none, of so many connections at most."""
        self.most = most
        self._fresh: dict[Connection, None] = {}
        self._idle: dict[Connection, None] = {}

    def wait(self, connection: "Connection") -> None:
        """Take a connection that begins to wait for a request."""
        (self._idle if connection.cycle else self._fresh)[connection] = None

    def leave(self, connection: "Connection") -> None:
        """Forget a connection that has a request now, or is lost."""
        self._fresh.pop(connection, None)
        self._idle.pop(connection, None)

    def make_room(self, newest: "Connection") -> bool:
        """Close one that waits if there are too many; return whether there is room for the newest."""
        connections = newest.server_state.connections
        if len(connections) <= self.most:
            return True
        oldest = next((each for each in (*self._fresh, *self._idle) if each is not newest), None)
        if oldest is None:
            return False
        self.leave(oldest)
        connections.discard(oldest)
        oldest.transport.abort()
        return True


class OnlyBody:
    """What a parser calls that takes the body of a request whose head another one has taken."""

    def __init__(self, connection: "Connection") -> None:
        """Have a connection called."""
        self.on_body, self.on_message_complete = connection.on_body, connection.on_message_complete


class Connection(HttpToolsProtocol):
    """One connection of a client."""

    def __init__(self, *args: Any, crowd: Crowd, **named: Any) -> None:
        """Begin before the connection is made."""
        super().__init__(*args, **named)
        self._crowd = crowd
        self._stage = Stage.NOTHING
        self._head_bytes = 0
        self._timer: TimerHandle | None = None

    # What asyncio calls

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Take a connection, or refuse it."""
        super().connection_made(transport)
        if self._crowd.make_room(self):
            self._crowd.wait(self)
            self._wait(HEAD_SECONDS)
        else:
            self._refuse(TOO_MANY)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._crowd.leave(self)
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take the next bytes."""
        was_taking_body = self._stage is Stage.BODY
        self._head_bytes += 0 if was_taking_body else len(data)
        self._unset_keepalive_if_required()
        try:
            self._feed(data)
        except HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        if not self.transport.is_closing():
            self._watch(was_taking_body)

    def _watch(self, was_taking_body: bool) -> None:
        """See to the time and the size of what is under way, now that some of it came."""
        if self._stage is Stage.BODY:
            if not (was_taking_body and self.cycle.response_complete):  # one that was refused has no more time
                self._wait(BODY_SECONDS)
        elif self._head_bytes > HEAD_BYTES:
            self._refuse(TOO_LARGE)
        elif self._is_answered and not self._timer:
            self._wait(HEAD_SECONDS)

    def _feed(self, data: bytes) -> None:
        """Have bytes parsed. Raises HttpParserError.

        The parser ends a request that offers another protocol, as Java's client does with each of its first ones,
        behind its head, and leaves the rest to that protocol. Another parser takes the rest as the body that it is,
        and the connection ends with the answer.
        """
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            framing = [(name, value) for name, value in self.headers if name in FRAMING]
            if framing:
                self._stage = Stage.BODY
                self.cycle.more_body, self.cycle.keep_alive = True, False
                self.cycle.message_event.clear()
                self.parser = HttpRequestParser(OnlyBody(self))
                head = b"".join(b"%s: %s\r\n" % field for field in framing)
                self.parser.feed_data(b"POST / HTTP/1.1\r\n%s\r\n%s" % (head, data[upgrade.args[0] :]))

    # What the parser calls

    def on_message_begin(self) -> None:
        """Begin with a request."""
        super().on_message_begin()
        self._stage = Stage.HEAD

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. Those that come behind a body are left out: the request was passed on without them."""
        if self._stage is Stage.HEAD:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Have the request served, while its body comes."""
        self._stage, self._head_bytes = Stage.BODY, 0
        self._crowd.leave(self)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End the request."""
        super().on_message_complete()
        self._stage = Stage.NOTHING
        self._stop()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if self._is_answered and not self.transport.is_closing():
            self._crowd.wait(self)
            if self._stage is not Stage.NOTHING:  # of the next request, or of one that was refused before it was read
                self._wait(HEAD_SECONDS)

    # Time

    @property
    def _is_answered(self) -> bool:
        """Whether no request is being served or waits to be."""
        return not self.pipeline and (self.cycle is None or self.cycle.response_complete)

    def _wait(self, seconds: float) -> None:
        self._stop()
        self._timer = self.loop.call_later(seconds, self._expired)

    def _stop(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _expired(self) -> None:
        """Close the connection, unless it is this side that does not read."""
        self._timer = None
        if self._stage is Stage.BODY and self.flow.read_paused:
            self._wait(BODY_SECONDS)
        elif not self.transport.is_closing():
            self._refuse(TOO_SLOW)

    def _refuse(self, status: str) -> None:
        """Close the connection; say why, where an answer is due."""
        self._stop()
        if self._stage is Stage.BODY:
            is_due = not self.cycle.response_started
        else:
            is_due = self._is_answered and (self._stage is Stage.HEAD or self._head_bytes > 0)
        if is_due or status == TOO_MANY:
            words = f"autoprune: {status.partition(' ')[2]}\n"
            head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {len(words)}\r\n"
            self.transport.write(f"{head}connection: close\r\n\r\n{words}".encode())
        self.transport.close()

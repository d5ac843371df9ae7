"""An upstream that answers with the bytes that a test gives, and knows what it was sent and when a client went away."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

SECONDS = 20.0


@dataclass
class Upstream:
    """A running upstream. `requests` are what came, head and body; `gone` is set when a client closes too early."""

    url: str
    requests: list[tuple[str, bytes]] = field(default_factory=list)
    gone: threading.Event = field(default_factory=threading.Event)


class Connection:
    """One connection, for the function that plays on it."""

    def __init__(self, sock: socket.socket, upstream: Upstream) -> None:
        self.sock, self.upstream = sock, upstream
        self._stream = sock.makefile("rb")

    def request(self) -> tuple[str, bytes] | None:
        """Read a request; None where no more comes."""
        lines = []
        while (line := self._stream.readline().decode("latin-1").rstrip("\r\n")) or not lines:
            if not line:
                return None
            lines.append(line)
        sizes = [int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:")]
        found = "\n".join(lines), self._stream.read(sum(sizes))
        self.upstream.requests.append(found)
        return found

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.sock.sendall(data)

    def wait_until_gone(self) -> None:
        """Return when the other side closes, and tell."""
        with suppress(OSError):
            if self._stream.read(1) == b"":
                self.upstream.gone.set()

    def close(self) -> None:
        """Close at once."""
        self._stream.close()
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


@contextmanager
def serving(play: Callable[[Connection], None]) -> Iterator[Upstream]:
    """Serve while the context lasts: `play` is called with each connection, and it is closed when that returns."""
    listening = socket.create_server(("127.0.0.1", 0))
    upstream = Upstream(f"http://127.0.0.1:{listening.getsockname()[1]}")
    open_ones: list[tuple[Connection, threading.Thread]] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                sock, _ = listening.accept()
                sock.settimeout(SECONDS)
                connection = Connection(sock, upstream)
                open_ones.append((connection, threading.Thread(target=one, args=(connection,))))
                open_ones[-1][1].start()

    def one(connection: Connection) -> None:
        try:
            with suppress(OSError):
                play(connection)
        finally:
            connection.close()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield upstream
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        accepting.join()
        for connection, thread in open_ones:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
            thread.join()


def answer(body: bytes = b"{}", status: str = "200 OK", kind: str = "application/json", **headers: str) -> bytes:
    """Return an answer as bytes."""
    lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join((*lines, "", "")).encode() + body


def always(data: bytes) -> Callable[[Connection], None]:
    """Answer every request of a connection with the same bytes."""

    def play(connection: Connection) -> None:
        while connection.request():
            connection.send(data)

    return play

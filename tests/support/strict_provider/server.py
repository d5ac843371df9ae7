"""The provider as an HTTP server on the loopback interface: routes requests to the APIs, keeps what was asked."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from strict_provider import anthropic, bedrock, gemini, openai_chat, openai_responses, streaming
from strict_provider.exchange import Json, Refusal, RefusalError, Request
from strict_provider.scripts import Play, Script

APIS = (
    (openai_chat, openai_chat.ChatCompletions),
    (openai_responses, openai_responses.Responses),
    (anthropic, anthropic.Messages),
    (gemini, gemini.GenerateContent),
    (bedrock, bedrock.Converse),
)


STREAMED = (
    (openai_chat, streaming.openai_chat),
    (openai_responses, streaming.openai_responses),
    (anthropic, streaming.anthropic),
    (gemini, streaming.gemini),
)
MODELS: Json = {
    "object": "list",
    "data": [],
    "models": [],
    "has_more": False,
}  # what a list of models is, if it is asked for


class Api(Protocol):
    """One provider's API."""

    def respond(self, request: Request) -> Json:
        """The body of the answer. Raises RefusalError."""
        ...


@dataclass
class Provider:
    """A running provider. `requests`, their `answers` and `refusals` are in the order in which they came."""

    url: str
    play: Play
    requests: list[Request] = field(default_factory=list)
    answers: list[Json] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Open every API with nothing cached and nothing stored."""
        self._lock = threading.Lock()
        self._routes = [(re.compile("|".join(module.PATHS)), api(self.play), module.envelope) for module, api in APIS]

    def answer(self, request: Request) -> tuple[int, Json]:
        """Status and body for a request. One at a time, so that the caches see an order."""
        with self._lock:
            self.requests.append(request)
            for pattern, api, envelope in self._routes:
                if pattern.fullmatch(request.path):
                    return self._respond(request, api, envelope)
            words = f"Invalid URL (POST {request.path})"
            return self._refused(request, RefusalError(words, status=404), openai_chat.envelope)

    def events(self, request: Request, answer: Json) -> Iterator[str] | None:
        """The events of an answer that is to be streamed; None where a request asks for none."""
        if not (request.body.get("stream") or request.path.endswith(gemini.STREAM)):
            return None
        return next(stream(answer) for module, stream in STREAMED if re.fullmatch("|".join(module.PATHS), request.path))

    def _respond(self, request: Request, api: Api, envelope: Any) -> tuple[int, Json]:
        try:
            self.answers.append(api.respond(request))
            return 200, self.answers[-1]
        except RefusalError as refusal:
            return self._refused(request, refusal, envelope)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            words = f"the strict provider cannot read this request: {error!r}"
            return self._refused(request, RefusalError(words), envelope)

    def _refused(self, request: Request, refusal: RefusalError, envelope: Any) -> tuple[int, Json]:
        self.refusals.append(Refusal(request, refusal.status, refusal.message))
        return refusal.status, envelope(refusal)


@contextmanager
def serve(script: Script, *, strict_alternation: bool = False, port: int = 0, keeps: str = "") -> Iterator[Provider]:
    """A provider that plays `script`, on 127.0.0.1 while the context lasts. Port 0 takes a free one.

    `keeps` is the life of Anthropic's cache where it is not that which is asked for.
    With `strict_alternation` user and assistant must take turns, as gateways and local chat templates want it.
    Base URLs: `url + "/v1"` for openai, `url` for anthropic, google-genai and boto3.
    """
    with _Server(("127.0.0.1", port), BaseHTTPRequestHandler) as server:
        provider = Provider(f"http://127.0.0.1:{server.server_port}", Play(script, strict_alternation, keeps))
        server.RequestHandlerClass = partial(_Handler, provider)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # closing the server waits for the requests under way, so that no socket is left open


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # buffered, or each header line would be a packet of its own

    def __init__(self, provider: Provider, *connection: Any) -> None:
        self.provider = provider
        super().__init__(*connection)

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        path = unquote(urlsplit(self.path).path)
        try:
            body = json.loads(text)
        except ValueError:
            words = "We could not parse the JSON body of your request."
            return self._send(400, openai_chat.envelope(RefusalError(words)))
        request = Request(path, headers, body)
        status, answer = self.provider.answer(request)
        events = self.provider.events(request, answer) if status == 200 else None
        return self._send(status, answer) if events is None else self._stream(events)

    def do_GET(self) -> None:
        if self.headers.get("Upgrade"):
            return self._send(426, {})
        is_list = urlsplit(self.path).path.endswith("/models")
        return self._send(200 if is_list else 404, MODELS if is_list else {})

    def do_HEAD(self) -> None:
        self._send(200, {})

    def _stream(self, events: Iterator[str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in events:
            self.wfile.write(event.encode())
            self.wfile.flush()

    def _send(self, status: int, body: Json) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("request-id", str(body.get("request_id", "")))
        self.send_header("x-amzn-ErrorType", "ValidationException" if status >= 400 else "")
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the standard error stream for faults."""

"""A model server that plays a script over HTTP and refuses what providers refuse. It has no state.

It serves `/v1/chat/completions`, without streaming, on the loopback interface. The number of assistant messages in the
request selects the next step. It answers a request with `tools` with native tool calls, and one without with XML.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from scripted_session import STEPS, Step

WINDOW = 128_000  # tokens
CHARACTERS_PER_TOKEN = 4  # a usual estimate for English and code
CREATED = 1_735_689_600  # a fixed time, so that two runs answer the same

TOO_LONG = (
    "This model's maximum context length is {} tokens. However, your messages resulted in {} tokens. "
    "Please reduce the length of the messages."
)
ORPHAN = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "The following tool_call_ids did not have response messages: "
)

Message = dict[str, Any]


class RefusalError(Exception):
    """A request that breaks a provider's rule, with the body of the provider's answer."""

    def __init__(self, message: str, param: str | None = None, **others: str) -> None:
        """Store the provider's error message; `param` and others are fields of the body."""
        super().__init__(message)
        self.body = {
            "error": {"message": message, "type": "invalid_request_error", "param": param, "code": None} | others
        }


@contextmanager
def serve(window: int = WINDOW) -> Iterator[str]:
    """Serve the script while the context lasts. Yields the base URL for a client."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, window)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections open, as providers do
    wbufsize = -1  # head and body of an answer in one packet

    def __init__(self, window: int, *connection: Any) -> None:
        self.window = window
        super().__init__(*connection)  # handles all requests of the connection

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/chat/completions":
            return self._send(404, RefusalError(f"Invalid URL (POST {self.path})").body)
        try:
            self._send(200, completion(request, self.window))
        except RefusalError as refusal:
            self._send(400, refusal.body)

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def completion(request: dict[str, Any], window: int = WINDOW) -> dict[str, Any]:
    """The answer to a request: the script's next step. Raises RefusalError if a provider would refuse the request."""
    messages, is_native = request["messages"], bool(request.get("tools"))
    prompt = _tokens(messages)
    if prompt > window:
        raise RefusalError(TOO_LONG.format(window, prompt), "messages", code="context_length_exceeded")
    check(messages, is_native)
    number = sum(message["role"] == "assistant" for message in messages)
    step = STEPS[min(number, len(STEPS) - 1)]
    message = _native(step, number) if is_native else _xml(step)
    reply = _tokens(message)
    reason = "tool_calls" if "tool_calls" in message else "stop"
    return {
        "id": f"chatcmpl-{number:04}",
        "object": "chat.completion",
        "created": CREATED,
        "model": request["model"],
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": reply, "total_tokens": prompt + reply},
    }


def _tokens(value: Any) -> int:
    """Estimate the tokens for `usage`."""
    return len(json.dumps(value)) // CHARACTERS_PER_TOKEN


def _native(step: Step, number: int) -> Message:
    calls = [
        {
            "id": f"call_{number:04}_{index}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for index, call in enumerate(step.calls)
    ]
    message = {"role": "assistant", "content": step.text, "refusal": None, "annotations": []}
    return {**message, "tool_calls": calls} if calls else message


def _xml(step: Step) -> Message:
    texts = [step.text, *(_xml_call(call.name, call.arguments) for call in step.calls)]
    return {"role": "assistant", "content": "\n\n".join(texts), "refusal": None, "annotations": []}


def _xml_call(name: str, arguments: dict[str, Any]) -> str:
    # A text of several lines begins on a line of its own.
    texts = ((key, f"\n{value}" if "\n" in str(value) else value) for key, value in arguments.items())
    inside = "".join(f"<{key}>{text}</{key}>\n" for key, text in texts)
    return f"<{name}>\n{inside}</{name}>"


# The rules


def check(messages: Sequence[Message], is_native: bool) -> None:
    """Raise RefusalError for the first rule that a conversation breaks."""
    _check_texts(messages)
    spoken = [message for message in messages if message["role"] not in ("system", "developer")]
    if not spoken or spoken[0]["role"] != "user":
        raise RefusalError('messages: first message must use the "user" role')
    if is_native:
        _check_results(messages)
    else:
        _check_turns(spoken)


def _check_texts(messages: Sequence[Message]) -> None:
    """No text is empty, and it is missing only with tool calls. Messages: OpenAI's for null, else Anthropic's."""
    for index, message in enumerate(messages):
        content = message.get("content")
        texts = [part.get("text", "-") for part in content] if isinstance(content, list) else [content]
        if message.get("tool_calls") and content is None:
            continue
        if None in texts:
            raise RefusalError(
                "Invalid value for 'content': expected a string, got null.", f"messages.[{index}].content"
            )
        if not texts or not all(map(str.strip, texts)):
            raise RefusalError(f"messages.{index}: text content blocks must be non-empty")


def _check_turns(spoken: Sequence[Message]) -> None:
    """User and assistant alternate. Messages: those of local models' chat templates."""
    roles = [message["role"] for message in spoken]
    if roles != [("user", "assistant")[index % 2] for index in range(len(roles))]:
        raise RefusalError(
            "Conversation roles must alternate user/assistant/user/assistant/...", type="BadRequestError"
        )


def _check_results(messages: Sequence[Message]) -> None:
    """Every call is answered right after it, and nothing else is. Messages: OpenAI's."""
    waiting: list[str] = []
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting:
                raise RefusalError(ORPHAN, f"messages.[{index}].role")
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            break
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
    if waiting:
        raise RefusalError(UNANSWERED + ", ".join(waiting), "messages")

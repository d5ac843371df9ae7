"""The calls that wait for their results. Each is found, and closed, at the cost of a look-up."""

from collections import deque
from functools import lru_cache

from autoprune.conversation.transcript import ToolCall


class Queue:
    """Calls in the order in which they were made, to be taken from the front, of any name or of one."""

    def __init__(self) -> None:
        """Begin without any."""
        self._all: deque[ToolCall] = deque()
        self._named: dict[str, deque[ToolCall]] = {}
        self._closed: dict[int, ToolCall] = {}  # by identity

    def add(self, name: str, call: ToolCall) -> None:
        """Add a call at the end."""
        self._all.append(call)
        self._named.setdefault(name, deque()).append(call)

    def close(self, call: ToolCall) -> None:
        """Let a call be taken no more."""
        self._closed[id(call)] = call

    def take(self, name: str | None = None) -> ToolCall | None:
        """Take the first open call of a name, or of any; None where there is none."""
        calls = self._all if name is None else self._named.get(name, deque())
        while calls:
            call = calls.popleft()
            if id(call) not in self._closed:
                self.close(call)
                return call
        return None


class OpenCalls:
    """The open calls of a conversation: those with an id for good, those in a text during the last request."""

    def __init__(self) -> None:
        """Begin without any."""
        self._by_id: dict[str, deque[ToolCall]] = {}
        self._by_name = Queue()  # the calls with an id in the last request
        self._in_text = Queue()  # the calls in its text

    def begin_request(self) -> None:
        """Begin a new request: what the model's text asked for before is answered no more."""
        self._by_name, self._in_text = Queue(), Queue()

    def expect(self, call: ToolCall) -> None:
        """Remember an open call; an id that a new request uses again is the new call's."""
        if call.id is None:
            self._in_text.add(_plain(call.name), call)
            return
        calls = self._by_id.setdefault(call.id, deque())
        if calls and calls[0].request != call.request:
            calls.clear()
        calls.append(call)
        self._by_name.add(call.name, call)

    def answered(self, call_id: str) -> ToolCall | None:
        """Close the first open call with an id and return it."""
        calls = self._by_id.get(call_id)
        if not calls:
            return None
        call = calls.popleft()
        if not calls:
            del self._by_id[call_id]
        self._by_name.close(call)
        return call

    def answered_by_name(self, tool: str) -> ToolCall | None:
        """Close the first open call of a tool in the last request, whatever its id, and return it."""
        call = self._by_name.take(tool)
        if call is not None and call.id is not None:
            self._by_id[call.id].remove(call)
        return call

    def answered_in_text(self, tool: str) -> ToolCall | None:
        """Close the first open call of a tool in the text of the last request and return it."""
        return self._in_text.take(_plain(tool))

    def next_in_text(self) -> ToolCall | None:
        """Close the first open call in the text of the last request, whatever its tool, and return it."""
        return self._in_text.take()


@lru_cache(maxsize=1024)
def _plain(tool: str) -> str:
    """Return a tool's name as it is compared: ReadFileTool and read_file are one tool."""
    return tool.replace("_", "").lower().removesuffix("tool")

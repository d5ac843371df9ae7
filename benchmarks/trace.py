"""Count the files, functions and file switches that one call passes through, beside calls of well-known libraries.

python benchmarks/trace.py                  the figures of every call
python benchmarks/trace.py --show default   the files and functions of one of them

Only Python functions of the traced package count (C functions are invisible to a profiler). A switch is a call of a
function in another file than that of the call before. Imports happen before the trace begins. That of the proxy
begins with its start and ends with its shutdown.
"""

import argparse
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import autoprune
from autoprune import AgenticConversationPruner, ConversationPruner

RESULTS = 40  # in the conversation that is pruned
LINES = 200  # of each result


@dataclass
class Trace:
    """The files, functions and switches of a call."""

    files: dict[str, set[str]] = field(default_factory=dict)  # the functions of each
    switches: int = 0

    @property
    def functions(self) -> int:
        """The number of functions."""
        return sum(map(len, self.files.values()))


def trace(work: Callable[[], object], package: str) -> Trace:
    """Trace one call; functions outside `package` are ignored."""
    found, root = Trace(), _root(package)
    last = ""

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal last
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(root):
            return
        found.files.setdefault(name.removeprefix(root), set()).add(frame.f_code.co_qualname)
        found.switches += name != last
        last = name

    threading.setprofile(profile)  # of threads that the work starts
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def _root(package: str) -> str:
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return f"{Path(spec.origin).parent}/"


def conversation(results: int = RESULTS) -> list[Any]:
    """A conversation of Chat Completions in which every call of the model has one result."""
    messages: list[Any] = [{"role": "user", "content": "Fix the tests."}]
    for at in range(results):
        function = {"name": "read_file", "arguments": json.dumps({"path": f"src/f{at}.py"})}
        text = "\n".join(f"line {line} of file {at}: value_{line} = compute({line})" for line in range(LINES))
        messages += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c{at}", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": f"c{at}", "content": text},
        ]
    return messages


def prune(safe_zone: str, strategy: str | None = None) -> Trace:
    """Trace one prune by a new pruner, after an earlier one has done the imports."""
    AgenticConversationPruner(safe_zone).prune(conversation(3), strategy)
    messages, pruner = conversation(), AgenticConversationPruner(safe_zone)
    return trace(lambda: pruner.prune(messages, strategy), "autoprune")


def prune_once(safe_zone: str) -> Trace:
    """Trace `autoprune.prune`, after an earlier one has done the imports."""
    autoprune.prune(conversation(3), safe_zone)
    messages = conversation()
    return trace(lambda: autoprune.prune(messages, safe_zone), "autoprune")


def fold(safe_zone: str, strategy: str | None = None) -> Trace:
    """Trace one prune of whole messages by a new pruner, after an earlier one has done the imports."""
    ConversationPruner(safe_zone).prune(conversation(), strategy)
    messages, pruner = conversation(), ConversationPruner(safe_zone)
    return trace(lambda: pruner.prune(messages, strategy), "autoprune")


def forward(safe_zone: str) -> Trace:
    """Trace a proxy that prunes one request, after an earlier one has done the imports."""
    import httpx

    from autoprune.apps.proxy import Settings, running

    body = {"model": "gpt-5", "messages": conversation()}

    def work() -> None:
        with _server() as upstream, running(Settings(upstream=upstream, safe_zone=safe_zone)) as proxy:
            httpx.post(f"{proxy.url}/v1/chat/completions", json=body, trust_env=False, timeout=60)

    work()
    return trace(work, "autoprune")


def get() -> Trace:
    """Trace httpx.get from a server on this machine."""
    import httpx

    with _server() as address:
        httpx.get(address, trust_env=False)
        return trace(lambda: httpx.get(address, trust_env=False), "httpx")


@contextmanager
def _server() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def cycle() -> Trace:
    """Trace one request and its response through h11, on the client's side."""
    import h11

    def work() -> None:
        ours = h11.Connection(h11.CLIENT)
        ours.send(h11.Request(method="GET", target="/", headers=[("Host", "example.com")]))
        ours.send(h11.EndOfMessage())
        ours.receive_data(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        while not isinstance(ours.next_event(), h11.EndOfMessage):
            pass
        ours.start_next_cycle()

    work()
    return trace(work, "h11")


def retry() -> Trace:
    """Trace a function that tenacity calls twice."""
    import tenacity

    def work() -> None:
        answers = iter((1, 2))

        @tenacity.retry(stop=tenacity.stop_after_attempt(3))
        def once_more() -> None:
            if next(answers) == 1:
                raise ValueError

        once_more()

    work()
    return trace(work, "tenacity")


CALLS: dict[str, Callable[[], Trace]] = {
    "default": lambda: prune("50k"),
    "nothing to do": lambda: prune("1m"),
    "cache_aware": lambda: prune("50k", "cache_aware"),
    "autoprune.prune": lambda: prune_once("50k"),
    "truncate": lambda: fold("50k", "truncate"),
    "summarize": lambda: fold("50k"),
    "proxy": lambda: forward("50k"),
}
ANCHORS: dict[str, Callable[[], Trace]] = {"httpx": get, "h11": cycle, "tenacity": retry}
TARGETS = {
    "default": "22 files, 110 functions, 600 switches",
    "nothing to do": "12 files, 40 functions",
    "cache_aware": "28 files",
    "autoprune.prune": "26 files",
    "summarize": "38 files",
    "proxy": "36 files",
}


def main() -> None:
    """Print the figures of every call, or the functions of one."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--show", choices=CALLS, help="print the files and functions of one call")
    shown = options.parse_args().show
    if shown:
        for name, functions in sorted(CALLS[shown]().files.items()):
            print(f"{name}: {', '.join(sorted(functions))}")
        return
    print(f"{'':16} {'files':>6} {'functions':>10} {'switches':>9}   target (at most)")
    for name, work in {**CALLS, **ANCHORS}.items():
        if name in ANCHORS and find_spec(name) is None:
            print(f"{name:16} skipped: it is not installed")
            continue
        found = work()
        print(f"{name:16} {len(found.files):6} {found.functions:10} {found.switches:9}   {TARGETS.get(name, '')}")


if __name__ == "__main__":
    main()

"""A running proxy in front of the strict provider, and conversations that go through it request by request."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
from raw_upstream import Upstream
from strict_provider.scripts import agent_script
from strict_provider.server import serve

from autoprune.apps.proxy import Running, Settings, running

TOKEN = "page token; 100 %"  # what stands in it must be escaped in a cookie, and in an address
RECORDED = Path(__file__).parents[2] / "fixtures" / "sessions" / "edit_loop_openai.jsonl"
MARKUP = "</script><script>document.title = 'broken'</script><img src=x onerror=\"document.title = 'broken'\">"


@contextmanager
def proxied(safe_zone: str = "20k", **settings: Any) -> Iterator[Running]:
    """Run a proxy while the context lasts."""
    with serve(agent_script(3, seed=0)) as provider:
        told = {"upstream": provider.url, "token": TOKEN, "strategy": "low_water", **settings}
        with running(Settings(safe_zone=safe_zone, **told)) as proxy:
            yield proxy


def recorded() -> list[Any]:
    """Return the recorded session of the fixtures."""
    return [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]


def hostile(results: int = 12) -> list[Any]:
    """Return a conversation whose tools are called and say what would hurt a page."""
    messages: list[Any] = [{"role": "user", "content": MARKUP}]
    for number in range(results):
        function = {"name": f"read{MARKUP}", "arguments": json.dumps({"path": f"/src/{number}{MARKUP}.py"})}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        said = f"{number} {MARKUP} \x00\x1b[31m \u202egnorw\u202c\n" * 60
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": said})
    return [*messages, {"role": "assistant", "content": "Done."}]


def drive(
    proxy: Running, messages: Sequence[Any], client: str = "mini/2.4.6 (linux)", session: str = "one", done: int = 0
) -> None:
    """Send a conversation as an agent does: for each of the model's messages all that stands before it.

    The first `done` messages went through already.
    """
    noted = _noted(proxy) + send(proxy.url, messages, client, session, done)
    while _noted(proxy) < noted:  # an account is kept while a request is on its way
        time.sleep(0.01)


def send(url: str, messages: Sequence[Any], client: str = "", session: str = "one", done: int = 0) -> int:
    """Send a conversation to an address, as `drive` does, and return how many requests that took."""
    headers = {"user-agent": client, "x-session-id": session, "content-type": "application/json"}
    ends = [at for at, message in enumerate(messages) if message["role"] == "assistant" and at >= done]
    with httpx.Client(base_url=url, headers=headers) as http:
        for at in ends:
            http.post("/v1/chat/completions", content=json.dumps({"model": "gpt-5.1", "messages": messages[:at]}))
    return len(ends)


def prefix_changes(upstream: Upstream) -> int:
    """Return how many requests of a growing conversation do not begin with what the one before them sent.

    The recorded session in a safe zone of 30k has 3 with cache_aware, 4 with low_water, 9 with tool_output_cleanup.
    """
    sent = [json.loads(body)["messages"] for _, body in upstream.requests]
    return sum(new[: len(old)] != old for old, new in pairwise(sent))


def _noted(proxy: Running) -> int:
    return sum(len(each.points) for each in proxy.sessions)  # a point is the last that is kept of a request

"""A proxy for tests, and conversations to send through it."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from autoprune.apps.proxy import Running, Settings, running


@pytest.fixture
def proxy_to() -> Iterator[Callable[..., Running]]:
    """A function that starts a proxy for an upstream's URL, with settings. All stop with the test."""
    with ExitStack() as stack:
        yield lambda url, **settings: stack.enter_context(running(Settings(url, **{"safe_zone": "2k", **settings})))


def eventually(holds: Callable[[], object], seconds: float = 5.0) -> None:
    """Wait until a condition holds, and fail if it does not: accounts are made in the background."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def messages(results: int, *, tag: str = "", lines: int = 300) -> list[Any]:
    """A conversation in Anthropic's format with this many results of a few hundred tokens."""
    found: list[Any] = [{"role": "user", "content": f"Mend it{tag}."}]
    for at in range(results):
        call = {"type": "tool_use", "id": f"t{at}", "name": "read", "input": {"path": f"{at}.py"}}
        result = {"type": "tool_result", "tool_use_id": f"t{at}", "content": f"line {at}{tag}\n" * lines}
        found += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return found


def body(results: int, **others: Any) -> bytes:
    """The body of a request with such a conversation."""
    tag = others.pop("tag", "")
    return json.dumps({"model": "claude-sonnet-4-5", "messages": messages(results, tag=tag), **others}).encode()

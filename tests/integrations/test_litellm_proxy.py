"""LiteLLM's proxy, started with the hook in its configuration, in front of a strict provider."""

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("litellm_proxy_extras", reason="LiteLLM's proxy is not installed")

import anthropic
import httpx
import openai
from client_loops import LOOPS, is_kept
from reading_loop import CALLS, DONE, SAFE_ZONE, SCRIPT, figures_of
from strict_provider.server import Provider

pytestmark = pytest.mark.full
KEY = f"sk-{secrets.token_hex(16)}"
SECONDS = 90.0  # to start: it takes seven where nothing else runs
MODULE = f"from autoprune.integrations.litellm import PruningHook\n\npruning = PruningHook({SAFE_ZONE})\n"
CLIENTS = {"chat": (openai.OpenAI, "/v1"), "messages": (anthropic.Anthropic, "")}


def config(provider: Provider) -> str:
    """The proxy's configuration, in that part of YAML that is JSON."""
    models = [("openai/gpt-4.1", f"{provider.url}/v1"), ("anthropic/claude-opus-4-8", provider.url)]
    listed = [
        {"model_name": name.split("/")[1], "litellm_params": {"model": name, "api_base": url, "api_key": "none"}}
        for name, url in models
    ]
    return json.dumps({"model_list": listed, "litellm_settings": {"callbacks": "my_module.pruning"}})


@pytest.fixture
def proxy(strict_provider: Provider, tmp_path: Path) -> Iterator[str]:
    """The address of a proxy that runs, with the hook in a module beside its configuration."""
    (tmp_path / "my_module.py").write_text(MODULE)
    (tmp_path / "config.yaml").write_text(config(strict_provider))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [Path(sys.executable).with_name("litellm"), "--config", "config.yaml", "--host", "127.0.0.1"]
    variables = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": KEY}
    with (tmp_path / "log").open("w") as log:
        streams: Any = {"stdout": log, "stderr": subprocess.STDOUT}
        process = subprocess.Popen([*command, "--port", str(port)], cwd=tmp_path, env=variables, **streams)
    with process:
        try:
            wait_for(f"http://127.0.0.1:{port}", process, tmp_path / "log")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def wait_for(url: str, process: Any, log: Path) -> None:
    end = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < end:
        try:
            httpx.get(f"{url}/health/liveliness").raise_for_status()
        except httpx.HTTPError:
            time.sleep(0.2)
        else:
            return
    pytest.fail(f"the proxy does not run:\n{log.read_text()[-2_000:]}")


@pytest.mark.parametrize("api", CLIENTS)
def test_a_long_loop_through_the_proxy_is_pruned_and_its_answers_come_back(
    api: str, strict_provider: Provider, proxy: str
):
    made, folder = CLIENTS[api]
    strict_provider.play.script = SCRIPT
    with made(base_url=proxy + folder, api_key=KEY, max_retries=0) as client:
        messages = LOOPS[api].run(client)
    found = figures_of(strict_provider)
    assert DONE in str(messages[-1])
    assert strict_provider.refusals == []
    assert found.requests == CALLS + 1
    assert found.largest <= SAFE_ZONE
    assert is_kept(messages)

"""The plugins of examples/plugins in the real programs, which send to the provider without a proxy in between."""

import json
import shutil
import signal
import sqlite3
import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import real_assistants as assistants
from real_assistants import OPENCODE, OPENCODE_RUN, Assistant
from strict_provider.counting import tokens
from strict_provider.exchange import Request
from strict_provider.scripts import Call, Turn
from strict_provider.server import Provider, serve

from autoprune.apps.proxy import Settings, running

PLUGINS = assistants.ROOT / "examples" / "plugins"
NOWHERE = "http://127.0.0.1:9"
MARGIN = 1.05  # the provider counts all strings of a body, pruning counts as the API does
NOTES = tuple(assistants.notes().values())
STOPPED_AT = 20  # requests


@dataclass(frozen=True)
class Program:
    """An assistant, and the place of its plugin in the home. In its files, PROVIDER is the provider's address."""

    assistant: Assistant
    plugin: str
    place: str

    def install(self, folder: Path, provider: Provider, proxy: str) -> Assistant:
        """Install the plugin in the home, and return the assistant that uses it."""
        target = folder / "home" / self.place
        target.parent.mkdir(parents=True)
        shutil.copy(PLUGINS / self.plugin, target)
        files = json.loads(json.dumps(self.assistant.files).replace("PROVIDER", provider.url))
        return replace(self.assistant, files=files, environ={**self.assistant.environ, "AUTOPRUNE_PROXY": proxy})

    def run(self, folder: Path, prefix: Path, provider: Provider, proxy: str) -> "subprocess.CompletedProcess[str]":
        """Let it do its work with the plugin, and without `autoprune run`."""
        return assistants.run(self.install(folder, provider, proxy), folder, prefix, None)


def with_pi(api: str, model: str, path: str = "", thoughts: int = 32) -> Program:
    """pi with a model of the provider's, by one of its APIs."""
    arguments = ("--provider", "lab", "--model", model, "--thinking", "high", "-p", assistants.TASK)
    limits = {"contextWindow": 400_000, "maxTokens": 16_000}
    models = [{"id": model, "reasoning": bool(thoughts), **limits}]
    lab = {"baseUrl": f"PROVIDER{path}", "api": api, "apiKey": "none", "models": models}
    return Program(
        Assistant(
            "pi",
            arguments,
            lambda line: Call("bash", {"command": line}),
            {},
            {".pi/agent/models.json": {"providers": {"lab": lab}}},
            thoughts,
        ),
        "pi.ts",
        ".pi/agent/extensions/autoprune.ts",
    )


PI = with_pi("openai-completions", "m", "/v1", thoughts=0)
AT_PROVIDER = json.loads(json.dumps(OPENCODE).replace(NOWHERE, "PROVIDER"))
WITH_OPENCODE = Program(
    replace(OPENCODE_RUN, files={".config/opencode/opencode.json": AT_PROVIDER}),
    "opencode.ts",
    ".config/opencode/plugins/autoprune.ts",
)


def main_bodies(provider: Provider) -> list[Any]:
    return [request.body for request in provider.requests if not assistants.is_aside(request)]


def tool_results(body: Any) -> dict[str, str]:
    """The results in a request for Chat Completions, by the ids of their calls."""
    return {each["tool_call_id"]: each["content"] for each in body["messages"] if each["role"] == "tool"}


def words(body: Any) -> list[Any]:
    return [each for each in body["messages"] if each["role"] != "tool"]


def is_note(text: str) -> bool:
    return any(note in text for note in NOTES)


def stored(home: Path) -> str:
    """The assistant's own file of its session, with the escapes of JSON."""
    logs = [file.read_text() for file in home.glob(".pi/agent/sessions/**/*.jsonl")]
    for file in home.glob(".local/share/opencode/*.db"):
        with sqlite3.connect(file) as database:
            logs += [row for (row,) in database.execute("SELECT data FROM part")]
    return "".join(logs)


@pytest.mark.parametrize("program", [PI, WITH_OPENCODE], ids=["pi", "opencode"])
def test_a_plugin_has_results_cleared_in_requests_only(program: Program, prefix: Path, tmp_path: Path):
    with serve(assistants.script(program.assistant)) as provider:
        provider.play.is_aside = assistants.is_aside
        with running(Settings(NOWHERE, safe_zone=assistants.SAFE_ZONE)) as proxy:
            done = program.run(tmp_path, prefix, provider, proxy.url)
    assert (done.returncode, provider.refusals) == (0, []), done.stderr
    assert "autoprune" not in done.stdout + done.stderr

    bodies = main_bodies(provider)
    assert len(bodies) == assistants.CALLS + 1
    assert max(map(tokens, bodies)) < assistants.SAFE_ZONE * MARGIN
    (session,) = proxy.sessions
    assert session.requests == len(bodies)
    cleared = [{id for id, text in tool_results(body).items() if not is_note(text)} for body in bodies]
    assert len(cleared[-1]) == len(session.cleared) > assistants.CALLS / 2
    assert all(before <= after for before, after in pairwise(cleared))
    assert all(after[: len(before)] == before for before, after in pairwise(map(words, bodies)))
    assert all(json.dumps(note)[1:-1] in stored(tmp_path / "home") for note in NOTES)


CONTINUED = {
    "opencode": ("run", "--continue", *OPENCODE_RUN.arguments[1:]),
    "pi": ("--continue", *PI.assistant.arguments),
}


@pytest.mark.parametrize("program", [PI, WITH_OPENCODE], ids=["pi", "opencode"])
def test_a_session_that_the_user_interrupts_in_a_call_goes_on(program: Program, prefix: Path, tmp_path: Path):
    turns = assistants.script(program.assistant)
    waiting = Turn(calls=(program.assistant.tool("touch waiting && sleep 60"),))
    with serve([*turns[:STOPPED_AT], waiting, *turns[-5:]]) as provider:
        provider.play.is_aside = assistants.is_aside
        with running(Settings(NOWHERE, safe_zone=assistants.SAFE_ZONE)) as proxy:
            assistant = program.install(tmp_path, provider, proxy.url)
            interrupt(assistant, tmp_path, prefix)
            again = replace(assistant, arguments=CONTINUED[assistant.name])
            done = assistants.run(again, tmp_path, prefix, None)
    assert (done.returncode, provider.refusals) == (0, []), done.stderr
    bodies = main_bodies(provider)
    assert len(bodies) == STOPPED_AT + 1 + 5
    (session,) = proxy.sessions
    assert session.requests == len(bodies)
    assert len(session.cleared) > STOPPED_AT / 2


def interrupt(assistant: Assistant, folder: Path, prefix: Path) -> None:
    """Run an assistant until it waits for a command, and press Ctrl-C."""
    place = assistants.project(folder, assistant, assistants.notes())
    environ = assistants.environment(folder, assistant, prefix)
    with subprocess.Popen(
        [assistant.name, *assistant.arguments],
        cwd=place,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    ) as process:
        while not (place / "waiting").exists():
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)


@pytest.mark.parametrize(("model", "clears"), [("claude-sonnet-4-5", True), ("claude-opus-5-5", False)])
def test_thinking_that_is_bound_to_results_keeps_them(model: str, clears: bool, prefix: Path, tmp_path: Path):
    program = with_pi("anthropic-messages", model)
    with serve(assistants.script(program.assistant)) as provider:
        provider.play.is_aside = assistants.is_aside
        with running(Settings(NOWHERE, safe_zone=assistants.SAFE_ZONE)) as proxy:
            done = program.run(tmp_path, prefix, provider, proxy.url)
    assert (done.returncode, provider.refusals) == (0, []), done.stderr
    (session,) = proxy.sessions
    assert bool(session.cleared) == clears
    assert len({*assistants.thoughts(main_bodies(provider)[-1])}) == program.assistant.thoughts


@pytest.mark.parametrize("program", [PI, WITH_OPENCODE], ids=["pi", "opencode"])
def test_if_the_proxy_stops_requests_are_sent_whole(program: Program, prefix: Path, tmp_path: Path):
    turns = iter(assistants.script(program.assistant))
    with ExitStack() as stack:
        proxy = stack.enter_context(running(Settings(NOWHERE, safe_zone=assistants.SAFE_ZONE)))
        asked: list[Request] = []

        def answer(request: Request) -> Turn:
            asked.append(request)
            if len(asked) == STOPPED_AT:
                stack.close()
            return next(turns)

        with serve(answer) as provider:
            provider.play.is_aside = assistants.is_aside
            done = program.run(tmp_path, prefix, provider, proxy.url)
    assert (done.returncode, provider.refusals) == (0, []), done.stderr
    pruned, whole = asked[STOPPED_AT - 1], asked[-1]
    assert not all(map(is_note, tool_results(pruned.body).values()))
    assert len(tool_results(whole.body)) == len(NOTES)
    assert all(map(is_note, tool_results(whole.body).values()))
    logs = [file.read_text() for file in tmp_path.glob("home/.local/share/opencode/log/*.log")]
    assert "".join((done.stderr, *logs)).count(f"autoprune: not pruned by {proxy.url}") == 1

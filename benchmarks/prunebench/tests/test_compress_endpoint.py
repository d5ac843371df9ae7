"""A tool behind POST /v1/compress is replayed like any other policy: results, arguments, dropped and new messages."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from autoprune.apps.policies import Changes, RequestView
from autoprune.errors import SettingsError
from autoprune.wire import new_parser, parse
from bench_command import run_text
from recorded_sessions import session, write_sessions
from tables import each_row

from prunebench.policies.compress_endpoint import CompressEndpoint

Tool = Callable[[list[dict[str, Any]]], object]  # from messages to the whole answer


@contextmanager
def served(tool: Tool, status: int = 200) -> Iterator[str]:
    """Serve a tool, and yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            assert set(asked) == {"model", "messages"}
            body = json.dumps(tool(asked["messages"])).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/compress"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def changes(messages: list[Any], tool: Callable[[list[dict[str, Any]]], list[Any]]) -> tuple[Changes, RequestView]:
    """Ask a tool for the changes of a conversation's last request."""
    known = parse(messages, new_parser(len, wants_inputs=True), 0)
    view = RequestView(0, known.messages, known.entries, known.results, known.calls)
    with served(lambda told: {"messages": tool(told)}) as url:
        return CompressEndpoint(url).changes(view), view


def test_nothing_changes_if_the_tool_changes_nothing():
    assert changes(session("one"), list)[0] == Changes()


def test_a_changed_result_and_changed_arguments_are_texts():
    def tool(told: list[Any]) -> list[Any]:
        told[2]["content"] = [{"type": "text", "text": "(old)"}]
        told[3]["tool_calls"][0]["function"]["arguments"] = "{}"
        return told

    found, view = changes(session("one"), tool)
    assert found == Changes({view.results[0]: "(old)", view.calls[1].inputs[0]: "{}"})


def test_dropped_messages_and_a_summary_in_their_place():
    summary = [{"role": "user", "content": "The first file"}, {"role": "assistant", "content": "was read."}]
    found, _ = changes(session("one"), lambda told: [told[0], *summary, *told[3:]])
    assert found == Changes({}, {1, 2}, {3: "The first file\n\nwas read."})
    found, view = changes(session("one"), lambda told: [*told, *summary[:1]])
    assert found == Changes({}, set(), {len(view.messages): "The first file"})


def test_results_in_texts_are_texts_of_the_user():
    call = "<tool_call><name>ls</name></tool_call>"
    result = "<tool_result tool_name='ls'>a.py b.py</tool_result>"
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": call}]
    messages += [{"role": "user", "content": f"{result} Go on."}]
    told: list[Any] = []
    found, view = changes(messages, lambda each: told.extend(each) or each[:2] + each[3:])
    assert [message["role"] for message in told] == ["user", "assistant", "user", "user"]
    assert told[2]["content"] == view.results[0].text
    assert found == Changes({view.results[0]: ""})


@each_row(
    ("tool", "status", "said"),
    [
        (lambda told: {"messages": []}, 200, "answers without a list of 'messages'"),
        (lambda told: told, 200, "answers without a list of 'messages'"),
        (lambda told: {"error": "busy"}, 503, 'answers with status 503: {"error": "busy"}'),
    ],
)
def test_an_answer_that_is_no_conversation_says_so(tool: Tool, status: int, said: str, tmp_path: Path):
    write_sessions(tmp_path, "one")
    with served(tool, status) as url:
        done = run_text(str(tmp_path), "--policy", url, "--jobs", "1")
    assert done.returncode != 0
    assert f"{url} {said}" in " ".join(done.stderr.split())


def test_a_tool_that_is_not_there_and_a_url_that_is_none_say_so():
    known = parse([{"role": "user", "content": "Hi"}], new_parser(len), 0)
    view = RequestView(0, known.messages, known.entries, (), ())
    for url in ("http://127.0.0.1:9/v1/compress", "http://[/"):
        with pytest.raises(SettingsError, match="does not answer as POST /v1/compress should"):
            CompressEndpoint(url).changes(view)


def test_a_url_is_a_policy_of_the_command_which_asks_the_tool_in_each_run(tmp_path: Path):
    texts = {"tool": "(old)"}  # of messages by role
    write_sessions(tmp_path, "one")
    bills = []
    with served(
        lambda told: {"messages": [{**one, "content": texts.get(one["role"], one["content"])} for one in told]}
    ) as url:
        for _ in range(2):
            done = run_text(str(tmp_path), "--policy", url, "--prices", "anthropic", "--jobs", "1", "--json")
            assert done.returncode == 0, done.stderr
            rows = {row["policy"]: row for row in json.loads(done.stdout)["corpora"][0]["bills"]["anthropic"]}
            bills.append(rows[f"compress_endpoint(url='{url}')"]["bill"][0])
            texts.clear()
        table = run_text(str(tmp_path), "--policy", url, "--prices", "anthropic", "--jobs", "1").stdout
    assert bills[0] < bills[1] == 1
    assert url[:26] in table
    assert "compress_endpoint" not in table

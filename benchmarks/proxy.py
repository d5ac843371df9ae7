"""What the proxy costs: time, memory, and what becomes of requests when the upstream fails.

    python benchmarks/proxy.py                  all of them
    python benchmarks/proxy.py --requests 1000  fewer with failures

The upstream is a server of its own on the loopback that streams a short answer at once, so that what is measured is the
proxy. Each figure is printed beside that of the direct connection in the same run and as a multiple of it, since times
depend on the machine and on what else it does.
"""

import argparse
import asyncio
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import httpx

SESSION = "x-claude-code-session-id"
MODEL = "claude-sonnet-4-5"
LARGE, STREAM = 4_000_000, 475_000  # bytes of a body
STREAMS, RESULT = 100, 8_000  # streams at once; characters of a result
KINDS = "first", "same again", "goes on"  # a request: of a new conversation, sent again as it was, with one more result
PAUSE = 0.1  # seconds before a request, as of a client: in these, a proxy computes its accounts
GOING_ON, LARGE_TRIES, DIRECT_TRIES = KINDS[-1], 4, 3
CODE = "".join(path.read_text() for path in sorted((Path(__file__).parent.parent / "autoprune").rglob("*.py")))
EVENTS = (
    ("message_start", {"message": {"usage": {"output_tokens": 1}}}),
    ("content_block_delta", {"delta": {"type": "text_delta", "text": "Done."}}),
    ("message_stop", {}),
)
ANSWER = b"".join(f"event: {kind}\ndata: {json.dumps({'type': kind, **said})}\n\n".encode() for kind, said in EVENTS)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
# Failures that a request asks the upstream for, in the header x-fail.
FAILURES = ("refuse", "close before", "close in the head", "close in the body", "status 529", "stall")


# The upstream


async def upstream() -> None:
    """Serve, print the port, and count each request by the id in its headers."""
    seen: Counter[str] = Counter()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await answer(reader, writer, seen):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20, backlog=1_024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: "Counter[str]") -> bool:
    """Answer one request, or fail as its header asks. False ends the connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
    if "/seen" in head.partition("\r\n")[0]:
        said = json.dumps(seen).encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(said) + said
        )
        return True
    await reader.readexactly(int(headers.get("content-length", 0)))
    seen.update(filter(None, [headers.get("x-id")]))
    fails = headers.get("x-fail", "")
    if fails == "close before":
        return False
    if fails == "status 529":
        said = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
        writer.write(b"HTTP/1.1 529 Overloaded\r\ncontent-length: %d\r\n\r\n" % len(said) + said)
        return True
    if fails == "close in the head":
        writer.write(HEAD[:20])
        return False
    if fails == "stall":
        await asyncio.sleep(0.05)
    body = ANSWER if fails != "close in the body" else ANSWER[:40]
    writer.write(HEAD + b"%x\r\n" % len(body) + body + b"\r\n")
    await writer.drain()
    if fails == "close in the body":
        return False
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return fails != "refuse"  # an idle connection that is closed under the pool


# Requests


def conversation(size: int, seed: int) -> bytes:
    """The body of a request with a conversation of `size` bytes, in results of 8 kB."""
    draw = random.Random(seed)
    messages: list[Any] = [{"role": "user", "content": f"Mend number {seed}."}]
    written = 0
    while written < size:
        at, start = len(messages), draw.randrange(len(CODE) - RESULT)
        text = CODE[start : start + RESULT]
        call = {"type": "tool_use", "id": f"t{at}", "name": "read", "input": {"path": f"src/{at}.py"}}
        result = {"type": "tool_result", "tool_use_id": f"t{at}", "content": text}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
        written += len(json.dumps(text)) + 200
    return json.dumps({"model": MODEL, "max_tokens": 100, "stream": True, "messages": messages}).encode()


def add_result(body: bytes) -> bytes:
    """Add one more result to a conversation."""
    known = json.loads(body)
    at = len(known["messages"])
    call = {"type": "tool_use", "id": f"t{at}", "name": "read", "input": {"path": f"src/{at}.py"}}
    result = {"type": "tool_result", "tool_use_id": f"t{at}", "content": "def other(): pass\n" * 400}
    known["messages"] += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return json.dumps(known).encode()


async def first_event(url: str, body: bytes, session: str) -> float:
    """Measure the seconds to the first event of an answer, and read it to the end.

    Without a client library, which would take more time than the proxy's server.
    """
    started = time.perf_counter()
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 20)
    head = {"host": parts.netloc, SESSION: session, "anthropic-version": "2023-06-01", "x-api-key": "none"}
    lines = ("POST /v1/messages HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()))
    writer.write("\r\n".join((*lines, f"content-length: {len(body)}", "", "")).encode())
    writer.write(body)
    await reader.readuntil(b"\ndata: ")
    first = time.perf_counter() - started
    await reader.readuntil(b"0\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return first


async def large(url: str) -> dict[str, list[float]]:
    """Measure the seconds to the first event for conversations of 4 MB, by kind of request."""
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for seed in range(LARGE_TRIES):
        body = conversation(LARGE, seed)
        for kind in (KINDS[0], *KINDS[1:] * LARGE_TRIES):
            body = add_result(body) if kind == GOING_ON else body
            await asyncio.sleep(PAUSE)
            found[kind].append(await first_event(url, body, f"large-{seed}"))
    return found


async def streams(url: str, bodies: list[bytes], tag: str) -> list[float]:
    """Measure the seconds to the first event of many requests at once."""
    return await asyncio.gather(*(first_event(url, body, f"{tag}-{at}") for at, body in enumerate(bodies)))


async def send_failing(url: str, direct: str, requests: int) -> tuple["Counter[str]", int, int]:
    """Send requests of which half fail upstream. Returns counts by outcome, of duplicates, and of unsent ones."""
    draw, came, gate = random.Random(7), Counter[str](), asyncio.Semaphore(32)
    body = conversation(9_000, 1)

    async def one(client: httpx.AsyncClient, at: int) -> None:
        fails = draw.choice(FAILURES) if at % 2 else ""
        headers = {"x-id": str(at), "x-fail": fails, "anthropic-version": "2023-06-01", SESSION: str(at % 50)}
        async with gate:
            try:
                response = await client.post(f"{url}/v1/messages", content=body, headers=headers)
                came[f"{fails or 'no failure'}: {outcome(response)}"] += 1
            except httpx.TransportError as error:
                came[f"{fails or 'no failure'}: broken off ({type(error).__name__})"] += 1

    async with httpx.AsyncClient(timeout=60) as client:
        await asyncio.gather(*(one(client, at) for at in range(requests)))
        seen = (await client.get(f"{direct}/seen")).json()
    return came, sum(count > 1 for count in seen.values()), requests - len(seen)


def outcome(response: httpx.Response) -> str:
    """Describe an answer in a few words."""
    if response.status_code == 200:
        return "whole answer" if response.content == ANSWER else "another answer"
    known = response.json()
    is_own = known.get("type") == "error" and "message" in known.get("error", {})
    return f"{response.status_code} in {'its own' if is_own else 'another'} shape"


# The run


@contextmanager
def process(*command: str) -> Iterator[tuple[str, int]]:
    """Start a program; yield the first line that it prints, and its process id."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as known:
        assert known.stdout
        try:
            yield known.stdout.readline().strip(), known.pid
        finally:
            known.terminate()


def memory(pid: int) -> float:
    """The megabytes of a process and its descendants, with shared pages counted once."""
    return sum(map(pss, family(pid))) / 1_024


def family(pid: int) -> list[int]:
    """The ids of a process and all its descendants."""
    tasks = (Path(f"/proc/{pid}/task/{task.name}/children") for task in Path(f"/proc/{pid}/task").iterdir())
    return [pid, *(each for task in tasks for child in task.read_text().split() for each in family(int(child)))]


def pss(pid: int) -> int:
    """The kilobytes of a process, with its part of shared pages."""
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("Pss:"))


def ms(seconds: float) -> str:
    """Format seconds as milliseconds."""
    return f"{1_000 * seconds:,.0f} ms"


def print_comparison(what: str, direct: list[float], proxied: list[float]) -> None:
    """Print the median through the proxy, also as a multiple of the direct one in the same run."""
    plain, through = median(direct), median(proxied)
    print(f"{what:<56}{ms(plain):>9}{ms(through):>10}{through / plain:>8.1f}")


async def measure(direct: str, proxied: str, pid: int, requests: int) -> None:
    """Measure and print everything."""
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    for number in range(8):  # so that each process gets one
        await first_event(proxied, conversation(RESULT, number), f"first {number}")
    print(f"memory after eight short requests: {memory(pid):,.0f} MB in all\n")
    print(f"{'median to the first event':<56}{'direct':>9}{'proxied':>10}{'times':>8}")
    plain, through = [await large(direct) for _ in range(DIRECT_TRIES)], await large(proxied)
    for kind in KINDS:
        print_comparison(f"a body of {LARGE:,} bytes, {kind}", [*chain(*(each[kind] for each in plain))], through[kind])
    before = memory(pid)
    bodies = [conversation(STREAM, at) for at in range(1, STREAMS + 1)]
    for kind in KINDS:
        bodies = [add_result(body) for body in bodies] if kind == GOING_ON else bodies
        await asyncio.sleep(STREAMS * PAUSE / 10)
        alone = [await streams(direct, bodies, kind) for _ in range(DIRECT_TRIES)]
        through_it = await streams(proxied, bodies, "stream")
        print_comparison(f"{STREAMS} streams of {STREAM:,} bytes at once, {kind}", [*chain(*alone)], through_it)
    each = ", ".join(f"{pss(one) / 1_024:,.0f}" for one in family(pid))
    after = memory(pid)
    print(f"memory: {after:,.0f} MB in all ({each}), {(after - before) / STREAMS:.1f} MB for each stream\n")
    came, twice, unsent = await send_failing(proxied, direct, requests)
    print(f"{requests:,} requests, of which half fail upstream; sent twice: {twice}, never sent: {unsent}")
    print(*(f"  {count:6,}  {what}" for what, count in sorted(came.items())), sep="\n")


def main() -> None:
    """Start the upstream and the proxy, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(upstream())
        return
    started = time.perf_counter()
    with process(sys.executable, __file__, "--serve") as (port, _):
        direct = f"http://127.0.0.1:{port}"
        command = (
            sys.executable,
            "-m",
            "autoprune",
            "proxy",
            "--port",
            "0",
            "--upstream",
            direct,
            "--jobs",
            options.jobs,
        )
        started = time.perf_counter()
        with process(*command, "--safe-zone", "60k") as (line, pid):
            print(f"started in {ms(time.perf_counter() - started)}")
            asyncio.run(measure(direct, line.split()[-1], pid, options.requests))


if __name__ == "__main__":
    main()

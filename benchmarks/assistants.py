"""What `autoprune run claude` costs and saves on a session of forty tool calls of the real Claude Code.

    npm install --prefix FOLDER @anthropic-ai/claude-code
    ASSISTANTS=FOLDER python benchmarks/assistants.py --safe-zone 40k [--files mixed]

It runs the session twice before the strict provider of the tests: directly, and through the proxy. The files that it
reads are notes made up for it, sources of the package `openai`, or a mix of sources, import logs, CSV, JSON and prose
that come with installed packages. A bill is at the model's prices: a token of the prefix shared with the previous
prompt is read from the cache, any other is written. Its highest value up to any request comes after it. Time is the
time that pruning takes for each request; start is the time until the proxy listens; memory is the peak of the process
of `autoprune run`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from importlib.metadata import distributions, files
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import median
from typing import Any

sys.path.append(str(Path(__file__).parent.parent / "tests" / "support"))

import real_assistants as assistants
from genai_prices.data_snapshot import get_snapshot
from strict_provider.anthropic import pieces
from strict_provider.anthropic_thinking import seen
from strict_provider.caching import Piece
from strict_provider.exchange import Request
from strict_provider.server import Provider, serve

from autoprune.economics import Prices, prices
from autoprune.strategies.catalog import RUN_STRATEGY

MEGABYTE = 1024  # in kilobytes
PIECE = 8_000  # characters of a file


def run_and_print(options: argparse.Namespace) -> None:
    """Run Claude Code like `autoprune run claude`, and print the time and memory as JSON."""
    from autoprune.apps.cli.run import current_user, find_program, start_client, wait_for
    from autoprune.apps.clients import find_client
    from autoprune.apps.proxy import Settings, running

    client = find_client("claude")
    route = client.route(current_user(assistants.claude(options.model).arguments, options.child))
    path = find_program(client)
    with running(Settings(route.upstream, options.safe_zone, options.strategy)) as proxy:
        start = time.time() - options.began
        with start_client(path, route, proxy.url, stdout=subprocess.DEVNULL) as process:
            code = wait_for(process)
    # getrusage would include the parent process, because a program inherits its figure.
    status = Path("/proc/self/status").read_text().splitlines()
    memory = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / MEGABYTE
    points = [point for session in proxy.sessions for point in session.points]
    zone = max(session.safe_zone for session in proxy.sessions)
    seconds = [point.seconds for point in points]
    print(json.dumps({"code": code, "start": start, "memory": memory, "seconds": seconds, "zone": zone}))


def play_session(options: argparse.Namespace, *, is_pruned: bool) -> tuple[Provider, dict[str, Any]]:
    """Play a session. Returns the provider, and the figures of the run through the proxy."""
    claude = assistants.claude(options.model)
    prefix = Path(os.environ["ASSISTANTS"]).resolve()
    with tempfile.TemporaryDirectory() as scratch, serve(assistants.script(claude)) as provider:
        provider.play.is_aside = assistants.is_aside
        folder = Path(scratch)
        given = {
            "cwd": assistants.project(folder, claude, FILES[options.files]()),
            "env": assistants.environment(folder, claude, prefix),
        }
        if is_pruned:
            own = ["--model", options.model, "--strategy", options.strategy, "--child", provider.url]
            own += ["--safe-zone", options.safe_zone] if options.safe_zone else []
            command = [sys.executable, __file__, *own, "--began", str(time.time())]
        else:
            given["env"] |= {"ANTHROPIC_BASE_URL": provider.url}
            command = ["claude", *claude.arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, **given)
        assert len((folder / "project" / "done.txt").read_text().split()) == assistants.CALLS
    return provider, json.loads(done.stdout) if is_pruned else {}


def sources() -> dict[str, str]:
    """Forty pieces of Python from the package `openai`."""
    return number_texts(pieces_of(text_of("openai", ".py")))


def mixed_texts() -> dict[str, str]:
    """Forty pieces of real files in turn: sources, an import log, CSV, JSON and prose."""
    log = subprocess.run([sys.executable, "-v", "-c", "import openai"], stderr=subprocess.PIPE, text=True, check=True)
    texts = (
        text_of("openai", ".py"),
        log.stderr,
        text_of("openai", "RECORD"),
        json.dumps([vars(each) for each in get_snapshot().providers], default=str, indent=1),
        "".join(each.read_text("METADATA") or "" for each in distributions()),
    )
    return number_texts(piece for row in zip(*map(pieces_of, texts), strict=False) for piece in row)


def text_of(package: str, ends: str) -> str:
    """The concatenated installed files of a package whose names have an ending."""
    return "".join(str(file.read_text()) for file in files(package) or () if file.name.endswith(ends))


def pieces_of(text: str) -> list[str]:
    """Split a text at lines into pieces of about 8 kB."""
    lines, made = text.splitlines(keepends=True), [""]
    for line in lines:
        made[-1] += line
        if len(made[-1]) >= PIECE:
            made.append("")
    return made


def number_texts(made: Iterable[str]) -> dict[str, str]:
    """The first forty texts as the session's files."""
    return {f"notes/{number:02}.txt": text for number, text in zip(range(assistants.CALLS), made, strict=False)}


FILES = {"notes": assistants.notes, "code": sources, "mixed": mixed_texts}


def prompts(provider: Provider) -> list[list[Piece]]:
    """The prompts of the conversation in the pieces that the provider caches."""
    asked = [request for request in provider.requests if not assistants.is_aside(request)]
    return [pieces(request.body, seen(request)) for request in asked]


def tokens(prompt: Sequence[Piece]) -> int:
    """The tokens of a prompt."""
    return sum(each.tokens for each in prompt)


def shared_tokens(before: Sequence[Piece], now: Sequence[Piece]) -> int:
    """The tokens of the prefix that two prompts share."""
    same = 0
    for one, other in zip(before, now, strict=False):
        if one.mark != other.mark:
            break
        same += one.tokens
    return same


def bills(asked: Sequence[Sequence[Piece]], at: Prices) -> list[float]:
    """The cost of prompts in order up to each one, with caching."""
    common = [0, *(shared_tokens(before, now) for before, now in pairwise(asked))]
    return [*accumulate(at.request(tokens(prompt), same) for prompt, same in zip(asked, common, strict=True))]


def count_breaks(asked: Sequence[Sequence[Piece]]) -> int:
    """Count the prompts that do not begin with the whole previous prompt."""
    return sum(shared_tokens(before, now) < tokens(before) for before, now in pairwise(asked))


def message_tokens(request: Request) -> int:
    """The tokens of a request's messages."""
    return tokens(pieces({**request.body, "tools": [], "system": []}, seen(request)))


def main() -> None:
    """Run the session twice, and print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--safe-zone", help="the token budget; without it, what the model's window gives")
    parser.add_argument("--strategy", default=RUN_STRATEGY)
    parser.add_argument("--files", default="notes", choices=FILES, help="what the session reads")
    parser.add_argument("--model", default="claude-opus-5-5")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--began", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        run_and_print(options)
        return
    (direct, _), (through, told) = (play_session(options, is_pruned=each) for each in (False, True))
    plain, pruned = prompts(direct), prompts(through)
    known = prices(None, options.model)
    shares = [one / other for one, other in zip(bills(pruned, known), bills(plain, known), strict=False)]
    milliseconds = [1000 * each for each in told["seconds"]]
    last, unpruned = tokens(pruned[-1]), tokens(plain[-1])
    of_last = [message_tokens(each.requests[-1]) for each in (through, direct)]
    print(f"{options.files}, {options.model}, {options.strategy}, safe zone {told['zone']:,}, {os.cpu_count()} cores")
    print(f"requests          {len(pruned)}, {len(plain)} directly; refused {len(through.refusals)}")
    print(
        f"bill              {shares[-1]:.2f} of pass-through, {max(shares):.2f} at most on the way; "
        f"the prefix broke {count_breaks(pruned)} times"
    )
    print(f"last prompt       {last:,} of {unpruned:,} tokens, {last / unpruned:.0%}")
    print(f"of its messages   {of_last[0]:,} of {of_last[1]:,} tokens, {of_last[0] / of_last[1]:.0%}")
    print(f"largest prompt    {max(map(tokens, pruned)):,} tokens")
    print(f"pruning           {median(milliseconds):.1f} ms in the median, {max(milliseconds):.0f} at most")
    print(f"start             {told['start']:.2f} s")
    print(f"memory            {told['memory']:.0f} MB")


if __name__ == "__main__":
    main()

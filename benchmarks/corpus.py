"""Time and memory of a replay of many sessions, generated with the sizes of recorded ones.

python benchmarks/corpus.py                     1,000 sessions: time, memory, and what 100,000 would cost
python benchmarks/corpus.py --sessions 50       fewer of them
python benchmarks/corpus.py --large             one session of 500 requests and 1.3m tokens, step by step
python benchmarks/corpus.py --write FOLDER      only write the sessions
"""

import argparse
import json
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autoprune.apps.replay.corpus import cores
from autoprune.apps.replay.session import ReplayArgs, episodes, replay_episode

SEED = 11
# Sizes of recorded sessions: 148 requests on average, with a long tail, and 720 tokens each; results of 452
# characters in the median, of which the largest tenth hold two thirds of all; most reads repeat an earlier file.
MEDIAN_REQUESTS, SPREAD_OF_REQUESTS, MOST_REQUESTS = 120, 0.7, 600
MEDIAN_RESULT, SPREAD_OF_RESULTS, MOST_CHARACTERS = 452, 1.65, 60_000
WORDS_SAID, LINES_WRITTEN = 300, 12  # characters with each call, lines with each edit
AGAIN, EDITS = 0.6, 0.2
STRATEGY = "low_water"
WORDS = ("value", "count", "index", "buffer", "parser", "request", "handler", "result", "config", "error")


def line(draw: random.Random, name: str, number: int) -> str:
    """A line of code."""
    first, second = draw.choices(WORDS, k=2)
    return f"    {name}_{first}_{number} = self.{second}_{draw.randrange(10_000)}({first}, {number})"


def text(draw: random.Random, name: str, characters: int) -> str:
    """Lines of code, `characters` long or a little less."""
    return "\n".join(line(draw, name, number) for number in range(max(1, characters // 50)))


def session(draw: random.Random, requests: int, characters: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield the messages of an agent that reads, runs and edits; `characters` fixes the size of all results."""
    files: list[tuple[str, str]] = []
    yield {"role": "system", "content": text(draw, "rules", 8_000)}
    yield {"role": "user", "content": text(draw, "task", 1_500)}
    for number in range(requests):
        said = " ".join(draw.choices(WORDS, k=WORDS_SAID // 7))
        size = characters or min(MOST_CHARACTERS, int(draw.lognormvariate(math.log(MEDIAN_RESULT), SPREAD_OF_RESULTS)))
        if files and draw.random() < EDITS:
            path, known = draw.choice(files[-12:])
            old = draw.choice(known.split("\n"))
            arguments = {"path": path, "old_string": old, "new_string": text(draw, "new", 50 * LINES_WRITTEN)}
            yield from call(said, number, "edit_file", arguments, "The file has been changed.")
            continue
        if files and draw.random() < AGAIN:
            path = draw.choice(files)[0]
        else:
            path = f"src/part_{draw.randrange(400)}/module_{number}.py"
        result = text(draw, f"name_{number}", size)
        files.append((path, result))
        yield from call(said, number, "read_file", {"path": path}, result)


def call(said: str, number: int, tool: str, arguments: dict[str, str], result: str) -> Iterator[dict[str, Any]]:
    """Yield a call, with a text before it, and its result."""
    asked = {"id": f"c{number}", "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
    yield {"role": "assistant", "content": said, "tool_calls": [asked]}
    yield {"role": "tool", "tool_call_id": f"c{number}", "content": result}


def write(folder: Path, count: int) -> int:
    """Write sessions, and return their size in bytes."""
    draw = random.Random(SEED)
    size = 0
    for number in range(count):
        requests = min(MOST_REQUESTS, max(20, int(draw.lognormvariate(math.log(MEDIAN_REQUESTS), SPREAD_OF_REQUESTS))))
        path = folder / f"session-{number:06}.json"
        path.write_text(json.dumps(list(session(draw, requests))), encoding="utf-8")
        size += path.stat().st_size
    return size


def corpus(count: int) -> None:
    """Replay sessions with the command, and print its time and memory."""
    with tempfile.TemporaryDirectory() as folder:
        size = write(Path(folder), count)
        command = [sys.executable, "-m", "autoprune", "replay", folder, "-o", f"{folder}/figures.out"]
        command += ["--strategy", STRATEGY]
        started = time.perf_counter()
        done = subprocess.run(command, capture_output=True, check=True, text=True)
        seconds = time.perf_counter() - started
        written = os.path.getsize(f"{folder}/figures.out")
    print(done.stdout.partition("\n\n")[0])
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_cores = cores()
    busy = used.ru_utime + used.ru_stime
    print(f"{count:,} sessions, {size / 1e6:,.0f} MB, strategies none and {STRATEGY}")
    print(f"{seconds:,.0f} s on {used_cores} cores, {busy:,.0f} s of processor time: {busy / count:.2f} s a session")
    print(f"largest process: {used.ru_maxrss / 1024:,.0f} MB; figures: {written / count / 1024:.1f} KB a session")
    hours, space = busy / count * 100_000 / 3600, written / count / 1e4
    print(f"100,000 sessions: {hours:,.0f} hours of one core, {hours / 32:,.1f} of 32; {space:.1f} GB of figures")


def large() -> None:
    """Replay sessions of 125 to 500 requests under one strategy, and print the processor time of each step."""
    print("requests   tokens   needs   loading   evidence      play   a request")
    for requests in (125, 250, 500):
        data = json.dumps(list(session(random.Random(SEED), requests, characters=9_000))).encode()
        args = ReplayArgs((STRATEGY,), safe_zone=80_000)
        started = time.process_time()
        ((_, known),) = episodes("large.json", data, args)
        loaded = time.process_time()
        needs = known.evidence.needs
        found = time.process_time()
        list(replay_episode(known, args))
        played = time.process_time()
        each = (played - loaded) / requests * 1e3
        times = f"{loaded - started:7.2f} s {found - loaded:8.2f} s {played - found:7.2f} s {each:8.1f} ms"
        print(f"{requests:8} {known.transcript.tokens:8,} {len(needs):7} {times}")


def main() -> None:
    """Run the command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sessions", type=int, default=1_000)
    options.add_argument("--large", action="store_true")
    options.add_argument("--write", type=Path)
    given = options.parse_args()
    if given.write:
        given.write.mkdir(parents=True, exist_ok=True)
        print(f"{write(given.write, given.sessions) / 1e6:,.0f} MB")
    elif given.large:
        large()
    else:
        corpus(given.sessions)


if __name__ == "__main__":
    main()

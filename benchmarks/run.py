"""What pruning costs, as a ratio to one exact tokenization pass over the same text, warm, in the same run.

python benchmarks/run.py            all figures, about two minutes
python benchmarks/run.py --quick    smaller loops, a few seconds
"""

import argparse
import gc
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import conversations  # noqa: E402

from autoprune import AgenticConversationPruner, PruneArgs  # noqa: E402
from autoprune.tokens import exact  # noqa: E402

Messages = list[dict[str, object]]
SHAPES: dict[str, Callable[[int, int], Messages]] = {"openai": conversations.openai_chat, "xml": conversations.xml}
TOKENS_PER_REQUEST = 600  # of recorded sessions: 2.4k characters a result


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """The median time of a piece of work."""
    times = []
    for _ in range(repeats):
        gc.collect()
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def one_pass(messages: Messages) -> float:
    """Seconds for one exact tokenization of every text, with the engine warm."""
    tokenizer = exact()._load()
    texts = conversations.texts(messages)
    return seconds(lambda: [len(tokenizer.encode_ordinary(text)) for text in texts], 7)


def pruner(tokens: int) -> AgenticConversationPruner:
    """A pruner that has seen nothing."""
    return AgenticConversationPruner(PruneArgs(tokens))


def total(messages: Messages) -> int:
    """Tokens of a conversation."""
    return pruner(1).count_tokens(messages)


def cold(messages: Messages) -> float:
    """Seconds for one call on a conversation never seen before."""
    safe_zone = total(messages) // 2
    return seconds(lambda: pruner(safe_zone).prune_conversations(messages), 7)


def requests(messages: Messages) -> list[int]:
    """Where the requests of a loop stand."""
    return [at for at, message in enumerate(messages) if message["role"] == "assistant"]


def loop(messages: Messages, style: str) -> float:
    """Seconds that pruning takes in a whole loop, a prune before each request."""
    ours = pruner(total(messages) // 2)
    spent = 0.0
    history: list[object] = []
    taken = 0
    for stop in [*requests(messages), len(messages)]:
        history += messages[taken:stop]
        taken = stop
        given = json.loads(json.dumps(history)) if style == "re-parsed" else history
        started = time.perf_counter()
        output = ours.prune_conversations(given)
        spent += time.perf_counter() - started
        if style == "stored back":
            history = output
    return spent


def one_more(messages: Messages, style: str) -> float:
    """Seconds for one more request at the end of a conversation: the median of the last twenty."""
    ours = pruner(total(messages) // 2)
    times = []
    for stop in requests(messages)[-20:]:
        given = messages[:stop] if style == "same objects" else json.loads(json.dumps(messages[:stop]))
        started = time.perf_counter()
        ours.prune_conversations(given)
        times.append(time.perf_counter() - started)
    return statistics.median(times[1:])


def below_budget() -> str:
    """Whether a conversation with fewer bytes than its budget loads the vocabulary: asked in a new process."""
    code = (
        "from autoprune import AgenticConversationPruner as P, PruneArgs\n"
        "from autoprune.tokens import exact\nimport sys\n"
        "messages = [{'role': 'user', 'content': 'x ' * 20_000}]\n"
        "assert P(PruneArgs('50k')).prune_conversations(messages) is messages\n"
        "print(exact().loaded or 'splintr' in sys.modules or 'tiktoken' in sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    return "the vocabulary was loaded" if loaded == "True" else "no vocabulary was loaded"


def resident() -> float:
    """Resident memory of this process in MB (Linux only, 0 elsewhere)."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * 4096 / 1e6 if status.exists() else 0.0


def memory() -> float:
    """MB that a loop to 1M tokens leaves behind, without its messages and the vocabulary."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import run, gc\n"
        "messages = run.conversations.openai_chat(500, 1_000_000)\n"
        "run.exact()('x'); ours = run.pruner(500_000); gc.collect(); before = run.resident()\n"
        "for stop in run.requests(messages): ours.prune_conversations(messages[:stop])\n"
        "gc.collect(); print(run.resident() - before)"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Print every figure with the one to reach."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="smaller loops")
    quick = options.parse_args().quick
    sizes = (100_000,) if quick else (100_000, 300_000, 1_000_000)
    loops = ((100, 100_000),) if quick else ((500, 200_000), (500, 1_000_000))
    print("ratios to one exact tokenization pass of the same text, warm, in the same run\n")
    for shape, make in SHAPES.items():
        print_cold(shape, make, sizes)
        print_loops(shape, make, loops)
    print_growth(SHAPES["openai"], (1, 2, 4) if quick else (1, 2, 4, 8))
    print(f"below the budget: {below_budget()} (to reach: none)")
    print(f"memory after 1M tokens: {memory():.0f} MB (to reach: 64)")


def print_cold(shape: str, make: Callable[[int, int], Messages], sizes: tuple[int, ...]) -> None:
    """One call on a conversation never seen before, safe zone half of it."""
    for size in sizes:
        messages = make(size // TOKENS_PER_REQUEST, size)
        base = one_pass(messages)
        print(f"{shape:7} cold call  {total(messages):>9,} tokens  pass {base * 1e3:6.1f} ms  "
              f"ratio {cold(messages) / base:5.2f} (to reach: 1.15)")  # fmt: skip


def print_loops(shape: str, make: Callable[[int, int], Messages], loops: tuple[tuple[int, int], ...]) -> None:
    """Whole loops, and one more request at their end."""
    for number, size in loops:
        messages = make(number, size)
        base = one_pass(messages)
        print(f"{shape:7} loop of {number} requests to {total(messages):,} tokens, pass {base * 1e3:.1f} ms")
        for style, aim in (("same objects", 1.5), ("stored back", 1.5), ("re-parsed", 9.0)):
            print(f"          {style:13} ratio {loop(messages, style) / base:5.2f} (to reach: {aim})")
        for style, aim in (("same objects", 2), ("re-parsed", 10)):
            share = one_more(messages, style) / base * 100
            print(f"          one more request, {style:13} {share:5.2f} % of a pass (to reach: {aim} % at 1M tokens)")


def print_growth(make: Callable[[int, int], Messages], factors: tuple[int, ...]) -> None:
    """How the time of one cold call grows with the conversation."""
    times = [cold(make(200 * factor, 100_000 * factor)) for factor in factors]
    exponent = math.log(times[-1] / times[0]) / math.log(factors[-1] / factors[0])
    print(f"growth of a cold call over {factors}: exponent {exponent:.2f} (to reach: 1.05)")


if __name__ == "__main__":
    main()

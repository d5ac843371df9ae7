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

import conversations

from autoprune import AgenticConversationPruner, PruneArgs
from autoprune.tokens import exact

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


def first_pass(messages: Messages) -> float:
    """The same with the engine's cache of pieces emptied before, as when an agent's text is new to it."""
    tokenizer = exact()._load()
    texts = conversations.texts(messages)

    def work() -> float:
        tokenizer.clear_cache()
        started = time.perf_counter()
        for text in texts:
            tokenizer.encode_ordinary(text)
        return time.perf_counter() - started

    return statistics.median(work() for _ in range(3))


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
    print("ratio: to one exact tokenization pass over the same text, by the same engine, warm, in the same run")
    for shape, make in SHAPES.items():
        for size in sizes:
            print_cold(shape, make(size // TOKENS_PER_REQUEST, size))
        for number, size in loops:
            print_loop(shape, make(number, size))
    factors = (1, 2, 4) if quick else (1, 2, 4, 8)
    print(f"\ngrowth of a cold call over {factors}: exponent {growth(factors):.2f} (to reach: 1.05)")
    print(f"bytes below the budget: {below_budget()} (to reach: none)")
    print(f"memory after a loop to 1M tokens: {memory():.0f} MB (to reach: 64)")


def print_head(what: str, messages: Messages) -> float:
    """A line on a conversation; returns the seconds of one warm pass."""
    base, fresh = one_pass(messages), first_pass(messages)
    print(f"\n{what}, {total(messages):,} tokens: one pass {base * 1e3:.1f} ms "
          f"({fresh * 1e3:.1f} ms over text that the engine has not met before)")  # fmt: skip
    return base


def print_row(what: str, spent: float, base: float, aim: float) -> None:
    """A figure, in milliseconds and as a ratio."""
    print(f"  {what:32} {spent * 1e3:8.2f} ms   ratio {spent / base:7.3f}   to reach {aim:5.2f}")


def print_cold(shape: str, messages: Messages) -> None:
    """One call on a conversation never seen before, safe zone half of it."""
    base = print_head(f"{shape}, {len(messages)} messages", messages)
    print_row("one cold call", cold(messages), base, 1.15)


def print_loop(shape: str, messages: Messages) -> None:
    """A whole loop in three calling styles, and one more request at its end."""
    base = print_head(f"{shape}, a loop of {len(requests(messages))} requests", messages)
    for style, aim in (("same objects", 1.5), ("stored back", 1.5), ("re-parsed", 9.0)):
        print_row(f"whole loop, {style}", loop(messages, style), base, aim)
    for style, aim in (("same objects", 0.02), ("re-parsed", 0.10)):
        print_row(f"one more request, {style}", one_more(messages, style), base, aim)


def growth(factors: tuple[int, ...]) -> float:
    """The exponent with which the time of one cold call grows."""
    times = [cold(SHAPES["openai"](200 * factor, 100_000 * factor)) for factor in factors]
    return math.log(times[-1] / times[0]) / math.log(factors[-1] / factors[0])


if __name__ == "__main__":
    main()

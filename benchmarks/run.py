"""What pruning costs, as a ratio to one pass of tiktoken over the same text, warm, in the same run.

python benchmarks/run.py            all figures, about two minutes
python benchmarks/run.py --quick    smaller loops, a few seconds
python benchmarks/run.py --sessions a.jsonl b.json    the same with the texts of recorded sessions (2 MB or more)
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
import reference

from autoprune import AgenticConversationPruner, PruneArgs

Messages = list[dict[str, object]]
SHAPES: dict[str, Callable[[int, int], Messages]] = {"openai": conversations.openai_chat, "xml": conversations.xml}
TOKENS_PER_REQUEST = 720  # of recorded sessions: 107k tokens in 148 requests


def time_pass(texts: list[str]) -> float:
    """The seconds that tiktoken needs to count every text once, warm."""
    encode = reference.encoding().encode_ordinary
    started = time.perf_counter()
    for text in texts:
        encode(text)
    return time.perf_counter() - started


def measure_paired(messages: Messages, work: Callable[[], float], repeats: int) -> tuple[float, float]:
    """The median seconds of a piece of work, and the median of its ratios to a pass made right before it."""
    texts = conversations.texts(messages)
    time_pass(texts)
    times, ratios = [], []
    for _ in range(repeats):
        gc.collect()
        base = time_pass(texts)
        times.append(work())
        ratios.append(times[-1] / base)
    return statistics.median(times), statistics.median(ratios)


def pruner(tokens: int) -> AgenticConversationPruner:
    """Create a pruner without a memo."""
    return AgenticConversationPruner(PruneArgs(tokens))


def total(messages: Messages) -> int:
    """The tokens of a conversation."""
    return pruner(1).count_tokens(messages)


def time_cold_call(messages: Messages) -> float:
    """The seconds of one call on a new conversation, with half of its tokens as the safe zone."""
    safe_zone = total(messages) // 2
    started = time.perf_counter()
    pruner(safe_zone).prune_conversations(messages)
    return time.perf_counter() - started


def requests(messages: Messages) -> list[int]:
    """The indexes of a loop's requests."""
    return [at for at, message in enumerate(messages) if message["role"] == "assistant"]


def loop(messages: Messages, style: str, strategy: str | None = None) -> list[float]:
    """The seconds of each prune in a whole loop, with one before each request."""
    ours = pruner(total(messages) // 2)
    spent = []
    history: list[object] = []
    taken = 0
    for stop in [*requests(messages), len(messages)]:
        history += messages[taken:stop]
        taken = stop
        given = json.loads(json.dumps(history)) if style == "re-parsed" else history
        started = time.perf_counter()
        output = ours.prune_conversations(given, strategy)
        spent.append(time.perf_counter() - started)
        if style == "stored back":
            history = output
    return spent


def time_one_more(messages: Messages, style: str) -> float:
    """The seconds of one more request at the end of a conversation: the median of the last twenty."""
    ours = pruner(total(messages) // 2)
    times = []
    for stop in requests(messages)[-20:]:
        given = messages[:stop] if style == "same objects" else json.loads(json.dumps(messages[:stop]))
        started = time.perf_counter()
        ours.prune_conversations(given)
        times.append(time.perf_counter() - started)
    return statistics.median(times[1:])


def below_budget() -> str:
    """Check in a new process whether a conversation with fewer bytes than its budget loads the vocabulary."""
    code = (
        "from autoprune import AgenticConversationPruner as P, PruneArgs\n"
        "from autoprune.tokens import exact\nimport sys\n"
        "messages = [{'role': 'user', 'content': 'x ' * 20_000}]\n"
        "assert P(PruneArgs('50k')).prune_conversations(messages) is messages\n"
        "print(exact().is_loaded or 'splintr' in sys.modules or 'tiktoken' in sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    return "the vocabulary was loaded" if loaded == "True" else "no vocabulary was loaded"


def resident() -> float:
    """Resident memory of this process in MB (Linux only, 0 elsewhere)."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * 4096 / 1e6 if status.exists() else 0.0


def memory() -> float:
    """The memory in MB that a loop to 1M tokens retains, without its messages and the vocabulary."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import run, gc\n"
        "from autoprune.tokens import exact\n"
        "messages = run.conversations.openai_chat(500, 1_000_000)\n"
        "exact()('x'); ours = run.pruner(500_000); gc.collect(); before = run.resident()\n"
        "for stop in run.requests(messages): ours.prune_conversations(messages[:stop])\n"
        "gc.collect(); print(run.resident() - before)"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Print every figure with its target."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="smaller loops")
    options.add_argument("--sessions", nargs="+", default=[], help="take the results' texts from recorded sessions")
    given = options.parse_args()
    quick = given.quick
    if given.sessions:
        conversations.TEXTS["recorded"] = conversations.read_recorded(given.sessions)
    sizes = (100_000,) if quick else (100_000, 300_000, 1_000_000)
    loops = ((96, 225_000),) if quick else ((96, 225_000), (500, 200_000), (500, 1_000_000))
    print("ratio: to one pass of tiktoken (o200k_base) over the same text, warm, in the same run")
    for shape, make in SHAPES.items():
        for size in sizes:
            print_cold(shape, make(size // TOKENS_PER_REQUEST, size))
        for number, size in loops:
            print_loop(shape, make(number, size))
    factors = (1, 2, 4) if quick else (1, 2, 4, 8)
    print(f"\ngrowth of a cold call over {factors}: exponent {growth(factors):.2f} (to reach: 1.15)")
    print("growth with the results of one message, pruned, reported and compared (to reach: 1.30):")
    for shape, make in conversations.GIANTS.items():
        print(f"  {shape:12} {growth_of_a_message(make, (1, 4) if quick else (1, 2, 4, 8)):.2f}")
    print(f"bytes below the budget: {below_budget()} (to reach: none)")
    print(f"memory after a loop to 1M tokens: {memory():.0f} MB (to reach: 64)")


def print_head(what: str, messages: Messages) -> None:
    """Print the subject of a measurement, and the time of a pass over it."""
    texts = conversations.texts(messages)
    base = statistics.median(time_pass(texts) for _ in range(5))
    print(f"\n{what}, {total(messages):,} tokens, one pass {base * 1e3:.1f} ms")


def print_row(what: str, messages: Messages, work: Callable[[], float], aim: float, repeats: int) -> None:
    """Print a figure, in milliseconds and as a ratio."""
    spent, ratio = measure_paired(messages, work, repeats)
    print(f"  {what:32} {spent * 1e3:8.2f} ms   ratio {ratio:7.3f}   to reach {aim:5.2f}")


def print_cold(shape: str, messages: Messages) -> None:
    """Measure one call on a new conversation."""
    print_head(f"{shape}, {len(messages)} messages", messages)
    print_row("one cold call", messages, lambda: time_cold_call(messages), 0.5, 15)


def print_loop(shape: str, messages: Messages) -> None:
    """Measure a whole loop in three calling styles, and one more request at its end."""
    print_head(f"{shape}, a loop of {len(requests(messages))} requests", messages)
    for style, aim in (("same objects", 1.5), ("stored back", 1.5), ("re-parsed", 4.0)):
        print_row(f"whole loop, {style}", messages, lambda style=style: sum(loop(messages, style)), aim, 3)
        # The minimum of three, since another process may interrupt any single prune.
        longest = min(max(loop(messages, style)[1:]) for _ in range(3))
        print(f"  {f'longest prune, {style}':32} {longest * 1e3:8.2f} ms   to reach  5.00")
    print_cache_aware(messages)
    for style, aim in (("same objects", 0.01), ("re-parsed", 0.03)):
        print_row(f"one more request, {style}", messages, lambda style=style: time_one_more(messages, style), aim, 3)


def print_cache_aware(messages: Messages) -> None:
    """Measure the time of `cache_aware` per request, beyond counting new messages."""
    counting = time_pass(conversations.texts(messages))
    spent = min(sum(loop(messages, "same objects", "cache_aware")) for _ in range(3)) - counting
    each = 1_000 * spent / len(requests(messages))
    print(f"  cache_aware, same objects: {each:.2f} ms a request beyond a pass   to reach 3.00")


def growth_of_a_message(make: Callable[[int], Messages], factors: tuple[int, ...]) -> float:
    """The exponent of the time for one message as a function of the results in it."""
    times = []
    for factor in factors:
        messages = make(500 * factor)
        spent = []
        for _ in range(3):
            gc.collect()
            ours = pruner(1_000)
            started = time.perf_counter()
            result = ours.prune(messages)
            result.report.to_json()
            ours.get_cleanup_statistics(messages, result.conversation)
            spent.append(time.perf_counter() - started)
        times.append(min(spent))
    return math.log(times[-1] / times[0]) / math.log(factors[-1] / factors[0])


def growth(factors: tuple[int, ...]) -> float:
    """The exponent of the time of one cold call as a function of its size."""
    times = []
    for factor in factors:
        messages = SHAPES["openai"](200 * factor, 100_000 * factor)
        times.append(measure_paired(messages, lambda messages=messages: time_cold_call(messages), 9)[0])
    return math.log(times[-1] / times[0]) / math.log(factors[-1] / factors[0])


if __name__ == "__main__":
    main()

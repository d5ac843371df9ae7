"""What leaving out the thinking of finished turns saves at requests that find an empty cache, beside `cache_aware`.

    python benchmarks/thinking.py sessions/assistants

Logs hold no thinking, so its tokens are those of the recorded output that the answers do not show. It goes at a cold
request with which a turn of the user begins: at each one, or only if results are cleared there too, as
`cache_aware(clear_thinking=True)` does it. Bills are relative to no pruning, at each session's own prices.
"""

import sys
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

from autoprune.apps.replay.choices import Policy
from autoprune.apps.replay.episode import Episode
from autoprune.apps.replay.episode_figures import OWN
from autoprune.apps.replay.play import Run, play
from autoprune.apps.replay.session import ReplayArgs, deciding_prices, episodes
from autoprune.conversation.transcript import Speaker
from autoprune.errors import SessionError
from autoprune.tokens import exact


def main() -> None:
    """Print the three bills of the sessions in the folders."""
    bills = [0.0] * 4
    count = 0
    for folder in sys.argv[1:]:
        for path in sorted(each for each in Path(folder).rglob("*") if each.is_file()):
            for known in read(path):
                found = known_bills(known)
                bills = [total + each for total, each in zip(bills, found, strict=True)]
                count += 1
    whole, *others = bills
    names = ("cache_aware", "with thinking left out where results are cleared", "with thinking left out")
    print(f"{count} sessions, bill relative to no pruning")
    for name, cost in zip(names, others, strict=True):
        print(f"{cost / whole:.3f}  {name}")


def read(path: Path) -> list[Episode]:
    """Read the episodes of a file; none if it is not a session."""
    try:
        return [known for _, known in episodes(path.name, path.read_bytes(), ReplayArgs())]
    except SessionError:
        return []


def known_bills(known: Episode) -> list[float]:
    """Return the bills without pruning, with it, and with thinking left out in both ways, in dollars."""
    policy = Policy("cache_aware")
    strategy, new_pruner = policy.for_episode(known, deciding_prices(known, (OWN,)))
    run = play(known, new_pruner, strategy, count=exact())
    none = [0.0] * len(known.requests)
    lost = [whole - prompt.tokens for whole, prompt in zip(known.unpruned, run.prompts, strict=True)]
    cuts = {at for at in range(1, len(lost)) if lost[at] > lost[at - 1]}
    shared = [0, *map(min, known.unpruned, known.unpruned[1:])]
    whole = zip(known.unpruned, shared, strict=True)
    pruned = [(prompt.tokens, prompt.held) for prompt in run.prompts]
    return [
        cost(known, whole, none),
        *(cost(known, pruned, gone) for gone in (none, left_out(run, cuts), left_out(run, None))),
    ]


def left_out(run: Run, only: set[int] | None) -> list[float]:
    """Return the tokens of thinking that are left out of each prompt."""
    known = run.episode
    entries, sizes = known.transcript.entries, known.sizes
    hidden = [
        size - sizes.text * entry.tokens if entry.speaker is Speaker.MODEL else 0.0
        for entry, size in zip(entries, sizes.messages, strict=True)
    ]
    until = [0.0, *accumulate(max(0.0, each) for each in hidden)]
    found, gone = [], 0.0
    for request, start in enumerate(known.requests):
        last = entries[start - 1] if start else None
        begins = last is not None and last.speaker is Speaker.USER and not last.results
        if begins and known.is_cold(request) and (only is None or request in only):
            gone = until[start]
        found.append(gone)
    return found


def cost(known: Episode, prompts: Iterator[tuple[int, int]] | list[tuple[int, int]], gone: list[float]) -> float:
    """Return the dollars of the prompts, each without so many tokens."""
    total = 0.0
    for at, (tokens, held) in enumerate(prompts):
        billing = known.billings[at]
        cached = known.cached_tokens(at, max(0, round(tokens - gone[at])), max(0, round(held - gone[at])))
        price = billing.prices.input_price or 0.0
        total += price * billing.prices.request(max(0, tokens - gone[at]), cached, billing.answer)
    return total


if __name__ == "__main__":
    main()

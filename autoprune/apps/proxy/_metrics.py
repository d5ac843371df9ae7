"""Metrics in the text format of Prometheus. Labels are clients and models, which are few, and never sessions.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/, "Text-based format".
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate

from autoprune.apps.proxy._figures import BUCKETS, Figures, Label
from autoprune.apps.proxy._sessions import Sessions

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
WHOLE: Mapping[str, tuple[str, str]] = {
    "requests": ("autoprune_requests_total", "Requests that came."),
    "passed": ("autoprune_requests_passed_total", "Requests that went on as they came: no conversation was read."),
    "refused": (
        "autoprune_requests_refused_total",
        "Requests that the upstream answered with a status of 400 or more.",
    ),
    "failed": ("autoprune_requests_failed_total", "Requests that the upstream did not answer."),
}
# By client and model: name, type, help, figure.
EACH: tuple[tuple[str, str, str, Callable[[Figures], float]], ...] = (
    ("autoprune_sessions_total", "counter", "Conversations that went through.", lambda each: each.sessions),
    ("autoprune_conversation_requests_total", "counter", "Requests of conversations.", lambda each: each.requests),
    ("autoprune_prompt_tokens_before_total", "counter", "Prompts without pruning, tokens.", lambda each: each.before),
    ("autoprune_prompt_tokens_after_total", "counter", "Prompts as they were sent, tokens.", lambda each: each.after),
    ("autoprune_results_cleared_total", "counter", "Tool results cleared.", lambda each: each.cleared),
    (
        "autoprune_saved_input_tokens",
        "gauge",
        "What pruning has saved less all that it has cost, in input tokens; below zero, it has lost.",
        lambda each: each.saved,
    ),
    (
        "autoprune_cold_requests_total",
        "counter",
        "Requests of conversations before which the provider's cache had died.",
        lambda each: each.cold,
    ),
    (
        "autoprune_saved_cold_input_tokens",
        "gauge",
        "The part of autoprune_saved_input_tokens that is from prunes at cold requests.",
        lambda each: each.saved_cold,
    ),
)
TIMES = "autoprune_pruning_seconds"


def metrics(sessions: Sessions) -> str:
    """Return the metrics of what went through a proxy."""
    figures = sessions.figures()
    return "".join(f"{line}\n" for line in (*_whole(sessions), *_each(figures), *_times(figures)))


def _whole(sessions: Sessions) -> Iterator[str]:
    for field, (name, words) in WHOLE.items():
        yield from (*_head(name, "counter", words), f"{name} {getattr(sessions, field)}")


def _each(figures: Mapping[Label, Figures]) -> Iterator[str]:
    for name, kind, words, figure in EACH:
        yield from _head(name, kind, words)
        for (client, model), known in sorted(figures.items()):
            yield f'{name}{{client="{escaped(client)}",model="{escaped(model)}"}} {figure(known)}'


def _times(figures: Mapping[Label, Figures]) -> Iterator[str]:
    whole = sum(figures.values(), Figures())
    *below, count = accumulate(whole.times)
    yield from _head(TIMES, "histogram", "How long the pruning of a request took.")
    yield from (f'{TIMES}_bucket{{le="{most}"}} {number}' for most, number in zip(BUCKETS, below, strict=True))
    yield from (f'{TIMES}_bucket{{le="+Inf"}} {count}', f"{TIMES}_sum {whole.seconds}", f"{TIMES}_count {count}")


def _head(name: str, kind: str, words: str) -> tuple[str, str]:
    return f"# HELP {name} {words}", f"# TYPE {name} {kind}"


def escaped(value: str) -> str:
    """Return the value of a label as it stands between quotes."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

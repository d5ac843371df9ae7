"""Read the fields of logged requests and responses, as the APIs and their gateways name them: usage, cache life."""

from collections.abc import Iterator, Mapping

from autoprune.apps.sessions import (
    Object,
    Usage,
    build_usage,
    dollars,
    fields,
    objects,
    parse_milliseconds,
    text,
    token_count,
)

# Seconds by the values of Anthropic's `ttl` and OpenAI's `prompt_cache_retention`; its "in_memory" guarantees no time.
LIVES: Mapping[str, float] = {"5m": 300.0, "1h": 3_600.0, "24h": 86_400.0}
DEFAULT_TTL = "5m"  # Anthropic's default for `cache_control` without a `ttl`
CACHED = dict.fromkeys(("cached_tokens", "cache_read_input_tokens", "cache_read_tokens")).keys()  # fields, in order


def parse_epoch(value: object) -> float | None:
    """Convert seconds since the epoch to a float; None if it is not a plausible time."""
    return parse_milliseconds(1000 * value) if isinstance(value, int | float) else None


def parse_usage(usage: Object, cost: object = None) -> Usage | None:
    """Parse the `usage` of a response of Chat Completions or Responses, including fields that gateways add.

    Knows the field names of OpenAI, LiteLLM, OpenRouter, Portkey and OpenHands. `cost` is a cost from another place in
    the log, which takes precedence.
    """
    details = fields(usage.get("prompt_tokens_details") or usage.get("input_tokens_details"))
    prompt = _first(usage, "prompt_tokens", "input_tokens")
    output = _first(usage, "completion_tokens", "output_tokens")
    cached = _first(details, *CACHED) or _first(usage, *CACHED)
    written = _first(details, "cache_creation_tokens", "cache_write_tokens") or _first(
        usage, "cache_creation_input_tokens", "cache_write_tokens"
    )
    apart = cached + written
    # Some gateways exclude the cached tokens from the prompt; only the total shows it.
    if prompt + apart + output == token_count(usage.get("total_tokens")):
        prompt += apart
    split = fields(details.get("cache_creation_token_details") or usage.get("cache_creation"))
    counted = cached if CACHED & {*details, *usage} else None
    return build_usage(prompt, counted, written, output, split=split, cost=dollars(cost) or usage.get("cost"))


def _first(counts: Object, *names: str) -> int:
    """Return the first of the named counts that is not 0."""
    return next((count for name in names if (count := token_count(counts.get(name)))), 0)


def requested_cache_life(request: Object) -> float | None:
    """Return the seconds for which a request asks the provider to cache its prompt; None if it does not ask.

    The last `cache_control` mark counts, because it covers the longest prefix.
    """
    if retention := text(request.get("prompt_cache_retention")):
        return LIVES.get(retention)
    parts = [request.get("tools"), request.get("system"), request.get("messages"), [request]]
    marks = [mark for part in parts for mark in _marks(part)]
    return LIVES.get(text(marks[-1].get("ttl")) or DEFAULT_TTL) if marks else None


def _marks(blocks: object) -> Iterator[Object]:
    """Yield the `cache_control` marks of messages or tools, and of their contents, in the order of the prompt."""
    for block in objects(blocks):
        yield from _marks(block.get("content"))
        if mark := fields(block.get("cache_control")):
            yield mark

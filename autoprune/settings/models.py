"""Find a model in the price list of genai-prices: the model itself, or else the newest one of its family.

A model that is newer than the installed list must not be free or without a window. Names of a family share their words
and differ in their version: gpt-6.2-sol is priced like gpt-6.1-sol, and claude-opus-6 like claude-opus-5-5.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

# Prefixes of model names at Bedrock: "us.anthropic.claude-sonnet-4-5-20250929-v1:0".
PREFIXES = re.compile(r"^(?:(?:us|eu|apac|jp|au|ca|global)\.)?(?:anthropic|amazon|meta|deepseek|openai|qwen|mistral)\.")
LONG_WINDOW = "[1m]"  # the suffix by which Claude Code asks for a window of a million tokens
WORD, VERSION = re.compile(r"[a-z]+"), re.compile(r"\d+")
LONGEST_VERSION = 3  # digits: a longer number is a date
STAGES = frozenset(("preview", "latest", "exp", "experimental"))  # words that do not make another model


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model of the price list. `note` says which model stands in for one that the list does not have."""

    vendor: str
    vendor_name: str
    info: Any
    note: str = ""


@lru_cache(maxsize=256)
def find_model(model: str, provider: str | None = None) -> ListedModel:
    """Find a model, or the newest of its family with a note. Raises LookupError for an unknown family."""
    from genai_prices.data_snapshot import get_snapshot

    name = bare_name(model)
    try:
        vendor, info = get_snapshot().find_provider_model(name, None, provider, None)
    except LookupError:
        vendor = get_snapshot().find_provider(name, provider, None)
        relative = _newest_of_family(name, vendor.models)
        if relative is None:
            raise
        note = f"{model!r} is not in the price list: taken to be like {relative.id}"
        return ListedModel(vendor.id, vendor.name, relative, note)
    return ListedModel(vendor.id, vendor.name, info)


def listed_window(model: str, provider: str | None = None) -> int | None:
    """The context window of a model that the list has, else of the newest of its family; None if unknown."""
    if model.endswith(LONG_WINDOW):
        return 1_000_000
    found = find_model(model, provider)
    if found.info.context_window is not None:
        return int(found.info.context_window)
    from genai_prices.data_snapshot import get_snapshot

    vendor = get_snapshot().find_provider(bare_name(model), provider, None)
    sized = (each for each in vendor.models if each.context_window is not None)
    relative = _newest_of_family(bare_name(model), sized)
    return None if relative is None else int(relative.context_window)


def bare_name(model: str) -> str:
    """The name of a model without the prefix of a gateway or of Bedrock, and without the suffix for a long window."""
    return PREFIXES.sub("", model.rpartition("/")[2].removesuffix(LONG_WINDOW)).lower()


def _newest_of_family(name: str, models: Iterable[Any]) -> Any | None:
    """Choose the listed model that a name most likely means; None if no model shares its words or its beginning.

    In this order: the same words and version (grok-4-6, grok-4.6), the dearest model whose name continues the name
    (gpt-6.1, gpt-6.1-sol), the newest with the same words, and the longest name that the name continues.
    """
    listed = list(models)
    relatives = [each for each in listed if _words(each.id) == _words(name)]
    if same := [each for each in relatives if version(each.id) == version(name)]:
        return same[0]
    if longer := [each for each in listed if each.id.startswith(f"{name}-")]:
        return max(longer, key=_input_price)
    if relatives:
        return max(relatives, key=lambda each: version(each.id))
    shorter = (each for each in listed if name.startswith(f"{each.id}-"))
    return max(shorter, key=lambda each: len(each.id), default=None)


def _words(name: str) -> frozenset[str]:
    return frozenset(WORD.findall(name)) - STAGES


def version(name: str) -> tuple[int, ...]:
    """The version in a model's name: (5, 5) for claude-opus-5-5. Dates do not count."""
    return tuple(_numbers(name))


def _numbers(name: str) -> Iterator[int]:
    return (int(each) for each in VERSION.findall(name) if len(each) <= LONGEST_VERSION)


def _input_price(info: Any) -> float:
    price = info.get_prices(datetime.now(UTC)).input_mtok
    return float(getattr(price, "base", price) or 0)

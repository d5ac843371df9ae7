"""Find a model in the price list of genai-prices: the model itself, or else the newest one of its family.

A model that is newer than the installed list must not be free or without a window. Names of a family share their words
and differ in their version: gpt-6.2-sol is priced like gpt-6.1-sol, and claude-opus-6 like claude-opus-5-5.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

# What clouds and gateways add: "us.anthropic.claude-opus-5-5-v1:0" (Bedrock), "claude-opus-5-5@20260901" (Vertex),
# "gpt-5.4:free" (OpenRouter), "ft:gpt-4o:org::id" (OpenAI's fine-tuned models).
PREFIXES = re.compile(r"^(?:ft:|(?:[a-z-]+\.)+(?=[a-z]))")
SUFFIXES = re.compile(r"(?:-v\d+|-\d)?:.*$|(?<=\d)(?:-v\d+$|@.*$)")
LONG_WINDOW = "[1m]"  # the suffix by which Claude Code asks for a window of a million tokens
LONG, SHORT = 1_000_000, 200_000  # tokens
# Claude up to this version has the long window only if a request asks for it. Source: Anthropic's "Context windows".
# (Its API later dropped the condition for 4.6, but clients that do not ask still compact at the short window.)
LAST_ASKING = (4, 6)
LONG_BETA = "context-1m-"
# The part of the window of GPT-5 and later models that only their answers can fill, so a prompt of 272,001 tokens is
# refused although the window has 400,000. Source: OpenAI's "Introducing GPT-5 for developers".
GPT, ANSWERS_ONLY = (5,), 128_000  # version; tokens
OPENAI = frozenset(("openai", "azure"))  # vendors whose listed windows have both parts
WORD, VERSION = re.compile(r"(?!\bv\d)[a-z]+"), re.compile(r"\d+(?![\db])")  # 120b is a size
ZEROS = re.compile(r"(?<=\.\d)0\b")  # grok-4.20 came before grok-4.3
LONGEST_VERSION = 3  # digits: a longer number is a date
# Words of models for a single purpose, which are no measure for others.
SPECIAL = frozenset(("audio", "cyber", "highspeed", "image", "live", "oss", "realtime", "rosalind", "search", "tts"))
CLAUDE, FAST = "claude-", "-fast"  # models of Anthropic in fast mode, which costs a multiple
DATE = re.compile(r"-\d{8}$")  # in a model's name
LEAST_WORD = 3  # letters: "m" is not of the family of m2-her
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
    if name.startswith(CLAUDE) and name.endswith(FAST):
        return _in_fast_mode(model, name.removesuffix(FAST), provider)
    with suppress(LookupError):
        vendor, info = get_snapshot().find_provider_model(name, None, provider, None)
        return ListedModel(vendor.id, vendor.name, info)
    names = (name, model.rpartition("/")[2].lower())  # some are listed by their name at Bedrock only
    for vendor in get_snapshot().providers if provider is None else ():
        for info in (each for each in vendor.models if each.id.lower() in names):
            return ListedModel(vendor.id, vendor.name, info, f"{model!r} has the prices of {vendor.name}")
    vendor = _vendor(name, provider)
    relative = _newest_of_family(name, vendor.models)
    if relative is None:
        raise LookupError(f"no model of {vendor.name} is like {name!r}")
    note = f"{model!r} is not in the price list: taken to be like {relative.id}"
    return ListedModel(vendor.id, vendor.name, relative, note)


def _in_fast_mode(model: str, plain: str, provider: str | None) -> ListedModel:
    """Find a model of Anthropic in fast mode, which only gateways list; else the plain one, with a note."""
    from genai_prices.data_snapshot import get_snapshot

    wanted = f"{DATE.sub('', plain)}{FAST}".replace(".", "-")
    for vendor in get_snapshot().providers:
        for info in vendor.models:
            if bare_name(info.id).replace(".", "-") == wanted and ":" not in info.id:
                return ListedModel(vendor.id, vendor.name, info, f"{model!r} has the prices of {vendor.name}")
    found = find_model(plain, provider)
    return replace(found, note=f"no price of fast mode is listed for {model!r}: it has those of {found.info.id}")


def _vendor(name: str, provider: str | None) -> Any:
    """Find the vendor of a model, or of one with the same first word of three letters or more. Raises LookupError."""
    from genai_prices.data_snapshot import get_snapshot

    try:
        return get_snapshot().find_provider(name, provider, None)
    except LookupError:
        if len(_first_word(name)) < LEAST_WORD:
            raise
        listed = (each.id for vendor in get_snapshot().providers for each in vendor.models)
        for relative in (each for each in listed if _first_word(each.lower()) == _first_word(name)):
            with suppress(LookupError):
                return get_snapshot().find_provider(relative, provider, None)
        raise


def listed_window(model: str, provider: str | None = None) -> int | None:
    """Return the context window of a model in the list, else of the newest of its family; None if unknown."""
    if model.lower().endswith(LONG_WINDOW):
        return LONG
    name = bare_name(model)
    if name.startswith(CLAUDE) and name.endswith(FAST):
        return listed_window(name.removesuffix(FAST), provider)
    found = find_model(model, provider)
    window = _whole_window(found, model, provider)
    listed = found.info.id
    has_two_parts = found.vendor in OPENAI and listed.startswith("gpt-") and version(listed) >= GPT
    return window - ANSWERS_ONLY if window and window > ANSWERS_ONLY and has_two_parts else window


def _whole_window(found: ListedModel, model: str, provider: str | None) -> int | None:
    if found.info.context_window is not None:
        return int(found.info.context_window)
    vendor = _vendor(bare_name(model), provider)
    words = _words(bare_name(model))
    sized = (each for each in vendor.models if each.context_window is not None and _words(each.id.lower()) == words)
    relative = _newest_of_family(bare_name(model), sized)
    return None if relative is None else int(relative.context_window)


def asks_for_long(model: str | None, betas: Iterable[str]) -> bool:
    """Return whether a request asks for the long window, by the suffix of its model or by one of its betas."""
    return (model or "").lower().endswith(LONG_WINDOW) or any(each.strip().startswith(LONG_BETA) for each in betas)


def requested_window(model: str, listed: int, betas: Iterable[str] = ()) -> int:
    """Return the window that a request gets if `listed` is the model's: older ones of Anthropic's depend on betas."""
    name = bare_name(model)
    if not name.startswith("claude-") or not (4,) <= version(name) <= LAST_ASKING:
        return listed
    return LONG if asks_for_long(model, betas) else min(listed, SHORT)


def bare_name(model: str) -> str:
    """Return the name of a model without what a gateway or a cloud adds, and without the suffix for a long window."""
    name = model.rpartition("/")[2].lower().removesuffix(LONG_WINDOW)
    return SUFFIXES.sub("", PREFIXES.sub("", name))


def _newest_of_family(name: str, models: Iterable[Any]) -> Any | None:
    """Choose the listed model that a name most likely means; None if no model shares its first word.

    In this order: the same words and version (grok-4-6, grok-4.6), a model whose name continues the name (gpt-6.1,
    gpt-6.1-sol) or that the name continues (grok-4.6-fast, grok-4.6), and the newest with the same words, if they are
    more than the first one. Else the newest of those that share most words: gpt-7 is like gpt-6.1-sol.
    """
    words = _words(name)
    listed = {each.id.lower(): each for each in models if _first_word(each.id.lower()) == _first_word(name)}
    relatives = [each for each in listed if _words(each) == words]
    if same := [each for each in relatives if version(each) == version(name)]:
        return listed[same[0]]
    if version(name) and (longer := [each for each in listed if each.startswith(f"{name}-")]):
        return _usual([listed[each] for each in longer])
    if shorter := [each for each in listed if name.startswith(f"{each}-") and version(each) == version(name)]:
        return listed[max(shorter, key=len)]
    if relatives and len(words) > 1:
        return listed[max(relatives, key=version)]
    shared = max((len(_words(each) & words) for each in listed), default=0)
    nearest = [each for each in listed if len(_words(each) & words) == shared]
    nearest = [each for each in nearest if _words(each).isdisjoint(SPECIAL)] or nearest
    newest = max(map(version, nearest), default=())
    return _usual([listed[each] for each in nearest if version(each) == newest]) if nearest else None


def _usual(models: list[Any]) -> Any:
    """Choose the dearest of the models of a version, of those for general use if there are any."""
    return max(models, key=lambda each: (_words(each.id.lower()).isdisjoint(SPECIAL), _input_price(each)))


def _first_word(name: str) -> str:
    return name.partition("-")[0].rstrip("0123456789.")


def _words(name: str) -> frozenset[str]:
    return frozenset(WORD.findall(name)) - STAGES


def version(name: str) -> tuple[int, ...]:
    """Return the version in a model's name: (5, 5) for claude-opus-5-5. Dates do not count."""
    return tuple(int(each) for each in VERSION.findall(ZEROS.sub("", name)) if len(each) <= LONGEST_VERSION)


def _input_price(info: Any) -> float:
    price = info.get_prices(datetime.now(UTC)).input_mtok
    return float(getattr(price, "base", price) or 0)

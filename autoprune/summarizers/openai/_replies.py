"""Read a model's reply: its text, and what it took."""

import re
from collections.abc import Mapping
from typing import Any

from autoprune.facts.plain_text import sendable
from autoprune.summarizers.brief import Written

# Models that think aloud, behind servers that do not take the thoughts out.
THOUGHTS = re.compile(r"\s*<(think|thinking)>.*?</\1>", re.DOTALL)
CUT_OFF: Mapping[str, str] = {
    "length": "the reply was cut off at the limit of its tokens",
    "content_filter": "the provider's filter held back the reply",
}


class ReplyError(ValueError):
    """A reply that holds no summary."""


def text_of(reply: Any) -> str:
    """Return the text of a chat completion. Raise ReplyError where there is none, or not all of it."""
    if not reply.choices:
        raise ReplyError("the reply holds no choice")
    choice = reply.choices[0]
    if choice.finish_reason in CUT_OFF:
        raise ReplyError(CUT_OFF[choice.finish_reason])
    if getattr(choice.message, "refusal", None):
        raise ReplyError(f"the model refused: {choice.message.refusal}")
    text = THOUGHTS.sub("", _words(getattr(choice.message, "content", None)), count=1).strip()
    if not text:
        raise ReplyError("the reply holds no text")
    return sendable(text)


def _words(content: object) -> str:
    """Return the words of a content: a text, or blocks as some servers send them, thoughts among them."""
    match content:
        case str():
            return content
        case {"type": "text", "text": str(text)}:
            return text
        case list():
            return "".join(map(_words, content))
        case _:
            return ""


def answer(usage: object, model: str, provider: str | None, address: str) -> Written:
    """Return an answer without its text: what the provider says that a reply took; nothing where it does not say.

    The price is that of genai-prices: at the named provider, else at the one whose API is at `address`.
    """
    # The client does not check what a server sends: any of these may be missing.
    details = getattr(usage, "prompt_tokens_details", None)
    given, made = _number(usage, "prompt_tokens"), _number(usage, "completion_tokens")
    cached = min(_number(details, "cached_tokens"), given)
    where = {"provider_id": provider} if provider else {"provider_api_url": address}
    cost = _price(given, cached, made, model, where) if given or made else None
    return Written("", given, made, cost, model)


def _number(holder: object, name: str) -> int:
    value = getattr(holder, name, None)
    return value if isinstance(value, int) else 0


def _price(given: int, cached: int, made: int, model: str, where: Mapping[str, Any]) -> float | None:
    """Return dollars for the tokens of a prompt, some of them from a cache, and of an answer; None where not known."""
    from genai_prices import Usage, calc_price

    usage = Usage(input_tokens=given, cache_read_tokens=cached, output_tokens=made)
    try:
        return float(calc_price(usage, model, **where).total_price)
    except LookupError:
        return None

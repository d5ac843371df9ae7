"""What a model's reply says: its text, and what it took. Asks nothing."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autoprune.summarizers.utterances import sendable

# Models that think aloud, behind servers that do not take the thoughts out.
THOUGHTS = re.compile(r"\s*<(think|thinking)>.*?</\1>", re.DOTALL)
CUT_OFF: Mapping[str, str] = {
    "length": "the reply was cut off at the limit of its tokens",
    "content_filter": "the provider's filter held back the reply",
}


class ReplyError(ValueError):
    """A reply that holds no summary."""


@dataclass(frozen=True)
class Spent:
    """The tokens of a request: of the prompt, those of them that were read from a cache, and of the reply."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


def text_of(reply: Any) -> str:
    """The text of a chat completion. Raises ReplyError where there is none, or not all of it."""
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
    """The words of a content: a text, or blocks as some servers send them, thoughts among them."""
    match content:
        case str():
            return content
        case {"type": "text", "text": str(text)}:
            return text
        case list():
            return "".join(map(_words, content))
        case _:
            return ""


def spent(usage: object) -> Spent:
    """What the provider says that a reply took; nothing where it does not say."""
    # The client does not check what a server sends: any of these may be missing.
    details = getattr(usage, "prompt_tokens_details", None)
    prompt = _number(usage, "prompt_tokens")
    return Spent(prompt, min(_number(details, "cached_tokens"), prompt), _number(usage, "completion_tokens"))


def _number(holder: object, name: str) -> int:
    value = getattr(holder, name, None)
    return value if isinstance(value, int) else 0


def price(spent: Spent, model: str, provider: str | None, address: str) -> float | None:
    """Dollars, by genai-prices: at the named provider, else at the one whose API is at `address`; None if not known."""
    if not (spent.input_tokens or spent.output_tokens):
        return None
    from genai_prices import Usage, calc_price

    usage = Usage(
        input_tokens=spent.input_tokens, cache_read_tokens=spent.cached_tokens, output_tokens=spent.output_tokens
    )
    try:
        if provider:
            return float(calc_price(usage, model, provider_id=provider).total_price)
        return float(calc_price(usage, model, provider_api_url=address).total_price)
    except LookupError:
        return None

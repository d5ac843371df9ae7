"""Tokens of a request, by the library's exact counter. Every text is counted once."""

from functools import lru_cache
from typing import Any

from autoprune.tokens import exact

PIECE_TOKENS = 3  # around each message or block
# What the one picture of the tools, 1280 x 800, costs by the rules of OpenAI (85 + 170 for each of 3 x 2 tiles) and
# Anthropic (a token for 750 pixels; also on Bedrock), by the field that holds it as base64 or as its address.
PICTURES = {"image_url": 1_105, "data": 1_366, "bytes": 1_366}
# The same by Gemini's rule for models before Gemini 3, 258 for each of 3 x 2 tiles. Gemini 3 itself asks for 1,120.
GEMINI_PICTURE = 1_548
# Fields that say how a message is built; the tokens around it stand for them.
FRAME = {
    *("type", "role", "status", "media_type", "mimeType", "mime_type", "format", "signature", "thoughtSignature"),
    *("encrypted_content", "id", "tool_call_id", "tool_use_id", "call_id", "toolUseId"),
}


@lru_cache(maxsize=100_000)
def _count(text: str) -> int:
    return exact()(text)


def tokens(value: Any) -> int:
    """Tokens of the strings in a JSON value that a model reads. A picture counts the same whatever its bytes."""
    match value:
        case str():
            return _count(value)
        case dict():
            inside = (item for item in value.items() if item[0] not in FRAME)
            is_gemini = (
                "mimeType" in value or "mime_type" in value
            )  # the SDK sends a response's parts as they are given
            pictures = PICTURES | ({"data": GEMINI_PICTURE} if is_gemini else {})
            return sum(pictures[key] if key in pictures else tokens(item) for key, item in inside)
        case list() | tuple():
            return sum(map(tokens, value))
        case _:
            return 0

"""Tokens of a request, by the library's exact counter. Every text is counted once."""

from functools import lru_cache
from typing import Any

from autoprune.tokens import exact

PIECE_TOKENS = 3  # around each message or block
IMAGE_TOKENS = 1_000  # a usual picture
PICTURES = ("data", "bytes", "image_url")  # fields that hold a picture as base64 or as its address
# Fields that say how a message is built; the tokens around it stand for them.
FRAME = {
    *("type", "role", "status", "media_type", "mimeType", "format", "signature", "thoughtSignature"),
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
            return sum(IMAGE_TOKENS if key in PICTURES else tokens(item) for key, item in inside)
        case list() | tuple():
            return sum(map(tokens, value))
        case _:
            return 0

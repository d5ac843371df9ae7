"""Fingerprints of JSON values: what signatures, ids and prompt caches are made of."""

import base64
import hashlib
import json
from typing import Any

SECRET = "strict provider"  # sets own seals apart from a client's guesses


def plain(value: Any) -> Any:
    """A copy without `cache_control` marks and nulls, which say nothing to a model."""
    match value:
        case dict():
            return {key: plain(item) for key, item in value.items() if key != "cache_control" and item is not None}
        case list():
            return [plain(item) for item in value]
        case _:
            return value


def digest(*values: Any) -> str:
    """32 hexadecimal digits for JSON values; the order of an object's keys does not count."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def seal(*parts: str) -> str:
    """An opaque value in base64 that carries `parts` and cannot be made up."""
    return base64.b64encode("|".join((*parts, digest(SECRET, *parts))).encode()).decode()


def opened(sealed: Any) -> tuple[str, ...] | None:
    """The parts that a value of `seal` carries; None for any other value."""
    try:
        *parts, proof = base64.b64decode(sealed, validate=True).decode().split("|")
    except (TypeError, ValueError):
        return None
    return tuple(parts) if proof == digest(SECRET, *parts) else None

"""Reading parsed JSON whose shape is not known yet. Nothing here raises, nothing changes a value."""

import json
from collections.abc import Mapping, Sequence

NOTHING: Mapping[str, object] = {}


def fields(value: object) -> Mapping[str, object]:
    """The fields of a JSON object; none for anything else."""
    return value if isinstance(value, dict) else NOTHING


def listed(value: object) -> Sequence[object]:
    """The items of a JSON list; none for anything else."""
    return value if isinstance(value, list) else ()


def objects(value: object) -> list[Mapping[str, object]]:
    """The JSON objects in a list; none for anything else."""
    return [item for item in listed(value) if isinstance(item, dict)]


def text(value: object) -> str:
    """A string; the empty one for anything else."""
    return value if isinstance(value, str) else ""


def written(value: object) -> str:
    """Compact JSON text, as JavaScript's JSON.stringify writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

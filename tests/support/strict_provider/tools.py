"""The tools of the scripted agent: their schemas, and results of realistic size. Runs nothing."""

import base64
import random
from dataclasses import dataclass
from typing import Any

from strict_provider.seals import digest

ERROR_SHARE = 0.08
ERROR_LENGTH = 600  # characters at most, of what follows the first line of an error
PICTURE_SHARE = 0.5  # of the screenshots; the others say that there was nothing to see
GIANT_SHARE = 0.04
GIANT_FACTOR = 20
LONGEST = 120_000  # characters
SIZE = (6.4, 1.3)  # the logarithm of a result's characters: its mean (600 characters) and its deviation
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAABQAAAAMgAQAAAABU4/JWAAAAlElEQVR42u3BMQEAAADCoPVPbQdvoAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAACA1wD3LwAB2VLyvgAAAABJRU5ErkJggg=="
)  # a PNG of 1280 x 800 pixels, all of them black

PARAMETERS = {
    "read_file": {"path": "string", "start": "integer"},
    "write_file": {"path": "string", "content": "string"},
    "grep": {"pattern": "string", "path": "string"},
    "run_command": {"command": "string"},
    "screenshot": {"page": "string"},
}


@dataclass(frozen=True)
class Outcome:
    """What a tool gave back: a text that is not blank, whether it is an error, and maybe a PNG."""

    text: str
    is_error: bool = False
    picture: bytes | None = None


def schemas() -> list[tuple[str, str, dict[str, Any]]]:
    """Name, description and JSON schema of every tool."""
    return [(name, f"The tool {name}.", _schema(fields)) for name, fields in PARAMETERS.items()]


def _schema(fields: dict[str, str]) -> dict[str, Any]:
    properties = {name: {"type": kind} for name, kind in fields.items()}
    return {"type": "object", "properties": properties, "required": list(fields)}


def run_tool(name: str, arguments: dict[str, Any], seed: int = 0) -> Outcome:
    """The result of a call: the same for the same name, arguments and seed.

    Most are a few hundred characters, some are far longer, some are errors; half of the screenshots are pictures. A
    file that was written is told of in the words of an agent that there is.
    """
    source = random.Random(digest(name, arguments, seed))
    if source.random() < ERROR_SHARE:
        trace = _text(source, min(_length(source), ERROR_LENGTH))
        return Outcome(f"Error: {name} failed with status {source.randint(1, 127)}\n{trace}", is_error=True)
    if name == "write_file":
        return Outcome(f"Successfully wrote {len(arguments['content'])} bytes to {arguments['path']}")
    if name == "screenshot":
        picture = PICTURE if source.random() < PICTURE_SHARE else None
        return Outcome("The page as it is now." if picture else "Nothing to see.", picture=picture)
    return Outcome(_text(source, _length(source)))


def _length(source: random.Random) -> int:
    size = source.lognormvariate(*SIZE) * (GIANT_FACTOR if source.random() < GIANT_SHARE else 1)
    return min(int(size) + 20, LONGEST)


def _text(source: random.Random, length: int) -> str:
    """Lines that look like a listing of code, `length` characters in all."""
    lines: list[str] = []
    left = length
    while left > 0:
        lines.append(f"{len(lines) + 1:>5}  {'    ' * source.randint(0, 3)}value_{source.randint(0, 99)} = read(line)")
        left -= len(lines[-1]) + 1
    return "\n".join(lines)[:length].rstrip()

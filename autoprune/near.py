"""What somebody may have meant by a name that there is not."""

from collections.abc import Iterable
from difflib import get_close_matches


def near(name: str, known: Iterable[str], prefix: str = "") -> str:
    """What an error says behind an unknown name: ` (did you mean low_water?)`, or "" where nothing is near it.

    `prefix` is what all names begin with, which makes none nearer than another.
    """
    by_letters = {_letters(each.removeprefix(prefix)): each for each in known}
    found = get_close_matches(_letters(name.removeprefix(prefix)), by_letters, n=1)
    return f" (did you mean {by_letters[found[0]]}?)" if found else ""


def _letters(name: str) -> str:
    """A name without what people mix up: case, and how its words are joined."""
    return name.lower().replace("-", "_").replace(" ", "_")

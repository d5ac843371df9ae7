"""Gives the package index a README without its picture, whose address is a path in the repository."""

import re
from pathlib import Path

PICTURE = re.compile(r"!\[(.*?)\]\(.*?\)")


def long_description() -> str:
    """Return the README with the words of each picture in the picture's place."""
    return PICTURE.sub(r"\1", (Path(__file__).parent / "README.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    from setuptools import setup

    setup(long_description=long_description())

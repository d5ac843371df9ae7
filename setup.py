"""Gives the package index a README without pictures and links whose addresses are paths in the repository."""

import re
from pathlib import Path

PATH_LINK = re.compile(r"!?\[([^]]*)\]\((?!https?:|#)[^)]*\)")


def long_description() -> str:
    """Return the README with the text of each picture and link in its place."""
    return PATH_LINK.sub(r"\1", (Path(__file__).parent / "README.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    from setuptools import setup

    setup(long_description=long_description())

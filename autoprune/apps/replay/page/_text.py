"""Texts of strangers, made fit for a page and for a chart. What is markup is escaped by the templates, not here."""

import re

ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
# Controls, marks that turn the direction of writing, and what UTF-8 or HTML cannot hold.
UNFIT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
NO_ASCII = re.compile(r"[^ -~]+")


def clean(text: str) -> str:
    """Return a text without colors of terminals, and with a mark in place of each character that could mislead."""
    return UNFIT.sub("\ufffd", ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "\n"))


def plain(text: str, longest: int = 40) -> str:
    """Return a text as it may stand in a chart: on one line, of printable ASCII, as the fonts have it, and short."""
    words = NO_ASCII.sub("?", text)
    return words if len(words) <= longest else f"{words[: longest - 3]}..."

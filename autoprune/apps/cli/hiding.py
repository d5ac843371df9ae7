"""Texts and arguments without the keys, tokens and passwords in them, as far as names tell. Done before any quoting."""

import re
from collections.abc import Iterator, Sequence

HIDDEN = "…"
WORDS = r"(?:key|token(?!s\b)|secret|passw|authorization|credential)"  # tokens are a number
NAMED_SECRET = rf"(?<![\w.-])-{{0,2}}(?:[\w.-]{{0,80}}{WORDS}[\w.-]{{0,80}}|[\w.-]{{0,80}}_pat\b)"
OPTION = re.compile(NAMED_SECRET, re.IGNORECASE)
GIVEN = re.compile(rf"(?=-)({NAMED_SECRET}=).+", re.IGNORECASE | re.DOTALL)
WITHIN = (
    (
        re.compile(rf"""({NAMED_SECRET}["']?\s*[=:]\s*(["'])).*?(?<!\\)((?:\\\\)*\2)""", re.IGNORECASE | re.DOTALL),
        r"\3",
    ),
    (re.compile(rf"({NAMED_SECRET}=)[^\s\"',;&}}{HIDDEN}]+", re.IGNORECASE), ""),
    (re.compile(r"(\bBearer\s+)[^\s\"']+", re.IGNORECASE), ""),
    (re.compile(r"(\bx-[\w-]{0,60}(?:key|token):\s*)[^\s\"']+", re.IGNORECASE), ""),  # a header
    (re.compile(r"(://)[^/\s@]+(?=@)"), ""),  # before a host
)


def hidden(text: str) -> str:
    """Return a text without the values of its keys, tokens and passwords: in JSON, TOML, headers and addresses."""
    for secret, end in WITHIN:
        text = secret.sub(rf"\g<1>{HIDDEN}{end}", text)
    return text


def hidden_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """Yield a program's arguments, each as `hidden` does, and those that options named as secrets are given."""
    before = ""
    for argument in arguments:
        is_given = before.startswith("-") and OPTION.fullmatch(before) and not argument.startswith("-")
        both = GIVEN.fullmatch(argument)
        yield HIDDEN if is_given else both[1] + HIDDEN if both else hidden(argument)
        before = argument

"""Read how things stand from what commands printed last: version control, tests, and short values."""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from autoprune.facts import shell
from autoprune.facts.actions import NOISE, TAGS, Action
from autoprune.facts.plain_text import one_line
from autoprune.summarizers.sections import figure

STATUS, COMMIT = "git status", "last commit"
LONGEST = 240  # characters of a state
LONGEST_NAME = 100  # of the command in a state
LONGEST_VALUE = 160  # characters of a value
LONGEST_OUTPUT = 400  # characters of a result that may be nothing but a value
LOOKED_AT = 20_000  # characters of a result, of its end
SHOWN = 6  # changed files that are named

STATUS_COMMAND = re.compile(r"\bgit\s+(?:-C\s+\S+\s+)?status\b")
BRANCH = re.compile(r"^(?:Output: )?(?:On branch (\S+)|HEAD detached at (\S+)|## (\S[^\n]*))", re.MULTILINE)
TRACKING = re.compile(r"^Your branch (?:is|and) [^\n]*", re.MULTILINE)
CLEAN = re.compile(r"^nothing to commit[^\n]*", re.MULTILINE)
CHANGED = re.compile(
    r"^(?:\s+(?:modified|new file|deleted|renamed|both modified):\s+(\S[^\n]*)"
    r"|(?! {3})[ MADRCU?!]{2} (\S[^\n]*))",
    re.MULTILINE,
)
COMMITTED = re.compile(r"^\[([^\]\n]{1,120}?)(?: \([^)\n]*\))? ([0-9a-f]{7,40})\] ([^\n]*)", re.MULTILINE)
EXTENT = re.compile(r"^ \d+ files? changed[^\n]*", re.MULTILINE)
PUSHED = re.compile(r"^ ?[*+!=-]?[ \t]*\S+[ \t]+(\S+ -> \S+[^\n]*)", re.MULTILINE)
PULL_REQUEST = re.compile(r"https://[\w.-]+/[\w./-]+/(?:pull|merge_requests)/\d+")
TESTING = re.compile(r"(?i)\b(?:tests?|check|spec|[a-z]*unit)\b|\btest[:_-]\w")
RUNNERS = re.compile(
    r"\b(?:pytest|tox|nox|unittest|jest|vitest|mocha|rspec|phpunit|ctest)\b"
    r"|\b(?:go|cargo|npm|pnpm|yarn|bun|dotnet|mvn|swift|deno|make|mise|just|rake|gradlew?|mix)\s+(?:run\s+)?test\b"
)
# How runners of tests tell their figures, on a line.
FIGURES = re.compile(
    r"^(?:=+ )?(?P<pytest>(?:\d+ \w+, )*\d+ (?:passed|failed|errors?|skipped)\b[^\n=]*?)(?: =+)?$"
    r"|^[ \t]*(?P<line>Tests?(?: run)?:?[ \t]+\d[^\n]*|test result: [^\n]*|Ran \d+ tests?[^\n]*|FAILED \([^\n]*\)"
    r"|OK(?: \([^\n]*\))?|\d+ (?:passing|failing|pass|fail|examples?)\b[^\n]*|\d+% tests passed[^\n]*)$",
    re.MULTILINE,
)
GO = re.compile(r"^(ok|FAIL|--- FAIL:)\s+(\S+)", re.MULTILINE)
FAILURES = re.compile(r"\b[1-9]\d* (?:failed|failing|fail|failures?|errors?)\b|FAIL|\b(?:failures|errors)=[1-9]")
VALUE = re.compile(r"\d|[/=@]|\btrue\b|\bfalse\b")
# Lines that look like values and are none: what programs of agents add, and what git says of itself.
NO_VALUE = re.compile(
    r"Process running with session ID|Command running in background|Switched to |Saved working directory"
    r"|\[Current working directory|\[Python Interpreter|\(Open file:|\(Current directory:|(?:\[[^\]\n]*\] )?\$ "
)


def states(action: Action) -> Iterator[tuple[str, str]]:
    """Yield what a command says of version control and of tests: the kind of each, and how it stands."""
    if not action.command or not action.result:
        return
    text = _printed(action.result.text)[-LOOKED_AT:]
    for kind, found in (
        (STATUS, _status(text) if STATUS_COMMAND.search(action.command) else ""),
        (COMMIT, _commit(text)),
        ("last push", _pushed(text) if "push" in action.command else ""),
        ("pull request", next(iter(PULL_REQUEST.findall(text)), "") if "pr create" in action.command else ""),
        ("last test run", _tests(action, text)),
    ):
        if found:
            yield kind, one_line(found.replace("→", "->"), LONGEST)


def passes(action: Action) -> bool:
    """Return whether a command printed the figures of tests, and no failure among them."""
    text = _printed(action.result.text)[-LOOKED_AT:] if action.command and action.result else ""
    found = [match[0] for match in FIGURES.finditer(text)] + [match[0] for match in GO.finditer(text)]
    return bool(found) and not any(map(FAILURES.search, found))


def value(action: Action) -> str:
    """Return the one short line that a command printed, if it looks like a value; "" for any other."""
    is_short = len(action.name) <= LONGEST_NAME and action.result and len(action.result.text) <= LONGEST_OUTPUT
    if not action.command or not action.result or action.failed or not is_short:
        return ""
    lines = [
        line
        for line in TAGS.sub(" ", _printed(action.result.text)).split("\n")
        if line.strip() and not NOISE.fullmatch(line)
    ]
    if len(lines) != 1 or len(lines[0]) > LONGEST_VALUE or not VALUE.search(lines[0]) or NO_VALUE.match(lines[0]):
        return ""
    return one_line(lines[0].replace("→", "->"), LONGEST_VALUE)


def _printed(text: str) -> str:
    """Return what a command printed, where its result is a JSON document that holds it."""
    try:
        known = json.loads(text) if text[:1] == "{" and len(text) <= LOOKED_AT else None
    except (ValueError, RecursionError):
        return text
    found = (known.get(name) for name in ("output", "stdout")) if isinstance(known, dict) else ()
    return next((value for value in found if isinstance(value, str)), text)


def _status(text: str) -> str:
    branch = BRANCH.search(text)
    changed = [(long or short).strip() for long, short in CHANGED.findall(text)]
    names = ", ".join(islice(changed, SHOWN)) + ("…" if len(changed) > SHOWN else "")
    clean = CLEAN.search(text)
    parts = (
        f"on {next(filter(None, branch.groups()))}" if branch else "",
        next(iter(TRACKING.findall(text)), ""),
        clean[0] if clean else "",
        f"{figure(len(changed), 'changed file')}: {names}" if changed else "",
    )
    return "; ".join(filter(None, parts))


def _commit(text: str) -> str:
    found = [*COMMITTED.finditer(text)]
    if not found:
        return ""
    extent = EXTENT.search(text, found[-1].end())
    branch, commit, subject = found[-1].groups()
    return f"{commit} on {branch}: {subject}" + (f" ({extent[0].strip()})" if extent else "")


def _pushed(text: str) -> str:
    return "; ".join(islice(PUSHED.findall(text), 2))


def _tests(action: Action, text: str) -> str:
    """Return the command of a test run, with its figures."""
    command = shell.essence(action.command)
    bare = shell.QUOTED.sub("''", command)
    if not TESTING.search(bare) and not RUNNERS.search(bare):
        return ""
    found = [match["pytest"] or match["line"] for match in FIGURES.finditer(text)]
    figures = "; ".join(line.strip() for line in found[-3:]) or _packages(GO.findall(text))
    if not figures and not RUNNERS.search(bare):
        return ""
    return f"{one_line(command, LONGEST_NAME)}: {figures or action.outcome}"


def _packages(found: Sequence[tuple[str, str]]) -> str:
    """Return what `go test` says of packages and tests."""
    passed = sum(word == "ok" for word, _ in found)
    failed = [name for word, name in found if word != "ok"]
    named = f" ({', '.join(failed[:SHOWN])})" if failed else ""
    return f"{figure(passed, 'package')} ok, {len(failed)} failed{named}" if found else ""

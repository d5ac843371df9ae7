"""Tell whether a later command runs again what an earlier one ran, so that its success resolves the earlier failure.

Two commands run the same if they run the same program on the same target, whatever stands around it:

    cd /repo && CI=1 timeout 60 go test ./internal/auth -run TestLogin -v 2>&1 | tail -20
    go test ./...

The program is `go test`, the target `internal/auth`, and `TestLogin` chooses some of its tests. The second run has a
target that the first is part of, and chooses no tests: so it covers the first one, and not the other way round.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from autoprune.facts import shell

DEEPEST = 3  # scripts in scripts
SHELLS = frozenset(("bash", "sh", "zsh"))
# Programs whose first word says what they do; of some, two words do. What they run of a project needs no "run".
SUBCOMMANDS = {
    **dict.fromkeys(
        ("git", "go", "npm", "pnpm", "yarn", "bun", "deno", "cargo", "docker", "kubectl", "mise", "pip"), 1
    ),
    **dict.fromkeys(("uv", "poetry", "dotnet", "terraform", "helm", "brew", "apt", "apt-get", "systemctl", "mix"), 1),
    **dict.fromkeys(("workmux", "swift", "golangci-lint", "ruff", "biome", "rails", "conda", "bundle", "mix"), 1),
    **dict.fromkeys(("gh", "aws", "gcloud", "az"), 2),
}
TASKS = frozenset(("npm", "pnpm", "yarn", "bun", "deno", "mise"))
# What works on all of a project if it is given no target.
WHOLE = frozenset(
    (
        *("pytest", "jest", "vitest", "mocha", "tsc", "tsgo", "mypy", "pyright", "ruff", "eslint", "biome", "cargo"),
        *("tox", "nox", "phpunit", "rspec", "golangci-lint", "ctest", "mvn", "gradle", "gradlew", "dotnet", "swift"),
        *("mix", "playwright", *TASKS),
    )
)
WHOLE_OF = frozenset((("go", "test"), ("go", "vet"), ("go", "build")))
# Subcommands of git that do one thing in a repository, whatever they are given.
ONE_THING = frozenset(
    ("push", "pull", "fetch", "commit", "rebase", "merge", "cherry-pick", "revert", "stash", "add", "am", "clone")
)
ENDED_BY_COMMIT = frozenset(("merge", "cherry-pick", "revert", "rebase"))
# Options whose value chooses some of the tests, and options whose value does not matter.
CHOOSING = frozenset(
    (
        *("-run", "--run", "-k", "-t", "-m", "--filter", "--grep", "-g", "--testNamePattern", "--test-name-pattern"),
        *("-tags", "--tests"),
    )
)
IGNORED = frozenset(
    (
        *("-count", "-timeout", "--timeout", "-parallel", "-cpu", "-n", "-j", "--jobs", "--maxfail", "--tb", "-W"),
        *("--reporter", "--workers", "--max-workers", "--color", "-coverprofile", "--retries", "--limit", "-C"),
        *("--prefix", "--cwd", "-R", "--repo", "--git-dir", "--work-tree", "--title", "--body", "--body-file"),
        *("--base", "--head", "--message", "-F", "--log-level", "-bench", "-benchtime", "-o", "-c"),
    )
)
INLINE = frozenset(("-c", "-e", "--eval", "-"))  # a program given as a text, as in `python -c "…"`
NUMBERED = re.compile(r"(python|pip)[\d.]*")
OWN = re.compile(r"\^|\$")  # around the name of a test


@dataclass(frozen=True)
class Run:
    """A program with the words that say what it does, what it does that to, and the tests that it chooses, if any."""

    program: tuple[str, ...]
    targets: frozenset[str]
    chosen: frozenset[str]

    def covers(self, other: "Run") -> bool:
        """Return whether this runs all that another one ran."""
        if self.program == ("git", "commit") and other.program[:1] == ("git",) and other.program[1] in ENDED_BY_COMMIT:
            return True
        if self.program != other.program or (self.chosen and not (other.chosen and self.chosen >= other.chosen)):
            return False
        if not self.targets:
            return self._is_whole or not other.targets
        if not other.targets:
            return "" in self.targets
        return all(any(_within(target, whole) for whole in self.targets) for target in other.targets)

    @property
    def _is_whole(self) -> bool:
        return self.program[0] in WHOLE or self.program in WHOLE_OF


@lru_cache(maxsize=4_096)
def runs(command: str) -> tuple[Run, ...]:
    """Return what a command runs, in order, without what only looks, and what its output is piped to."""
    return tuple(_runs(command, 0))


def again(later: Sequence[Run], name: str) -> bool:
    """Return whether some runs cover the last one of a command, which is what a script is about."""
    return any(run.covers(earlier) for earlier in runs(name)[-1:] for run in later)


def _runs(script: str, depth: int) -> Iterator[Run]:
    for joint, part in shell.split_commands(script):
        if joint[:1] == "|":  # a filter, or what is done instead
            continue
        part = part.strip()
        words = shell.program_words(shell.command_words(part))
        is_script = len(words) > 2 and words[0] in SHELLS and words[1].startswith("-") and "c" in words[1]
        if is_script or part.startswith("("):
            inner = words[2] if is_script else part[1:].removesuffix(")")
            yield from _runs(inner, depth + 1) if depth < DEEPEST else ()
        elif words and not shell.is_read_only_command(words):
            yield _run(words)


def _run(words: Sequence[str]) -> Run:
    """Return what one command runs."""
    name = words[0].rpartition("/")[2]
    name = match[1] if (match := NUMBERED.fullmatch(name)) else name
    plain, chosen = _arguments(words[1:])
    most = SUBCOMMANDS.get(name, 0)
    if name in TASKS and plain[:1] and plain[0] in ("run", "run-script"):
        del plain[0]
    program, targets = (name, *plain[:most]), plain[most:]
    if name == "git" and ONE_THING.intersection(program[1:]):
        targets = []
    return Run(program, frozenset(map(_normal, targets)), frozenset(chosen))


def _arguments(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words that are no options, and what options choose."""
    plain: list[str] = []
    chosen: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        option, _, value = word.partition("=")
        if word in INLINE and not plain:
            return ["-"], []
        if option in CHOOSING and (value or left):
            chosen += OWN.sub("", value or left.pop(0)).split("|")
        elif word in IGNORED and left:
            left.pop(0)
        elif word[:1] != "-":
            plain.append(word)
    return plain, chosen


def _normal(target: str) -> str:
    """Return a path without what does not change it; "" for all."""
    path = target.removesuffix("...").removeprefix("./").rstrip("/")
    return "" if path == "." else path


def _within(target: str, whole: str) -> bool:
    """Return whether a target is another one, or part of it: a file in a folder, a test in a file."""
    if not whole or target == whole or target.endswith(f"/{whole}") or whole.endswith(f"/{target}"):
        return True
    return target.startswith((f"{whole}/", f"{whole}::"))

"""Read command output: the state of version control and tests, short values, and which command reruns which.

Two commands run the same if they run the same program on the same target, regardless of setup, wrappers and pipes:

    cd /repo && CI=1 timeout 60 go test ./internal/auth -run TestLogin -v 2>&1 | tail -20
    go test ./...

The program is `go test`, the target `internal/auth`, and `TestLogin` chooses some of its tests. The target of the
second command contains that of the first, and the second chooses no tests. So the second covers the first, but not the
other way round: if the second succeeds, an earlier failure of the first is resolved.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from autoprune.conversation.messages import one_line
from autoprune.facts import shell
from autoprune.facts.actions import NOISE, PRIVATE, TAGS, Action
from autoprune.facts.calls import SECRET
from autoprune.summarizers.sections import quantity

STATUS, COMMIT = "git status", "last commit"
LONGEST_STATE = 240  # characters of a state
LONGEST_NAME = 100  # of the command in a state
LONGEST_VALUE = 160  # characters of a value
LONGEST_OUTPUT = 400  # characters of a result that may be nothing but a value
LOOKED_AT = 20_000  # characters of a result, of its end
SHOWN = 6  # changed files that are named
STATUS_COMMAND = re.compile(r"\bgit\s+(?:-C\s+\S+\s+)?status\b")
BRANCH = re.compile(r"^(?:Output: )?(?:On branch (\S+)|HEAD detached at (\S+)|## (\S[^\n]*))", re.MULTILINE)
TRACKING = re.compile(r"^Your branch (?:is|and) [^\n]*", re.MULTILINE)
CLEAN = re.compile(r"^nothing to commit[^\n]*", re.MULTILINE)
CHANGED_FILE = re.compile(
    r"^(?:\s+(?:modified|new file|deleted|renamed|both modified):\s+(\S[^\n]*)"
    r"|(?! {3})[ MADRCU?!]{2} (\S[^\n]*))",
    re.MULTILINE,
)
COMMITTED = re.compile(r"^\[([^\]\n]{1,120}?)(?: \([^)\n]*\))? ([0-9a-f]{7,40})\] ([^\n]*)", re.MULTILINE)
EXTENT = re.compile(r"^ \d+ files? changed[^\n]*", re.MULTILINE)
PUSHED = re.compile(r"^ ?[*+!=-]?[ \t]*\S+[ \t]+(\S+ -> \S+[^\n]*)", re.MULTILINE)
PULL_REQUEST = re.compile(r"https://[\w.-]+/[\w./-]+/(?:pull|merge_requests)/\d+")
# Programs that work on test files without running them.
TEXT_TOOLS = frozenset(
    (
        *("git", "gh", "eslint", "prettier", "biome", "ruff", "black", "isort", "tsc", "mypy", "pyright", "code"),
        *("cp", "mv", "rm", "mkdir", "touch", "chmod", "sed", "awk", "tee", "ln", "patch", "tar", "zip", "nano"),
        *("vim", "open"),
    )
)
# Commands of git after which the last commit is another one, and what git prints when it has moved to one.
MOVES = re.compile(
    r"\bgit\s+(?:-C\s+\S+\s+)?(?:rebase|reset(?!\s+(?:--\s|HEAD\s+\S))|pull|merge|cherry-pick|revert|am|switch"
    r"|commit\s[^\n;&|]*--amend)\b"
)
MOVED = re.compile(r"^(?:Switched to |HEAD is now at |Successfully rebased |Fast-forward)", re.MULTILINE)
HEAD_AT = re.compile(r"^HEAD is now at ([0-9a-f]{7,40}) ([^\n]*)", re.MULTILINE)
TESTING = re.compile(r"(?i)\b(?:tests?|check|spec|[a-z]*unit)\b|\btest[:_-]\w")
RUNNERS = re.compile(
    r"\b(?:pytest|tox|nox|unittest|jest|vitest|mocha|rspec|phpunit|ctest|nextest)\b"
    r"|\b(?:go|cargo|npm|pnpm|yarn|bun|dotnet|mvn|swift|deno|make|mise|just|rake|gradlew?|mix)\s+(?:run\s+)?test\b"
)
# Lines with the figures of test runners.
FIGURES = re.compile(
    r"^(?:=+ |[ \t]+)?(?P<pytest>(?:\d+ \w+, )*\d+ (?:passed|failed|errors?|skipped)\b[^\n=]*?)(?: =+)?$"
    r"|^(?:\[\w+\] )?[^\w\n]{0,12}(?P<line>Tests?(?: run| summary)?:?[ \t]+(?:\w+:? )?\d[^\n]*|test result: [^\n]*"
    r"|(?:Executed |Summary [^\n]{0,40}\] +)?\d+ tests?(?: run| completed)?[,:] [^\n]*(?:pass|fail)[^\n]*"
    r"|Test run with \d[^\n]*"
    r"|(?:Pass|Fail)ed! +- [^\n]*|Ran \d+ tests?[^\n]*|FAILED \([^\n]*\)|OK(?: \([^\n]*\))?"
    r"|\d+ (?:passing|failing|pass|fail|examples?)\b[^\n]*|(?:pass|fail) \d+|\d+% tests passed[^\n]*)$",
    re.MULTILINE,
)
GO = re.compile(r"^(ok|FAIL|--- FAIL:)[ \t]+(\S+)", re.MULTILINE)
FAILURES = re.compile(
    r"\b[1-9]\d* (?:tests? )?(?:failed|failing|fail|failures?|errors?)\b|FAIL|(?:tests?|suites?) failed after"
    r"|\b(?i:fail|failed|failures?|errors?)[:=]? *[1-9]"
)
VALUE = re.compile(r"\d|[/=@]|\btrue\b|\bfalse\b")
# Lines that look like values but are not: those of harnesses, and git's messages.
NO_VALUE = re.compile(
    r"Process running with session ID|Command running in background|Switched to |Saved working directory"
    r"|\[Current working directory|\[Python Interpreter|\(Open file:|\(Current directory:|(?:\[[^\]\n]*\] )?\$ "
)
DEEPEST_SCRIPT = 3  # scripts in scripts
SHELLS = frozenset(("bash", "sh", "zsh"))
# Programs with subcommands, and how many words these have. `npm run test` and `npm test` are the same.
SUBCOMMANDS = {
    **dict.fromkeys(("git", "go", "npm", "pnpm", "yarn", "bun", "deno", "cargo", "docker", "kubectl", "mise"), 1),
    **dict.fromkeys(("pip", "uv", "poetry", "dotnet", "terraform", "helm", "brew", "apt", "apt-get", "systemctl"), 1),
    **dict.fromkeys(("workmux", "swift", "golangci-lint", "ruff", "biome", "rails", "conda", "bundle", "mix"), 1),
    **dict.fromkeys(("gh", "aws", "gcloud", "az"), 2),
}
TASKS = frozenset(("npm", "pnpm", "yarn", "bun", "deno", "mise"))
# Programs that work on the whole project if they get no target.
WHOLE = frozenset(
    (
        *("pytest", "jest", "vitest", "mocha", "tsc", "tsgo", "mypy", "pyright", "ruff", "eslint", "biome", "cargo"),
        *("tox", "nox", "phpunit", "rspec", "golangci-lint", "ctest", "mvn", "gradle", "gradlew", "dotnet", "swift"),
        *("mix", "playwright", *TASKS),
    )
)
WHOLE_COMMANDS = frozenset((("go", "test"), ("go", "vet"), ("go", "build")))
# Subcommands of git that are compared without their arguments: a push that succeeds resolves a failed one.
ONE_THING = frozenset(
    ("push", "pull", "fetch", "commit", "rebase", "merge", "cherry-pick", "revert", "stash", "add", "am", "clone")
)
ENDED_BY_COMMIT = frozenset(("merge", "cherry-pick", "revert", "rebase"))
# Options whose value chooses tests, and options whose value does not matter.
CHOOSING = frozenset(
    (
        *("-run", "--run", "-k", "-t", "-m", "--filter", "--grep", "-g", "--testNamePattern", "--test-name-pattern"),
        *("-tags", "--tests", "-pl", "-Dtest", "--workspace", "--testPathPattern"),
    )
)
NOT_DONE = frozenset(("--abort", "--quit", "--dry-run"))  # options that choose to do nothing, or to undo it
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
NAME_ANCHORS = re.compile(r"\^|\$")  # around the name of a test


def command_states(action: Action) -> Iterator[tuple[str, str]]:
    """Yield the states that a command's output reports: "git status", "last test run" and so on, each with its text."""
    if not action.command or not action.result:
        return
    text = _output(action.result.text)[-LOOKED_AT:]
    for kind, found in (
        (STATUS, _git_status(text) if STATUS_COMMAND.search(action.command) else ""),
        (COMMIT, _last_commit(text)),
        ("last push", "; ".join(islice(PUSHED.findall(text), 2)) if "push" in action.command else ""),
        ("pull request", next(iter(PULL_REQUEST.findall(text)), "") if "pr create" in action.command else ""),
        ("last test run", _test_figures(action, text)),
    ):
        if found:
            yield kind, one_line(found.replace("→", "->"), LONGEST_STATE)


def has_passing_tests(action: Action) -> bool:
    """Return whether a command printed test figures without a failure."""
    text = _output(action.result.text)[-LOOKED_AT:] if action.command and action.result else ""
    figures = [match[0] for pattern in (FIGURES, GO) for match in pattern.finditer(text)]
    return bool(figures) and not any(map(FAILURES.search, figures))


def printed_value(action: Action) -> str:
    """Return the short line of a command, or two of a tool that acts, if it looks like a value; "" otherwise."""
    is_short = len(action.name) <= LONGEST_NAME and action.result and len(action.result.text) <= LONGEST_OUTPUT
    if not (action.command or action.acts) or not action.result or action.failed or not is_short:
        return ""
    output = TAGS.sub(" ", _output(action.result.text))
    lines = [line for line in output.split("\n") if line.strip() and not NOISE.fullmatch(line)]
    line = " / ".join(lines) if len(lines) <= 1 + action.acts else ""
    if len(line) > LONGEST_VALUE or not VALUE.search(line) or NO_VALUE.match(line) or SECRET.search(line):
        return ""
    if action.acts and PRIVATE.search(f"{action.tool} {line}"):
        return ""
    return one_line(line.replace("→", "->"), LONGEST_VALUE)


def _output(text: str) -> str:
    """Return the output of a command, even if the result is a JSON document that contains it."""
    try:
        document = json.loads(text) if text[:1] == "{" and len(text) <= LOOKED_AT else None
    except (ValueError, RecursionError):
        return text
    outputs = (document.get(name) for name in ("output", "stdout")) if isinstance(document, dict) else ()
    return next((value for value in outputs if isinstance(value, str)), text)


def _git_status(text: str) -> str:
    branch = BRANCH.search(text)
    changed = [(long or short).strip() for long, short in CHANGED_FILE.findall(text)]
    names = ", ".join(islice(changed, SHOWN)) + ("…" if len(changed) > SHOWN else "")
    clean = CLEAN.search(text)
    parts = (
        f"on {next(filter(None, branch.groups()))}" if branch else "",
        next(iter(TRACKING.findall(text)), ""),
        clean[0] if clean else "",
        f"{quantity(len(changed), 'changed file')}: {names}" if changed else "",
    )
    return "; ".join(filter(None, parts))


def _last_commit(text: str) -> str:
    commits = [*COMMITTED.finditer(text)]
    if not commits:
        at = [*HEAD_AT.finditer(text)]
        return f"{at[-1][1]}: {at[-1][2]}" if at else ""
    extent = EXTENT.search(text, commits[-1].end())
    branch, commit, subject = commits[-1].groups()
    return f"{commit} on {branch}: {subject}" + (f" ({extent[0].strip()})" if extent else "")


def _bare_run(part: str) -> str:
    """Return a command without quoted text; "" if it cannot run tests, though it may name a test file."""
    words = shell.program_words(shell.command_words(part))
    names = {word.rpartition("/")[2] for word in words[:1]}
    if shell.is_read_only_command(words) or not TEXT_TOOLS.isdisjoint(names):
        return ""
    return shell.QUOTED.sub("''", part)


def moves_head(action: Action) -> bool:
    """Return whether a command may have changed the last commit without printing the new one."""
    output = _output(action.result.text)[-LOOKED_AT:] if action.result else ""
    return bool(MOVES.search(shell.essence(action.command))) or bool(MOVED.search(output) and "git" in action.command)


def _test_figures(action: Action, text: str) -> str:
    """Describe a test run by its command and figures; "" if the command runs no tests."""
    command = shell.essence(action.command)
    run = [bare for _, part in shell.split_commands(command) if (bare := _bare_run(part))]
    if not any(TESTING.search(bare) or RUNNERS.search(bare) for bare in run):
        return ""
    lines = [match["pytest"] or match["line"] for match in FIGURES.finditer(text)]
    figures = "; ".join(line.strip() for line in lines[-3:])
    if not figures and (packages := GO.findall(text)):
        failed = [name for word, name in packages if word != "ok"]
        named = f" ({', '.join(failed[:SHOWN])})" if failed else ""
        figures = f"{quantity(len(packages) - len(failed), 'package')} ok, {len(failed)} failed{named}"
    if not figures and not any(map(RUNNERS.search, run)):
        return ""
    return f"{one_line(command, LONGEST_NAME)}: {figures or action.outcome}"


@dataclass(frozen=True)
class ProgramRun:
    """A program with its subcommands, its targets, and the tests that it chooses, if any."""

    program: tuple[str, ...]
    targets: frozenset[str]
    chosen: frozenset[str]

    def covers(self, other: "ProgramRun") -> bool:
        """Return whether this run includes everything that another run ran."""
        if self.program == ("git", "commit") and other.program[:1] == ("git",) and other.program[1] in ENDED_BY_COMMIT:
            return True
        if self.program != other.program or (self.chosen and not (other.chosen and self.chosen >= other.chosen)):
            return False
        if not self.targets:
            is_whole = self.program[0] in WHOLE or self.program in WHOLE_COMMANDS
            return is_whole or not other.targets
        if not other.targets:
            return "" in self.targets
        return all(any(_is_within(target, whole) for whole in self.targets) for target in other.targets)


@lru_cache(maxsize=4_096)
def runs(command: str) -> tuple[ProgramRun, ...]:
    """List the runs in a script, in order, without read-only commands and filters after a pipe."""
    return tuple(_runs_of(command, 0))


def reruns(later: Sequence[ProgramRun], name: str) -> bool:
    """Return whether later runs cover the last run of a command, which is the one that matters."""
    return any(run.covers(earlier) for earlier in runs(name)[-1:] for run in later)


def _runs_of(script: str, depth: int) -> Iterator[ProgramRun]:
    for joint, part in shell.split_commands(script):
        if joint[:1] == "|":  # a filter, or the fallback after ||
            continue
        part = part.strip()
        words = shell.program_words(shell.command_words(part))
        is_script = len(words) > 2 and words[0] in SHELLS and words[1].startswith("-") and "c" in words[1]
        if is_script or part.startswith("("):
            inner = words[2] if is_script else part[1:].removesuffix(")")
            yield from _runs_of(inner, depth + 1) if depth < DEEPEST_SCRIPT else ()
        elif words and not shell.is_read_only_command(words):
            yield _run_of(words)


def _run_of(words: Sequence[str]) -> ProgramRun:
    name = words[0].rpartition("/")[2]
    name = match[1] if (match := NUMBERED.fullmatch(name)) else name
    plain, chosen = _split_arguments(words[1:])
    most = SUBCOMMANDS.get(name, 0)
    if name in TASKS and plain[:1] and plain[0] in ("run", "run-script"):
        del plain[0]
    program, targets = (name, *plain[:most]), plain[most:]
    if name == "git" and ONE_THING.intersection(program[1:]):
        targets = []
    return ProgramRun(program, frozenset(map(_normal_target, targets)), frozenset(chosen))


def _split_arguments(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split arguments into plain words and the tests that options choose."""
    plain: list[str] = []
    chosen: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        option, _, value = word.partition("=")
        if word in INLINE and not plain:
            return ["-"], []
        if option in CHOOSING and (value or left):
            chosen += NAME_ANCHORS.sub("", value or left.pop(0)).split("|")
        elif word in NOT_DONE:
            chosen.append(word)
        elif word in IGNORED and left:
            left.pop(0)
        elif word[:1] != "-":
            plain.append(word)
    return plain, chosen


def _normal_target(target: str) -> str:
    """Normalize a target path; "" means everything."""
    path = target.removesuffix("...").removeprefix("./").rstrip("/")
    return "" if path == "." else path


def _is_within(target: str, whole: str) -> bool:
    """Return whether a target equals another target or is part of it: a file in a folder, a test in a file."""
    if not whole or target == whole or target.endswith(f"/{whole}") or whole.endswith(f"/{target}"):
        return True
    return target.startswith((f"{whole}/", f"{whole}::"))

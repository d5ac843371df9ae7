"""Mutation testing: put small faults into the package, one at a time, and check that a test fails.

    python benchmarks/mutations.py --count 60 --seed 10

draws 60 faults, runs the quick profile against each in a copy of the checkout, and lists the faults that survive.
First, a run without faults records which tests execute which lines, and how long they take. Against a fault, the tests
that execute its line are run, the fastest first; if the line runs at import, those of its module. `--full` also runs
the full profile against the survivors. Tests that fail without a fault are skipped. The `--log` and a coverage file
beside it hold the results, so an interrupted run can be continued.
"""

import argparse
import ast
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from coverage import CoverageData

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "autoprune"
# Pairs of operators that a fault exchanges.
OPPOSITES = ((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.In, ast.NotIn), (ast.Is, ast.IsNot))
COMPARED = {one: other for pair in OPPOSITES for one, other in (pair, pair[::-1])}
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult}
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
SECONDS = re.compile(r"^([\d.]+)s (?:setup|call) +([^\s\[]+)", re.MULTILINE)
LIMITS = {resource.RLIMIT_CPU: 900, resource.RLIMIT_AS: 6 * 2**30}  # of a run with a fault: seconds, and bytes
COVERAGE = ("--cov", "--cov-context=test", "--cov-report=", "--durations=0")  # options of the run without a fault


@dataclass(frozen=True)
class Fault:
    """A place in a module and its replacement."""

    module: str
    line: int
    start: int  # in the module's bytes
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        """The place and the change in one line."""
        return f"{self.module}:{self.line}: `{self.before}` → `{self.after}`"


# Drawing faults


def faults(path: Path) -> Iterator[Fault]:
    """Yield every possible fault of a module."""
    source = path.read_bytes()
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    for node in code(ast.parse(source)):
        start = lines[node.lineno - 1] + node.col_offset
        end = lines[node.end_lineno - 1] + node.end_col_offset
        before = source[start:end].decode()
        for changed in changes(node):
            after = ast.unparse(changed)
            if isinstance(changed, ast.expr) and not isinstance(changed, ast.Constant):
                after = f"({after})"
            if ast.unparse(node) != ast.unparse(changed):
                yield Fault(str(path.relative_to(ROOT)), node.lineno, start, end, before, after)


def code(node: ast.AST, *, in_string: bool = False) -> Iterator[ast.AST]:
    """Yield the nodes that run: no annotations, docstrings, imports, protocols, or parts of f-strings."""
    if isinstance(node, (ast.Import, ast.ImportFrom)) or is_protocol(node):
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    in_string = in_string or isinstance(node, ast.JoinedStr)
    if isinstance(node, (ast.expr, ast.stmt)) and not in_string:
        yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_comment", "bases"):
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST):
                yield from code(each, in_string=in_string)


def is_protocol(node: ast.AST) -> bool:
    """Whether a node is only for type checkers."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    return isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(base) for base in node.bases)


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the possible replacements of a node."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=right) if type(op) in COMPARED:
            yield ast.Compare(left, [COMPARED[type(op)]()], right)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=op, right=right) if type(op) in COMPUTED and not is_text(left, right):
            yield ast.BinOp(left, COMPUTED[type(op)](), right)
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield ast.Constant(value + 1)
        case ast.IfExp(test=test, body=body, orelse=other):
            yield ast.IfExp(test, other, body)
        case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Continue():
            yield ast.Break()
        case ast.Break():
            yield ast.Continue()


def is_text(*nodes: ast.AST) -> bool:
    """Whether a sum of nodes joins texts or lists, whose difference would be invalid."""
    return any(isinstance(node, ast.JoinedStr | ast.List | ast.Tuple) or is_string(node) for node in nodes)


def is_string(node: ast.AST) -> bool:
    """Whether a node is a string."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def draw_faults(count: int, seed: int) -> list[Fault]:
    """Draw faults of the whole package, always the same for a seed."""
    modules = sorted((ROOT / PACKAGE).rglob("*.py"))
    every = [fault for module in modules for fault in faults(module)]
    return random.Random(seed).sample(every, count)


# Running tests


@dataclass(frozen=True)
class Record:
    """The results of a run without a fault: the failing tests, the seconds of each test, and its coverage."""

    failing: Sequence[str]
    seconds: dict[str, float]
    executed: CoverageData

    def tests_of(self, fault: Fault) -> list[str]:
        """The tests that execute the line of a fault, the fastest first.

        A fixture that executes it may be shared by all tests of its file, so the file is returned in place of the
        tests.
        """
        file = next((name for name in self.executed.measured_files() if name.endswith(f"/{fault.module}")), "")
        by_line = self.executed.contexts_by_lineno(file)
        everywhere = {context for contexts in by_line.values() for context in contexts}
        contexts = {*by_line.get(fault.line, ())} - {""} or everywhere - {""}
        runs = {context.removesuffix("|run").partition("[")[0] for context in contexts if context.endswith("|run")}
        shared = {context.partition("::")[0] for context in contexts if not context.endswith("|run")}
        functions = [test for test in runs if test.partition("::")[0] not in shared]
        return sorted([*functions, *shared], key=lambda test: self.seconds.get(test, 0))


@dataclass(frozen=True)
class Checkout:
    """A copy of the checkout for testing faults."""

    folder: Path
    timeout: float
    left_out: Sequence[str] = ()

    def output(self, *arguments: str, **limits: Any) -> tuple[int, str]:
        """Run pytest, and return its exit code and its output."""
        left_out = [f"--deselect={test}" for test in self.left_out]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", *arguments, *left_out]
        environ = os.environ | {"PYTHONPATH": str(self.folder)}
        done = subprocess.run(
            command, cwd=self.folder, env=environ, capture_output=True, text=True, check=False, **limits
        )
        return done.returncode, done.stdout

    def failing(self, *arguments: str) -> list[str]:
        """The first failing test in a list; empty if none fails, and `(timeout)` if the tests do not end."""
        try:
            code, said = self.output("-n", "0", "-x", *arguments, timeout=self.timeout, preexec_fn=limit)
        except subprocess.TimeoutExpired:
            return ["(timeout)"]
        if code in (0, 5):  # 5: no test was collected
            return []
        return FAILED.findall(said) or [f"(the tests end with {code})"]

    def found_by(self, fault: Fault, tests: Sequence[str], *options: str) -> str:
        """The first test that fails with a fault and passes without it; "" if there is none."""
        module = self.folder / fault.module
        source = module.read_bytes()
        module.write_bytes(source[: fault.start] + fault.after.encode() + source[fault.end :])
        try:
            found = self.failing(*options, *tests)
        finally:
            module.write_bytes(source)
        if found and found[0].startswith("tests/") and self.failing(*options, found[0]):
            return replace(self, left_out=(*self.left_out, found[0])).found_by(fault, tests, *options)
        return found[0] if found else ""


def limit() -> None:
    """Limit the time and memory of a run, because a fault may make it endless."""
    for which, most in LIMITS.items():
        resource.setrlimit(which, (most, most))


def copy_checkout(folder: Path) -> Path:
    """Copy the files that git tracks."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def main() -> None:
    """Try the faults and print the survivors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=10)
    parser.add_argument("--full", action="store_true", help="run the full profile on the survivors")
    parser.add_argument("--workers", default="auto", help="processes of pytest for the run without a fault")
    parser.add_argument("--timeout", type=float, default=3_600, help="seconds for a run with a fault")
    parser.add_argument("--log", type=Path, default=Path(tempfile.gettempdir()) / "mutations.jsonl")
    parser.add_argument("--list", action="store_true", help="print the faults, and run nothing")
    options = parser.parse_args()
    chosen = draw_faults(options.count, options.seed)
    if options.list:
        print(*chosen, sep="\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        checkout = Checkout(copy_checkout(Path(folder)), options.timeout)
        record = record_run(checkout, options.log, "-n", options.workers, *(["--full"] if options.full else []))
        checkout = replace(checkout, left_out=record.failing)
        for profile in ([], ["--full"]) if options.full else ([],):
            for fault in chosen:
                key, known = f"{'full' if profile else 'quick'}: {fault}", read_log(options.log)
                if key in known or (profile and known[f"quick: {fault}"]["found_by"]):
                    continue
                found = checkout.found_by(fault, record.tests_of(fault), *profile)
                note(options.log, key, found, **asdict(fault))
                print(f"{key}: {found or 'SURVIVED'}", flush=True)
    show(chosen, read_log(options.log))


def record_run(checkout: Checkout, log: Path, *arguments: str) -> Record:
    """Run the tests without a fault, or read that run's record from the log."""
    coverage = log.with_suffix(".coverage")
    if "without a fault" not in read_log(log):
        _, said = checkout.output(*COVERAGE, *arguments)
        shutil.copy2(checkout.folder / ".coverage", coverage)
        seconds: Counter[str] = Counter()
        for taken, test in SECONDS.findall(said):
            seconds[test] += float(taken)
            seconds[test.partition("::")[0]] += float(taken)
        note(log, "without a fault", FAILED.findall(said), seconds=seconds)
    first = read_log(log)["without a fault"]
    executed = CoverageData(str(coverage))
    executed.read()
    return Record(first["found_by"], first["seconds"], executed)


def read_log(log: Path) -> dict[str, dict[str, Any]]:
    """The lines of a log by their keys: for each fault, the test that found it, or ""."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return {each["key"]: each for each in map(json.loads, lines)}


def note(log: Path, key: str, found_by: object, **more: object) -> None:
    """Append a line to a log."""
    with log.open("a", encoding="utf-8") as file:
        print(json.dumps({"key": key, "found_by": found_by, **more}), file=file)


def show(chosen: Sequence[Fault], known: dict[str, dict[str, Any]]) -> None:
    """Print the counts of found faults, and the survivors."""
    survivors = [fault for fault in chosen if not known[f"quick: {fault}"]["found_by"]]
    print(f"\nquick: {len(chosen) - len(survivors)} of {len(chosen)} found")
    for fault in survivors:
        full = known.get(f"full: {fault}", {"found_by": "not run"})
        print(f"- {fault}; full: {full['found_by'] or 'survived'}")


if __name__ == "__main__":
    main()

"""Whether the tests find faults: small ones are put into the package, one at a time, and the tests must fail.

    python benchmarks/mutations.py --count 60 --seed 10

draws 60 faults, runs the quick profile against each in a copy of the checkout, and lists those that no test has seen.
The tests of the fault's own folder run first, then all. `--full` runs the full profile on what has survived.
Tests that fail without any fault are left out. What is known of a fault stands in the `--log`, from which a run that
was interrupted goes on.
"""

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "autoprune"
COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
}
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Fault:
    """A place in a module and what is written there instead."""

    module: str
    line: int
    start: int  # in the module's bytes
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        """Return the place and the change in one line."""
        return f"{self.module}:{self.line}: `{self.before}` → `{self.after}`"


# Drawing faults


def faults(path: Path) -> Iterator[Fault]:
    """Return every fault that can be put into a module."""
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
    """Return the nodes that run: no annotations, docstrings, imports, protocols, or parts of f-strings."""
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
    """Return whether a node is for type checkers alone."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    return isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(base) for base in node.bases)


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Return what may stand in place of a node."""
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
    """Return whether a sum of nodes joins texts or lists, so that a difference would be no code."""
    return any(isinstance(node, ast.JoinedStr | ast.List | ast.Tuple) or is_string(node) for node in nodes)


def is_string(node: ast.AST) -> bool:
    """Return whether a node is a string."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def drawn(count: int, seed: int) -> list[Fault]:
    """Return faults of the whole package, always the same for a seed."""
    modules = sorted((ROOT / PACKAGE).rglob("*.py"))
    every = [fault for module in modules for fault in faults(module)]
    return random.Random(seed).sample(every, count)


# Running tests


@dataclass(frozen=True)
class Checkout:
    """A copy of the checkout in which faults are tried."""

    folder: Path
    left_out: Sequence[str] = ()
    workers: str = "0"
    timeout: float = 1_800

    def failing(self, *arguments: str) -> list[str]:
        """Return the tests that fail, the first alone with `-x`; `(timeout)` for a run that does not end."""
        deselected = [f"--deselect={test}" for test in self.left_out]
        command = [sys.executable, "-m", "pytest", "-q", "-n", self.workers, "-p", "no:cacheprovider", "--tb=no"]
        environ = os.environ | {"PYTHONPATH": str(self.folder)}
        try:
            done = subprocess.run(
                [*command, *deselected, *arguments],
                cwd=self.folder,
                env=environ,
                capture_output=True,
                text=True,
                timeout=self.timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return ["(timeout)"]
        if done.returncode in (0, 5):  # 5: no test was collected
            return []
        return FAILED.findall(done.stdout) or ["(the tests cannot be collected)"]

    def found_by(self, fault: Fault, *, full: bool = False) -> str:
        """Return the first test that fails with a fault and passes without it, or nothing."""
        found = self.fails_first(fault, full=full)
        if found.startswith("tests/") and self.failing(found):
            return replace(self, left_out=(*self.left_out, found)).found_by(fault, full=full)
        return found

    def fails_first(self, fault: Fault, *, full: bool) -> str:
        """Return the first test that fails with a fault, or nothing."""
        module = self.folder / fault.module
        source = module.read_bytes()
        module.write_bytes(source[: fault.start] + fault.after.encode() + source[fault.end :])
        try:
            for arguments in (["--full"],) if full else (own_tests(fault.module), []):
                if failing := self.failing("-x", *arguments):
                    return failing[0]
            return ""
        finally:
            module.write_bytes(source)


def own_tests(module: str) -> list[str]:
    """Return the tests of a module: those in the folder of its name, or in the file."""
    name = Path(module).parts[1].removesuffix(".py")
    found = [path for path in (f"tests/{name}", f"tests/test_{name}.py") if (ROOT / path).exists()]
    return found or ["tests/test_house.py"]


def copied(folder: Path) -> Path:
    """Copy what git knows of the checkout."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def main() -> None:
    """Try the faults and print what has survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=10)
    parser.add_argument("--full", action="store_true", help="run the full profile on what has survived")
    parser.add_argument("--workers", default="0", help="processes of pytest")
    parser.add_argument("--timeout", type=float, default=1_800, help="seconds for a run of tests")
    parser.add_argument("--log", type=Path, default=Path(tempfile.gettempdir()) / "mutations.jsonl")
    parser.add_argument("--list", action="store_true", help="print the faults that are drawn, and run nothing")
    options = parser.parse_args()
    chosen = drawn(options.count, options.seed)
    if options.list:
        print(*chosen, sep="\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        checkout = Checkout(copied(Path(folder)), (), options.workers, options.timeout)
        known = remembered(options.log)
        if "without a fault" not in known:
            note(options.log, "without a fault", checkout.failing())
            known = remembered(options.log)
        left_out = known["without a fault"]
        checkout = Checkout(checkout.folder, left_out, options.workers, options.timeout)
        for profile in ("quick", "full") if options.full else ("quick",):
            for fault in chosen:
                key = f"{profile}: {fault}"
                if key in known or (profile == "full" and known[f"quick: {fault}"]):
                    continue
                known[key] = checkout.found_by(fault, full=profile == "full")
                note(options.log, key, known[key], **asdict(fault))
                print(f"{key}: {known[key] or 'SURVIVED'}", flush=True)
    show(chosen, known)


def remembered(log: Path) -> dict[str, object]:
    """Return what a log says of each fault: the test that found it, or nothing."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return {each["key"]: each["found_by"] for each in map(json.loads, lines)}


def note(log: Path, key: str, found_by: object, **more: object) -> None:
    """Add a line to a log."""
    with log.open("a", encoding="utf-8") as file:
        print(json.dumps({"key": key, "found_by": found_by, **more}), file=file)


def show(chosen: Sequence[Fault], known: dict[str, object]) -> None:
    """Print a table of what the profiles have found, and the faults that are left."""
    survivors = [fault for fault in chosen if not known[f"quick: {fault}"]]
    print(f"\nquick: {len(chosen) - len(survivors)} of {len(chosen)} found")
    for fault in survivors:
        full = known.get(f"full: {fault}")
        print(f"- {fault}; full: {'not run' if full is None else full or 'survived'}")


if __name__ == "__main__":
    main()

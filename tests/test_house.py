"""The lines of docs/architecture.md hold: who may import whom, who prints, who reads files."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "autoprune"
MODULES = {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in sorted(PACKAGE.rglob("*.py"))}
GROUND = {"errors", "tokens", "transcript"}
# Which of the project's modules a room may see. Rooms that are not named here may see all that are listed for none.
MAY_SEE = {
    "errors": set(),
    "reasons": {"errors"},
    "media": set(),
    "outcomes": {"commands", "transcript"},
    "copying": {"errors"},
    "tokens": {"copying", "errors"},
    "settings": {"budgets", "environment", "errors"},
    "budgets": {"errors"},
    "transcript": {"copying"},
    "placeholders": {"errors", "tokens", "transcript"},
    "targets": {"transcript"},
    "containers": {"formats", "media", "tokens"},
    "clamping": {"errors", "outcomes", "tokens"},
    "tool_inputs": {"errors", "outcomes", "tokens", "transcript"},
    "protections": {"answers", "errors", "outcomes", "reasons", "targets", "transcript"},
    "edits": {"copying", "placeholders", "protections", "reasons", "transcript"},
    "options": {"clamping", "errors", "protections", "retention", "tool_inputs"},
    "planning": {
        "clamping",
        "edits",
        "errors",
        "options",
        "placeholders",
        "protections",
        "providers",
        "reasons",
        "renewal",
        "stripping",
        "targets",
        "thinking",
        "tool_inputs",
        "transcript",
    },
    "stripping": {"clamping", "edits", "placeholders", "reasons", "transcript"},
    "renewal": {"transcript"},
    "providers": {"edits", "errors", "formats", "providers", "reasons", "rewriting", "transcript"},
    "strategies": {
        "clamping",
        "edits",
        "errors",
        "folding",
        "planning",
        "protections",
        "reasons",
        "retention",
        "strategies",
        "summarizers",
        "tool_inputs",
        "transcript",
    },
    "formats": {"errors", "formats", "media", "tokens", "transcript"},
    "parsing": {"errors", "formats", "open_calls", "tokens", "transcript"},
    "open_calls": {"transcript"},
    "rewriting": {"edits", "transcript"},
    "statistics": {"edits", "formats", "placeholders", "reasons", "rewriting", "transcript"},
    "floor": {"edits", "reasons", "transcript"},
    "rows": {"edits", "reasons", "targets", "transcript"},
    "report": {
        "copying",
        "edits",
        "floor",
        "notebook",
        "reasons",
        "rows",
        "spent",
        "statistics",
        "tables",
        "tokens",
        "transcript",
    },
    "readers": {"errors", "readers"},
    "sessions": {"errors", "readers"},
    "notebook": {"floor", "reasons", "report"},
    "tables": {"environment", "floor", "providers", "reasons", "report", "sessions"},
    "readable": {"answers", "clamping", "formats", "outcomes", "targets", "tokens", "transcript"},
    "splitting": {"transcript"},
    "summarizers": {
        "clamping",
        "commands",
        "copying",
        "errors",
        "formats",
        "outcomes",
        "readable",
        "summarizers",
        "targets",
        "tokens",
        "transcript",
    },
    "shortening": {"edits", "placeholders", "readable", "reasons", "strategies", "summarizers", "transcript"},
    "shelf": {"summarizers", "tokens"},
    "one_text": {"asking", "clamping", "errors", "readable", "summarizers", "tokens", "transcript"},
    "spent": set(),
    "environment": {"errors"},
    "events": {"copying", "edits", "errors", "report"},
    "asking": {"summarizers", "writing"},
    "choosing": {
        "conversation_pruner",
        "errors",
        "folding",
        "planning",
        "pruner",
        "scaffold",
        "settings",
        "strategies",
        "summarizers",
    },
    "retention": {"errors", "formats", "transcript"},
    "summaries": {"edits", "formats", "rewriting", "tokens"},
    "folding": {"edits", "planning"},
    "pieces": {"readable", "retention", "splitting", "summaries", "transcript"},
    "fold_walk": {
        "edits",
        "folding",
        "history",
        "options",
        "parsing",
        "pieces",
        "placeholders",
        "planning",
        "providers",
        "reasons",
        "summaries",
        "thinking",
        "tokens",
        "transcript",
    },
    "assembling": {"summaries"},
    "writing": {
        "clamping",
        "edits",
        "formats",
        "readable",
        "shelf",
        "shortening",
        "spent",
        "summaries",
        "summarizers",
        "tokens",
        "transcript",
    },
    "finishing": {
        "assembling",
        "base",
        "edits",
        "formats",
        "providers",
        "report",
        "rewriting",
        "summaries",
        "summarizers",
        "terms",
        "transcript",
        "writing",
    },
    "terms": {"errors", "options", "placeholders", "planning", "providers"},
}
STRANGERS = "summarizers.driver"  # calls what callers pass, which may raise anything
ONLY_IN = {
    "lxml": {"formats.xml_tool_result"},
    "openai": {"summarizers.openai", "summarizers.replies"},
    "typer": {"cli"},
    "rich": {"cli", "explaining", "tables"},
    "splintr": {"tokens"},
    "tiktoken": {"tokens"},
    "genai_prices": {"budgets", "summarizers.replies"},
}


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports anywhere, by its full name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room(module: str) -> str:
    return module.split(".")[0]


def test_the_package_was_found():
    assert len(MODULES) > 20


@pytest.mark.parametrize("module", [module for module in MODULES if room(module) in MAY_SEE])
def test_a_room_imports_only_the_rooms_it_may_see(module: str):
    seen = {name.split(".")[1] for name in imports(MODULES[module]) if name.startswith("autoprune.")}
    assert seen <= MAY_SEE[room(module)]


@pytest.mark.parametrize("module", MODULES)
def test_a_private_module_is_imported_by_its_own_package_alone(module: str):
    private = {name for name in imports(MODULES[module]) if re.match(r"autoprune\..*\b_[a-z]", name)}
    assert {name.split(".")[1] for name in private} <= {room(module)}


@pytest.mark.parametrize("module", MODULES)
def test_a_package_is_imported_only_where_it_is_used(module: str):
    for name in imports(MODULES[module]):
        allowed = ONLY_IN.get(name.split(".")[0], {module})
        assert {module, room(module)} & allowed, f"{module} imports {name}"


def calls(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func).rpartition(".")[2]


@pytest.mark.parametrize("module", [module for module in MODULES if room(module) != "cli"])
def test_only_the_command_line_prints_and_touches_files(module: str):
    assert not {"print", "open", "read_text", "write_text", "read_bytes", "write_bytes"} & set(calls(MODULES[module]))


@pytest.mark.parametrize("module", MODULES)
def test_no_exception_is_caught_broadly(module: str):
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ExceptHandler):
            if module == STRANGERS:
                continue
            assert node.type is not None
            assert not {"Exception", "BaseException"} & {
                part.id for part in ast.walk(node.type) if isinstance(part, ast.Name)
            }

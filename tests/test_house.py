"""The floor plan of docs/architecture.md holds: who may import whom, who prints, who reads files."""

import ast
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from shutil import which

import profiles
import pytest

PACKAGE = Path(__file__).parent.parent / "autoprune"
MODULES = {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in sorted(PACKAGE.rglob("*.py"))}
FREE = {"__init__", "__main__", "interrupts", "apps", "apps.cli"}  # may import all
# Who may import whom, from the ground up: a row names rows above it alone.
MAY_SEE = {
    "errors": set(),
    "settings": {"errors"},
    "tokens": {"errors"},
    "economics": {"errors", "settings", "tokens"},
    "conversation": {"errors", "tokens"},
    "wire": {"errors", "settings", "tokens", "conversation"},
    "facts": {"conversation"},
    "planning": {"errors", "tokens", "economics", "conversation", "facts"},
    "summarizers": {"errors", "settings", "tokens", "conversation", "facts", "planning"},
    "strategies": {"errors", "settings", "economics", "conversation", "facts", "planning"},
    "pruners": {
        *("errors", "settings", "tokens", "economics", "conversation", "wire", "facts", "planning"),
        *("summarizers", "strategies"),
    },
    "integrations": {"errors", "settings", "conversation", "wire", "planning", "pruners"},
    "apps.sessions": {"errors", "settings", "wire"},
    "apps.policies": {"errors", "settings", "conversation", "wire"},
    "apps.frontend": set(),
    "apps.replay": {
        *("errors", "settings", "tokens", "economics", "conversation", "wire", "facts", "planning", "strategies"),
        *("pruners", "apps.frontend", "apps.policies", "apps.sessions"),
    },
    "apps.clients": {"errors"},
    "apps.proxy": {
        *("errors", "settings", "tokens", "economics", "conversation", "facts", "strategies", "pruners"),
        *("apps.clients", "apps.frontend"),
    },
}
TOP_LEVEL = {
    *(".ci", ".dockerignore", ".github", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "Dockerfile", "LICENSE"),
    *("MANIFEST.in", "README.md", "SECURITY.md", "autoprune", "benchmarks", "docs", "examples", "fixtures"),
    *("mkdocs.yml", "pyproject.toml", "setup.cfg", "setup.py", "tests"),
}
MOST_BYTES = 400_000  # of a file
MOST_NAMES, MOST_FLOORS = 14, 11  # names at the top of the package
# Call what callers pass, which may raise anything; or have somebody else's request, who must have an answer.
STRANGERS = {
    "apps.cli.startup",
    "apps.policies",
    "summarizers.driver",
    "apps.replay.corpus",
    "apps.proxy._application",
    "apps.proxy._lanes",
    "apps.proxy._pruning",
    "pruners.decorator",
}
# Who opens files besides the command line: in processes and on machines that it does not run on; for a caller.
TOUCH_FILES = {
    "apps.replay.corpus": {"read_bytes"},
    "conversation.archive": {"open"},
    "pruners.report.drawing": {"print"},  # into a string
}
ONLY_IN = {
    "lxml": {"wire"},
    "openai": {"summarizers"},
    "ray": {"apps.replay"},
    "pyarrow": {"apps.replay"},
    "typer": {"apps.cli"},
    "rich": {"apps.cli", "pruners"},
    "splintr": {"tokens"},
    "tiktoken": {"tokens"},
    "httpx": {"apps.proxy"},
    "starlette": {"apps.proxy"},
    "uvicorn": {"apps.proxy"},
    "zstandard": {"apps.proxy"},
    "agents": {"integrations"},
    "google": {"integrations"},
    "litellm": {"integrations"},
    "mcp": {"apps.cli"},
    "mcp_types": {"apps.cli"},
    "strands": {"integrations"},
    "langchain": {"integrations"},
    "langchain_core": {"integrations"},
    "pydantic_ai": {"integrations"},
    "genai_prices": {"settings", "summarizers"},
}


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@cache
def imports(module: str) -> frozenset[str]:
    """Every name that a module imports anywhere, with the module that it comes from."""
    return frozenset(_imports(module))


def _imports(module: str) -> Iterator[str]:
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room(module: str) -> str:
    names = module.split(".")
    return ".".join(names[: 2 if names[0] == "apps" else 1]).removesuffix(".__init__")


def rooms_seen(module: str) -> set[str]:
    ours = {name.removeprefix("autoprune.") for name in imports(module) if name.startswith("autoprune.")}
    return {room(name) for name in ours} - {room(module)}


def test_the_package_has_the_rooms_of_the_plan_and_no_other():
    rooms = {room(module) for module in MODULES}
    assert rooms == MAY_SEE.keys() | FREE
    assert len({each.split(".")[0] for each in rooms} - {"__init__", "__main__", "interrupts"}) <= MOST_NAMES


def test_no_two_modules_share_a_name():
    names = Counter(path.stem.lstrip("_") for path in MODULES.values() if not path.stem.startswith("__"))
    assert [name for name, count in names.items() if count > 1] == []


def test_a_room_imports_only_the_rooms_that_its_row_names():
    too_far = {module: rooms_seen(module) - MAY_SEE[room(module)] for module in MODULES if room(module) not in FREE}
    assert {module: rooms for module, rooms in too_far.items() if rooms} == {}


def test_no_arrow_points_up_and_the_floors_are_few():
    floors: dict[str, int] = {}
    for name, below in MAY_SEE.items():
        assert below <= floors.keys(), f"{name} sees a room that stands below it in the table"
        floors[name] = 1 + max((floors[each] for each in below), default=0)
    assert max(floors.values()) + 1 <= MOST_FLOORS  # and the command line on top


def test_no_module_imports_itself_in_a_circle():
    names = {f"autoprune.{module}".removesuffix(".__init__"): module for module in MODULES}
    loaded_first = {
        module: {names[target] for target in _targets(module) if target in names} - {module} for module in MODULES
    }
    list(TopologicalSorter(loaded_first).static_order())  # raises CycleError


def _targets(module: str) -> set[str]:
    """What a module imports when it is loaded; what is imported within functions comes later."""
    now = (node for node in tree(module).body if isinstance(node, ast.Import | ast.ImportFrom))
    found: set[str] = set()
    for node in now:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        else:
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_a_row_names_no_room_that_nobody_of_it_imports():
    used = {name: set().union(*(rooms_seen(module) for module in MODULES if room(module) == name)) for name in MAY_SEE}
    assert used == MAY_SEE


def test_a_private_module_is_imported_by_its_own_package_alone():
    for module in MODULES.keys() - {"__init__"}:  # the first one's own package is the whole
        private = {name for name in imports(module) if re.match(r"autoprune\..*\b_[a-z]", name)}
        assert {room(name.removeprefix("autoprune.")) for name in private} <= {room(module)}, module


def test_a_name_is_imported_from_the_public_module_that_defines_it():
    """From its package only if that module is private. Adapters import from packages, as users do."""
    packages = {f"autoprune.{name.removesuffix('.__init__')}": name for name in MODULES if name.endswith(".__init__")}
    origins = {f"{package}.{_own_name(name)}": name for package, each in packages.items() for name in imports(each)}
    origins = {own: name for own, name in origins.items() if name.removeprefix("autoprune.") not in MODULES}
    shipped = (module for module in MODULES if not module.endswith("__init__") and room(module) != "integrations")
    detours = {module: {origins[name] for name in imports(module) & origins.keys()} for module in shipped}
    public = {module: {name for name in names if not re.search(r"\._[a-z]", name)} for module, names in detours.items()}
    assert {module: names for module, names in public.items() if names} == {
        "__main__": {"autoprune.apps.cli.startup.main"}
    }


def _own_name(name: str) -> str:
    return name.rpartition(".")[2]


def test_a_dependency_is_imported_only_in_its_room():
    for module in MODULES:
        for name in imports(module):
            assert room(module) in ONLY_IN.get(name.split(".")[0], {room(module)}), f"{module} imports {name}"


def calls(module: str) -> set[str]:
    called = (node for node in ast.walk(tree(module)) if isinstance(node, ast.Call))
    return {ast.unparse(node.func).rpartition(".")[2] for node in called}


def test_only_the_command_line_prints_and_touches_files():
    forbidden = {"print", "open", "read_text", "write_text", "read_bytes", "write_bytes"}
    assert {module: forbidden & calls(module) for module in MODULES if room(module) != "apps.cli"} == {
        module: TOUCH_FILES.get(module, set()) for module in MODULES if room(module) != "apps.cli"
    }


def test_no_exception_is_caught_broadly_but_where_strangers_are_called():
    for module in MODULES:
        handlers = (node for node in ast.walk(tree(module)) if isinstance(node, ast.ExceptHandler))
        for handler in handlers if module not in STRANGERS else ():
            assert handler.type is not None, module
            names = {part.id for part in ast.walk(handler.type) if isinstance(part, ast.Name)}
            assert not {"Exception", "BaseException"} & names, module


def test_the_modules_of_the_full_profile_exist():
    root = PACKAGE.parent
    assert [name for name in profiles.FULL_ONLY if not (root / name).exists()] == []


def test_the_repository_holds_nothing_that_a_tool_left_there():
    root = PACKAGE.parent
    if not (root / ".git").exists() or not which("git"):
        pytest.skip("not a clone")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True)
    names = listed.stdout.split("\0")[:-1]
    assert {name.partition("/")[0] for name in names} == TOP_LEVEL
    assert [name for name in names if os.path.exists(root / name) and os.path.getsize(root / name) > MOST_BYTES] == []

"""The Python examples of the README and of the pages in docs/ pass a type checker, as in a user's editor."""

import os
import subprocess
import sys
from pathlib import Path

from pages import ROOT, blocks

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# The pages of the adapters show a part of a program, whose other names are not on the page.
PARTIAL = '# mypy: disable-error-code="name-defined"\n'
# Frameworks need not be installed, and a page's later examples use its names again for other values.
OPTIONS = ("--ignore-missing-imports", "--allow-redefinition-new", "--local-partial-types", "--check-untyped-defs")


def write_modules(folder: Path) -> list[str]:
    """Write the examples of each page to a module, and return the names of the files."""
    names = []
    for page in PAGES:
        examples = blocks(page.read_text(encoding="utf-8"), "python")
        if page.parent.name == "integrations":  # each example is for itself
            modules = [PARTIAL + example for example in examples]
        else:
            modules = ["\n\n".join(examples)] if examples else []
        for number, module in enumerate(modules):
            names.append(f"{page.parent.name}_{page.stem}_{number}.py")
            (folder / names[-1]).write_text(module, encoding="utf-8")
        if page == ROOT / "docs" / "formats.md":  # whose second example imports the first one
            (folder / "vercel.py").write_text(examples[0], encoding="utf-8")
    return names


def test_the_examples_pass_a_type_checker(tmp_path: Path):
    names = write_modules(tmp_path)
    assert len(names) > 20
    environ = {**os.environ, "MYPYPATH": f"{ROOT}:{ROOT / 'tests' / 'support'}"}
    command = [sys.executable, "-m", "mypy", *OPTIONS, *names]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, encoding="utf-8", check=False)
    assert done.stdout.splitlines()[-1:] == [f"Success: no issues found in {len(names)} source files"], done.stdout

"""Reads the files of pages from the installed package, and joins JavaScript modules into one inline script."""

import re
from collections.abc import Mapping
from pkgutil import get_data

IMPORT = re.compile(r'^import \{ (.+?) \} from "\./(\w+)\.js";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:const|class|function\*?|async function) (\w+))", re.MULTILINE)


def asset(name: str, package: str = "autoprune.apps.frontend") -> str:
    """The text of a file in a package. Raises FileNotFoundError if the package has no such file."""
    found = get_data(package, name)
    if found is None:
        raise FileNotFoundError(name)
    return found.decode()


def bundle(modules: Mapping[str, str]) -> str:
    """Join JavaScript modules, by file name, into one script. A module must come after those that it imports.

    A self-contained page cannot import from other files. Each module becomes a function that returns its exports, so
    that names in different modules do not collide. Only imports and exports as the modules of this package write them
    are supported: `import { a, b as c } from "./module.js"` on one line, and `export` before a declaration.
    """
    return "".join(_scope(name.removesuffix(".js"), text) for name, text in modules.items())


def _scope(name: str, text: str) -> str:
    # The $ distinguishes a module from its exports: `frontier` is imported from the module `frontier`.
    exports = ", ".join(EXPORT.findall(text))
    body = IMPORT.sub(
        lambda found: f"const {{ {found[1].replace(' as ', ': ')} }} = ${found[2]};", EXPORT.sub("", text)
    )
    return f"const ${name} = (() => {{\n{body}return {{ {exports} }};\n}})();\n"

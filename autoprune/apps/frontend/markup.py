"""The shared front end of the proxy's page and the replay report: style, elements, charts, and HTML escaping.

HTML is made from elements and texts. Every text is cleaned and escaped; only `Markup` is taken as HTML.
"""

import re
from collections.abc import Iterable, Mapping
from html import escape
from pkgutil import get_data

ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
# Control characters, marks that change the direction of text, and characters that UTF-8 or HTML cannot hold.
UNFIT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)


class Markup(str):
    """HTML, as opposed to text that needs escaping."""

    __slots__ = ()


def clean(text: str) -> str:
    """Remove terminal colors, and replace each character that could mislead a reader by U+FFFD."""
    return UNFIT.sub("\ufffd", ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "\n"))


def escape_text(text: str) -> Markup:
    """Escape a text for HTML. Markup is returned unchanged."""
    return text if isinstance(text, Markup) else Markup(escape(clean(text)))


def concatenate(parts: Iterable[str]) -> Markup:
    """Concatenate markup and texts. Texts are escaped."""
    return Markup("".join(map(escape_text, parts)))


def element(tag: str, *children: str, **attributes: str) -> Markup:
    """Create an element. `class_` is the attribute `class`, `aria_label` is `aria-label`."""
    marks = "".join(
        f' {name.strip("_").replace("_", "-")}="{escape_text(value)}"' for name, value in attributes.items()
    )
    return Markup(f"<{tag}{marks}>{concatenate(children)}</{tag}>")


def table(head: Iterable[str], rows: Iterable[Markup], label: str, **attributes: str) -> Markup:
    """Create a table that scrolls sideways on narrow screens, by keyboard too. `label` is for screen readers."""
    names = element("thead", element("tr", *(element("th", name, scope="col") for name in head)))
    whole = element("table", names, element("tbody", *rows), **attributes)
    return element("div", whole, class_="scroll", tabindex="0", role="region", aria_label=label)


def collapsible(summary: str, *children: str, **attributes: str) -> Markup:
    """Create a `details` element that shows `summary` until it is opened."""
    return element("details", element("summary", summary), *children, **attributes)


IMPORT = re.compile(r'^import \{ (.+?) \} from "\./(\w+)\.js";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:const|class|function\*?|async function) (\w+))", re.MULTILINE)


def asset(name: str, package: str = "autoprune.apps.frontend") -> str:
    """Return the text of a file in a package. Raises FileNotFoundError if the package has no such file."""
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

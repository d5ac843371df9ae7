"""Figures as SVG that stands in a page: no style of its own, no scripts, the page's colors, words for screen readers.

Matplotlib draws with the stand-in colors of `Ink`; `inline` puts CSS variables in their place, so that the page's light
and dark schemes hold for charts too. Its `style` attributes become plain ones: the page allows no style but its own.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from io import StringIO
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from autoprune.apps.replay.page._text import clean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SVG, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
FONT_SIZE = 11  # pixels
KEPT = re.compile(r"(fill|stroke|opacity|text-anchor|font-size|font-weight)")  # what begins so is drawn with
LONG = re.compile(r"-?\d+\.\d{2,}")


class Ink(StrEnum):
    """The colors of charts, each standing in for the CSS variable of its name."""

    TEXT = "#000001"
    SOFT = "#000002"
    GRID = "#000003"
    SURFACE = "#000004"
    CACHED = "#000005"
    WRITTEN = "#000006"
    CLEARED = "#000007"
    CHOICE = "#000008"
    REFERENCE = "#000009"
    LIMIT = "#00000a"
    NEEDED = "#00000b"
    MISSED = "#00000c"


@contextmanager
def drawing() -> Iterator[None]:
    """Draw with the page's settings: texts stay texts, dollar signs too, and the same figure gives the same bytes."""
    import matplotlib as mpl

    settings: dict[Any, Any] = {
        **mpl.rcParamsDefault,
        "backend": "svg",
        "font.size": FONT_SIZE,
        "text.parse_math": False,
        "svg.fonttype": "none",
        "svg.hashsalt": "autoprune",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "grid.linewidth": 0.7,
        "grid.color": Ink.GRID.value,
        **dict.fromkeys(("figure.facecolor", "axes.facecolor"), "none"),
        **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), Ink.TEXT.value),
        **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), Ink.SOFT.value),
    }
    with mpl.rc_context(settings):
        yield


def inline(figure: "Figure", name: str, title: str, description: str) -> str:
    """Return a figure as an element of a page. `name` is its own on the page, and begins its ids."""
    drawn = StringIO()
    figure.savefig(drawn, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    root = ElementTree.fromstring(drawn.getvalue())
    _trim(root)
    _rename(root, name)
    width, height = (root.attrib[side].removesuffix("pt") for side in ("width", "height"))
    root.attrib.update({"width": width, "height": height, "role": "img", "aria-labelledby": f"{name}-t {name}-d"})
    for at, (tag, text) in enumerate((("title", title), ("desc", description))):
        words = ElementTree.Element(f"{SVG}{tag}", {"id": f"{name}-{tag[0]}"})
        words.text = clean(text)
        root.insert(at, words)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]  # HTML knows what an svg element is
    return _colored(ElementTree.tostring(root, "unicode"))


def _trim(root: ElementTree.Element) -> None:
    """Take out metadata and styles, and turn style attributes into those that they stand for."""
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.rpartition("}")[2] in ("metadata", "style"):
                parent.remove(child)
        for name, value in _styles(parent.attrib.pop("style", "")):
            parent.set(name, value)
        if "d" in parent.attrib:
            parent.set("d", " ".join(LONG.sub(_short, parent.attrib["d"]).split()))
        parent.text = parent.text if parent.tag == f"{SVG}text" else None
        parent.tail = None


def _styles(style: str) -> Iterator[tuple[str, str]]:
    for each in style.split(";"):
        name, _, value = each.partition(":")
        if KEPT.match(name.strip()):
            yield name.strip(), value.strip()


def _short(number: re.Match[str]) -> str:
    return f"{float(number.group()):.1f}"


def _rename(root: ElementTree.Element, name: str) -> None:
    """Keep the ids that something refers to, and make them the chart's own."""
    elements = list(root.iter())
    used = {each.attrib[LINK][1:] for each in elements if LINK in each.attrib}
    used |= {match for each in elements for match in re.findall(r"url\(#(.+?)\)", " ".join(each.attrib.values()))}
    for each in elements:
        if each.attrib.get("id") in used:
            each.set("id", f"{name}-{each.attrib['id']}")
        else:
            each.attrib.pop("id", None)
        if link := each.attrib.pop(LINK, None):
            each.set("href", f"#{name}-{link[1:]}")
        for key, value in each.attrib.items():
            each.set(key, value.replace("url(#", f"url(#{name}-"))


def _colored(text: str) -> str:
    for ink in Ink:
        text = text.replace(ink.value, f"var(--{ink.name.lower()})")
    return text

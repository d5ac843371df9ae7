"""The site has doors: front pages lead to them, no list of the menu is long, and llms.txt names pages that exist."""

import re
from collections.abc import Iterator

import pytest
from pages import ROOT

DOCS = ROOT / "docs"
DOORS = ("run.md", "loop.md", "replay.md")
LONGEST = 14  # entries of a list in the menu


def menu() -> list[tuple[int, str]]:
    """The entries of the menu, each with its indentation."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return [(len(line[1]), line[2]) for line in re.finditer(r"^( +)- (.*)$", text.split("\nnav:\n")[1], re.MULTILINE)]


def lengths_of_lists() -> Iterator[int]:
    counts: dict[int, int] = {}
    for indent, _ in menu():
        for deeper in [each for each in counts if each > indent]:
            yield counts.pop(deeper)
        counts[indent] = counts.get(indent, 0) + 1
    yield from counts.values()


def test_no_list_of_the_menu_is_long():
    assert 2 <= max(lengths_of_lists()) <= LONGEST


def test_the_doors_are_the_first_entries_of_the_menu():
    top = [name.partition(":")[0] for indent, name in menu() if indent == 2]
    assert top[1:4] == ["I use Claude Code, Codex, …", "I have a loop or a framework", "What would it save me?"]


@pytest.mark.parametrize(("page", "folder"), [("README.md", "docs/"), ("docs/index.md", "")])
def test_a_front_page_links_to_each_door(page: str, folder: str):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [door for door in DOORS if f"]({folder}{door})" not in text] == []


def test_every_link_of_llms_txt_is_a_page():
    links = re.findall(r"\]\(([^)]*)/\)", (DOCS / "llms.txt").read_text(encoding="utf-8"))
    assert {f"{link}.md" for link in links}.issuperset(DOORS)
    assert [link for link in links if not (DOCS / f"{link}.md").is_file()] == []


def test_a_search_for_an_assistant_finds_its_page_first():
    """The title has the name, and no other page has a higher boost."""
    boosts = {
        page.relative_to(DOCS).as_posix(): float(found[1])
        for page in DOCS.rglob("*.md")
        if (found := re.match(r"---\n(?:.*\n)*?search:\n  boost: ([\d.]+)\n", page.read_text(encoding="utf-8")))
    }
    assert boosts["run.md"] == max(boosts.values())
    assert "# Use it with Claude Code, Codex" in (DOCS / "run.md").read_text(encoding="utf-8")

"""A caller's format may have its own rules for media and its own words for summarizers, or be an installed plugin."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tables import each_row

from autoprune import AgenticConversationPruner, ConversationError, PruneArgs, SettingsError
from autoprune.settings.plugins import _find_entry_points
from autoprune.wire import MESSAGE_TOKENS, Entry, Parser, Speaker, new_parser, texts

PICTURE_TOKENS = 5_000
PICTURE = {"picture": "a.png"}


class Pictures:
    """Messages under "line", whose pictures cost much."""

    NAME = "pictures"

    def seen(self, message: Mapping[str, object]) -> str | None:
        return "'line'" if "line" in message else None

    def speaker(self, message: Mapping[str, object]) -> Speaker:
        return Speaker.USER

    def parse(self, message: Mapping[str, object], at: int, parser: Parser) -> Entry:
        _, spent = texts.user_content(message["line"], (at, "line"), parser)
        return Entry(Speaker.USER, MESSAGE_TOKENS + spent)

    def message(self, role: str, text: str) -> dict[str, object]:
        return {"line": [text]}


class Rich(Pictures):
    def media(self, block: Mapping[str, object], count: Any) -> int | None:
        return PICTURE_TOKENS if "picture" in block else None

    def words(self, message: Mapping[str, Any], entry: Entry) -> list[str]:
        return ["Look:", *(f"[picture {block['picture']}]" for block in message["line"] if "picture" in block)]


def test_media_are_counted_by_the_rules_of_their_format():
    for content in ([PICTURE], [{"held": PICTURE}]):
        own = new_parser(len, formats=(Rich(),)).read({"line": content}, 0).tokens
        assert own == MESSAGE_TOKENS + PICTURE_TOKENS + (len("held") if "held" in content[0] else 0)
    assert new_parser(len, formats=(Pictures(),)).read({"line": [PICTURE]}, 0).tokens == MESSAGE_TOKENS + 12


def test_a_format_that_a_pruner_gets_after_a_prune_counts_at_once():
    pruner = AgenticConversationPruner(PruneArgs(100))
    pruner.prune([{"role": "user", "content": "Look."}])
    pruner.formats = (Rich(), *pruner.formats)
    assert pruner.prune([{"line": [PICTURE]}]).report.tokens_before > PICTURE_TOKENS


def test_the_bytes_of_such_a_message_do_not_bound_its_tokens():
    report = AgenticConversationPruner(PruneArgs(100), formats=[Rich()]).prune([{"line": [PICTURE]}]).report
    assert report.tokens_before > PICTURE_TOKENS


def test_summarizers_read_the_words_that_the_format_gives():
    message = {"line": [PICTURE]}
    assert new_parser(len, formats=(Rich(),)).read(message, 0).texts == ("Look:", "[picture a.png]")
    assert new_parser(len, formats=(Pictures(),)).read(message, 0).texts != ("Look:", "[picture a.png]")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that registers a format, an object that is none, and a module that no test may load."""
    (tmp_path / "lined.py").write_text("from test_own_format import Pictures\nFORMAT = Pictures()\nNONE = 'a text'\n")
    info = tmp_path / "lined-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: lined\nVersion: 1.0\n")
    points = "pictures = lined:FORMAT\ntext = lined:NONE\nother = no_such_module:X\n"
    (info / "entry_points.txt").write_text(f"[autoprune.formats]\n{points}")
    monkeypatch.syspath_prepend(str(tmp_path))
    _find_entry_points.cache_clear()
    yield
    _find_entry_points.cache_clear()
    sys.modules.pop("lined", None)


@pytest.mark.usefixtures("installed")
def test_a_format_of_an_installed_package_is_found_by_its_name():
    report = AgenticConversationPruner(PruneArgs(100, format="pictures")).prune([{"line": [PICTURE]}]).report
    assert report.tokens_before > 0
    assert "no_such_module" not in sys.modules


@pytest.mark.usefixtures("installed")
def test_a_format_of_an_installed_package_is_not_loaded_unless_it_is_named():
    with pytest.raises(ConversationError, match="has no 'role'"):
        AgenticConversationPruner(PruneArgs(100)).prune([{"line": [PICTURE]}])
    assert "lined" not in sys.modules


@pytest.mark.usefixtures("installed")
@each_row(
    "name, why",
    [
        (
            "text",
            "the plugin 'text' under autoprune.formats is no format: it has no NAME, seen,",
        ),
        ("other", "cannot load 'other'.*no_such_module"),
        (
            "picture",
            r"there is no format 'picture' \(did you mean pictures\?\)$",
        ),
    ],
)
def test_a_name_that_finds_no_format_is_an_error(name: str, why: str):
    with pytest.raises(SettingsError, match=why):
        AgenticConversationPruner(PruneArgs(100, format=name)).prune([{"line": [PICTURE]}])

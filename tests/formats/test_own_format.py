"""A format of the caller's own may have rules of its own for media, and words of its own for summarizers."""

from collections.abc import Mapping
from typing import Any

from autoprune import AgenticConversationPruner, PruneArgs
from autoprune.facts.words import texts as texts_of
from autoprune.formats import MESSAGE_TOKENS, Entry, Parser, Speaker, new_parser, texts

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
        return ["Look:", *(f"[picture {block['picture']}]" for block in message["line"])]


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
    assert texts_of(message, new_parser(len, formats=(Rich(),)).read(message, 0)) == ("Look:", "[picture a.png]")
    assert texts_of(message, new_parser(len, formats=(Pictures(),)).read(message, 0)) != ("Look:", "[picture a.png]")

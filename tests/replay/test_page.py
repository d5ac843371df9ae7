"""The page as a text: what is in it, and what never is. `test_page_in_a_browser` opens it."""

import re
import subprocess
import sys
from base64 import b64encode
from functools import cache
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser

from replayed import MARKUP, SECRET, Replayed, hostile, recorded

from autoprune.apps.replay import SessionFigures
from autoprune.apps.replay.detail import Cleared, Held, Outcome, SessionDetail
from autoprune.apps.replay.page import page
from autoprune.apps.replay.page._session_charts import life
from autoprune.apps.replay.page._text import clean, plain

BROKEN = Replayed((SessionFigures("logs/broken.json", error="logs/broken.json: it is no JSON"),), ())


@cache
def written(*replays: Replayed) -> str:
    return write(*replays)


def write(*replays: Replayed) -> str:
    found = [each for replay in replays for each in replay.found]
    details = [each for replay in replays for each in replay.details]
    words = {"command": f"autoprune replay {MARKUP}", "advice": f"Prune. {MARKUP}", "notes": [MARKUP]}
    return page(found, details, prices="anthropic", **words)  # type: ignore[arg-type]


class Elements(HTMLParser):
    """The elements of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def named(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.found if tag == name]


def test_nothing_that_a_tool_said_becomes_markup():
    elements = Elements(written(hostile(texts=True)))
    tags = {tag for tag, _ in elements.found}
    assert not tags & {"script", "img", "iframe", "object", "embed", "form", "a", "link", "base", "foreignobject"}
    attributes = [(name, value or "") for _, found in elements.found for name, value in found.items()]
    assert not [name for name, _ in attributes if name.startswith("on") or name in ("style", "src")]
    assert not [value for name, value in attributes if name == "href" and not value.startswith("#")]


def test_unfit_characters_are_marked():
    text = written(hostile(texts=True))
    assert clean("\x00 \x1b[31mred\x1b[0m \u202egnorw \ud800\r\nend") == "\ufffd red \ufffdgnorw \ufffd\nend"
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\ud800-\udfff]", text)
    text.encode("utf-8")


def test_charts_hold_plain_text_alone():
    assert plain("$x$\n\u65e5\u672c b", 40) == "$x$? b"
    assert plain("a" * 50, 10) == "aaaaaaa..."


def test_a_result_is_a_bar_as_high_as_its_tokens_until_it_is_cleared():
    results = (Held("a", "", 100, 0, 1), Held("b", "", 300, 0, 2))
    outcome = Outcome("s", prompts=(100, 400, 500), held=(0, 0, 0), cleared=(Cleared(0, 2, "", 50),))
    chart = life(SessionDetail("e", outcome.prompts, {}, results, ()), outcome, "n", "label")
    drawn = {str(each.get("fill")): str(each["d"]) for each in Elements(chart).named("path")}  # the last of each color
    first, second = (height(shape) for shape in drawn["var(--cached)"].split("z")[:2])
    assert second == 3 * first == 3 * height(drawn["var(--cleared)"]) > 0


def height(shape: str) -> float:
    ends = [float(y) for y in re.findall(r"[ML] [\d.]+ ([\d.]+)", shape)]
    return max(ends) - min(ends)


def test_texts_are_in_the_page_only_when_they_are_asked_for():
    assert SECRET not in written(hostile())
    assert SECRET in written(hostile(texts=True))
    assert "needed_name_23 needed_name_23" not in written(hostile())


def test_the_policy_allows_the_style_of_the_page_and_nothing_else():
    text = written(hostile())
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    known = b64encode(sha256(style.encode()).digest()).decode()
    (policy,) = [each["content"] for each in Elements(text).named("meta") if each.get("http-equiv")]
    assert policy == f"default-src 'none'; style-src 'sha256-{known}'; base-uri 'none'; form-action 'none'"
    assert text.index("Content-Security-Policy") < text.index("<style>") < text.index("<body>")


def test_ids_are_unique_and_every_chart_has_a_title_and_a_description():
    elements = Elements(written(recorded(), hostile(), BROKEN))
    ids = [str(found["id"]) for _, found in elements.found if "id" in found]
    charts = elements.named("svg")
    assert len(ids) == len(set(ids))
    assert len(charts) == 2 * 3 * 2 + 2 * (4 + 2)  # prices, measures, widths; sessions, strategies and two more
    for chart in charts:
        assert chart["role"] == "img"
        assert set(str(chart["aria-labelledby"]).split()) <= set(ids)


def test_the_same_sessions_give_the_same_page():
    assert write(hostile()) == written(hostile())


def test_the_table_has_a_share_of_each_kind_of_protected_facts_where_there_were_any():
    table = re.search(r'<table class="strategies">.*?</table>', written(recorded()), re.DOTALL)
    assert table
    heads = [plain_cell(each) for each in re.findall(r'<th scope="col">(.*?)</th>', table[0])]
    (none,) = [row for row in re.findall(r"<tr>(.*?)</tr>", table[0], re.DOTALL) if "</span> none" in row]
    cells = dict(zip(heads[1:], map(plain_cell, re.findall(r"<td>(.*?)</td>", none, re.DOTALL)), strict=True))
    shares = {name: cell for name, cell in cells.items() if name in ("user's words, %", "files being edited, %")}
    assert shares == dict.fromkeys(("user's words, %", "files being edited, %"), "100.0")


def plain_cell(markup: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", "", markup)).split())


def test_strategies_prices_and_the_command_are_named():
    text = written(recorded(), hostile(), BROKEN)
    for words in ("low_water", "window(keep=4)", "clairvoyant", "deepseek", "1.25 written, 0.1 read, 5 answered"):
        assert words in text
    assert "autoprune replay &lt;/pre&gt;" in text


def test_what_was_skipped_is_named_with_its_reason():
    text = written(recorded(), hostile(), BROKEN)
    assert "<code>logs/broken.json</code>: it is no JSON" in text
    assert "1 file was skipped" in text


def test_a_page_without_a_session_that_could_be_replayed_says_so():
    text = page([SessionFigures("a.json", error="it is empty")], [], prices="anthropic", command="", advice="None.")
    assert "it is empty" in text
    assert "<svg" not in text


def test_without_its_libraries_the_page_names_the_extra():
    code = "\n".join(
        (
            "import sys",
            "from autoprune import SettingsError",
            "from autoprune.apps.replay.page import page",
            "assert not {'matplotlib', 'jinja2'} & sys.modules.keys()",
            "for name in ('matplotlib', 'jinja2'):",
            "    sys.modules.pop('jinja2', None)",
            "    sys.modules[name] = None",
            "    try:",
            "        page([], [], prices='anthropic', command='', advice='')",
            "    except SettingsError as error:",
            "        print(error)",
            "    del sys.modules[name]",
        )
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said = "the page needs {}: pip install 'autoprune[replay]'"
    assert found.stdout.splitlines() == [said.format("matplotlib"), said.format("jinja2")]

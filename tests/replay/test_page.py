"""The page as a text: what is in it, and what never is. `test_page_in_a_browser` opens it."""

import gzip
import json
import re
from base64 import b64decode, b64encode
from dataclasses import replace
from functools import cache
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from typing import Any

from replayed import MARKUP, SECRET, Replayed, hostile, ranking, recorded

from autoprune.apps.frontend.markup import bundle
from autoprune.apps.replay import SessionFigures
from autoprune.apps.replay.episode_figures import OWN
from autoprune.apps.replay.page import page
from autoprune.apps.replay.verdict import RUN_COMMAND, run_command
from autoprune.strategies.catalog import RUN_STRATEGY

BROKEN = Replayed((SessionFigures("logs/broken.json", error="logs/broken.json: it is no JSON"),), ())


@cache
def written(*replays: Replayed) -> str:
    return write(*replays)


def write(*replays: Replayed, paid: float = 0.0, run: str = RUN_COMMAND) -> str:
    found = [each for replay in replays for each in replay.found]
    details = [each for replay in replays for each in replay.details]
    words = {"command": f"autoprune replay {MARKUP}", "advice": f"Prune. {MARKUP}", "notes": [MARKUP]}
    return page(found, details, ranking(found, run), paid=paid, **words)  # type: ignore[arg-type]


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


def data_of(text: str) -> Any:
    """The JSON that the script of a page draws its frontiers from."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


def sessions_of(text: str) -> list[Any]:
    """The data of the conversations that a page can open."""
    found = re.findall(r'<script type="application/gzip" id="session-\d+-data">(.*?)</script>', text)
    return [json.loads(gzip.decompress(b64decode(each))) for each in found]


def test_nothing_that_a_tool_said_becomes_markup():
    elements = Elements(written(hostile(texts=True)))
    tags = {tag for tag, _ in elements.found}
    assert not tags & {"img", "iframe", "object", "embed", "form", "a", "link", "base", "foreignobject"}
    assert len(elements.named("svg")) == 2  # the bars of the answer
    details = {"type": "application/gzip", "id": "session-0-data"}
    assert elements.named("script") == [{"type": "application/json", "id": "data"}, {"type": "module"}, details]
    attributes = [(name, value or "") for _, found in elements.found for name, value in found.items()]
    assert not [name for name, _ in attributes if name.startswith("on") or name in ("style", "src", "href")]


def test_what_a_tool_said_is_in_the_data_as_text():
    (session,) = sessions_of(written(hostile(texts=True)))
    assert any(MARKUP in each["text"] for each in session["results"])
    assert any(MARKUP in each["tool"] for each in session["results"])


def test_texts_are_in_the_page_only_on_request():
    without = written(hostile())
    assert SECRET not in without + json.dumps(sessions_of(without))
    assert "needed_name_23 needed_name_23" not in json.dumps(sessions_of(without))
    assert SECRET in json.dumps(sessions_of(written(hostile(texts=True))))


def test_the_policy_allows_the_style_and_the_script_of_the_page_and_nothing_else():
    text = written(hostile())
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    (script,) = re.findall(r'<script type="module">(.*?)</script>', text, re.DOTALL)
    allowed = "style-src 'sha256-{}'; script-src 'sha256-{}'".format(*map(digest, (style, script)))
    (policy,) = [each["content"] for each in Elements(text).named("meta") if each.get("http-equiv")]
    assert policy == f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"
    assert text.index("Content-Security-Policy") < text.index("<style>") < text.index("<body>") < text.index("<script")


def digest(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()


def test_a_script_is_made_of_modules_each_with_names_of_its_own():
    first = "const SIZE = 1;\nexport const one = () => SIZE;\nexport class Two {}\n"
    second = 'import { one as three, Two } from "./a.js";\nconst SIZE = 2;\nthree(new Two(SIZE));\n'
    script = bundle({"a.js": first, "b.js": second})
    assert "import" not in script
    assert "export" not in script
    assert script.count("return { one, Two };") == script.count("const { one: three, Two } = $a;") == 1


def test_ids_are_unique_and_every_chart_of_the_data_has_a_place():
    text = written(recorded(), hostile(), BROKEN)
    ids = [str(found["id"]) for _, found in Elements(text).found if "id" in found]
    data = data_of(text)
    assert len(ids) == len(set(ids))
    assert {f"bill-{at}" for at in range(2)} | {f"session-{at}" for at in range(2)} <= set(ids)
    assert len(data) == 2
    assert [[each["label"] for each in session["outcomes"]] for session in sessions_of(text)] == 2 * [
        ["none", "low_water", "window(keep=4)", "clairvoyant"]
    ]


def test_the_table_has_a_share_of_each_kind_of_protected_facts_where_there_were_any():
    _, table, *_ = re.findall(r'<table class="strategies">.*?</table>', written(recorded()), re.DOTALL)
    heads = [plain_cell(each) for each in re.findall(r'<th scope="col">(.*?)</th>', table)]
    (none,) = [row for row in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL) if "</span> none" in row]
    cells = dict(zip(heads[1:], map(plain_cell, re.findall(r"<td>(.*?)</td>", none, re.DOTALL)), strict=True))
    shares = {name: cell for name, cell in cells.items() if name in ("user's words", "files being edited")}
    assert shares == dict.fromkeys(("user's words", "files being edited"), "100.0")


def plain_cell(markup: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", "", markup)).split())


def test_skipped_files_are_listed_with_reasons():
    text = written(recorded(), hostile(), BROKEN)
    assert "<code>logs/broken.json</code>: it is no JSON" in text
    assert "1 session was skipped" in text


def test_a_page_without_replayed_sessions_says_so():
    text = page([SessionFigures("a.json", error="it is empty")], [], {}, command="", advice="None.")
    assert "it is empty" in text
    assert (data_of(text), sessions_of(text)) == ([], [])


def answer_of(text: str) -> str:
    """The sentence of the first screen."""
    (found,) = re.findall(r'<p class="answer">(.*?)</p>', text)
    return plain_cell(found)


def priced(dollars: float) -> Replayed:
    """The recorded session, with a cost, at its own prices."""
    (session,) = recorded().found
    shapes = {name: replace(each, dollars=dollars) for name, each in session.shapes.items()}
    figures = tuple(replace(each, bills={str(OWN): next(iter(each.bills.values()))}) for each in session.figures)
    return Replayed((replace(session, shapes=shapes, figures=figures),), ())


def test_the_page_begins_with_what_the_sessions_would_have_cost():
    text = write(priced(8.0), paid=10.0)
    found = re.fullmatch(
        r"At API list prices \$10\.00 would have been \$(\d+\.\d\d) with low_water: (\d+)% less\.", answer_of(text)
    )
    assert found
    assert 2 < float(found[1]) < 10
    assert int(found[2]) == round(100 - 10 * float(found[1]))
    assert "$8.00 of the $10.00 were replayed" in text
    assert text.index('class="answer"') < text.index('class="compared"') < text.index('class="strategies"')


def test_without_dollars_the_answer_is_a_share():
    assert re.fullmatch(r"With low_water this session would have cost \d+% less\.", answer_of(written(recorded())))


def test_the_answer_names_the_command_that_has_the_safe_zone_of_the_replay():
    replay = recorded()
    found = [
        replace(
            each,
            figures=tuple(
                replace(row, strategy=RUN_STRATEGY) if row.strategy == "low_water" else row for row in each.figures
            ),
        )
        for each in replay.found
    ]
    text = write(Replayed(tuple(found), ()), run=run_command(20_480))
    assert answer_of(text).startswith("With autoprune run --safe-zone 20480 this session")
    assert "What autoprune run --safe-zone 20480 does" in text
    assert "autoprune run</code>" not in text


def test_a_figure_and_its_interval_have_the_same_precision():
    text = written(recorded(), hostile())
    pairs = re.findall(r"<td>[^<]*(?:<span[^>]*>≈</span>)?<b>([\d.]+)</b><small>([\d.]+)–([\d.]+)</small>", text)
    assert pairs
    assert all(len({len(each.partition(".")[2]) for each in pair}) == 1 for pair in pairs)


def test_names_of_strategies_break_only_after_their_underscores():
    assert "low_<wbr>water" in written(recorded())


def test_a_page_of_two_strategies_has_no_frontier():
    replay = recorded()
    two = [
        replace(each, figures=tuple(row for row in each.figures if row.strategy != "clairvoyant"))
        for each in replay.found
    ]
    pair = [
        replace(each, figures=tuple(row for row in each.figures if row.strategy in ("none", "low_water")))
        for each in replay.found
    ]
    assert data_of(write(Replayed(tuple(two), ())))[0]
    assert "The strategies</h2>" in write(Replayed(tuple(two), ()))
    of_pair = write(Replayed(tuple(pair), ()))
    assert data_of(of_pair) == [[], []]
    assert "No pruning, and low_water</h2>" in of_pair


def rows_of(text: str) -> list[dict[str, str | None]]:
    """The attributes of the conversations of a page's list, in order."""
    return [each for each in Elements(text).named("details") if each.get("class") == "session"]


def test_conversations_are_ranked_by_saving_cost_and_date():
    replays = [_saving(*each) for each in (("a", 1.0, 3.0), ("b", 9.0, 1.0), ("c", 5.0, 2.0))]
    rows = rows_of(write(*replays))
    assert [[each["data-saving"], each["data-cost"], each["data-date"]] for each in rows] == [
        ["0", "0", "2"],  # b: all save the same share, so the most expensive one saves most
        ["1", "1", "1"],
        ["2", "2", "0"],
    ]


def _saving(name: str, dollars: float, time: float) -> Replayed:
    (session,) = priced(dollars).found
    (shape,) = session.shapes.values()
    shapes = {name: replace(shape, title=replace(shape.title, time=time))}
    figures = tuple(replace(each, session=name, episode=name) for each in session.figures)
    return Replayed((replace(session, path=name, shapes=shapes, figures=figures),), ())


def test_a_conversation_is_known_by_its_title_and_its_path_is_beside_it():
    (session,) = priced(1.0).found
    (shape,) = session.shapes.values()
    title = replace(shape.title, project="shop", time=0.0, prompt="Fix the cart")
    named = replace(session, shapes={name: replace(shape, title=title) for name in session.shapes})
    text = write(Replayed((named,), ()))
    assert "<b>shop · Fix the cart</b>" in text
    assert 'title="edit_loop_openai.jsonl"' in text


def test_a_conversation_without_a_price_has_its_saving_in_tokens():
    (cost, saving) = re.findall(r'<span class="(?:cost|saving)">([^<]*\d[^<]*)</span>', written(recorded()))
    assert cost.endswith(" tokens")
    assert re.fullmatch(r"\d[\d.]*[kM] tokens \(\d+%\)", saving)

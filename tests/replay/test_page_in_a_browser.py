"""The page in a real browser. Skipped if there is no browser, unless BROWSER_REQUIRED is set, as in `.ci/run`."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from replayed import hostile, ranking, recorded

from autoprune.apps.frontend.markup import asset, bundle
from autoprune.apps.replay.page import page

pytestmark = pytest.mark.full
ON_PAGE = 2 * 3 + 2 * (4 * 2 + 2)  # charts: of prices and measures; of sessions, two for a strategy and two more
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
OPEN_ALL = "document.querySelectorAll('details:not([open])').forEach(each => each.open = true)"
DRAWN = "new Promise(done => requestAnimationFrame(() => setTimeout(() => requestAnimationFrame(done), 50)))"
CHARTS = "[...document.querySelectorAll('figure:not(.compared) svg')].filter(each => each.checkVisibility())"
EMPTY = f"{CHARTS}.filter(each => each.getBoundingClientRect().height < 100 || !each.querySelector('path'))"
HIDDEN_TEXT = f"""{CHARTS}.flatMap(chart => {{
    const box = chart.getBoundingClientRect()
    return [...chart.querySelectorAll('text')].filter(text => {{
        const own = text.getBoundingClientRect()
        const below = own.top < box.top - 2 || own.bottom > box.bottom + 2
        return below || own.left < box.left - 2 || own.right > box.right + 2
    }})
}}).map(text => text.textContent)"""
LINES = """[...document.querySelectorAll('#conversations .row > span:not(.what)')].map(cell => {
    const text = document.createRange()
    text.selectNodeContents(cell)
    return [cell.textContent, text.getClientRects().length]
})"""
INJECTED = "<script>document.title = 'broken'</script><img src=x onerror=\"document.title = 'broken'\"></body>"


@pytest.fixture(scope="module")
def text() -> str:
    replays = recorded(texts=True), hostile(texts=True)
    found = [each for replay in replays for each in replay.found]
    details = [each for replay in replays for each in replay.details]
    return page(found, details, ranking(found), command="autoprune replay", advice="Do not prune.")


@pytest.fixture
def opened(browser: Any, text: str, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens the page. `said` are the messages of its console, `fetched` the URLs that it requested."""
    contexts = []

    def open_page(width: int = 1280, scheme: str = "light", text: str = text, **options: Any) -> Any:
        path = tmp_path / "report.html"
        path.write_text(text, encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **options)
        contexts.append(context)
        tab = context.new_page()
        tab.said, tab.fetched = [], []
        tab.on("console", lambda message: tab.said.append(message.text))
        tab.on("pageerror", lambda error: tab.said.append(str(error)))
        tab.on("request", lambda request: tab.fetched.append(request.url))
        tab.goto(path.as_uri())
        return tab

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_fits_its_window_and_shows_its_charts(opened: Callable[..., Any], width: int, scheme: str):
    tab = opened(width, scheme)
    assert tab.evaluate(OVERFLOW) <= 0
    for _ in range(2):  # sessions, then what they hold once they are open
        tab.evaluate(OPEN_ALL)
        for number in range(2):
            tab.locator(f"#session-{number} .timeline").wait_for()
        tab.evaluate(DRAWN)
    assert tab.evaluate(OVERFLOW) <= 0
    assert tab.evaluate(f"{CHARTS}.length") == ON_PAGE
    assert tab.evaluate(f"{EMPTY}.length") == 0
    assert tab.evaluate(HIDDEN_TEXT) == []
    assert tab.said == []
    assert len(tab.fetched) == 1
    assert tab.title().startswith("Replay of 2 sessions")


@pytest.mark.parametrize("width", [1280, 800, 400])
def test_no_figure_of_a_conversation_is_broken_over_two_lines(opened: Callable[..., Any], width: int):
    (session,) = recorded().found
    shapes = {name: replace(each, all_requests=1_234, dollars=12_345.67) for name, each in session.shapes.items()}
    found = [replace(session, shapes=shapes)]
    text = page(found, (), ranking(found), command="autoprune replay", advice="Prune.")
    tab = opened(width, text=text)
    assert tab.evaluate(LINES) == [["42 of 1,234", 1], ["$12,345.67", 1], ["22k tokens (9%)", 1]]
    assert tab.evaluate(OVERFLOW) <= 0


def test_charts_follow_the_scheme(opened: Callable[..., Any]):
    light, dark = (_colors(opened(scheme=scheme)) for scheme in ("light", "dark"))
    assert light == ["rgb(255, 255, 255)", "rgb(28, 36, 48)"]
    assert dark == ["rgb(20, 24, 30)", "rgb(230, 234, 240)"]


def _colors(tab: Any) -> list[str]:
    background = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    return [background, tab.evaluate("getComputedStyle(document.querySelector('svg text')).fill")]


def test_the_keyboard_reaches_the_details_and_opens_them(opened: Callable[..., Any]):
    tab = opened()
    _tab_to(tab, "#session-1 > summary")
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.parentElement.open")
    tab.locator("#session-1 .timeline").wait_for()  # the script fills a session when it is opened
    _tab_to(tab, "#session-1 .timeline li:not([class]) summary")
    tab.keyboard.press("Enter")
    result = tab.locator("details:focus-within pre").first
    result.wait_for()
    assert "<script>" in result.inner_text()
    tab.keyboard.press("Enter")
    assert not result.is_visible()


def _tab_to(tab: Any, selector: str) -> None:
    for _ in range(400):
        tab.keyboard.press("Tab")
        if tab.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"Tab does not reach {selector}")


def test_a_chart_tells_its_figures_to_the_pointer_and_to_the_arrow_keys(opened: Callable[..., Any]):
    tab = opened()
    tab.locator("#session-0 > summary").click()
    chart = tab.locator("#session-0 svg").first
    tip = tab.locator("#session-0 figure").first.locator(".tip").first
    chart.wait_for()
    assert not tip.is_visible()
    box = chart.bounding_box()
    chart.hover(position={"x": box["width"] - 5, "y": 60})
    assert tip.inner_text().startswith("Request 41:")
    tab.locator("h1").hover()
    assert not tip.is_visible()
    tab.keyboard.press("Tab")
    chart.focus()
    for key, request in (("Home", 0), ("ArrowRight", 1), ("PageDown", 11), ("ArrowUp", 10), ("End", 41)):
        tab.keyboard.press(key)
        assert tip.inner_text().startswith(f"Request {request}:")
    tab.keyboard.press("Escape")
    assert not tip.is_visible()


def test_a_tooltip_shows_what_a_tool_said_as_text(opened: Callable[..., Any]):
    tab = opened()
    tab.locator("#session-1 > summary").click()
    tab.locator("#session-1 svg").nth(1).focus()
    tab.keyboard.press("Home")
    assert "<script>document.title" in tab.locator("#session-1 .tip:visible").inner_text()
    assert tab.title().startswith("Replay of 2 sessions")


def test_without_a_script_the_page_has_its_sentence_and_its_tables(opened: Callable[..., Any]):
    tab = opened(java_script_enabled=False)
    assert tab.locator(".answer").inner_text().startswith("With low_water these sessions would have cost ")
    assert tab.locator(".bar svg").nth(1).bounding_box()["height"] > 20
    assert tab.locator(".advice").inner_text() == "Do not prune."
    assert tab.locator(".session").count() == 2
    assert tab.locator("table.strategies").first.is_visible()
    assert tab.locator("noscript").is_visible()


def test_a_result_is_a_bar_as_high_as_its_tokens_until_it_is_cleared(browser: Any):
    names = ("dom.js", "numbers.js", "chart.js", "columns.js")
    modules = {**{each: asset(each) for each in names}, "lives.js": asset("report/lives.js", "autoprune.apps.replay")}
    session = {"unpruned": [100, 400, 500], "results": [_held("a", 100, 1), _held("b", 300, 2)]}
    outcome = {"cleared": [{"result": 0, "request": 2, "reason": "", "saved": 50}], "missed": []}
    tab = browser.new_page()
    drawn = f"(known => {{ {bundle(modules)} return $lives.resultLives(340, ...known).shapes.map(each => "
    shapes = tab.evaluate(f"{drawn}[each.getAttribute('class'), each.getAttribute('d')]) }})", [session, outcome])
    tab.close()
    shown = dict(shapes)
    first, second = map(_height, shown["cached"].split("Z")[:2])
    assert second == pytest.approx(3 * first, abs=0.2)
    assert _height(shown["cleared"]) == first > 0


def _held(tool: str, tokens: int, sent: int) -> dict[str, Any]:
    return {"tool": tool, "target": "", "tokens": tokens, "request": 0, "sent": sent, "needed": []}


def _height(path: str) -> float:
    ends = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", path)]
    return max(ends) - min(ends)


def test_small_results_are_shown_on_request(opened: Callable[..., Any]):
    tab = opened()
    tab.locator("#session-0 > summary").click()
    tab.locator("#session-0 .timeline").wait_for()
    small = tab.locator(".session[open] .timeline li.small").first
    assert not small.is_visible()
    tab.locator(".session[open] .timeline input").check()
    assert small.is_visible()


def test_injected_scripts_do_not_run(opened: Callable[..., Any], text: str):
    tab = opened(text=text.replace("</body>", INJECTED))
    assert tab.title().startswith("Replay of 2 sessions")
    assert len(tab.said) >= 2
    assert all("Content Security Policy" in each for each in tab.said)


@pytest.mark.parametrize("width", [1280, 400])
def test_the_tables_fit_their_width(opened: Callable[..., Any], width: int):
    tab = opened(width)
    if width > 1000:
        tab.locator(".more > summary").first.click()
    tables = tab.locator(".scroll:visible")
    for place in range(tables.count()):
        assert tables.nth(place).evaluate("each => each.scrollWidth <= each.clientWidth")
    columns = tab.locator(".strategies").first.locator("thead th")
    assert [columns.nth(place).evaluate("each => getComputedStyle(each).position") for place in range(2)] == [
        *("sticky", "static")
    ]


def test_conversations_are_sorted_by_what_the_reader_asks_for(opened: Callable[..., Any]):
    tab = opened()
    ranks = "key => [...document.querySelectorAll('.session')].map(each => each.dataset[key])"
    assert tab.evaluate(ranks, "saving") == ["0", "1"]
    for words, key in (("cost", "cost"), ("what it would save", "saving"), ("date", "date")):
        button = tab.locator("#sort button", has_text=words)
        button.click()
        assert tab.evaluate(ranks, key) == ["0", "1"]
        assert button.get_attribute("aria-pressed") == "true"


def test_a_conversation_is_decoded_only_when_it_is_opened(opened: Callable[..., Any]):
    tab = opened()
    assert tab.locator("#session-0-data, #session-1-data").count() == 2
    tab.locator("#session-1 > summary").click()
    tab.locator("#session-1 .timeline").wait_for()
    assert tab.locator("#session-0 svg").count() == 0
    assert tab.locator("#session-0-data, #session-1-data").count() == 1
    assert (
        "cleared in "
        in tab.locator("#session-1 .fate").first.text_content() + tab.locator("#session-1 .timeline").text_content()
    )
    assert "of 3 strategies" in tab.locator("#session-1 .timeline").text_content()


def test_data_that_cannot_be_decoded_is_said(opened: Callable[..., Any], text: str):
    tab = opened(text=re.sub(r'(id="session-0-data">).*?<', r"\1AAAA<", text))
    tab.locator("#session-0 > summary").click()
    tab.locator("#session-0 p", has_text="The charts cannot be shown").wait_for()

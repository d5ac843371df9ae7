"""The page in a real browser. Skipped where there is none, unless BROWSER_REQUIRED is set, as `.ci/run` does."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from replayed import hostile, recorded

from autoprune.apps.replay.page import page

pytestmark = pytest.mark.full
ON_PAGE = 2 * 3 + 2 * (4 + 2)  # charts: of prices and measures; of sessions, for strategies and two more
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
OPEN_ALL = "document.querySelectorAll('details').forEach(each => each.open = true)"
CHARTS = "[...document.querySelectorAll('svg')].filter(each => each.checkVisibility())"
EMPTY = f"{CHARTS}.filter(each => each.getBoundingClientRect().height < 100 || !each.querySelector('path'))"
HIDDEN_TEXT = f"""{CHARTS}.flatMap(chart => {{
    const box = chart.getBoundingClientRect()
    return [...chart.querySelectorAll('text')].filter(text => {{
        const own = text.getBoundingClientRect()
        const below = own.top < box.top - 2 || own.bottom > box.bottom + 2
        return below || own.left < box.left - 2 || own.right > box.right + 2
    }})
}}).map(text => text.textContent)"""
INJECTED = "<script>document.title = 'broken'</script><img src=x onerror=\"document.title = 'broken'\"></body>"


@pytest.fixture(scope="module")
def text() -> str:
    replays = recorded(texts=True), hostile(texts=True)
    found = [each for replay in replays for each in replay.found]
    details = [each for replay in replays for each in replay.details]
    return page(found, details, prices="anthropic", command="autoprune replay", advice="Do not prune.")


@pytest.fixture
def opened(browser: Any, text: str, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens the page. `said` are the messages of its console, `fetched` the addresses that it asked for."""
    contexts = []

    def open_page(width: int = 1280, scheme: str = "light", text: str = text) -> Any:
        path = tmp_path / "report.html"
        path.write_text(text, encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
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
    tab.evaluate(OPEN_ALL)
    assert tab.evaluate(OVERFLOW) <= 0
    assert tab.evaluate(f"{CHARTS}.length") == ON_PAGE
    assert tab.evaluate(f"{EMPTY}.length") == 0
    assert tab.evaluate(HIDDEN_TEXT) == []
    assert tab.said == []
    assert len(tab.fetched) == 1
    assert tab.title().startswith("Replay of 2 sessions")


def test_charts_follow_the_scheme(opened: Callable[..., Any]):
    light, dark = (_colors(opened(scheme=scheme)) for scheme in ("light", "dark"))
    assert light == ["rgb(255, 255, 255)", "rgb(28, 36, 48)"]
    assert dark == ["rgb(20, 24, 30)", "rgb(230, 234, 240)"]


def _colors(tab: Any) -> list[str]:
    background = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    return [background, tab.evaluate("getComputedStyle(document.querySelector('svg text')).fill")]


def test_the_keyboard_reaches_the_details_and_opens_them(opened: Callable[..., Any]):
    tab = opened()
    _tab_to(tab, ".session:not([open]) > summary")
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.parentElement.open")
    _tab_to(tab, ".timeline li:not([class]) summary")
    tab.keyboard.press("Enter")
    result = tab.locator("details:focus-within pre").first
    assert result.is_visible()
    assert "<script>" in result.inner_text()
    tab.keyboard.press("Enter")
    assert not result.is_visible()


def _tab_to(tab: Any, selector: str) -> None:
    for _ in range(400):
        tab.keyboard.press("Tab")
        if tab.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"Tab does not reach {selector}")


def test_small_results_are_shown_when_they_are_asked_for(opened: Callable[..., Any]):
    tab = opened()
    small = tab.locator(".session[open] .timeline li.small").first
    assert not small.is_visible()
    tab.locator(".session[open] .timeline input").check()
    assert small.is_visible()


def test_what_were_injected_would_not_run(opened: Callable[..., Any], text: str):
    tab = opened(text=text.replace("</body>", INJECTED))
    assert tab.title().startswith("Replay of 2 sessions")
    assert len(tab.said) >= 2
    assert all("Content Security Policy" in each for each in tab.said)

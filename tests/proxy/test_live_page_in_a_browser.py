"""The proxy's page in a real browser. Skipped if there is none, unless BROWSER_REQUIRED is set."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest
from proxied import MARKUP, drive, hostile, proxied, recorded

from autoprune.apps.proxy import Running

pytestmark = pytest.mark.full
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
BARS = "document.querySelector('#chart .sent').getAttribute('d').split('M').length - 1"
HIDDEN_TEXT = """[...document.querySelectorAll('#chart text')].filter(text => {
    const box = document.querySelector('#chart').getBoundingClientRect(), own = text.getBoundingClientRect()
    return own.left < box.left - 2 || own.right > box.right + 2 || own.top < box.top - 2 || own.bottom > box.bottom + 2
}).map(text => text.textContent)"""
COVERED = """(() => {
    const [tip, column] = [".tip", ".pointed"].map(each => document.querySelector(each).getBoundingClientRect())
    return tip.left < column.right && column.left < tip.right && tip.top < column.bottom && column.top < tip.bottom
})()"""
FOREIGN = "[...document.querySelectorAll('img, iframe, body script')].length"
SECONDS = 15_000  # milliseconds that the page may take to show what has come


@pytest.fixture
def proxy() -> Iterator[Running]:
    with proxied() as running:
        yield running


@pytest.fixture
def opened(browser: Any, proxy: Running) -> Iterator[Callable[..., Any]]:
    """Opens the page. `said` collects console messages, which include violations of the page's CSP."""
    contexts = []

    def open_page(width: int = 1280, scheme: str = "light", address: str = "") -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(SECONDS)
        tab.said = []
        tab.on("console", lambda message: tab.said.append(message.text))
        tab.on("pageerror", lambda error: tab.said.append(str(error)))
        tab.goto(address or proxy.page)
        return tab

    yield open_page
    for context in contexts:
        context.close()


def test_the_page_shows_a_conversation_live(proxy: Running, opened: Callable[..., Any]):
    tab, session, client = opened(), recorded(), "opencode/1.18.33 (linux)"
    tab.get_by_text("No requests yet.").wait_for()
    assert "token" not in tab.url
    for done, upto, saying in ((0, 20, "Nothing was cleared so far"), (20, 40, "This conversation has lost")):
        drive(proxy, session[:upto], client, done=done)
        _wait_for_last(tab, proxy)
        assert tab.locator("#saving").inner_text().startswith(saying)
    drive(proxy, session, client, done=40)
    _wait_for_last(tab, proxy)
    (known,) = proxy.sessions
    assert tab.locator("#title").inner_text() == "opencode · gpt-5.1"
    assert tab.evaluate(BARS) == len(known.points) == 42
    assert tab.locator("#rows > li").count() == len(known.cleared) > 10
    assert tab.locator("#saving").inner_text().startswith("Saved ")
    assert f"{known.points[-1].after:,} tokens sent" in tab.locator("#chart-words").inner_text()
    assert tab.said == []


def _wait_for_last(tab: Any, proxy: Running) -> None:
    tab.locator("#chart-words").get_by_text(f"Request {len(proxy.sessions[0].points)}:").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_fits_its_window_with_hostile_content(
    proxy: Running, opened: Callable[..., Any], width: int, scheme: str
):
    drive(proxy, hostile(), f"evil{MARKUP}")
    tab = opened(width, scheme)
    tab.locator("#rows button").first.click()
    tab.locator("#rows pre").get_by_text("gnorw").wait_for()
    assert tab.evaluate(OVERFLOW) <= 0
    assert tab.evaluate(HIDDEN_TEXT) == []
    assert tab.evaluate("document.querySelector('#chart').getBoundingClientRect().height") > 100
    assert tab.said == []


@pytest.mark.parametrize("requests", [4, 20, 160])
def test_a_tooltip_does_not_cover_its_column_at_400_pixels(proxy: Running, opened: Callable[..., Any], requests: int):
    drive(proxy, recorded()[:requests])
    tab = opened(400)
    _wait_for_last(tab, proxy)
    tab.locator("#chart").focus()
    tab.keyboard.press("Home")
    for _ in range(requests):
        assert tab.evaluate(COVERED) is False
        tab.keyboard.press("ArrowRight")
    assert tab.evaluate(OVERFLOW) <= 0


def test_tool_output_is_shown_as_text(proxy: Running, opened: Callable[..., Any]):
    conversation = hostile()
    drive(proxy, conversation, f"evil{MARKUP}")
    tab = opened()
    tab.locator("#rows button").last.click()
    shown = tab.locator("#rows pre")
    shown.get_by_text("gnorw").wait_for()
    assert shown.text_content() == conversation[2]["content"]
    assert MARKUP in (tab.locator("#rows .what").first.text_content() or "")
    assert tab.evaluate(FOREIGN) == 0
    assert tab.title() == "autoprune proxy"
    assert tab.said == []
    tab.locator("#rows button").last.click()
    assert shown.count() == 0


def test_an_open_payload_stays_open_and_focused_while_the_page_updates(proxy: Running, opened: Callable[..., Any]):
    session = recorded()
    drive(proxy, session[:100])
    tab = opened()
    tab.locator("#rows button").first.focus()
    tab.keyboard.press("Enter")
    tab.locator("#rows pre").wait_for()
    rows = tab.locator("#rows > li").count()
    drive(proxy, session, done=100)
    _wait_for_last(tab, proxy)
    assert len(proxy.sessions[0].cleared) > rows
    assert tab.locator("#rows pre").count() == 1
    assert tab.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    assert tab.evaluate("document.activeElement.getAttribute('aria-label')").startswith("Hide what ")


def test_picking_a_conversation_shows_it(proxy: Running, opened: Callable[..., Any]):
    drive(proxy, recorded()[:30], "opencode/1.18.33 (linux)", "one")
    drive(proxy, recorded()[:4], "pi/1.6.0", "two")
    tab = opened()
    tab.locator("#title").get_by_text("opencode · gpt-5.1").wait_for()
    tab.get_by_role("button", name="pi · gpt-5.1").click()
    tab.locator("#title").get_by_text("pi · gpt-5.1").wait_for()
    assert tab.get_by_role("button", name="pi · gpt-5.1").get_attribute("aria-current") == "true"
    assert tab.evaluate(BARS) == len(proxy.sessions[1].points)


def test_the_list_tells_conversations_of_one_client_apart_and_shows_that_there_are_more(
    proxy: Running, opened: Callable[..., Any]
):
    for name in range(5):
        drive(proxy, recorded()[:30], "pi/1.6.0", f"session {name}")
    tab = opened(400)
    tab.get_by_role("heading", name="5 conversations").wait_for()
    started = [f"{datetime.fromtimestamp(each.started):%H:%M}" for each in reversed([*proxy.sessions])]
    assert tab.locator("#list b").all_inner_texts() == [f"pi · gpt-5.1 · {time}" for time in started]
    fourth, box = tab.locator("#list > li").nth(3).bounding_box(), tab.locator("#list").bounding_box()
    visible = box["y"] + box["height"] - fourth["y"]
    assert 0.4 < visible / fourth["height"] < 0.6


def test_without_the_token_the_browser_shows_how_to_get_it(proxy: Running, opened: Callable[..., Any]):
    tab = opened(address=proxy.url)
    assert "the full address that the proxy printed" in tab.locator("main").inner_text()
    assert [each for each in tab.said if "403" not in each] == []


def test_the_page_says_when_the_proxy_has_stopped(browser: Any):
    with proxied() as proxy:
        tab = browser.new_page()
        tab.goto(proxy.page)
        tab.get_by_text("No requests yet.").wait_for()
    tab.get_by_text("The proxy does not answer.").wait_for(timeout=SECONDS)
    tab.close()

"""The proxy's own pages over HTTP: access, content and security headers."""

import re
from collections.abc import Iterator

import httpx
import pytest
from proxied import MARKUP, TOKEN, drive, hostile, proxied, recorded

from autoprune.apps.proxy import Running

TOKEN_PAGES = ("/", "/autoprune/state", "/autoprune/recall/0000000000000000", "/autoprune/page.js", "/autoprune/other")
FREE_PAGES = ("/metrics", "/autoprune/page.css")
HEADER = {"x-autoprune-token": TOKEN}
UNKNOWN = "0" * 16
LABEL = r'[a-z]+="(?:[^"\\]|\\["\\n])*"'
SAMPLE = re.compile(rf"([a-z_]+)(?:\{{({LABEL}(?:,{LABEL})*)\}})? (-?[0-9.e+-]+)")


@pytest.fixture(scope="module")
def proxy() -> Iterator[Running]:
    """A proxy after a recorded session, a session with hostile tool output, and a request without a conversation."""
    with proxied() as running:
        drive(running, recorded()[:60], "opencode/1.18.33 (linux)", "recorded")
        drive(running, hostile(), f'evil"\\{MARKUP}', "hostile")
        httpx.get(f"{running.url}/v1/models")
        yield running


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    """A client without a cookie."""
    with httpx.Client(verify=False) as client:  # to load certificates would take longer than all it asks for
        yield client


@pytest.fixture
def browser(proxy: Running) -> Iterator[httpx.Client]:
    """A client with the cookie that the page's address sets."""
    with httpx.Client(base_url=proxy.url, verify=False) as client:
        assert client.get(proxy.page.removeprefix(proxy.url)).status_code == 303
        yield client


@pytest.mark.parametrize("path", TOKEN_PAGES)
def test_without_the_token_a_refusal_explains_how_to_get_it(proxy: Running, path: str, http: httpx.Client):
    for headers in ({}, {"x-autoprune-token": "wrong"}, {"cookie": "autoprune_token=wrong"}):
        answer = http.get(f"{proxy.url}{path}", headers=headers)
        assert answer.status_code == 403
        assert "the full address that the proxy printed" in answer.text
    assert http.get(f"{proxy.url}/?token=wrong").status_code == 403


def test_the_pages_address_sets_a_cookie_and_redirects_without_the_token(proxy: Running, http: httpx.Client):
    answer = http.get(proxy.page)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"autoprune_token_{httpx.URL(proxy.url).port}=")
    assert {"httponly", "samesite=strict", "path=/"} <= {each.strip().lower() for each in cookie.split(";")}


def test_the_cookie_or_the_header_opens_the_page(proxy: Running, browser: httpx.Client, http: httpx.Client):
    for answer in (browser.get("/"), http.get(proxy.url, headers=HEADER)):
        assert answer.status_code == 200
        assert "<h1>autoprune proxy</h1>" in answer.text
    for link in re.findall(r'(?:src|href)="(/[^"]*)"', browser.get("/").text):
        assert browser.get(link).status_code == 200


@pytest.mark.parametrize("path", [*TOKEN_PAGES, *FREE_PAGES, "/?token=wrong", "/favicon.ico"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_every_answer_has_security_headers(proxy: Running, path: str, method: str, http: httpx.Client):
    for headers in ({}, HEADER, {"origin": "https://evil.example"}):
        answer = http.request(method, f"{proxy.url}{path}", headers=headers)
        policy = dict(each.strip().split(" ", 1) for each in answer.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/", "/autoprune/state", "/metrics"])
def test_pages_allow_only_get_and_head(proxy: Running, path: str, http: httpx.Client):
    assert http.head(f"{proxy.url}{path}", headers=HEADER).status_code == 200
    answer = http.post(f"{proxy.url}{path}", headers=HEADER)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


def test_the_page_has_no_inline_script_or_style(browser: httpx.Client):
    for path in ("/", "/autoprune/refused.html"):
        text = browser.get(path).text
        assert not re.search(r"<style|<script(?![^>]* src=)|\son\w+=|\sstyle=", text)


@pytest.mark.parametrize("path", [*TOKEN_PAGES, *FREE_PAGES])
@pytest.mark.parametrize("foreign", [{"host": "evil.example"}, {"origin": "https://evil.example"}])
def test_other_sites_are_refused_even_with_the_token(
    proxy: Running, path: str, foreign: dict[str, str], http: httpx.Client
):
    answer = http.get(f"{proxy.url}{path}", headers={**HEADER, **foreign})
    assert answer.status_code == 403
    assert "evil.example" in answer.text


def test_on_an_open_address_metrics_need_the_token_too(http: httpx.Client):
    with proxied(host="0.0.0.0") as proxy:
        url = proxy.url.replace("0.0.0.0", "127.0.0.1")
        assert http.get(f"{url}/metrics").status_code == 403
        assert http.get(f"{url}/metrics", headers=HEADER).status_code == 200


def test_the_state_has_the_traffic_and_what_pruning_saved(proxy: Running, browser: httpx.Client):
    found = browser.get("/autoprune/state").json()
    assert (found["requests"], found["passed"], found["failed"]) == (40, 1, 0)
    assert found["upstream"] == "127.0.0.1"
    assert found["saved"]["tokens"] == pytest.approx(sum(each.ledger.total.net for each in proxy.sessions))
    assert found["saved"]["money"] == pytest.approx(sum(each.ledger.total.money or 0.0 for each in proxy.sessions))
    session = next(each for each in found["sessions"] if each["client"] == "opencode")
    known = proxy.sessions[0]
    assert (session["model"], session["requests"], session["safe_zone"]) == ("gpt-5.1", 26, 20_480)
    assert [(each["before"], each["after"]) for each in session["points"]] == [
        (p.before, p.after) for p in known.points
    ]
    assert session["tokens"] == {
        "before": sum(each.before for each in known.points),
        "after": sum(each.after for each in known.points),
    }
    assert session["saved"]["tokens"] == known.ledger.total.net
    assert session["saved"]["money"] == known.ledger.total.money
    assert session["saved"]["share"] == known.ledger.total.net / known.ledger.unpruned
    assert session["results_cleared"] == len(session["cleared"]) > 10
    assert {each["reason"] for each in session["cleared"]} == {
        "the prompt was above the safe zone: oldest first, to the target"
    }
    assert sum(each["cleared"] for each in session["points"]) == len(session["cleared"])


def test_only_the_requested_conversation_has_details_in_the_state(browser: httpx.Client):
    names = [each["name"] for each in browser.get("/autoprune/state").json()["sessions"]]
    found = browser.get("/autoprune/state", params={"session": names[1]}).json()["sessions"]
    assert [each["name"] for each in found if "points" in each] == [names[1]]
    assert all(each["saved"] and each["prompt"] for each in found)


def test_an_unchanged_state_is_a_304(proxy: Running, browser: httpx.Client, http: httpx.Client):
    first = browser.get("/autoprune/state")
    asked = {"if-none-match": first.headers["etag"]}
    assert browser.get("/autoprune/state", headers=asked).status_code == 304
    assert browser.get("/autoprune/state?session=other", headers=asked).status_code == 200
    with proxied() as other:
        state, headers = f"{other.url}/autoprune/state", {**HEADER}
        for _ in range(3):
            drive(other, recorded()[:4])
            answer = http.get(state, headers=headers)
            assert answer.status_code == 200
            headers["if-none-match"] = answer.headers["etag"]


def test_recall_returns_cleared_payloads_as_text(browser: httpx.Client):
    given = [each["content"] for messages in (recorded(), hostile()) for each in messages if each["role"] == "tool"]
    sessions = browser.get("/autoprune/state").json()["sessions"]
    cleared = [each for session in sessions for each in session["cleared"]]
    assert any(MARKUP in each["tool"] and MARKUP in each["target"] for each in cleared)
    for each in cleared:
        answer = browser.get(f"/autoprune/recall/{each['id']}")
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.text in given


def test_recalling_an_unknown_payload_is_a_404_that_explains_why(browser: httpx.Client):
    for id in (UNKNOWN, "..%2f..%2fetc%2fpasswd", ""):
        answer = browser.get(f"/autoprune/recall/{id}")
        assert answer.status_code == 404
        assert "no payload" in answer.text


def test_metrics_parse_as_prometheus_text_and_add_up(proxy: Running, http: httpx.Client):
    answer = http.get(f"{proxy.url}/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = [SAMPLE.fullmatch(line) for line in answer.text.splitlines() if not line.startswith("#")]
    assert all(samples)
    found = {(match[1], match[2]): float(match[3]) for match in samples if match}
    assert len(found) == len(samples)
    mine = 'client="opencode",model="gpt-5.1"'
    assert found["autoprune_requests_total", None] == 40
    assert found["autoprune_requests_passed_total", None] == 1
    assert found["autoprune_conversation_requests_total", mine] == 26
    assert found["autoprune_prompt_tokens_before_total", mine] == sum(each.before for each in proxy.sessions[0].points)
    assert found["autoprune_saved_input_tokens", mine] == proxy.sessions[0].ledger.total.net
    assert found["autoprune_pruning_seconds_count", None] == 39
    buckets = [value for (name, _), value in found.items() if name == "autoprune_pruning_seconds_bucket"]
    assert buckets == sorted(buckets)
    assert buckets[-1] == 39


def test_metrics_have_no_sessions_and_no_client_versions(proxy: Running, http: httpx.Client):
    text = http.get(f"{proxy.url}/metrics").text
    assert "recorded" not in text
    assert "1.18.33" not in text
    assert 'client="evil\\"\\\\<"' in text

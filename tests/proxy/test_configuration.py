"""Settings, and the guard: other sites are refused, and so are other machines without the token."""

import socket
from collections.abc import Callable

import httpx
import pytest
from proxy.conftest import body
from raw_upstream import always, answer, serving

from autoprune.apps.proxy import Running, Settings
from autoprune.apps.proxy._configuration import Guard
from autoprune.apps.proxy._server import open_socket
from autoprune.errors import SettingsError

ProxyTo = Callable[..., Running]


FOREIGN = [
    {"Host": "evil.example"},
    {"Host": "127.0.0.1.evil.example:80"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost:1"},
    {"Origin": "http://["},
    {"Sec-Fetch-Site": "cross-site"},
]


def test_a_page_of_another_site_is_refused_before_anything_is_sent(proxy_to: ProxyTo) -> None:
    with serving(always(answer())) as upstream:
        url = proxy_to(upstream.url).url
        for headers in FOREIGN:
            got = httpx.post(f"{url}/v1/messages", content=body(2), headers=headers)
            assert got.status_code == 403
            error = got.json()["error"]
            assert "permission_error" in error.values() or error["code"] == "autoprune"
        assert upstream.requests == []
        assert httpx.post(f"{url.replace('127.0.0.1', 'localhost')}/v1/messages", content=body(2)).status_code == 200


def test_on_an_open_address_each_request_needs_the_token_which_is_not_forwarded(proxy_to: ProxyTo) -> None:
    with serving(always(answer())) as upstream:
        url = proxy_to(upstream.url, host="0.0.0.0", token="a secret").url.replace("0.0.0.0", "127.0.0.1")
        for headers in ({}, {"x-autoprune-token": "another"}):
            assert httpx.get(f"{url}/v1/models", headers=headers).status_code == 403
        for host in ("127.0.0.1", "box.example:8484"):  # as other machines call it
            headers = {"x-autoprune-token": "a secret", "host": host}
            assert httpx.get(f"{url}/v1/models", headers=headers).status_code == 200
    assert len(upstream.requests) == 2
    assert "secret" not in upstream.requests[0][0]


def test_the_page_needs_the_token_on_the_loopback_too():
    guard = Guard(Settings(token="right"))
    assert guard.may_view({}, "token=right")
    assert guard.may_view({"cookie": "a=b; autoprune_token=right"}, "")
    assert guard.may_view({"x-autoprune-token": "right"}, "")
    assert not guard.may_view({"cookie": "autoprune_token=wrong"}, "token=")
    assert not guard.may_view({}, "")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"upstream": "api.example"}, "upstream is 'api.example'"),
        ({"strategy": "lowwater"}, "did you mean low_water"),
        ({"strategy": "hybrid(keep=3)"}, "it is for ConversationPruner"),
        ({"strategy": "low_water(target=9)"}, "low_water: target is 9"),
        ({"strategy": "cache_aware(fold_steps='x')"}, "cache_aware: fold_steps is 'x'"),
        ({"strategy": "cache_aware(prices='nope')"}, "there is no price list 'nope'"),
        ({"thinking_policy": "never"}, "thinking_policy is 'never'"),
        ({"safe_zone": "much"}, "safe zone"),
        ({"token": ""}, "token is empty"),
        ({"host": ""}, "host is empty"),
        ({"upstream": "https://user:password@gateway.example"}, "have the client send them in a header"),
    ],
)
def test_unusable_settings_are_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        Settings(**settings)


@pytest.mark.parametrize(
    ("name", "value"), [("ALL_PROXY", "socks9://127.0.0.1:1"), ("HTTPS_PROXY", "x://y"), ("SSL_CERT_FILE", "/none")]
)
def test_an_unusable_environment_is_an_error_at_the_start(
    proxy_to: ProxyTo, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match="cannot use the environment's proxy"):
        proxy_to(None)


@pytest.mark.parametrize("host", ["999.1.1.1", "a b", "a" * 100, "::zz", "192.0.2.1"])
def test_listening_on_an_address_of_another_machine_is_an_error(proxy_to: ProxyTo, host: str) -> None:
    with pytest.raises(SettingsError, match=f"cannot listen on {host}:0: the host must be an address of this machine"):
        proxy_to(None, host=host, port=0)


def test_listening_on_a_port_in_use_is_an_error(proxy_to: ProxyTo) -> None:
    first = proxy_to(None)
    with pytest.raises(SettingsError, match="cannot listen on 127"):
        proxy_to(None, port=int(first.url.rpartition(":")[2]))


def test_accepted_connections_do_not_delay_small_writes():
    with open_socket(Settings()) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

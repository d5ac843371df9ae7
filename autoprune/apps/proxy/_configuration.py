"""The proxy's settings, and the guard that decides who may send requests and open the page.

A web page in a browser can send requests to the loopback, and a site can make its own host name resolve to
127.0.0.1 ("DNS rebinding"). So the `Host` header must name the proxy itself, and so must a browser's `Origin` header.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from ipaddress import ip_address
from secrets import token_urlsafe
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from autoprune.apps.clients import is_http_url
from autoprune.apps.clients.compactions import CompactionRule
from autoprune.errors import SettingsError, is_share
from autoprune.pruners.pruner import AgenticConversationPruner
from autoprune.settings.values import PruneArgs
from autoprune.strategies.catalog import RUN_STRATEGY

LOOPBACK = "127.0.0.1"
LOCAL_NAMES = (LOOPBACK, "localhost", "[::1]")
MOST_JOBS = 4
TOKEN_BYTES = 16  # 128 bits of randomness
TOKEN_HEADER, TOKEN_COOKIE, TOKEN_QUERY = "x-autoprune-token", "autoprune_token", "token"


@dataclass(frozen=True)
class Settings:
    """The settings of a proxy.

    `upstream` is the base URL of the API, such as https://gateway.example. If it is None, each request goes to the
    vendor whose API its path names. `bases` are base URLs by vendor ("anthropic", "openai", "gemini") that replace the
    vendors' own if there is no upstream. OpenAI's replaces /v1, because its clients expect base URLs with a version.

    `safe_zone` is a budget as in `PruneArgs`; the default is the window of the request's model (200,000 tokens if
    it is not known) without room for the reply. `strategy` is a strategy's name, with parameters if needed.

    `compaction` tells when the client compacts conversations by itself, which the safe zone stays below. If it is None,
    each request's User-Agent names the client, with its default settings.

    `holdout` is the share of new conversations that are forwarded unpruned, so that their cost can be compared with
    that of the others. Each conversation is drawn by a digest of `holdout_seed`, its session and its first messages.

    `archive` is a folder in which cleared results are kept, within limits, for `autoprune recall`; by default they are
    not kept.

    `memory` is a folder in which the past of conversations is kept, without their texts, for a proxy that is started
    later; by default it is not kept. `written` maps the names of the client's session files, without suffix, to the
    times they were last written: the latest time at which a session that no proxy has seen can have sent a request.

    `cache_ttl` and `thinking_policy` are those of `PruneArgs`; AUTOPRUNE_* variables set them if they are None.

    `host` is the address to listen on, and `port` 0 is any free port. The page always needs the `token`; if other
    machines can reach `host`, every request needs it.

    `jobs` is the number of worker processes; 0 prunes in a thread. Workers are `multiprocessing` processes, so a script
    that sets `jobs` needs the usual `if __name__ == "__main__":`.

    Raises SettingsError for a value that cannot be used.
    """

    upstream: str | None = None
    safe_zone: int | float | str | None = None
    strategy: str = RUN_STRATEGY
    host: str = LOOPBACK
    port: int = 0
    token: str = field(default_factory=lambda: token_urlsafe(TOKEN_BYTES), repr=False)
    jobs: int = 0
    bases: Mapping[str, str] = field(default_factory=dict)
    cache_ttl: int | float | str | None = None
    thinking_policy: str | None = None
    compaction: CompactionRule | None = None
    holdout: float = 0.0
    holdout_seed: str = field(default="", repr=False)
    archive: str | None = None
    memory: str | None = None
    written: Mapping[str, float] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Validate the settings that can be validated before the first request. Raises SettingsError."""
        self.new_pruner().with_strategy(self.strategy).check_settings()
        if not is_share(self.holdout):
            raise SettingsError(f"holdout is {self.holdout!r}: give a share of the conversations, such as 0.2")
        for url in filter(None, (self.upstream, *self.bases.values())):
            if not is_http_url(url):
                raise SettingsError(f"upstream is {url!r}: give an address such as https://gateway.example")
            if urlsplit(url).username is not None:
                raise SettingsError("the upstream URL contains credentials: have the client send them in a header")
        if not self.host:
            raise SettingsError("host is empty: omit it to listen on the loopback, or give an address")
        if not self.token:
            raise SettingsError("token is empty: omit it to get a random one")

    def new_pruner(self, **options: Any) -> AgenticConversationPruner:
        """Create a pruner with these settings and the environment's; `options` are those of its constructor."""
        zone = {} if self.safe_zone is None else {"conversation_prune_safe_zone_tokens": self.safe_zone}
        args = PruneArgs(cache_ttl=self.cache_ttl, thinking_policy=self.thinking_policy, **zone)  # type: ignore[arg-type]
        return AgenticConversationPruner(args, **options)

    @property
    def is_open(self) -> bool:
        """Whether other machines can reach the proxy."""
        try:
            return not ip_address(self.host).is_loopback
        except ValueError:  # a host name
            return self.host != "localhost"


def usual_jobs() -> int:
    """Return the number of workers for a proxy that many clients share: one per core, up to four."""
    return min(MOST_JOBS, os.cpu_count() or 1)


class Guard:
    """Decides which requests to reject, by their headers."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._hosts = {*LOCAL_NAMES, settings.host}

    def objection(self, headers: Mapping[str, str]) -> str:
        """Return the reason why a request may not go to the upstream; "" if it may."""
        if reason := self.foreign_objection(headers):
            return reason
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return "requests from web pages of other sites are refused"
        if self._settings.is_open and not self._is_token(headers.get(TOKEN_HEADER, "")):
            return f"other machines can reach this proxy, so each request needs its token in the header {TOKEN_HEADER}"
        return ""

    def foreign_objection(self, headers: Mapping[str, str]) -> str:
        """Return why a request cannot come from a program that intends to reach this proxy; "" if it can."""
        host = headers.get("host", "")
        if not self._settings.is_open and _without_port(host).lower() not in self._hosts:
            return f"the host {host!r} is not this proxy: use 127.0.0.1 or localhost"
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return f"requests from the origin {origin!r} are refused: it is another site"
        return ""

    def may_view(self, headers: Mapping[str, str], query: str) -> bool:
        """Return whether a request for the page or a payload carries the token: in a header, a cookie or the query."""
        given = (headers.get(TOKEN_HEADER, ""), cookie_token(headers), *parse_qs(query).get(TOKEN_QUERY, ()))
        return any(map(self._is_token, given))

    def _is_token(self, given: str) -> bool:
        return compare_digest(given.encode(), self._settings.token.encode())  # takes the same time for every guess


def cookie_token(headers: Mapping[str, str]) -> str:
    """Return the token in the cookies of a request; "" if there is none."""
    wanted = cookie_name(headers.get("host", ""))
    pairs = (each.strip().partition("=") for each in headers.get("cookie", "").split(";"))
    return unquote(next((value for name, _, value in pairs if name == wanted), ""))


def quote_token(token: str) -> str:
    return quote(token, safe="")


def cookie_name(host: str) -> str:
    # Cookies are shared between all ports of a host, so that proxies on two ports would overwrite each other's.
    return f"{TOKEN_COOKIE}_{host.rpartition(':')[2]}" if _without_port(host) != host else TOKEN_COOKIE


def _without_port(host: str) -> str:
    name, _, port = host.rpartition(":")
    return name if name and port.isdigit() else host

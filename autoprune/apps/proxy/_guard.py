"""Who may ask: programs of this machine, by the right name; pages of other sites never; the page with the token alone.

A page in a browser can send requests to the loopback, and a name that it owns can be made to point there ("DNS
rebinding"); so the `Host` must be the proxy's own, and an `Origin`, which browsers add, too.
"""

from collections.abc import Mapping
from hmac import compare_digest
from urllib.parse import parse_qs, quote, unquote

from autoprune.apps.proxy._settings import Settings

LOCAL = ("127.0.0.1", "localhost", "[::1]")
TOKEN_HEADER, TOKEN_COOKIE, TOKEN_QUERY = "x-autoprune-token", "autoprune_token", "token"


class Guard:
    """Knows the token, and by which names the proxy may be called."""

    def __init__(self, settings: Settings) -> None:
        """Take the token and the address from the settings."""
        self._settings = settings
        self._hosts = {*LOCAL, settings.host}

    def refusal(self, headers: Mapping[str, str]) -> str:
        """Return why a request for the upstream is refused; "" where it is not."""
        if words := self.foreign(headers):
            return words
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return "a page of another site asks: this proxy is for programs, and for its own page"
        if self._settings.is_open and not self._is_token(headers.get(TOKEN_HEADER, "")):
            return f"this proxy is open to other machines: send its token in the header {TOKEN_HEADER}"
        return ""

    def foreign(self, headers: Mapping[str, str]) -> str:
        """Return why a request cannot be from a program that means this proxy; "" where it can."""
        host = headers.get("host", "")
        if not self._settings.is_open and _without_port(host).lower() not in self._hosts:
            return f"the host {host!r} is not this proxy's: call it by 127.0.0.1 or localhost"
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return f"the origin {origin!r} is another site: this proxy is for programs, and for its own page"
        return ""

    def may_look(self, headers: Mapping[str, str], query: str) -> bool:
        """Return whether a request for the page, or for what was cleared, carries the token."""
        said = (headers.get(TOKEN_HEADER, ""), cookie(headers), *parse_qs(query).get(TOKEN_QUERY, ()))
        return any(map(self._is_token, said))

    def _is_token(self, said: str) -> bool:
        return compare_digest(said.encode(), self._settings.token.encode())


def cookie(headers: Mapping[str, str]) -> str:
    """Return the token in the cookies of a request; "" where there is none."""
    wanted = cookie_name(headers.get("host", ""))
    pairs = (each.strip().partition("=") for each in headers.get("cookie", "").split(";"))
    return unquote(next((value for name, _, value in pairs if name == wanted), ""))


def quoted(token: str) -> str:
    """Return a token as it stands in a cookie and in an address, where not every character may."""
    return quote(token, safe="")


def cookie_name(host: str) -> str:
    """Return the name of the cookie that keeps the token: one for each port, between which browsers do not tell."""
    return f"{TOKEN_COOKIE}_{host.rpartition(':')[2]}" if _without_port(host) != host else TOKEN_COOKIE


def _without_port(host: str) -> str:
    name, _, port = host.rpartition(":")
    return name if name and port.isdigit() else host

"""What a proxy is told: where it listens, what stands behind it, how it prunes. Starts nothing."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from secrets import token_urlsafe
from urllib.parse import urlsplit

from autoprune.errors import SettingsError
from autoprune.settings import UNKNOWN_ZONE, budget_tokens
from autoprune.strategies.catalog import clearing_named

LOOPBACK = "127.0.0.1"
MOST_JOBS = 4
CAN_FORK = hasattr(os, "fork")


def new_token() -> str:
    """Return a token that nobody can guess."""
    return token_urlsafe(16)


@dataclass(frozen=True)
class Settings:
    """The settings of a proxy.

    `upstream` is the address of the API behind it, as https://gateway.example; where it is None each request goes to
    the vendor whose API its path names. `safe_zone` is a budget as `PruneArgs` takes it; None is 0.6 of the window of
    the request's model, and 100,000 tokens where that is not known. `strategy` is a name, with parameters if need be.

    `bases` are base addresses as clients are given them, by vendor ("anthropic", "openai", "gemini"); they stand in
    for the vendor's own where there is no upstream. That of OpenAI's clients takes the place of /v1.

    `host` is an address to listen on, and `port` 0 any free port. On any other address than the loopback every request
    needs the `token`, the page needs it always. `jobs` are the processes that prune; 0 prunes in the proxy's own.
    """

    upstream: str | None = None
    safe_zone: int | float | str | None = None
    strategy: str = "cache_aware"
    host: str = LOOPBACK
    port: int = 0
    token: str = field(default_factory=new_token, repr=False)
    jobs: int = 0
    bases: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check what can be checked before there is a request. Raises SettingsError for what cannot be used."""
        clearing_named(self.strategy)
        if self.safe_zone is not None:
            budget_tokens(self.safe_zone, window_tokens=UNKNOWN_ZONE)
        for address in filter(None, (self.upstream, *self.bases.values())):
            if not is_address(address):
                raise SettingsError(f"upstream is {address!r}: give an address such as https://gateway.example")
            if urlsplit(address).username is not None:
                raise SettingsError("the upstream has a name or a password in it: send them in a header of the client")
        if self.jobs and not CAN_FORK:
            raise SettingsError(
                f"jobs is {self.jobs}: this system forks no processes; take 0, which prunes in a thread"
            )
        if not self.host:
            raise SettingsError("the address to listen on is empty: leave it out for the loopback, or name one")
        if not self.token:
            raise SettingsError("the token is empty: leave it out, and one is made")

    @property
    def is_open(self) -> bool:
        """Whether others than the programs of this machine can reach it."""
        return self.host != "localhost" and not _is_loopback(self.host)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name
        return False


def is_address(text: str) -> bool:
    """Return whether a text is the address of a server."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of brackets that are not closed, or a port that is no number
        return False


def usual_jobs() -> int:
    """Return how many processes prune where many talk to a proxy at once: one for each core, up to four.

    0, a thread of the proxy, on a system that forks none, such as Windows.
    """
    return min(MOST_JOBS, os.cpu_count() or 1) if CAN_FORK else 0

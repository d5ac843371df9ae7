"""`autoprune proxy`: run a server in front of a provider's API that prunes the requests it forwards."""

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

import autoprune.apps.cli.options as options
from autoprune.apps.cli.config_files import without_options
from autoprune.apps.cli.ledgers import holdout_seed, keep_ledgers
from autoprune.apps.cli.recalling import own_archive, own_memory
from autoprune.conversation.limited_archive import DAYS, MOST_BYTES
from autoprune.errors import SettingsError, how_to_install
from autoprune.settings.values import UNKNOWN_WINDOW, VARIABLES, variables
from autoprune.strategies.catalog import RECOMMENDED, RUN_STRATEGY

if TYPE_CHECKING:
    from autoprune.apps.proxy import Running, Settings

EXAMPLES = options.examples(
    "proxy",
    "proxy --port 8484 --safe-zone 100k",
    "proxy --upstream https://gateway.example --jobs 2",
    "proxy --host 0.0.0.0 --token SECRET",
)
PORT = 8484
DEPENDENCIES = ("httpx", "starlette", "uvicorn", "zstandard")
SLEEP_SECONDS = 0.5
# Variables in which users may already have set another address for a vendor's API.
BASE_VARIABLES = {
    "anthropic": ("ANTHROPIC_BASE_URL",),
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "gemini": ("GOOGLE_GEMINI_BASE_URL",),
}

Upstream = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The address of the API. Default: the value of ANTHROPIC_BASE_URL, OPENAI_BASE_URL or "
        "GOOGLE_GEMINI_BASE_URL, else the vendor of the API that a request is for.",
    ),
]
SafeZone = Annotated[
    str | None,
    options.safe_zone(
        "The limit of a prompt, in tokens: 51200, 50k, or 0.7 of the window. Default: the window of each "
        "request's model, without room for the reply, and at most 0.9 of the size at which the client compacts.",
        VARIABLES["safe_zone"],
    ),
]
Strategy = Annotated[
    str,
    typer.Option(
        metavar="STRATEGY",
        envvar=VARIABLES["strategy"],
        show_envvar=False,
        help="A strategy: cache_aware, low_water …; see `autoprune strategies`.",
    ),
]


class TierRule(StrEnum):
    """The rule of `cache_aware` near the size from which a model charges a multiple."""

    AUTO = "auto"
    STAY = "stay"
    CROSS = "cross"


Tier = Annotated[
    TierRule | None,
    typer.Option(
        help="For models that charge a multiple for long requests: stay below that size, cross it, or (auto) clear "
        "results if that makes no request dearer. Default: auto.",
    ),
]

Holdout = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        min=0.0,
        max=1.0,
        show_default=False,
        help="Forward this share of new conversations unpruned, such as 0.2; `autoprune savings` compares their cost.",
    ),
]


def run_proxy(
    context: typer.Context,
    upstream: Upstream = None,
    safe_zone: SafeZone = None,
    strategy: Strategy = RUN_STRATEGY,
    tier: Tier = None,
    holdout: Holdout = 0.0,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="The port; 0 takes any free one.")] = PORT,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            envvar="AUTOPRUNE_TOKEN",
            show_envvar=False,
            help="A secret that the page needs, and each request if --host lets other machines connect. Default: "
            "AUTOPRUNE_TOKEN.",
        ),
    ] = None,
    archive: Annotated[
        bool,
        typer.Option(
            "--archive", help="Keep cleared results on disk for some days, for `autoprune recall` on this machine."
        ),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Worker processes that prune; with 0 the server prunes. Default: one for each core, at most 4.",
        ),
    ] = None,
) -> None:
    """Run a server that prunes what clients send to an API.

    Set a client's base address to it. Ctrl-C stops it.
    """
    check_dependencies()
    from autoprune.apps.proxy import Settings, running, usual_jobs

    given = without_options(context) | ({} if token is None else {"token": token})
    count = usual_jobs() if jobs is None else jobs
    upstream = upstream and upstream.rstrip("/").removesuffix("/v1")
    if upstream and _is_own(upstream, port):
        raise SettingsError(f"--upstream is {upstream}, this proxy itself: give the address of the API behind it")
    known_bases = {} if upstream else base_addresses(os.environ, port)
    chosen = with_tier(strategy, tier)
    kept = {"archive": own_archive() if archive else None, "memory": own_memory()}
    given |= {"host": host, "port": port, "jobs": count, "holdout": holdout, **kept}
    settings = Settings(upstream, safe_zone, chosen, bases=known_bases, **given)
    if settings.is_open and token is None:
        raise SettingsError(f"other machines can reach {host}: give a token (--token, or AUTOPRUNE_TOKEN)")
    settings = with_seed(settings)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # service managers stop with SIGTERM: as with Ctrl-C
    with running(settings) as known, keep_ledgers(lambda: known.sessions), suppress(KeyboardInterrupt):
        print(*startup_lines(settings, known), sep="\n", flush=True)
        while True:
            time.sleep(SLEEP_SECONDS)


def with_seed(settings: "Settings") -> "Settings":
    """Add this user's seed to the settings of a holdout. Raises SessionError if it cannot be stored."""
    return replace(settings, holdout_seed=holdout_seed()) if settings.holdout else settings


def with_tier(strategy: str, tier: TierRule | None) -> str:
    """Return the text of a strategy with a rule for price tiers. Raises SettingsError if it has parameters already."""
    if tier is None:
        return strategy
    if strategy not in (RUN_STRATEGY, RECOMMENDED):
        raise SettingsError(
            f"--tier {tier} is for cache_aware alone: write --strategy \"cache_aware(tier='{tier}', …)\""
        )
    return f"{strategy[:-1]}, tier='{tier}')" if strategy == RUN_STRATEGY else f"cache_aware(tier='{tier}')"


def base_addresses(environ: Mapping[str, str], port: int) -> dict[str, str]:
    """Return the base addresses in environment variables, by vendor. Leaves out this proxy's own address."""
    found = {}
    for vendor, names in BASE_VARIABLES.items():
        base = next(filter(None, (environ.get(name, "").strip() for name in names)), "")
        if base and not _is_own(base, port):
            found[vendor] = base
    return found


def _is_own(base: str, port: int) -> bool:
    try:
        parts = urlsplit(base)
        return parts.hostname in ("127.0.0.1", "localhost", "::1") and parts.port == port
    except ValueError:  # not an address: Settings raises the error for it
        return False


def check_dependencies() -> None:
    """Raise SettingsError if a package that the proxy needs is not installed."""
    missing = [name for name in DEPENDENCIES if find_spec(name) is None]
    if missing:
        raise SettingsError(f"a proxy needs {', '.join(missing)}: {how_to_install('proxy')}")


def startup_lines(settings: "Settings", known: "Running") -> tuple[str, ...]:
    """Return the lines that the proxy prints at its start."""
    return (
        f"autoprune proxy on {known.url}",
        f"  base address    {known.url} (Anthropic, Gemini), {known.url}/v1 (OpenAI)",
        f"  forwards to     {settings.upstream or 'the vendor of the API that a request is for'}",
        *(f"  for {vendor:<12}{base}" for vendor, base in settings.bases.items()),
        f"  safe zone       {describe_zone(settings)}",
        f"  strategy        {settings.strategy}",
        *((f"  holdout         {settings.holdout:.0%} of new conversations unpruned",) if settings.holdout else ()),
        *((f"  archive         {describe_archive(settings)}",) if settings.archive else ()),
        f"  page            {known.page}",
    )


def describe_archive(settings: "Settings") -> str:
    """Say where cleared results are kept, and for how long."""
    if not settings.archive:
        return "none is kept"
    return f"{settings.archive}, for {DAYS} days, up to {MOST_BYTES // 1_000_000} MB with those of other projects"


def describe_zone(settings: "Settings") -> str:
    """Return the safe zone as text, for people."""
    name = VARIABLES["compact_at"]
    given = variables(None).get(name)
    return str(
        settings.safe_zone
        or f"the window of each request's model ({UNKNOWN_WINDOW:,} tokens if unknown) without room for the reply; at "
        f"most 0.9 of {f'{given} ({name})' if given else 'the size at which the client compacts'}"
    )

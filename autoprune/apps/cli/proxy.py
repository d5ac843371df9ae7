"""`autoprune proxy`: a server in front of a provider's API that prunes what passes through it."""

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

import autoprune.apps.cli.options as options
from autoprune.apps.cli.ledgers import keeping
from autoprune.errors import SettingsError

if TYPE_CHECKING:
    from autoprune.apps.proxy import Running, Settings

EXAMPLES = options.examples(
    "proxy",
    "proxy --port 8484 --safe-zone 100k",
    "proxy --upstream https://gateway.example --jobs 2",
    "proxy --host 0.0.0.0 --token SECRET",
)
PORT = 8484
NEEDED = ("httpx", "starlette", "uvicorn", "zstandard")
STEP_SECONDS = 0.5
# Where users have said already which address stands in for a vendor's own.
BASES = {
    "anthropic": ("ANTHROPIC_BASE_URL",),
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "gemini": ("GOOGLE_GEMINI_BASE_URL",),
}

Upstream = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The address of the API behind it. Without it: what ANTHROPIC_BASE_URL, OPENAI_BASE_URL and "
        "GOOGLE_GEMINI_BASE_URL name, else the vendor whose API a request is for.",
    ),
]
SafeZone = Annotated[
    str | None,
    typer.Option(
        "-s",
        "--safe-zone",
        metavar="TOKENS",
        help="The token budget of a prompt: 51200, 50k. Without it: 0.6 of the window of each request's model.",
    ),
]
Strategy = Annotated[
    str, typer.Option(metavar="STRATEGY", help="cache_aware, low_water …; see `autoprune strategies`.")
]


def proxy(
    upstream: Upstream = None,
    safe_zone: SafeZone = None,
    strategy: Strategy = "cache_aware",
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="The port; 0 is any free one.")] = PORT,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            envvar="AUTOPRUNE_TOKEN",
            show_envvar=False,
            help="A secret that each request must carry where --host lets other machines in; or set AUTOPRUNE_TOKEN.",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Processes that prune; with 0 the server does. Without it: one for each core, up to four.",
        ),
    ] = None,
) -> None:
    """Run a server that prunes what clients send to an API.

    Point a client's base address at it. It ends with Ctrl-C.
    """
    wanted()
    from autoprune.apps.proxy import Settings, give_back, running, usual_jobs

    give_back()
    given = {} if token is None else {"token": token}
    count = usual_jobs() if jobs is None else jobs
    upstream = upstream and upstream.rstrip("/").removesuffix("/v1")
    if upstream and _is_own(upstream, port):
        raise SettingsError(f"--upstream is {upstream}, this proxy itself: give the address of the API behind it")
    known_bases = {} if upstream else bases(os.environ, port)
    settings = Settings(upstream, safe_zone, strategy, host=host, port=port, jobs=count, bases=known_bases, **given)
    if settings.is_open and token is None:
        raise SettingsError(f"{host} can be reached from other machines: give a token (--token, or AUTOPRUNE_TOKEN)")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as services are stopped; it ends as with Ctrl-C
    with running(settings) as known, keeping(lambda: known.sessions), suppress(KeyboardInterrupt):
        print(*introduction(settings, known), sep="\n", flush=True)
        while True:
            time.sleep(STEP_SECONDS)


def bases(environ: Mapping[str, str], port: int) -> dict[str, str]:
    """Return the base addresses that variables name, by vendor, but for this proxy's own."""
    said = {
        vendor: next(filter(None, (environ.get(name, "").strip() for name in names)), "")
        for vendor, names in BASES.items()
    }
    return {vendor: base for vendor, base in said.items() if base and not _is_own(base, port)}


def _is_own(base: str, port: int) -> bool:
    try:
        parts = urlsplit(base)
        return parts.hostname in ("127.0.0.1", "localhost", "::1") and parts.port == port
    except ValueError:  # it is no address, as the settings will say
        return False


def wanted() -> None:
    """Raise SettingsError where what a proxy is made of is not installed."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise SettingsError(f"a proxy needs {', '.join(missing)}: pip install 'autoprune[proxy]'")


def introduction(settings: "Settings", known: "Running") -> tuple[str, ...]:
    """Return what is said at the start."""
    zone = settings.safe_zone or "0.6 of the window of each request's model, else 100,000"
    return (
        f"autoprune proxy on {known.url}",
        f"  base address    {known.url} (Anthropic, Gemini), {known.url}/v1 (OpenAI)",
        f"  goes to         {settings.upstream or 'the vendor whose API a request is for'}",
        *(f"  for {vendor:<12}{base}" for vendor, base in settings.bases.items()),
        f"  safe zone       {zone}",
        f"  strategy        {settings.strategy}",
        f"  page            {known.page}",
    )

"""The page: what the templates are given. They escape whatever comes from a session."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from autoprune.apps.replay.corpus import why_skipped
from autoprune.apps.replay.detail import SessionDetail
from autoprune.apps.replay.figures import Figures
from autoprune.apps.replay.overview import overview
from autoprune.apps.replay.page._frontier import charts
from autoprune.apps.replay.page._opened import opened
from autoprune.apps.replay.page._rows import Ranked, ranked
from autoprune.apps.replay.page._text import clean
from autoprune.apps.replay.protected import PROTECTED_NAMES
from autoprune.apps.replay.session import SessionFigures
from autoprune.economics import LISTS
from autoprune.errors import SettingsError

if TYPE_CHECKING:
    from jinja2 import Environment

MOST_SESSIONS = 200  # in a table; others are counted


@dataclass(frozen=True)
class Billed:
    """What strategies cost at some prices, with the frontier: for wide screens and for narrow ones."""

    prices: str
    ranked: Sequence[Ranked]
    charts: Sequence[tuple[str, str]]

    @property
    def figures(self) -> str:
        """The prices of a written and a read token, and one of the answer, where the name is that of a list."""
        known = LISTS.get(self.prices)
        return f"{known.write:g} written, {known.read:g} read, {known.output:g} answered" if known else ""


def page(
    found: Sequence[SessionFigures],
    details: Sequence[SessionDetail],
    *,
    prices: str,
    command: str,
    advice: str,
    notes: Sequence[str] = (),
) -> str:
    """Return replayed sessions as one page of HTML, without scripts.

    `details` are of the sessions that the page opens, `prices` the name of those that bills are shown at, `command`
    what made the page, `notes` what else is to be said of the figures. Raises SettingsError where the libraries of
    autoprune[replay] are not installed.
    """
    check_libraries()
    environment = _environment()
    figures = [each for session in found for each in session.figures]
    names = [prices, *(name for name in (figures[0].bills if figures else ()) if name != prices)]
    billed = [_billed(figures, name, f"bill{number}") for number, name in enumerate(names)] if figures else []
    style, _, _ = environment.loader.get_source(environment, "style.css") if environment.loader else ("", "", None)
    return environment.get_template("page.html").render(
        style=style,
        style_hash=b64encode(sha256(style.encode()).digest()).decode(),
        billed=billed,
        protected_names=PROTECTED_NAMES,
        whole=overview(found),
        sessions=_largest(found),
        skipped=[(each.path, why) for each in found if (why := why_skipped(each))],
        most=MOST_SESSIONS,
        opened=[opened(each, billed[0].ranked, f"s{number}") for number, each in enumerate(details) if billed],
        command=command,
        advice=advice,
        notes=notes,
        violations=[(each.strategy, each.episode, what) for each in figures for what in each.violations],
    )


def _billed(figures: Sequence[Figures], prices: str, name: str) -> Billed:
    placed = ranked(figures, prices)
    return Billed(prices, placed, list(charts(placed, name)))


def _largest(found: Sequence[SessionFigures]) -> list[dict[str, Any]]:
    """Return what each episode is made of, the one with the most tokens first."""
    rows = [
        {"name": name, "agent": each.agent, "shape": shape, "simulated": _simulated(each, name), "notes": each.notes}
        for each in found
        for name, shape in each.shapes.items()
    ]
    return sorted(rows, key=lambda row: (-row["shape"].tokens, row["name"]))


def _simulated(session: SessionFigures, episode: str) -> float:
    """Return the share of an episode's prompts that an unpruned replay reads from the cache."""
    known = next((each for each in session.figures if (each.episode, each.strategy) == (episode, "none")), None)
    return sum(known.held) / sum(known.prompts) if known and sum(known.prompts) else 0.0


def check_libraries() -> None:
    """Raise SettingsError where the libraries that a page needs are not installed."""
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise SettingsError(f"the page needs {error.name}: pip install 'autoprune[replay]'") from error


def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("autoprune.apps.replay.page"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: clean(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )

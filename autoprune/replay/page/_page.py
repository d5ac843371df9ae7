"""The page: what the templates are given. Everything in it that comes from a session is escaped by the templates."""

from collections.abc import Sequence

from autoprune.replay.detail import SessionDetail
from autoprune.replay.session import SessionFigures


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
    return "<!doctype html>"

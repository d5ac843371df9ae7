"""Objects that installed packages register under an entry point group such as `autoprune.strategies`."""

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from autoprune.errors import SettingsError


@cache  # scanning the installed packages takes milliseconds, and they do not change while a process runs
def _find_entry_points(group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}


def plugin_names(group: str) -> list[str]:
    """Return the names that installed packages register under `group`, sorted. Loads nothing."""
    return sorted(_find_entry_points(group))


def load_plugin(group: str, name: str) -> object:
    """Import the object registered as `name` under `group`; None if there is no such name.

    Raises SettingsError if the package that registered it cannot be imported.
    """
    point = _find_entry_points(group).get(name)
    if point is None:
        return None
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        raise SettingsError(
            f"cannot load {name!r}, registered under the entry point group {group} as {point.value}: {error}"
        ) from error

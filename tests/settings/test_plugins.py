"""Entry points of installed packages: found by name, loaded when asked for."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoprune import SettingsError
from autoprune.settings.plugins import _find_entry_points, load_plugin, plugin_names

GROUP = "autoprune.strategies"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that registers one object, and one that cannot be imported."""
    (tmp_path / "mine.py").write_text("STRATEGY = 'a strategy'\n")
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nmine = mine:STRATEGY\nbroken = no_such_module:X\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    _find_entry_points.cache_clear()
    yield
    _find_entry_points.cache_clear()
    sys.modules.pop("mine", None)


@pytest.mark.usefixtures("installed")
def test_an_installed_package_offers_objects_by_name():
    assert plugin_names(GROUP) == ["broken", "mine"]
    assert "mine" not in sys.modules  # names alone import nothing
    assert load_plugin(GROUP, "mine") == "a strategy"
    assert load_plugin(GROUP, "other") is None


@pytest.mark.usefixtures("installed")
def test_a_plugin_that_cannot_be_imported_is_an_error_that_names_it():
    with pytest.raises(SettingsError, match=r"cannot load 'broken'.*no_such_module:X.*No module named"):
        load_plugin(GROUP, "broken")

"""A context policy of an installed package is replayed by name; without one, the error says where to find some."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from plugins import install

from autoprune.apps.replay import Policy
from autoprune.errors import SettingsError
from autoprune.settings.plugins import _find_entry_points


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    install(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    _find_entry_points.cache_clear()
    yield
    _find_entry_points.cache_clear()
    sys.modules.pop("plugin_of_tests", None)


@pytest.mark.usefixtures("installed")
def test_a_policy_of_a_package_is_found_by_name_with_its_parameters():
    policy = Policy("shortens(keep=3)")
    assert (policy.is_published, policy.is_baseline, policy.strategy()().keep) == (True, True, 3)
    for wrong, why in (("shortens(kep=3)", "has the parameters: keep=5"), ("number", "it must make a policy")):
        with pytest.raises(SettingsError, match=why):
            Policy(wrong)


def test_an_unknown_name_is_an_error_that_says_where_policies_of_other_tools_are(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [path for path in sys.path if "site-packages" not in path])
    _find_entry_points.cache_clear()
    try:
        with pytest.raises(SettingsError, match=r"'complexity_trap'; there are .*: pip install \./benchmarks/prune"):
            Policy("complexity_trap")
    finally:
        _find_entry_points.cache_clear()

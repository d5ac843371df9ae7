"""Defaults of the command line in files: what applies to which command, and what a project's file may not set."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from command_line import OPENAI, run_text
from tables import each_row

from autoprune.apps.cli.config_files import find_defaults, read_files
from autoprune.errors import SettingsError


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """A project's folder within its repository, and the folder of the user's file."""
    folder = tmp_path / "repository" / "package"
    folder.mkdir(parents=True)
    (tmp_path / "repository" / ".git").mkdir()
    user = tmp_path / "config" / "autoprune"
    user.mkdir(parents=True)
    return folder, user


def found(
    places: tuple[Path, Path], command: str, environ: Mapping[str, str] | None = None
) -> dict[str, tuple[object, str]]:
    folder, user = places
    having = {"XDG_CONFIG_HOME": str(user.parent), **(environ or {})}
    known = find_defaults(read_files(folder, having), command, having)
    return {name: (given.value, Path(given.where).name) for name, given in known.items()}


def values(places: tuple[Path, Path], command: str, environ: Mapping[str, str] | None = None) -> dict[str, object]:
    return {name: value for name, (value, _) in found(places, command, environ).items()}


def test_the_projects_file_comes_before_the_users_and_a_variable_before_both(places: tuple[Path, Path]):
    folder, user = places
    (user / "autoprune.toml").write_text('safe_zone = "20k"\nstrategy = "low_water"\nmodel = "gpt-5"')
    (folder.parent / "autoprune.toml").write_text('strategy = "cache_aware"\ngroup_size = 6')
    expected = {"safe_zone": "20k", "strategy": "cache_aware", "model": "gpt-5", "group_size": 6}
    assert values(places, "prune") == expected
    set_by_variable = values(places, "prune", {"AUTOPRUNE_STRATEGY": "hybrid", "AUTOPRUNE_MODEL": "gpt-4o"})
    assert set_by_variable == {"safe_zone": "20k", "group_size": 6}


def test_run_and_the_proxy_take_the_model_from_each_request(places: tuple[Path, Path]):
    folder, _ = places
    (folder / "autoprune.toml").write_text('model = "gpt-5"\ncache-ttl = "1h"')
    assert values(places, "run") == values(places, "proxy") == {"cache_ttl": "1h"}


def test_the_nearest_file_counts_up_to_the_root_of_the_repository(places: tuple[Path, Path], tmp_path: Path):
    folder, _ = places
    (tmp_path / "autoprune.toml").write_text('safe_zone = "10k"')
    assert found(places, "prune") == {}
    (folder.parent / "pyproject.toml").write_text('[project]\nname = "x"\n[tool.autoprune]\nsafe_zone = "20k"')
    assert found(places, "prune") == {"safe_zone": ("20k", "pyproject.toml")}
    (folder / "pyproject.toml").write_text("[broken")  # somebody else's problem
    (folder.parent / "autoprune.toml").write_text('safe_zone = "30k"')
    assert found(places, "prune") == {"safe_zone": ("30k", "autoprune.toml")}


WRONG = {
    "a setting": ('safe_zon = "50k"', "has no key 'safe_zon' (did you mean safe_zone?)"),
    "a table": (
        "[run]\nno_archive = true",
        "has a table 'run', but can hold only settings: give options on the command",
    ),
    "an option": ("port = 1", "has no key 'port'"),
    "a list": ("model = [1]", "model is [1]: give a text"),
    "a date": ("model = 2026-01-01", "model is datetime.date(2026, 1, 1): give a text"),
    "a flag for a text": ("strategy = true", "strategy is True: give a text"),
    "a flag for a number": ("window = true", "window is True: give a number or a text"),
    "no number": ("group_size = nan", "group_size is nan: give a number or a text"),
    "toml": (
        'strategy = "low_water"\nmodel = gpt-5',
        "is not valid TOML: Invalid value (at line 2, column 9); texts need quotes",
    ),
}


@each_row("text, said", WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_an_error_that_names_the_file(places: tuple[Path, Path], text: str, said: str):
    folder, _ = places
    (folder / "autoprune.toml").write_text(text)
    with pytest.raises(SettingsError) as caught:
        found(places, "proxy")
    assert str(caught.value).startswith(str(folder / "autoprune.toml"))
    assert said in str(caught.value)


def test_a_projects_strategy_runs_no_file_and_asks_no_model(places: tuple[Path, Path]):
    folder, user = places
    for value in (
        "mine.py:Mine",
        "x @ mine.py:Mine(at=1)",
        "chat_summary(\u017fummarizer='openai(model_name=\"gpt-5-mini\")')",
        "chat_summary(summarizer='openai(model_name=\"gpt-5-mini\")')",
    ):
        (folder / "autoprune.toml").write_text(f"strategy = {json.dumps(value)}")
        with pytest.raises(SettingsError, match="cannot set a strategy from a Python file"):
            found(places, "prune")
    (folder / "autoprune.toml").write_text("strategy = \"cache_aware(protect={'paths': ['*.py']})\"")
    assert values(places, "prune") == {"strategy": "cache_aware(protect={'paths': ['*.py']})"}
    (folder / "autoprune.toml").unlink()
    (user / "autoprune.toml").write_text('strategy = "mine.py:Mine"')
    assert values(places, "proxy") == {"strategy": "mine.py:Mine"}


def test_a_link_to_a_device_is_no_file(places: tuple[Path, Path]):
    folder, _ = places
    (folder / "autoprune.toml").symlink_to("/dev/zero")
    assert found(places, "prune") == {}


def test_control_characters_in_a_file_are_not_printed(places: tuple[Path, Path]):
    folder, user = places
    environ = {"XDG_CONFIG_HOME": str(user.parent)}
    for text in ('model = "\\u001b[31m"', '["\\u001b[31m"]\nport = 1', '"\\u001b[31m" = 1', 'strategy = "\\u001b[31m"'):
        (folder / "autoprune.toml").write_text(text)
        done = run_text("settings", folder=folder, environ=environ)
        assert "\x1b" not in done.stdout + done.stderr
        assert folder.name in done.stdout + done.stderr


def test_options_come_before_files_and_the_list_of_settings_names_the_file(places: tuple[Path, Path]):
    folder, user = places
    environ = {"XDG_CONFIG_HOME": str(user.parent)}
    (folder / "autoprune.toml").write_text('safe_zone = "20k"\ngroup_size = 6\nstrategy = "low_water"')
    listed = json.loads(run_text("settings", "--json", folder=folder, environ=environ).stdout)
    known = {each["name"]: (each["value"], each["source"], Path(each["where"]).name) for each in listed}
    assert known["safe_zone"] == (20_480, "file", "autoprune.toml")
    assert known["strategy"] == ("low_water", "file", "autoprune.toml")
    from_file = json.loads(run_text("prune", OPENAI, "--json", folder=folder, environ=environ).stdout)
    assert (from_file["safe_zone"], from_file["strategy"]) == (20_480, "low_water")
    given = run_text("prune", OPENAI, "--json", "-s", "30k", folder=folder, environ=environ)
    assert json.loads(given.stdout)["safe_zone"] == 30_720


def test_a_share_of_a_window_that_is_not_known_is_listed_as_it_is(places: tuple[Path, Path]):
    folder, user = places
    (folder / "autoprune.toml").write_text("safe_zone = 0.5")
    for model, shown in ((None, "0.5"), ("gpt-4o", "64,000")):
        environ = {"XDG_CONFIG_HOME": str(user.parent), "AUTOPRUNE_MODEL": model}
        done = run_text("settings", folder=folder, environ=environ)
        assert (done.returncode, done.stdout.splitlines()[1].split()[1]) == (0, shown)


def test_a_count_in_a_file_may_have_a_unit(places: tuple[Path, Path]):
    folder, user = places
    (folder / "autoprune.toml").write_text('safe_zone = "40k"\noverhead_tokens = "5k"')
    environ = {"XDG_CONFIG_HOME": str(user.parent)}
    assert "overhead_tokens  5,120" in run_text("settings", folder=folder, environ=environ).stdout
    assert run_text("prune", OPENAI, folder=folder, environ=environ).returncode == 0


def test_an_error_about_another_value_names_no_file(places: tuple[Path, Path]):
    folder, user = places
    (folder / "autoprune.toml").write_text("overhead_tokens = 5")
    environ = {"XDG_CONFIG_HOME": str(user.parent)}
    done = run_text("prune", OPENAI, "--strategy", "low_water5", folder=folder, environ=environ)
    assert done.stderr.startswith("autoprune: there is no strategy 'low_water5'")


@each_row(
    ("command", "text", "said"),
    [
        (f"prune {OPENAI}", 'overhead_tokens = "many"', "overhead_tokens is 'many': "),
        ("proxy", 'safe_zone = "much"', "the safe zone is 'much': write it as 51200"),
        ("proxy", 'cache_ttl = "9 lives"', "cache_ttl is '9 lives'"),
        ("settings", 'strategy = "lowwater"', "there is no strategy 'lowwater' (did you mean low_water?)"),
    ],
)
def test_a_value_that_cannot_be_used_is_an_error_that_names_the_file(
    places: tuple[Path, Path], command: str, text: str, said: str
):
    folder, user = places
    (folder / "autoprune.toml").write_text(text)
    done = run_text(*command.split(), folder=folder, environ={"XDG_CONFIG_HOME": str(user.parent)})
    assert done.returncode == 2
    assert done.stderr.startswith(f"autoprune: {folder / 'autoprune.toml'}: {said}")

"""Advice in errors."""

from collections import OrderedDict, UserDict
from pathlib import Path

from tables import each_row

from autoprune.errors import how_to_install, type_of


@each_row(
    ("file", "command"),
    [
        ("uv-receipt.toml", "uv tool install --force"),
        ("pipx_metadata.json", "pipx install --force"),
        ("pyvenv.cfg", "pip install"),
    ],
)
def test_the_advice_to_install_an_extra_fits_how_autoprune_was_installed(tmp_path: Path, file: str, command: str):
    folder = tmp_path / command  # the rows share a folder
    folder.mkdir()
    (folder / file).touch()
    assert how_to_install("proxy", str(folder)) == f"run {command} '.[proxy]' in a clone of autoprune"
    once = how_to_install("proxy", "/home/me/.cache/uv/archive-v0/9kQ2")
    assert once == "in a clone of autoprune, start it with uvx --from '.[proxy]' autoprune"


def test_a_type_is_named_with_its_article():
    values = (5, object(), [], OrderedDict(), UserDict())
    assert [type_of(value) for value in values] == ["an int", "an object", "a list", "an OrderedDict", "a UserDict"]

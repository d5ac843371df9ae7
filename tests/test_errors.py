"""Advice in errors."""

from tables import each_row

from autoprune.errors import how_to_install


@each_row(
    ("prefix", "command"),
    [
        ("/home/dev/.local/share/uv/tools/autoprune", "uv tool install --force"),
        ("/home/dev/.local/share/pipx/venvs/autoprune", "pipx install --force"),
        ("/home/dev/app/.venv", "pip install"),
    ],
)
def test_the_advice_to_install_an_extra_fits_how_autoprune_was_installed(prefix: str, command: str):
    assert how_to_install("proxy", prefix) == f"run {command} '.[proxy]' in a clone of autoprune"

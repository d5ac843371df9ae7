"""Which programs a shell command runs."""

import pytest

from autoprune.facts.shell import program_names


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("A=1 sudo make", ("make",)),
        ("python sudo make", ("python",)),
        ("cd app && timeout 5 pytest", ("pytest",)),
    ],
)
def test_only_words_before_a_program_are_skipped(command: str, names: tuple[str, ...]):
    assert program_names(command) == names

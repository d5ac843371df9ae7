"""Where the real assistants are."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def prefix() -> Path:
    """The folder with the assistants."""
    named = os.environ.get("ASSISTANTS")
    if named is None and not os.environ.get("ASSISTANTS_REQUIRED"):
        pytest.skip("ASSISTANTS names no folder with assistants")
    return Path(named or ".").resolve()

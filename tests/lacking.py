"""What becomes of tests that need something which is not on every machine."""

import os
from typing import NoReturn

import pytest

REQUIRED = "SOTTOVOCE_REQUIRE_ALL"


def leave_out(what: str) -> NoReturn:
    """Skip and say what is not tested, and why; fail where everything must be, as in CI."""
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(f"{REQUIRED} is set, but there is no way to test {what}", pytrace=False)
    pytest.skip(f"left out: {what}", allow_module_level=True)

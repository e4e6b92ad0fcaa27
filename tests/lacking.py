"""Skips for tests that need something that is not on every machine."""

import os
from typing import NoReturn

import pytest

REQUIRE_ALL_VARIABLE = "SOTTOVOCE_REQUIRE_ALL"


def leave_out(what: str) -> NoReturn:
    """Skip a test and name what is not tested; fail where everything is required, as in CI."""
    if os.environ.get(REQUIRE_ALL_VARIABLE) == "1":
        pytest.fail(
            f"{REQUIRE_ALL_VARIABLE} is set, but this machine cannot test {what}", pytrace=False
        )
    pytest.skip(f"left out: {what}", allow_module_level=True)

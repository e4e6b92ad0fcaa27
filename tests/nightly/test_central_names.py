"""The settings of `tests.privacy.test_central_names` that take too long for every day."""

import pytest

from tests.privacy.test_central_names import CASES, DAILY_CASES, MAX_RATIO, measure


@pytest.mark.parametrize("case", [case for case in CASES if case not in DAILY_CASES], ids=str)
def test_central_epsilon_agrees_with_clones(case: tuple[int, float, int, int, int]) -> None:
    stated, lower, upper = measure(case)
    assert lower <= stated <= MAX_RATIO * upper

"""How much of a large set of cases runs by day; `SOTTOVOCE_CASES=all` (`make nightly`) runs it all.

`make nightly` finds the files that import this module.
"""

import os
from collections.abc import Sequence
from typing import TypeVar

Case = TypeVar("Case")

RUNS_ALL_CASES = os.environ.get("SOTTOVOCE_CASES") == "all"


def choose(by_day: int, at_night: int) -> int:
    """Return a number of examples, or the distance between the steps that are tried."""
    return at_night if RUNS_ALL_CASES else by_day


def choose_cases(cases: Sequence[Case], n_by_day: int) -> Sequence[Case]:
    """Return all cases at night, and by day some of them, spread evenly with the first and last."""
    if RUNS_ALL_CASES or n_by_day >= len(cases):
        return cases
    return [cases[place * (len(cases) - 1) // (n_by_day - 1)] for place in range(n_by_day)]

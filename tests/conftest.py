"""For all tests: hypothesis, the environment, the order, and how tests that are left out are told.

No deadlines on shared machines, repeatable in CI. No terminal: a console that finds a width when it
is made keeps it, whatever a test says later. No threads that turn in circles while they wait, and
one thread for each matrix product: there are as many processes as cores already.
"""

import os
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.pop("COLUMNS", None)
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
settings.register_profile("sottovoce", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("sottovoce")

TESTS = Path(__file__).parent
FIRST = TESTS / "simulation" / "test_engine.py"
"""Compiles the kernels if `make kernels` has not, while others have tests without any."""
COMPILED = ("cli", "data", "sandbox", "simulation", "test_docs.py")
SLOW = ("live", "web", "nightly")
"""Whole systems and browsers: before the others, so that no process waits for them at the end."""
LONG = (
    "web/test_node.py",
    "live/test_operations.py",
    "live/test_faults.py",
    "client/test_request_times.py",
)
"""Half a minute and more each: before all."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _place(item.path))


@cache
def _place(path: Path) -> int:
    if path == FIRST or _is_in(path, LONG):
        return 0
    return 1 if _is_in(path, SLOW) else 3 if _is_in(path, COMPILED) else 2


def _is_in(path: Path, places: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(TESTS / place) for place in places)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """All tests that are left out for one reason are one line in the summary."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple) and "left out: " in report.longrepr[2]:
        report.longrepr = (str(TESTS), 1, report.longrepr[2])
    return report

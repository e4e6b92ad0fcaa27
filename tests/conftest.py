"""Settings of hypothesis, environment and order of all tests; the report of skipped ones."""

import os
import shutil
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

# A console keeps the width that it reads when it is created, whatever a test sets later.
os.environ.pop("COLUMNS", None)
# There are as many processes as cores already: no spinning threads, one thread per product.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Many tests sync thousands of small files: `tmp_path` is in memory where there is room. No test
# cuts the real power, and a killed process leaves the same files in memory.
MEMORY_FOLDER = Path("/dev/shm")
# A run needs less than 100 MB at once; a container often has 64 MB there in all.
MIN_MEMORY_FOLDER_BYTES = 2 * 2**30
if (
    os.access(MEMORY_FOLDER, os.W_OK)
    and shutil.disk_usage(MEMORY_FOLDER).free >= MIN_MEMORY_FOLDER_BYTES
):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY_FOLDER))
# No deadlines on shared machines; repeatable in CI.
settings.register_profile("sottovoce", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("sottovoce")

TESTS = Path(__file__).parent
# Compiles the kernels if `make kernels` did not, while other processes run tests without any.
COMPILING_TEST = TESTS / "simulation" / "test_engine.py"
TESTS_WITH_KERNELS = ("cli", "data", "sandbox", "simulation", "test_docs.py")
# Whole systems and browsers start early, so that no process waits for them at the end.
SLOW_TESTS = ("live", "web", "nightly")
# Half a minute and more each: before all others.
LONGEST_TESTS = (
    "web/test_node.py",
    "live/test_operations.py",
    "live/test_faults.py",
    "client/test_request_times.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _rank(item.path))


@cache
def _rank(path: Path) -> int:
    if path == COMPILING_TEST or _is_in(path, LONGEST_TESTS):
        return 0
    return 1 if _is_in(path, SLOW_TESTS) else 3 if _is_in(path, TESTS_WITH_KERNELS) else 2


def _is_in(path: Path, names: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(TESTS / name) for name in names)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give all tests that are left out for one reason the same place: one line in the summary."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple) and "left out: " in report.longrepr[2]:
        report.longrepr = (str(TESTS), 1, report.longrepr[2])
    return report

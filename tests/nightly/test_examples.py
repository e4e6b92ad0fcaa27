"""The examples run and print what they promise."""

import runpy

import pytest

from tests.test_docs import ROOT


def test_the_example_runs() -> None:
    titles = runpy.run_path(str(ROOT / "examples" / "recommend.py"))["main"]()
    assert len(titles) == 5


def test_the_grid_of_the_example_finds_that_privacy_costs() -> None:
    pytest.importorskip("sklearn")
    results = runpy.run_path(str(ROOT / "examples" / "grid.py"))["main"]()
    assert list(results) == [10, 40, 80, 200, 800, 1600]
    assert results[1600] > 2 * results[10] > 0

"""Tests of the estimated time that is left."""

from dataclasses import replace

import pytest

from lab.tests.paper.helpers import FULL, SMOKE, list_cells_of
from sottovoce_lab.paper import EXPERIMENTS, About, Cell, Scale, Size
from sottovoce_lab.paper.estimate import Estimate, estimate_work
from sottovoce_lab.paper.figures import Table4

TENTH = replace(FULL, scale=0.1)


def list_sorted_cells(about: About) -> list[Cell]:
    cells = list_cells_of(Table4, Scale.from_about(about))
    return sorted(cells, key=lambda cell: estimate_work(cell, TENTH))


@pytest.mark.parametrize("slowness", [0.2, 5.0])
def test_estimate_adapts_to_the_speed_of_the_machine(slowness: float) -> None:
    # The smallest cells come first, and one method is twice as slow as expected.
    now, cells = 0.0, list_sorted_cells(TENTH)
    durations = [
        estimate_work(cell, TENTH) * slowness * (1 + (cell.method == "loudest")) for cell in cells
    ]
    assert Estimate(cells, TENTH).seconds_left is None
    estimate = Estimate(cells, TENTH, lambda: now)
    for cell, seconds in zip(cells, durations, strict=True):
        with estimate.watch(cell):
            now += seconds
        assert estimate.seconds_left is not None
        if now > 60:
            assert now + estimate.seconds_left == pytest.approx(sum(durations), rel=0.5)
    assert estimate.seconds_left == pytest.approx(0, abs=1e-6)


def test_compiling_does_not_count_as_pace() -> None:
    estimate, cells = Estimate(list_sorted_cells(SMOKE), SMOKE), list_sorted_cells(SMOKE)
    for index, cell in enumerate(cells[::2]):
        compiling = 60.0 * (index == 0)
        estimate.add(cell, 0.02 + compiling, compiling)
    assert estimate.seconds_left is not None
    assert estimate.seconds_left < 10


def test_methods_that_have_not_begun_have_loops_to_compile() -> None:
    cells = [
        Cell.from_parameters(method, Size(), seed)
        for method in ("popularity", "random")
        for seed in range(20)
    ]
    estimate = Estimate(cells, SMOKE)
    for cell in cells[:20]:
        estimate.add(cell, 1.0, compiling=0.9)
    assert estimate.seconds_left is not None
    assert 9 < estimate.seconds_left < 20


@pytest.mark.parametrize("about", [SMOKE, TENTH, FULL], ids=["quick", "tenth", "full"])
def test_work_of_every_cell_grows_with_people(about: About) -> None:
    for experiment in EXPERIMENTS.values():
        for cell in list_cells_of(experiment, Scale.from_about(about)):
            larger = replace(cell, size=Size(10**9, cell.size.items), resample=None)
            assert 0 < estimate_work(cell, FULL) < estimate_work(larger, FULL)

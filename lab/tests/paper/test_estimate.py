"""How long the rest takes."""

from dataclasses import replace

import pytest

from lab.tests.paper.helpers import SMOKE, WHOLE, cells_of
from sottovoce_lab.paper import EXPERIMENTS, About, Cell, Scale, Size
from sottovoce_lab.paper.estimate import Estimate, estimate_work
from sottovoce_lab.paper.published import Table4

TENTH = replace(WHOLE, scale=0.1)


def in_order(cells: list[Cell]) -> list[Cell]:
    return sorted(cells, key=lambda cell: estimate_work(cell, TENTH))


@pytest.mark.parametrize("slower", [0.2, 5.0])
def test_the_rest_is_known_on_a_machine_of_any_speed(slower: float) -> None:
    """With a clock that the cells move, the smallest first, some methods twice as slow as said."""
    now, cells = 0.0, in_order(cells_of(Table4, Scale.from_about(TENTH)))
    took = [
        estimate_work(cell, TENTH) * slower * (1 + (cell.method == "loudest")) for cell in cells
    ]
    assert Estimate(cells, TENTH).left is None
    estimate = Estimate(cells, TENTH, lambda: now)
    for cell, seconds in zip(cells, took, strict=True):
        with estimate.watch(cell):
            now += seconds
        assert estimate.left is not None
        if now > 60:
            assert now + estimate.left == pytest.approx(sum(took), rel=0.5)
    assert estimate.left == pytest.approx(0, abs=1e-6)


def test_compiling_is_not_the_pace() -> None:
    """A first cell that took a minute for its loops does not make an hour of the rest."""
    cells = in_order(cells_of(Table4, Scale.from_about(SMOKE)))
    estimate = Estimate(cells, SMOKE)
    for place, cell in enumerate(cells[::2]):
        estimate.add(cell, 0.02 + 60 * (place == 0), compiled=60.0 * (place == 0))
    assert estimate.left is not None
    assert estimate.left < 10


def test_methods_that_have_not_begun_have_loops_to_compile() -> None:
    cells = [
        Cell.from_parameters(method, Size(), seed)
        for method in ("popularity", "random")
        for seed in range(20)
    ]
    estimate = Estimate(cells, SMOKE)
    for cell in cells[:20]:
        estimate.add(cell, 1.0, compiled=0.9)
    assert estimate.left is not None
    assert 9 < estimate.left < 20


@pytest.mark.parametrize("about", [SMOKE, TENTH, WHOLE], ids=["quick", "tenth", "whole"])
def test_every_cell_has_work_that_grows_with_people(about: About) -> None:
    for experiment in EXPERIMENTS.values():
        for cell in cells_of(experiment, Scale.from_about(about)):
            more = replace(cell, size=Size(10**9, cell.size.items), resample=None)
            assert 0 < estimate_work(cell, WHOLE) < estimate_work(more, WHOLE)

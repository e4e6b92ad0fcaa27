"""Fixtures that tests of experiments share."""

from pathlib import Path

from sottovoce_lab.paper import QUICK_SCALE, About, Cell, CellStore, Grid
from sottovoce_lab.paper.tables import Experiment

SMOKE = About("f" * 64, "x", "x", 400, 150, 9000, True, True, 0, scale=QUICK_SCALE, seeds=2)
FULL = About("f" * 64, "x", "x", 75_040, 9_781, 9_000_000, True, True, 0, scale=1.0, seeds=2)


def list_cells_of(experiment: type[Experiment], grid: Grid) -> list[Cell]:
    """Return the cells of an experiment before anything is computed."""
    return experiment(grid, CellStore(Path("nowhere"), grid.about)).list_cells()

"""What tests of experiments share."""

from pathlib import Path

from sottovoce_lab.paper import QUICK, About, Cell, CellStore, Scale
from sottovoce_lab.paper.tables import Experiment

SMOKE = About("f" * 64, "x", "x", 400, 150, 9000, True, True, 0, scale=QUICK, seeds=2)
WHOLE = About("f" * 64, "x", "x", 75_040, 9_781, 9_000_000, True, True, 0, scale=1.0, seeds=2)


def cells_of(experiment: type[Experiment], scale: Scale) -> list[Cell]:
    """They are known before anything is computed."""
    return experiment(scale, CellStore(Path("nowhere"), scale.about)).cells()

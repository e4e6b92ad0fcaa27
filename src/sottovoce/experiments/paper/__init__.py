"""The paper's experiments run again: every figure and table, beside its numbers and ours."""

from sottovoce.experiments.paper.cells import METHODS, Cell, Size
from sottovoce.experiments.paper.experiments import EXPERIMENTS, compute
from sottovoce.experiments.paper.report import write_all
from sottovoce.experiments.paper.runner import Runner
from sottovoce.experiments.paper.scale import Scale
from sottovoce.experiments.paper.store import About, CellStore
from sottovoce.experiments.paper.tables import Table

__all__ = [
    "EXPERIMENTS",
    "METHODS",
    "About",
    "Cell",
    "CellStore",
    "Runner",
    "Scale",
    "Size",
    "Table",
    "compute",
    "write_all",
]

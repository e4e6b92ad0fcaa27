"""The paper's experiments run again: every figure and table, beside its numbers and ours."""

from sottovoce_lab.paper.cells import METHODS, Cell, Size
from sottovoce_lab.paper.experiments import EXPERIMENTS, compute
from sottovoce_lab.paper.report import write_all
from sottovoce_lab.paper.runner import Runner
from sottovoce_lab.paper.scale import Scale
from sottovoce_lab.paper.store import About, CellStore
from sottovoce_lab.paper.tables import Table

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

"""The paper's experiments run again: every figure and table, beside its numbers and ours."""

from sottovoce_lab.paper.cells import METHODS, QUICK, About, Cell, CellStore, Size
from sottovoce_lab.paper.report import write_all
from sottovoce_lab.paper.runner import EXPERIMENTS, Runner, compute
from sottovoce_lab.paper.scale import LEAST_PEOPLE, Scale
from sottovoce_lab.paper.tables import Table

__all__ = [
    "EXPERIMENTS",
    "LEAST_PEOPLE",
    "METHODS",
    "QUICK",
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

"""The paper's experiments run again: every figure and table, next to its numbers and ours."""

from sottovoce_lab.paper.cells import METHOD_NAMES, Cell, Size
from sottovoce_lab.paper.report import write_report
from sottovoce_lab.paper.runner import EXPERIMENTS, Runner, run_experiments
from sottovoce_lab.paper.scale import MIN_PEOPLE, Scale
from sottovoce_lab.paper.store import QUICK_SCALE, About, CellStore
from sottovoce_lab.paper.tables import Table

__all__ = [
    "EXPERIMENTS",
    "METHOD_NAMES",
    "MIN_PEOPLE",
    "QUICK_SCALE",
    "About",
    "Cell",
    "CellStore",
    "Runner",
    "Scale",
    "Size",
    "Table",
    "run_experiments",
    "write_report",
]

"""The experiments of the paper, run again and compared with its numbers.

| word | meaning |
|---|---|
| method | how a model is learnt: by the paper's system, by ours (`loudest`), or by a baseline |
| size | how many users and items are drawn from the data set (`Size`) |
| split | a division of the data into training and test items; each seed draws another one |
| split rule | which item of a person a split leaves out: `random`, `latest` or `date` |
| cell | the complete description of one computation: method, size, split and settings (`Cell`) |
| family | the cells that differ only in their seed; a table shows their mean (`Family`) |
| result | the metrics and the budget of a computed cell; the store has a JSON file for each |
| experiment | a figure or a table: the cells that it needs, and how it presents their results |
| grid | all values that experiments combine into cells: sizes, settings, budgets, seeds (`Grid`) |
| scale | the fraction of the people of the full run that is simulated (`--scale`) |
| initial scale | the standard deviation of the entries of the first item matrix |
| crowd | the people who report in an epoch of a cell |
| runner | computes the cells that the store lacks, and stores their results (`Runner`) |
"""

from sottovoce_lab.paper.cells import METHOD_NAMES, Cell, Size
from sottovoce_lab.paper.grid import MIN_PEOPLE, Grid
from sottovoce_lab.paper.report import write_report
from sottovoce_lab.paper.runner import EXPERIMENTS, Runner, run_experiments
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
    "Grid",
    "Runner",
    "Size",
    "Table",
    "run_experiments",
    "write_report",
]

"""How the strongest baselines were tuned."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from sottovoce_lab.paper.cells import Cell, Method
from sottovoce_lab.paper.grid import TUNING_SEED
from sottovoce_lab.paper.main_table import (
    BAR_COLOURS,
    METRIC_LABELS,
    TUNING_METRICS,
    rank_in_catalogue,
)
from sottovoce_lab.paper.plots import draw_bars
from sottovoce_lab.paper.tables import NO_VALUE, Experiment, Table, get_metric

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# A value for each parameter of a method.
Setting = dict[str, Any]
# Values that are tried. Many more than 144 factors do not fit into the memory of a processor.
PARAMETER_GRIDS: dict[Method, dict[str, tuple[float, ...]]] = {
    "mf": {
        "factors": (16, 32, 64, 96, 128, 144),
        "regularization": (1.0, 3.0, 10.0, 30.0, 100.0, 300.0),
        "alpha": (0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
    },
    "ease": {"ridge": tuple(62.5 * 2**n for n in range(10))},
}
GRID_STARTS: dict[Method, Setting] = {
    "mf": {"factors": 64, "regularization": 10.0, "alpha": 10.0},
    "ease": {"ridge": 500.0},
}
# More factors need a larger ridge. So the search also changes both in one step.
JOINT_PARAMETERS = {"factors", "regularization"}


class Tuning(Experiment):
    """Settings of the strongest baselines, chosen on a split that no result uses.

    The search goes from a setting in the middle of the grid to its best neighbour, until no
    neighbour is better. So all neighbours of the best setting were tried.
    """

    name = "tuned"
    title = "How the baselines were tuned"
    figure_size = (8.0, 9.0)

    def list_cells(self) -> list[Cell]:
        """Return the cells of the first settings."""
        return [self._make_cell(method, GRID_STARTS[method]) for method in PARAMETER_GRIDS]

    def list_next_cells(self) -> list[Cell]:
        """Return the neighbours of the best setting so far, by each metric."""
        return [
            self._make_cell(method, neighbour)
            for method, metric in product(PARAMETER_GRIDS, TUNING_METRICS)
            if (best := self._find_best(method, metric))
            for neighbour in list_neighbours(method, best)
        ]

    def build_tables(self) -> list[Table]:
        """Build a table with a row for each setting that was tried."""
        rows, records = [], []
        best = {
            (method, metric): self._find_best(method, metric)
            for method, metric in product(PARAMETER_GRIDS, TUNING_METRICS)
        }
        for method, setting, metrics in self._read_tried():
            best_for = [metric for metric in TUNING_METRICS if setting == best[method, metric]]
            is_edge = is_on_edge(method, setting)
            about = {"method": method, **setting}
            records.append({**about, **metrics, "best": "; ".join(best_for), "edge": is_edge})
            best_text = ", ".join(METRIC_LABELS[metric] for metric in best_for)
            edge_text = " (at the grid's edge)" if best_for and is_edge else ""
            values = " ".join(f"{name} {value:g}" for name, value in setting.items())
            numbers = (f"{metrics[metric]:.4f}" for metric in METRIC_LABELS)
            rows.append((method, values, *numbers, (best_text + edge_text) or NO_VALUE))
        headings = ("method", "setting", *METRIC_LABELS.values(), "best for")
        grids = "; ".join(
            f"{method} {name} {', '.join(f'{value:g}' for value in values)}"
            for method, grid in PARAMETER_GRIDS.items()
            for name, values in grid.items()
        )
        note = (
            f"Random split of seed {TUNING_SEED}. Grid: {grids}. From the middle of the grid to "
            "the best neighbour until none is better, for each metric."
        )
        return [Table(self.name, self.title, headings, rows, records, [note])]

    def draw(self, figure: Figure) -> None:
        """Draw a bar for each setting that was tried."""
        tried = self._read_tried()
        series = {
            label: [metrics[metric] for _, _, metrics in tried]
            for metric, label in METRIC_LABELS.items()
        }
        labels = [" ".join(f"{value:g}" for value in setting.values()) for _, setting, _ in tried]
        axes = figure.subplots()
        draw_bars(axes, labels, series, BAR_COLOURS)
        axes.legend(loc="lower right", fontsize=8)

    def _make_cell(self, method: Method, setting: Setting) -> Cell:
        full = self.grid.full
        if method == "mf":
            family = self.grid.build_mf(full, **setting)
        else:
            family = self.grid.build_ease(full, setting["ridge"])
        return rank_in_catalogue(family)(TUNING_SEED)

    def _read_tried(self) -> list[tuple[Method, Setting, dict[str, float]]]:
        """Return the method, setting and metrics of each cell that was computed."""
        tried = []
        for method, grid in PARAMETER_GRIDS.items():
            for values in product(*grid.values()):
                setting = dict(zip(grid, values, strict=True))
                result = self.store.get(self._make_cell(method, setting))
                if result is not None:
                    metrics = {name: get_metric(result, name) for name in METRIC_LABELS}
                    tried.append((method, setting, metrics))
        return tried

    def _find_best(self, method: Method, metric: str) -> Setting | None:
        """Return the best setting that was tried, or None if none was."""
        tried = [
            (metrics[metric], setting)
            for other, setting, metrics in self._read_tried()
            if other == method
        ]
        return max(tried, key=lambda pair: pair[0])[1] if tried else None


def list_neighbours(method: Method, setting: Setting) -> list[Setting]:
    """Return the settings one step away in one parameter, or in those that are changed jointly."""
    grid = PARAMETER_GRIDS[method]
    neighbours: list[Setting] = []
    for steps in product((-1, 0, 1), repeat=len(grid)):
        moved = {name for name, step in zip(grid, steps, strict=True) if step}
        places = {
            name: values.index(setting[name]) + step
            for (name, values), step in zip(grid.items(), steps, strict=True)
        }
        is_inside = all(0 <= place < len(grid[name]) for name, place in places.items())
        if is_inside and (len(moved) == 1 or moved == JOINT_PARAMETERS):
            neighbours.append({name: grid[name][place] for name, place in places.items()})
    return neighbours


def is_on_edge(method: Method, setting: Setting) -> bool:
    """Return whether any parameter has the first or the last value of its grid."""
    grid = PARAMETER_GRIDS[method]
    return any(setting[name] in (values[0], values[-1]) for name, values in grid.items())

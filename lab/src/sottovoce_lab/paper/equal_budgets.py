"""Every private method at equal budgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sottovoce.training import Budget
from sottovoce_lab.paper.cells import Cell, Method, Size
from sottovoce_lab.paper.frontier import View
from sottovoce_lab.paper.grid import (
    NAMED_ALS_PARAMETERS,
    NAMED_EPSILON,
    PAPER_EPSILON,
    Family,
    compute_delta,
)
from sottovoce_lab.paper.plots import METHOD_COLOURS, draw_curve, draw_level
from sottovoce_lab.paper.tables import (
    METHOD_LABELS,
    Experiment,
    Table,
    format_budget,
    format_interval,
    make_records,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


VIEW_NOTES: Mapping[View, str] = {
    "local": (
        "Local: every report can be traced to its sender. DPLCF divides the budget among all "
        "items; private popularity divides it among signs of about the usual epsilon. By name: "
        "each report names one of the person's items by randomised response over the catalogue; "
        "the names are counted, or taken as a history and factorised. Nobody is trusted."
    ),
    "central": (
        "Central: a history is replaced. For ours an honest proxy shuffles everybody's "
        "reports. DP-ALS (Chien et al. 2021): one party holds everybody's history, so nothing is "
        "promised against this party; the last column has the epsilon of the same noise if a "
        "person is added or removed."
    ),
}


def _build_private_popularity(size: Size, local: float) -> Family:
    # Divide the budget among reports, each with about the paper's epsilon.
    reports = max(1, round(local / PAPER_EPSILON))
    return lambda seed: Cell.from_parameters(
        "private-popularity", size, seed, epsilon=local / reports, reports=reports
    )


def _build_named_items(method: Method, size: Size, local: float, **parameters: float) -> Family:
    # Divide the budget among reports, each with about `NAMED_EPSILON`. With it, most reports name a
    # true item.
    reports = max(1, round(local / NAMED_EPSILON))
    return lambda seed: Cell.from_parameters(
        method, size, seed, epsilon=local / reports, reports=reports, **parameters
    )


def _get_colours(view: View) -> dict[str, str]:
    """Return the colour of each method's label."""
    if view == "central":
        return {METHOD_LABELS[name]: METHOD_COLOURS[name] for name in ("loudest", "dp-als")}
    counting = ("private-popularity", "named-counts", "named-als")
    return {
        METHOD_LABELS["loudest"]: METHOD_COLOURS["loudest"],
        "DPLCF": METHOD_COLOURS["dplcf"],
        **{METHOD_LABELS[name]: METHOD_COLOURS[name] for name in counting},
    }


class EqualBudgets(Experiment):
    """Quality of every private method with the same privacy budget, local and central."""

    name = "equal"
    title = "Equal budgets"
    figure_size = (9.0, 4.2)

    def list_cells(self) -> list[Cell]:
        """Return the cells of all methods and budgets."""
        private = [
            family
            for view, budgets in self._get_budgets().items()
            for budget in budgets
            for family in self._build_private(view, budget).values()
        ]
        return self.grid.list_cells([*private, *self._build_public().values()])

    def build_tables(self) -> list[Table]:
        """Build a table of local budgets, and one of central ones."""
        return [self._build_table(view) for view in self._get_budgets()]

    def draw(self, figure: Figure) -> None:
        """Draw HR@10 by budget, in a panel for each view."""
        panels = figure.subplots(1, 2, sharey=True)
        for axes, (view, budgets) in zip(panels, self._get_budgets().items(), strict=True):
            for label, colour in _get_colours(view).items():
                points = [
                    (budget, self.reader.read_interval(self._build_private(view, budget)[label]))
                    for budget in budgets
                ]
                draw_curve(axes, points, label, colour)
            for label, family in self._build_public().items():
                draw_level(axes, self.reader.read_interval(family), label)
            axes.set(xscale="log", xlabel=f"lifetime budget, {view} (epsilon)")
            axes.grid(alpha=0.3)
            axes.legend(fontsize=8, loc="lower right")
        panels[0].set_ylabel("HR@10")

    def _get_budgets(self) -> dict[View, tuple[float, ...]]:
        return {"local": self.grid.local_budgets, "central": self.grid.central_budgets}

    def _build_private(self, view: View, budget: float) -> dict[str, Family]:
        """Return the private methods by label."""
        full = self.grid.full
        if view == "central":
            return {
                METHOD_LABELS["loudest"]: self.grid.build_for_budget(full, Budget(central=budget)),
                METHOD_LABELS["dp-als"]: self.grid.build_dp_als(full, budget),
            }
        named_als = _build_named_items("named-als", full, budget, **NAMED_ALS_PARAMETERS)
        return {
            METHOD_LABELS["loudest"]: self.grid.build_for_budget(full, Budget(local=budget)),
            "DPLCF": self.grid.build_dplcf(full, budget / self.grid.about.items),
            METHOD_LABELS["private-popularity"]: _build_private_popularity(full, budget),
            METHOD_LABELS["named-counts"]: _build_named_items("named-counts", full, budget),
            METHOD_LABELS["named-als"]: named_als,
        }

    def _build_public(self) -> dict[str, Family]:
        full = self.grid.full
        return {"MF-NP": self.grid.build_mf(full), "popularity": self.grid.build_popularity(full)}

    def _build_table(self, view: View) -> Table:
        rows, records = [], []
        for budget in self._get_budgets()[view]:
            families = self._build_private(view, budget)
            intervals = {
                name: self.reader.read_interval(family) for name, family in families.items()
            }
            for name, interval in intervals.items():
                records += make_records(interval, view=view, budget=budget, method=name)
            last_column = []
            if view == "central":
                trusted = self.grid.make_trusted_settings(self.grid.full, budget)
                last_column.append(f"{trusted.add_remove_epsilon:.3g}")
            settings = families[METHOD_LABELS["loudest"]](0).settings
            spending = (
                f"{settings.epsilon:.3g}, {settings.reports}, {settings.turns} ({settings.epochs})"
            )
            numbers = map(format_interval, intervals.values())
            rows.append((format_budget(budget), spending, *numbers, *last_column))
        public = ", ".join(
            f"{label} {format_interval(self.reader.read_interval(family))}"
            for label, family in self._build_public().items()
        )
        added = ("DP-ALS, added or removed",) if view == "central" else ()
        headings = (f"{view} budget", "loudest: eps, k, epochs (of)", *_get_colours(view), *added)
        notes = [VIEW_NOTES[view], f"Not private: {public}."]
        if view == "central":
            notes.append(f"Delta: {compute_delta(self.grid.people):g}.")
        title = f"{self.title}, {view}: HR@10"
        return Table(f"{self.name}-{view}", title, headings, rows, records, notes)

"""Quality of the model for people who never reported."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.core import Histories
from sottovoce.core.tags import build_tags
from sottovoce.data import Interactions
from sottovoce.data.split import select_entries
from sottovoce.data.streams import stream
from sottovoce.errors import DataError
from sottovoce.simulation.evaluation.metrics import Interval, summarize_ranks
from sottovoce.simulation.evaluation.ranking import Ranks, rank_hidden
from sottovoce.simulation.evaluation.side_information import solve_wide_vectors
from sottovoce.training import Budget
from sottovoce_lab.paper.cells import COMPARED_METHODS, Cell
from sottovoce_lab.paper.grid import PAPER_EPSILON, Family
from sottovoce_lab.paper.plots import draw_bars
from sottovoce_lab.paper.published_models import PublishedModel
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


# A late person with n items has n / this many hidden items, rounded down, as in the literature.
ITEMS_PER_HIDDEN_ITEM = 5
# One of this many people is late, but at most `MAX_LATE_PEOPLE` people are.
PEOPLE_PER_LATE_PERSON = 5
MAX_LATE_PEOPLE = 5_000
METRIC_LABELS = {"recall@20": "Recall@20", "recall@50": "Recall@50", "ndcg@100": "NDCG@100"}
METRICS_DRAWN = ("recall@20", "ndcg@100")
# Suffixes of the headings, by side information.
KNOWLEDGE_SUFFIXES = {"alone": "", "tags": ", tags"}
BAR_COLOURS = ["#1b6ca8", "#dd9c6b"]
# Central budget of the trusted party.
TRUSTED_EPSILON = 1.0


@dataclass(frozen=True, eq=False)
class LatePeople:
    """People who were taken out of training, with a part of their histories hidden.

    This is the test of strong generalisation of Liang et al. (2018).
    """

    others: Interactions
    """The people who are not late, with whole histories."""
    visible: Histories
    """The items that the devices of late people know."""
    hidden: Histories
    """The items to predict, at least one for each of the same people."""


def hold_out_people(data: Interactions, people: int, seed: int = 0) -> LatePeople:
    """Take out this many people, drawn from those with at least `ITEMS_PER_HIDDEN_ITEM` items."""
    histories = data.histories
    eligible = np.flatnonzero(np.diff(histories.indptr) >= ITEMS_PER_HIDDEN_ITEM)
    if not 1 <= people <= len(eligible):
        raise DataError(
            f"{data.name}: asked for {people:,} late people, there are {len(eligible):,} with at "
            f"least {ITEMS_PER_HIDDEN_ITEM} interactions"
        )
    late = np.sort(stream(seed, "late").permutation(eligible)[:people])
    others = np.setdiff1d(np.arange(histories.n_users), late)
    visible, hidden = _hide_items(histories.take(late), seed)
    return LatePeople(data.select(others, None), visible, hidden)


def _hide_items(histories: Histories, seed: int) -> tuple[Histories, Histories]:
    """Divide each history into the items that stay and the items that are hidden."""
    lengths = np.diff(histories.indptr)
    chance = stream(seed, "hide").random(histories.n_interactions)
    shuffled = np.lexsort((chance, histories.users_of_entries()))
    place = np.arange(histories.n_interactions) - np.repeat(histories.indptr[:-1], lengths)
    hidden = np.zeros(histories.n_interactions, bool)
    n_hidden = lengths // ITEMS_PER_HIDDEN_ITEM
    hidden[shuffled[place < np.repeat(n_hidden, lengths)]] = True
    return select_entries(histories, ~hidden), select_entries(histories, hidden)


def count_late_people(people: int) -> int:
    """Return how many of these people are late."""
    return min(MAX_LATE_PEOPLE, people // PEOPLE_PER_LATE_PERSON)


def summarize_hidden(ranks: Ranks, hidden: Histories) -> dict[str, float]:
    """Return recall and NDCG at the lengths that the literature reports for held-out people."""
    n_hidden = np.diff(hidden.indptr)
    return summarize_ranks(ranks, list(METRIC_LABELS), n_hidden[n_hidden > 0])


def measure_late_people(model: PublishedModel, late: LatePeople) -> dict[str, Any]:
    """Return recall and NDCG of late people, without and with tags."""
    visible, hidden = late.visible, late.hidden
    ranks = rank_hidden(model.solve_vectors(visible), model.V, visible, hidden)
    result: dict[str, Any] = {"final": summarize_hidden(ranks, hidden), "known": {}}
    if late.others.tags is not None:
        wide = model.add_tags(build_tags(late.others.tags.tolist()))
        W = wide.rows(np.arange(len(wide.V))).astype(np.float32)
        ranks = rank_hidden(solve_wide_vectors(wide, visible), W, visible, hidden)
        result["known"]["tags"] = summarize_hidden(ranks, hidden)
    return result


class LatePeopleExperiment(Experiment):
    """Quality of the model for people who have never reported."""

    name = "late"
    title = "People who never reported"
    figure_size = (10.0, 6.5)

    def list_cells(self) -> list[Cell]:
        """Return the cells of all methods."""
        return self.grid.list_cells(self._build_families().values())

    def build_tables(self) -> list[Table]:
        """Build a table with a row for each method."""
        rows, records = [], []
        for label, family in self._build_families().items():
            spent, intervals = self.reader.read_budget(family), self._read_intervals(family)
            for (kind, metric), interval in intervals.items():
                records += make_records(interval, method=label, known=kind, metric=metric, **spent)
            budgets = format_budget(spent["local"]), format_budget(spent["central"])
            rows.append((label, *map(format_interval, intervals.values()), *budgets))
        numbers = [
            f"{metric}{suffix}"
            for suffix in KNOWLEDGE_SUFFIXES.values()
            for metric in METRIC_LABELS.values()
        ]
        headings = ("method", *numbers, "local budget", "central budget")
        return [Table(self.name, self.title, headings, rows, records, [self._make_note()])]

    def draw(self, figure: Figure) -> None:
        """Draw a bar for each method, without and with tags."""
        families = self._build_families()
        intervals = [self._read_intervals(family) for family in families.values()]
        panels = figure.subplots(1, len(METRICS_DRAWN), sharey=True)
        for axes, metric in zip(panels, METRICS_DRAWN, strict=True):
            series = {
                name: [by_kind[kind, metric] for by_kind in intervals]
                for kind, name in (("alone", "without tags"), ("tags", "with tags"))
            }
            draw_bars(axes, list(families), series, BAR_COLOURS)
            axes.set(xlabel=METRIC_LABELS[metric])
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
        # The panels share the vertical axis, and each of the two calls of draw_bars inverted it. So
        # invert it again.
        panels[-1].invert_yaxis()

    def _read_intervals(self, family: Family) -> dict[tuple[str, str], Interval | None]:
        """Return the intervals by side information and metric."""
        return {
            (kind, metric): self.reader.read_interval(family, metric)
            if kind == "alone"
            else self.reader.read_side_interval(family, kind, metric)
            for kind in KNOWLEDGE_SUFFIXES
            for metric in METRIC_LABELS
        }

    def _build_families(self) -> dict[str, Family]:
        # Late people do not report, so the settings are those for all other people.
        people = self.grid.people
        reporting = replace(self.grid, people=people - count_late_people(people))
        k, full = reporting.full_reports[0], reporting.full
        paper, ours = (
            reporting.build_training(method, full, PAPER_EPSILON, k) for method in COMPARED_METHODS
        )
        families = {
            "popularity": reporting.build_popularity(full),
            "MF-NP": reporting.build_mf(full),
            "FCF": reporting.build_fcf(full),
            f"DP-ALS, central {TRUSTED_EPSILON:g}": reporting.build_dp_als(full, TRUSTED_EPSILON),
            f"{METHOD_LABELS['paper']}, k {k}": paper,
            f"loudest, k {k}": ours,
        }
        for local in reporting.local_budgets[:2]:
            families[f"loudest, budget {local:g}"] = reporting.build_for_budget(
                full, Budget(local=local)
            )
        return {label: _test_on_late_people(family) for label, family in families.items()}

    def _make_note(self) -> str:
        late = count_late_people(self.grid.people)
        return (
            f"{late:,} people, drawn by the seed, are in no training. A device that has 80% of its "
            "history solves its vector for the published model and ranks the whole catalogue "
            "without what it has, to find the other 20%. It sends nothing: budgets are of the "
            f"{self.grid.people - late:,} others. Recall@k is divided by min(k, hidden "
            "items), NDCG@100 by the best possible."
        )


def _test_on_late_people(family: Family) -> Family:
    return lambda seed: replace(family(seed), measured="late")

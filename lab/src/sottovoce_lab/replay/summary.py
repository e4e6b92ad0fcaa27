"""Summaries of replays over seeds: means, differences, new items, and changes of tastes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import DataError
from sottovoce.simulation.evaluation.metrics import Interval
from sottovoce_lab.bootstrap import Difference, compute_differences, resample_people
from sottovoce_lab.replay.baselines import RECENT_PEOPLE_NAME
from sottovoce_lab.replay.cases import MAX_NEW_ITEM_AGE
from sottovoce_lab.replay.replay import Replay
from sottovoce_lab.replay.rivals import PLAIN_SUFFIX, CaseResults

# Each row of a table begins with one of these ages. The last row ends with the age at which items
# are no longer new.
AGE_ROWS = (0, 1, 2, 3, 4, 6, 8)
# Each row of a table begins with one of these numbers of people who had touched an item. The last
# row has no end.
TOUCHED_ROWS = (0, 1, 10, 30, 100, 300, 1_000, 3_000)

# The model with which all others are compared: the best popularity that needs no settings of lists.
REFERENCE_NAME = RECENT_PEOPLE_NAME + PLAIN_SUFFIX

# A mask of the cases that belong to a row, and the hits of all models, for one period.
Cell = tuple[NDArray[np.bool_], dict[str, NDArray[np.float64]]]


@dataclass(frozen=True)
class Row:
    """Cases of one kind, and HR@10 of each model in them."""

    low: int
    high: int | None
    """Last value that belongs to the row; None: no end."""
    cases: int
    quality: dict[str, Interval]

    @property
    def label(self) -> str:
        """The row's range of values."""
        if self.high is None:
            return f"{self.low:,} and more"
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"


@dataclass(frozen=True)
class Recovery:
    """The loss of HR@10 after a change of tastes, and how the model regained it."""

    lost: float
    """Loss of HR@10 in the first period after the change."""
    gaps: list[float]
    """Share of the loss that remains after 0, 1, ... epochs; empty without a loss."""

    def count_epochs(self, regained: float) -> int | None:
        """Return the number of epochs until the model first regains this share of the loss.

        It is None if the model never does.
        """
        # Single periods are noisy, so the gap is averaged over three neighbouring periods.
        for n in range(1, len(self.gaps)):
            if 1 - float(np.mean(self.gaps[n - 1 : n + 2])) >= regained:
                return n
        return None


def average_later_periods(replays: Sequence[Replay]) -> dict[str, dict[str, Interval]]:
    """Return the mean of each metric over the later periods, by the name of the model."""
    means = average_periods(replays, replays[0].timeline.later)
    if not means:
        raise DataError("nobody can be tested: somebody must come back in the later periods")
    return means


def average_periods(replays: Sequence[Replay], numbers: range) -> dict[str, dict[str, Interval]]:
    """Return the mean of each metric over some periods, by the name of the model.

    Periods in which nobody was tested are ignored. The result has only models that were tested in
    all other periods. If there are no such models, it is empty.
    """
    metrics = [[result.summarize() for result in _list(replay, numbers)] for replay in replays]
    if not all(metrics):
        return {}
    periods = [quality for run in metrics for quality in run]
    return {
        name: {
            metric: Interval.from_values(
                [float(np.mean([quality[name][metric] for quality in run])) for run in metrics]
            )
            for metric in periods[0][name]
        }
        for name in metrics[0][-1]
        if all(name in quality for quality in periods)
    }


def compare_models(replays: Sequence[Replay]) -> dict[tuple[str, str], Difference]:
    """Return the differences from `REFERENCE_NAME` over the later periods, by model and metric.

    Each draw of the bootstrap has the same people in all periods and all replays.
    """
    runs = [_list_later(replay) for replay in replays]
    names = [name for name in average_later_periods(replays) if name != REFERENCE_NAME]
    gains = [[_compute_gains(result, names) for result in run] for run in runs]
    keys = list(gains[0][0])
    # People who are in no test have no part in any mean, so their columns need not be kept.
    tested = np.unique(np.concatenate([result.cases.users for run in runs for result in run]))
    n_people = replays[0].timeline.histories.n_users
    draws = np.array([times[tested] for times in resample_people(n_people)], np.uint8)
    tables = [[np.column_stack([own[key] for key in keys]) for own in run] for run in gains]
    means = np.mean([np.mean([table.mean(axis=0) for table in run], axis=0) for run in tables], 0)
    drawn = np.mean(
        [
            np.mean([
                _average_by_draw(draws[:, np.searchsorted(tested, result.cases.users)], table)
                for result, table in zip(results, run, strict=True)
            ], axis=0)
            for results, run in zip(runs, tables, strict=True)
        ],
        axis=0,
    )  # fmt: skip
    return compute_differences(
        dict(zip(keys, means.tolist(), strict=True)), dict(zip(keys, drawn.T, strict=True))
    )


def _compute_gains(
    result: CaseResults, names: Iterable[str]
) -> dict[tuple[str, str], NDArray[np.float64]]:
    """Return by how much each model is better than the reference in each case."""
    reference = result.ranks[REFERENCE_NAME].compute_by_case()
    return {
        (name, metric): values - reference[metric]
        for name in names
        for metric, values in result.ranks[name].compute_by_case().items()
    }


def _average_by_draw(times: NDArray[np.uint8], table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the means of the columns in every draw; 0 for a draw with nobody of this table."""
    weights = times.astype(np.float64)
    return np.asarray(weights @ table / np.maximum(weights.sum(axis=1, keepdims=True), 1))


def group_by_age(replays: Sequence[Replay]) -> list[Row]:
    """Return rows of new items by their age in epochs, and a last row of older items.

    The cases of the last row are from the usual test, in which the next item may be new or old.
    """
    rows = _group_new_items(replays, "age", AGE_ROWS, MAX_NEW_ITEM_AGE - 1)
    old = [
        [(result.cases.age >= MAX_NEW_ITEM_AGE, result.hits) for result in _list_later(replay)]
        for replay in replays
    ]
    return [*rows, *_make_row(old, MAX_NEW_ITEM_AGE, None)] if rows else []


def group_by_touched(replays: Sequence[Replay]) -> list[Row]:
    """Return rows of new items by the number of people who had touched them before."""
    return _group_new_items(replays, "touched", TOUCHED_ROWS, None)


def measure_recovery(steady: Sequence[Replay], switched: Sequence[Replay], name: str) -> Recovery:
    """Compare a model after a change of tastes with the same model without one; average runs."""
    gaps: list[list[float]] = []
    for one, other in zip(steady, switched, strict=True):
        before, after = one.compute_curve(name), other.compute_curve(name)
        gaps.append([before[p] - after[p] for p in after if p >= other.frozen_at])
    mean = np.mean(gaps, axis=0)
    lost = float(mean[0])
    return Recovery(lost, [float(gap / lost) for gap in mean] if lost > 0 else [])


def _list_later(replay: Replay) -> list[CaseResults]:
    return _list(replay, replay.timeline.later)


def _list(replay: Replay, numbers: range) -> list[CaseResults]:
    return [
        period.tested for period in replay.periods if period.number in numbers and period.tested
    ]


def _group_new_items(
    replays: Sequence[Replay], by: str, starts: tuple[int, ...], last: int | None
) -> list[Row]:
    results = [
        [period.tested_on_new for period in replay.periods if period.tested_on_new]
        for replay in replays
    ]
    rows: list[Row] = []
    ends = [*(start - 1 for start in starts[1:]), last]
    for low, high in zip(starts, ends, strict=True):
        cells = [
            [(_mark_range(getattr(result.cases, by), low, high), result.hits) for result in run]
            for run in results
        ]
        rows += _make_row(cells, low, high)
    return rows


def _mark_range(values: NDArray[np.int64], low: int, high: int | None) -> NDArray[np.bool_]:
    return (values >= low) & (values <= (values.max(initial=0) if high is None else high))


def _make_row(cells: list[list[Cell]], low: int, high: int | None) -> list[Row]:
    """Return a list with one row; an empty list if a run has no such case, and so no mean."""
    counts = [sum(int(mask.sum()) for mask, _ in run) for run in cells]
    if not min(counts):
        return []
    names = [
        name for name in cells[0][0][1] if all(name in hits for run in cells for _, hits in run)
    ]
    quality = {
        name: Interval.from_values(
            [
                float(np.concatenate([hits[name][mask] for mask, hits in run]).mean())
                for run in cells
            ]
        )
        for name in names
    }
    return [Row(low, high, sum(counts), quality)]

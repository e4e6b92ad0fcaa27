"""How many false names lift an item that nobody touched into the ten that are named most.

    python -m sottovoce_lab.paper.poisoning.names --data netflix-75k.parquet --out names-attack.csv

People name what they touched last, in an epoch at the end of each period of the data, and the
server counts as it does live. The attackers send their reports in one epoch of the second half of
the periods, without randomness: each of their reports names the item. For comparison, the same
people name the same items without noise, the server counts only this epoch, and each attacker is
one additional person who names the item.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, Named, Shape, count_reports
from sottovoce.core.named import find_latest
from sottovoce.data import load
from sottovoce.data.streams import stream
from sottovoce.proxy.settings import Rate
from sottovoce.training import NameCounts, Settings
from sottovoce.training.naming import choose_half_life
from sottovoce_lab.paper.cell_rows import CellRow, format_csv
from sottovoce_lab.replay.timeline import Timeline

Int64 = NDArray[np.int64]
# Numbers of reports of honest people in an epoch. With the last number, all people report.
EPOCH_REPORTS = (300, 1_000, 2_000, 10_000, 75_000)
# A plan for a local budget of 10 has one report of epsilon 10 in a lifetime. A plan for 50 has four
# reports of epsilon 12.5.
REPORT_EPSILONS = (10.0, 12.5)
SEEDS = range(3)
N_PERIODS = 40
MIN_INTERACTIONS = 60
# The attackers' item is to be among this many.
LIST_LENGTH = 10


@dataclass(frozen=True, eq=False)
class NamingEpoch:
    """The names of honest people in one epoch, and what the server knew before it."""

    mechanism: Named
    names: NameCounts
    fade: float
    counts: Int64
    """How often honest people reported each outcome."""
    exact_counts: Int64
    """How often each item is the one that an honest person touched last."""

    @property
    def reports(self) -> int:
        """Number of reports of honest people."""
        return int(self.counts.sum())

    def add_reports(self, item: int, n_false: int) -> NameCounts:
        """Return the server's counts after this epoch, with false reports that name one item."""
        counts = self.counts.copy()
        counts[item + 1] += n_false
        return self.names.add_epoch(self.mechanism, counts, int(counts.sum()), self.fade)

    def count_false_reports(self, item: int) -> int:
        """Return the smallest number of false reports with which a list has the item."""
        low, high = -1, self.reports
        while high - low > 1:
            middle = (low + high) // 2
            shares = self.add_reports(item, middle).compute_shares()
            if np.sum(shares > shares[item]) < LIST_LENGTH:
                high = middle
            else:
                low = middle
        return high

    def count_false_people(self) -> int:
        """Return the number of attackers that lift an item if all names are counted exactly."""
        return int(np.sort(self.exact_counts)[-LIST_LENGTH])


def simulate_epochs(
    timeline: Timeline, reports: int, epsilon: float, seed: int
) -> Iterator[NamingEpoch]:
    """Yield the epoch at the end of each period.

    In each, this many people report, or all who have joined if they are fewer.
    """
    # The last item is the attackers' item, which nobody touches.
    n_items = timeline.histories.n_items + 1
    mechanism = Named(Shape(n_items, 1, 0.0), epsilon)
    fade = Settings.preset("named", half_life=choose_half_life(reports)).fade
    names, empty = NameCounts.make_empty(n_items), np.zeros((0, 1), np.float32)
    for period in range(timeline.n_periods):
        chance = stream(seed, "named", period)
        joined = np.flatnonzero(timeline.joined <= period)
        users = np.sort(chance.permutation(joined)[:reports])
        latest = find_latest(*timeline.collect_histories(users, period, slice(0, n_items)))
        words = chance.integers(0, 2**64, (len(users), 2, 4), dtype=np.uint64)
        outcomes = mechanism.reports(empty, empty, latest, words)
        counts = count_reports(outcomes, mechanism.n_directions)
        epoch = NamingEpoch(mechanism, names, fade, counts, count_exactly(latest, chance))
        yield epoch
        names = epoch.add_reports(n_items - 1, 0)


def count_exactly(latest: Histories, chance: np.random.Generator) -> Int64:
    """Count one of the latest items of each person, drawn at random."""
    lengths = np.diff(latest.indptr)
    places = latest.indptr[:-1] + (chance.random(len(lengths)) * lengths).astype(np.int64)
    return np.bincount(latest.indices[places], minlength=latest.n_items)


def measure_attack(timeline: Timeline, reports: int, epsilon: float, seed: int) -> CellRow:
    """Return how many reports attackers need, on average over the later periods, as a row."""
    epochs = list(simulate_epochs(timeline, reports, epsilon, seed))
    later = [epochs[period] for period in timeline.later]
    item = timeline.histories.n_items
    figures = {
        "honest": np.mean([epoch.reports for epoch in later]),
        "false": np.mean([epoch.count_false_reports(item) for epoch in later]),
        "exact": np.mean([epoch.count_false_people() for epoch in later]),
    }
    about = {"reports": reports, "epsilon": epsilon, "seed": seed}
    address = Rate.for_crowd(int(figures["honest"])).per_epoch
    row = {**about, **figures, "address": address}
    return {name: f"{value:.6g}" for name, value in row.items()}


def main() -> None:
    """Measure all numbers of reports, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="data with times")
    parser.add_argument("--out", type=Path, required=True, help="file to write, as CSV")
    arguments = parser.parse_args()
    data = load(arguments.data).filter(MIN_INTERACTIONS)
    timeline = Timeline.from_data(data, N_PERIODS)
    rows = [
        measure_attack(timeline, *setting)
        for setting in product(EPOCH_REPORTS, REPORT_EPSILONS, SEEDS)
    ]
    arguments.out.write_text(format_csv(rows), encoding="utf-8")


if __name__ == "__main__":
    main()

"""What a replay shows: how good it is, what a new item needs, how fast a taste is followed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import DataError
from sottovoce.simulation.evaluation import Interval
from sottovoce_lab.replay.replay import Replay, Tested
from sottovoce_lab.replay.timeline import YOUNG

AGES = (0, 1, 2, 3, 4, 6, 8)
"""Where rows of a table by age begin; the last ends where an item is no longer new."""
TOUCHED = (0, 1, 10, 30, 100, 300, 1_000, 3_000)
"""The same of how many people had touched an item; the last has no end."""


@dataclass(frozen=True)
class Row:
    """Cases of one kind, and HR@10 by name."""

    low: int
    high: int | None
    """The last of them; None: no end."""
    cases: int
    quality: dict[str, Interval]

    @property
    def label(self) -> str:
        if self.high is None:
            return f"{self.low:,} and more"
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"


@dataclass(frozen=True)
class Recovery:
    """After a switch: how much of HR@10 was lost, and how it came back."""

    lost: float
    """In the first period of other tastes."""
    gaps: list[float]
    """What was still missing, in shares of what was lost, after 0, 1, ... epochs of them.

    Empty where nothing was lost.
    """

    def epochs(self, won: float) -> int | None:
        """Until so large a share was won back for the first time; None: never.

        Single periods are noisy: a gap is the mean of three neighbours.
        """
        for n in range(1, len(self.gaps)):
            if 1 - float(np.mean(self.gaps[n - 1 : n + 2])) >= won:
                return n
        return None


def overall(replays: Sequence[Replay]) -> dict[str, dict[str, Interval]]:
    """By name and metric: the mean over the later periods."""
    found = [[t.quality() for t in _tested(replay)] for replay in replays]
    if not all(found):
        raise DataError("nobody can be tested: nobody comes back in the later periods")
    return {
        name: {
            metric: Interval.of([float(np.mean([q[name][metric] for q in run])) for run in found])
            for metric in found[0][0][name]
        }
        for name in found[0][-1]
        if all(name in quality for run in found for quality in run)
    }


def by_age(replays: Sequence[Replay]) -> list[Row]:
    """New items by the epochs in which they were in the catalogue; at the end all cases of others.

    Those of the last row are of the usual test, in which every item may be the next.
    """
    rows = _rows(replays, "age", AGES, YOUNG - 1)
    old = [[(t.cases.age >= YOUNG, t.hits) for t in _tested(replay)] for replay in replays]
    return [*rows, *_row(old, YOUNG, None)] if rows else []


def by_touched(replays: Sequence[Replay]) -> list[Row]:
    """New items by how many people had touched them before."""
    return _rows(replays, "touched", TOUCHED, None)


def recovery(steady: Sequence[Replay], switched: Sequence[Replay], name: str) -> Recovery:
    """How one that learns follows, against the same with tastes that stay; means over the seeds."""
    gaps: list[list[float]] = []
    for one, other in zip(steady, switched, strict=True):
        before, after = one.curve(name), other.curve(name)
        gaps.append([before[p] - after[p] for p in after if p >= other.frozen_at])
    mean = np.mean(gaps, axis=0)
    lost = float(mean[0])
    return Recovery(lost, [float(gap / lost) for gap in mean] if lost > 0 else [])


def _tested(replay: Replay) -> list[Tested]:
    return [p.tested for p in replay.periods if p.number in replay.timeline.later and p.tested]


def _rows(
    replays: Sequence[Replay], by: str, edges: tuple[int, ...], last: int | None
) -> list[Row]:
    rows: list[Row] = []
    ends = [*(edge - 1 for edge in edges[1:]), last]
    for low, high in zip(edges, ends, strict=True):
        cells = []
        for replay in replays:
            young = [period.young for period in replay.periods if period.young]
            cells.append([(_between(getattr(t.cases, by), low, high), t.hits) for t in young])
        rows += _row(cells, low, high)
    return rows


def _between(values: NDArray[np.int64], low: int, high: int | None) -> NDArray[np.bool_]:
    return (values >= low) & (values <= (values.max(initial=0) if high is None else high))


def _row(
    cells: list[list[tuple[NDArray[np.bool_], dict[str, NDArray[np.float64]]]]],
    low: int,
    high: int | None,
) -> list[Row]:
    """None where a run has no such case: it would have no mean."""
    counts = [sum(int(mask.sum()) for mask, _ in run) for run in cells]
    if not min(counts):
        return []
    names = [name for name in cells[0][0][1] if all(name in h for run in cells for _, h in run)]
    quality = {
        name: Interval.of(
            [
                float(np.concatenate([hits[name][mask] for mask, hits in run]).mean())
                for run in cells
            ]
        )
        for name in names
    }
    return [Row(low, high, sum(counts), quality)]

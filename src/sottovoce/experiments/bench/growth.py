"""How an epoch's time grows with users N, items M and reports k."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from sottovoce.experiments.bench.epoch import TimedEpoch
from sottovoce.experiments.bench.timing import Contender, Spread, slope, take_turns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.data import Interactions
    from sottovoce.experiments.bench.timing import Watch
    from sottovoce.model import Histories
    from sottovoce.training import Settings

Axis = Literal["users", "items", "reports"]
AXES: tuple[Axis, ...] = ("users", "items", "reports")
SHARES = (8, 4, 2, 1)
"""Of the users and of the items: N/8, N/4, N/2, N."""


@dataclass(frozen=True)
class GrowthPoint:
    """One size and its seconds, one for each round."""

    size: int
    interactions: int
    seconds: list[float]

    @property
    def nanoseconds_per_interaction(self) -> float:
        return 1e9 * float(np.median(self.seconds)) / max(self.interactions, 1)


@dataclass(frozen=True)
class Growth:
    """A mechanism along one axis; a slope of 1 is proportional, 0 is not at all."""

    mechanism: str
    axis: Axis
    points: list[GrowthPoint]
    slope: Spread
    """Exponent of the size."""
    slope_of_interactions: Spread | None
    """Exponent of the number of interactions, where that varies."""


@dataclass(frozen=True)
class _Size:
    """A point to be measured, before it is."""

    axis: Axis
    size: int
    histories: Histories
    reports: int


def measure_growth(
    data: Interactions,
    settings: Sequence[Settings],
    *,
    threads: int,
    rounds: int,
    seed: int,
    watch: Watch,
) -> list[Growth]:
    """Every mechanism along every axis; sizes take turns, and each round has slopes of its own."""
    sizes = _sizes(data, settings[0].reports, seed)
    grown: list[Growth] = []
    for of in settings:
        watch(f"growth of {of.mechanism}: warming up")
        contenders = [_contender(of, size, threads) for size in sizes]
        seconds = take_turns(contenders, rounds, watch)
        for axis in AXES:
            points = [
                GrowthPoint(s.size, s.histories.n_interactions, seconds[_name(of, s)])
                for s in sizes
                if s.axis == axis
            ]
            if len(points) > 1:
                grown.append(_fitted(of.mechanism, axis, points))
    return grown


def _sizes(data: Interactions, reports: int, seed: int) -> list[_Size]:
    """Nested random subsets, and k/4, k/2, k, 2k."""
    rng = np.random.default_rng(seed)
    histories = data.histories
    user_order = rng.permutation(histories.n_users)
    item_order = rng.permutation(histories.n_items)
    by_users = [
        _Size("users", n, histories.take(np.sort(user_order[:n])), reports)
        for n in _shares(histories.n_users)
    ]
    by_items = [
        _Size("items", m, data.select(None, item_order[:m]).histories, reports)
        for m in _shares(histories.n_items)
    ]
    by_reports = [_Size("reports", k, histories, k) for k in _shares(2 * reports)]
    return [*by_users, *by_items, *by_reports]


def _shares(whole: int) -> list[int]:
    """x1, x2, x4, x8, as far as they differ."""
    return sorted({max(1, whole // share) for share in SHARES})


def _name(settings: Settings, size: _Size) -> str:
    return f"growth, {settings.mechanism}, {size.size:,} {size.axis}"


def _contender(settings: Settings, size: _Size, threads: int) -> Contender:
    epoch = TimedEpoch.warmed_up(size.histories, replace(settings, reports=size.reports), threads)
    return Contender(_name(settings, size), epoch.run)


def _fitted(mechanism: str, axis: Axis, points: list[GrowthPoint]) -> Growth:
    sizes = [point.size for point in points]
    interactions = [max(point.interactions, 1) for point in points]
    rounds = list(zip(*(point.seconds for point in points), strict=True))
    by_interactions = None
    if len(set(interactions)) > 1:
        by_interactions = Spread.of([slope(interactions, seconds) for seconds in rounds])
    by_size = Spread.of([slope(sizes, seconds) for seconds in rounds])
    return Growth(mechanism, axis, points, by_size, by_interactions)

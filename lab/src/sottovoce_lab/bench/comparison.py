"""One epoch beside one iteration of implicit's ALS and the numpy reference, and how it grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from sottovoce.core import Histories
from sottovoce.data import Interactions
from sottovoce.errors import MissingExtraError
from sottovoce.settings import setting
from sottovoce.simulation.evaluation.kernels import checked_threads
from sottovoce.training import Settings
from sottovoce_lab.bench.epoch import ReferenceEpoch, TimedEpoch, TimedPlan, about
from sottovoce_lab.bench.timing import (
    Contender,
    Spread,
    Watch,
    peak_memory,
    ratio,
    slope,
    take_turns,
)

ALS = "als"
Axis = Literal["users", "items", "reports"]
AXES: tuple[Axis, ...] = ("users", "items", "reports")
SHARES = (8, 4, 2, 1)
"""Of the users and of the items: N/8, N/4, N/2, N."""


@dataclass(frozen=True)
class BenchPlan(TimedPlan):
    threads: int | None = None
    """None: all cores."""
    growth: bool = True
    reference_users: int = setting(200, "users that the numpy reference really runs", least=1)


@dataclass(frozen=True)
class Comparison:
    mechanism: str
    seconds: list[float]
    """Of an epoch, round by round."""
    epoch_over_als: Spread
    """One epoch over one ALS iteration."""
    reference_over_epoch: Spread
    """How much longer the numpy reference would take."""
    client_epochs_per_second: Spread


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
class PeakMemory:
    """Peak of the resident bytes of the process, so far, at three times."""

    loaded: int | None
    """Before anything ran: the data and the libraries."""
    epochs: int | None
    """After one epoch of every mechanism."""
    all: int | None
    """At the end, ALS and the subsets of the growth curves included."""


@dataclass(frozen=True)
class BenchResult:
    data: dict[str, Any]
    plan: BenchPlan
    threads: int
    als_solver: str
    als_seconds: list[float]
    comparisons: list[Comparison]
    growth: list[Growth]
    memory: PeakMemory


def run_bench(
    data: Interactions, plan: BenchPlan, watch: Watch = lambda _what: None
) -> BenchResult:
    """Warm up, take turns, divide within each round; `watch` is told what is being done."""
    data = replace(data, timestamps=None, titles=None, tags=None)  # not needed, and large
    threads, settings = plan.threads or checked_threads(None), plan.settings()
    with one_blas_thread():
        solver, loaded = als_solver(), peak_memory()
        epochs = [_warm(data, each, threads, watch) for each in settings]
        after_epochs = peak_memory()
        contenders = _contenders(data, plan, epochs, threads)
        for contender in contenders[len(epochs) :]:
            watch(f"warming up: {contender.name}")
            contender.run()
        seconds = take_turns(contenders, plan.repeats, watch)
        growth = []
        if plan.growth:
            growth = measure_growth(
                data, settings, threads=threads, rounds=plan.repeats, seed=plan.seed, watch=watch
            )
    return BenchResult(
        data=about(data),
        plan=plan,
        threads=threads,
        als_solver=solver,
        als_seconds=seconds[ALS],
        comparisons=[_compare(data, each.mechanism, seconds) for each in settings],
        growth=growth,
        memory=PeakMemory(loaded, after_epochs, peak_memory()),
    )


def _warm(data: Interactions, settings: Settings, threads: int, watch: Watch) -> TimedEpoch:
    watch(f"warming up: {settings.mechanism} (compiles the first time)")
    return TimedEpoch.warmed_up(data.histories, settings, threads)


def _contenders(
    data: Interactions, plan: BenchPlan, epochs: Sequence[TimedEpoch], threads: int
) -> list[Contender]:
    ours, references = [], []
    for epoch in epochs:
        name = epoch.engine.mechanism.name
        reference = ReferenceEpoch.drawn(epoch, plan.reference_users, plan.seed)
        ours.append(Contender(name, epoch.run))
        references.append(Contender(_reference(name), reference.run))
    # Confidence changes nothing about time; ALS gets that of the last mechanism.
    return [*ours, als(data.histories, epochs[-1].engine.settings, threads), *references]


def _reference(mechanism: str) -> str:
    return f"reference, {mechanism}"


def _compare(data: Interactions, name: str, seconds: Mapping[str, Sequence[float]]) -> Comparison:
    return Comparison(
        mechanism=name,
        seconds=list(seconds[name]),
        epoch_over_als=ratio(seconds, name, ALS),
        reference_over_epoch=ratio(seconds, _reference(name), name),
        client_epochs_per_second=Spread.of(data.histories.n_users / np.asarray(seconds[name])),
    )


def als(histories: Histories, settings: Settings, threads: int) -> Contender:
    """One iteration, users and then items, with its default solver; setup is not counted."""
    model = als_class()(
        factors=settings.factors,
        regularization=settings.regularization,
        alpha=1 + settings.alpha,  # its confidence is `alpha r`, the paper's `1 + alpha r`
        iterations=1,
        num_threads=threads,
        random_state=settings.seed,
    )
    matrix = histories.to_csr()

    def run() -> float:
        # `fit` goes on from the factors it has; its callback gets the seconds of the iteration
        # alone, without the transposition before it.
        took: list[float] = []
        model.fit(
            matrix,
            show_progress=False,
            callback=lambda _iteration, seconds, _loss: took.append(seconds),
        )
        return took[0]

    return Contender(ALS, run)


def als_solver() -> str:
    """How implicit solves by default, in words."""
    model = als_class()()
    return f"conjugate gradient, {model.cg_steps} steps" if model.use_cg else "Cholesky"


def als_class() -> Any:
    """The class of implicit, or which extra brings it."""
    try:
        from implicit.cpu.als import AlternatingLeastSquares
    except ImportError as missing:
        raise _missing("implicit") from missing
    return AlternatingLeastSquares


def one_blas_thread() -> AbstractContextManager[Any]:
    """For ALS, which has threads of its own: OpenBLAS beside them would only stand in their way."""
    als_class()  # loads every copy of OpenBLAS that there is to be limited
    try:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
    except ImportError as missing:
        raise _missing("threadpoolctl") from missing
    limits: AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    return limits


def _missing(package: str) -> MissingExtraError:
    return MissingExtraError(
        f"alternating least squares needs {package}, which is not installed: "
        "pip install 'sottovoce[bench]'"
    )


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

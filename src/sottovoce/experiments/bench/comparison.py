"""The whole benchmark: warm up, take turns, divide within each round."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.evaluation.kernels import checked_threads
from sottovoce.experiments.bench.als import ALS, als, als_solver, one_blas_thread
from sottovoce.experiments.bench.epoch import ReferenceEpoch, TimedEpoch
from sottovoce.experiments.bench.growth import Growth, measure_growth
from sottovoce.experiments.bench.plan import EpochPlan, about
from sottovoce.experiments.bench.timing import (
    Contender,
    Spread,
    copy_bandwidth,
    peak_memory,
    ratio,
    take_turns,
)
from sottovoce.settings import setting
from sottovoce.simulation.cpu.work import Work, work_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sottovoce.data import Interactions
    from sottovoce.experiments.bench.timing import Watch
    from sottovoce.training import Settings


@dataclass(frozen=True)
class BenchPlan(EpochPlan):
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
    work: Work
    operations_per_second: float
    """`work` over the median time, all threads together."""
    reading_share: float
    """Part of the epoch that reading the histories once, at copy speed, would take."""


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
    copy_bytes_per_second: float
    memory: PeakMemory

    def as_dict(self) -> dict[str, Any]:
        content = asdict(self)
        content["plan"]["mechanisms"] = list(self.plan.mechanisms)
        return content


def run_bench(
    data: Interactions, plan: BenchPlan, watch: Watch = lambda _what: None
) -> BenchResult:
    """Time every mechanism on this data; `watch` is told what is being done."""
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
    memory = PeakMemory(loaded, after_epochs, peak_memory())
    bandwidth = copy_bandwidth()  # after the memory was read: its arrays are large
    return BenchResult(
        data=about(data),
        plan=plan,
        threads=threads,
        als_solver=solver,
        als_seconds=seconds[ALS],
        comparisons=[_compare(data, each, seconds, bandwidth) for each in settings],
        growth=growth,
        copy_bytes_per_second=bandwidth,
        memory=memory,
    )


def _warm(data: Interactions, settings: Settings, threads: int, watch: Watch) -> TimedEpoch:
    watch(f"warming up: {settings.mechanism} (compiles the first time)")
    return TimedEpoch.warmed_up(data.histories, settings, threads)


def _contenders(
    data: Interactions, plan: BenchPlan, epochs: Sequence[TimedEpoch], threads: int
) -> list[Contender]:
    histories = data.histories
    size = min(plan.reference_users, histories.n_users)
    sample = np.sort(np.random.default_rng(plan.seed).permutation(histories.n_users)[:size])
    ours = [Contender(e.settings.mechanism, e.run) for e in epochs]
    references = [
        Contender(_reference(e.settings.mechanism), ReferenceEpoch(e, sample).run) for e in epochs
    ]
    # Confidence changes nothing about time; ALS gets that of the last mechanism.
    return [*ours, als(histories, epochs[-1].settings, threads), *references]


def _reference(mechanism: str) -> str:
    return f"reference, {mechanism}"


def _compare(
    data: Interactions, settings: Settings, seconds: Mapping[str, Sequence[float]], bandwidth: float
) -> Comparison:
    name, work = settings.mechanism, work_of(data.histories, settings)
    own = np.asarray(seconds[name])
    median = float(np.median(own))
    return Comparison(
        mechanism=name,
        seconds=own.tolist(),
        epoch_over_als=ratio(seconds, name, ALS),
        reference_over_epoch=ratio(seconds, _reference(name), name),
        client_epochs_per_second=Spread.of(data.histories.n_users / own),
        work=work,
        operations_per_second=work.operations / median,
        reading_share=work.index_bytes / bandwidth / median,
    )

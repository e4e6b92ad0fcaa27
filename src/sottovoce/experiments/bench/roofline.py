"""How far each kernel is from what this machine allows: a roofline.

A kernel cannot end before its bytes have come through memory, its operations were done and its
random words drawn, each at the best rate that was measured beside it. The longest of these is what
is attainable; its part of the measured time is the share that was achieved. All by processor time,
of so many threads: who else uses the machine, and how evenly work was shared out, is not seen.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sottovoce.evaluation.kernels import checked_threads
from sottovoce.experiments.bench.epoch import after_one_epoch
from sottovoce.experiments.bench.kernels import ranking, reporting, solving
from sottovoce.experiments.bench.limits import Limits, measure_limits, processor_seconds
from sottovoce.experiments.bench.plan import EpochPlan, about
from sottovoce.experiments.bench.timing import Contender, Spread, take_turns
from sottovoce.settings import setting
from sottovoce.simulation.cpu import Options
from sottovoce.simulation.cpu.engine import CpuEngine
from sottovoce.simulation.parts import LeaveOut, Whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sottovoce.data import Interactions
    from sottovoce.experiments.bench.kernels import Kernel, Precision
    from sottovoce.experiments.bench.timing import Watch
    from sottovoce.simulation.cpu.work import Work

LIMITS = "limits of the machine"
Bound = Literal["memory", "arithmetic", "random words"]


@dataclass(frozen=True)
class RooflinePlan(EpochPlan):
    threads: int | None = setting(None, "threads; None: all", least=1)


@dataclass(frozen=True)
class KernelPoint:
    kernel: str
    precision: Precision
    work: Work
    operations: int
    least_bytes: int
    most_bytes: int
    seconds: list[float]
    """Round by round, of processor time for each thread."""
    operations_per_second: Spread
    attainable: Spread
    """Operations a second, if every table stays in a cache."""
    share: Spread
    """Of what is attainable."""
    bound: Bound
    """What limits it, in most rounds."""
    memory_share: Spread
    """Part of the time that memory would take, if no table stayed in a cache."""

    @property
    def intensity(self) -> tuple[float, float]:
        """Operations for each byte: if no table stays in a cache, and if every one does."""
        return self.operations / self.most_bytes, self.operations / self.least_bytes


@dataclass(frozen=True)
class RooflineResult:
    data: dict[str, Any]
    plan: RooflinePlan
    threads: int
    limits: Limits
    """The median of all rounds."""
    kernels: list[KernelPoint]

    def as_dict(self) -> dict[str, Any]:
        content = asdict(self)
        content["plan"]["mechanisms"] = list(self.plan.mechanisms)
        return content


def run_roofline(
    data: Interactions, plan: RooflinePlan, watch: Watch = lambda _what: None
) -> RooflineResult:
    """Every kernel and the limits of the machine, in turns."""
    data = replace(data, timestamps=None, titles=None, tags=None)  # not needed, and large
    threads = checked_threads(plan.threads)
    kernels = list(_kernels(data, plan, threads, watch))
    limits: list[Limits] = []

    def measured() -> float:
        limits.append(measure_limits(threads))
        return 0.0

    contenders = [
        Contender(kernel.name, partial(processor_seconds, kernel.run, threads))
        for kernel in kernels
    ]
    for contender in contenders:
        watch(f"warming up: {contender.name}")
        contender.run()
    seconds = take_turns([*contenders, Contender(LIMITS, measured)], plan.repeats, watch)
    points = [point(kernel, seconds[kernel.name], limits) for kernel in kernels]
    return RooflineResult(about(data), plan, threads, _median(limits), points)


def _kernels(
    data: Interactions, plan: RooflinePlan, threads: int, watch: Watch
) -> Iterator[Kernel]:
    part = Whole.of(data, LeaveOut())[0]
    for place, settings in enumerate(plan.settings()):
        watch(f"a first epoch: {settings.mechanism}")
        engine = CpuEngine(part, settings, Options(threads))
        V = after_one_epoch(engine)
        if not place:  # solving and ranking are the same for all
            yield solving(engine, V)
            yield ranking(engine, V, threads)
        yield reporting(engine, V, threads)


def least_seconds(
    work: Work, precision: Precision, limits: Limits, size: int
) -> dict[Bound, float]:
    """What each part of the machine needs at least, for so many bytes through memory."""
    return {
        "memory": size / limits.copy,
        "arithmetic": (work.floats + work.steps) / getattr(limits, precision),
        "random words": work.words / limits.words,
    }


def point(kernel: Kernel, seconds: Sequence[float], limits: Sequence[Limits]) -> KernelPoint:
    """Round by round: its time, and the limits that were measured beside it."""
    work, took = kernel.work, np.asarray(seconds)
    rounds = [least_seconds(work, kernel.precision, each, work.least_bytes) for each in limits]
    least = np.array([max(each.values()) for each in rounds])
    bounds = [max(each, key=lambda name: each[name]) for each in rounds]
    memory = np.array([work.most_bytes / each.copy for each in limits])
    return KernelPoint(
        kernel=kernel.name,
        precision=kernel.precision,
        work=work,
        operations=work.operations,
        least_bytes=work.least_bytes,
        most_bytes=work.most_bytes,
        seconds=took.tolist(),
        operations_per_second=Spread.of(work.operations / took),
        attainable=Spread.of(work.operations / least),
        share=Spread.of(least / took),
        bound=max(set(bounds), key=bounds.count),
        memory_share=Spread.of(memory / took),
    )


def _median(limits: Sequence[Limits]) -> Limits:
    rows = [asdict(each) for each in limits]
    return Limits(**{name: float(np.median([row[name] for row in rows])) for name in rows[0]})

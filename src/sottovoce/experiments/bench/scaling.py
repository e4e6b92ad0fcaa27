"""How an epoch's time falls with threads or processes, and whether it stays as people grow too."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sottovoce.errors import MissingExtraError
from sottovoce.evaluation.kernels import checked_threads
from sottovoce.experiments.bench.epoch import after_one_epoch, learning
from sottovoce.experiments.bench.plan import EpochPlan, about
from sottovoce.experiments.bench.timing import Contender, Spread, let_ray_compete, take_turns
from sottovoce.settings import setting
from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.ray.cluster import import_ray

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sottovoce.data import Interactions
    from sottovoce.experiments.bench.timing import Watch
    from sottovoce.model import Histories
    from sottovoce.training import Settings

Kind = Literal["strong", "weak"]
KINDS: tuple[Kind, ...] = ("strong", "weak")
"""The same people whatever computes them; or people who grow with it."""
Over = Literal["threads", "ray workers"]


@dataclass(frozen=True)
class ScalingPlan(EpochPlan):
    threads: int | None = setting(None, "most threads; None: all", least=1)
    ray_workers: int | None = setting(None, "most processes of Ray; None: as threads", least=1)


@dataclass(frozen=True)
class ScalingPoint:
    count: int
    """Threads or processes."""
    people: int
    seconds: list[float]
    """Round by round."""
    efficiency: Spread
    """1: as much work a second for each as one alone does."""

    @property
    def speedup(self) -> float:
        """Work a second, as a multiple of what one alone does."""
        return self.efficiency.median * self.count


@dataclass(frozen=True)
class Scaling:
    mechanism: str
    over: Over
    kind: Kind
    points: list[ScalingPoint]


@dataclass(frozen=True)
class ScalingResult:
    data: dict[str, Any]
    plan: ScalingPlan
    scalings: list[Scaling]
    left_out: dict[str, str]
    """By what was to be counted, why it was not."""

    def as_dict(self) -> dict[str, Any]:
        content = asdict(self)
        content["plan"]["mechanisms"] = list(self.plan.mechanisms)
        return content


@dataclass(frozen=True, order=True)
class _Run:
    """One thing to time; strong and weak scaling share the largest."""

    over: Over
    count: int
    people: int

    @property
    def name(self) -> str:
        return f"{self.people:,} people, {self.count} {self.over}"


def run_scaling(
    data: Interactions, plan: ScalingPlan, watch: Watch = lambda _what: None
) -> ScalingResult:
    """Strong and weak scaling of every mechanism, over threads and over Ray's processes."""
    threads = checked_threads(plan.threads)
    most: dict[Over, int] = {"threads": threads, "ray workers": plan.ray_workers or threads}
    left_out: dict[str, str] = {}
    let_ray_compete()
    try:
        import_ray()
    except MissingExtraError as error:
        del most["ray workers"]
        left_out["ray workers"] = str(error)
    scalings: list[Scaling] = []
    for settings in plan.settings():
        scalings += _scalings(data.histories, settings, most, plan, watch)
    return ScalingResult(about(data), plan, scalings, left_out)


def counts(most: int) -> list[int]:
    """Powers of two, and the most.

    >>> counts(6)
    [1, 2, 4, 6]
    """
    return sorted({*(1 << n for n in range(most.bit_length())), most})


def people_of(kind: Kind, count: int, most: int, everybody: int) -> int:
    """All of them, or an equal share for each thread or process.

    >>> people_of("strong", 2, 4, 1000), people_of("weak", 2, 4, 1000)
    (1000, 500)
    """
    return everybody if kind == "strong" else max(everybody * count // most, 1)


def efficiency(
    kind: Kind, count: int, seconds: Sequence[float], alone: Sequence[float]
) -> list[float]:
    """Round by round: time of one alone over time of so many, for the same work of each.

    >>> efficiency("strong", 2, [5.0], [10.0]), efficiency("weak", 2, [10.0], [10.0])
    ([1.0], [1.0])
    """
    each = count if kind == "strong" else 1
    return [one / (each * some) for one, some in zip(alone, seconds, strict=True)]


def _scalings(
    histories: Histories,
    settings: Settings,
    most: Mapping[Over, int],
    plan: ScalingPlan,
    watch: Watch,
) -> list[Scaling]:
    everybody = histories.n_users
    order = np.random.default_rng(plan.seed).permutation(everybody)
    wanted = {
        (over, kind): [_Run(over, n, people_of(kind, n, top, everybody)) for n in counts(top)]
        for over, top in most.items()
        for kind in KINDS
    }
    with build_engine("cpu", histories, settings) as engine:
        V = after_one_epoch(engine)
    with ExitStack() as stack:
        contenders = []
        for run in sorted({run for runs in wanted.values() for run in runs}):
            watch(f"warming up: {run.name}")
            some = histories.take(np.sort(order[: run.people]))
            contenders.append(_contender(stack, run, some, settings, V))
        seconds = take_turns(contenders, plan.repeats, watch)
    return [
        Scaling(settings.mechanism, over, kind, _points(kind, runs, seconds))
        for (over, kind), runs in wanted.items()
    ]


def _contender(
    stack: ExitStack, run: _Run, people: Histories, settings: Settings, V: NDArray[np.float32]
) -> Contender:
    if run.over == "threads":
        engine = build_engine("cpu", people, settings, threads=run.count)
    else:
        engine = build_engine("ray", people, settings, ray_workers=run.count)
    stack.enter_context(engine)
    return learning(run.name, engine, V)


def _points(
    kind: Kind, runs: Sequence[_Run], seconds: Mapping[str, Sequence[float]]
) -> list[ScalingPoint]:
    alone = seconds[runs[0].name]
    return [
        ScalingPoint(
            run.count,
            run.people,
            list(seconds[run.name]),
            Spread.of(efficiency(kind, run.count, seconds[run.name], alone)),
        )
        for run in runs
    ]

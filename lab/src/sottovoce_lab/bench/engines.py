"""Engines side by side on the same epoch; and how its time falls with threads or processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.data import Interactions
from sottovoce.data.shards import ShardWriter
from sottovoce.errors import MissingExtraError, SettingsError, SottovoceError
from sottovoce.settings import setting
from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.evaluation.kernels import checked_threads
from sottovoce.simulation.interface import Collected, Engine
from sottovoce.simulation.people import LeaveOut, Parts, Stored, Whole
from sottovoce.training import Settings
from sottovoce_lab.bench.epoch import (
    ReferenceEpoch,
    TimedEpoch,
    TimedPlan,
    about,
    after_one_epoch,
    learning,
)
from sottovoce_lab.bench.timing import Contender, Spread, Watch, ratio, take_turns

Ways = Mapping[str, Callable[[], Engine]]

MILLION = 1_000_000
RULE = LeaveOut()
"""Shards leave one item of everybody out, so the others do."""
Kind = Literal["strong", "weak"]
KINDS: tuple[Kind, ...] = ("strong", "weak")
"""The same people whatever computes them; or people who grow with it."""
Over = Literal["threads", "ray workers"]


def let_ray_compete() -> None:
    """Ray's processes step back for all others on the machine (niceness 15); a contender may not.

    Before Ray starts; what somebody has set stays.
    """
    os.environ.setdefault("RAY_worker_niceness", "0")


@dataclass(frozen=True)
class EnginesPlan(TimedPlan):
    parts: int = setting(8, "parts that people are streamed in", least=2)
    ray_workers: int | None = setting(None, "processes of Ray; None: one for each core", least=1)
    reference_users: int = setting(200, "users that the numpy reference really runs", least=1)


@dataclass(frozen=True)
class Way:
    """One way to compute the epoch."""

    name: str
    seconds: list[float]
    """Round by round."""
    client_epochs_per_second: Spread
    over_cpu: Spread
    """Its time over that of the cpu engine with all threads, in the same round."""
    seconds_per_million: Spread
    """Of an epoch of a million such people."""


@dataclass(frozen=True)
class SideBySide:
    mechanism: str
    ways: list[Way]
    left_out: dict[str, str]
    """By engine, why it did not take part."""


@dataclass(frozen=True)
class EnginesResult:
    data: dict[str, Any]
    plan: EnginesPlan
    threads: int
    mechanisms: list[SideBySide]


def run_engines(
    data: Interactions, plan: EnginesPlan, watch: Watch = lambda _what: None
) -> EnginesResult:
    """Every mechanism on every engine that can run here; raises if two of them disagree."""
    data = replace(data, timestamps=None, titles=None, tags=None)  # not needed, and large
    threads = checked_threads(None)
    let_ray_compete()
    with TemporaryDirectory(prefix="sottovoce-bench-") as folder:
        watch("writing shards")
        stored = stored_parts(data, Path(folder) / "shards", plan.parts)
        whole = Whole.of(data, RULE)
        found = [_side_by_side(whole, stored, each, plan, watch) for each in plan.settings()]
    return EnginesResult(about(data), plan, threads, found)


def stored_parts(data: Interactions, folder: Path, pieces: int) -> Stored:
    """The same people as shards on disk."""
    bounds = np.linspace(0, data.histories.n_users, pieces + 1).astype(np.int64)
    with ShardWriter(folder) as writer:
        for first, last in pairwise(bounds):
            writer.add(data.select(np.arange(first, last), None))
        return Stored(writer.finish(data), RULE)


def _side_by_side(
    whole: Whole, stored: Parts, settings: Settings, plan: EnginesPlan, watch: Watch
) -> SideBySide:
    threads = checked_threads(None)
    always = _always(whole, stored, settings, threads, plan.parts)
    workers = plan.ray_workers or threads
    optional: Ways = {
        f"ray, {_many(workers, 'worker')}": lambda: build_engine(
            "ray", whole, settings, ray_workers=workers
        ),
        "cuda": lambda: build_engine("cuda", whole, settings),
    }
    left_out: dict[str, str] = {}
    with ExitStack() as stack:
        engines = {name: stack.enter_context(make()) for name, make in always.items()}
        for name, make in optional.items():
            watch(f"starting: {name}")
            try:
                engines[name] = stack.enter_context(make())
            except (MissingExtraError, SettingsError) as error:
                left_out[name.partition(",")[0]] = str(error)
        epoch = TimedEpoch.of(whole[0].histories, engines[_cpu(threads)])
        expected = epoch.engine.collect(epoch.V, 1)
        contenders = []
        for name, engine in engines.items():
            watch(f"checking: {name}")
            check_equal(name, engine.collect(epoch.V, 1), expected)
            contenders.append(learning(name, engine, epoch.V))
        contenders.append(_reference(epoch, plan, watch))
        seconds = take_turns(contenders, plan.repeats, watch)
    ways = [_way(each.name, whole.n_users, seconds, _cpu(threads)) for each in contenders]
    return SideBySide(settings.mechanism, ways, left_out)


def _cpu(threads: int) -> str:
    return f"cpu, {_many(threads, 'thread')}"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _always(whole: Whole, stored: Parts, settings: Settings, threads: int, pieces: int) -> Ways:
    cut = whole.cut(pieces)
    return {
        _cpu(1): lambda: build_engine("cpu", whole, settings, threads=1),
        _cpu(threads): lambda: build_engine("cpu", whole, settings, threads=threads),
        f"streamed, {len(cut)} parts": lambda: build_engine("cpu", cut, settings),
        f"streamed, {len(stored)} shards": lambda: build_engine("cpu", stored, settings),
    }


def _reference(epoch: TimedEpoch, plan: EnginesPlan, watch: Watch) -> Contender:
    watch("checking: reference")
    reference = ReferenceEpoch.drawn(epoch, plan.reference_users, plan.seed)
    found = (_collected(engine, epoch, reference.users) for engine in ("reference", "cpu"))
    check_equal("reference", *found)
    return Contender("reference", reference.run)


def _collected(engine: str, epoch: TimedEpoch, users: NDArray[np.int64]) -> Collected:
    """What some of the people say, each with their own number."""
    some = epoch.histories.take(users)
    with build_engine(engine, some, epoch.engine.settings, numbers=users) as built:
        return built.collect(epoch.V, 1)


def check_equal(name: str, found: Collected, expected: Collected) -> None:
    """To compare the speed of different results would say nothing."""
    if found.n_reports != expected.n_reports or not np.array_equal(found.sums, expected.sums):
        raise SottovoceError(
            f"{name}: the sums of this epoch differ from those of the cpu engine; this is a bug, "
            "and its speed was not measured"
        )


def _way(name: str, users: int, seconds: Mapping[str, Sequence[float]], cpu: str) -> Way:
    own = np.asarray(seconds[name])
    return Way(
        name=name,
        seconds=own.tolist(),
        client_epochs_per_second=Spread.of(users / own),
        over_cpu=ratio(seconds, name, cpu),
        seconds_per_million=Spread.of(own / users * MILLION),
    )


@dataclass(frozen=True)
class ScalingPlan(TimedPlan):
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
    if find_spec("ray") is None:
        del most["ray workers"]
        left_out["ray workers"] = "it needs Ray: pip install 'sottovoce[ray]'"
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

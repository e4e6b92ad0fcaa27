"""One epoch of the same people on every engine, beside one iteration of implicit's ALS."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import MECHANISMS, Histories
from sottovoce.data import Interactions
from sottovoce.data.shards import ShardWriter
from sottovoce.errors import MissingExtraError, SettingsError, SottovoceError
from sottovoce.settings import check, setting
from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.evaluation.kernels import check_threads
from sottovoce.simulation.holdout import HoldoutRule
from sottovoce.simulation.interface import Engine, ReportSums
from sottovoce.simulation.population import Parts, StoredParts, WholeParts
from sottovoce.simulation.training import start_training
from sottovoce.training import Settings, compute_next_items
from sottovoce_lab.bench.timing import Contender, Spread, Watch, ratio, take_turns

Ways = Mapping[str, Callable[[], Engine]]

ALS = "implicit, one iteration of ALS"
MILLION = 1_000_000
RULE = HoldoutRule()
"""Shards leave one item of everybody out, so the others do."""


@dataclass(frozen=True)
class BenchPlan:
    mechanisms: tuple[str, ...] = tuple(MECHANISMS)
    factors: int = 5
    epsilon: float = 2.5
    reports: int = 100
    repeats: int = setting(5, "rounds", min_value=1)
    seed: int = 0
    parts: int = setting(8, "parts that people are streamed in", min_value=2)
    ray_workers: int | None = setting(
        None, "processes of Ray; None: one for each core", min_value=1
    )
    reference_users: int = setting(200, "users that the numpy reference really runs", min_value=1)

    def __post_init__(self) -> None:
        check(self)
        unknown = set(self.mechanisms) - set(MECHANISMS)
        if unknown or not self.mechanisms:
            raise SettingsError(
                f"mechanisms must be some of {', '.join(MECHANISMS)}; got {list(self.mechanisms)}"
            )

    def settings(self) -> list[Settings]:
        """One for each mechanism, in order and without repeats."""
        given = {name: getattr(self, name) for name in ("factors", "epsilon", "reports", "seed")}
        return [Settings.preset(name, **given) for name in dict.fromkeys(self.mechanisms)]


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
class BenchResult:
    data: dict[str, Any]
    plan: BenchPlan
    threads: int
    mechanisms: list[SideBySide]


def run_bench(
    data: Interactions, plan: BenchPlan, watch: Watch = lambda _what: None
) -> BenchResult:
    """Every mechanism on every engine that can run here; raises if two of them disagree."""
    data = replace(data, timestamps=None, titles=None, tags=None)  # not needed, and large
    # Ray's processes step back for all others on the machine (niceness 15); a contender may not.
    os.environ.setdefault("RAY_worker_niceness", "0")
    with TemporaryDirectory(prefix="sottovoce-bench-") as folder:
        watch("writing shards")
        stored = stored_parts(data, Path(folder) / "shards", plan.parts)
        whole = WholeParts.from_data(data, RULE)
        found = [_side_by_side(whole, stored, each, plan, watch) for each in plan.settings()]
    about = {key: data.summary()[key] for key in ("name", "users", "items", "interactions")}
    return BenchResult(about, plan, check_threads(None), found)


def stored_parts(data: Interactions, folder: Path, pieces: int) -> StoredParts:
    """The same people as shards on disk."""
    bounds = np.linspace(0, data.histories.n_users, pieces + 1).astype(np.int64)
    with ShardWriter(folder) as writer:
        for first, last in pairwise(bounds):
            writer.add(data.select(np.arange(first, last), None))
        return StoredParts(writer.finish(data), RULE)


def _side_by_side(
    whole: WholeParts, stored: Parts, settings: Settings, plan: BenchPlan, watch: Watch
) -> SideBySide:
    threads = check_threads(None)
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
            contenders.append(_learning(name, engine, epoch.V))
        contenders.append(_reference(epoch, plan, watch))
        try:
            contenders.append(als(epoch.histories, settings, threads))
        except MissingExtraError as error:
            left_out["implicit"] = str(error)
        seconds = take_turns(contenders, plan.repeats, watch)
    ways = [_way(each.name, whole.n_users, seconds, _cpu(threads)) for each in contenders]
    return SideBySide(settings.mechanism, ways, left_out)


def _cpu(threads: int) -> str:
    return f"cpu, {_many(threads, 'thread')}"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _always(
    whole: WholeParts, stored: Parts, settings: Settings, threads: int, pieces: int
) -> Ways:
    cut = whole.cut(pieces)
    return {
        _cpu(1): lambda: build_engine("cpu", whole, settings, threads=1),
        _cpu(threads): lambda: build_engine("cpu", whole, settings, threads=threads),
        f"streamed, {len(cut)} parts": lambda: build_engine("cpu", cut, settings),
        f"streamed, {len(stored)} shards": lambda: build_engine("cpu", stored, settings),
    }


def _learning(name: str, engine: Engine, V: NDArray[np.float32]) -> Contender:
    """The second epoch on any engine, up to the next item matrix; warmed up."""

    def run() -> float:
        began = time.perf_counter()
        engine.learn(V, 1)
        return time.perf_counter() - began

    run()
    return Contender(name, run)


def check_equal(name: str, found: ReportSums, expected: ReportSums) -> None:
    """To compare the speed of different results would say nothing."""
    if found.n_reports != expected.n_reports or not np.array_equal(found.sums, expected.sums):
        raise SottovoceError(
            f"{name}: the sums of this epoch must be those of the cpu engine, and differ; this is "
            "a bug, and its speed was not measured"
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


@dataclass(frozen=True, eq=False)
class TimedEpoch:
    """The second epoch of a training, which can be run any number of times."""

    histories: Histories
    engine: Engine
    V: NDArray[np.float32]
    """As a later epoch meets it: a fresh one is all noise."""

    @classmethod
    def of(cls, histories: Histories, engine: Engine) -> Self:
        V, _ = engine.learn(start_training(engine.settings, engine.n_items).V, 0)
        return cls(histories, engine, V)

    def parts(self, engine: Engine) -> tuple[float, float]:
        """Seconds for the devices and for the server, with the devices of this engine."""
        began = time.perf_counter()
        found = engine.collect(self.V, 1)
        reported = time.perf_counter()
        compute_next_items(
            self.V, found.sums, found.n_reports, 2, engine.settings, engine.mechanism
        )
        return reported - began, time.perf_counter() - reported


@dataclass(frozen=True, eq=False)
class ReferenceEpoch:
    """The same epoch by the numpy reference: of a few users, extrapolated to all."""

    epoch: TimedEpoch
    """What it is compared with: the same V and settings."""
    users: NDArray[np.int64]
    """The sample."""

    @classmethod
    def drawn(cls, epoch: TimedEpoch, most: int, seed: int) -> Self:
        """With so many users at most, drawn at random."""
        order = np.random.default_rng(seed).permutation(epoch.histories.n_users)
        return cls(epoch, np.sort(order[:most]))

    def run(self) -> float:
        """Seconds of everybody's epoch: the devices' part grows with users, the server's not."""
        everybody = self.epoch.histories
        with self.engine("reference") as engine:
            devices, server = self.epoch.parts(engine)
        return devices * everybody.n_users / len(self.users) + server

    def engine(self, name: str) -> Engine:
        """Over the sample, each with their own number."""
        some, settings = self.epoch.histories.take(self.users), self.epoch.engine.settings
        return build_engine(name, some, settings, numbers=self.users)


def _reference(epoch: TimedEpoch, plan: BenchPlan, watch: Watch) -> Contender:
    watch("checking: reference")
    sample = ReferenceEpoch.drawn(epoch, plan.reference_users, plan.seed)
    with sample.engine("reference") as reference, sample.engine("cpu") as cpu:
        check_equal("reference", reference.collect(epoch.V, 1), cpu.collect(epoch.V, 1))
    return Contender("reference", sample.run)


def als(histories: Histories, settings: Settings, threads: int) -> Contender:
    """One iteration, users and then items, with its default solver; setup is not counted."""
    try:
        from implicit.cpu.als import AlternatingLeastSquares
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
    except ImportError as missing:
        raise MissingExtraError(
            "it needs implicit and threadpoolctl: pip install 'sottovoce[bench]'"
        ) from missing
    # It has threads of its own: OpenBLAS beside them would only stand in their way.
    with threadpool_limits(1, user_api="blas"):
        model = AlternatingLeastSquares(
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
        with threadpool_limits(1, user_api="blas"):
            model.fit(
                matrix,
                show_progress=False,
                callback=lambda _iteration, seconds, _loss: took.append(seconds),
            )
        return took[0]

    run()
    return Contender(ALS, run)

"""Time one epoch of the same people on every engine, next to one iteration of implicit's ALS."""

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

from sottovoce.characters import pluralize
from sottovoce.core import MECHANISMS, Histories
from sottovoce.data import Interactions
from sottovoce.data.shards import ShardWriter
from sottovoce.errors import MissingExtraError, SettingsError, SottovoceError
from sottovoce.settings import check, setting
from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.evaluation.kernels import check_threads
from sottovoce.simulation.holdout import HoldoutRule
from sottovoce.simulation.interface import Engine, ReportSums
from sottovoce.simulation.population import Part, Parts, People, StoredParts, WholeParts
from sottovoce.simulation.training import start_training
from sottovoce.training import Settings, compute_next_items
from sottovoce_lab.bench.timing import Contender, Spread, Watch, compute_ratio, take_turns

# Functions that start an engine, by the name of the contender.
EngineMakers = Mapping[str, Callable[[], Engine]]

# Mechanisms with compiled kernels. The one whose reports are names of items has no kernels: every
# engine runs the same numpy code.
COMPILED_MECHANISMS = tuple(name for name, kind in MECHANISMS.items() if not kind.asks_for_names)
ALS_NAME = "implicit, one iteration of ALS"
ONE_MILLION = 1_000_000
# The engine that reads shards holds out one item of each person, so the other engines do, too.
HOLDOUT_RULE = HoldoutRule()


@dataclass(frozen=True)
class BenchPlan:
    """The mechanisms to time on all engines, their settings, and the number of rounds."""

    mechanisms: tuple[str, ...] = COMPILED_MECHANISMS
    factors: int = 5
    epsilon: float = 2.5
    reports: int = 100
    repeats: int = setting(5, "rounds", min_value=1)
    seed: int = 0
    parts: int = setting(8, "shards from which people are read", min_value=2)
    ray_workers: int | None = setting(
        None, "processes of Ray; None: one for each core", min_value=1
    )
    reference_users: int = setting(200, "users that the numpy reference is timed with", min_value=1)

    def __post_init__(self) -> None:
        check(self)
        unknown = set(self.mechanisms) - set(COMPILED_MECHANISMS)
        if unknown or not self.mechanisms:
            raise SettingsError(
                f"mechanisms must be some of {', '.join(COMPILED_MECHANISMS)}, which have kernels; "
                f"got {list(self.mechanisms)}"
            )

    def list_settings(self) -> list[Settings]:
        """Return the settings of each mechanism, in order and without repeats."""
        options = {name: getattr(self, name) for name in ("factors", "epsilon", "reports", "seed")}
        return [Settings.preset(name, **options) for name in dict.fromkeys(self.mechanisms)]


@dataclass(frozen=True)
class EngineTiming:
    """The time that one engine takes for the epoch."""

    name: str
    seconds: list[float]
    """Seconds of each round."""
    client_epochs_per_second: Spread
    over_cpu: Spread
    """Time divided by that of the cpu engine with all threads, in the same round."""
    seconds_per_million: Spread
    """Seconds that an epoch would take for a million people like these."""

    @classmethod
    def from_seconds(
        cls, name: str, users: int, seconds: Mapping[str, Sequence[float]], cpu: str
    ) -> Self:
        """Return the timing of one of several contenders, compared with that named `cpu`."""
        own = np.asarray(seconds[name])
        return cls(
            name=name,
            seconds=own.tolist(),
            client_epochs_per_second=Spread.from_values(users / own),
            over_cpu=compute_ratio(seconds, name, cpu),
            seconds_per_million=Spread.from_values(own / users * ONE_MILLION),
        )


@dataclass(frozen=True)
class EngineComparison:
    """The timings of all engines with one mechanism."""

    mechanism: str
    timings: list[EngineTiming]
    left_out: dict[str, str]
    """Engines that did not take part, with the reason."""


@dataclass(frozen=True)
class BenchResult:
    """The comparisons of all mechanisms on one data set."""

    data: dict[str, Any]
    plan: BenchPlan
    threads: int
    mechanisms: list[EngineComparison]


def run_bench(
    data: Interactions, plan: BenchPlan, watch: Watch = lambda _what: None
) -> BenchResult:
    """Time every mechanism on every engine that can run here.

    Raises:
        SottovoceError: The sums of two engines differ.
    """
    data = replace(data, timestamps=None, titles=None, tags=None)  # not needed, and large
    # By default, Ray's processes have a lower priority than others (niceness 15). Give them the
    # same one.
    os.environ.setdefault("RAY_worker_niceness", "0")
    with TemporaryDirectory(prefix="sottovoce-bench-") as folder:
        watch("writing shards")
        stored = write_parts(data, Path(folder) / "shards", plan.parts)
        whole = WholeParts.from_data(data, HOLDOUT_RULE)
        comparisons = [
            _compare_engines(whole, stored, settings, plan, watch)
            for settings in plan.list_settings()
        ]
    summary = {key: data.summary()[key] for key in ("name", "users", "items", "interactions")}
    return BenchResult(summary, plan, check_threads(None), comparisons)


def write_parts(data: Interactions, folder: Path, pieces: int) -> StoredParts:
    """Write the same people as shards to disk."""
    bounds = np.linspace(0, data.histories.n_users, pieces + 1).astype(np.int64)
    with ShardWriter(folder) as writer:
        for first, last in pairwise(bounds):
            writer.add(data.select(np.arange(first, last), None))
        return StoredParts(writer.finish(data), HOLDOUT_RULE)


def _compare_engines(
    whole: WholeParts, stored: Parts, settings: Settings, plan: BenchPlan, watch: Watch
) -> EngineComparison:
    threads = check_threads(None)
    cut = whole.cut(plan.parts)
    all_threads = _name_cpu(threads)
    required: EngineMakers = {
        _name_cpu(1): lambda: build_engine("cpu", whole, settings, threads=1),
        all_threads: lambda: build_engine("cpu", whole, settings, threads=threads),
        f"streamed, {len(cut)} parts": lambda: build_engine("cpu", cut, settings),
        f"streamed, {len(stored)} shards": lambda: build_engine("cpu", stored, settings),
    }
    workers = plan.ray_workers or threads
    optional: EngineMakers = {
        f"ray, {pluralize(workers, 'worker')}": lambda: build_engine(
            "ray", whole, settings, ray_workers=workers
        ),
        "cuda": lambda: build_engine("cuda", whole, settings),
    }
    left_out: dict[str, str] = {}
    with ExitStack() as stack:
        engines = {name: stack.enter_context(make()) for name, make in required.items()}
        for name, make in optional.items():
            watch(f"starting: {name}")
            try:
                engines[name] = stack.enter_context(make())
            except (MissingExtraError, SettingsError) as error:
                left_out[name.partition(",")[0]] = str(error)
        epoch = TimedEpoch.begin(whole[0].histories, engines[all_threads])
        expected = epoch.engine.collect(epoch.V, 1)
        contenders = []
        for name, engine in engines.items():
            watch(f"checking: {name}")
            check_equal(name, engine.collect(epoch.V, 1), expected)
            contenders.append(_make_engine_contender(name, engine, epoch.V))
        contenders.append(_make_reference_contender(epoch, plan, watch))
        try:
            contenders.append(make_als_contender(epoch.histories, settings, threads))
        except MissingExtraError as error:
            left_out["implicit"] = str(error)
        seconds = take_turns(contenders, plan.repeats, watch)
    timings = [
        EngineTiming.from_seconds(contender.name, whole.n_users, seconds, all_threads)
        for contender in contenders
    ]
    return EngineComparison(settings.mechanism, timings, left_out)


def _name_cpu(threads: int) -> str:
    return f"cpu, {pluralize(threads, 'thread')}"


def _make_engine_contender(name: str, engine: Engine, V: NDArray[np.float32]) -> Contender:
    """Return a contender that runs the second epoch in this engine, after one warm-up here."""

    def run() -> float:
        began = time.perf_counter()
        engine.learn(V, 1)
        return time.perf_counter() - began

    run()
    return Contender(name, run)


def check_equal(name: str, result: ReportSums, expected: ReportSums) -> None:
    """Check that an engine has the expected sums. Otherwise its speed means nothing."""
    # Sums are exact integers, so engines must agree to the last one.
    if result.n_reports != expected.n_reports or not np.array_equal(result.sums, expected.sums):
        raise SottovoceError(
            f"{name}: the sums of this epoch must be equal to those of the cpu engine; this is "
            "a bug, and its speed was not measured"
        )


@dataclass(frozen=True, eq=False)
class TimedEpoch:
    """The second epoch of a training, which can run any number of times."""

    histories: Histories
    engine: Engine
    V: NDArray[np.float32]
    """V after the first epoch, because a first V is only noise."""

    @classmethod
    def begin(cls, histories: Histories, engine: Engine) -> Self:
        """Train for one epoch, and return the second one."""
        # The first epoch is not typical, because its V is only noise.
        V, _ = engine.learn(start_training(engine.settings, engine.n_items).V, 0)
        return cls(histories, engine, V)

    def measure_parts(self, engine: Engine) -> tuple[float, float]:
        """Return the seconds of the devices, which this engine simulates, and of the server."""
        began = time.perf_counter()
        collected = engine.collect(self.V, 1)
        reported = time.perf_counter()
        compute_next_items(
            self.V, collected.sums, collected.n_reports, 2, engine.settings, engine.mechanism
        )
        return reported - began, time.perf_counter() - reported


@dataclass(frozen=True, eq=False)
class ReferenceEpoch:
    """The timed epoch with the numpy reference, run for a few users and extrapolated to all."""

    epoch: TimedEpoch
    """The epoch of all users, with the same V and settings."""
    users: NDArray[np.int64]
    """The few users."""

    @classmethod
    def draw(cls, epoch: TimedEpoch, max_users: int, seed: int) -> Self:
        """Return the epoch of at most `max_users` users, drawn at random."""
        # Draw at random, because histories at the beginning of a data set may be longer.
        order = np.random.default_rng(seed).permutation(epoch.histories.n_users)
        return cls(epoch, np.sort(order[:max_users]))

    def run(self) -> float:
        """Return the seconds that an epoch of all users would take."""
        everybody = self.epoch.histories
        with self.build_engine("reference") as engine:
            devices, server = self.epoch.measure_parts(engine)
        # The devices' part grows with the number of users, the server's does not.
        return devices * everybody.n_users / len(self.users) + server

    def build_engine(self, name: str) -> Engine:
        """Return an engine for the few users, who keep their numbers among all users."""
        histories, settings = self.epoch.histories.take(self.users), self.epoch.engine.settings
        people = WholeParts(Part(People(histories, chosen=self.users)))
        return build_engine(name, people, settings)


def _make_reference_contender(epoch: TimedEpoch, plan: BenchPlan, watch: Watch) -> Contender:
    watch("checking: reference")
    sample = ReferenceEpoch.draw(epoch, plan.reference_users, plan.seed)
    with sample.build_engine("reference") as reference, sample.build_engine("cpu") as cpu:
        check_equal("reference", reference.collect(epoch.V, 1), cpu.collect(epoch.V, 1))
    return Contender("reference", sample.run)


def make_als_contender(histories: Histories, settings: Settings, threads: int) -> Contender:
    """Return a contender that runs one ALS iteration of implicit, with its default solver."""
    try:
        from implicit.cpu.als import AlternatingLeastSquares
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise MissingExtraError(
            "it needs implicit and threadpoolctl: pip install implicit threadpoolctl"
        ) from error
    # implicit starts its own threads, which threads of OpenBLAS would slow down.
    with threadpool_limits(1, user_api="blas"):
        model = AlternatingLeastSquares(
            factors=settings.factors,
            regularization=settings.regularization,
            # The weight of a touched item is `alpha` in implicit, and `1 + alpha` in the paper.
            alpha=1 + settings.alpha,
            iterations=1,
            num_threads=threads,
            random_state=settings.seed,
        )
    matrix = histories.to_csr()

    def run() -> float:
        # `fit` continues from the factors that the model has. Its callback receives the seconds of
        # the iteration only, without setup and without the transposition of the data.
        durations: list[float] = []
        with threadpool_limits(1, user_api="blas"):
            model.fit(
                matrix,
                show_progress=False,
                callback=lambda _iteration, seconds, _loss: durations.append(seconds),
            )
        return durations[0]

    run()
    return Contender(ALS_NAME, run)

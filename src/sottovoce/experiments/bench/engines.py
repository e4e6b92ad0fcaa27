"""Engines side by side: one epoch of the same people, computed in every way that there is."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.data.shards import ShardWriter
from sottovoce.errors import MissingExtraError, SettingsError, SottovoceError
from sottovoce.evaluation.kernels import checked_threads
from sottovoce.experiments.bench.epoch import ReferenceEpoch, TimedEpoch, learning
from sottovoce.experiments.bench.plan import EpochPlan, about
from sottovoce.experiments.bench.timing import Contender, Spread, let_ray_compete, ratio, take_turns
from sottovoce.settings import setting
from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.parts import LeaveOut, Stored, Whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sottovoce.data import Interactions
    from sottovoce.experiments.bench.timing import Watch
    from sottovoce.simulation.interface import Collected, Engine
    from sottovoce.simulation.parts import Parts
    from sottovoce.training import Settings

    Ways = Mapping[str, Callable[[], Engine]]

MILLION = 1_000_000
RULE = LeaveOut()
"""Shards leave one item of everybody out, so the others do."""


@dataclass(frozen=True)
class EnginesPlan(EpochPlan):
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

    def as_dict(self) -> dict[str, Any]:
        content = asdict(self)
        content["plan"]["mechanisms"] = list(self.plan.mechanisms)
        return content


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
    everybody = epoch.histories.n_users
    size = min(plan.reference_users, everybody)
    users = np.sort(np.random.default_rng(plan.seed).permutation(everybody)[:size])
    watch("checking: reference")
    check_equal("reference", *(_collected(engine, epoch, users) for engine in ("reference", "cpu")))
    return Contender("reference", ReferenceEpoch(epoch, users).run)


def _collected(engine: str, epoch: TimedEpoch, users: NDArray[np.int64]) -> Collected:
    """What some of the people say, each with their own number."""
    some = epoch.histories.take(users)
    with build_engine(engine, some, epoch.settings, numbers=users) as built:
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

"""The whole benchmark of the live system: opening, intake, memory."""

from __future__ import annotations

import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce.experiments.live.bench.bench_server import BenchServer
from sottovoce.experiments.live.bench.costs import UnitCosts
from sottovoce.experiments.live.bench.counting import Counting, measure_counting
from sottovoce.experiments.live.bench.intake import Intake, measure_intake
from sottovoce.experiments.live.bench.opening import (
    CoreRate,
    OpeningRate,
    measure_core,
    measure_opening,
)
from sottovoce.protocol import MAX_CHUNK_REPORTS
from sottovoce.settings import check, setting

if TYPE_CHECKING:
    from sottovoce.experiments.bench.timing import Watch


@dataclass(frozen=True)
class LiveBenchPlan:
    repeats: int = setting(5, "rounds", least=1)
    processes: int = setting(0, "beside 1; 0: as many as there are cores")
    chunk: int = setting(MAX_CHUNK_REPORTS, "reports in a chunk", least=1, most=MAX_CHUNK_REPORTS)
    batches: int = setting(
        10_000, "in an epoch at the proxy; the server's epoch has as many reports", least=1
    )
    reports: int = setting(100, "k: in a batch", least=1)
    items: int = setting(1000, "M", least=1)
    full: bool = setting(
        default=False, help="whether the server's epoch is sealed and opened for real"
    )

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class LiveBenchResult:
    plan: LiveBenchPlan
    cores: int
    opening: list[OpeningRate]
    core: CoreRate
    intake: Intake
    counting: Counting
    units: UnitCosts

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def run_live_bench(plan: LiveBenchPlan, watch: Watch = lambda _what: None) -> LiveBenchResult:
    """Measure; databases lie in a temporary folder on a real disk (see TMPDIR)."""
    cores = os.cpu_count() or 1
    processes = sorted({1, plan.processes or cores})
    with tempfile.TemporaryDirectory(prefix="sottovoce-bench-") as name:
        folder = Path(name)
        bench = BenchServer.make(folder / "bench", items=plan.items, reports=plan.reports)
        opening = measure_opening(
            bench, folder, processes=processes, reports=plan.chunk, rounds=plan.repeats, watch=watch
        )
        core = measure_core(bench, folder, reports=plan.chunk, rounds=plan.repeats, watch=watch)
        intake = measure_intake(
            bench, folder, batches=plan.batches, rounds=plan.repeats, watch=watch
        )
        counting = measure_counting(
            bench,
            folder,
            reports=plan.batches * plan.reports,
            chunk_reports=plan.chunk,
            processes=processes[-1],
            for_real=plan.full,
            watch=watch,
        )
        units = UnitCosts.measured(bench, core, intake)
    return LiveBenchResult(plan, cores, opening, core, intake, counting, units)

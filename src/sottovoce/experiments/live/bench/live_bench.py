"""The whole benchmark of the live system: opening, intake, memory."""

from __future__ import annotations

import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce.errors import SettingsError
from sottovoce.experiments.live.bench.bench_server import BenchServer
from sottovoce.experiments.live.bench.counting import Counting, measure_counting
from sottovoce.experiments.live.bench.intake import Intake, measure_intake
from sottovoce.experiments.live.bench.opening import OpeningRate, measure_opening
from sottovoce.protocol import MAX_CHUNK_REPORTS

if TYPE_CHECKING:
    from sottovoce.experiments.bench.timing import Watch


@dataclass(frozen=True)
class LiveBenchPlan:
    repeats: int = 5
    """Rounds."""
    processes: int = 0
    """Beside 1; 0: as many as there are cores."""
    chunk: int = MAX_CHUNK_REPORTS
    """Reports in a chunk."""
    batches: int = 10_000
    """In an epoch at the proxy; the server's epoch has as many reports."""
    reports: int = 100
    """k: in a batch."""
    items: int = 1000
    full: bool = False
    """Whether the server's epoch is sealed and opened for real."""

    def __post_init__(self) -> None:
        for name in ("repeats", "batches", "reports", "items"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 1 <= self.chunk <= MAX_CHUNK_REPORTS:
            raise SettingsError(f"a chunk has 1..{MAX_CHUNK_REPORTS} reports, not {self.chunk}")


@dataclass(frozen=True)
class LiveBenchResult:
    plan: LiveBenchPlan
    cores: int
    opening: list[OpeningRate]
    intake: Intake
    counting: Counting

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
    return LiveBenchResult(plan, cores, opening, intake, counting)

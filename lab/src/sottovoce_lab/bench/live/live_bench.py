"""The whole benchmark of the live system: opening, intake, memory, and costs of an epoch."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sottovoce.protocol import MAX_CHUNK_REPORTS, SEALED_BYTES, Batch
from sottovoce.proxy.epoch_files import estimate_disk_bytes
from sottovoce.settings import check, setting
from sottovoce_lab.bench.live.bench_server import BenchServer
from sottovoce_lab.bench.live.counting import Counting, measure_counting
from sottovoce_lab.bench.live.intake import Intake, measure_dummies, measure_intake
from sottovoce_lab.bench.live.opening import CoreRate, OpeningRate, measure_core, measure_opening
from sottovoce_lab.bench.live.tokens import TokenRates, measure_tokens
from sottovoce_lab.bench.timing import Spread, Watch

# Bytes that the server stores for each report until its epoch is applied.
SERVER_BYTES_PER_REPORT = 8


@dataclass(frozen=True)
class LiveBenchPlan:
    """How many rounds, processes, batches and reports are measured."""

    repeats: int = setting(5, "rounds", min_value=1)
    processes: int = setting(0, "processes that open, compared with one; 0: one for each core")
    chunk: int = setting(
        MAX_CHUNK_REPORTS, "reports in a chunk", min_value=1, max_value=MAX_CHUNK_REPORTS
    )
    batches: int = setting(
        10_000, "batches in an epoch, at the proxy and at the server", min_value=1
    )
    reports: int = setting(100, "reports in a batch (k)", min_value=1)
    items: int = setting(1000, "items in the catalogue (M)", min_value=1)
    full: bool = setting(
        default=False, help="whether the server's epoch is sealed and opened for real"
    )

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class LiveBenchResult:
    """All measurements, and costs that follow from them."""

    plan: LiveBenchPlan
    cores: int
    opening: list[OpeningRate]
    core: CoreRate
    intake: Intake
    dummies: Spread
    """Dummies in a second of a core of the proxy."""
    tokens: TokenRates
    counting: Counting
    units: UnitCosts


def run_live_bench(plan: LiveBenchPlan, watch: Watch = lambda _what: None) -> LiveBenchResult:
    """Measure everything, with databases in a temporary folder on a real disk (see TMPDIR)."""
    cores = os.cpu_count() or 1
    # One process is the unit of all costs; several show whether they scale.
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
        dummies = measure_dummies(
            bench, folder, dummies=plan.chunk, rounds=plan.repeats, watch=watch
        )
        tokens = measure_tokens(bench.signed, folder, rounds=plan.repeats, watch=watch)
        counting = measure_counting(
            bench,
            folder,
            reports=plan.batches * plan.reports,
            chunk_reports=plan.chunk,
            processes=processes[-1],
            for_real=plan.full,
            watch=watch,
        )
        units = UnitCosts.from_measurements(bench, core, intake, dummies)
    return LiveBenchResult(plan, cores, opening, core, intake, dummies, tokens, counting, units)


@dataclass(frozen=True)
class UnitCosts:
    """Costs of one report, batch or device: seconds of one core of this machine, exact bytes."""

    reports: int
    """k, reports in a batch."""
    items: int
    """Items in the catalogue."""
    opening: float
    """Seconds of a report at the server: opened, checked, counted, synced."""
    intake: float
    """Seconds of a batch at the proxy: accepted, synced, acknowledged."""
    mixing: float
    """Seconds of a batch at the proxy: mixed and sent to the server."""
    dummy: float
    """Seconds of a dummy at the proxy: drawn, sealed, synced; then it is mixed like a report."""
    up: int
    """Bytes that a device sends in an epoch, without HTTP and TLS."""
    down: int
    """Bytes that a device fetches in an epoch: manifest and model, not compressed."""
    catalogue: int
    """Bytes that a device fetches once for each version of the catalogue."""

    @classmethod
    def from_measurements(
        cls, bench: BenchServer, core: CoreRate, intake: Intake, dummies: Spread
    ) -> UnitCosts:
        """Compute the costs from medians, and from the bytes of this epoch's files."""
        signed, reports = bench.signed, bench.signed.manifest.terms.reports
        batch = Batch(signed.manifest.epoch, signed.hash, bytes(16), bytes(SEALED_BYTES * reports))
        return cls(
            reports=reports,
            items=len(bench.catalogue.items),
            # Medians: a burst of other work on the machine must not decide the cost.
            opening=1 / core.per_second.median,
            intake=1 / intake.per_cpu_second.median,
            mixing=1 / intake.mixed_per_cpu_second.median,
            dummy=1 / dummies.median,
            up=len(batch.encode()),
            down=len(signed.encode()) + len(bench.model),
            catalogue=len(bench.catalogue.raw),
        )

    def compute_epoch(self, people: int) -> EpochCosts:
        """Return the costs of an epoch in which this number of people report."""
        reports = people * self.reports
        return EpochCosts(
            people=people,
            reports=reports,
            server_core_hours=reports * self.opening / 3600,
            proxy_core_hours=people * (self.intake + self.mixing) / 3600,
            up=people * self.up,
            down=people * self.down,
            proxy_disk=estimate_disk_bytes(people, self.reports),
            server_disk=SERVER_BYTES_PER_REPORT * reports,
        )


@dataclass(frozen=True)
class EpochCosts:
    """Costs of one epoch; bytes are those of all devices together."""

    people: int
    reports: int
    server_core_hours: float
    proxy_core_hours: float
    up: int
    """Bytes from devices to proxies. Proxies send the server 56 bytes less for each batch."""
    down: int
    proxy_disk: int
    """Most bytes at a time, of all proxies together."""
    server_disk: int
    """Bytes until the epoch is applied."""

"""The whole benchmark of the live system: opening, intake, memory, and costs of an epoch."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sottovoce.protocol import MAX_CHUNK_REPORTS, SEALED_BYTES, Batch
from sottovoce.proxy.epoch_files import estimate_disk_bytes
from sottovoce.settings import check, setting
from sottovoce.training import DEFAULT_PRESET, Settings
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
    processes: int = setting(
        0, "processes that open reports, compared with one process; 0: one for each core"
    )
    chunk: int = setting(
        MAX_CHUNK_REPORTS, "reports in a chunk", min_value=1, max_value=MAX_CHUNK_REPORTS
    )
    batches: int = setting(
        10_000, "batches in an epoch; the server's epoch has all their reports", min_value=1
    )
    reports: int = setting(100, "k: reports in a batch", min_value=1)
    items: int = setting(1000, "M: items in the catalogue", min_value=1)
    full: bool = setting(
        default=False,
        help="whether the reports of the server's epoch are encrypted and decrypted; otherwise "
        "random bytes stand for them",
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
    """Dummies that the proxy makes per CPU second."""
    tokens: TokenRates
    counting: Counting
    units: UnitCosts


def run_live_bench(plan: LiveBenchPlan, watch: Watch = lambda _what: None) -> LiveBenchResult:
    """Measure everything, with databases in a temporary folder on a real disk (see TMPDIR)."""
    cores = os.cpu_count() or 1
    # All costs are of one process. Several processes show whether the rate grows with their number.
    processes = sorted({1, plan.processes or cores})
    with tempfile.TemporaryDirectory(prefix="sottovoce-bench-") as name:
        folder = Path(name)
        training = Settings.preset(DEFAULT_PRESET, reports=plan.reports)
        bench = BenchServer.make(folder / "bench", items=plan.items, training=training)
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
    """Costs of one report, batch or device: CPU seconds on this machine, and exact bytes."""

    reports: int
    """k, reports in a batch."""
    items: int
    """Items in the catalogue."""
    opening: float
    """CPU seconds in which the server opens, checks, counts and stores a report."""
    intake: float
    """CPU seconds in which the proxy accepts, stores and acknowledges a batch."""
    mixing: float
    """CPU seconds in which the proxy mixes a batch and sends it to the server."""
    dummy: float
    """CPU seconds in which the proxy draws, seals and stores a dummy; mixing is not included."""
    up: int
    """Bytes that a device sends in an epoch, without HTTP and TLS."""
    down: int
    """Bytes that a device fetches in an epoch: manifest and model, uncompressed."""
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
    """Costs of one epoch; bytes are those of all devices or proxies together."""

    people: int
    reports: int
    server_core_hours: float
    proxy_core_hours: float
    up: int
    """Bytes that devices send to proxies. Proxies send 56 bytes less for each batch to the
    server."""
    down: int
    """Bytes that devices fetch."""
    proxy_disk: int
    """Largest number of bytes that proxies store at the same time."""
    server_disk: int
    """Bytes that the server stores until the epoch is applied."""

"""What an epoch costs, from what one report and one batch cost where it was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.protocol import SEALED, Batch
from sottovoce.proxy.status import AT_THE_END

if TYPE_CHECKING:
    from sottovoce.experiments.live.bench.bench_server import BenchServer
    from sottovoce.experiments.live.bench.intake import Intake
    from sottovoce.experiments.live.bench.opening import CoreRate

PREFIX = 8
"""Bytes that the server keeps of each report until its epoch is applied."""


@dataclass(frozen=True)
class UnitCosts:
    """Seconds are CPU time of one core of this machine; bytes are exact."""

    reports: int
    """k: in a batch."""
    items: int
    """In the catalogue."""
    opening: float
    """Seconds of a report at the server: opened, checked, counted, synced."""
    intake: float
    """Seconds of a batch at the proxy: taken, synced, acknowledged."""
    mixing: float
    """Seconds of a batch at the proxy: mixed and handed in."""
    up: int
    """Bytes that a device sends in an epoch, without HTTP and TLS."""
    down: int
    """Bytes that it fetches in an epoch: manifest and model, not compressed."""
    catalogue: int
    """Bytes that it fetches once for each version of the catalogue."""

    @classmethod
    def measured(cls, bench: BenchServer, core: CoreRate, intake: Intake) -> UnitCosts:
        signed, reports = bench.signed, bench.signed.manifest.terms.reports
        batch = Batch(signed.manifest.epoch, signed.hash, bytes(16), bytes(SEALED * reports))
        return cls(
            reports=reports,
            items=len(bench.catalogue.items),
            opening=1 / core.per_second.median,
            intake=1 / intake.per_cpu_second.median,
            mixing=1 / intake.mixed_per_cpu_second.median,
            up=len(batch.encode()),
            down=len(signed.encode()) + len(bench.model),
            catalogue=len(bench.catalogue.raw),
        )

    def of(self, people: int) -> EpochCosts:
        """For so many who report in an epoch."""
        reports = people * self.reports
        return EpochCosts(
            people=people,
            reports=reports,
            server_core_hours=reports * self.opening / 3600,
            proxy_core_hours=people * (self.intake + self.mixing) / 3600,
            up=people * self.up,
            down=people * self.down,
            proxy_disk=AT_THE_END * people * self.up,
            server_disk=PREFIX * reports,
        )


@dataclass(frozen=True)
class EpochCosts:
    """Of one epoch; bytes are those of all devices together."""

    people: int
    reports: int
    server_core_hours: float
    proxy_core_hours: float
    up: int
    """Devices to proxies, and, without 56 bytes a batch, proxies to server."""
    down: int
    proxy_disk: int
    """At the most, over all proxies."""
    server_disk: int
    """Until the epoch is applied."""

"""Metrics of the server. They describe the whole server, never a single batch or chunk."""

from prometheus_client import Enum

from sottovoce.protocol import Manifest
from sottovoce.server.problems import DROP_REASONS
from sottovoce.server.transaction import APPLIED, Epoch
from sottovoce.service.logs import Troubles
from sottovoce.service.metrics import ServiceMetrics

# Fields of `Epoch` that have a gauge for the last applied epoch.
APPLIED_FIELDS = ("epoch", "reports", *DROP_REASONS)
GAUGES = {
    "beat_failures": "Consecutive ticks that failed",
    "disk_free_bytes": "Free bytes on the disk of the database; NaN if it is not a file",
    "epoch": "Number of the latest epoch",
    "training": "Number of the latest epoch's training",
    "items": "Items in the catalogue of the latest epoch",
    "items_left": "Items that the catalogue of the latest epoch may still get under its terms",
    "overdue_seconds": "Seconds since the latest epoch could have been closed; 0 before",
    "applied_epoch": "Number of the last applied epoch",
    "applied_reports": "Reports counted in the last applied epoch",
    **{
        f"applied_{name}": f"Reports dropped in the last applied epoch because they {reason}"
        for name, reason in DROP_REASONS.items()
    },
}


class Metrics(ServiceMetrics):
    """The server's counters and gauges."""

    def __init__(self, troubles: Troubles) -> None:
        super().__init__("server", GAUGES, troubles)
        self._state = Enum(
            "sottovoce_server_epoch_state",
            "State of the latest epoch",
            states=["none", "open", "closed", "applied"],
            registry=self.registry,
        )
        self.chunks = self.add_counter("chunks", "Chunks handled by this worker")
        self.opening = self.add_counter("opening_seconds", "Seconds spent on opening chunks")
        self.unknown = self.add_counter("unknown_proxy", "Requests without a known proxy's secret")

    def describe_epochs(
        self, latest: Epoch | None, manifest: Manifest | None, applied: Epoch | None, now: float
    ) -> None:
        """Set the gauges of the latest epoch, its manifest, and the last applied epoch."""
        self._state.state(latest.state if latest else "none")
        is_running = latest is not None and latest.state != APPLIED
        self.set_values(
            {
                "epoch": latest.epoch if latest else 0,
                "training": latest.training if latest else 0,
                "items": manifest.items if manifest else 0,
                "items_left": manifest.terms.max_items - manifest.items if manifest else 0,
                "overdue_seconds": max(now - latest.closes, 0.0) if latest and is_running else 0.0,
                **{f"applied_{name}": getattr(applied, name, 0) for name in APPLIED_FIELDS},
            }
        )

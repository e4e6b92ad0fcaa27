"""What an operator may watch: the whole server in a few numbers, nothing of a batch or a chunk."""

from prometheus_client import Enum

from sottovoce.protocol import Manifest
from sottovoce.server.problems import DROP_REASONS
from sottovoce.server.transaction import APPLIED, Epoch
from sottovoce.service.logs import Troubles
from sottovoce.service.metrics import ServiceMetrics

# Fields of the last applied epoch that have a gauge.
APPLIED_FIELDS = ("epoch", "reports", *DROP_REASONS)
GAUGES = {
    "beat_failures": "Beats in a row that failed",
    "disk_free_bytes": "Free where the database lies; NaN: it is no file",
    "epoch": "Number of the latest epoch",
    "training": "Number of the latest epoch's training",
    "items": "In the catalogue of the latest epoch",
    "overdue_seconds": "Seconds that the latest epoch waits beyond its end; 0 before it",
    "applied_epoch": "Number of the last applied epoch",
    "applied_reports": "Counted in the last applied epoch",
    **{f"applied_{name}": f"Dropped in it: they {why}" for name, why in DROP_REASONS.items()},
}


class Metrics(ServiceMetrics):
    """The server's counters and gauges."""

    def __init__(self, troubles: Troubles) -> None:
        super().__init__("server", GAUGES, troubles)
        self._state = Enum(
            "sottovoce_server_epoch_state",
            "Of the latest epoch",
            states=["none", "open", "closed", "applied"],
            registry=self.registry,
        )
        self.chunks = self.add_counter("chunks", "Chunks taken by this worker")
        self.opening = self.add_counter("opening_seconds", "Seconds spent on opening chunks")
        self.unknown = self.add_counter("unknown_proxy", "Requests without a known proxy's secret")

    def describe_epochs(
        self, latest: Epoch | None, manifest: Manifest | None, applied: Epoch | None, now: float
    ) -> None:
        """Set the gauges of the latest epoch with its manifest, and of the last applied one."""
        self._state.state(latest.state if latest else "none")
        is_running = latest is not None and latest.state != APPLIED
        self.set_values(
            {
                "epoch": latest.epoch if latest else 0,
                "training": latest.training if latest else 0,
                "items": manifest.items if manifest else 0,
                "overdue_seconds": max(now - latest.closes, 0.0) if latest and is_running else 0.0,
                **{f"applied_{name}": getattr(applied, name, 0) for name in APPLIED_FIELDS},
            }
        )

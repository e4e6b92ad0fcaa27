"""What an operator may watch: the whole server in a few numbers, nothing of a batch or a chunk."""

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Enum, Gauge, generate_latest

from sottovoce.protocol import Manifest
from sottovoce.server.problems import DROP_REASONS
from sottovoce.server.transaction import APPLIED, Epoch, ProxyContact
from sottovoce.service.connections import RejectionCounter

# Fields of the last applied epoch that have a gauge.
APPLIED_FIELDS = ("epoch", "reports", *DROP_REASONS)
GAUGES = {
    "refused_proxies": "Proxies whose epoch cannot be counted here, or of which there are two",
    "clock_apart_seconds": "Between this clock and that of the proxy that differs most",
    "silent_seconds": "Since the proxy spoke that has been silent longest",
    "keys_wrong": "1: this worker's keys file is lost, or another signing key follows its own",
    "beat_failures": "Beats in a row that failed",
    "certificate_seconds": "Until the first certificate expires; NaN: there is none",
    "disk_free_bytes": "Free where the database lies; NaN: it is no file",
    "epoch": "Number of the latest epoch",
    "training": "Number of the latest epoch's training",
    "items": "In the catalogue of the latest epoch",
    "overdue_seconds": "Seconds that the latest epoch waits beyond its end; 0 before it",
    "applied_epoch": "Number of the last applied epoch",
    "applied_reports": "Counted in the last applied epoch",
    **{f"applied_{name}": f"Dropped in it: they {why}" for name, why in DROP_REASONS.items()},
}


class Metrics:
    """Counters and gauges in Prometheus' format."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._gauges = {
            name: Gauge(f"sottovoce_server_{name}", help_text, registry=self._registry)
            for name, help_text in GAUGES.items()
        }
        self._state = Enum(
            "sottovoce_server_epoch_state",
            "Of the latest epoch",
            states=["none", "open", "closed", "applied"],
            registry=self._registry,
        )
        self.chunks = self._add_counter("chunks", "Chunks taken by this worker")
        self.opening = self._add_counter("opening_seconds", "Seconds spent on opening chunks")
        self.unknown = self._add_counter("unknown_proxy", "Requests without a known proxy's secret")
        self.turned_away = RejectionCounter("server", self._registry)

    def set_gauges(self, **functions: Callable[[], float]) -> None:
        """Set the functions that return the values of gauges."""
        for name, function in functions.items():
            self._gauges[name].set_function(function)

    def render(
        self,
        latest: Epoch | None,
        manifest: Manifest | None,
        applied: Epoch | None,
        contacts: Sequence[ProxyContact],
        now: float,
    ) -> bytes:
        """Return all metrics in Prometheus' text format.

        They describe the latest epoch with its manifest, and the last applied one.
        """
        self._state.state(latest.state if latest else "none")
        is_running = latest is not None and latest.state != APPLIED
        values = {
            "epoch": latest and latest.epoch,
            "training": latest and latest.training,
            "items": manifest and manifest.items,
            "overdue_seconds": max(now - latest.closes, 0.0) if latest and is_running else 0.0,
            "refused_proxies": sum(bool(c.refusal) or c.has_duplicate for c in contacts),
            "clock_apart_seconds": max((abs(c.clock_ahead) for c in contacts), default=0.0),
            "silent_seconds": max((now - c.last_contact for c in contacts), default=0.0),
            **{f"applied_{name}": getattr(applied, name, 0) for name in APPLIED_FIELDS},
        }
        for name, value in values.items():
            self._gauges[name].set(value or 0)
        return generate_latest(self._registry)

    def _add_counter(self, name: str, help_text: str) -> Counter:
        return Counter(f"sottovoce_server_{name}", help_text, registry=self._registry)

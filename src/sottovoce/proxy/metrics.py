"""The proxy's metrics. They count for all: nothing about one batch, one address or one moment."""

from collections.abc import Callable
from http import HTTPStatus

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from starlette.exceptions import HTTPException

from sottovoce.errors import (
    ClosedError,
    FullError,
    ProtocolError,
    RefusedError,
    StoreError,
    UnavailableError,
    WrongEpochError,
)
from sottovoce.service.connections import RejectionCounter

# Why a batch was refused, by the class of the error; the first class that fits counts.
REFUSAL_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (ProtocolError, "malformed"),
    (WrongEpochError, "wrong_epoch"),
    (ClosedError, "closed"),
    (RefusedError, "known"),
    (StoreError, "store"),
    (FullError, "full"),
    (UnavailableError, "unavailable"),
    (HTTPException, "http"),
)
OTHER_REASON = "disconnected"
RATE_REASON = "rate"

# What becomes of an epoch.
FLUSH_SHUFFLED = "shuffled"
FLUSH_EMPTY = "empty"
# Too few people reported.
FLUSH_DISCARDED = "discarded"
# The server went on without this proxy.
FLUSH_GIVEN_UP = "given_up"

GAUGES = {
    "batches_waiting": "Batches that wait for the end of the epoch",
    "epoch": "The epoch that clients are shown; 0 for none",
    "crowd": "Batches that the current epoch waits for",
    "overdue_seconds": "Seconds that the epoch waits beyond its end",
    "disk_free_bytes": "Free bytes on the disk of the database",
    "beat_failures": "Ticks of the heartbeat in a row that failed",
    "certificate_seconds": "Seconds until the first certificate expires; NaN: there is none",
    "clock_ahead_seconds": "Seconds that this clock was ahead of the server's when last compared",
    "barred": "1: nothing is taken, because it could not be counted",
}


class Metrics:
    """Counters and gauges in Prometheus' format."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._gauges = {
            name: Gauge(f"sottovoce_proxy_{name}", help_text, registry=self._registry)
            for name, help_text in GAUGES.items()
        }
        self.accepted = self._add_counter("batches_accepted", "Batches on disk, with repeated ones")
        self._refused = self._add_counter("batches_refused", "Batches refused", "reason")
        self.flushes = self._add_counter("flushes", "Epochs ended", "outcome")
        self.forwarded = self._add_counter(
            "reports_forwarded", "Reports that the server confirmed, with dummies"
        )
        self.lost = self._add_counter(
            "reports_lost", "Reports that the server took no more, with dummies"
        )
        self.untrusted = self._add_counter(
            "manifests_untrusted", "Manifests and shelves of the server that were refused"
        )
        self.turned_away = RejectionCounter("proxy", self._registry)
        # Labels that are declared now are exported as 0 before the first event.
        for reason in (*(name for _, name in REFUSAL_REASONS), OTHER_REASON, RATE_REASON):
            self._refused.labels(reason)
        for outcome in (FLUSH_SHUFFLED, FLUSH_EMPTY, FLUSH_DISCARDED, FLUSH_GIVEN_UP):
            self.flushes.labels(outcome)

    def count_refusal(self, error: BaseException) -> None:
        """Count a batch that was refused with this error."""
        reason = next(
            (name for kind, name in REFUSAL_REASONS if isinstance(error, kind)), OTHER_REASON
        )
        if isinstance(error, HTTPException) and error.status_code == HTTPStatus.TOO_MANY_REQUESTS:
            reason = RATE_REASON
        self._refused.labels(reason).inc()

    def set_gauges(self, **functions: Callable[[], float]) -> None:
        """Set the functions that return the values of gauges."""
        for name, function in functions.items():
            self._gauges[name].set_function(function)

    def list_notes(self) -> list[str]:
        """Return what an operator should know although it is no fault of the proxy."""
        name, reason = "sottovoce_proxy_batches_refused_total", {"reason": RATE_REASON}
        n_limited = self._registry.get_sample_value(name, reason) or 0
        text = "Batches refused for their address ([rate]) since the start"
        return [f"{text}: {n_limited:,.0f}"] if n_limited else []

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def _add_counter(self, name: str, help_text: str, *labels: str) -> Counter:
        return Counter(f"sottovoce_proxy_{name}", help_text, labels, registry=self._registry)

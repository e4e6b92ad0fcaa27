"""The proxy's metrics: totals, which tell nothing about a single batch, address or moment."""

from http import HTTPStatus

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
from sottovoce.service.logs import Troubles
from sottovoce.service.metrics import ServiceMetrics

# Values of the label `reason` for refused batches. The first class that fits the error is used.
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

# Values of the label `outcome` for ended epochs.
FLUSH_SHUFFLED = "shuffled"
FLUSH_EMPTY = "empty"
# Too few people have reported.
FLUSH_DISCARDED = "discarded"
# The server has ended the epoch without this proxy.
FLUSH_GIVEN_UP = "given_up"

GAUGES = {
    "batches_waiting": "Batches that wait for the end of the epoch",
    "epoch": "The epoch that clients are shown; 0 for none",
    "crowd": "Batches that the current epoch waits for",
    "overdue_seconds": "Seconds that the epoch waits beyond its end",
    "disk_free_bytes": "Free bytes on the disk of the database",
    "beat_failures": "Consecutive ticks of the heartbeat that failed",
    "paused": "1: the proxy takes no batches, because it could not deliver or count them",
}


class Metrics(ServiceMetrics):
    """The proxy's counters and gauges."""

    def __init__(self, troubles: Troubles) -> None:
        super().__init__("proxy", GAUGES, troubles)
        self.accepted = self.add_counter("batches_accepted", "Batches on disk, with repeated ones")
        self._refused = self.add_counter("batches_refused", "Batches refused", "reason")
        self.flushes = self.add_counter("flushes", "Epochs ended", "outcome")
        self.forwarded = self.add_counter(
            "reports_forwarded", "Reports that the server confirmed, with dummies"
        )
        self.lost = self.add_counter(
            "reports_lost", "Reports that the server no longer accepted, with dummies"
        )
        self.untrusted = self.add_counter(
            "manifests_untrusted", "Manifests and shelves of the server that were refused"
        )
        # Declare all labels, so that they are exported as 0 before the first event.
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

    def list_notes(self) -> list[str]:
        """Return notes for the operator about things that are no fault of the proxy."""
        name, reason = "sottovoce_proxy_batches_refused_total", {"reason": RATE_REASON}
        n_limited = self.registry.get_sample_value(name, reason) or 0
        text = "Batches refused for their address ([rate]) since the start"
        return [f"{text}: {n_limited:,.0f}"] if n_limited else []

"""Counts for the whole proxy: nothing about one batch, one address or one moment."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

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
from sottovoce.service import TurnedAway

if TYPE_CHECKING:
    from collections.abc import Callable

REASONS: tuple[tuple[type[Exception], str], ...] = (
    (ProtocolError, "malformed"),
    (WrongEpochError, "wrong_epoch"),
    (ClosedError, "closed"),
    (RefusedError, "known"),
    (StoreError, "store"),
    (FullError, "full"),
    (UnavailableError, "unavailable"),
    (HTTPException, "http"),
)
OTHER, RATE = "disconnected", "rate"
SHUFFLED, EMPTY, DISCARDED, GIVEN_UP = "shuffled", "empty", "discarded", "given_up"
"""What becomes of an epoch: mixed; nobody came; too few came; the server went on without us."""


class Metrics:
    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._watched: dict[str, Gauge] = {}
        self.accepted = self._counter("batches_accepted", "Batches on disk, resent ones included")
        self._refused = self._counter("batches_refused", "Batches turned away", "reason")
        self._flushes = self._counter("flushes", "Epochs ended", "outcome")
        self.forwarded = self._counter("reports_forwarded", "Reports that the server confirmed")
        self.lost = self._counter("reports_lost", "Reports that came too late for the server")
        self.untrusted = self._counter("manifests_untrusted", "Manifests of the server refused")
        self.turned_away = TurnedAway("proxy", self._registry)
        for _, reason in (*REASONS, (Exception, OTHER), (Exception, RATE)):
            self._refused.labels(reason)
        for outcome in (SHUFFLED, EMPTY, DISCARDED, GIVEN_UP):
            self._flushes.labels(outcome)

    def refused(self, error: BaseException) -> None:
        reason = next((name for kind, name in REASONS if isinstance(error, kind)), OTHER)
        if isinstance(error, HTTPException) and error.status_code == HTTPStatus.TOO_MANY_REQUESTS:
            reason = RATE
        self._refused.labels(reason).inc()

    def flushed(self, reports: int, batches: int) -> None:
        """So many were there, and so much of them goes on."""
        outcome = SHUFFLED if reports else DISCARDED if batches else EMPTY
        self._flushes.labels(outcome).inc()

    def given_up(self, reports: int) -> None:
        """The server went on without us."""
        self._flushes.labels(GIVEN_UP).inc()
        self.lost.inc(reports)

    def watch(self, name: str, about: str, value: Callable[[], float]) -> None:
        """A number that is looked up when somebody asks."""
        if name not in self._watched:
            full = f"sottovoce_proxy_{name}"
            self._watched[name] = Gauge(full, about, registry=self._registry)
        self._watched[name].set_function(value)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"sottovoce_proxy_{name}", about, labels, registry=self._registry)

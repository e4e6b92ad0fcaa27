"""What an operator may watch: the whole server in a few numbers, nothing of a batch or a chunk."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Enum, Gauge, generate_latest

from sottovoce.service import TurnedAway

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sottovoce.protocol import Manifest
    from sottovoce.server.store import Epoch


class Metrics:
    """Of one worker, in a registry of its own."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()

        def counter(name: str, about: str) -> Counter:
            return Counter(f"sottovoce_server_{name}", about, registry=registry)

        def gauge(name: str, about: str) -> Gauge:
            return Gauge(f"sottovoce_server_{name}", about, registry=registry)

        self._old_key = gauge("key_is_old", "1: another signing key follows the one of this worker")
        self._chunks = counter("chunks", "Chunks taken by this worker")
        self._seconds = counter("opening_seconds", "Seconds that chunks spent being opened")
        self._unknown = counter("unknown_proxy", "Requests without the secret of a known proxy")
        self.turned_away = TurnedAway("server", registry)
        self._epoch = gauge("epoch", "Number of the latest epoch")
        self._state = Enum(
            "sottovoce_server_epoch_state",
            "Of the latest epoch",
            states=["none", "open", "closed", "applied"],
            registry=registry,
        )
        self._training = gauge("training", "Number of the latest epoch's training")
        self._catalogue = gauge("catalogue_version", "Of the latest epoch")
        self._items = gauge("items", "In the catalogue of the latest epoch")
        self._overdue = gauge(
            "overdue_seconds", "Seconds that the latest epoch waits beyond its end; 0 before it"
        )
        self._applied = gauge("applied_epoch", "Number of the last applied epoch")
        self._reports = gauge("applied_reports", "Counted in the last applied epoch")
        self._duplicates = gauge("applied_duplicates", "Dropped in the last applied epoch")
        self._undecodable = gauge("applied_undecodable", "Not openable, last applied epoch")
        self._crowdless = gauge(
            "applied_crowdless", "Dropped in the last applied epoch: from proxies without a crowd"
        )
        self._capped = gauge(
            "applied_capped",
            "Dropped in the last applied epoch: more of one kind than honest people send",
        )

    def key_is_old(self, *, is_old: bool) -> None:
        self._old_key.set(is_old)

    def took_chunk(self) -> None:
        """Counted now or before."""
        self._chunks.inc()

    def unknown_proxy(self) -> None:
        """Only counted: who it was is not kept."""
        self._unknown.inc()

    @contextmanager
    def opening(self) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self._seconds.inc(time.perf_counter() - began)

    def text(
        self, latest: Epoch | None, manifest: Manifest | None, applied: Epoch | None, now: float
    ) -> bytes:
        self._epoch.set(latest.epoch if latest else 0)
        self._state.state(latest.state if latest else "none")
        self._training.set(latest.training if latest else 0)
        self._catalogue.set(manifest.catalogue_version if manifest else 0)
        self._items.set(manifest.items if manifest else 0)
        waits = latest is not None and latest.state != "applied"
        self._overdue.set(max(now - latest.closes, 0.0) if latest and waits else 0.0)
        self._applied.set(applied.epoch if applied else 0)
        self._reports.set(applied.reports if applied else 0)
        self._duplicates.set(applied.duplicates if applied else 0)
        self._undecodable.set(applied.undecodable if applied else 0)
        self._crowdless.set(applied.crowdless if applied else 0)
        self._capped.set(applied.capped if applied else 0)
        return generate_latest(self._registry)

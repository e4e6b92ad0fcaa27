"""The proxy: the paper's component 2. It strips, holds, shuffles and forwards.

`accept` is what clients cause, `tick` what the proxy does by itself. A beat can be cut off at any
point and done again: every step either is one transaction or may be repeated.
"""

import logging
import os
import threading
import time
from collections.abc import Callable

from sottovoce.errors import ProtocolError, UnavailableError
from sottovoce.protocol import SignedManifest
from sottovoce.protocol.batch import SHORT, Crowd, crowd_of
from sottovoce.protocol.manifest import short_name
from sottovoce.proxy.forward import Mirror, MirroredEpoch, Upstream, forward
from sottovoce.proxy.intake import Intake
from sottovoce.proxy.settings import ProxySettings
from sottovoce.proxy.shuffle import A_BEAT, Entropy, discard, draw_dummies, dummies_due, flush
from sottovoce.proxy.status import DISCARDED, EMPTY, GIVEN_UP, SHUFFLED, Metrics
from sottovoce.proxy.store import ProxyStore

log = logging.getLogger("sottovoce")


class Proxy:
    def __init__(
        self,
        store: ProxyStore,
        upstream: Upstream,
        settings: ProxySettings,
        *,
        clock: Callable[[], float] = time.time,
        entropy: Entropy = os.urandom,
    ):
        self._store = store
        self._upstream = upstream
        self._settings = settings
        self._clock = clock
        self._entropy = entropy
        self._unscrubbed = False
        self._beating = threading.Lock()
        self.mirror = Mirror(store, upstream, settings.key, keep_models=settings.keep_models)
        self.intake = Intake(
            store, clock, most_batches=settings.most_batches, most_bytes=settings.most_bytes
        )
        self.metrics = Metrics()
        self._resume()
        self.metrics.watch(
            batches_waiting=lambda: self.intake.waiting,
            epoch=lambda: self.intake.epoch,
            crowd=self._needed,
            overdue_seconds=self._overdue,
            disk_free_bytes=store.free_bytes,
        )
        if settings.least_clients > 1 and not settings.rate.per_epoch:
            log.warning(
                "rate.per_epoch is 0: one address may send a whole crowd, unless what is in front "
                "of this proxy limits it"
            )

    def accept(self, data: bytes) -> None:
        """Take a batch; it is on disk when this returns."""
        (problem,) = self.intake.keep([self.intake.check(data)])
        if problem is not None:
            raise problem

    def manifest(self) -> SignedManifest | None:
        """Of the present epoch; None before the first."""
        return None if self.mirror.current is None else self.mirror.current.signed

    def check(self) -> None:
        """Whether a client would be served now; `UnavailableError` if not."""
        if self.mirror.current is None or self._store.failing:
            raise UnavailableError("no manifest yet, or the database cannot be written")

    def tick(self) -> None:
        """One beat, and never two at once: an epoch ends by one of them.

        What cannot be done now is raised, and done at a later one.
        """
        with self._beating:
            if self._store.failing:
                self._store.probe()
            if self._unscrubbed:
                self._scrub()
            self._end_by_clock()
            try:
                self._follow_server()
            finally:  # also without a server; not for an epoch that it has left
                self._draw()
            self._tell_crowd()
            self._forward()

    def _resume(self) -> None:
        """Go on where an earlier process was."""
        signed = self.manifest()
        if signed is None:
            return
        with self._store.read() as tables:
            over, waiting = tables.is_flushed(signed.manifest.epoch), tables.count_batches()
        if over:
            self.intake.close(signed)
        else:
            self.intake.open(signed, waiting=waiting)

    def _end_by_clock(self) -> None:
        """An epoch waits no longer than its terms say, whether or not the server is there."""
        signed = self._running()
        if signed is not None and self._clock() >= signed.manifest.ends:
            self._end(signed)

    def _follow_server(self) -> None:
        """A new epoch is shown to clients only after the one before was flushed or given up.

        A server that goes on while ours still runs will count nothing of it any more: so nothing is
        mixed or forwarded, and nobody else is asked to report in it.
        """
        try:
            newer = self.mirror.newer()
            if newer is not None:
                self._go_on(newer)
            shelf = self.mirror.newer_shelf()
        except ProtocolError as error:
            self.metrics.untrusted.inc()
            log.error("%s: %s", type(error).__name__, error)
            return
        if shelf is not None:
            self.mirror.publish_shelf(shelf)

    def _go_on(self, newer: MirroredEpoch) -> None:
        signed = self._running()
        if signed is not None:
            self._give_up(signed)
        self.mirror.publish(newer)
        self.intake.open(newer.signed)
        log.info("epoch %d: %s", newer.signed.manifest.epoch, short_name(newer.signed.hash))

    def _draw(self) -> None:
        """The dummies that are due by now, if beside all of them there is room for anybody."""
        if (signed := self._running()) is not None and self.intake.has_any_room:
            due = dummies_due(signed.manifest, self._clock())
            draw_dummies(self._store, signed, due, self._entropy, most=A_BEAT)

    def _tell_crowd(self) -> None:
        """Nothing is said, and nothing that the server says is heard, before the epoch's time.

        Otherwise a server could end an epoch at the moment when only one person has reported, or
        fill the crowd up by itself.
        """
        signed = self._running()
        if signed is None or self._clock() < signed.manifest.closes:
            return
        state = self._upstream.waiting(signed.manifest.epoch, self._crowd(signed))
        if state == "applied":
            self._give_up(signed)
        elif state == "closed" and self._crowd(signed) != SHORT:
            self._end(signed)

    def _crowd(self, signed: SignedManifest) -> Crowd:
        return crowd_of(self.intake.waiting, self._least(signed))

    def _least(self, signed: SignedManifest) -> int:
        return self._settings.least_for(signed.manifest.terms)

    def _forward(self) -> None:
        with self._store.read() as tables:
            unsettled = tables.unsettled()
        for done in unsettled:
            self._unscrubbed = True
            taken = forward(self._store, self._upstream, done, self.intake.epoch)
            (self.metrics.forwarded if taken else self.metrics.lost).inc(done.reports)
            self._scrub()

    def _running(self) -> SignedManifest | None:
        """The manifest of an epoch that asks for reports and is not over."""
        signed = self.manifest()
        if signed is None or signed.manifest.public_key is None:
            return None
        with self._store.read() as tables:
            return None if tables.is_flushed(signed.manifest.epoch) else signed

    def _end(self, signed: SignedManifest) -> None:
        """Refuse from now on; then mix what there is, or discard it if it is too little."""
        self.intake.close(signed)
        self._unscrubbed = True
        batches, done = flush(
            self._store,
            signed,
            least=self._least(signed),
            chunk_reports=self._settings.chunk_reports,
            entropy=self._entropy,
        )
        self.intake.reset_waiting()
        outcome = SHUFFLED if done.reports else DISCARDED if batches else EMPTY
        self.metrics.flushes.labels(outcome).inc()
        self._scrub()

    def _give_up(self, signed: SignedManifest) -> None:
        """The server has gone on without us: what waits here can never count."""
        self.intake.close(signed)
        self._unscrubbed = True
        lost = discard(self._store, signed)
        self.intake.reset_waiting()
        self.metrics.flushes.labels(GIVEN_UP).inc()
        self.metrics.lost.inc(lost)
        said = "epoch %d: the server went on without us; %d reports that waited are given up"
        log.error(said, signed.manifest.epoch, lost)
        self._scrub()

    def _scrub(self) -> None:
        self._store.scrub()
        self._unscrubbed = False

    def _needed(self) -> int:
        signed = self.manifest()
        return self._settings.least_clients if signed is None else self._least(signed)

    def _overdue(self) -> float:
        """0 before its end, and once it is mixed or given up. From memory: the disk may fail."""
        signed = self.manifest()
        if signed is None or signed.manifest.public_key is None or not self.intake.is_open:
            return 0.0
        return max(self._clock() - signed.manifest.closes, 0.0)

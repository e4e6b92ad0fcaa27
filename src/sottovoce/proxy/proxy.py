"""The proxy: the paper's component 2. It strips, holds, shuffles and forwards.

`accept` is what clients cause, `tick` what the proxy does by itself. A beat can be cut off at any
point and done again: every step either is one transaction or may be repeated.
"""

import logging
import os
import threading
import time
from collections.abc import Callable

from sottovoce.errors import ProtocolError, RefusedError, UnavailableError
from sottovoce.protocol import SignedManifest
from sottovoce.protocol.contact import (
    MONTH,
    NEVER,
    SHORT,
    Contact,
    Crowd,
    borne,
    crowd_of,
    new_process,
)
from sottovoce.protocol.manifest import short_name
from sottovoce.proxy.accounts import Accounts
from sottovoce.proxy.forward import Mirror, MirroredEpoch, Upstream, forward
from sottovoce.proxy.intake import Intake
from sottovoce.proxy.settings import ProxySettings
from sottovoce.proxy.shuffle import A_BEAT, Entropy, discard, draw_dummies, dummies_due, flush
from sottovoce.proxy.status import (
    DISCARDED,
    EMPTY,
    GIVEN_UP,
    SHUFFLED,
    Metrics,
    at_odds,
    clocks_apart,
)
from sottovoce.proxy.store import ProxyStore
from sottovoce.service.logs import Troubles

log = logging.getLogger("sottovoce")

LITTLE = 2**24
"""Free bytes below which every beat tries whether the disk can still be written."""


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
        self._process = new_process()
        self._unscrubbed = False
        self._beating = threading.Lock()
        self._has_asked = False
        """Whether the server was asked since the start, however it answered."""
        self._ahead: float | None = None
        """Seconds that our clock was ahead of the server's; None: not compared since the start."""
        self.troubles = Troubles()
        self.mirror = Mirror(store, upstream, settings, clock)
        self.accounts = Accounts(store, settings, clock)
        self.intake = Intake(store, settings, clock, lambda: self.is_barred, self.accounts)
        self.metrics = Metrics()
        self._resume()
        self.metrics.watch(
            batches_waiting=lambda: self.intake.waiting,
            epoch=lambda: self.intake.epoch,
            crowd=self._needed,
            overdue_seconds=self._overdue,
            disk_free_bytes=store.free_bytes,
            clock_ahead_seconds=lambda: self._ahead or 0.0,
            barred=lambda: self.is_barred,
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
        if self.mirror.current is None or self.mirror.shelf is None:
            raise UnavailableError("no manifest, or no shelf, has come from the server yet")
        if self.is_barred:
            why = self.troubles.texts or ["the database cannot be written, or it has just started"]
            raise UnavailableError("; ".join(why))

    def tick(self) -> None:
        """One beat, and never two at once: an epoch ends by one of them.

        What cannot be done now is raised, and done at a later one.
        """
        with self._beating:
            self.troubles.tell("folder", self._store.lost(), level=logging.ERROR)
            self.troubles.tell("tokens", self.accounts.problem, level=logging.ERROR)
            if self._store.failing or self._store.free_bytes() < LITTLE:
                self._store.probe()  # before a device finds out that has paid
            if self._unscrubbed:
                self._scrub()
            try:
                agreed = self._agree()
            finally:  # also without a server; not for an epoch that it has left
                self._has_asked = True
                self._end_by_clock()
                self._draw()
            if agreed:
                self._forward()

    def _agree(self) -> bool:
        """Follow the server and tell it where we are; False if the two do not go together.

        It is told in any case: so its operator hears of it too.
        """
        problems = []
        for step in (self._follow_server, self._tell_server):
            try:
                step()
            except (ProtocolError, RefusedError) as error:
                problems.append(at_odds(error, self.intake.epoch))
                self.metrics.untrusted.inc()
                self.troubles.tell("server", problems[0], level=logging.ERROR)
        if not problems:
            self.troubles.tell("server", None)
        return not problems

    @property
    def is_barred(self) -> bool:
        """Whether what came in now could not be counted, as far as is known here.

        Then nothing is taken, and whoever has not paid yet does not: a device asks right before.
        """
        told = any(self.troubles[name] for name in ("server", "folder", "room"))
        told |= self.accounts.problem is not None
        return self._store.failing or told or self._clock_is_wrong or not self._has_asked

    @property
    def _clock_is_wrong(self) -> bool:
        """Ours or the server's."""
        signed = self.manifest()
        return abs(self._ahead or 0.0) > borne(None if signed is None else signed.manifest)

    def _resume(self) -> None:
        """Go on where an earlier process was."""
        signed = self.manifest()
        if signed is None:
            return
        self.accounts.follow(signed)
        with self._store.read() as tables:
            over, waiting = tables.is_flushed(signed.manifest.epoch), tables.count_batches()
        if over:
            self.intake.close(signed)
        else:
            self.intake.open(signed, waiting=waiting)

    def _end_by_clock(self) -> None:
        """An epoch waits no longer than its terms say, whether or not the server is there.

        A month longer where our clock may be wrong: it differs from the server's, or was not
        compared yet. Otherwise a wrong time would throw away what people have paid for.
        """
        signed = self._running()
        doubt = MONTH if self._ahead is None or self._clock_is_wrong else 0.0
        if signed is not None and self._clock() >= signed.manifest.ends + doubt:
            self._end(signed)

    def _follow_server(self) -> None:
        """A new epoch is shown to clients only after the one before was flushed or given up.

        A server that goes on while ours still runs will count nothing of it any more: so nothing is
        mixed or forwarded, and nobody else is asked to report in it.
        """
        try:
            self._show()
            newer = self.mirror.newer()
            if newer is not None:
                self._go_on(newer)
        finally:
            self._follow_shelf()

    def _follow_shelf(self) -> None:
        """Also while no epoch goes on: what was withdrawn shall be on no list."""
        said = None
        try:
            shelf = self.mirror.newer_shelf()
        except (ProtocolError, RefusedError, UnavailableError) as error:
            # Reports go on: they are for the epoch's own catalogue.
            self.metrics.untrusted.inc(isinstance(error, ProtocolError))
            shelf, said = None, f"lists stay as they are: {error}"
        self.troubles.tell("shelf", said, level=logging.ERROR)
        if shelf is not None:
            self.mirror.publish_shelf(shelf)

    def _go_on(self, newer: MirroredEpoch) -> None:
        signed = self._running()
        if signed is not None:
            self._give_up(signed)
        self.mirror.publish(newer)
        self._show()

    def _show(self) -> None:
        """Take what belongs to the epoch that clients see; at a later beat if the disk fails."""
        signed = self.manifest()
        if signed is not None and signed.manifest.epoch != self.intake.epoch:
            self.accounts.follow(signed)
            self.intake.open(signed)
            log.info("epoch %d: %s", signed.manifest.epoch, short_name(signed.hash))

    def _draw(self) -> None:
        """The dummies that are due by now, if next to all of them there is room for a crowd."""
        signed = self._running()
        said = None if signed is None else self.intake.lacks_room
        self.troubles.tell("room", said, level=logging.ERROR)
        self.troubles.tell("full", None if said is not None else self.intake.is_full)
        if signed is not None and said is None:
            due = dummies_due(signed.manifest, self._clock())
            draw_dummies(self._store, signed, due, self._entropy, most=A_BEAT)

    def _tell_server(self) -> None:
        """Where we are. Of the crowd nothing is said before the epoch's time.

        Nor is the epoch mixed before it: a server could end it at the moment when only one person
        has reported, or fill the crowd up by itself. One that is applied already is given up.
        """
        signed, sent = self.manifest(), self._clock()
        running = self._running()
        is_told = running is not None and sent >= running.manifest.closes
        crowd = self._crowd(running) if running is not None and is_told else None
        epoch, known = (0, None) if signed is None else (signed.manifest.epoch, signed.hash)
        said = Contact(epoch, known, crowd, sent, self._process, self.accounts.announced)
        answer = self._upstream.contact(said)
        self._ahead = (sent + self._clock()) / 2 - answer.time
        self.troubles.tell("clock", clocks_apart(self._ahead, signed))
        if running is None or self.troubles["server"] is not None:
            return
        if answer.state == "applied":
            self._give_up(running)
        elif answer.state == "closed" and crowd is not None and self._crowd(running) != SHORT:
            self._end(running)

    def _crowd(self, signed: SignedManifest) -> Crowd:
        if self.accounts.are_fewer(self._least(signed)):
            return NEVER
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
        log.log(logging.ERROR if lost else logging.INFO, said, signed.manifest.epoch, lost)
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

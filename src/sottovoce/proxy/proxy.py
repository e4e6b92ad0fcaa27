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
    CROWD_ENOUGH,
    CROWD_NEVER,
    CROWD_SHORT,
    MONTH_SECONDS,
    Contact,
    Crowd,
    allowed_clock_skew,
    classify_crowd,
    draw_process_name,
)
from sottovoce.protocol.manifest import format_manifest_hash
from sottovoce.proxy.accounts import Accounts
from sottovoce.proxy.dummies import MAX_DUMMIES_PER_BEAT, count_due_dummies, draw_dummies
from sottovoce.proxy.flush import discard, flush
from sottovoce.proxy.forward import Mirror, MirroredEpoch, Upstream, hand_in
from sottovoce.proxy.intake import Intake
from sottovoce.proxy.settings import ProxySettings
from sottovoce.proxy.shuffle import Entropy
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

# With less free on the disk than this, every beat tries whether it can still be written.
MIN_FREE_BYTES = 2**24


class Proxy:
    def __init__(
        self,
        store: ProxyStore,
        upstream: Upstream,
        settings: ProxySettings,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        entropy: Entropy = os.urandom,
    ):
        self._store = store
        self._upstream = upstream
        self._settings = settings
        self._clock = clock
        self._monotonic = monotonic
        self._entropy = entropy
        self._process = draw_process_name()
        self._beating = threading.Lock()
        self._compared_at = 0.0
        """Our clock less the monotonic one, when it was last compared with the server's."""
        self._has_asked = False
        """Whether the server was asked since the start, however it answered."""
        self._is_agreed = False
        """Whether server and proxy went together at the last beat."""
        self._handed_in: set[int] = set()
        """Epochs that this process has handed in, or found to be lost."""
        self._last_ended = 0
        """The last epoch that was mixed, discarded or given up; 0 before the first."""
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
        # In this order: an epoch that the server has left is given up before it could be mixed, and
        # what devices have paid for is handed in before housekeeping.
        steps = (
            self._check_store,
            self._agree,
            self._end_by_clock,
            self._delete_files,  # who sent which reports, before anything is handed in
            self._forward,
            self._prepare_epoch,
            self._delete_files,
        )
        failures = []
        with self._beating:
            for step in steps:
                try:
                    step()
                except Exception as error:
                    failures.append(error)
        others = [str(error) for error in failures[1:] if str(error) != str(failures[0])]
        self.troubles.update("steps", "; ".join(dict.fromkeys(others)) or None)
        if failures:
            raise failures[0]

    def _check_store(self) -> None:
        """Learn whether the disk takes more, before a device finds out that has paid."""
        self.troubles.update("folder", self._store.lost(), level=logging.ERROR)
        self.troubles.update("tokens", self.accounts.problem, level=logging.ERROR)
        if self._store.failing or self._store.free_bytes() < MIN_FREE_BYTES:
            self._store.probe()

    def _delete_files(self) -> None:
        """Delete what is handed in, and the batches of what is mixed."""
        running = self._running()
        newest = 0 if self.mirror.current is None else self.mirror.current.signed.manifest.epoch
        self._store.delete_others(None if running is None else running.manifest.epoch, newest)

    def _agree(self) -> None:
        """Follow the server and tell it where we are, in any case: so its operator hears of it."""
        self._is_agreed = False
        self._has_asked = True
        problems = []
        for step in (self._follow_server, self._tell_server):
            try:
                step()
            except (ProtocolError, RefusedError) as error:
                problems.append(at_odds(error, self.intake.epoch))
                self.metrics.untrusted.inc()
                self.troubles.update("server", problems[0], level=logging.ERROR)
        if not problems:
            self.troubles.update("server", None)
            self._is_agreed = True

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
        return abs(self._ahead or 0.0) > allowed_clock_skew(
            None if signed is None else signed.manifest
        )

    def _was_set(self, signed: SignedManifest) -> bool:
        """Whether our clock has jumped since it was compared with the server's."""
        jump = self._clock() - self._monotonic() - self._compared_at
        return abs(jump) > allowed_clock_skew(signed.manifest)

    def _resume(self) -> None:
        """Go on where an earlier process was."""
        signed = self.manifest()
        if signed is None:
            return
        self.accounts.follow(signed)
        if self._running() is None:
            self.intake.close(signed)
            self._last_ended = signed.manifest.epoch
        elif not self._open_intake(signed):
            log.error(
                "epoch %d: its batches are not in this proxy's folder, as in a copy of it: those "
                "that were acknowledged before are lost",
                signed.manifest.epoch,
            )

    def _end_by_clock(self) -> None:
        """An epoch waits no longer than its terms say, whether or not the server is there.

        A month longer where our clock may be wrong: it differs from the server's, or was not
        compared yet. Otherwise a wrong time would throw away what people have paid for.
        """
        signed = self._running()
        if signed is None:
            return
        is_doubtful = self._ahead is None or self._clock_is_wrong or self._was_set(signed)
        doubt = MONTH_SECONDS if is_doubtful else 0.0
        if self._clock() >= signed.manifest.ends + doubt:
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
        self.troubles.update("shelf", said, level=logging.ERROR)
        if shelf is not None:
            self.mirror.publish_shelf(shelf)

    def _go_on(self, newer: MirroredEpoch) -> None:
        signed = self._running()
        if signed is not None:
            self._give_up(signed)
        if newer.signed.manifest.public_key is not None:
            self._store.begin_epoch(newer.signed.manifest.epoch)
        self.mirror.publish(newer)
        self._show()

    def _show(self) -> None:
        """Take what belongs to the epoch that clients see; at a later beat if the disk fails."""
        signed = self.manifest()
        if signed is not None and signed.manifest.epoch != self.intake.epoch:
            self.accounts.follow(signed)
            if signed.manifest.public_key is None:
                self.intake.open(signed)
            else:
                self._open_intake(signed)
            log.info("epoch %d: %s", signed.manifest.epoch, format_manifest_hash(signed.hash))

    def _open_intake(self, signed: SignedManifest) -> bool:
        """Take batches of an epoch from now on; return whether its files were there already."""
        was_there = self._store.begin_epoch(signed.manifest.epoch)
        with self._store.read_batches() as tables:
            self.intake.open(signed, waiting=tables.count_batches())
        return was_there

    def _prepare_epoch(self) -> None:
        """Make sure of the room for the epoch that runs, then draw the dummies that are due."""
        signed = self._running()
        problem = None
        if signed is not None:
            problem = self.intake.lacks_room or self.intake.find_lack_of_disk()
        self.troubles.update("room", problem, level=logging.ERROR)
        self.troubles.update("full", None if problem is not None else self.intake.is_full)
        if signed is not None and problem is None:
            due = count_due_dummies(signed.manifest, self._clock())
            limit = MAX_DUMMIES_PER_BEAT
            draw_dummies(self._store, signed, due, self._entropy, limit=limit)

    def _tell_server(self) -> None:
        """Where we are. Of the crowd nothing is said before the epoch's time.

        Nor is the epoch mixed before it: a server could end it at the moment when only one person
        has reported, or fill the crowd up by itself. One that is applied already is given up.
        """
        signed, sent = self.manifest(), self._clock()
        running = self._running()
        crowd = None
        if signed is not None and sent >= signed.manifest.closes:
            crowd = self._crowd_after_flush(signed) if running is None else self._crowd(running)
        epoch, known = (0, None) if signed is None else (signed.manifest.epoch, signed.hash)
        with self._store.read() as tables:
            server_database = tables.server_database()
        contact = Contact(
            epoch,
            known,
            crowd,
            sent,
            self._process,
            self.accounts.announced,
            database=self._store.name,
            server_database=server_database,
        )
        answer = self._upstream.contact(contact)
        self._compare_clocks(sent, answer.time)
        if running is not None and self.troubles["server"] is None:
            if answer.state == "applied":
                self._give_up(running)
            elif (
                answer.state == "closed"
                and crowd is not None
                and self._crowd(running) != CROWD_SHORT
            ):
                self._end(running)
        if answer.database != server_database:
            with self._store.write() as tables:
                tables.set_server_database(answer.database)

    def _compare_clocks(self, sent: float, server_time: float) -> None:
        """Remember how far our clock is ahead, and when that was by a clock that nobody sets."""
        now = self._clock()
        self._ahead = (sent + now) / 2 - server_time
        self._compared_at = now - self._monotonic()
        self.troubles.update("clock", clocks_apart(self._ahead, self.manifest()))

    def _crowd(self, signed: SignedManifest) -> Crowd:
        if self.accounts.are_fewer(self._least(signed)):
            return CROWD_NEVER
        return classify_crowd(self.intake.waiting, self._least(signed))

    def _crowd_after_flush(self, signed: SignedManifest) -> Crowd | None:
        """Return what to say of an epoch that is over here, to a server that has it still open.

        Such a server was set back, and would otherwise wait until the hold of the epoch is over.
        """
        if signed.manifest.public_key is None:
            return None
        with self._store.read() as tables:
            mixed = [f.reports for f in tables.unsettled() if f.epoch == signed.manifest.epoch]
        return CROWD_ENOUGH if any(mixed) else CROWD_NEVER

    def _least(self, signed: SignedManifest) -> int:
        return self._settings.least_for(signed.manifest.terms)

    def _forward(self) -> None:
        """Hand in what is mixed, if the server is there and agrees."""
        if not self._is_agreed:
            return
        with self._store.read() as tables:
            unsettled = tables.unsettled()
        for mixed in unsettled:
            # On a full disk the end of a hand-in cannot be stored: it is not begun again.
            if mixed.epoch not in self._handed_in:
                n_lost = hand_in(self._store, self._upstream, mixed, self.intake.epoch)
                self._handed_in.add(mixed.epoch)
                self.metrics.forwarded.inc(mixed.reports - n_lost)
                self.metrics.lost.inc(n_lost)
            with self._store.write() as tables:
                tables.settle(mixed.epoch)

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
        batches, done = flush(
            self._store,
            signed,
            min_batches=self._least(signed),
            chunk_reports=self._settings.chunk_reports,
            entropy=self._entropy,
        )
        self._end_intake(signed)
        outcome = SHUFFLED if done.reports else DISCARDED if batches else EMPTY
        self.metrics.flushes.labels(outcome).inc()

    def _give_up(self, signed: SignedManifest) -> None:
        """The server has gone on without us: what waits here can never count."""
        self.intake.close(signed)
        lost = discard(self._store, signed)
        self._end_intake(signed)
        self.metrics.flushes.labels(GIVEN_UP).inc()
        self.metrics.lost.inc(lost)
        said = "epoch %d: the server went on without us; %d reports that waited are given up"
        log.log(logging.ERROR if lost else logging.INFO, said, signed.manifest.epoch, lost)

    def _end_intake(self, signed: SignedManifest) -> None:
        self.intake.reset_waiting()
        self._last_ended = signed.manifest.epoch

    def _needed(self) -> int:
        signed = self.manifest()
        return self._settings.least_clients if signed is None else self._least(signed)

    def _overdue(self) -> float:
        """Return for how long an epoch has waited since its time; 0 once it is mixed or given up.

        From memory: the disk may fail.
        """
        signed = self.manifest()
        if signed is None or signed.manifest.public_key is None:
            return 0.0
        if signed.manifest.epoch == self._last_ended:
            return 0.0
        return max(self._clock() - signed.manifest.closes, 0.0)

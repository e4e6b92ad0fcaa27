"""The proxy: it holds the batches of an epoch, shuffles their reports and forwards them.

`Proxy.intake` handles the requests of clients; `Proxy.tick` does the regular work of the proxy. A
tick can be interrupted at any point and repeated: each step is one transaction, or can be done
again.
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
from sottovoce.proxy.dummies import MAX_DUMMIES_PER_TICK, count_due_dummies, draw_dummies
from sottovoce.proxy.flush import discard, flush, hand_over
from sottovoce.proxy.intake import Intake
from sottovoce.proxy.metrics import (
    FLUSH_DISCARDED,
    FLUSH_EMPTY,
    FLUSH_GIVEN_UP,
    FLUSH_SHUFFLED,
    Metrics,
)
from sottovoce.proxy.mirror import Mirror, MirroredEpoch
from sottovoce.proxy.settings import ProxySettings
from sottovoce.proxy.shuffle import Entropy
from sottovoce.proxy.store import ProxyStore
from sottovoce.proxy.upstream import Upstream, describe_clock_problem, describe_mismatch
from sottovoce.service.logs import Troubles
from sottovoce.service.tls import describe_expiring
from sottovoce.storage.files import describe_full_disk

log = logging.getLogger("sottovoce")

# Names of the troubles during which the proxy takes no batches.
PAUSING_TROUBLES = ("server", "folder", "room")


class Proxy:
    """A proxy of one server.

    Args:
        store: The database and the files of the proxy.
        upstream: The server.
        settings: The settings of the proxy.
        clock: Returns Unix seconds.
        monotonic: Returns seconds of a clock that is never adjusted.
        entropy: Returns random bytes.
    """

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
        self._tick_lock = threading.Lock()
        self._has_asked = False
        """Whether this process has asked the server, even if it got no answer."""
        self._is_agreed = False
        """Whether the last tick followed and contacted the server without a mismatch."""
        self._clock_ahead: float | None = None
        """Seconds that our clock was ahead of the server's; None before the first comparison."""
        self._clock_offset = 0.0
        """`clock()` minus `monotonic()`, when our clock was last compared with the server's."""
        self._handed_over: set[int] = set()
        """Epochs that this process has handed over, or given up as lost."""
        self._last_ended = 0
        """The last epoch that was mixed, discarded or given up; 0 before the first one."""
        self.troubles = Troubles()
        self.mirror = Mirror(store, upstream, settings, clock)
        self.accounts = Accounts(store, settings, clock)
        self.intake = Intake(store, settings, clock, lambda: self.is_paused, self.accounts)
        self.metrics = Metrics(self.troubles)
        self._resume()
        self.metrics.set_gauges(
            batches_waiting=lambda: self.intake.n_waiting,
            epoch=lambda: self.intake.epoch,
            crowd=self._count_needed,
            overdue_seconds=self._compute_overdue,
            disk_free_bytes=store.count_free_bytes,
            paused=lambda: self.is_paused,
        )
        if settings.min_clients > 1 and not settings.rate.per_epoch:
            log.warning(
                "rate.per_epoch is 0: one address may send a whole crowd, unless what is in front "
                "of this proxy limits it"
            )

    @property
    def manifest(self) -> SignedManifest | None:
        """The manifest of the current epoch; None before the first epoch."""
        return None if self.mirror.current is None else self.mirror.current.signed

    def check_ready(self) -> None:
        """Raise an `UnavailableError` unless the proxy serves files and takes batches."""
        if self.mirror.current is None or self.mirror.shelf is None:
            raise UnavailableError("no manifest, or no shelf, has come from the server yet")
        reasons = self.find_pause_reasons()
        if reasons:
            raise UnavailableError("; ".join(dict.fromkeys([*self.troubles.texts, *reasons])))

    @property
    def is_paused(self) -> bool:
        """Whether the proxy takes no batches. Devices ask right before they pay for one."""
        return bool(self.find_pause_reasons())

    def find_pause_reasons(self) -> list[str]:
        """Return the known reasons for which a batch that came now could not be counted."""
        reasons = [self.troubles[name] for name in PAUSING_TROUBLES]
        # Troubles are updated at a tick; the following reasons may change between two ticks.
        reasons.append(self.accounts.problem)
        if self._store.is_failing:
            reasons.append("the database cannot be written")
        if self._is_clock_wrong:
            reasons.append(describe_clock_problem(self._clock_ahead or 0.0, self.manifest))
        if not self._has_asked:
            reasons.append("the proxy has just started, and has not asked the server yet")
        return [reason for reason in reasons if reason is not None]

    def tick(self) -> None:
        """Do all steps of the regular work once; raise the first error after the last step.

        A later tick repeats the steps that failed.
        """
        # The order matters: an epoch that the server has ended must be given up before the clock
        # could end it, and reports are handed over before the next epoch is prepared.
        steps = (
            self._check_resources,
            self._agree,
            self._end_by_clock,
            self._delete_files,  # batches, which link reports of a sender, before the hand-over
            self._forward,
            self._prepare_epoch,
            self._delete_files,
        )
        failures = []
        # Two ticks at the same time could both end the epoch.
        with self._tick_lock:
            for step in steps:
                try:
                    step()
                except Exception as error:
                    failures.append(error)
        others = [str(error) for error in failures[1:] if str(error) != str(failures[0])]
        self.troubles.update("steps", "; ".join(dict.fromkeys(others)) or None)
        if failures:
            raise failures[0]

    def _check_resources(self) -> None:
        """Check the files, tokens, certificates and the disk."""
        self.troubles.update("folder", self._store.find_lost_file(), level=logging.ERROR)
        self.troubles.update("tokens", self.accounts.problem, level=logging.ERROR)
        expiring = describe_expiring(self._settings.certificates, self._clock())
        self.troubles.update("certificates", expiring)
        full_disk = describe_full_disk(self._store.count_free_bytes())
        self.troubles.update("disk", full_disk)
        if self._store.is_failing or full_disk is not None:
            self._store.check_writable()

    def _delete_files(self) -> None:
        """Delete the batches of mixed epochs, and all files of epochs that were handed over."""
        running = self._get_running()
        newest = 0 if self.manifest is None else self.manifest.manifest.epoch
        self._store.delete_settled(None if running is None else running.manifest.epoch, newest)

    def _agree(self) -> None:
        """Follow the server and contact it.

        The contact takes place even if following fails, so that the server's operator sees that
        this proxy runs.
        """
        self._is_agreed = False
        self._has_asked = True
        problems = []
        for step in (self._follow_server, self._contact_server):
            try:
                step()
            except (ProtocolError, RefusedError) as error:
                problems.append(describe_mismatch(error, self.intake.epoch))
                self.metrics.untrusted.inc()
                self.troubles.update("server", problems[0], level=logging.ERROR)
        if not problems:
            self.troubles.update("server", None)
            self._is_agreed = True

    @property
    def _is_clock_wrong(self) -> bool:
        """Whether our clock and the server's differ by more than is allowed."""
        manifest = None if self.manifest is None else self.manifest.manifest
        return abs(self._clock_ahead or 0.0) > allowed_clock_skew(manifest)

    def _has_clock_jumped(self, signed: SignedManifest) -> bool:
        """Return whether our clock was set since it was compared with the server's."""
        jump = self._clock() - self._monotonic() - self._clock_offset
        return abs(jump) > allowed_clock_skew(signed.manifest)

    def _resume(self) -> None:
        """Continue where an earlier process stopped."""
        signed = self.manifest
        if signed is None:
            return
        self.accounts.follow(signed)
        if self._get_running() is None:
            self.intake.close(signed)
            self._last_ended = signed.manifest.epoch
        else:
            # `_begin_epoch` creates the files before it stores the manifest.
            if not self._store.begin_epoch(signed.manifest.epoch):
                log.error(
                    "epoch %d: its batches are not in this proxy's folder, as in a copy of it: "
                    "those that were acknowledged before are lost",
                    signed.manifest.epoch,
                )
            self._open_intake(signed)

    def _end_by_clock(self) -> None:
        """End an epoch whose time is over by its terms, even if the server cannot be reached."""
        signed = self._get_running()
        if signed is None:
            return
        # Wait a month longer if our clock may be wrong, or was not compared yet. With a wrong time
        # the proxy could discard batches that people have paid for.
        is_doubtful = (
            self._clock_ahead is None or self._is_clock_wrong or self._has_clock_jumped(signed)
        )
        if self._clock() >= signed.manifest.ends + (MONTH_SECONDS if is_doubtful else 0.0):
            self._end_epoch(signed)

    def _follow_server(self) -> None:
        try:
            self._show_epoch()
            newer = self.mirror.fetch_newer()
            if newer is not None:
                self._begin_epoch(newer)
        finally:
            # Follow the shelf even if the epoch fails: withdrawn items must leave all lists.
            self._follow_shelf()

    def _follow_shelf(self) -> None:
        shelf, problem = None, None
        try:
            shelf = self.mirror.fetch_newer_shelf()
        except (ProtocolError, RefusedError, UnavailableError) as error:
            # Batches are still taken: reports do not depend on the shelf.
            self.metrics.untrusted.inc(isinstance(error, ProtocolError))
            problem = f"lists stay as they are: {error}"
        self.troubles.update("shelf", problem, level=logging.ERROR)
        if shelf is not None:
            self.mirror.publish_shelf(shelf)

    def _begin_epoch(self, newer: MirroredEpoch) -> None:
        """Give up the running epoch, if there is one, and show a new epoch to clients."""
        # The server has ended the running epoch and counts no more of its reports. Do not mix or
        # forward them, and take no further batches.
        signed = self._get_running()
        if signed is not None:
            self._give_up(signed)
        if newer.signed.manifest.public_key is not None:
            self._store.begin_epoch(newer.signed.manifest.epoch)
        self.mirror.publish(newer)
        self._show_epoch()

    def _show_epoch(self) -> None:
        """Open the intake for the current epoch, unless an earlier tick has done so."""
        signed = self.manifest
        if signed is not None and signed.manifest.epoch != self.intake.epoch:
            self.accounts.follow(signed)
            if signed.manifest.public_key is None:
                self.intake.open(signed)
            else:
                self._open_intake(signed)
            log.info("epoch %d: %s", signed.manifest.epoch, format_manifest_hash(signed.hash))

    def _open_intake(self, signed: SignedManifest) -> None:
        """Take batches of an epoch from now on. Its files must be open."""
        with self._store.read_batches() as tables:
            self.intake.open(signed, n_waiting=tables.count_batches())

    def _prepare_epoch(self) -> None:
        """Check that the disk has room for the running epoch, then draw the due dummies."""
        signed = self._get_running()
        problem = None
        if signed is not None:
            problem = self.intake.find_limit_problem() or self.intake.find_disk_problem()
        self.troubles.update("room", problem, level=logging.ERROR)
        self.troubles.update("full", self.intake.describe_full_epoch() if problem is None else None)
        if signed is not None and problem is None:
            due = count_due_dummies(signed.manifest, self._clock())
            limit = MAX_DUMMIES_PER_TICK
            draw_dummies(self._store, signed, due, self._entropy, limit=limit)

    def _contact_server(self) -> None:
        """Report the state of the current epoch to the server, and end the epoch if it says so."""
        signed, sent_at = self.manifest, self._clock()
        running = self._get_running()
        crowd = None
        # Before the closing time, do not tell the server the crowd and do not mix the epoch.
        # Otherwise the server could end the epoch when only one person has reported, or send the
        # missing batches of the crowd itself.
        if signed is not None and sent_at >= signed.manifest.closes:
            crowd = (
                self._get_crowd_after_flush(signed) if running is None else self._get_crowd(running)
            )
        epoch, manifest_hash = (0, None) if signed is None else (signed.manifest.epoch, signed.hash)
        with self._store.read() as tables:
            server_database = tables.get_server_database()
        contact = Contact(
            epoch,
            manifest_hash,
            crowd,
            sent_at,
            self._process,
            self.accounts.announced_key,
            database=self._store.name,
            server_database=server_database,
        )
        reply = self._upstream.contact(contact)
        self._compare_clocks(sent_at, reply.time)
        if running is not None and self.troubles["server"] is None:
            if reply.state == "applied":
                self._give_up(running)
            elif (
                reply.state == "closed"
                and crowd is not None
                and self._get_crowd(running) != CROWD_SHORT
            ):
                self._end_epoch(running)
        if reply.database != server_database:
            with self._store.write() as tables:
                tables.set_server_database(reply.database)

    def _compare_clocks(self, sent_at: float, server_time: float) -> None:
        """Store how far our clock is ahead of the server's, and its offset to the monotonic clock.

        Args:
            sent_at: Our time when the request was sent.
            server_time: The time in the server's answer.
        """
        now = self._clock()
        self._clock_ahead = (sent_at + now) / 2 - server_time
        self._clock_offset = now - self._monotonic()
        self.troubles.update("clock", describe_clock_problem(self._clock_ahead, self.manifest))

    def _get_crowd(self, signed: SignedManifest) -> Crowd:
        if self.accounts.has_too_few_tokens(self._compute_min_crowd(signed)):
            return CROWD_NEVER
        return classify_crowd(self.intake.n_waiting, self._compute_min_crowd(signed))

    def _get_crowd_after_flush(self, signed: SignedManifest) -> Crowd | None:
        """Return the crowd of an epoch that this proxy has ended.

        A server whose database was restored may have the epoch open again. Without this answer it
        would wait for a crowd until the hold of the epoch is over.
        """
        if signed.manifest.public_key is None:
            return None
        with self._store.read() as tables:
            mixed = [f.reports for f in tables.get_unsettled() if f.epoch == signed.manifest.epoch]
        # A discarded epoch has no reports.
        return CROWD_ENOUGH if any(mixed) else CROWD_NEVER

    def _compute_min_crowd(self, signed: SignedManifest) -> int:
        return self._settings.compute_min_crowd(signed.manifest.terms)

    def _forward(self) -> None:
        """Hand mixed epochs over to the server, unless the last contact with it failed."""
        if not self._is_agreed:
            return
        with self._store.read() as tables:
            unsettled = tables.get_unsettled()
        for flushed in unsettled:
            # If a full disk prevents storing that an epoch was handed over, do not do it again.
            if flushed.epoch not in self._handed_over:
                n_lost = hand_over(self._store, self._upstream, flushed, self.intake.epoch)
                self._handed_over.add(flushed.epoch)
                self.metrics.forwarded.inc(flushed.reports - n_lost)
                self.metrics.lost.inc(n_lost)
            with self._store.write() as tables:
                tables.settle(flushed.epoch)

    def _get_running(self) -> SignedManifest | None:
        """Return the current manifest if its epoch asks for reports and is not over, else None."""
        signed = self.manifest
        if signed is None or signed.manifest.public_key is None:
            return None
        with self._store.read() as tables:
            return None if tables.is_flushed(signed.manifest.epoch) else signed

    def _end_epoch(self, signed: SignedManifest) -> None:
        """Close the intake; mix the epoch's reports, or discard them if too few people reported."""
        self.intake.close(signed)
        n_batches, flushed = flush(
            self._store,
            signed,
            min_batches=self._compute_min_crowd(signed),
            chunk_reports=self._settings.chunk_reports,
            entropy=self._entropy,
        )
        self._end_intake(signed)
        empty = FLUSH_DISCARDED if n_batches else FLUSH_EMPTY
        self.metrics.flushes.labels(FLUSH_SHUFFLED if flushed.reports else empty).inc()

    def _give_up(self, signed: SignedManifest) -> None:
        """Discard an epoch that the server has ended without this proxy."""
        self.intake.close(signed)
        # The intake is closed, so no batch is acknowledged and then lost.
        n_lost = discard(self._store, signed)
        self._end_intake(signed)
        self.metrics.flushes.labels(FLUSH_GIVEN_UP).inc()
        self.metrics.lost.inc(n_lost)
        log.log(
            logging.ERROR if n_lost else logging.INFO,
            "epoch %d: the server went on without this proxy; %d reports that waited are given up",
            *(signed.manifest.epoch, n_lost),
        )

    def _end_intake(self, signed: SignedManifest) -> None:
        self.intake.reset_waiting()
        self._last_ended = signed.manifest.epoch

    def _count_needed(self) -> int:
        """Return how many batches make the crowd of the current epoch."""
        signed = self.manifest
        return self._settings.min_clients if signed is None else self._compute_min_crowd(signed)

    def _compute_overdue(self) -> float:
        """Return the seconds since the closing time of the epoch; 0 if this proxy has ended it."""
        # Read no file, because the disk may fail.
        signed = self.manifest
        if signed is None or signed.manifest.public_key is None:
            return 0.0
        if signed.manifest.epoch == self._last_ended:
            return 0.0
        return max(self._clock() - signed.manifest.closes, 0.0)

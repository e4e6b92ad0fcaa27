"""A worker of a server, which opens reports, adds them up, updates the model and publishes it."""

import logging
import threading
import time
from collections.abc import Callable
from hashlib import sha256
from math import nan

from sottovoce.errors import (
    ProtocolError,
    RefusedError,
    SettingsError,
    SottovoceError,
    StoreError,
    UnavailableError,
)
from sottovoce.protocol import Chunk, SignedManifest, SignedShelf
from sottovoce.protocol.contact import DAY_SECONDS, Contact, Reply, allowed_clock_skew
from sottovoce.server.agreement import adopt_settings
from sottovoce.server.counting import Counter
from sottovoce.server.epochs import (
    check_closed,
    check_epoch_exists,
    check_limits,
    check_manifest,
    check_not_committed,
    find_max_epoch,
)
from sottovoce.server.key_chain import check_may_sign, find_key_problem, may_sign
from sottovoce.server.keys import Keys
from sottovoce.server.metrics import Metrics
from sottovoce.server.opening import Opener
from sottovoce.server.pending import load_catalogue
from sottovoce.server.problems import MAX_SILENCE_SECONDS, describe_room, find_problems
from sottovoce.server.publisher import Publisher
from sottovoce.server.settings import ServerSettings
from sottovoce.server.store import ServerStore
from sottovoce.server.transaction import (
    APPLIED,
    OPEN,
    Epoch,
    FileKind,
    ProxyContact,
    Transaction,
)
from sottovoce.server.waiting import get_epoch_wait
from sottovoce.service.logs import Troubles
from sottovoce.service.tls import describe_expiring
from sottovoce.storage.files import describe_full_disk

TWO_PROCESSES_TEXT = (
    "an older process uses this proxy's secret, and the server accepts only that one. If it is a "
    "copy, stop one of them: the other is accepted within two minutes. If both are intended, give "
    "each its own name and secret ([proxies] of the server)"
)


class Server:
    """One worker. Any number of workers, on any machines, may share a database."""

    def __init__(
        self,
        store: ServerStore,
        keys: Keys,
        settings: ServerSettings,
        *,
        clock: Callable[[], float] = time.time,
        opener: Opener,
    ):
        self.troubles = Troubles()
        self.metrics = Metrics(self.troubles)
        self.metrics.set_gauges(
            disk_free_bytes=lambda: nan if (free := store.get_free_bytes()) is None else free
        )
        self._store = store
        self._keys = keys
        self._settings = settings
        self._clock = clock
        self._opener = opener
        self._counter = Counter(store)
        self._publisher = Publisher(settings, keys)
        self._lock = threading.Lock()
        self._is_prepared = False
        self._is_scrubbed = False
        self._has_signed_shelf = False
        self._began: float | None = None
        # The newest catalogue, and the number of its items.
        self._counted_catalogue = b""
        self._items = 0

    # Methods that the heartbeat calls.

    def prepare(self) -> None:
        """Check that the database and these settings belong together; safe to repeat.

        Raises:
            SettingsError: The settings or keys must not be used with this database, or
                `sottovoce server init` did not create it.
        """
        # Both the heartbeat and `sottovoce server run` call this, in any order.
        with self._lock:
            if not self._is_prepared:
                self._store.check_tables()
                with self._store.write() as transaction:
                    adopt_settings(transaction, self._settings, self._keys)
                self._is_prepared = True

    def tick(self) -> None:
        """Close, apply and publish epochs as far as the clock and the proxies allow.

        Any number of workers may do this at the same time.
        """
        self.prepare()
        # Check first, so that the log shows a full disk before a proxy sends chunks.
        self._store.check_writable()
        while self._step():
            self._is_scrubbed = False
        self._update_troubles()
        if not self._is_scrubbed:
            # Scrub after a start and after each step. If a reader is in the way, the next tick
            # tries again.
            self._is_scrubbed = self._store.scrub()

    def _step(self) -> bool:
        """Close, apply or publish one epoch in a transaction; return whether one was due."""
        now = self._clock()
        with self._store.write() as transaction:
            service = transaction.get_service(lock=True)
            # Report a problem with the keys as soon as possible, while other workers can still
            # publish.
            problem = find_key_problem(self._keys, service, self._settings.keys)
            self.troubles.update("keys", problem, level=logging.ERROR)
            if may_sign(self._keys, service):
                self._sign_shelf(transaction, now)
            latest = transaction.find_latest_epoch(lock=True)
            # The row is locked, so other workers wait here and then see the new state.
            if latest is None:
                self._publisher.publish_first(transaction, now)
            elif latest.state == APPLIED:
                if not self._publisher.has_next(transaction, latest, now):
                    return False
                self._publisher.publish_next(transaction, latest, now)
            elif transaction.find_wrapped_key(latest.epoch) is None:
                self._publisher.end_without_key(transaction, latest, now)
            elif not self._may_go_on(transaction, latest, now):
                return False
            elif latest.state == OPEN:
                transaction.close_epoch(latest.epoch, now)
            else:
                self._publisher.apply_epoch(transaction, latest, now)
        return True

    def _may_go_on(self, transaction: Transaction, epoch: Epoch, now: float) -> bool:
        """Return whether the epoch waits for nothing, and this server's clock seems right."""
        wait = get_epoch_wait(transaction, epoch, self._settings, now)
        if wait is None or not wait.is_over:
            return False
        # If the clocks of all proxies with a recent contact differ from ours, ours is probably
        # wrong and ends no epoch. These proxies have batches for which people have spent epsilon,
        # and accept no others until the clocks agree.
        max_skew = allowed_clock_skew(self._publisher.open_manifest(epoch))
        skews = [
            abs(contact.clock_ahead)
            for name, contact in transaction.get_contacts().items()
            if name in self._settings.proxies and now - contact.last_contact <= MAX_SILENCE_SECONDS
        ]
        return not (bool(skews) and all(skew > max_skew for skew in skews))

    def _sign_shelf(self, transaction: Transaction, now: float) -> None:
        """Sign the newest catalogue if it has changed, and once after a start."""
        shelf, newest = transaction.find_shelf(), transaction.find_catalogue()
        # Devices may have seen an earlier shelf with a later time, signed with a wrong clock. Sign
        # a later one as soon as that time is at most a day ahead: devices accept none beyond that.
        is_behind = (
            shelf is not None and shelf.published < shelf.latest_published <= now + DAY_SECONDS
        )
        is_outdated = shelf is None or shelf.catalogue != newest.sha256
        # After a start the database may be an older one, restored from a backup.
        if is_outdated or is_behind or not self._has_signed_shelf:
            self._publisher.publish_shelf(transaction, now)
            self._has_signed_shelf = True

    def _update_troubles(self) -> None:
        """Update the list of problems from the database, which shows what all workers know."""
        now = self._clock()
        began = self._began = min(now, self._began or now)
        with self._store.read() as transaction:
            latest, contacts = transaction.find_latest_epoch(), self._get_contacts(transaction)
            wait = (
                None if latest is None else get_epoch_wait(transaction, latest, self._settings, now)
            )
            catalogue_problem = self._find_catalogue_problem(transaction)
        refused = {
            f"proxy/{name}" for name, contact in contacts.items() if contact and contact.refusal
        }
        problems = {
            "certificates": describe_expiring(self._settings.certificates, now),
            "disk": describe_full_disk(self._store.get_free_bytes()),
        }
        # The silence of a proxy counts only from the start of this worker on.
        problems |= find_problems(
            latest,
            wait,
            contacts,
            catalogue_problem,
            now,
            silent_since=began,
            watched_since=began,
        )
        for name, text in problems.items():
            level = logging.ERROR if name in refused else logging.WARNING
            self.troubles.update(name, text, level=level)

    def _find_catalogue_problem(self, transaction: Transaction) -> str | None:
        training, newest = transaction.find_training(), transaction.find_catalogue()
        if training is None or newest is None:
            return None
        # Decoding a large catalogue at every tick would take too long.
        if self._counted_catalogue != newest.sha256:
            self._items = len(load_catalogue(transaction, newest.sha256).items)
            self._counted_catalogue = newest.sha256
        return describe_room(self._items, training)

    def _get_contacts(self, transaction: Transaction) -> dict[str, ProxyContact | None]:
        contacts = transaction.get_contacts()
        return {name: contacts.get(name) for name in self._settings.proxies}

    # Requests that anyone may make.

    def get_signed_manifest(self) -> SignedManifest:
        with self._store.read() as transaction:
            latest = transaction.find_latest_epoch()
        if latest is None:
            raise UnavailableError("there is no manifest yet")
        return SignedManifest.open(latest.manifest, self._keys.first_key)

    def get_signed_shelf(self) -> SignedShelf:
        with self._store.read() as transaction:
            shelf = transaction.find_shelf()
        if shelf is None:
            raise UnavailableError("there is no shelf yet")
        return SignedShelf.open(shelf.signed, self._keys.first_key)

    def get_file(self, sha256: bytes, kind: FileKind) -> bytes | None:
        with self._store.read() as transaction:
            return transaction.find_file(sha256, kind)

    def list_epochs(self) -> list[Epoch]:
        with self._store.read() as transaction:
            return transaction.list_epochs()

    def check_ready(self) -> None:
        """Raise an `UnavailableError` or a `StoreError` if this worker could not do its work."""
        self.get_signed_manifest()
        with self._store.read() as transaction:
            service = transaction.get_service()
        try:
            check_may_sign(self._keys, service)
        except SettingsError as error:
            raise UnavailableError(f"this worker can publish nothing: {error}") from error
        self._store.check_writable()

    def render_metrics(self) -> bytes:
        with self._store.read() as transaction:
            latest, applied = transaction.find_latest_epoch(), transaction.find_last_applied()
        manifest = None if latest is None else self._publisher.open_manifest(latest)
        self.metrics.describe_epochs(latest, manifest, applied, self._clock())
        return self.metrics.render()

    # Requests that only proxies may make.

    def handle_contact(self, proxy: str, contact: Contact) -> Reply:
        """Record a proxy's status and return the state of its epoch.

        Raises:
            RefusedError: This server can never count that epoch, or an older process uses the same
                secret. The contact is recorded for `sottovoce server status`.
        """
        now = self._clock()
        with self._store.write() as transaction:
            last = transaction.get_contacts().get(proxy, ProxyContact(proxy, 0, 0.0, 0.0))
            epoch = transaction.find_epoch(contact.epoch, lock=contact.crowd is not None)
            refusal = self._find_refusal(transaction, epoch, contact)
            # `sottovoce proxy status` makes contact without a process name. It makes no tokens, so
            # the known token key stays.
            token_key = contact.token_key or (last.token_key if contact.process is None else b"")
            status = ProxyContact(
                proxy,
                contact.epoch,
                now,
                contact.time - now,
                refusal or "",
                token_key=token_key,
            )
            is_unfinished = _is_unfinished(transaction, proxy)
            status = status.with_database(contact.database, last, is_unfinished=is_unfinished)
            # Two processes have the same secret: keep listening to the older one.
            if last.list_other_processes(contact.process, now):
                refusal, status = TWO_PROCESSES_TEXT, last
            transaction.set_contact(status.with_process(contact.process, last, now))
            if refusal is None and epoch is not None and epoch.state == OPEN and contact.crowd:
                transaction.set_crowd(contact.epoch, proxy, contact.crowd)
            database = transaction.get_service().name
        if refusal is not None:
            raise RefusedError(refusal)
        # An earlier epoch without a row is one that `go_beyond` skipped. It counts as applied.
        if epoch is None:
            return Reply("applied" if contact.epoch else "none", now, database)
        return Reply(epoch.state, now, database)

    def _find_refusal(
        self, transaction: Transaction, epoch: Epoch | None, contact: Contact
    ) -> str | None:
        """Return why reports of a proxy's epoch can never be counted here; None if they can."""
        latest, number = transaction.find_latest_epoch(), contact.epoch
        # An earlier epoch is over, and the proxy will move on to the latest one.
        if latest is None or number < latest.epoch:
            return None
        advice = f"`sottovoce server go-beyond {number}` lets all go on with the next"
        name = transaction.get_service().name
        if contact.server_database not in (None, name):
            advice = (
                f"This database ({name}) is not the one that it knows ({contact.server_database}): "
                f"check `database` in the settings. Only if that one is lost for good: {advice}"
            )
        if number > find_max_epoch(transaction):
            return f"it names epoch {number}, but no backup can be old enough for that number"
        if epoch is None:
            return (
                f"it has seen epoch {number}, but epoch {latest.epoch} is the last one in this "
                f"database, which was set back. {advice}"
            )
        if epoch.hash != contact.manifest:
            return (
                f"it has seen another manifest of epoch {number} than this database has, which was "
                f"set back. {advice}"
            )
        if epoch.state == APPLIED:
            return None
        wrapped = transaction.find_wrapped_key(epoch.epoch)
        if wrapped is None:
            return f"this database lacks the key of epoch {epoch.epoch}, which backups leave out"
        try:
            self._keys.unwrap(epoch.epoch, wrapped)
        except SottovoceError as error:
            return str(error)
        return None

    def take_chunk(self, proxy: str, epoch: int, name: str, data: bytes) -> bool:
        """Count a chunk; return False if it was counted before.

        Only reports that are not known yet are opened, so copies of reports or of garbage take
        almost no time.

        Raises:
            ProtocolError: The chunk is malformed, or has another name or epoch.
            RefusedError: The proxy may not hand it in.
        """
        if sha256(data).hexdigest() != name:
            raise ProtocolError("chunk: its name is not the SHA-256 of its bytes")
        chunk = Chunk.decode(data)
        if chunk.epoch != epoch:
            raise ProtocolError(
                f"chunk: it belongs to epoch {chunk.epoch}, but was sent for epoch {epoch}"
            )
        key = self._find_opening_key(proxy, chunk)
        if key is None:
            self._counter.record_repeat(proxy, chunk)
            return False
        private_key, n_directions = key
        # Opening takes seconds, so it happens outside any transaction.
        start = time.perf_counter()
        unseen = self._counter.select_unseen(chunk)
        opened = self._opener.open(unseen, private_key, chunk.manifest_hash, n_directions)
        self.metrics.opening.inc(time.perf_counter() - start)
        is_new = self._counter.count(proxy, chunk, opened, n_directions, self._clock())
        self.metrics.chunks.inc()
        return is_new

    def commit(
        self, proxy: str, epoch: int, manifest_hash: bytes, chunks: int, reports: int
    ) -> None:
        """Record that a proxy has handed in everything.

        Args:
            proxy: Name of the proxy.
            epoch: Number of the epoch.
            manifest_hash: Hash of the epoch's manifest.
            chunks: Number of chunks that the proxy has handed in.
            reports: Number of reports in these chunks.

        Raises:
            RefusedError: Fewer chunks or reports were received.
        """
        with self._store.write() as transaction:
            row = check_epoch_exists(transaction.find_epoch(epoch, lock=True), epoch)
            check_manifest(row, manifest_hash)
            if transaction.find_commit(epoch, proxy) == (chunks, reports):
                return
            check_closed(row, epoch)
            n_chunks, n_reports = transaction.count_received(epoch, proxy)
            # There may be more than the proxy names: after its folder was restored from a backup,
            # it mixes the same reports again, into other chunks. Each report counts once.
            if n_chunks < chunks or n_reports < reports:
                raise RefusedError(
                    f"received {n_chunks} chunks with {n_reports} reports of epoch {epoch}, but "
                    f"this proxy names {chunks} chunks with {reports} reports: send all again"
                )
            check_not_committed(transaction, epoch, proxy)
            transaction.add_commit(epoch, proxy, chunks, reports)

    def _find_opening_key(self, proxy: str, chunk: Chunk) -> tuple[bytes, int] | None:
        """Return the epoch's private key and number of directions; None for a counted chunk."""
        with self._store.read() as transaction:
            epoch = check_closed(transaction.find_epoch(chunk.epoch), chunk.epoch)
            check_manifest(epoch, chunk.manifest_hash)
            if transaction.has_chunk(chunk.epoch, chunk.name):
                return None
            check_not_committed(transaction, chunk.epoch, proxy)
            check_limits(transaction, proxy, chunk, self._settings)
            wrapped = transaction.find_wrapped_key(chunk.epoch)
        if wrapped is None:
            raise StoreError(f"the key of epoch {chunk.epoch} must be in the database")
        n_directions = self._publisher.open_manifest(epoch).build().n_directions
        return self._keys.unwrap(chunk.epoch, wrapped), n_directions


def _is_unfinished(transaction: Transaction, proxy: str) -> bool:
    """Return whether a proxy may still have batches of the latest epoch."""
    latest = transaction.find_latest_epoch()
    if latest is None or latest.state == APPLIED:
        return False
    return transaction.find_commit(latest.epoch, proxy) is None

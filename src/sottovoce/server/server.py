"""The paper's component 3: open, aggregate, update, publish."""

import logging
import threading
import time
from collections.abc import Callable
from hashlib import sha256

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
from sottovoce.server.administration import agree
from sottovoce.server.counting import Counter, Opener
from sottovoce.server.epochs import (
    Publisher,
    check_closed,
    check_epoch_exists,
    check_limits,
    check_manifest,
    check_not_committed,
    find_max_epoch,
    get_epoch_wait,
)
from sottovoce.server.keys import Keys, check_may_sign, find_key_problem, may_sign
from sottovoce.server.settings import ServerSettings
from sottovoce.server.status import SILENCE, Metrics, describe_proxy
from sottovoce.server.store import ServerStore
from sottovoce.server.transaction import APPLIED, OPEN, Epoch, ProxyContact, Service, Transaction
from sottovoce.service.logs import Troubles


class Server:
    """One worker. Any number of them, here or elsewhere, may share a database."""

    def __init__(
        self,
        store: ServerStore,
        keys: Keys,
        settings: ServerSettings,
        *,
        clock: Callable[[], float] = time.time,
        opener: Opener,
    ):
        self.metrics = Metrics()
        self.metrics.watch(
            disk_free_bytes=store.get_free_bytes,
            keys_wrong=lambda: self.troubles["keys"] is not None,
        )
        self._store = store
        self._keys = keys
        self._settings = settings
        self._clock = clock
        self._opener = opener
        self._counter = Counter(store)
        self._publisher = Publisher(settings, keys)
        self._lock = threading.Lock()
        self._is_ready = False
        self._scrubbed = False
        self._is_laid_out = False
        self._began: float | None = None
        self.troubles = Troubles()

    # What the server does by itself

    def prepare(self) -> None:
        """Bring the database up to date and check that these settings belong to it.

        Safe to repeat. A database that `sottovoce server init` did not create is refused.
        """
        with self._lock:
            if not self._is_ready:
                self._store.migrate()
                with self._store.write() as transaction:
                    agree(transaction, self._settings, self._keys)
                self._is_ready = True

    def tick(self) -> None:
        """Move on as far as the clock and the proxies allow; any number of workers may."""
        self.prepare()
        self._store.check_writable()  # a full disk shows here, and is said, before a proxy meets it
        while self._step():
            self._scrubbed = False
        self._heed_proxies()
        if not self._scrubbed:
            # Again with the next beat if a reader was in the way, and once after every start.
            self._scrubbed = self._store.scrub()

    def _step(self) -> bool:
        """One step, in a transaction of its own; whether there was one to take."""
        now = self._clock()
        with self._store.write() as transaction:
            service = transaction.get_service(lock=True)
            self._heed_keys(service)
            if may_sign(self._keys, service):
                self._lay_out(transaction, now)
            latest = transaction.find_latest_epoch(lock=True)
            if latest is None:
                self._publisher.publish_first(transaction, now)
            elif latest.state == APPLIED:
                if not self._publisher.has_next(transaction, latest, now):
                    return False
                self._publisher.publish_next(transaction, latest, now)
            elif transaction.find_wrapped_key(latest.epoch) is None:
                self._publisher.end_without_key(transaction, latest, now)
            elif not self._is_over(transaction, latest, now):
                return False
            elif latest.state == OPEN:
                transaction.close_epoch(latest.epoch, now)
            else:
                self._publisher.apply_epoch(transaction, latest, now)
        return True

    def _is_over(self, transaction: Transaction, epoch: Epoch, now: float) -> bool:
        waiting = get_epoch_wait(transaction, epoch, self._settings, now)
        is_over = waiting is not None and waiting.is_over
        return is_over and not self._clock_is_wrong(transaction, epoch, now)

    def _clock_is_wrong(self, transaction: Transaction, epoch: Epoch, now: float) -> bool:
        """Whether all proxies that spoke lately have another time: nothing is ended by ours then.

        They hold what people have paid for, and take nothing more meanwhile.
        """
        heard, most = (
            transaction.get_contacts(),
            allowed_clock_skew(self._publisher.open_manifest(epoch)),
        )
        known = [heard[name] for name in self._settings.proxies if name in heard]
        lately = [said for said in known if now - said.last_contact <= SILENCE]
        return bool(lately) and all(abs(said.clock_ahead) > most for said in lately)

    def _lay_out(self, transaction: Transaction, now: float) -> None:
        """Sign another catalogue at once, and once after a start the same one again.

        A database that was restored has an older shelf than devices have seen. And so has one of a
        time when our clock was behind.
        """
        shelf, newest = transaction.find_shelf(), transaction.find_catalogue()
        is_behind = shelf is not None and shelf.published < shelf.most <= now + DAY_SECONDS
        is_other = shelf is None or shelf.catalogue != newest.sha256
        if is_other or is_behind or not self._is_laid_out:
            self._publisher.publish_shelf(transaction, now)
            self._is_laid_out = True

    def _heed_keys(self, service: Service) -> None:
        """Say at once, and once, that another key was chosen, or that their file is lost.

        Others may still publish: a process that hears of it when nobody can any more is late.
        """
        said = find_key_problem(self._keys, service, self._settings.keys)
        self.troubles.update("keys", said, level=logging.ERROR)

    def _heed_proxies(self) -> None:
        """What is wrong with them, whichever worker heard it; silence since this one began."""
        now = self._clock()
        self._began = min(now, self._began or now)
        for name, said in self._heard().items():
            silent = now - max(self._began, 0.0 if said is None else said.last_contact)
            level = logging.ERROR if said is not None and said.refusal else logging.WARNING
            self.troubles.update(f"proxy {name}", describe_proxy(name, said, silent), level=level)

    def _heard(self) -> dict[str, ProxyContact | None]:
        """What each proxy of the settings said last."""
        with self._store.read() as transaction:
            heard = transaction.get_contacts()
        return {name: heard.get(name) for name in self._settings.proxies}

    # What everybody may ask

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

    def get_model(self, sha256: bytes) -> bytes | None:
        with self._store.read() as transaction:
            return transaction.find_file(sha256, "model")

    def get_catalogue(self, sha256: bytes) -> bytes | None:
        with self._store.read() as transaction:
            return transaction.find_file(sha256, "catalogue")

    def list_epochs(self) -> list[Epoch]:
        with self._store.read() as transaction:
            return transaction.list_epochs()

    def check_ready(self) -> None:
        """Whether it could do its work now; `UnavailableError` or `StoreError` if not."""
        self.get_signed_manifest()
        self._check_keys()
        self._store.check_writable()

    def _check_keys(self) -> None:
        """A worker whose key another has replaced cannot publish, whatever else it does."""
        with self._store.read() as transaction:
            service = transaction.get_service()
        try:
            check_may_sign(self._keys, service)
        except SettingsError as error:
            raise UnavailableError(f"this worker can publish nothing: {error}") from error

    def render_metrics(self) -> bytes:
        with self._store.read() as transaction:
            latest, applied = transaction.find_latest_epoch(), transaction.find_last_applied()
        heard = [said for said in self._heard().values() if said is not None]
        manifest = None if latest is None else self._publisher.open_manifest(latest)
        return self.metrics.text(latest, manifest, applied, heard, self._clock())

    # What proxies may do

    def handle_contact(self, proxy: str, said: Contact) -> Reply:
        """Hear where a proxy is and whether it has its crowd; say how its epoch stands.

        `RefusedError` if nothing of that epoch can ever be counted here. What was said is kept
        all the same, for `sottovoce server status`.
        """
        now = self._clock()
        with self._store.write() as transaction:
            last = transaction.get_contacts().get(proxy, ProxyContact(proxy, 0, 0.0, 0.0))
            found = transaction.find_epoch(said.epoch, lock=said.crowd is not None)
            refused = self._refusal(transaction, found, said)
            key = said.token_key or (last.token_key if said.process is None else b"")
            heard = ProxyContact(
                proxy, said.epoch, now, said.time - now, refused or "", token_key=key
            )
            is_unfinished = _is_unfinished(transaction, proxy)
            heard = heard.with_database(said.database, last, is_unfinished=is_unfinished)
            if last.list_other_processes(said.process, now):
                refused, heard = TWO_PROCESSES, last
            transaction.set_contact(heard.with_process(said.process, last, now))
            if refused is None and found is not None and found.state == OPEN and said.crowd:
                transaction.set_crowd(said.epoch, proxy, said.crowd)
            database = transaction.get_service().name
        if refused is not None:
            raise RefusedError(refused)
        if found is None:
            return Reply("applied" if said.epoch else "none", now, database)
        return Reply(found.state, now, database)

    def _refusal(self, transaction: Transaction, found: Epoch | None, said: Contact) -> str | None:
        """Why nothing of the epoch that a proxy is at can be counted here; None: it can."""
        latest = transaction.find_latest_epoch()
        if latest is None or said.epoch < latest.epoch:
            return None  # it is over, and the proxy will follow
        beyond = f"`sottovoce server go-beyond {said.epoch}` lets all go on with the next"
        name = transaction.get_service().name
        if said.server_database not in (None, name):
            beyond = (
                f"This database ({name}) is not the one that it knows ({said.server_database}): "
                f"check `database` in the settings. Only if that one is lost for good: {beyond}"
            )
        if said.epoch > find_max_epoch(transaction):
            return f"it names epoch {said.epoch}, which no backup is old enough for: it lies"
        if found is None:
            return (
                f"it has seen epoch {said.epoch}, and this database ends with {latest.epoch}: it "
                f"was set back. {beyond}"
            )
        if found.hash != said.manifest:
            return (
                f"it has seen another manifest of epoch {said.epoch} than this database has, which "
                f"was set back. {beyond}"
            )
        if found.state == APPLIED:
            return None
        return _lost_key(transaction, self._keys, found)

    def take_chunk(self, proxy: str, epoch: int, name: str, data: bytes) -> bool:
        """Count it; False if it was counted before. Opening happens outside any transaction.

        What is known already is not opened: copies, of garbage too, cost next to nothing.
        """
        chunk = _decoded(epoch, name, data)
        found = self._key_for(proxy, chunk)
        if found is None:
            self._counter.record_repeat(proxy, chunk)
            return False
        private_key, n_directions = found
        began = time.perf_counter()
        unseen = self._counter.select_unseen(chunk)
        opened = self._opener.open(unseen, private_key, chunk.manifest_hash, n_directions)
        self.metrics.opening.inc(time.perf_counter() - began)
        counted = self._counter.count(proxy, chunk, opened, n_directions, self._clock())
        self.metrics.chunks.inc()
        return counted

    def commit(
        self, proxy: str, epoch: int, manifest_hash: bytes, chunks: int, reports: int
    ) -> None:
        """Record that this was all; `RefusedError` if less of it was received."""
        with self._store.write() as transaction:
            found = check_epoch_exists(transaction.find_epoch(epoch, lock=True), epoch)
            check_manifest(found, manifest_hash)
            if transaction.find_commit(epoch, proxy) == (chunks, reports):
                return
            check_closed(found, epoch)
            received = transaction.count_received(epoch, proxy)
            # More may have come: a proxy whose folder was put back mixes again, into other chunks.
            # Reports that both mixes have count once.
            if received[0] < chunks or received[1] < reports:
                raise RefusedError(
                    f"received {received[0]} chunks with {received[1]} reports of epoch {epoch}, "
                    f"not {chunks} with {reports}: send them again"
                )
            check_not_committed(transaction, epoch, proxy)
            transaction.add_commit(epoch, proxy, chunks, reports)

    def _key_for(self, proxy: str, chunk: Chunk) -> tuple[bytes, int] | None:
        """The epoch's private key and directions, or None if the chunk is counted already."""
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


TWO_PROCESSES = (
    "another process speaks with this proxy's secret, and has done so for longer: the server hears "
    "that one. If it is a copy, stop one of them: the other is heard within two minutes. If both "
    "are meant, give each a name and a secret of its own ([proxies] of the server)"
)


def _is_unfinished(transaction: Transaction, proxy: str) -> bool:
    """Return whether batches of the latest epoch may still wait at this proxy."""
    latest = transaction.find_latest_epoch()
    if latest is None or latest.state == APPLIED:
        return False
    return transaction.find_commit(latest.epoch, proxy) is None


def _lost_key(transaction: Transaction, keys: Keys, epoch: Epoch) -> str | None:
    """Why its reports could not be opened."""
    wrapped = transaction.find_wrapped_key(epoch.epoch)
    if wrapped is None:
        return f"the key of epoch {epoch.epoch} is not in this database, as in a backup"
    try:
        keys.unwrap(epoch.epoch, wrapped)
    except SottovoceError as error:
        return str(error)
    return None


def _decoded(epoch: int, name: str, data: bytes) -> Chunk:
    if sha256(data).hexdigest() != name:
        raise ProtocolError("chunk: its name is not the SHA-256 of its bytes")
    chunk = Chunk.decode(data)
    if chunk.epoch != epoch:
        raise ProtocolError(f"chunk: it is of epoch {chunk.epoch}, sent to {epoch}")
    return chunk

"""From epoch to epoch: the manifest that opens one, and the model that its sums make.

All of it happens inside the transaction that publishes, so an epoch is applied once or not at all.
What the operator has chosen meanwhile (another catalogue, another training, another key) holds from
the next manifest on.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import sum_counts
from sottovoce.errors import (
    ClosedError,
    NotFoundError,
    ProtocolError,
    RefusedError,
    SettingsError,
    StoreError,
    TooEarlyError,
)
from sottovoce.protocol import (
    SEALED_BYTES,
    Catalogue,
    Chunk,
    Manifest,
    Shelf,
    SignedManifest,
    SignedShelf,
    decode_items,
    derive_public_key,
    encode_items,
    generate_epoch_key,
    move_rows,
)
from sottovoce.protocol.batch import CHUNK_HEADER_BYTES as HEADER
from sottovoce.protocol.contact import (
    CROWD_ENOUGH,
    CROWD_NEVER,
    CROWD_SHORT,
    DAY_SECONDS,
    MIN_NOTICED_SKEW_SECONDS,
)
from sottovoce.protocol.manifest import MAX_EPOCH, format_manifest_hash
from sottovoce.server.keys import Keys, check_may_sign
from sottovoce.server.settings import ServerSettings
from sottovoce.server.training import Training
from sottovoce.server.transaction import APPLIED, CLOSED, OPEN, Epoch, Transaction
from sottovoce.training import compute_next_items, inherit_items, make_first_items
from sottovoce.training.counts import cap_counts

log = logging.getLogger("sottovoce")


@dataclass(frozen=True)
class PendingConfig:
    """What holds for the next manifest."""

    training: Training
    catalogue: Catalogue
    version: int
    """The catalogue's."""

    @classmethod
    def read(cls, transaction: Transaction) -> Self:
        training, newest = transaction.find_training(), transaction.find_catalogue()
        if training is None or newest is None:
            raise StoreError("the database is not set up: `sottovoce server init` does it")
        return cls(training, _catalogue(transaction, newest.sha256), newest.version)

    @property
    def items(self) -> int:
        return len(self.catalogue.items)

    def check(self) -> None:
        """Refuse what no manifest could say."""
        try:
            tokens = (bytes(32), None) if self.training.terms.accounts else (None, None)
            made = _manifest(self, _NOTHING, 1, bytes(32), 1.0, bytes(32), tokens, 0, 1)
            Manifest.decode(made.encode())
        except ProtocolError as error:
            said = f"no device could take part: {error}; begin another training for this catalogue"
            raise SettingsError(said) from error


@dataclass(frozen=True)
class TrainingProgress:
    """How far a training has come."""

    epochs: int
    """With reports behind its model."""
    reports: int
    """In the last of them."""


_NOTHING = TrainingProgress(0, 0)


@dataclass(frozen=True)
class Publisher:
    settings: ServerSettings
    keys: Keys

    def publish_first(self, transaction: Transaction, now: float) -> None:
        chosen = PendingConfig.read(transaction)
        V = make_first_items(chosen.training.settings, chosen.items)
        self._publish(transaction, chosen, V, _NOTHING, now, None)

    def apply_epoch(self, transaction: Transaction, epoch: Epoch, now: float) -> None:
        """The paper's update; an epoch without a crowd leaves the model as it is."""
        self._check_keys(transaction)
        manifest = self.open_manifest(epoch)
        mechanism = manifest.build()
        V = _model(transaction, manifest)
        learnt = TrainingProgress(epoch.epochs_done, manifest.reports_behind)
        committed = transaction.list_committed(epoch.epoch)
        handed_in = transaction.get_counts(epoch.epoch)
        counted, crowdless, dummies = sum_crowds(handed_in, manifest, committed)
        kept = cap_counts(counted, mechanism.event(1, 1), dummies)
        reports, over = int(kept.sum()) - dummies, int(counted.sum() - kept.sum())
        if reports > 0:
            learnt, sums = TrainingProgress(epoch.epochs_done + 1, reports), sum_counts(kept)
            training = transaction.find_training(epoch.training)
            assert training is not None, "a training that has had an epoch stays"
            V = compute_next_items(
                V,
                sums,
                reports,
                learnt.epochs,
                training.settings,
                mechanism,
                row_limit=self.settings.row_limit,
            )
            transaction.add_sums(epoch.epoch, sums)
        if over:
            said = "epoch %d: %d reports dropped, more of one kind than honest people send"
            log.warning(said, epoch.epoch, over)
        transaction.apply_epoch(
            epoch.epoch, reports=max(reports, 0), crowdless=crowdless, capped=over
        )
        said = "epoch %d: %d reports are counted; proxies that handed in: %d of %d"
        log.info(said, epoch.epoch, max(reports, 0), len(handed_in), len(self.settings.proxies))
        self._follow(transaction, epoch, V, learnt, now)

    def end_without_key(self, transaction: Transaction, epoch: Epoch, now: float) -> None:
        """Nobody can open more of its reports, so nobody shall pay for more; what counted stays."""
        said = "epoch %d ends now: its key is not in this database, as in a backup"
        log.error(said, epoch.epoch)
        transaction.close_epoch(epoch.epoch, now)
        self.apply_epoch(transaction, epoch, now)

    def has_next(self, transaction: Transaction, last: Epoch, now: float) -> bool:
        """Whether something is to be published after an epoch that asks for no reports.

        With accounts the first is one, and lasts as long as any: they have their tokens in it.
        """
        training, newest = transaction.find_training(), transaction.find_catalogue()
        assert training is not None
        assert newest is not None
        same = (training.number, newest.sha256) == (last.training, last.catalogue)
        has_gap = (
            transaction.get_service().next_epoch > last.epoch + 1
        )  # `go_beyond`: others have seen later ones
        manifest = self.open_manifest(last)
        is_later = manifest.next_token_key is None or now >= last.closes
        may_go_on = not training.terms.accounts or (
            self._next_token_key(transaction, manifest) is not None and is_later
        )
        return not same or has_gap or (may_go_on and _goes_on(training, last.epochs_done))

    def publish_next(self, transaction: Transaction, last: Epoch, now: float) -> None:
        """After a finished training: more epochs, another training, another catalogue."""
        manifest = self.open_manifest(last)
        learnt = TrainingProgress(last.epochs_done, manifest.reports_behind)
        self._follow(transaction, last, _model(transaction, manifest), learnt, now)

    def open_manifest(self, epoch: Epoch) -> Manifest:
        """Our own, checked like anybody's."""
        return SignedManifest.open(epoch.manifest, self.keys.first_key).manifest

    def _follow(
        self,
        transaction: Transaction,
        last: Epoch,
        V: NDArray[np.float32],
        learnt: TrainingProgress,
        now: float,
    ) -> None:
        """Publish the epoch after this one: its model carried over to what is chosen now."""
        chosen = PendingConfig.read(transaction)
        if chosen.catalogue.hash != last.catalogue:
            before = _catalogue(transaction, last.catalogue)
            V = move_rows(V, before.items, chosen.catalogue.items)
        if chosen.training.number != last.training:
            settings = chosen.training.settings
            if chosen.training.random_start:
                V, learnt = make_first_items(settings, chosen.items), _NOTHING
            else:
                V, learnt = inherit_items(V, settings), TrainingProgress(0, learnt.reports)
        if not V.any():  # no item is left of those before: nobody could say anything of zeros
            V = make_first_items(chosen.training.settings, chosen.items)
        self._publish(transaction, chosen, V, learnt, now, self.open_manifest(last))
        transaction.delete_before(last.epoch + 2 - self.settings.keep_epochs)

    def _publish(
        self,
        transaction: Transaction,
        chosen: PendingConfig,
        V: NDArray[np.float32],
        learnt: TrainingProgress,
        now: float,
        last: Manifest | None,
    ) -> None:
        """The next manifest: with a key of its own, or without one when no reports are asked for.

        That is when the training is over, or when nobody has a token.
        """
        number = self._check_keys(transaction)
        tokens: tuple[bytes | None, bytes | None] = None, None
        if chosen.training.terms.accounts:
            tokens = _token_key(last, number), self._next_token_key(transaction, last)
        goes_on = _goes_on(chosen.training, learnt.epochs)
        has_tokens = not chosen.training.terms.accounts or tokens[0] is not None
        private = generate_epoch_key() if goes_on and has_tokens else None
        public = None if private is None else derive_public_key(private)
        content = encode_items(V)
        model = sha256(content).digest()
        ridge = chosen.training.settings.compute_user_ridge(V)
        until = int(now) + self.settings.epoch_seconds
        manifest = _manifest(chosen, learnt, number, model, ridge, public, tokens, int(now), until)
        signed = SignedManifest.make(manifest, self.keys.signer, self.keys.statements)
        epoch = Epoch(
            epoch=number,
            state=APPLIED if private is None else OPEN,
            manifest=signed.encode(),
            hash=signed.hash,
            model=model,
            epochs_done=learnt.epochs,
            opens=manifest.opens,
            closes=manifest.closes,
            ends=manifest.ends,
            training=chosen.training.number,
            catalogue=chosen.catalogue.hash,
        )
        transaction.add_file(model, "model", content)
        transaction.add_epoch(epoch, None if private is None else self.keys.wrap(number, private))
        transaction.set_service(self.keys.verification_key, number + 1)
        self.publish_shelf(transaction, now)

    def _next_token_key(self, transaction: Transaction, last: Manifest | None) -> bytes | None:
        """What the proxy has announced, unless a manifest has named it before."""
        heard, (proxy,) = transaction.get_contacts(), self.settings.proxies
        found = heard[proxy].token_key if proxy in heard else b""
        used = () if last is None else (last.token_key, last.next_token_key)
        return found if found and found not in used else None

    def publish_shelf(self, transaction: Transaction, now: float) -> None:
        """Sign which catalogue holds for lists: with every manifest, and whenever it changes."""
        self._check_keys(transaction)
        newest, before = transaction.find_catalogue(), transaction.find_shelf()
        assert newest is not None
        published, most = int(now), 0 if before is None else before.most
        if most <= now + DAY_SECONDS:  # nobody believes a later one
            published = max(published, most + 1)
        shelf = Shelf(published, newest.sha256)
        signed = SignedShelf.make(shelf, self.keys.signer, self.keys.statements)
        transaction.set_shelf(signed, max(most, published))

    def _check_keys(self, transaction: Transaction) -> int:
        """A worker with an old key computes nothing that it could not publish; the next number."""
        service = transaction.get_service(lock=True)
        check_may_sign(self.keys, service)
        return service.next_epoch


MAX_SKIPPED_EPOCHS = 2**20
"""More epochs than any backup is old: anyone who names a later one would use up all numbers."""


def find_max_epoch(transaction: Transaction) -> int:
    """The last epoch that somebody could have seen, if this database was set back."""
    return min(transaction.get_service().next_epoch + MAX_SKIPPED_EPOCHS, MAX_EPOCH - 1)


def is_in_future(epoch: Epoch, now: float) -> bool:
    """Whether a clock was wrong when it was published: nobody reports before it opens."""
    return epoch.opens > now + MIN_NOTICED_SKEW_SECONDS


def _token_key(last: Manifest | None, number: int) -> bytes | None:
    """What the manifest before named for this very epoch; none after a gap."""
    return last.next_token_key if last is not None and last.epoch + 1 == number else None


def _goes_on(training: Training, epochs_done: int) -> bool:
    """An epoch that came to nothing is held again."""
    return bool(training.settings.half_life) or _epochs_left(training, epochs_done) > 0


def _epochs_left(training: Training, epochs_done: int) -> int:
    """0 where there is no end."""
    settings = training.settings
    return 0 if settings.half_life else max(settings.epochs - epochs_done, 0)


def _model(transaction: Transaction, manifest: Manifest) -> NDArray[np.float32]:
    content = transaction.find_file(manifest.model, "model") or b""
    return decode_items(content, manifest.items, manifest.terms.factors)


def _catalogue(transaction: Transaction, digest: bytes) -> Catalogue:
    return Catalogue.decode(transaction.find_file(digest, "catalogue") or b"")


def _manifest(
    chosen: PendingConfig,
    learnt: TrainingProgress,
    number: int,
    model: bytes,
    ridge: float,
    public: bytes | None,
    tokens: tuple[bytes | None, bytes | None],
    opens: int,
    closes: int,
) -> Manifest:
    return Manifest(
        epoch=number,
        terms=chosen.training.make_terms(chosen.items),
        items=chosen.items,
        alpha=chosen.training.settings.alpha,
        regularization=ridge,
        model=model,
        catalogue=chosen.catalogue.hash,
        public_key=public,
        token_key=tokens[0],
        next_token_key=tokens[1],
        opens=opens,
        closes=closes,
        epochs_left=_epochs_left(chosen.training, learnt.epochs),
        reports_behind=learnt.reports,
    )


def sum_crowds(
    counts: Mapping[str, NDArray[np.int64]], manifest: Manifest, committed: Collection[str]
) -> tuple[NDArray[np.int64], int, int]:
    """The counts of those proxies together that have a crowd and their dummies.

    Then how many reports others had, and how many dummies are among those that count. What counts
    is what could be opened: otherwise somebody who sends bytes that mean nothing makes a crowd for
    one person, and reads that person's reports off the public model. Of a proxy that has not handed
    in everything nobody knows how many dummies came: with dummies, it does not count.
    """
    terms = manifest.terms
    total, dropped, dummies = np.zeros(2 * manifest.build().n_directions, np.int64), 0, 0
    for proxy, found in sorted(counts.items()):
        reports = int(found.sum())
        whole = proxy in committed or not terms.dummies
        if whole and reports >= terms.least_clients * terms.reports + terms.dummies:
            total += found
            dummies += terms.dummies
        else:
            dropped += reports
            said = "epoch %d: %d reports from proxy %s are too few for a crowd and were dropped"
            log.warning(said, manifest.epoch, reports, proxy)
    return total, dropped, dummies


# What an epoch waits for before it is closed, and before it is applied: the one rule for both.
#
# Workers ask it whether to go on, and `sottovoce server status` what is still missing.

LONGEST = 10
"""Times the grace: a closed epoch waits no longer, however many chunks still come.

Otherwise a proxy that lies could hold it for ever, with one chunk at a time.
"""


@dataclass(frozen=True)
class EpochWait:
    is_over: bool
    """Whether to go on now."""
    since: float
    """When there was news last."""
    until: float
    """From then on it waits for nobody."""
    short: tuple[str, ...] = ()
    """Proxies that have people, and too few to mix."""
    silent: tuple[str, ...] = ()
    """Proxies that have said nothing, or have not handed in what they have."""
    has_crowd: bool = True
    """Whether some proxy has enough people."""


def get_epoch_wait(
    transaction: Transaction, epoch: Epoch, settings: ServerSettings, now: float
) -> EpochWait | None:
    """None for an epoch that waits for nothing any more."""
    if epoch.state == OPEN:
        return get_crowd_wait(epoch, transaction.get_crowds(epoch.epoch), settings, now)
    if epoch.state == CLOSED:
        committed = transaction.list_committed(epoch.epoch)
        return get_report_wait(
            epoch, committed, transaction.get_count_times(epoch.epoch), settings, now
        )
    return None


def get_crowd_wait(
    epoch: Epoch, told: Mapping[str, str], settings: ServerSettings, now: float
) -> EpochWait:
    """Of an open epoch: never closed before its time, then with the crowd, at the end in any case.

    A proxy that has said nothing yet might be short; one that is down is not waited for long.
    """
    short = tuple(name for name in settings.proxies if told.get(name) == CROWD_SHORT)
    silent = tuple(name for name in settings.proxies if name not in told)
    has_crowd = any(told.get(name) == CROWD_ENOUGH for name in settings.proxies)
    patient = bool(silent) and now < epoch.closes + settings.grace_seconds
    hopeless = all(told.get(name) == CROWD_NEVER for name in settings.proxies)
    complete = (has_crowd or hopeless) and not short and not patient
    is_over = now >= epoch.closes and (complete or now >= epoch.ends)
    return EpochWait(is_over, epoch.closes, epoch.ends, short, silent, has_crowd)


def get_report_wait(
    epoch: Epoch,
    committed: Collection[str],
    counted: Mapping[str, float],
    settings: ServerSettings,
    now: float,
) -> EpochWait:
    """Of a closed epoch: applied when every proxy has handed in, or the others' grace is over.

    It begins anew with every chunk of theirs: a large epoch is not ended while it comes. `counted`
    is when the last one came.
    """
    closed, grace = epoch.closed_at or 0.0, settings.grace_seconds
    news = {name: max(counted.get(name, closed), closed) for name in settings.proxies}
    silent = tuple(name for name in settings.proxies if name not in committed)
    latest = max((news[name] for name in silent), default=closed)
    until = min(latest + grace, closed + LONGEST * grace)
    since = min(news[name] for name in silent) if silent else max(news.values())
    return EpochWait(not silent or now >= until, since, until, silent=silent)


# What may be done to an epoch in which state: open, closed, applied.


def check_epoch_exists(epoch: Epoch | None, number: int) -> Epoch:
    if epoch is None:
        raise NotFoundError(f"there is no epoch {number}")
    return epoch


def check_closed(epoch: Epoch | None, number: int) -> Epoch:
    """Chunks and commits belong to the time between closing and applying."""
    found = check_epoch_exists(epoch, number)
    if found.state == OPEN:
        raise TooEarlyError(f"epoch {number} is still open: send this when it is closed")
    if found.state != CLOSED:
        raise ClosedError(f"epoch {number} is over: what it counted is in the next model")
    return found


def check_manifest(epoch: Epoch, manifest_hash: bytes) -> None:
    """Everybody must mean the same epoch under the same manifest."""
    if epoch.hash != manifest_hash:
        raise RefusedError(f"epoch {epoch.epoch} has another: {format_manifest_hash(epoch.hash)}")


def check_not_committed(transaction: Transaction, epoch: int, proxy: str) -> None:
    """A commit means that this was all."""
    if transaction.find_commit(epoch, proxy) is not None:
        raise RefusedError(f"this proxy has committed epoch {epoch}: nothing more is taken of it")


def check_limits(
    transaction: Transaction, proxy: str, chunk: Chunk, settings: ServerSettings
) -> None:
    """What one proxy may hand in of one epoch; those under way at the same time are not counted."""
    chunks, reports = transaction.count_received(chunk.epoch, proxy)
    size = HEADER * (chunks + 1) + SEALED_BYTES * (reports + chunk.reports)
    if chunks >= settings.most_chunks or size > settings.most_bytes:
        raise RefusedError(
            f"of epoch {chunk.epoch} this server takes {settings.most_chunks} chunks and "
            f"{settings.most_bytes} bytes of a proxy, and no more"
        )

"""From epoch to epoch: the manifest that opens one, and the model that its sums make.

All of it happens inside the transaction that publishes, so an epoch is applied once or not at all.
What the operator has chosen meanwhile (another catalogue, another training, another key) holds from
the next manifest on.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import ProtocolError, SettingsError, StoreError
from sottovoce.mechanism import sums_of
from sottovoce.protocol import (
    Catalogue,
    Manifest,
    SignedManifest,
    decode_items,
    encode_items,
    new_epoch_key,
    public_key_of,
)
from sottovoce.server.catalogues import moved_rows
from sottovoce.server.store import APPLIED, OPEN, Epoch
from sottovoce.server.succession import check_may_sign
from sottovoce.training import first_items, inherited_items, next_items
from sottovoce.training.counts import capped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sottovoce.server.keys import Keys
    from sottovoce.server.settings import ServerSettings
    from sottovoce.server.store import Transaction
    from sottovoce.server.training import Training

log = logging.getLogger("sottovoce")


@dataclass(frozen=True)
class Chosen:
    """What holds for the next manifest."""

    training: Training
    catalogue: Catalogue
    version: int
    """The catalogue's."""

    @classmethod
    def now(cls, transaction: Transaction) -> Chosen:
        training, newest = transaction.training(), transaction.catalogue()
        if training is None or newest is None:
            raise StoreError("the database is not set up: `sottovoce server init` does it")
        return cls(training, _catalogue(transaction, newest.sha256), newest.version)

    @property
    def items(self) -> int:
        return len(self.catalogue.items)

    def check(self) -> None:
        """Refuse what no manifest could say."""
        try:
            Manifest.decode(_manifest(self, _NOTHING, 1, bytes(32), 1.0, bytes(32), 0, 1).encode())
        except ProtocolError as error:
            raise SettingsError(f"no device could take part: {error}") from error


@dataclass(frozen=True)
class Learnt:
    """How far a training has come."""

    epochs: int
    """With reports behind its model."""
    reports: int
    """In the last of them."""


_NOTHING = Learnt(0, 0)


@dataclass(frozen=True)
class Publisher:
    settings: ServerSettings
    keys: Keys

    def begin(self, transaction: Transaction, now: float) -> None:
        chosen = Chosen.now(transaction)
        V = first_items(chosen.training.settings, chosen.items)
        self._publish(transaction, chosen, V, _NOTHING, now)

    def apply(self, transaction: Transaction, epoch: Epoch, now: float) -> None:
        """The paper's update; an epoch without a crowd leaves the model as it is."""
        self._check_keys(transaction)
        manifest = self.manifest_of(epoch)
        mechanism = manifest.build()
        V = _model(transaction, manifest)
        learnt = Learnt(epoch.epochs_done, manifest.reports_behind)
        counted, crowdless = with_crowd(transaction.counts(epoch.epoch), manifest)
        kept = capped(counted, mechanism.event(1, 1))
        reports, over = int(kept.sum()), int(counted.sum() - kept.sum())
        if reports:
            learnt, sums = Learnt(epoch.epochs_done + 1, reports), sums_of(kept)
            settings = _training_of(transaction, epoch).settings
            V = next_items(V, sums, reports, learnt.epochs, settings, mechanism)
            transaction.add_sums(epoch.epoch, sums)
        if over:
            said = "epoch %d: %d reports dropped, more of one kind than honest people send"
            log.warning(said, epoch.epoch, over)
        transaction.apply(epoch.epoch, reports=reports, crowdless=crowdless, capped=over)
        self._follow(transaction, epoch, V, learnt, now)

    def has_more(self, transaction: Transaction, last: Epoch) -> bool:
        """Whether something is to be published after an epoch that asks for no reports."""
        training, newest = transaction.training(), transaction.catalogue()
        service = transaction.service()
        assert training is not None
        assert newest is not None
        assert service is not None
        same = (training.number, newest.sha256) == (last.training, last.catalogue)
        has_gap = service.next_epoch > last.epoch + 1  # `go_beyond`: others have seen later ones
        return not same or has_gap or _goes_on(training, last.epochs_done)

    def go_on(self, transaction: Transaction, last: Epoch, now: float) -> None:
        """After a finished training: more epochs, another training, another catalogue."""
        manifest = self.manifest_of(last)
        learnt = Learnt(last.epochs_done, manifest.reports_behind)
        self._follow(transaction, last, _model(transaction, manifest), learnt, now)

    def manifest_of(self, epoch: Epoch) -> Manifest:
        """Our own, checked like anybody's."""
        return SignedManifest.open(epoch.manifest, self.keys.first).manifest

    def _follow(
        self,
        transaction: Transaction,
        last: Epoch,
        V: NDArray[np.float32],
        learnt: Learnt,
        now: float,
    ) -> None:
        """Publish the epoch after this one: its model carried over to what is chosen now."""
        chosen = Chosen.now(transaction)
        if chosen.catalogue.hash != last.catalogue:
            before = _catalogue(transaction, last.catalogue)
            V = moved_rows(V, before.items, chosen.catalogue.items)
        if chosen.training.number != last.training:
            settings = chosen.training.settings
            if chosen.training.anew:
                V, learnt = first_items(settings, chosen.items), _NOTHING
            else:
                V, learnt = inherited_items(V, settings), Learnt(0, learnt.reports)
        if not V.any():  # no item is left of those before: nobody could say anything of zeros
            V = first_items(chosen.training.settings, chosen.items)
        self._publish(transaction, chosen, V, learnt, now)
        transaction.forget_before(last.epoch + 2 - self.settings.keep_epochs)

    def _publish(
        self,
        transaction: Transaction,
        chosen: Chosen,
        V: NDArray[np.float32],
        learnt: Learnt,
        now: float,
    ) -> None:
        """The next manifest: with a key of its own, or without one when the training is over."""
        number = self._check_keys(transaction)
        private = new_epoch_key() if _goes_on(chosen.training, learnt.epochs) else None
        public = None if private is None else public_key_of(private)
        content = encode_items(V)
        model = sha256(content).digest()
        ridge = chosen.training.settings.user_ridge(V)
        until = int(now) + self.settings.epoch_seconds
        manifest = _manifest(chosen, learnt, number, model, ridge, public, int(now), until)
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

    def _check_keys(self, transaction: Transaction) -> int:
        """A worker with an old key computes nothing that it could not publish; the next number."""
        service = transaction.service(lock=True)
        assert service is not None
        check_may_sign(self.keys, service)
        return service.next_epoch


def _goes_on(training: Training, epochs_done: int) -> bool:
    """An epoch that came to nothing is held again."""
    return bool(training.settings.half_life) or _epochs_left(training, epochs_done) > 0


def _epochs_left(training: Training, epochs_done: int) -> int:
    """0 where there is no end."""
    settings = training.settings
    return 0 if settings.half_life else max(settings.epochs - epochs_done, 0)


def _training_of(transaction: Transaction, epoch: Epoch) -> Training:
    found = transaction.training(epoch.training)
    assert found is not None, "a training that has had an epoch stays"
    return found


def _model(transaction: Transaction, manifest: Manifest) -> NDArray[np.float32]:
    content = transaction.file(manifest.model, "model") or b""
    return decode_items(content, manifest.items, manifest.terms.factors)


def _catalogue(transaction: Transaction, digest: bytes) -> Catalogue:
    return Catalogue.decode(transaction.file(digest, "catalogue") or b"")


def _manifest(
    chosen: Chosen,
    learnt: Learnt,
    number: int,
    model: bytes,
    ridge: float,
    public: bytes | None,
    opens: int,
    closes: int,
) -> Manifest:
    return Manifest(
        epoch=number,
        terms=chosen.training.terms_for(chosen.items),
        items=chosen.items,
        alpha=chosen.training.settings.alpha,
        regularization=ridge,
        model=model,
        catalogue=chosen.catalogue.hash,
        catalogue_version=chosen.version,
        public_key=public,
        opens=opens,
        closes=closes,
        epochs_left=_epochs_left(chosen.training, learnt.epochs),
        reports_behind=learnt.reports,
    )


def with_crowd(
    counts: Mapping[str, NDArray[np.int64]], manifest: Manifest
) -> tuple[NDArray[np.int64], int]:
    """The counts of those proxies together that have a crowd, and how many reports others had.

    What counts is what could be opened: otherwise somebody who sends bytes that mean nothing makes
    a crowd for one person, and reads that person's reports off the public model.
    """
    terms = manifest.terms
    total, dropped = np.zeros(2 * manifest.build().n_directions, np.int64), 0
    for proxy, found in sorted(counts.items()):
        reports = int(found.sum())
        if reports >= terms.least_clients * terms.reports:
            total += found
        else:
            dropped += reports
            said = "epoch %d: %d reports from proxy %s are too few for a crowd and were dropped"
            log.warning(said, manifest.epoch, reports, proxy)
    return total, dropped

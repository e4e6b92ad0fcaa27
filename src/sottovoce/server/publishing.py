"""From epoch to epoch: the manifest that opens one, and the model that its sums make.

All of it happens inside the transaction that publishes, so an epoch is applied once or not at all.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import ProtocolError, SettingsError
from sottovoce.mechanism import sums_of
from sottovoce.protocol import (
    Manifest,
    SignedManifest,
    Terms,
    decode_items,
    encode_items,
    new_epoch_key,
    public_key_of,
)
from sottovoce.protocol.terms import TRAINING
from sottovoce.server.store import APPLIED, OPEN, Epoch
from sottovoce.training import first_items, next_items
from sottovoce.training.counts import capped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sottovoce.mechanism import Mechanism
    from sottovoce.protocol import Catalogue
    from sottovoce.server.keys import Keys
    from sottovoce.server.settings import ServerSettings
    from sottovoce.server.store import Transaction
    from sottovoce.training import Settings

log = logging.getLogger("sottovoce")


@dataclass(frozen=True)
class Publisher:
    """One training: what it was set up with, and how it moves on."""

    settings: ServerSettings
    training: Settings
    mechanism: Mechanism
    terms: Terms
    """Of the epochs to come."""
    catalogue: Catalogue
    keys: Keys

    @classmethod
    def of(cls, settings: ServerSettings, catalogue: Catalogue, keys: Keys) -> Publisher:
        """Of a new training; refuses what no manifest could say."""
        training, items = settings.training, len(catalogue.items)
        mechanism = training.build(items)
        terms = Terms.of(os.urandom(TRAINING), training, settings.terms, items)
        publisher = cls(settings, training, mechanism, terms, catalogue, keys)
        try:
            Manifest.decode(publisher._manifest(1, bytes(32), 1.0, bytes(32), 0, 0, 0.0).encode())
        except ProtocolError as error:
            raise SettingsError(f"no device could take part: {error}") from error
        return publisher

    def of_training(self, training: bytes) -> Publisher:
        """The same for a training that has its id already."""
        return replace(self, terms=replace(self.terms, training=training))

    def begin(self, transaction: Transaction, now: float) -> None:
        V = first_items(self.training, len(self.catalogue.items))
        transaction.add_file(self.catalogue.hash, "catalogue", self.catalogue.raw)
        model = self._keep_model(transaction, encode_items(V))
        self._publish(transaction, 1, model, 0, 0, now)

    def apply(self, transaction: Transaction, epoch: Epoch, now: float) -> None:
        """The paper's update; an epoch without a crowd leaves the model as it is."""
        manifest = self.manifest_of(epoch)
        model, done, behind = epoch.model, epoch.epochs_done, manifest.reports_behind
        counted, crowdless = with_crowd(transaction.counts(epoch.epoch), manifest)
        kept = capped(counted, self.mechanism.event(1, 1))
        reports, over = int(kept.sum()), int(counted.sum() - kept.sum())
        if reports:
            done, behind = done + 1, reports
            model = self._next_model(transaction, epoch, done, sums_of(kept), reports)
        if over:
            said = "epoch %d: %d reports dropped, more of one kind than honest people send"
            log.warning(said, epoch.epoch, over)
        transaction.apply(epoch.epoch, reports=reports, crowdless=crowdless, capped=over)
        self._publish(transaction, epoch.epoch + 1, model, done, behind, now)

    def go_on(self, transaction: Transaction, last: Epoch, now: float) -> None:
        """A finished training that was given more epochs."""
        behind = self.manifest_of(last).reports_behind
        self._publish(transaction, last.epoch + 1, last.model, last.epochs_done, behind, now)

    def wants_more(self, epochs_done: int) -> bool:
        return bool(self.training.half_life) or self._epochs_left(epochs_done) > 0

    def _epochs_left(self, epochs_done: int) -> int:
        """0 where there is no end. An epoch that came to nothing is held again."""
        return 0 if self.training.half_life else max(self.training.epochs - epochs_done, 0)

    def manifest_of(self, epoch: Epoch) -> Manifest:
        """Our own, checked like anybody's."""
        return SignedManifest.open(epoch.manifest, self.keys.verification_key).manifest

    def _next_model(
        self,
        transaction: Transaction,
        epoch: Epoch,
        done: int,
        sums: NDArray[np.int64],
        reports: int,
    ) -> bytes:
        """Its hash; sums and model stay in the database."""
        V = self._model(transaction, epoch.model)
        V = next_items(V, sums, reports, done, self.training, self.mechanism)
        transaction.add_sums(epoch.epoch, sums)
        return self._keep_model(transaction, encode_items(V))

    def _model(self, transaction: Transaction, digest: bytes) -> NDArray[np.float32]:
        content = transaction.file(digest, "model") or b""
        return decode_items(content, len(self.catalogue.items), self.training.factors)

    def _keep_model(self, transaction: Transaction, content: bytes) -> bytes:
        digest = sha256(content).digest()
        transaction.add_file(digest, "model", content)
        return digest

    def _publish(
        self,
        transaction: Transaction,
        number: int,
        model: bytes,
        done: int,
        behind: int,
        now: float,
    ) -> None:
        """The next manifest: with a key of its own, or for good without one."""
        private = new_epoch_key() if self.wants_more(done) else None
        public = None if private is None else public_key_of(private)
        ridge = self.training.user_ridge(self._model(transaction, model))
        manifest = self._manifest(number, model, ridge, public, done, behind, now)
        signed = SignedManifest.make(manifest, self.keys.signer)
        epoch = Epoch(
            epoch=number,
            state=APPLIED if private is None else OPEN,
            manifest=signed.encode(),
            hash=signed.hash,
            model=model,
            epochs_done=done,
            opens=manifest.opens,
            closes=manifest.closes,
            ends=manifest.ends,
        )
        wrapped = None if private is None else self.keys.wrap(number, private)
        transaction.add_epoch(epoch, wrapped)

    def _manifest(
        self,
        number: int,
        model: bytes,
        ridge: float,
        public: bytes | None,
        done: int,
        behind: int,
        now: float,
    ) -> Manifest:
        return Manifest(
            epoch=number,
            terms=self.terms,
            items=len(self.catalogue.items),
            alpha=self.training.alpha,
            regularization=ridge,
            model=model,
            catalogue=self.catalogue.hash,
            catalogue_version=1,
            public_key=public,
            opens=int(now),
            closes=int(now) + self.settings.epoch_seconds,
            epochs_left=self._epochs_left(done),
            reports_behind=behind,
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

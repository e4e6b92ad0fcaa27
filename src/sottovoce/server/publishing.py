"""From epoch to epoch: the manifest that opens one, and the model that its sums make.

All of it happens inside the transaction that publishes, so an epoch is applied once or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from sottovoce.errors import ProtocolError, SettingsError
from sottovoce.protocol import (
    Manifest,
    SignedManifest,
    decode_items,
    encode_items,
    new_epoch_key,
    public_key_of,
)
from sottovoce.server.store import APPLIED, OPEN, Epoch
from sottovoce.training import first_items, next_items

if TYPE_CHECKING:
    from sottovoce.mechanism import Mechanism
    from sottovoce.protocol import Catalogue
    from sottovoce.server.keys import Keys
    from sottovoce.server.settings import ServerSettings
    from sottovoce.server.store import Transaction
    from sottovoce.training import Settings


@dataclass(frozen=True)
class Publisher:
    """One training: what it was set up with, and how it moves on."""

    settings: ServerSettings
    training: Settings
    mechanism: Mechanism
    catalogue: Catalogue
    keys: Keys

    @classmethod
    def of(cls, settings: ServerSettings, catalogue: Catalogue, keys: Keys) -> Publisher:
        """Refuses what no manifest could say."""
        training = settings.training
        mechanism = training.build(len(catalogue.items))
        publisher = cls(settings, training, mechanism, catalogue, keys)
        try:
            Manifest.decode(publisher._manifest(1, bytes(32), bytes(32), 0, 0.0).encode())
        except ProtocolError as error:
            raise SettingsError(f"no device could take part: {error}") from error
        return publisher

    def begin(self, transaction: Transaction, now: float) -> None:
        V = first_items(self.training, len(self.catalogue.items))
        transaction.add_file(self.catalogue.hash, "catalogue", self.catalogue.raw)
        model = self._keep_model(transaction, encode_items(V))
        self._publish(transaction, 1, model, 0, 0, now)

    def apply(self, transaction: Transaction, epoch: Epoch, now: float) -> None:
        """The paper's update; an epoch without a report leaves the model as it is."""
        manifest = self.manifest_of(epoch)
        model, done, behind = epoch.model, epoch.epochs_done, manifest.previous_reports
        if epoch.reports:
            done, behind = done + 1, epoch.reports
            model = self._keep_model(transaction, self._next_model(transaction, epoch, done))
        transaction.apply(epoch.epoch)
        self._publish(transaction, epoch.epoch + 1, model, done, behind, now)

    def go_on(self, transaction: Transaction, last: Epoch, now: float) -> None:
        """A finished training that was given more epochs."""
        behind = self.manifest_of(last).previous_reports
        self._publish(transaction, last.epoch + 1, last.model, last.epochs_done, behind, now)

    def wants_more(self, epochs_done: int) -> bool:
        return epochs_done < self.training.epochs

    def manifest_of(self, epoch: Epoch) -> Manifest:
        """Our own, checked like anybody's."""
        return SignedManifest.open(epoch.manifest, self.keys.verification_key).manifest

    def _next_model(self, transaction: Transaction, epoch: Epoch, done: int) -> bytes:
        content = transaction.file(epoch.model, "model") or b""
        V = decode_items(content, len(self.catalogue.items), self.training.factors)
        sums = transaction.sums(epoch.epoch)
        return encode_items(next_items(V, sums, epoch.reports, done, self.training, self.mechanism))

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
        manifest = self._manifest(number, model, public, behind, now)
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
        )
        wrapped = None if private is None else self.keys.wrap(number, private)
        transaction.add_epoch(epoch, wrapped)

    def _manifest(
        self, number: int, model: bytes, public: bytes | None, behind: int, now: float
    ) -> Manifest:
        return Manifest.for_training(
            self.training,
            len(self.catalogue.items),
            epoch=number,
            model=model,
            catalogue=self.catalogue.hash,
            public_key=public,
            least_clients=self.settings.least_clients,
            opens=int(now),
            closes=int(now) + self.settings.epoch_seconds,
            previous_reports=behind,
        )

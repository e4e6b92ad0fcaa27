"""From epoch to epoch: apply the reports, compute the next model, publish the next manifest.

All of it happens in the transaction that publishes, so an epoch is applied once or not at all. What
the operator has changed meanwhile (catalogue, training, key) takes effect with the next manifest.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import sum_counts
from sottovoce.protocol import (
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
from sottovoce.protocol.contact import DAY_SECONDS
from sottovoce.server.key_chain import check_may_sign
from sottovoce.server.keys import Keys
from sottovoce.server.pending import NO_PROGRESS, PendingConfig, TrainingProgress, load_catalogue
from sottovoce.server.settings import ServerSettings
from sottovoce.server.transaction import APPLIED, OPEN, Epoch, Service, Transaction
from sottovoce.training import compute_next_items, inherit_items, make_first_items
from sottovoce.training.counts import cap_counts

log = logging.getLogger("sottovoce")


@dataclass(frozen=True)
class Publisher:
    """Applies epochs and publishes the next ones, with the keys of one worker."""

    settings: ServerSettings
    keys: Keys

    def publish_first(self, transaction: Transaction, now: float) -> None:
        """Publish the first epoch of a new database."""
        pending = PendingConfig.read(transaction)
        V = make_first_items(pending.training.settings, pending.items)
        self._publish(transaction, pending, V, NO_PROGRESS, now, None)

    def apply_epoch(self, transaction: Transaction, epoch: Epoch, now: float) -> None:
        """Update the model from an epoch's reports, as the paper does, and publish the next epoch.

        Without a crowd the model stays as it is.
        """
        # First: a worker with an old key must not compute what it could not publish.
        self._lock_service(transaction)
        manifest = self.open_manifest(epoch)
        mechanism = manifest.build()
        V = _load_model(transaction, manifest)
        progress = TrainingProgress(epoch.epochs_done, manifest.reports_behind)
        counts_by_proxy = transaction.get_counts(epoch.epoch)
        counts, crowdless, dummies = sum_crowds(
            counts_by_proxy, manifest, transaction.list_committed(epoch.epoch)
        )
        capped_counts = cap_counts(counts, mechanism.event(1, 1), dummies)
        # Dummies add nothing but noise to the sums: a model rests on people's reports.
        reports = int(capped_counts.sum()) - dummies
        excess = int(counts.sum() - capped_counts.sum())
        if reports > 0:
            # An epoch without reports is repeated: it does not count as done.
            progress = TrainingProgress(epoch.epochs_done + 1, reports)
            sums = sum_counts(capped_counts)
            training = transaction.find_training(epoch.training)
            assert training is not None, "a training that has had an epoch stays"
            V = compute_next_items(
                V,
                sums,
                reports,
                progress.epochs,
                training.settings,
                mechanism,
                row_limit=self.settings.row_limit,
            )
            transaction.add_sums(epoch.epoch, sums)
        if excess:
            log.warning(
                "epoch %d: %d reports dropped, more of one kind than honest people send",
                epoch.epoch,
                excess,
            )
        reports = max(reports, 0)
        transaction.apply_epoch(epoch.epoch, reports=reports, crowdless=crowdless, capped=excess)
        log.info(
            "epoch %d: %d reports are counted; proxies that handed in: %d of %d",
            epoch.epoch,
            reports,
            len(counts_by_proxy),
            len(self.settings.proxies),
        )
        self._publish_after(transaction, epoch, V, progress, now)

    def end_without_key(self, transaction: Transaction, epoch: Epoch, now: float) -> None:
        """End an epoch whose reports nobody can open any more; what was counted stays.

        Otherwise people would pay for reports that are lost.
        """
        log.error("epoch %d ends now: its key is not in this database, as in a backup", epoch.epoch)
        transaction.close_epoch(epoch.epoch, now)
        self.apply_epoch(transaction, epoch, now)

    def has_next(self, transaction: Transaction, last: Epoch, now: float) -> bool:
        """Return whether to publish an epoch after one that asks for no reports."""
        training, newest = transaction.find_training(), transaction.find_catalogue()
        assert training is not None
        assert newest is not None
        if (training.number, newest.sha256) != (last.training, last.catalogue):
            return True
        # After `go_beyond`: others have seen later epochs.
        if transaction.get_service().next_epoch > last.epoch + 1:
            return True
        if not training.has_epochs_left(last.epochs_done):
            return False
        if not training.terms.accounts:
            return True
        # With accounts the first epoch asks for no reports, and lasts as long as any other: people
        # get their tokens in it.
        manifest = self.open_manifest(last)
        is_over = manifest.next_token_key is None or now >= last.closes
        return is_over and self._find_new_token_key(transaction, manifest) is not None

    def publish_next(self, transaction: Transaction, last: Epoch, now: float) -> None:
        """Publish an epoch after a finished training: more epochs, or another configuration."""
        manifest = self.open_manifest(last)
        progress = TrainingProgress(last.epochs_done, manifest.reports_behind)
        self._publish_after(transaction, last, _load_model(transaction, manifest), progress, now)

    def open_manifest(self, epoch: Epoch) -> Manifest:
        """Return the manifest of an epoch, which is verified like anyone's."""
        return SignedManifest.open(epoch.manifest, self.keys.first_key).manifest

    def publish_shelf(self, transaction: Transaction, now: float) -> None:
        """Sign which catalogue holds for lists: with every manifest, and whenever it changes."""
        self._lock_service(transaction)
        newest, last_shelf = transaction.find_catalogue(), transaction.find_shelf()
        assert newest is not None
        published, latest = int(now), 0 if last_shelf is None else last_shelf.most
        # Devices do not accept a shelf that lies further ahead.
        if latest <= now + DAY_SECONDS:
            published = max(published, latest + 1)
        shelf = Shelf(published, newest.sha256)
        signed = SignedShelf.make(shelf, self.keys.signer, self.keys.statements)
        transaction.set_shelf(signed, max(latest, published))

    def _publish_after(
        self,
        transaction: Transaction,
        last: Epoch,
        V: NDArray[np.float32],
        progress: TrainingProgress,
        now: float,
    ) -> None:
        """Publish the epoch after `last`: its model, carried over to the pending configuration."""
        pending = PendingConfig.read(transaction)
        settings = pending.training.settings
        if pending.catalogue.hash != last.catalogue:
            last_items = load_catalogue(transaction, last.catalogue).items
            # Rows follow the items, which have other numbers in another catalogue.
            V = move_rows(V, last_items, pending.catalogue.items)
        if pending.training.number != last.training:
            if pending.training.random_start:
                V, progress = make_first_items(settings, pending.items), NO_PROGRESS
            else:
                # The reports behind the model stay: devices tell from them whether it is young.
                V, progress = inherit_items(V, settings), TrainingProgress(0, progress.reports)
        # None of the earlier items is left. From zeros no history has a loud direction.
        if not V.any():
            V = make_first_items(settings, pending.items)
        self._publish(transaction, pending, V, progress, now, self.open_manifest(last))
        # The epoch that was just published is one of those that stay.
        transaction.delete_before(last.epoch + 2 - self.settings.keep_epochs)

    def _publish(
        self,
        transaction: Transaction,
        pending: PendingConfig,
        V: NDArray[np.float32],
        progress: TrainingProgress,
        now: float,
        last: Manifest | None,
    ) -> None:
        """Publish the next manifest.

        It has no key when no reports are asked for: the training is over, or nobody has a token.
        """
        training, number = pending.training, self._lock_service(transaction).next_epoch
        token_key, next_token_key, has_tokens = None, None, True
        if training.terms.accounts:
            # The last manifest named the key for exactly one epoch: after a gap there is none.
            if last is not None and last.epoch + 1 == number:
                token_key = last.next_token_key
            next_token_key = self._find_new_token_key(transaction, last)
            has_tokens = token_key is not None
        goes_on = training.has_epochs_left(progress.epochs)
        private_key = generate_epoch_key() if goes_on and has_tokens else None
        content = encode_items(V)
        model = sha256(content).digest()
        manifest = pending.make_manifest(
            progress,
            number,
            model,
            training.settings.compute_user_ridge(V),
            None if private_key is None else derive_public_key(private_key),
            (token_key, next_token_key),
            opens=int(now),
            # From now on: after a time when the server was down, devices get a whole epoch too.
            closes=int(now) + self.settings.epoch_seconds,
        )
        signed = SignedManifest.make(manifest, self.keys.signer, self.keys.statements)
        epoch = Epoch(
            epoch=number,
            state=APPLIED if private_key is None else OPEN,
            manifest=signed.encode(),
            hash=signed.hash,
            model=model,
            epochs_done=progress.epochs,
            opens=manifest.opens,
            closes=manifest.closes,
            ends=manifest.ends,
            training=training.number,
            catalogue=pending.catalogue.hash,
        )
        # From here on the private key exists only in the database, wrapped.
        wrapped = None if private_key is None else self.keys.wrap(number, private_key)
        transaction.add_file(model, "model", content)
        transaction.add_epoch(epoch, wrapped)
        transaction.set_service(self.keys.verification_key, number + 1)
        self.publish_shelf(transaction, now)

    def _find_new_token_key(self, transaction: Transaction, last: Manifest | None) -> bytes | None:
        """Return the token key that the proxy has announced, unless a manifest has named it."""
        # With accounts there is just one proxy.
        contacts, (proxy,) = transaction.get_contacts(), self.settings.proxies
        key = contacts[proxy].token_key if proxy in contacts else b""
        used_keys = () if last is None else (last.token_key, last.next_token_key)
        return key if key and key not in used_keys else None

    def _lock_service(self, transaction: Transaction) -> Service:
        """Lock the service and return it; raise an error unless this worker's key may sign."""
        service = transaction.get_service(lock=True)
        check_may_sign(self.keys, service)
        return service


def _load_model(transaction: Transaction, manifest: Manifest) -> NDArray[np.float32]:
    content = transaction.find_file(manifest.model, "model") or b""
    return decode_items(content, manifest.items, manifest.terms.factors)


def sum_crowds(
    counts: Mapping[str, NDArray[np.int64]], manifest: Manifest, committed: Collection[str]
) -> tuple[NDArray[np.int64], int, int]:
    """Sum the counts of the proxies that have a crowd and their dummies.

    Args:
        counts: The counts of each proxy.
        manifest: The manifest of the epoch.
        committed: Proxies that have handed in everything.

    Returns:
        The sum, the number of reports from other proxies, and the number of dummies in the sum.
    """
    terms = manifest.terms
    total, dropped, dummies = np.zeros(2 * manifest.build().n_directions, np.int64), 0, 0
    for proxy, proxy_counts in sorted(counts.items()):
        # Only reports that were opened count. Otherwise an attacker could send noise to complete a
        # crowd around one person, and read that person's reports off the public model.
        reports = int(proxy_counts.sum())
        # If a proxy has not handed in everything, nobody knows how many of its dummies came.
        is_complete = proxy in committed or not terms.dummies
        if is_complete and reports >= terms.least_clients * terms.reports + terms.dummies:
            total += proxy_counts
            dummies += terms.dummies
        else:
            dropped += reports
            log.warning(
                "epoch %d: %d reports from proxy %s are too few for a crowd and were dropped",
                manifest.epoch,
                reports,
                proxy,
            )
    return total, dropped, dummies

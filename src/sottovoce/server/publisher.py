"""The step from one epoch to the next.

A worker applies the reports, computes the next model and publishes the next manifest in a single
transaction, so an epoch is applied once or not at all. Changes by the operator (catalogue,
training, key) take effect with the next manifest.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Mechanism
from sottovoce.protocol import (
    Item,
    Manifest,
    Shelf,
    SignedManifest,
    SignedShelf,
    decode_items,
    derive_public_key,
    encode_items,
    generate_epoch_key,
    make_patch,
    move_rows,
)
from sottovoce.protocol.contact import DAY_SECONDS
from sottovoce.server.key_chain import check_may_sign
from sottovoce.server.keys import Keys
from sottovoce.server.pending import (
    NO_PROGRESS,
    PendingConfig,
    TrainingProgress,
    load_catalogue,
    load_start,
)
from sottovoce.server.settings import ServerSettings
from sottovoce.server.training import Training
from sottovoce.server.transaction import APPLIED, OPEN, Epoch, Service, Transaction
from sottovoce.training import (
    NameCounts,
    Settings,
    compute_next_items,
    inherit_items,
    make_first_items,
    make_items_from_start,
)
from sottovoce.training.counts import cap_counts
from sottovoce.training.items import fit_factors, set_start_length
from sottovoce.training.start import Provenance, Start

log = logging.getLogger("sottovoce")


@dataclass(frozen=True, eq=False)
class LearntModel:
    """The model that a service has learnt from its reports."""

    V: NDArray[np.float32]
    """The item matrix."""
    names: NameCounts | None
    """Counts of each item, if the reports of the training name items; None in other trainings."""
    start: Provenance | None = None
    """Provenance of the public start that the model began with, if there was one."""

    @classmethod
    def make_first(cls, settings: Settings, items: Sequence[Item], start: Start | None) -> Self:
        """Return the model before the first epoch of a training.

        Args:
            settings: The training's settings.
            items: The items of the catalogue.
            start: The public start of the training, if it has one.
        """
        if start is not None:
            V = start.select_items(item.id for item in items)
            if V.any():
                names = NameCounts.from_items(V) if settings.asks_for_names else None
                return cls(make_items_from_start(settings, V), names, start.provenance)
            # The catalogue has changed since the training was begun.
            log.warning("the start has no item of the catalogue: the first model is random")
        names = NameCounts.make_empty(len(items)) if settings.asks_for_names else None
        return cls(make_first_items(settings, len(items)), names)

    @classmethod
    def load(cls, transaction: Transaction, manifest: Manifest) -> Self:
        """Return the model of an epoch."""
        content = transaction.find_file(manifest.model, "model") or b""
        V = decode_items(content, manifest.items, manifest.terms.factors)
        names = None
        if manifest.terms.asks_for_names:
            names = NameCounts(transaction.get_name_counts(manifest.epoch))
        return cls(V, names, manifest.start)

    def move(self, before: Sequence[Item], after: Sequence[Item]) -> Self:
        """Return the model for another catalogue: each row stays with its item."""
        V = move_rows(self.V, before, after)
        if self.names is None:
            return replace(self, V=V)
        names = NameCounts(move_rows(self.names.table.T, before, after).T)
        # Besides the shares, a model of names has only rows of its start. One factor is the shares.
        has_left = V.shape[1] > 1 and not V[:, 1:].any()
        return replace(self, V=V, names=names, start=None if has_left else self.start)

    def inherit(self, settings: Settings) -> Self:
        """Return the model with which the next training continues; a public start stays in it."""
        if settings.asks_for_names:
            return self._inherit_names(settings)
        if self.names is not None and self.start is not None and self.V.shape[1] > 1:
            # The shares would be as strong as the start, and know no tastes.
            factors = self.V[:, 1:]
            n_kept = min(settings.factors, *factors.shape)
            V = make_items_from_start(settings, fit_factors(factors, n_kept))
        else:
            V = inherit_items(self.V, settings)
        return replace(self, V=V, names=None)

    def _inherit_names(self, settings: Settings) -> Self:
        """Return the model with which a training of names continues."""
        names = self.names
        if names is None:
            names = NameCounts.from_items(self.V)
        V = np.zeros((len(self.V), settings.factors), np.float32)
        if self.start is not None:
            factors = set_start_length(self.V) if self.names is None else self.V[:, 1:]
            V[:, 1:] = fit_factors(factors, settings.factors - 1)
        return replace(self, V=names.update_items(V), names=names)


@dataclass(frozen=True)
class Publisher:
    """Applies epochs and publishes the next ones, with the keys of one worker."""

    settings: ServerSettings
    keys: Keys

    def publish_first(self, transaction: Transaction, now: float) -> None:
        """Publish the first epoch of a new database."""
        pending = PendingConfig.read(transaction)
        model = _make_first_model(transaction, pending)
        self._publish(transaction, pending, model, NO_PROGRESS, now, None)

    def apply_epoch(self, transaction: Transaction, epoch: Epoch, now: float) -> None:
        """Update the model from an epoch's reports, as the paper does, and publish the next epoch.

        If no proxy has a crowd, the model does not change.
        """
        # Check the key first: a worker with an old key could not publish the result.
        self._lock_service(transaction)
        manifest = self.open_manifest(epoch)
        mechanism = manifest.build()
        model = LearntModel.load(transaction, manifest)
        progress = TrainingProgress(epoch.epochs_done, manifest.reports_behind)
        counts_by_proxy = transaction.get_counts(epoch.epoch)
        counts, crowdless, dummies = sum_crowds(
            counts_by_proxy, manifest, transaction.list_committed(epoch.epoch)
        )
        capped_counts = cap_counts(counts, mechanism.event(1, 1), dummies)
        # Dummies add only noise to the sums, so they do not count as reports behind the model.
        reports = int(capped_counts.sum()) - dummies
        excess = int(counts.sum() - capped_counts.sum())
        if reports > 0:
            # An epoch without reports is repeated: it does not count as done.
            progress = TrainingProgress(epoch.epochs_done + 1, reports)
            sums = mechanism.to_sums(capped_counts)
            training = transaction.find_training(epoch.training)
            assert training is not None, "a training that has had an epoch stays"
            model = self._learn(model, sums, reports, progress.epochs, training, mechanism)
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
        self._publish_after(transaction, epoch, model, progress, now)

    def _learn(
        self,
        model: LearntModel,
        sums: NDArray[np.int64],
        reports: int,
        epochs_done: int,
        training: Training,
        mechanism: Mechanism,
    ) -> LearntModel:
        """Return the model after an epoch with reports."""
        if model.names is not None:
            names = model.names.add_epoch(mechanism, sums, reports, training.settings.fade)
            return replace(model, V=names.update_items(model.V), names=names)
        V = compute_next_items(
            model.V,
            sums,
            reports,
            epochs_done,
            training.settings,
            mechanism,
            row_limit=self.settings.row_limit,
            has_start=model.start is not None,
        )
        return replace(model, V=V)

    def end_without_key(self, transaction: Transaction, epoch: Epoch, now: float) -> None:
        """End an epoch whose reports nobody can open any more; counted reports are applied.

        Otherwise people would go on spending epsilon on reports that are lost.
        """
        log.error(
            "epoch %d ends now: this database lacks its key, which backups leave out", epoch.epoch
        )
        transaction.close_epoch(epoch.epoch, now)
        self.apply_epoch(transaction, epoch, now)

    def has_next(self, transaction: Transaction, last: Epoch, now: float) -> bool:
        """Return whether to publish another epoch after `last`, which asks for no reports."""
        training, newest = transaction.find_training(), transaction.find_catalogue()
        assert training is not None
        assert newest is not None
        if (training.number, newest.sha256) != (last.training, last.catalogue):
            return True
        # The operator has skipped numbers (`sottovoce server go-beyond`), because devices or
        # proxies have seen later epochs.
        if transaction.get_service().next_epoch > last.epoch + 1:
            return True
        if not self.settings.collect_reports or not training.has_epochs_left(last.epochs_done):
            return False
        if not training.terms.accounts:
            return True
        # With accounts, the first epoch asks for no reports. It lasts as long as any other epoch,
        # so that people can get their tokens.
        manifest = self.open_manifest(last)
        is_over = manifest.next_token_key is None or now >= last.closes
        return is_over and self._find_new_token_key(transaction, manifest) is not None

    def publish_next(self, transaction: Transaction, last: Epoch, now: float) -> None:
        """Publish an epoch after a finished training: more epochs, or another configuration."""
        manifest = self.open_manifest(last)
        progress = TrainingProgress(last.epochs_done, manifest.reports_behind)
        model = LearntModel.load(transaction, manifest)
        self._publish_after(transaction, last, model, progress, now)

    def open_manifest(self, epoch: Epoch) -> Manifest:
        """Decode the manifest of an epoch and verify its signature."""
        return SignedManifest.open(epoch.manifest, self.keys.first_key).manifest

    def publish_shelf(self, transaction: Transaction, now: float) -> None:
        """Sign and store a shelf: the statement that names the catalogue devices make lists from.

        Call this with every manifest, and when the catalogue has changed.
        """
        self._lock_service(transaction)
        newest, last_shelf = transaction.find_catalogue(), transaction.find_shelf()
        assert newest is not None
        published, latest = int(now), 0 if last_shelf is None else last_shelf.latest_published
        # Devices accept only a shelf that is later than the last one, but none that is more than a
        # day ahead of their clock.
        if latest <= now + DAY_SECONDS:
            published = max(published, latest + 1)
        content = transaction.find_file(newest.sha256, "catalogue")
        assert content is not None
        shelf = Shelf(published, newest.sha256, self._add_catalogue_patch(transaction, content))
        signed = SignedShelf.make(shelf, self.keys.signer, self.keys.statements)
        transaction.set_shelf(signed, max(latest, published))
        epoch = transaction.find_latest_epoch()
        patches = () if epoch is None else self.open_manifest(epoch).patches
        transaction.keep_patches([*patches, *([] if shelf.patch is None else [shelf.patch])])

    def _add_catalogue_patch(self, transaction: Transaction, catalogue: bytes) -> bytes | None:
        return self._add_patch(transaction, catalogue, transaction.list_earlier_catalogues())

    def _add_patch(
        self, transaction: Transaction, target: bytes, earlier: Sequence[bytes]
    ) -> bytes | None:
        """Store a patch from earlier files to this one, and return its hash; None if it is none."""
        patch = make_patch(target, (base for base in earlier if base != target))
        if patch is None:
            return None
        name = sha256(patch).digest()
        transaction.add_file(name, "patch", patch)
        return name

    def _publish_after(
        self,
        transaction: Transaction,
        last: Epoch,
        model: LearntModel,
        progress: TrainingProgress,
        now: float,
    ) -> None:
        """Publish the epoch after `last`, with a model that fits the pending configuration.

        Args:
            transaction: The transaction to use.
            last: The latest epoch.
            model: The model after the latest epoch.
            progress: Progress of the latest epoch's training.
            now: Unix seconds.
        """
        pending = PendingConfig.read(transaction)
        settings = pending.training.settings
        if pending.catalogue.hash != last.catalogue:
            last_items = load_catalogue(transaction, last.catalogue).items
            # Items have other numbers in another catalogue, and their rows move with them.
            model = model.move(last_items, pending.catalogue.items)
        if pending.training.number != last.training:
            if pending.training.random_start:
                model, progress = _make_first_model(transaction, pending), NO_PROGRESS
            else:
                # Keep the number of reports behind the model: devices use it to decide whether
                # the model is young.
                model, progress = model.inherit(settings), TrainingProgress(0, progress.reports)
        # A matrix of zeros means that no earlier item is left. Training cannot start from it,
        # because every user vector would be zero, so no direction would stand out in a gradient.
        # The new model has nobody's reports, so lists must not use it if it is random.
        if not model.V.any():
            model = _make_first_model(transaction, pending)
            progress = replace(progress, reports=0)
        self._publish(transaction, pending, model, progress, now, self.open_manifest(last))
        # The new epoch, last.epoch + 1, is one of the `keep_epochs` that stay.
        transaction.delete_before(last.epoch + 2 - self.settings.keep_epochs)

    def _publish(
        self,
        transaction: Transaction,
        pending: PendingConfig,
        learnt: LearntModel,
        progress: TrainingProgress,
        now: float,
        last: Manifest | None,
    ) -> None:
        """Publish the next manifest.

        The manifest has no public key, and so asks for no reports, if the training is over, if
        nobody has a token yet, or if the settings say so.

        Args:
            transaction: The transaction to use.
            pending: Training and catalogue of the new epoch.
            learnt: The model of the new epoch.
            progress: Progress of its training.
            now: Unix seconds.
            last: The last manifest; None before the first.
        """
        training, number = pending.training, self._lock_service(transaction).next_epoch
        token_key, next_token_key, has_tokens = None, None, True
        if training.terms.accounts and self.settings.collect_reports:
            # The last manifest names the token key of the next number. If that number is skipped,
            # the new epoch has no token key.
            if last is not None and last.epoch + 1 == number:
                token_key = last.next_token_key
            next_token_key = self._find_new_token_key(transaction, last)
            has_tokens = token_key is not None
        goes_on = self.settings.collect_reports and training.has_epochs_left(progress.epochs)
        private_key = generate_epoch_key() if goes_on and has_tokens else None
        content = encode_items(learnt.V)
        model = sha256(content).digest()
        manifest = pending.make_manifest(
            progress,
            number,
            model,
            (
                self._add_patch(transaction, content, transaction.list_earlier_models()),
                self._add_catalogue_patch(transaction, pending.catalogue.raw),
            ),
            training.settings.compute_user_ridge(learnt.V),
            None if private_key is None else derive_public_key(private_key),
            (token_key, next_token_key),
            learnt.start,
            opens=int(now),
            # Counted from now, so that devices get a whole epoch even after the server was down.
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
        # The private key is stored only in the database, wrapped.
        wrapped = None if private_key is None else self.keys.wrap(number, private_key)
        transaction.add_file(model, "model", content)
        transaction.add_epoch(epoch, wrapped)
        if learnt.names is not None:
            transaction.add_name_counts(number, learnt.names.table)
        transaction.set_service(self.keys.verification_key, number + 1)
        self.publish_shelf(transaction, now)

    def _find_new_token_key(self, transaction: Transaction, last: Manifest | None) -> bytes | None:
        """Return the token key that the proxy has announced, unless the last manifest names it."""
        # With accounts, the settings allow only one proxy.
        contacts, (proxy,) = transaction.get_contacts(), self.settings.proxies
        key = contacts[proxy].token_key if proxy in contacts else b""
        used_keys = () if last is None else (last.token_key, last.next_token_key)
        return key if key and key not in used_keys else None

    def _lock_service(self, transaction: Transaction) -> Service:
        """Lock the service and return it; raise an error unless this worker's key may sign."""
        service = transaction.get_service(lock=True)
        check_may_sign(self.keys, service)
        return service


def _make_first_model(transaction: Transaction, pending: PendingConfig) -> LearntModel:
    """Return the model before the first epoch of the pending training."""
    start = load_start(transaction, pending.training)
    return LearntModel.make_first(pending.training.settings, pending.catalogue.items, start)


def sum_crowds(
    counts: Mapping[str, NDArray[np.int64]], manifest: Manifest, committed: Collection[str]
) -> tuple[NDArray[np.int64], int, int]:
    """Sum the counts of all proxies that handed in a whole crowd and all their dummies.

    Args:
        counts: How often each report came, by proxy.
        manifest: The manifest of the epoch.
        committed: Proxies that have handed in everything.

    Returns:
        The sum, the number of reports from other proxies (which are dropped), and the number of
        dummies in the sum.
    """
    terms = manifest.terms
    total, dropped, dummies = np.zeros(2 * manifest.build().n_directions, np.int64), 0, 0
    for proxy, proxy_counts in sorted(counts.items()):
        # Only opened reports make a crowd. Otherwise an attacker could complete a crowd around one
        # person with noise, and read that person's reports off the public model.
        reports = int(proxy_counts.sum())
        # If a proxy has not handed in everything, nobody knows how many of its dummies came.
        is_complete = proxy in committed or not terms.dummies
        if is_complete and reports >= terms.min_clients * terms.reports + terms.dummies:
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

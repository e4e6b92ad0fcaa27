"""Checks that the settings file agrees with the database.

The database, which all workers share, is authoritative. Until the first epoch is published, the
operator may change any setting. After that, a worker starts only with settings that devices would
accept under the terms that they agreed to.
"""

import logging
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from secrets import token_hex

from sqlalchemy import make_url

from sottovoce.errors import CheckpointError, ProtocolError, SettingsError, get_reason
from sottovoce.protocol import Catalogue, Manifest, SignedManifest
from sottovoce.protocol.catalogue import MAX_CATALOGUE_BYTES
from sottovoce.protocol.contact import NAME_BYTES
from sottovoce.protocol.manifest import decode_start
from sottovoce.server.key_chain import check_may_sign
from sottovoce.server.keys import Keys
from sottovoce.server.pending import PendingConfig, load_start
from sottovoce.server.settings import ServerSettings
from sottovoce.server.store import ServerStore
from sottovoce.server.training import Training
from sottovoce.server.transaction import Transaction
from sottovoce.training import Settings
from sottovoce.training.planning import START_MECHANISMS
from sottovoce.training.start import Start

log = logging.getLogger("sottovoce")

# Names of the [training] settings that may change after the first epoch of a training, as far as
# its terms allow it. Settings outside of [training] and [terms] may always change.
CHANGEABLE_SETTINGS = {"epochs", "lifetime", "half_life"}
_OTHER_TRAINING_HINT = (
    "or begin another training with these settings (`sottovoce server training begin`): devices "
    "then ask their owners"
)


def read_catalogue(path: Path) -> Catalogue:
    """Read a catalogue from a JSON file."""
    try:
        with path.open("rb") as file:
            return Catalogue.decode(file.read(MAX_CATALOGUE_BYTES + 1))
    except (OSError, ProtocolError) as error:
        raise SettingsError(
            f"{path}: cannot be read as a catalogue: {get_reason(error)}"
        ) from error


def read_start(path: Path) -> tuple[bytes, Start]:
    """Return the bytes and the content of a file of `sottovoce start`."""
    try:
        raw = path.read_bytes()
        return raw, decode_start(raw)
    except (OSError, CheckpointError, ProtocolError) as error:
        raise SettingsError(f"{path}: cannot be read as a start: {get_reason(error)}") from error


def add_training(
    transaction: Transaction, training: Training, pending: PendingConfig, path: Path | None
) -> Training:
    """Store a training that begins, and the public start that its first model is made from.

    Args:
        transaction: The transaction to use.
        training: The training.
        pending: The configuration, whose catalogue has the items that the start is matched with.
        path: The file of the start; None: there is none, or the previous model has it.

    Returns:
        The training, with the hash of its start.

    Raises:
        SettingsError: No device could take part, or the start does not fit.
        DataError: The start has no item of the catalogue.
    """
    provenance = None
    if path is not None:
        raw, start = read_start(path)
        provenance = start.provenance
        V = start.select_matching_items(item.id for item in pending.catalogue.items)
        _check_start(start, training.settings)
        training = replace(training, start=sha256(raw).digest())
        transaction.add_file(sha256(raw).digest(), "start", raw)
        log.info(
            "the start %s has rows for %d of %d items",
            provenance.name,
            V.any(axis=1).sum(),
            pending.items,
        )
    replace(pending, training=training).check(provenance)
    transaction.set_training(training)
    return training


def _check_start(start: Start, settings: Settings) -> None:
    """Raise a `SettingsError` unless a training with these settings can begin with a start."""
    if settings.mechanism not in START_MECHANISMS:
        raise SettingsError(
            f"training.mechanism must be {' or '.join(START_MECHANISMS)} with a start, not "
            f"{settings.mechanism}",
            setting="training.mechanism",
        )
    # In a training of names, the first column has the shares. In a training of taste, factors
    # beyond those of the start learn from reports alone.
    factors = start.V.shape[1] + settings.asks_for_names
    if settings.factors < factors or (settings.asks_for_names and settings.factors > factors):
        least = "" if settings.asks_for_names else " at least"
        raise SettingsError(
            f"training.factors must be{least} {factors}, which the start needs, not "
            f"{settings.factors}",
            setting="training.factors",
        )


def begin_service(store: ServerStore, settings: ServerSettings, keys: Keys) -> None:
    """Create the database of a new server.

    Raises:
        SettingsError: The database belongs to another server, or the settings cannot work.
    """
    store.create()
    with store.write() as transaction:
        # If `sottovoce server init` runs twice at once, the second run waits here, and is refused.
        transaction.acquire_setup_lock()
        service = transaction.find_service(lock=True)
        if service is not None:
            raise SettingsError(
                f"{make_url(settings.database).render_as_string()} belongs to another server, "
                f"whose verification key is {service.verification_key.hex()}: name another "
                "database (--database)"
            )
        transaction.add_service(token_hex(NAME_BYTES), keys.verification_key)
        _set_first_training(transaction, settings)


def adopt_settings(transaction: Transaction, settings: ServerSettings, keys: Keys) -> None:
    """Check that the settings agree with the database, and store the changed ones in it.

    Raises:
        SettingsError: These settings or keys must not be used with this database.
    """
    service = transaction.get_service(lock=True)
    check_may_sign(keys, service)
    # The keys file has a newer key than the database if the database was restored from a backup. It
    # may also have an older one, until the operator copies it; the worker's first tick logs that.
    if keys.is_successor_of(service.newest_key):
        transaction.set_newest_key(keys.verification_key)
    training = transaction.find_training()
    if training is None or transaction.find_latest_epoch() is None:
        _set_first_training(transaction, settings)
        return
    updated, has_epochs = _update_training(transaction, training, settings, keys)
    if updated == training:
        return
    if not has_epochs:
        log.warning(
            "training %d, which has had no epoch yet, has other settings now: those of this file",
            training.number,
        )
    transaction.set_training(updated)


def check_settings(transaction: Transaction, settings: ServerSettings, keys: Keys) -> None:
    """Raise a `SettingsError` if no worker could start with these settings; change nothing."""
    training = transaction.find_training()
    if training is not None and transaction.find_latest_epoch() is not None:
        _update_training(transaction, training, settings, keys)


def _set_first_training(transaction: Transaction, settings: ServerSettings) -> None:
    catalogue = read_catalogue(settings.catalogue)
    transaction.set_catalogue(1, catalogue.hash, catalogue.raw)
    training = Training.create(
        1, settings.training, settings.terms, len(catalogue.items), random_start=True
    )
    add_training(transaction, training, PendingConfig(training, catalogue, 1), settings.start)


def _update_training(
    transaction: Transaction, training: Training, settings: ServerSettings, keys: Keys
) -> tuple[Training, bool]:
    """Return the training with these settings, and whether it has had an epoch."""
    epochs = transaction.list_first_and_last(training.number)
    if epochs:
        _check_unchangeable_settings(training, settings)
        updated = training.update(settings.training, settings.terms)
        # The terms of all other epochs lie between those of the first and of the last epoch, so it
        # is enough to check these two.
        for epoch in epochs:
            _check_terms(SignedManifest.open(epoch.manifest, keys.first_key).manifest, updated)
    else:
        updated = _update_unseen_training(transaction, training, settings)
    if updated != training:
        replace(PendingConfig.read(transaction), training=updated).check()
    return updated, bool(epochs)


def _update_unseen_training(
    transaction: Transaction, training: Training, settings: ServerSettings
) -> Training:
    """Return a training that has had no epoch, with these settings."""
    # A worker that still has the settings file of the previous training must not undo the change.
    before = transaction.find_training(training.number - 1)
    if settings.training != training.settings and settings.training == (before and before.settings):
        raise SettingsError(
            f"this file has the settings of training {training.number - 1}, but training "
            f"{training.number} was begun with others: copy the new file to all workers, or take "
            "the training back (`sottovoce server training begin --cancel`)"
        )
    start = load_start(transaction, training)
    if start is not None:
        _check_start(start, settings.training)
    updated = Training.create(
        training.number,
        settings.training,
        settings.terms,
        training.items,
        random_start=training.random_start,
        start=training.start,
    )
    # If only the new random id differs, the training keeps its id, which others may already know.
    terms = replace(updated.terms, training=training.terms.training)
    return training if replace(updated, terms=terms) == training else updated


def _check_unchangeable_settings(training: Training, settings: ServerSettings) -> None:
    before, now = training.settings.as_dict(), settings.training.as_dict()
    for name in now:
        if name not in CHANGEABLE_SETTINGS and before.get(name) != now[name]:
            raise SettingsError(
                f"training.{name} was {before.get(name)!r} when this training began, now it is "
                f"{now[name]!r}: set it back, {_OTHER_TRAINING_HINT}"
            )


def _check_terms(manifest: Manifest, training: Training) -> None:
    """Raise a `SettingsError` if devices that agreed to the manifest would refuse the training."""
    worse = manifest.terms.list_worse_terms(training.make_terms(manifest.items))
    if not worse:
        return
    hint = ""
    # Unless `lifetime` is set, it follows `epochs`, which may be all that the operator has changed.
    if any(sentence.startswith("a lifetime") for sentence in worse):
        hint = ". To train for more epochs than a device takes part in, set training.lifetime"
    raise SettingsError(
        f"devices that agreed to the terms of epoch {manifest.epoch} would refuse these, and "
        f"report no more: {'; '.join(worse)}. Set it back, {_OTHER_TRAINING_HINT}{hint}"
    )

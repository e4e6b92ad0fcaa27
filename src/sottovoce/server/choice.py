"""What the settings file says, and what the database has: they must not silently differ.

The database is the truth, which all workers share. Until its first epoch is published the operator
may still change their mind; after that a training goes on as devices agreed to it, or not at all.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from sottovoce.errors import ProtocolError, SettingsError, reason
from sottovoce.protocol import Catalogue, SignedManifest
from sottovoce.protocol.catalogue import MAX_CATALOGUE
from sottovoce.server.publishing import Chosen
from sottovoce.server.succession import check_may_sign
from sottovoce.server.training import Training

if TYPE_CHECKING:
    from pathlib import Path

    from sottovoce.protocol import Manifest
    from sottovoce.server.keys import Keys
    from sottovoce.server.settings import ServerSettings
    from sottovoce.server.store import Service, Transaction

log = logging.getLogger("sottovoce")

MAY_CHANGE = {"epochs", "lifetime", "half_life"}
"""Of a training's settings, where the agreed terms allow it. Of the server's own all may."""


def read_catalogue(path: Path) -> Catalogue:
    try:
        with path.open("rb") as file:
            return Catalogue.decode(file.read(MAX_CATALOGUE + 1))
    except (OSError, ProtocolError) as error:
        raise SettingsError(f"{path}: no catalogue: {reason(error)}") from error


def agree(transaction: Transaction, settings: ServerSettings, keys: Keys) -> None:
    """Set the database up, or check that these settings belong to it."""
    transaction.one_at_a_time()
    service = transaction.service(lock=True)
    if service is None:
        transaction.begin_service(keys.verification_key)
    else:
        check_may_sign(keys, service)
        _follow_keys(transaction, service, keys)
    training = transaction.training()
    if training is None or transaction.latest() is None:
        _begin(transaction, settings)
    else:
        _go_on(transaction, training, settings, keys)


def check_agrees(transaction: Transaction, settings: ServerSettings, keys: Keys) -> None:
    """Refuse settings with which no worker could start; changes nothing."""
    training = transaction.training()
    if training is not None and transaction.latest() is not None:
        _agreed(transaction, training, settings, keys)


def _follow_keys(transaction: Transaction, service: Service, keys: Keys) -> None:
    """The file may be ahead of the database, if that was restored.

    It may be behind it for a while, which the worker says with its first beat.
    """
    if keys.succeeds(service.newest_key):
        transaction.set_newest_key(keys.verification_key)


def _begin(transaction: Transaction, settings: ServerSettings) -> None:
    """The first training and the first catalogue."""
    catalogue = read_catalogue(settings.catalogue)
    transaction.set_catalogue(1, catalogue.hash, catalogue.raw)
    items = len(catalogue.items)
    begun = Training.begin(1, settings.training, settings.terms, items, anew=True)
    Chosen(begun, catalogue, 1).check()
    transaction.set_training(begun)


def _go_on(
    transaction: Transaction, training: Training, settings: ServerSettings, keys: Keys
) -> None:
    now, shown = _agreed(transaction, training, settings, keys)
    if now == training:
        return
    if not shown:
        said = "training %d, which has had no epoch yet, has other settings: this file's"
        log.warning(said, training.number)
    transaction.set_training(now)


def _agreed(
    transaction: Transaction, training: Training, settings: ServerSettings, keys: Keys
) -> tuple[Training, bool]:
    """The training as these settings have it, and whether devices have seen it already."""
    shown = transaction.first_and_last(training.number)
    if not shown:
        now = _begun_again(transaction, training, settings)
    else:
        _check_settings(training, settings)
        now = training.changed(settings.training, settings.terms)
        for epoch in shown:
            _check_terms(SignedManifest.open(epoch.manifest, keys.first).manifest, now)
    if now != training:
        replace(Chosen.now(transaction), training=now).check()
    return now, bool(shown)


def _begun_again(
    transaction: Transaction, training: Training, settings: ServerSettings
) -> Training:
    """As these settings have it; itself if it is that already, since its id may have been named."""
    before = transaction.training(training.number - 1)
    if settings.training != training.settings and settings.training == (before and before.settings):
        raise SettingsError(
            f"training {training.number} was begun with other settings than this file has, which "
            "are those of the training before: copy the new file to all workers, or take it back "
            "(`sottovoce server training begin --cancel`)"
        )
    now = Training.begin(
        training.number, settings.training, settings.terms, training.items, anew=training.anew
    )
    same = replace(now, terms=replace(now.terms, training=training.terms.training)) == training
    return training if same else now


def _check_settings(training: Training, settings: ServerSettings) -> None:
    before, now = training.settings.as_dict(), settings.training.as_dict()
    for name in now:
        if name not in MAY_CHANGE and before.get(name) != now[name]:
            raise SettingsError(
                f"training.{name} was {before.get(name)!r} when this training began, now it is "
                f"{now[name]!r}: set it back, {ANOTHER}"
            )


def _check_terms(shown: Manifest, now: Training) -> None:
    """Devices pinned what they were shown, the first as well as the last, and refuse worse.

    What lies between is not worse than the first and not better than the last.
    """
    worse = shown.terms.broken_by(now.terms_for(shown.items))
    if worse:
        raise SettingsError(
            f"devices that agreed to the terms of epoch {shown.epoch} would refuse these, and "
            f"report no more: {'; '.join(worse)}. Set it back, {ANOTHER}{_hint(worse)}"
        )


def _hint(worse: list[str]) -> str:
    """Where the reason lies in another table."""
    longer = any(sentence.startswith("a lifetime") for sentence in worse)
    said = ". To train for more epochs than a device takes part in, set training.lifetime"
    return said if longer else ""


ANOTHER = (
    "or begin another training with these settings (`sottovoce server training begin`): devices "
    "then ask their owners"
)

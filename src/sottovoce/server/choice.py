"""What was chosen when a training began, and may not silently change while it runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sottovoce.errors import ProtocolError, SettingsError
from sottovoce.protocol import Catalogue
from sottovoce.protocol.catalogue import MAX_CATALOGUE
from sottovoce.server.store import Chosen

if TYPE_CHECKING:
    from pathlib import Path

    from sottovoce.server.publishing import Publisher
    from sottovoce.server.store import Epoch, Transaction

MAY_CHANGE = {"epochs", "lifetime"}
"""Of the training's settings, where the agreed terms allow it. Of the server's own all but keys and
catalogue may."""


def read_catalogue(path: Path) -> Catalogue:
    try:
        with path.open("rb") as file:
            return Catalogue.decode(file.read(MAX_CATALOGUE + 1))
    except (OSError, ProtocolError) as error:
        raise SettingsError(f"{path}: no catalogue: {error}") from error


def agree(transaction: Transaction, publisher: Publisher) -> Publisher:
    """A training that runs goes on as it was begun, under its own id, or not at all.

    Until its first epoch is published the operator may still change their mind.
    """
    transaction.one_at_a_time()
    chosen = transaction.chosen(lock=True)
    if chosen is None:
        transaction.choose(_choice(publisher))
        return publisher
    publisher = publisher.of_training(chosen.training)
    wanted = _choice(publisher)
    _check_keys(chosen, wanted)
    published = transaction.all_epochs()
    if published:
        _check_catalogue(chosen, wanted)
        _check_training(json.loads(chosen.settings), json.loads(wanted.settings))
        _check_terms(publisher, published)
    if chosen != wanted:
        transaction.change_choice(wanted)
    return publisher


def _choice(publisher: Publisher) -> Chosen:
    return Chosen(
        json.dumps(publisher.training.as_dict(), sort_keys=True),
        publisher.catalogue.hash,
        publisher.keys.verification_key,
        publisher.terms.training,
    )


def _check_keys(chosen: Chosen, wanted: Chosen) -> None:
    if chosen.verification_key != wanted.verification_key:
        raise SettingsError(
            "the keys file is not the one that this database was made with: devices know "
            f"{chosen.verification_key.hex()}; restore that file"
        )


def _check_catalogue(chosen: Chosen, wanted: Chosen) -> None:
    if chosen.catalogue != wanted.catalogue:
        raise SettingsError(
            f"the catalogue is another one (SHA-256 {wanted.catalogue.hex()}, it was "
            f"{chosen.catalogue.hex()}): put it back, {ANEW}"
        )


def _check_training(before: dict[str, object], now: dict[str, object]) -> None:
    for name in now:
        if name not in MAY_CHANGE and before.get(name) != now[name]:
            raise SettingsError(
                f"training.{name} was {before.get(name)!r} when this training began, now it is "
                f"{now[name]!r}: set it back, {ANEW}"
            )


def _check_terms(publisher: Publisher, published: list[Epoch]) -> None:
    """Devices pinned what they were shown, the first as well as the last, and refuse worse.

    What lies between is not worse than the first and not better than the last.
    """
    for epoch in (published[0], published[-1]):
        worse = publisher.manifest_of(epoch).terms.broken_by(publisher.terms)
        if worse:
            raise SettingsError(
                f"devices that agreed to the terms of epoch {epoch.epoch} would refuse these, and "
                f"report no more: {'; '.join(worse)}. Set it back, {ANEW}{_hint(worse)}"
            )


def _hint(worse: list[str]) -> str:
    """Where the reason lies in another table."""
    longer = any(sentence.startswith("a lifetime") for sentence in worse)
    said = ". To train for more epochs than a device takes part in, set training.lifetime"
    return said if longer else ""


ANEW = (
    "or begin another service: keys, database, proxies and devices of its own, since devices never "
    "go back to an earlier epoch under the same keys"
)

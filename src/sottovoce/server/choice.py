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
    from sottovoce.server.store import Transaction

MAY_CHANGE = {"epochs"}
"""Of the training's settings. Of the server's own all but keys and catalogue may."""


def read_catalogue(path: Path) -> Catalogue:
    try:
        with path.open("rb") as file:
            return Catalogue.decode(file.read(MAX_CATALOGUE + 1))
    except (OSError, ProtocolError) as error:
        raise SettingsError(f"{path}: no catalogue: {error}") from error


def agree(transaction: Transaction, publisher: Publisher) -> None:
    """A training that runs goes on as it was begun, or not at all.

    Until its first epoch is published the operator may still change her mind.
    """
    training = publisher.training.as_dict()
    settings = json.dumps(training, sort_keys=True)
    wanted = Chosen(settings, publisher.catalogue.hash, publisher.keys.verification_key)
    transaction.one_at_a_time()
    chosen = transaction.chosen(lock=True)
    if chosen is None:
        transaction.choose(wanted)
    elif chosen != wanted:
        _check_keys(chosen, wanted)
        if transaction.latest() is not None:
            _check_catalogue(chosen, wanted)
            _check_training(json.loads(chosen.settings), training)
        transaction.change_choice(wanted)


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


ANEW = "or begin another training with a database of its own"

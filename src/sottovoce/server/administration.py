"""What an operator does to a service while it runs.

Each is one transaction on the database that all workers share; none of them has to be restarted. It
holds from the next epoch on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.errors import SettingsError
from sottovoce.protocol.manifest import MAX_EPOCH
from sottovoce.server.catalogues import Difference, updated
from sottovoce.server.publishing import Chosen
from sottovoce.server.store import APPLIED
from sottovoce.server.training import Training

if TYPE_CHECKING:
    from sottovoce.protocol import Catalogue
    from sottovoce.server.settings import ServerSettings
    from sottovoce.server.store import ServerStore, Transaction

MOST_SKIPPED = 2**20
"""More epochs than any backup is old: whoever names a later one would use up all numbers."""


def update_catalogue(
    store: ServerStore, wanted: Catalogue, *, retire_many: bool = False, dry_run: bool = False
) -> tuple[int, Difference]:
    """Make the catalogue of the next epoch equal to this one: its version, and what changes.

    To retire more than half of the items, `retire_many` must be given. A dry run changes nothing,
    and does not need it.
    """
    with store.write() as transaction:
        chosen = _locked(transaction)
        after = updated(chosen.catalogue, wanted)
        found = Difference.between(chosen.catalogue, after)
        if not found:
            return chosen.version, found
        if not retire_many and not dry_run:
            found.check_retires_few(chosen.items)
        Chosen(chosen.training, after, chosen.version + 1).check()
        if not dry_run:
            transaction.set_catalogue(chosen.version + 1, after.hash, after.raw)
    return chosen.version + 1, found


def begin_training(store: ServerStore, settings: ServerSettings, *, anew: bool) -> Training:
    """Another training, with what the settings say now; devices will ask their owners."""
    with store.write() as transaction:
        chosen = _locked(transaction)
        if not transaction.first_and_last(chosen.training.number):
            raise SettingsError(
                "the last training that was begun has had no epoch yet: change its settings and "
                "restart the server, or take it back (`sottovoce server training begin --cancel`)"
            )
        begun = Training.begin(
            chosen.training.number + 1, settings.training, settings.terms, chosen.items, anew=anew
        )
        Chosen(begun, chosen.catalogue, chosen.version).check()
        transaction.set_training(begun)
    return begun


def cancel_training(store: ServerStore) -> int:
    """Take back the last training that was begun, before its first epoch; the one that goes on."""
    with store.write() as transaction:
        number = _locked(transaction).training.number
        if number == 1 or transaction.first_and_last(number):
            raise SettingsError(
                f"training {number} has had an epoch, which devices have seen: it cannot be taken "
                "back; begin another one after it"
            )
        transaction.drop_training(number)
    return number - 1


def go_beyond(store: ServerStore, epoch: int, now: float) -> int:
    """Let the next epoch have a larger number than this; give the present one up.

    For a database that was restored from a backup: proxies and devices have seen later epochs, and
    never go back. What they reported meanwhile is lost. The number of the next one.
    """
    with store.write() as transaction:
        _locked(transaction)
        service, latest = transaction.service(), transaction.latest(lock=True)
        assert service is not None
        most = min(service.next_epoch + MOST_SKIPPED, MAX_EPOCH - 1)
        if not service.next_epoch <= epoch <= most:
            raise SettingsError(
                f"the next epoch has the number {service.next_epoch} already: name the last one "
                f"that proxies have seen, in {service.next_epoch}..{most}; a "
                "proxy that names more lies"
            )
        if latest is not None and latest.state != APPLIED:
            transaction.close(latest.epoch, now)
            transaction.apply(latest.epoch, reports=0, crowdless=0, capped=0)
        transaction.set_service(service.verification_key, epoch + 1)
    return epoch + 1


def _locked(transaction: Transaction) -> Chosen:
    """What is chosen, while nobody else publishes or chooses."""
    transaction.service(lock=True)
    return Chosen.now(transaction)

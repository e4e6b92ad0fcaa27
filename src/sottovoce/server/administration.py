"""Commands with which an operator changes a running service.

Each command is one transaction on the database that all workers share, and no worker needs a
restart. Most changes take effect with the next epoch. But a new catalogue is used for lists as soon
as a worker has signed it, and `close_epoch` and `go_beyond` end the current epoch.
"""

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from math import ceil

from sottovoce.errors import SettingsError
from sottovoce.protocol import Catalogue
from sottovoce.server.agreement import add_training
from sottovoce.server.catalogue import Difference, merge_catalogues
from sottovoce.server.epochs import find_max_epoch, is_in_future
from sottovoce.server.pending import PendingConfig
from sottovoce.server.settings import ServerSettings
from sottovoce.server.store import ServerStore
from sottovoce.server.training import Training
from sottovoce.server.transaction import APPLIED, OPEN, ProxyContact, Transaction


def update_catalogue(
    store: ServerStore, wanted: Catalogue, *, retire_many: bool = False, dry_run: bool = False
) -> tuple[int, Difference, int]:
    """Replace the newest catalogue by one with other items.

    Args:
        store: The database.
        wanted: The items of the new catalogue.
        retire_many: Whether more than half of the items may be retired.
        dry_run: Whether to check and compare only, and to change nothing. `retire_many` is then not
            needed.

    Returns:
        The version of the new catalogue (the current version if nothing differs), its difference
        from the current one, and the number of items that it may still get.

    Raises:
        SettingsError: The new catalogue is not possible. Nothing was changed.
    """
    with store.write() as transaction:
        pending = _lock_pending(transaction)
        merged = merge_catalogues(pending.catalogue, wanted)
        difference = Difference.between(pending.catalogue, merged)
        if not difference:
            return pending.version, difference, pending.items_left
        if not retire_many and not dry_run:
            difference.check_retires_few(pending.items)
        changed = replace(pending, catalogue=merged, version=pending.version + 1)
        _check_room(changed)
        changed.check()
        # Devices use the new catalogue for lists during the current epoch already, and refuse one
        # that the terms of this epoch do not allow.
        _check_current_terms(transaction, changed)
        if not dry_run:
            transaction.set_catalogue(changed.version, merged.hash, merged.raw)
    return changed.version, difference, changed.items_left


def _check_room(pending: PendingConfig) -> None:
    """Raise a `SettingsError` if the terms do not allow as many items."""
    if pending.items_left >= 0:
        return
    training = pending.training
    raise SettingsError(
        f"the catalogue would have {pending.items:,} items, but the terms of training "
        f"{training.number} allow {training.terms.max_items:,}. Nothing was changed. Leave "
        f"{-pending.items_left:,} out, or begin a training with more room (`sottovoce server "
        "training begin`) and add them when it has its first epoch. What was learnt stays; devices "
        "ask their owners again"
    )


def _check_current_terms(transaction: Transaction, pending: PendingConfig) -> None:
    """Raise a `SettingsError` if the terms of the current epoch do not allow the catalogue."""
    latest = transaction.find_latest_epoch()
    if latest is None or latest.state == APPLIED:
        return
    training = transaction.find_training(latest.training)
    assert training is not None, "a training that has an epoch stays"
    try:
        replace(pending, training=training).check()
    except SettingsError as error:
        raise SettingsError(
            f"devices in epoch {latest.epoch} (training {training.number}) could not make lists "
            f"from this catalogue: {error.__cause__}. Retire items now, and add the others when "
            f"training {pending.training.number} has its first epoch"
        ) from error


def begin_training(store: ServerStore, settings: ServerSettings, *, random_start: bool) -> Training:
    """Begin another training with the settings of the server; devices will ask their owners.

    Args:
        store: The database.
        settings: The settings of the server.
        random_start: Whether the first model is new: that of the public start in the settings, or
            else a random one. Otherwise the new training starts from the last model of the previous
            one.

    Raises:
        SettingsError: The newest training has had no epoch yet, or the settings cannot work.
        DataError: The start has no item of the catalogue.
    """
    with store.write() as transaction:
        pending = _lock_pending(transaction)
        if not transaction.list_first_and_last(pending.training.number):
            raise SettingsError(
                "the last training that was begun has had no epoch yet: change its settings and "
                "restart the server, or take it back (`sottovoce server training begin --cancel`)"
            )
        training = Training.create(
            pending.training.number + 1,
            settings.training,
            settings.terms,
            pending.items,
            random_start=random_start,
        )
        # Without a new model, a start in the present model stays in it.
        return add_training(
            transaction, training, pending, settings.start if random_start else None
        )


def cancel_training(store: ServerStore) -> int:
    """Delete the newest training, which has had no epoch; return the number of the previous one."""
    with store.write() as transaction:
        number = _lock_pending(transaction).training.number
        if number == 1 or transaction.list_first_and_last(number):
            raise SettingsError(
                f"training {number} has had an epoch, which devices have seen: it cannot be taken "
                "back; begin another one after it"
            )
        transaction.drop_training(number)
    return number - 1


def find_newest_seen(store: ServerStore, proxies: Collection[str], now: float) -> int:
    """Return the largest epoch number that `go_beyond` must skip; 0 if there is none.

    This is an epoch that a proxy has seen and this server cannot count, or one that opens in the
    future.

    Args:
        store: The database.
        proxies: Names of the proxies of the settings.
        now: Unix seconds.
    """
    with store.read() as transaction:
        return _find_newest_seen(transaction, proxies, now)


def _find_newest_seen(transaction: Transaction, proxies: Collection[str], now: float) -> int:
    latest = transaction.find_latest_epoch()
    own, max_epoch = 0 if latest is None else latest.epoch, find_max_epoch(transaction)
    # Epochs that these proxies have seen and this server has refused. A number above `max_epoch` is
    # false.
    candidates = [
        contact.epoch
        for name, contact in transaction.get_contacts().items()
        if name in proxies and contact.refusal and own <= contact.epoch <= max_epoch
    ]
    # Devices do not take part in an epoch that opens in the future, so it must be skipped too.
    if latest is not None and is_in_future(latest, now):
        candidates.append(own)
    return max(candidates, default=0)


def go_beyond(
    store: ServerStore, epoch: int | None, now: float, proxies: Collection[str]
) -> tuple[int, dict[str, ProxyContact]]:
    """Give up the current epoch, and let the next epoch have a larger number than `epoch`.

    This is for a database that was restored from a backup. Proxies and devices have seen later
    epochs than this database, and never go back to an earlier one. The reports of these later
    epochs are lost.

    Args:
        store: The database.
        epoch: The last epoch that proxies or devices have seen; None for the last one that a proxy
            has named.
        now: Unix seconds.
        proxies: Names of the proxies of the settings.

    Returns:
        The number of the next epoch, and the last contact with each proxy by its name.

    Raises:
        SettingsError: No epoch must be skipped, or `epoch` is not possible. Nothing was changed.
    """
    with store.write() as transaction:
        _lock_pending(transaction)
        service, latest = transaction.get_service(), transaction.find_latest_epoch(lock=True)
        contacts, max_epoch = transaction.get_contacts(), find_max_epoch(transaction)
        seen = _find_newest_seen(transaction, proxies, now)
        if not seen and epoch is None:
            raise SettingsError(
                "no proxy has named an epoch that this database does not have: there is nothing to "
                "go beyond, or no proxy has made contact yet (`sottovoce server status`). If "
                "devices have seen a later one, name it"
            )
        min_epoch, wanted = seen or service.next_epoch, seen if epoch is None else epoch
        if not min_epoch <= wanted <= max_epoch:
            if wanted > max_epoch:
                reason = "no backup can be old enough for a larger number"
            else:
                reason = (
                    f"a proxy has seen {seen}" if seen else "this database has the earlier ones"
                )
            raise SettingsError(
                f"name the last epoch that others have seen, in {min_epoch}..{max_epoch}: {reason}"
            )
        if latest is not None and latest.state != APPLIED:
            transaction.close_epoch(latest.epoch, now)
            transaction.apply_epoch(latest.epoch, reports=0, crowdless=0, capped=0)
        following = max(wanted + 1, service.next_epoch)
        if latest is not None and latest.state == APPLIED and following == latest.epoch + 1:
            # After a finished training, workers publish the next epoch only if a number is skipped
            # (`Publisher.has_next`).
            following += 1
        transaction.set_service(service.verification_key, following)
        # The epochs for which these proxies were refused are now earlier than the next epoch.
        for contact in contacts.values():
            if contact.refusal and contact.epoch < following:
                transaction.set_contact(replace(contact, refusal=""))
    return following, contacts


def close_epoch(
    store: ServerStore, now: float, *, dry_run: bool = False
) -> tuple[int, dict[str, str]]:
    """Close the current epoch although it still waits for its crowd.

    A proxy never mixes the reports of fewer people than a crowd. So only proxies with a crowd hand
    in their reports; all others give up theirs when the epoch is applied.

    Args:
        store: The database.
        now: Unix seconds.
        dry_run: Whether to check only, and to change nothing.

    Returns:
        The number of the epoch, and the state of each proxy's crowd by the name of the proxy.

    Raises:
        SettingsError: No epoch is open, or its manifest promises that it takes reports for longer.
    """
    with store.write() as transaction:
        _lock_pending(transaction)
        epoch = transaction.find_latest_epoch(lock=True)
        if epoch is None or epoch.state != OPEN:
            state = "" if epoch is None else f": epoch {epoch.epoch} is {epoch.state} already"
            raise SettingsError(f"there must be an open epoch{state}; nothing was changed")
        # The manifest promises devices that reports are accepted until `closes`.
        if now < epoch.closes:
            seconds_left = timedelta(seconds=ceil(epoch.closes - now))
            raise SettingsError(
                f"epoch {epoch.epoch} takes reports for {seconds_left} more (h:mm:ss), as its "
                "manifest says: wait until then"
            )
        if not dry_run:
            transaction.close_epoch(epoch.epoch, now)
        return epoch.epoch, transaction.get_crowds(epoch.epoch)


def _lock_pending(transaction: Transaction) -> PendingConfig:
    """Return the configuration of the next epoch.

    Until the transaction ends, no worker can publish and no other operator can change it.
    """
    transaction.get_service(lock=True)
    return PendingConfig.read(transaction)

"""What an operator does to a service while it runs.

Each is one transaction on the database that all workers share; none of them has to be restarted. It
holds from the next epoch on, except the end of the present one.
"""

import logging
from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from math import ceil
from pathlib import Path
from secrets import token_hex

from sqlalchemy import make_url

from sottovoce.errors import ProtocolError, SettingsError, get_reason
from sottovoce.protocol import Catalogue, Manifest, SignedManifest
from sottovoce.protocol.catalogue import MAX_CATALOGUE_BYTES
from sottovoce.protocol.contact import NAME_BYTES
from sottovoce.server.catalogue import Difference, merge_catalogues
from sottovoce.server.epochs import PendingConfig, find_max_epoch, is_in_future
from sottovoce.server.keys import Keys, check_may_sign
from sottovoce.server.settings import ServerSettings
from sottovoce.server.store import ServerStore
from sottovoce.server.training import Training
from sottovoce.server.transaction import APPLIED, OPEN, ProxyContact, Service, Transaction


def update_catalogue(
    store: ServerStore, wanted: Catalogue, *, retire_many: bool = False, dry_run: bool = False
) -> tuple[int, Difference]:
    """Make the catalogue of the next epoch equal to this one: its version, and what changes.

    To retire more than half of the items, `retire_many` must be given. A dry run changes nothing,
    and does not need it.
    """
    with store.write() as transaction:
        chosen = _locked(transaction)
        after = merge_catalogues(chosen.catalogue, wanted)
        found = Difference.between(chosen.catalogue, after)
        if not found:
            return chosen.version, found
        if not retire_many and not dry_run:
            found.check_retires_few(chosen.items)
        after_this = replace(chosen, catalogue=after, version=chosen.version + 1)
        after_this.check()
        _check_lists(transaction, after_this)
        if not dry_run:
            transaction.set_catalogue(chosen.version + 1, after.hash, after.raw)
    return chosen.version + 1, found


def _check_lists(transaction: Transaction, chosen: PendingConfig) -> None:
    """Lists have it at once: devices refuse what the terms of the epoch that runs do not allow."""
    latest = transaction.find_latest_epoch()
    if latest is None or latest.state == APPLIED:
        return
    training = transaction.find_training(latest.training)
    assert training is not None, "a training that has an epoch stays"
    try:
        replace(chosen, training=training).check()
    except SettingsError as error:
        raise SettingsError(
            f"epoch {latest.epoch} is of training {training.number}, whose devices could not make "
            f"lists from it: {error.__cause__}. Retire items now, and add those that are too many "
            f"when training {chosen.training.number} has its first epoch"
        ) from error


def begin_training(store: ServerStore, settings: ServerSettings, *, anew: bool) -> Training:
    """Another training, with what the settings say now; devices will ask their owners."""
    with store.write() as transaction:
        chosen = _locked(transaction)
        if not transaction.list_first_and_last(chosen.training.number):
            raise SettingsError(
                "the last training that was begun has had no epoch yet: change its settings and "
                "restart the server, or take it back (`sottovoce server training begin --cancel`)"
            )
        begun = Training.create(
            chosen.training.number + 1, settings.training, settings.terms, chosen.items, anew=anew
        )
        PendingConfig(begun, chosen.catalogue, chosen.version).check()
        transaction.set_training(begun)
    return begun


def cancel_training(store: ServerStore) -> int:
    """Take back the last training that was begun, before its first epoch; the one that goes on."""
    with store.write() as transaction:
        number = _locked(transaction).training.number
        if number == 1 or transaction.list_first_and_last(number):
            raise SettingsError(
                f"training {number} has had an epoch, which devices have seen: it cannot be taken "
                "back; begin another one after it"
            )
        transaction.drop_training(number)
    return number - 1


def find_newest_seen(store: ServerStore, proxies: Collection[str], now: float) -> int:
    """The last epoch that makes it necessary to go beyond; 0: none.

    Of those proxies, as far as they can be believed, or one of the future that nobody believes in.
    """
    with store.read() as transaction:
        return _seen(transaction, proxies, now)


def _seen(transaction: Transaction, proxies: Collection[str], now: float) -> int:
    latest, most = transaction.find_latest_epoch(), find_max_epoch(transaction)
    known = 0 if latest is None else latest.epoch
    heard = [said for name, said in transaction.get_contacts().items() if name in proxies]
    named = [said.epoch for said in heard if said.refusal and known <= said.epoch <= most]
    ahead = known if latest is not None and is_in_future(latest, now) else 0
    return max([*named, ahead])


def go_beyond(
    store: ServerStore, epoch: int | None, now: float, proxies: Collection[str]
) -> tuple[int, dict[str, ProxyContact]]:
    """Let the next epoch have a larger number than this; give the present one up.

    For a database that was restored from a backup: proxies and devices have seen later epochs, and
    never go back. What they reported meanwhile is lost. Without a number, the last that one of
    these proxies has named; never less than that. The number of the next one, and what each proxy
    said last.
    """
    with store.write() as transaction:
        _locked(transaction)
        service, latest = transaction.get_service(), transaction.find_latest_epoch(lock=True)
        heard, most = transaction.get_contacts(), find_max_epoch(transaction)
        seen = _seen(transaction, proxies, now)
        if not seen and epoch is None:
            raise SettingsError(
                "no proxy has named an epoch that this database does not have: there is nothing to "
                "go beyond, or no proxy was heard yet (`sottovoce server status`). If devices have "
                "seen a later one, name it"
            )
        least, wanted = seen or service.next_epoch, seen if epoch is None else epoch
        if not least <= wanted <= most:
            raise SettingsError(
                f"name the last epoch that proxies have seen, in {least}..{most}: "
                + (f"one has seen {seen}" if wanted < seen else "a proxy that names more lies")
            )
        if latest is not None and latest.state != APPLIED:
            transaction.close_epoch(latest.epoch, now)
            transaction.apply_epoch(latest.epoch, reports=0, crowdless=0, capped=0)
        following = max(wanted + 1, service.next_epoch)
        if latest is not None and latest.state == APPLIED and following == latest.epoch + 1:
            following += 1  # a training that is finished publishes again only after a gap
        transaction.set_service(service.verification_key, following)
        for said in heard.values():
            if said.refusal and said.epoch < following:
                transaction.set_contact(replace(said, refusal=""))
    return following, heard


def close_epoch(
    store: ServerStore, now: float, *, dry_run: bool = False
) -> tuple[int, dict[str, str]]:
    """Close the present epoch, which waits for its crowd; its number, and what proxies said last.

    Not before its time: devices were told that reports are taken until then. Nothing is mixed below
    the crowd: each proxy that has one hands in, all others give up what they hold once the epoch is
    applied.
    """
    with store.write() as transaction:
        _locked(transaction)
        epoch = transaction.find_latest_epoch(lock=True)
        if epoch is None or epoch.state != OPEN:
            number = "" if epoch is None else f": epoch {epoch.epoch} is {epoch.state} already"
            raise SettingsError(f"there must be an open epoch{number}; nothing was changed")
        if now < epoch.closes:
            left = timedelta(seconds=ceil(epoch.closes - now))
            raise SettingsError(
                f"epoch {epoch.epoch} takes reports for {left} more (h:mm:ss), as its "
                "manifest says: wait until then"
            )
        if not dry_run:
            transaction.close_epoch(epoch.epoch, now)
        return epoch.epoch, transaction.get_crowds(epoch.epoch)


def _locked(transaction: Transaction) -> PendingConfig:
    """What is chosen, while nobody else publishes or chooses."""
    transaction.get_service(lock=True)
    return PendingConfig.read(transaction)


# What the settings file says, and what the database has: they must not silently differ.
#
# The database is the truth, which all workers share. Until its first epoch is published the
# operator may still change their mind; after that a training goes on as devices agreed to it, or
# not at all.

log = logging.getLogger("sottovoce")

CHANGEABLE_SETTINGS = {"epochs", "lifetime", "half_life"}
"""Of a training's settings, where the agreed terms allow it. Of the server's own all may."""


def read_catalogue(path: Path) -> Catalogue:
    try:
        with path.open("rb") as file:
            return Catalogue.decode(file.read(MAX_CATALOGUE_BYTES + 1))
    except (OSError, ProtocolError) as error:
        raise SettingsError(f"{path}: no catalogue: {get_reason(error)}") from error


def begin_service(store: ServerStore, settings: ServerSettings, keys: Keys) -> None:
    """Create the database of a new server.

    Raises:
        SettingsError: It is another server's, or the settings cannot work.
    """
    store.create()
    with store.write() as transaction:
        transaction.acquire_setup_lock()
        service = transaction.find_service(lock=True)
        if service is not None:
            raise SettingsError(
                f"{make_url(settings.database).render_as_string()} belongs to another server, "
                f"whose verification key is {service.verification_key.hex()}: name another "
                "database (--database)"
            )
        transaction.begin_service(token_hex(NAME_BYTES), keys.verification_key)
        _begin(transaction, settings)


def agree(transaction: Transaction, settings: ServerSettings, keys: Keys) -> None:
    """Check that these settings belong to the database, and note what they may change in it."""
    service = transaction.get_service(lock=True)
    check_may_sign(keys, service)
    _follow_keys(transaction, service, keys)
    training = transaction.find_training()
    if training is None or transaction.find_latest_epoch() is None:
        _begin(transaction, settings)
    else:
        _go_on(transaction, training, settings, keys)


def check_settings(transaction: Transaction, settings: ServerSettings, keys: Keys) -> None:
    """Refuse settings with which no worker could start; changes nothing."""
    training = transaction.find_training()
    if training is not None and transaction.find_latest_epoch() is not None:
        _agreed(transaction, training, settings, keys)


def _follow_keys(transaction: Transaction, service: Service, keys: Keys) -> None:
    """The file may be ahead of the database, if that was restored.

    It may be behind it for a while, which the worker says with its first beat.
    """
    if keys.is_successor_of(service.newest_key):
        transaction.set_newest_key(keys.verification_key)


def _begin(transaction: Transaction, settings: ServerSettings) -> None:
    catalogue = read_catalogue(settings.catalogue)
    transaction.set_catalogue(1, catalogue.hash, catalogue.raw)
    items = len(catalogue.items)
    begun = Training.create(1, settings.training, settings.terms, items, anew=True)
    PendingConfig(begun, catalogue, 1).check()
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
    shown = transaction.list_first_and_last(training.number)
    if not shown:
        now = _begun_again(transaction, training, settings)
    else:
        _check_settings(training, settings)
        now = training.update(settings.training, settings.terms)
        for epoch in shown:
            _check_terms(SignedManifest.open(epoch.manifest, keys.first_key).manifest, now)
    if now != training:
        replace(PendingConfig.read(transaction), training=now).check()
    return now, bool(shown)


def _begun_again(
    transaction: Transaction, training: Training, settings: ServerSettings
) -> Training:
    """As these settings have it; itself if it is that already, since its id may have been named."""
    before = transaction.find_training(training.number - 1)
    if settings.training != training.settings and settings.training == (before and before.settings):
        raise SettingsError(
            f"training {training.number} was begun with other settings than this file has, which "
            "are those of the training before: copy the new file to all workers, or take it back "
            "(`sottovoce server training begin --cancel`)"
        )
    now = Training.create(
        training.number,
        settings.training,
        settings.terms,
        training.items,
        anew=training.random_start,
    )
    same = replace(now, terms=replace(now.terms, training=training.terms.training)) == training
    return training if same else now


def _check_settings(training: Training, settings: ServerSettings) -> None:
    before, now = training.settings.as_dict(), settings.training.as_dict()
    for name in now:
        if name not in CHANGEABLE_SETTINGS and before.get(name) != now[name]:
            raise SettingsError(
                f"training.{name} was {before.get(name)!r} when this training began, now it is "
                f"{now[name]!r}: set it back, {ANOTHER}"
            )


def _check_terms(shown: Manifest, now: Training) -> None:
    """Devices pinned what they were shown, the first as well as the last, and refuse worse.

    What lies between is not worse than the first and not better than the last.
    """
    worse = shown.terms.list_worse_terms(now.make_terms(shown.items))
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

"""Which signing key may follow which: one chain, on however many machines keys files lie.

A key is made in a file, and the database that all workers share names the newest. Devices follow
from key to key and never back. If two keys followed the same one, devices that have seen a manifest
of the first would refuse those of the second for ever.
"""

from pathlib import Path

from sottovoce.errors import SettingsError
from sottovoce.server.keys import Keys
from sottovoce.server.store import ServerStore
from sottovoce.server.transaction import Service


def check_may_sign(keys: Keys, service: Service) -> None:
    """Raise a `SettingsError` unless these keys may sign.

    The key that signed last may, and a key that follows it and every newer one.
    """
    _check_known(keys, service)
    if keys.verification_key != service.verification_key:
        check_newest(keys, service)


def may_sign(keys: Keys, service: Service) -> bool:
    """Return whether these keys may sign."""
    try:
        check_may_sign(keys, service)
    except SettingsError:
        return False
    return True


def check_newest(keys: Keys, service: Service) -> None:
    """Raise a `SettingsError` unless the file has the newest key, or a key that follows it."""
    if not keys.is_successor_of(service.newest_key):
        raise SettingsError(
            f"the newest verification key, {service.newest_key.hex()}, is not in the keys file: "
            "copy the file from where `sottovoce server keys rotate` was run last"
        )


def _check_known(keys: Keys, service: Service) -> None:
    # Devices never go back to a key that was replaced, so a worker must not either.
    key = service.verification_key
    if not keys.is_successor_of(key):
        raise SettingsError(
            f"devices know the verification key {key.hex()}, which is not in the keys file: "
            "restore that file, or copy the new one to all workers if the key was changed"
        )


def find_key_problem(keys: Keys, service: Service, path: Path) -> str | None:
    """Return what the operator of a worker must do about its keys; None if all is well."""
    try:
        # If the file is gone, the keys are lost when this process ends.
        file_keys = Keys.read(path)
    except SettingsError as error:
        return str(error)
    try:
        check_may_sign(keys, service)
        check_newest(keys, service)
    except SettingsError as error:
        if file_keys.is_successor_of(service.newest_key):
            return "the signing key was changed, and the keys file has the new one: restart"
        return f"the signing key was changed: copy the newest keys file here, and restart ({error})"
    return None


def rotate_keys(store: ServerStore, path: Path, *, newest_is_lost: bool = False) -> Keys:
    """Replace the signing key in a keys file by a new one, which the old one names.

    Args:
        store: The database, whose lock lets only one caller do this at a time.
        path: The keys file.
        newest_is_lost: Whether to go on without the newest key, which was never used.

    Returns:
        The new keys.
    """
    with store.write() as transaction:
        service = transaction.get_service(lock=True)
        keys = Keys.read(path)
        _check_known(keys, service)
        if not newest_is_lost:
            check_newest(keys, service)
        rotated = keys.rotate()
        # First the file: wherever this breaks off, the key that the database names is in a file.
        rotated.replace(path)
        transaction.set_newest_key(rotated.verification_key)
    return rotated

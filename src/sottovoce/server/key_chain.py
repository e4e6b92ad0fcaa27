"""Checks that the signing keys of a service form one chain, even with several keys files.

A new key is made in a keys file, and the database, which all workers share, names the newest key.
Devices follow the chain from key to key and never back. If two keys followed the same key, devices
that have seen a manifest of one would refuse all manifests of the other for ever.
"""

from pathlib import Path

from sottovoce.errors import SettingsError
from sottovoce.server.keys import Keys
from sottovoce.server.store import ServerStore
from sottovoce.server.transaction import Service


def check_may_sign(keys: Keys, service: Service) -> None:
    """Raise a `SettingsError` unless these keys may sign.

    The key that signed last may sign. Another key may sign if it follows that key and is the newest
    one or follows it.
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
    """Raise a `SettingsError` unless the signing key is the newest one or follows it."""
    if not keys.is_successor_of(service.newest_key):
        raise SettingsError(
            f"the newest verification key, {service.newest_key.hex()}, is not in the keys file: "
            "copy the file from where `sottovoce server keys rotate` was run last"
        )


def _check_known(keys: Keys, service: Service) -> None:
    """Raise a `SettingsError` unless the signing key is the one that signed last or follows it."""
    # Devices never go back to a key that was replaced, so a worker must not use it.
    key = service.verification_key
    if not keys.is_successor_of(key):
        raise SettingsError(
            f"devices know the verification key {key.hex()}, which is not in the keys file: "
            "restore that file, or copy the new one to all workers if the key was changed"
        )


def find_key_problem(keys: Keys, service: Service, path: Path) -> str | None:
    """Return what the operator of a worker must do about its keys; None if all is well."""
    try:
        # If the file is gone, the keys exist only in this process.
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
    """Replace the signing key in a keys file by a new one, which the old key names.

    Args:
        store: The database. Its lock allows one rotation at a time.
        path: The keys file.
        newest_is_lost: Whether the keys file with the newest key is lost. The key in `path` is then
            replaced instead, which is safe only if the lost key has signed nothing.

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
        # Write the file before the database, so that the key that the database names is in a file
        # even if this process is killed here.
        rotated.replace(path)
        transaction.set_newest_key(rotated.verification_key)
    return rotated

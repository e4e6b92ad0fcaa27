"""Which signing key may follow which: one chain, on however many machines keys files lie.

A key is made in a file, and the database that all workers share names the newest. Devices follow
from key to key and never back: if two keys followed the same one, whoever had seen a manifest of
the first would refuse those of the second for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.errors import SettingsError
from sottovoce.server.keys import Keys

if TYPE_CHECKING:
    from pathlib import Path

    from sottovoce.server.store import ServerStore, Service


def check_may_sign(keys: Keys, service: Service) -> None:
    """With the key that signed last, or with one that follows it and every newer one."""
    _check_known(keys, service)
    if keys.verification_key != service.verification_key:
        check_newest(keys, service)


def check_newest(keys: Keys, service: Service) -> None:
    """Whether the newest key is in this file, or comes before what is."""
    if not keys.succeeds(service.newest_key):
        raise SettingsError(
            f"the newest verification key, {service.newest_key.hex()}, is not in the keys file: "
            "copy the file from where `sottovoce server keys rotate` was run last"
        )


def _check_known(keys: Keys, service: Service) -> None:
    """Devices never go back to a key that another has replaced: a worker must not either."""
    known = service.verification_key
    if not keys.succeeds(known):
        raise SettingsError(
            f"devices know the verification key {known.hex()}, which is not in the keys file: "
            "restore that file, or copy the new one to all workers if the key was changed"
        )


def lacking(keys: Keys, service: Service) -> str | None:
    """What a worker that runs with these keys must tell its operator of a newer one, if any."""
    try:
        check_may_sign(keys, service)
        check_newest(keys, service)
    except SettingsError as error:
        return f"the signing key was changed: copy the newest keys file here, and restart ({error})"
    return None


def rotate_keys(store: ServerStore, path: Path, *, newest_is_lost: bool = False) -> Keys:
    """Change the signing key in this file for another, which it names; the keys from then on.

    The database's lock lets one do it at a time. The file is replaced before the database hears of
    its key: wherever this breaks off, the newest key that the database knows is in a file.
    """
    with store.write() as transaction:
        service = transaction.service(lock=True)
        if service is None:
            raise SettingsError("the database is not set up: `sottovoce server init` does it")
        keys = Keys.read(path)
        _check_known(keys, service)
        if not newest_is_lost:
            check_newest(keys, service)
        rotated = keys.rotated()
        rotated.replace(path)
        transaction.set_newest_key(rotated.verification_key)
    return rotated

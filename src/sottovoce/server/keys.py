"""The server's own keys: what it signs manifests with, and what it wraps epoch keys with.

The signing key can be changed for another, which the old one names in a signed statement: devices
follow the statements from the key that they know. The old key is then of no use any more.

The database holds an epoch's private key only under the wrapping key, which lies in this file and
nowhere else: a backup of the database opens no report.
"""

import json
import os
import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sottovoce.errors import ProtocolError, SettingsError, StoreError, get_reason
from sottovoce.protocol import KeyStatement, strict
from sottovoce.protocol.signing import MAX_STATEMENTS, STATEMENT_BYTES
from sottovoce.server.store import ServerStore
from sottovoce.server.transaction import Service
from sottovoce.storage.files import read_secret, write_atomically, write_new

VERSION = 2
KEY, NONCE = 32, 12
_MOST = 16_384


@dataclass(frozen=True)
class Keys:
    """Two secrets of 32 bytes; never shown."""

    signing: bytes = field(repr=False)
    """Ed25519. Devices pin its public half: who loses it must start anew with all of them."""
    wrapping: bytes = field(repr=False)
    """AES-256, for the epochs' private keys at rest."""
    statements: tuple[KeyStatement, ...] = ()
    """By which earlier signing keys have named the next, from the first one on."""
    first_key: bytes = b""
    """The verification key that this service began with."""
    created: int = 0
    """Unix second of the signing key."""

    def __post_init__(self) -> None:
        if not self.first_key:
            object.__setattr__(self, "first_key", _public(self.signing))

    @classmethod
    def generate(cls) -> Self:
        signing = Ed25519PrivateKey.generate().private_bytes_raw()
        return cls(signing, os.urandom(KEY), created=int(time.time()))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Refused if anybody else could have read them."""
        try:
            raw = read_secret(path, _MOST + 1)
        except OSError as error:
            raise SettingsError(
                f"{path}: the keys cannot be read: {get_reason(error)}; restore the file. "
                "(What `sottovoce server init` makes are the keys of another server)"
            ) from error
        try:
            return cls._decode(raw)
        except ProtocolError as error:
            raise SettingsError(f"{path}: {error}; restore it from a backup") from error

    @classmethod
    def _decode(cls, raw: bytes) -> Self:
        given = strict.parse_object(raw, max_bytes=_MOST, what="keys")
        names = {"version", "signing", "wrapping", "first", "statements", "made"}
        strict.check_keys(given, names, "keys")
        strict.parse_int(
            given["version"], min_value=VERSION, max_value=VERSION, what="keys: version"
        )
        try:
            signing, wrapping, first = (
                strict.parse_hex(given[name], what=name)
                for name in ("signing", "wrapping", "first")
            )
        except ProtocolError:
            # The message would show the key.
            raise ProtocolError("keys: each is 64 lower-case hexadecimal digits") from None
        made = strict.parse_int(
            given["made"], min_value=0, max_value=strict.MAX_INTEGER, what="keys: made"
        )
        keys = cls(signing, wrapping, _statements(given["statements"]), first, made)
        keys._check_chain()
        return keys

    def write(self, path: Path) -> None:
        """A new file that only its owner can read; never in the place of another."""
        write_new(path, self._content())

    def replace(self, path: Path) -> None:
        """In the place of the file that is there, in one step; for its owner's eyes as well.

        Another user than the server may change keys, and the server must still be able to read it.
        """
        try:
            before = path.stat()
            write_atomically(path, self._content(), private=True)
            if os.name == "posix" and before.st_uid != os.geteuid():
                os.chown(path, before.st_uid, before.st_gid)
        except OSError as error:
            raise SettingsError(
                f"{path}: the keys cannot be written: {get_reason(error)}"
            ) from error

    def _content(self) -> bytes:
        content = {
            "version": VERSION,
            "signing": self.signing.hex(),
            "wrapping": self.wrapping.hex(),
            "first": self.first_key.hex(),
            "statements": [(each.key + each.signature).hex() for each in self.statements],
            "made": self.created,
        }
        return json.dumps(content, indent=2).encode() + b"\n"

    def rotate(self) -> Self:
        """With another signing key, which this one names."""
        if len(self.statements) == MAX_STATEMENTS:
            raise SettingsError(
                f"the signing key was changed {MAX_STATEMENTS} times, which is all that a "
                "manifest can prove: devices must be set up anew with the present key"
            )
        key = Ed25519PrivateKey.generate()
        named = KeyStatement.make(self.signer, key.public_key().public_bytes_raw())
        chain = (*self.statements, named)
        made = int(time.time())
        return replace(self, signing=key.private_bytes_raw(), statements=chain, created=made)

    def is_successor_of(self, verification_key: bytes) -> bool:
        """Whether devices that know this key follow ours: it is ours, or an earlier one."""
        return verification_key in (self.first_key, *(each.key for each in self.statements))

    def _check_chain(self) -> None:
        key = self.first_key
        for statement in self.statements:
            if not statement.follows(key):
                raise ProtocolError("keys: a statement is not signed by the key before it")
            key = statement.key
        if key != self.verification_key:
            raise ProtocolError("keys: the statements do not lead to the signing key")

    @cached_property
    def signer(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.signing)

    @cached_property
    def verification_key(self) -> bytes:
        """What new devices pin."""
        return _public(self.signing)

    def wrap(self, epoch: int, private_key: bytes) -> bytes:
        """An epoch's key as the database holds it, of use for this epoch alone."""
        nonce = os.urandom(NONCE)
        return nonce + AESGCM(self.wrapping).encrypt(nonce, private_key, _bound_to(epoch))

    def unwrap(self, epoch: int, wrapped: bytes) -> bytes:
        try:
            return AESGCM(self.wrapping).decrypt(wrapped[:NONCE], wrapped[NONCE:], _bound_to(epoch))
        except (InvalidTag, ValueError) as error:
            raise StoreError(
                f"the key of epoch {epoch} in the database was not wrapped with these keys: "
                "database and keys file must belong together"
            ) from error


def _public(signing: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(signing).public_key().public_bytes_raw()


def _statements(given: object) -> tuple[KeyStatement, ...]:
    if not isinstance(given, list):
        raise ProtocolError("keys: statements must be a list")
    raw = [strict.parse_hex(each, size=STATEMENT_BYTES, what="keys: a statement") for each in given]
    return tuple(KeyStatement(each[:KEY], each[KEY:]) for each in raw)


def _bound_to(epoch: int) -> bytes:
    return b"sottovoce epoch key 1\x00" + epoch.to_bytes(4, "little")


# Which signing key may follow which: one chain, on however many machines keys files lie.
#
# A key is made in a file, and the database that all workers share names the newest. Devices follow
# from key to key and never back: if two keys followed the same one, whoever had seen a manifest of
# the first would refuse those of the second for ever.


def check_may_sign(keys: Keys, service: Service) -> None:
    """With the key that signed last, or with one that follows it and every newer one."""
    _check_known(keys, service)
    if keys.verification_key != service.verification_key:
        check_newest(keys, service)


def may_sign(keys: Keys, service: Service) -> bool:
    try:
        check_may_sign(keys, service)
    except SettingsError:
        return False
    return True


def check_newest(keys: Keys, service: Service) -> None:
    """Whether the newest key is in this file, or comes before what is."""
    if not keys.is_successor_of(service.newest_key):
        raise SettingsError(
            f"the newest verification key, {service.newest_key.hex()}, is not in the keys file: "
            "copy the file from where `sottovoce server keys rotate` was run last"
        )


def _check_known(keys: Keys, service: Service) -> None:
    """Devices never go back to a key that another has replaced: a worker must not either."""
    known = service.verification_key
    if not keys.is_successor_of(known):
        raise SettingsError(
            f"devices know the verification key {known.hex()}, which is not in the keys file: "
            "restore that file, or copy the new one to all workers if the key was changed"
        )


def find_key_problem(keys: Keys, service: Service, path: Path) -> str | None:
    """What a worker with these keys must tell its operator: of a newer one, or of their file."""
    try:
        in_file = Keys.read(path)  # or they end with this process
    except SettingsError as error:
        return str(error)
    try:
        check_may_sign(keys, service)
        check_newest(keys, service)
    except SettingsError as error:
        if in_file.is_successor_of(service.newest_key):
            return "the signing key was changed, and the keys file has the new one: restart"
        return f"the signing key was changed: copy the newest keys file here, and restart ({error})"
    return None


def rotate_keys(store: ServerStore, path: Path, *, newest_is_lost: bool = False) -> Keys:
    """Change the signing key in this file for another, which it names; the keys from then on.

    The database's lock lets one do it at a time. The file is replaced before the database hears of
    its key: wherever this breaks off, the newest key that the database knows is in a file.
    """
    with store.write() as transaction:
        service = transaction.get_service(lock=True)
        keys = Keys.read(path)
        _check_known(keys, service)
        if not newest_is_lost:
            check_newest(keys, service)
        rotated = keys.rotate()
        rotated.replace(path)
        transaction.set_newest_key(rotated.verification_key)
    return rotated

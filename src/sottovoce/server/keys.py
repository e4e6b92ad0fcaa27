"""The server's own keys: what it signs manifests with, and what it wraps epoch keys with.

The signing key can be changed for another, which the old one names in a signed statement: devices
follow the statements from the key that they know. The old key is then of no use any more.

The database holds an epoch's private key only under the wrapping key, which lies in this file and
nowhere else: a backup of the database opens no report.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sottovoce.atomic import write_atomically
from sottovoce.errors import ProtocolError, SettingsError, StoreError, reason
from sottovoce.protocol import KeyStatement, strict
from sottovoce.protocol.signed import MOST_STATEMENTS, STATEMENT

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

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
    first: bytes = b""
    """The verification key that this service began with."""

    def __post_init__(self) -> None:
        if not self.first:
            object.__setattr__(self, "first", _public(self.signing))

    @classmethod
    def generate(cls) -> Self:
        """From the operating system's entropy."""
        return cls(Ed25519PrivateKey.generate().private_bytes_raw(), os.urandom(KEY))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Refused if anybody else could have read them."""
        try:
            with path.open("rb") as file:
                mode, raw = os.fstat(file.fileno()).st_mode, file.read(_MOST + 1)
        except OSError as error:
            raise SettingsError(
                f"{path}: the keys cannot be read: {reason(error)}; `sottovoce server init` makes "
                "them"
            ) from error
        if os.name == "posix" and mode & 0o077:
            raise SettingsError(
                f"{path}: others may read the keys (mode {mode & 0o777:o}): chmod 600, "
                "and think about who has read them"
            )
        try:
            return cls._decode(raw)
        except ProtocolError as error:
            raise SettingsError(f"{path}: {error}; restore it from a backup") from error

    @classmethod
    def _decode(cls, raw: bytes) -> Self:
        given = strict.read_object(raw, most=_MOST, what="keys")
        if given.get("version") == 1:  # from before signing keys could be changed
            given = {**given, "version": VERSION, "statements": [], "first": None}
        strict.exact_keys(given, {"version", "signing", "wrapping", "first", "statements"}, "keys")
        strict.whole(given["version"], least=VERSION, most=VERSION, what="keys: version")
        try:
            signing, wrapping, first = (
                b"" if given[n] is None else strict.hexadecimal(given[n], what=n)
                for n in ("signing", "wrapping", "first")
            )
        except ProtocolError:
            # The message would show the key.
            raise ProtocolError("keys: each is 64 lower-case hexadecimal digits") from None
        keys = cls(signing, wrapping, _statements(given["statements"]), first)
        keys._check_chain()
        return keys

    def write(self, path: Path) -> None:
        """A new file that only its owner can read; never in the place of another."""
        write_secret(path, self._content())

    def replace(self, path: Path) -> None:
        """In the place of the file that is there, in one step; for its owner's eyes as well.

        Whoever changes keys may be another user than the server, who must still be able to read it.
        """
        try:
            before = path.stat()
            write_atomically(path, self._content().encode(), private=True)
            if os.name == "posix" and before.st_uid != os.geteuid():
                os.chown(path, before.st_uid, before.st_gid)
        except OSError as error:
            raise SettingsError(f"{path}: the keys cannot be written: {reason(error)}") from error

    def _content(self) -> str:
        content = {
            "version": VERSION,
            "signing": self.signing.hex(),
            "wrapping": self.wrapping.hex(),
            "first": self.first.hex(),
            "statements": [(each.key + each.signature).hex() for each in self.statements],
        }
        return json.dumps(content, indent=2) + "\n"

    def rotated(self) -> Self:
        """With another signing key, which this one names."""
        if len(self.statements) == MOST_STATEMENTS:
            raise SettingsError(
                f"the signing key was changed {MOST_STATEMENTS} times, which is all that a "
                "manifest can prove: devices must be set up anew with the present key"
            )
        key = Ed25519PrivateKey.generate()
        named = KeyStatement.make(self.signer, key.public_key().public_bytes_raw())
        chain = (*self.statements, named)
        return replace(self, signing=key.private_bytes_raw(), statements=chain)

    def succeeds(self, verification_key: bytes) -> bool:
        """Whether devices that know this key follow ours: it is ours, or an earlier one."""
        return verification_key in (self.first, *(each.key for each in self.statements))

    def _check_chain(self) -> None:
        key = self.first
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
    raw = [strict.hexadecimal(each, size=STATEMENT, what="keys: a statement") for each in given]
    return tuple(KeyStatement(each[:KEY], each[KEY:]) for each in raw)


def write_secret(path: Path, text: str) -> None:
    """A new file for its owner's eyes, on the disk when this returns."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise SettingsError(f"{path}: there is one already; nothing is overwritten") from error
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _bound_to(epoch: int) -> bytes:
    return b"sottovoce epoch key 1\x00" + epoch.to_bytes(4, "little")

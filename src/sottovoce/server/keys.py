"""The server's two secret keys: one signs manifests, the other wraps the private keys of epochs.

The signing key can be replaced. The old key signs a statement that names the new one, and devices
follow these statements from the key that they know. After that, devices refuse the old key.

The database has the private key of an epoch only wrapped: encrypted with the wrapping key. The
wrapping key is in the keys file and nowhere else, so a backup of the database opens no report.
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
from sottovoce.storage.files import read_secret, write_atomically, write_new

FILE_VERSION = 2
KEY_BYTES = 32
# Length of an AES-GCM nonce.
NONCE_BYTES = 12
MAX_FILE_BYTES = 16_384


@dataclass(frozen=True)
class Keys:
    """The content of a keys file. Its two secrets are never shown."""

    signing: bytes = field(repr=False)
    """Ed25519 key that signs manifests. If it is lost, every device must be set up again."""
    wrapping: bytes = field(repr=False)
    """AES-256 key that wraps the private keys of epochs in the database."""
    statements: tuple[KeyStatement, ...] = ()
    """Statements in which each earlier signing key names the next one, oldest first."""
    first_key: bytes = b""
    """Verification key of the service's first signing key; by default that of `signing`."""
    created: int = 0
    """Unix seconds when the signing key was made."""

    def __post_init__(self) -> None:
        if not self.first_key:
            object.__setattr__(self, "first_key", _get_public_key(self.signing))

    @classmethod
    def generate(cls) -> Self:
        """Return the keys of a new service."""
        signing = Ed25519PrivateKey.generate().private_bytes_raw()
        return cls(signing, os.urandom(KEY_BYTES), created=int(time.time()))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a keys file.

        Raises:
            SettingsError: The file cannot be read, is malformed, or can be read by other users.
        """
        try:
            raw = read_secret(path, MAX_FILE_BYTES + 1)
        except OSError as error:
            raise SettingsError(
                f"{path}: the keys cannot be read: {get_reason(error)}; restore the file "
                "(`sottovoce server init` would make the keys of another server)"
            ) from error
        try:
            return cls._decode(raw)
        except ProtocolError as error:
            raise SettingsError(f"{path}: {error}; restore it from a backup") from error

    @classmethod
    def _decode(cls, raw: bytes) -> Self:
        content = strict.parse_object(raw, max_bytes=MAX_FILE_BYTES, what="keys")
        names = {"version", "signing", "wrapping", "first", "statements", "made"}
        strict.check_keys(content, names, "keys")
        strict.parse_int(
            content["version"],
            min_value=FILE_VERSION,
            max_value=FILE_VERSION,
            what="keys: version",
        )
        try:
            signing, wrapping, first = (
                strict.parse_hex(content[name], what=name)
                for name in ("signing", "wrapping", "first")
            )
        except ProtocolError:
            # The original message would show the key.
            raise ProtocolError(
                "keys: signing, wrapping and first must each be 64 lower-case hexadecimal digits"
            ) from None
        created = strict.parse_int(
            content["made"], min_value=0, max_value=strict.MAX_INTEGER, what="keys: made"
        )
        if not isinstance(content["statements"], list):
            raise ProtocolError("keys: statements must be a list")
        raw_statements = [
            strict.parse_hex(item, size=STATEMENT_BYTES, what="keys: a statement")
            for item in content["statements"]
        ]
        statements = tuple(KeyStatement(raw[:KEY_BYTES], raw[KEY_BYTES:]) for raw in raw_statements)
        keys = cls(signing, wrapping, statements, first, created)
        keys._check_chain()
        return keys

    def write(self, path: Path) -> None:
        """Write a new keys file that only its owner can read; never overwrite a file."""
        write_new(path, self._encode())

    def replace(self, path: Path) -> None:
        """Replace a keys file in one step, and keep its owner."""
        try:
            # Read the owner first: the new file belongs to the user of this process.
            before = path.stat()
            write_atomically(path, self._encode(), private=True)
            # If another user, such as root, replaces the key, the server must still be able to read
            # the file.
            if os.name == "posix" and before.st_uid != os.geteuid():
                os.chown(path, before.st_uid, before.st_gid)
        except OSError as error:
            raise SettingsError(
                f"{path}: the keys cannot be written: {get_reason(error)}"
            ) from error

    def _encode(self) -> bytes:
        statements = [(item.key + item.signature).hex() for item in self.statements]
        content = {
            "version": FILE_VERSION,
            "signing": self.signing.hex(),
            "wrapping": self.wrapping.hex(),
            "first": self.first_key.hex(),
            "statements": statements,
            "made": self.created,
        }
        return json.dumps(content, indent=2).encode() + b"\n"

    def rotate(self) -> Self:
        """Return a copy with a new signing key, and the statement in which the old one names it."""
        if len(self.statements) == MAX_STATEMENTS:
            raise SettingsError(
                f"the signing key was changed {MAX_STATEMENTS} times, and a manifest has no room "
                "for more statements: devices must be set up again with the present key"
            )
        key = Ed25519PrivateKey.generate()
        statement = KeyStatement.make(self.signer, key.public_key().public_bytes_raw())
        return replace(
            self,
            signing=key.private_bytes_raw(),
            statements=(*self.statements, statement),
            created=int(time.time()),
        )

    def is_successor_of(self, verification_key: bytes) -> bool:
        """Return whether devices that know this verification key accept ours.

        They do if it is our current verification key or an earlier one.
        """
        return verification_key in (self.first_key, *(item.key for item in self.statements))

    def _check_chain(self) -> None:
        key = self.first_key
        for statement in self.statements:
            if not statement.follows(key):
                raise ProtocolError("keys: a statement is not signed by the key before it")
            key = statement.key
        # Devices that pinned the first key could not follow the chain to the current one.
        if key != self.verification_key:
            raise ProtocolError("keys: the statements do not lead to the signing key")

    @cached_property
    def signer(self) -> Ed25519PrivateKey:
        """The signing key."""
        return Ed25519PrivateKey.from_private_bytes(self.signing)

    @cached_property
    def verification_key(self) -> bytes:
        """The public half of the signing key, which new devices pin."""
        return _get_public_key(self.signing)

    def wrap(self, epoch: int, private_key: bytes) -> bytes:
        """Encrypt an epoch's private key for the database, bound to the number of the epoch."""
        # The nonce is random, because a counter would repeat after a backup is restored.
        nonce = os.urandom(NONCE_BYTES)
        return nonce + AESGCM(self.wrapping).encrypt(nonce, private_key, _bind_epoch(epoch))

    def unwrap(self, epoch: int, wrapped: bytes) -> bytes:
        """Decrypt an epoch's private key.

        Raises:
            StoreError: The key was wrapped with other keys, or for another epoch.
        """
        nonce, content = wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:]
        try:
            return AESGCM(self.wrapping).decrypt(nonce, content, _bind_epoch(epoch))
        except (InvalidTag, ValueError) as error:
            raise StoreError(
                f"the key of epoch {epoch} in the database was not wrapped with these keys: "
                "database and keys file must belong together"
            ) from error


def _get_public_key(signing: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(signing).public_key().public_bytes_raw()


def _bind_epoch(epoch: int) -> bytes:
    """Return the associated data that binds a wrapped key to its epoch."""
    return b"sottovoce epoch key 1\x00" + epoch.to_bytes(4, "little")

"""The manifest as it is served: signed, with the statements that lead to the signing key.

     0     4  "SVM2"
     4     1  number n of key statements, 0..32
     5   96n  statements: the next verification key (32), signed by the key before it (64)
     .    64  signature of the manifest by the last key
     .     .  the manifest

Every signature is Ed25519, over a text that says what it means, a zero byte, and what is signed. A
reader that trusts a key follows the statements from there, and trusts the last key from then on:
never back.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sottovoce.errors import ProtocolError, UntrustedError
from sottovoce.protocol.manifest import MAX_MANIFEST, Manifest

if TYPE_CHECKING:
    from typing import Self

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

MAGIC = b"SVM2"
SIGNED_MANIFEST = b"sottovoce manifest 2\x00"
SIGNED_KEY = b"sottovoce key 2\x00"
"""Before the key that signs and the next one."""
KEY, SIGNATURE = 32, 64
STATEMENT = KEY + SIGNATURE
MOST_STATEMENTS = 32
_HEADER = len(MAGIC) + 1
MAX_SIGNED_MANIFEST = _HEADER + MOST_STATEMENTS * STATEMENT + SIGNATURE + MAX_MANIFEST


@dataclass(frozen=True)
class KeyStatement:
    """The owner of one verification key names the next."""

    key: bytes
    """The next one."""
    signature: bytes

    @classmethod
    def make(cls, old: Ed25519PrivateKey, key: bytes) -> Self:
        before = old.public_key().public_bytes_raw()
        return cls(key, old.sign(SIGNED_KEY + before + key))

    def follows(self, key: bytes) -> bool:
        return _is_signed(key, self.signature, SIGNED_KEY + key + self.key)


@dataclass(frozen=True)
class SignedManifest:
    statements: tuple[KeyStatement, ...]
    """From the service's first key on."""
    signature: bytes
    raw: bytes
    manifest: Manifest
    key: bytes
    """The verification key that signed it: what a reader trusts from now on."""

    @classmethod
    def make(
        cls, manifest: Manifest, key: Ed25519PrivateKey, statements: tuple[KeyStatement, ...] = ()
    ) -> Self:
        raw = manifest.encode()
        signature = key.sign(SIGNED_MANIFEST + raw)
        public = key.public_key().public_bytes_raw()
        return cls(statements, signature, raw, Manifest.decode(raw), public)

    @classmethod
    def open(cls, data: bytes, verification_key: bytes) -> Self:
        """Check the signature first; nothing of an unsigned manifest is ever looked at."""
        statements, signature, raw = _split(data)
        key = _last_key(verification_key, statements)
        if not _is_signed(key, signature, SIGNED_MANIFEST + raw):
            raise UntrustedError(
                "the manifest is not signed with the pinned verification key of the server, nor "
                "with one that this key has named; compare it with the key that the server's "
                "operator states"
            )
        return cls(statements, signature, raw, Manifest.decode(raw), key)

    def encode(self) -> bytes:
        chain = b"".join(each.key + each.signature for each in self.statements)
        return MAGIC + bytes([len(self.statements)]) + chain + self.signature + self.raw

    @cached_property
    def hash(self) -> bytes:
        """SHA-256 of the manifest's bytes alone: names the epoch everywhere."""
        return hashlib.sha256(self.raw).digest()


def _split(data: bytes) -> tuple[tuple[KeyStatement, ...], bytes, bytes]:
    if data[: len(MAGIC)] != MAGIC or len(data) <= _HEADER:
        raise ProtocolError(f"signed manifest: bad magic or too short, expected {MAGIC.decode()}")
    count = data[len(MAGIC)]
    at = _HEADER + count * STATEMENT
    if count > MOST_STATEMENTS or not at + SIGNATURE < len(data) <= MAX_SIGNED_MANIFEST:
        raise ProtocolError(f"signed manifest: {len(data)} bytes cannot have {count} statements")
    chain = data[_HEADER:at]
    statements = tuple(
        KeyStatement(chain[i : i + KEY], chain[i + KEY : i + STATEMENT])
        for i in range(0, len(chain), STATEMENT)
    )
    return statements, data[at : at + SIGNATURE], data[at + SIGNATURE :]


def _last_key(trusted: bytes, statements: tuple[KeyStatement, ...]) -> bytes:
    """From the trusted key along the statements; those before it are not looked at."""
    named = [each.key for each in statements]
    start = len(named) - named[::-1].index(trusted) if trusted in named else 0
    key = trusted
    for statement in statements[start:]:
        if not statement.follows(key):
            raise UntrustedError("a key statement is not signed by the trusted key")
        key = statement.key
    return key


def _is_signed(key: bytes, signature: bytes, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True

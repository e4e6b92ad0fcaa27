"""What the server signs: a manifest or a shelf, with the statements that lead to the signing key.

Those who hand it on (the proxy, a cache) can withhold it, but not change it.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from sottovoce.errors import ProtocolError, UntrustedError

SIGNED_KEY = b"sottovoce key 2\x00"
"""Before the key that signs and the next one."""
KEY, SIGNATURE = 32, 64
STATEMENT = KEY + SIGNATURE
MOST_STATEMENTS = 32
_MAGIC = 4
_HEADER = _MAGIC + 1


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
        return is_signed(key, self.signature, SIGNED_KEY + key + self.key)


@dataclass(frozen=True)
class Signed:
    """What is signed, as it is served.

    0     4  magic, which says what it is
    4     1  number n of key statements, 0..32
    5   96n  statements: the next verification key (32), signed by the key before it (64)
    .    64  signature by the last key
    .     .  what is signed

    Every signature is Ed25519, over a text that says what it means, a zero byte, and what is
    signed. A reader follows the statements from the key that it trusts.
    """

    what: ClassVar[str]
    magic: ClassVar[bytes]
    label: ClassVar[bytes]
    """Before what is signed."""
    most: ClassVar[int]
    """Bytes of what is signed."""

    statements: tuple[KeyStatement, ...]
    """From the service's first key on."""
    signature: bytes
    raw: bytes
    key: bytes
    """The verification key that signed it."""

    def __post_init__(self) -> None:
        """Each kind reads what is signed: one that cannot be read is refused."""
        raise NotImplementedError

    @classmethod
    def sign(cls, raw: bytes, key: Ed25519PrivateKey, statements: tuple[KeyStatement, ...]) -> Self:
        public = key.public_key().public_bytes_raw()
        return cls(statements, key.sign(cls.label + raw), raw, public)

    @classmethod
    def open(cls, data: bytes, verification_key: bytes) -> Self:
        """Check the signature first; nothing of what is not signed is ever looked at."""
        statements, signature, raw = cls._split(data)
        key = _last_key(cls.what, verification_key, statements)
        if not is_signed(key, signature, cls.label + raw):
            raise UntrustedError(
                f"signed {cls.what}: not by the pinned verification key of the server, nor by one "
                "that this key has named; compare it with the key that the server's "
                "operator states"
            )
        return cls(statements, signature, raw, key)

    @classmethod
    def most_bytes(cls) -> int:
        """Of the whole, as it is served."""
        return _HEADER + MOST_STATEMENTS * STATEMENT + SIGNATURE + cls.most

    def encode(self) -> bytes:
        chain = b"".join(each.key + each.signature for each in self.statements)
        return self.magic + bytes([len(self.statements)]) + chain + self.signature + self.raw

    @cached_property
    def hash(self) -> bytes:
        """SHA-256 of what is signed."""
        return hashlib.sha256(self.raw).digest()

    @classmethod
    def _split(cls, data: bytes) -> tuple[tuple[KeyStatement, ...], bytes, bytes]:
        if data[:_MAGIC] != cls.magic or len(data) <= _HEADER:
            raise ProtocolError(
                f"signed {cls.what}: bad magic or too short, expected {cls.magic.decode()}"
            )
        count = data[_MAGIC]
        at = _HEADER + count * STATEMENT
        if count > MOST_STATEMENTS or not at + SIGNATURE < len(data) <= cls.most_bytes():
            raise ProtocolError(
                f"signed {cls.what}: {len(data)} bytes cannot have {count} statements"
            )
        chain = data[_HEADER:at]
        statements = tuple(
            KeyStatement(chain[i : i + KEY], chain[i + KEY : i + STATEMENT])
            for i in range(0, len(chain), STATEMENT)
        )
        return statements, data[at : at + SIGNATURE], data[at + SIGNATURE :]


def _last_key(what: str, trusted: bytes, statements: tuple[KeyStatement, ...]) -> bytes:
    """From the trusted key along the statements; those before it are not looked at."""
    named = [each.key for each in statements]
    start = len(named) - named[::-1].index(trusted) if trusted in named else 0
    key = trusted
    for statement in statements[start:]:
        if not statement.follows(key):
            raise UntrustedError(f"signed {what}: a key statement is not by the trusted key")
        key = statement.key
    return key


def is_signed(key: bytes, signature: bytes, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True

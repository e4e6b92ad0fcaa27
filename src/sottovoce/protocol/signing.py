"""Signed files: manifests and shelves, with the key statements that lead to the signing key.

A proxy or a cache can withhold a signed file, but cannot change it without being noticed.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from sottovoce.errors import ProtocolError, UntrustedError

# A key statement is a signature of this label, the signing key, and the next key.
KEY_STATEMENT_LABEL = b"sottovoce key 2\x00"
# Sizes of an Ed25519 public key and of a signature.
KEY_BYTES = 32
SIGNATURE_BYTES = 64
STATEMENT_BYTES = KEY_BYTES + SIGNATURE_BYTES
# A signed file has at most this many key statements, so a server can change its signing key this
# often.
MAX_STATEMENTS = 32
# The header of a signed file has the magic and the number of key statements.
_MAGIC_BYTES = 4
_HEADER_BYTES = _MAGIC_BYTES + 1


@dataclass(frozen=True)
class KeyStatement:
    """A statement, signed by the current key of a server, that names its next key."""

    key: bytes
    """The next verification key."""
    signature: bytes
    """The signature by the previous key."""

    @classmethod
    def make(cls, old: Ed25519PrivateKey, key: bytes) -> Self:
        """Sign a statement.

        Args:
            old: The private key that is current until now.
            key: The verification key that follows it.
        """
        before = old.public_key().public_bytes_raw()
        return cls(key, old.sign(KEY_STATEMENT_LABEL + before + key))

    def follows(self, key: bytes) -> bool:
        """Return whether this statement was signed by the private key that belongs to `key`."""
        return has_valid_signature(key, self.signature, KEY_STATEMENT_LABEL + key + self.key)


@dataclass(frozen=True)
class Signed:
    """A signed file. Each kind of file is a subclass.

    The columns are offset, size in bytes, and content; a dot as an offset is the end of the field
    before:

    0     4  magic, which identifies the kind of file
    4     1  n, the number of key statements, 0..32
    5   96n  n key statements: the next verification key (32), signed by the key before it (64)
    .    64  signature by the last key
    .     .  the signed content, up to the end of the file

    Every signature is an Ed25519 signature of a label, which ends in a zero byte, and the content.
    A reader follows the key statements from the key that it trusts to the last one.
    """

    what: ClassVar[str]
    """The kind of file, for error messages."""
    magic: ClassVar[bytes]
    """The first four bytes of the file."""
    label: ClassVar[bytes]
    """The bytes that precede the content in the text that is signed."""
    max_content_bytes: ClassVar[int]
    """The largest size of the content."""

    statements: tuple[KeyStatement, ...]
    """The key statements, from the service's first key to the signing key."""
    signature: bytes
    raw: bytes
    """The content, in the bytes that are signed."""
    key: bytes
    """The verification key with which the signature is valid."""

    def __post_init__(self) -> None:
        """Parse the content, so that only valid files can be created."""
        raise NotImplementedError

    @classmethod
    def sign(cls, raw: bytes, key: Ed25519PrivateKey, statements: tuple[KeyStatement, ...]) -> Self:
        """Sign the content of a file.

        Args:
            raw: The bytes of the content.
            key: The private key to sign with.
            statements: The key statements that lead from the service's first key to this key.
        """
        public = key.public_key().public_bytes_raw()
        return cls(statements, key.sign(cls.label + raw), raw, public)

    @classmethod
    def open(cls, data: bytes, verification_key: bytes) -> Self:
        """Verify and parse a file.

        Args:
            data: The bytes of the file.
            verification_key: The key that the reader trusts.

        Raises:
            UntrustedError: The file is signed neither by this key nor by a key that follows from it
                by the key statements.
            ProtocolError: The file is malformed.
        """
        # The signature is verified before the content is parsed.
        statements, signature, raw = cls._split(data)
        key = _follow_statements(cls.what, verification_key, statements)
        if not has_valid_signature(key, signature, cls.label + raw):
            raise UntrustedError(
                f"signed {cls.what}: it is signed neither by the pinned verification key of the "
                "server nor by a key that this key has named; compare the pinned key with the one "
                "that the server's operator states"
            )
        return cls(statements, signature, raw, key)

    @classmethod
    def max_bytes(cls) -> int:
        """Return the largest size of a signed file."""
        return (
            _HEADER_BYTES
            + MAX_STATEMENTS * STATEMENT_BYTES
            + SIGNATURE_BYTES
            + cls.max_content_bytes
        )

    def encode(self) -> bytes:
        chain = b"".join(item.key + item.signature for item in self.statements)
        return self.magic + bytes([len(self.statements)]) + chain + self.signature + self.raw

    @cached_property
    def hash(self) -> bytes:
        """SHA-256 of the signed content."""
        return hashlib.sha256(self.raw).digest()

    @classmethod
    def _split(cls, data: bytes) -> tuple[tuple[KeyStatement, ...], bytes, bytes]:
        if data[:_MAGIC_BYTES] != cls.magic or len(data) <= _HEADER_BYTES:
            raise ProtocolError(
                f"signed {cls.what}: it must begin with {cls.magic.decode()} and contain a "
                "signature"
            )
        count = data[_MAGIC_BYTES]
        at = _HEADER_BYTES + count * STATEMENT_BYTES
        if count > MAX_STATEMENTS or not at + SIGNATURE_BYTES < len(data) <= cls.max_bytes():
            raise ProtocolError(
                f"signed {cls.what}: {len(data)} bytes cannot have {count} key statements"
            )
        chain = data[_HEADER_BYTES:at]
        statements = tuple(
            KeyStatement(chain[i : i + KEY_BYTES], chain[i + KEY_BYTES : i + STATEMENT_BYTES])
            for i in range(0, len(chain), STATEMENT_BYTES)
        )
        return statements, data[at : at + SIGNATURE_BYTES], data[at + SIGNATURE_BYTES :]


def _follow_statements(what: str, trusted: bytes, statements: tuple[KeyStatement, ...]) -> bytes:
    """Follow the key statements from the trusted key, and return the last key.

    Raises:
        UntrustedError: A statement is not signed by the key before it.
    """
    keys = [statement.key for statement in statements]
    # Skip the statements up to the one that names the trusted key: they lead to this key.
    start = len(keys) - keys[::-1].index(trusted) if trusted in keys else 0
    key = trusted
    for statement in statements[start:]:
        if not statement.follows(key):
            raise UntrustedError(f"signed {what}: a key statement is not signed by a trusted key")
        key = statement.key
    return key


def has_valid_signature(key: bytes, signature: bytes, message: bytes) -> bool:
    """Return whether this Ed25519 key has signed the message."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True

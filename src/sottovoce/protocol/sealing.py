"""Sealing: each report alone, to the server's key of one epoch (HPKE base mode, RFC 9180).

Alone, so that a proxy can separate the reports of one person. Bound to the manifest's hash, so that
a report opens in its own epoch, under its own manifest, or not at all.
"""

from dataclasses import dataclass

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from numpy.typing import NDArray

from sottovoce.errors import ProtocolError

SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
INFO = b"sottovoce report 2\x00"
"""Before the manifest's hash in HPKE's `info`."""
ENC = 32
"""A sealed report begins with its encapsulated key, drawn anew for every report."""
PLAIN = 4
SEALED = ENC + PLAIN + 16
"""52 bytes: key, report, tag."""


def new_epoch_key() -> bytes:
    """A private key for one epoch, from the operating system's entropy."""
    return X25519PrivateKey.generate().private_bytes_raw()


def public_key_of(private_key: bytes) -> bytes:
    """What the manifest carries."""
    return X25519PrivateKey.from_private_bytes(private_key).public_key().public_bytes_raw()


def seal_reports(reports: NDArray[np.uint32], public_key: bytes, manifest_hash: bytes) -> bytes:
    """Each report sealed alone, one after the other, `SEALED` bytes each."""
    info = INFO + manifest_hash
    try:
        recipient = X25519PublicKey.from_public_bytes(public_key)
        plain = reports.astype("<u4").tobytes()
        return b"".join(
            SUITE.encrypt(plain[at : at + PLAIN], recipient, info=info)
            for at in range(0, len(plain), PLAIN)
        )
    except ValueError as error:
        raise ProtocolError(f"public_key: nothing can be sealed to it: {error}") from error


def check_public_key(public_key: bytes) -> None:
    """Refuse a key to which nothing can be sealed: one of small order, which anybody could open."""
    seal_reports(np.zeros(1, np.uint32), public_key, bytes(32))


@dataclass(frozen=True, eq=False)
class Opened:
    """What is in a run of sealed reports."""

    reports: NDArray[np.uint32]
    """Of those that opened, in the order in which they came."""
    keys: NDArray[np.uint64]
    """The first eight bytes of each one's encapsulated key: equal for a report sent twice."""
    undecodable: int


def open_reports(
    sealed: bytes, private_key: bytes, manifest_hash: bytes, n_directions: int
) -> Opened:
    """Open what can be opened; a report that cannot, or names no direction, is only counted.

    Eight bytes of a fresh public key are enough to tell reports apart: among a million honest ones
    two agree with probability 3e-8, and then one is lost.
    """
    if len(sealed) % SEALED:
        raise ProtocolError(f"{len(sealed)} bytes are not a number of sealed reports")
    private, info = X25519PrivateKey.from_private_bytes(private_key), INFO + manifest_hash
    opened: list[bytes] = []
    failed: list[int] = []
    for at in range(0, len(sealed), SEALED):
        try:
            opened.append(SUITE.decrypt(sealed[at : at + SEALED], private, info=info))
        except (InvalidTag, ValueError):
            failed.append(at // SEALED)
    reports = np.frombuffer(b"".join(opened), dtype="<u4").astype(np.uint32)
    known = reports >> np.uint32(1) < n_directions
    keys = np.delete(key_prefixes(sealed), failed)[known]
    return Opened(reports[known], keys, len(sealed) // SEALED - len(keys))


def key_prefixes(sealed: bytes) -> NDArray[np.uint64]:
    """The first eight bytes of every encapsulated key: equal for a report that is sent twice."""
    rows = np.frombuffer(sealed, dtype=np.uint8).reshape(-1, SEALED)
    return np.ascontiguousarray(rows[:, :8]).view("<u8").ravel().astype(np.uint64)

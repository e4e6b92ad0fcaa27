"""Sealing: encrypting each report to the server's key of one epoch (HPKE base mode, RFC 9180).

Each report is sealed separately, so that a proxy can separate the reports of one person. It is
bound to the manifest's hash, so that it can only be opened in its epoch, under its manifest.
"""

from dataclasses import dataclass

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from numpy.typing import NDArray

from sottovoce.errors import ProtocolError

# The cipher suite that the manifest names.
HPKE_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
# Precedes the manifest's hash in HPKE's `info`.
HPKE_INFO_PREFIX = b"sottovoce report 2\x00"
# A sealed report: the encapsulated key, which is drawn for every report, the report, the tag.
ENCAPSULATED_KEY_BYTES = 32
REPORT_BYTES = 4
SEALED_BYTES = ENCAPSULATED_KEY_BYTES + REPORT_BYTES + 16


def generate_epoch_key() -> bytes:
    """Generate the private key of an epoch from the operating system's entropy."""
    return X25519PrivateKey.generate().private_bytes_raw()


def derive_public_key(private_key: bytes) -> bytes:
    """Derive the public key, which the manifest contains."""
    return X25519PrivateKey.from_private_bytes(private_key).public_key().public_bytes_raw()


def seal_reports(reports: NDArray[np.uint32], public_key: bytes, manifest_hash: bytes) -> bytes:
    """Seal each report separately; return them one after the other, `SEALED_BYTES` each."""
    info = HPKE_INFO_PREFIX + manifest_hash
    try:
        recipient = X25519PublicKey.from_public_bytes(public_key)
        plain = reports.astype("<u4").tobytes()
        return b"".join(
            HPKE_SUITE.encrypt(plain[at : at + REPORT_BYTES], recipient, info=info)
            for at in range(0, len(plain), REPORT_BYTES)
        )
    except ValueError as error:
        raise ProtocolError(f"public_key: nothing can be sealed to it: {error}") from error


def check_public_key(public_key: bytes) -> None:
    """Raise a `ProtocolError` if nothing can be sealed to this key."""
    # Keys of small order fail: anybody could open what is sealed to them.
    seal_reports(np.zeros(1, np.uint32), public_key, bytes(32))


@dataclass(frozen=True, eq=False)
class OpenedReports:
    """The reports of a run of sealed reports."""

    reports: NDArray[np.uint32]
    """The reports that could be opened, in their order."""
    keys: NDArray[np.uint64]
    """The key prefix of each of them: equal if a report was sent twice."""
    undecodable: int
    """The number of reports that could not be opened, or that name no direction."""


def open_reports(
    sealed: bytes, private_key: bytes, manifest_hash: bytes, n_directions: int
) -> OpenedReports:
    """Open all reports that can be opened, and count the others."""
    if len(sealed) % SEALED_BYTES:
        raise ProtocolError(f"{len(sealed)} bytes are not a whole number of sealed reports")
    private, info = (
        X25519PrivateKey.from_private_bytes(private_key),
        HPKE_INFO_PREFIX + manifest_hash,
    )
    opened: list[bytes] = []
    failed: list[int] = []
    for at in range(0, len(sealed), SEALED_BYTES):
        try:
            opened.append(HPKE_SUITE.decrypt(sealed[at : at + SEALED_BYTES], private, info=info))
        except (InvalidTag, ValueError):
            failed.append(at // SEALED_BYTES)
    reports = np.frombuffer(b"".join(opened), dtype="<u4").astype(np.uint32)
    is_valid = reports >> np.uint32(1) < n_directions
    keys = np.delete(read_key_prefixes(sealed), failed)[is_valid]
    return OpenedReports(reports[is_valid], keys, len(sealed) // SEALED_BYTES - len(keys))


def read_key_prefixes(sealed: bytes) -> NDArray[np.uint64]:
    """Read the first eight bytes of every encapsulated key: equal if a report was sent twice."""
    # Eight bytes are enough: among a million honest reports, two have the same prefix with
    # probability 3e-8, and then one of them is lost.
    rows = np.frombuffer(sealed, dtype=np.uint8).reshape(-1, SEALED_BYTES)
    return np.ascontiguousarray(rows[:, :8]).view("<u8").ravel().astype(np.uint64)

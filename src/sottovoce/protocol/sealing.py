"""Sealing, which encrypts each report to the server's key of an epoch (HPKE base mode, RFC 9180).

Each report is sealed separately, so that a proxy can separate the reports of one person. Each
sealed report is bound to the manifest's hash, so that it can be opened only under this manifest.
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
# The `info` of HPKE is this prefix followed by the manifest's hash.
HPKE_INFO_PREFIX = b"sottovoce report 2\x00"
# A sealed report consists of the encapsulated key, which is drawn for every report, the
# encrypted report, and an authentication tag of 16 bytes.
ENCAPSULATED_KEY_BYTES = 32
REPORT_BYTES = 4
SEALED_BYTES = ENCAPSULATED_KEY_BYTES + REPORT_BYTES + 16


def generate_epoch_key() -> bytes:
    """Generate a random private key for an epoch."""
    return X25519PrivateKey.generate().private_bytes_raw()


def derive_public_key(private_key: bytes) -> bytes:
    """Derive the public key of an epoch, which the manifest states."""
    return X25519PrivateKey.from_private_bytes(private_key).public_key().public_bytes_raw()


def seal_reports(reports: NDArray[np.uint32], public_key: bytes, manifest_hash: bytes) -> bytes:
    """Seal each report separately.

    Returns:
        The sealed reports, one after the other, with `SEALED_BYTES` each.

    Raises:
        ProtocolError: The public key is not valid.
    """
    info = HPKE_INFO_PREFIX + manifest_hash
    try:
        recipient = X25519PublicKey.from_public_bytes(public_key)
        plain = reports.astype("<u4").tobytes()
        return b"".join(
            HPKE_SUITE.encrypt(plain[at : at + REPORT_BYTES], recipient, info=info)
            for at in range(0, len(plain), REPORT_BYTES)
        )
    except ValueError as error:
        raise ProtocolError(f"public_key: no report can be sealed to this key: {error}") from error


def check_public_key(public_key: bytes) -> None:
    """Raise a `ProtocolError` if no report can be sealed to this key."""
    # This refuses keys of small order too: anybody could open reports that are sealed to them.
    seal_reports(np.zeros(1, np.uint32), public_key, bytes(32))


@dataclass(frozen=True, eq=False)
class OpenedReports:
    """The result of opening sealed reports."""

    reports: NDArray[np.uint32]
    """The valid reports, in their order."""
    keys: NDArray[np.uint64]
    """The key prefix of each valid report (see `read_key_prefixes`)."""
    undecodable: int
    """The number of reports that could not be opened, or that name a direction out of range."""


def open_reports(
    sealed: bytes, private_key: bytes, manifest_hash: bytes, n_directions: int
) -> OpenedReports:
    """Open all reports that can be opened, and count the others.

    Args:
        sealed: The sealed reports, one after the other.
        private_key: The private key of the epoch.
        manifest_hash: The hash of the manifest that the reports were made for.
        n_directions: The number of directions; a report that names a larger one is not valid.

    Raises:
        ProtocolError: The length of `sealed` is not a multiple of `SEALED_BYTES`.
    """
    if len(sealed) % SEALED_BYTES:
        raise ProtocolError(
            f"sealed reports must have a multiple of {SEALED_BYTES} bytes, not {len(sealed)}"
        )
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
    """Read the first eight bytes of every encapsulated key.

    If a sealed report was sent twice, both copies have the same prefix.
    """
    # Eight bytes are enough. Two of a million honest reports have the same prefix with probability
    # 3e-8, and then one of the two is lost.
    rows = np.frombuffer(sealed, dtype=np.uint8).reshape(-1, SEALED_BYTES)
    return np.ascontiguousarray(rows[:, :8]).view("<u8").ravel().astype(np.uint64)

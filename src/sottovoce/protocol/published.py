"""An epoch as published, and the one verification of it, for clients, proxies and other readers.

Nothing is used before all of it holds: signed with the pinned key, no older epoch than the newest
accepted one, one manifest for one epoch (whoever could choose between two could tell their readers
apart), files within their size limits and with the hashes that the manifest names, an item matrix
of the right shape and within public bounds, and as many catalogue items as the manifest says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sottovoce.errors import ProtocolError, UntrustedError
from sottovoce.protocol.catalogue import Catalogue
from sottovoce.protocol.model import decode_items, model_size
from sottovoce.protocol.sealing import check_public_key
from sottovoce.protocol.signed import SignedManifest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sottovoce.protocol.manifest import Manifest

Files = dict[bytes, bytes]
"""Model and catalogue file of an epoch, each by its SHA-256."""
Newest = tuple[int, bytes]
"""Epoch and hash of the newest manifest that a reader has accepted."""
Held = Callable[[bytes], bytes | None]
"""The file with this SHA-256 that a reader has already; None: fetch it."""


class PublishedSource(Protocol):
    """Where published files come from: a client's proxy, a proxy's server. It is not trusted.

    Each call raises `UnavailableError` when the same may work later, `RefusedError` when not.
    """

    def manifest(self) -> bytes:
        """The signed manifest of the present epoch."""

    def model(self, sha256: bytes, most: int) -> bytes:
        """The model file with this hash; a longer one than `most` is a `ProtocolError`."""

    def catalogue(self, sha256: bytes) -> bytes:
        """The catalogue file with this hash; one beyond `MAX_CATALOGUE` is a `ProtocolError`."""


@dataclass(frozen=True, eq=False)
class Edition:
    """One epoch as published: the manifest, the item matrix, the names of its rows."""

    signed: SignedManifest
    V: NDArray[np.float32]
    catalogue: Catalogue

    @property
    def manifest(self) -> Manifest:
        return self.signed.manifest

    def rows_of(self, items: list[str]) -> list[int]:
        """The rows of those items that the catalogue knows, ascending."""
        return sorted(
            self.catalogue.numbers[item] for item in items if item in self.catalogue.numbers
        )


def fetch_manifest(source: PublishedSource, key: bytes, newest: Newest | None) -> SignedManifest:
    """The present manifest; `UntrustedError` if signature or order of epochs do not hold."""
    signed = SignedManifest.open(source.manifest(), key)
    epoch = signed.manifest.epoch
    if newest is None:
        return signed
    if epoch < newest[0]:
        raise UntrustedError(
            f"manifest of epoch {epoch} after that of epoch {newest[0]}: epochs never go back"
        )
    if epoch == newest[0] and signed.hash != newest[1]:
        raise UntrustedError(
            f"two different manifests of epoch {epoch}, both signed: "
            f"{signed.hash.hex()} after {newest[1].hex()}"
        )
    return signed


def fetch_edition(
    signed: SignedManifest, source: PublishedSource, held: Held
) -> tuple[Edition, Files]:
    """The epoch of a verified manifest, and its files; only what is not held is fetched."""
    manifest = signed.manifest
    most = model_size(manifest.items, manifest.terms.factors)
    model = _intact(held, manifest.model) or source.model(manifest.model, most)
    catalogue = _intact(held, manifest.catalogue) or source.catalogue(manifest.catalogue)
    files = {manifest.model: model, manifest.catalogue: catalogue}
    return verified(signed, model, catalogue), files


def verified(signed: SignedManifest, model: bytes, catalogue: bytes) -> Edition:
    """The epoch of a verified manifest and these files, if they are the ones that it names."""
    manifest = signed.manifest
    if manifest.public_key is not None:
        check_public_key(manifest.public_key)
    _check_hash(model, manifest.model, "model")
    _check_hash(catalogue, manifest.catalogue, "catalogue")
    V = decode_items(model, manifest.items, manifest.terms.factors)
    names = Catalogue.decode(catalogue)
    if len(names.items) != manifest.items:
        raise ProtocolError(
            f"the catalogue has {len(names.items)} items, the manifest says {manifest.items}"
        )
    return Edition(signed, V, names)


def _intact(held: Held, sha256: bytes) -> bytes | None:
    """One that the disk has damaged is as good as none."""
    content = held(sha256)
    return content if content is not None and _hash(content) == sha256 else None


def _hash(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _check_hash(content: bytes, sha256: bytes, what: str) -> None:
    if _hash(content) != sha256:
        raise UntrustedError(f"the {what} file is not the one that the manifest names")

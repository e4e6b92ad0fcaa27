"""What is published, fetched and believed: only if everything about it holds.

Since the same bytes go to everybody and the manifest's hash is bound into every sealed report,
nobody can be given a manifest, a model or a key of their own unnoticed.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bounds import check_shape
from sottovoce.errors import ConflictError, ProtocolError, SettingsError, UntrustedError
from sottovoce.protocol.catalogue import Catalogue, moved_rows
from sottovoce.protocol.contact import DAY
from sottovoce.protocol.manifest import Manifest, SignedManifest, short_name
from sottovoce.protocol.model import decode_items, model_size
from sottovoce.protocol.sealing import check_public_key
from sottovoce.protocol.shelf import Shelf, SignedShelf

Files = dict[bytes, bytes]
"""Model and catalogue file of an epoch, each by its SHA-256."""
Newest = tuple[int, bytes]
"""Epoch and hash of the newest manifest that a reader has accepted; or of a shelf, its time."""
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

    def shelf(self) -> bytes:
        """The signed shelf: which catalogue holds now."""


@dataclass(frozen=True, eq=False)
class Release:
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

    def on(self, shelf: Catalogue) -> Self | None:
        """What lists are made from: the same model, of the items that there are now.

        Of a shelf beyond the terms, those that the model knows; None if no such item is left.
        """
        try:
            check_shelf(self.manifest, shelf)
        except ProtocolError:
            known = [item for item in shelf.items if item.id in self.catalogue.numbers]
            if not known:
                return None
            shelf = Catalogue.of(known)
        V = moved_rows(self.V, self.catalogue.items, shelf.items)
        return replace(self, V=V, catalogue=shelf)


def fetch_manifest(source: PublishedSource, key: bytes, newest: Newest | None) -> SignedManifest:
    """The present manifest; `UntrustedError` if its signature does not hold.

    `ConflictError` if it is earlier than the newest, or another one of that epoch.
    """
    signed = SignedManifest.open(source.manifest(), key)
    epoch = signed.manifest.epoch
    if newest is None:
        return signed
    if epoch < newest[0]:
        raise ConflictError(
            f"manifest of epoch {epoch} after that of epoch {newest[0]}: epochs never go back"
        )
    if epoch == newest[0] and signed.hash != newest[1]:
        raise ConflictError(
            f"two different manifests of epoch {epoch}, both signed: "
            f"{short_name(signed.hash)} after {short_name(newest[1])}"
        )
    return signed


def fetch_release(
    signed: SignedManifest, source: PublishedSource, held: Held
) -> tuple[Release, Files]:
    """The epoch of a verified manifest, and its files; only what is not held is fetched."""
    manifest = signed.manifest
    most = model_size(manifest.items, manifest.terms.factors)
    model = _intact(held, manifest.model) or source.model(manifest.model, most)
    catalogue = _intact(held, manifest.catalogue) or source.catalogue(manifest.catalogue)
    files = {manifest.model: model, manifest.catalogue: catalogue}
    return verified(signed, model, catalogue), files


def verified(signed: SignedManifest, model: bytes, catalogue: bytes) -> Release:
    """The epoch of a verified manifest and these files: the one place that decides it for all.

    Nothing is used before all of it holds. `fetch_manifest` has looked at signature and order:
    anyone who could choose between two manifests of an epoch could tell their readers apart.
    """
    manifest = signed.manifest
    if manifest.public_key is not None:
        check_public_key(manifest.public_key)
    _check_hash(model, manifest.model, "model")
    V = decode_items(model, manifest.items, manifest.terms.factors)
    names = _catalogue(catalogue, manifest.catalogue)
    if len(names.items) != manifest.items:
        raise ProtocolError(
            f"the catalogue has {len(names.items)} items, the manifest says {manifest.items}"
        )
    return Release(signed, V, names)


def fetch_shelf(
    manifest: SignedManifest,
    raw: bytes,
    source: PublishedSource,
    held: Held,
    newest: Newest | None,
    now: float,
    *,
    any_size: bool = False,
) -> tuple[SignedShelf, Files]:
    """What `source` gave as its shelf, and its catalogue; `UntrustedError` if it goes back.

    It is signed by the key of the verified manifest, or by one that this key has named. It is of
    any size where a later manifest has other terms. One of more than a day ahead is refused: a
    clock was wrong when it was signed, and for long none could come after it.
    """
    signed = SignedShelf.open(raw, manifest.key)
    shelf = signed.shelf
    if shelf.published > now + DAY:
        raise UntrustedError(
            f"shelf of second {shelf.published}, more than a day ahead of this clock: one of the "
            "two is wrong"
        )
    if newest is not None:
        second, known = newest
        if shelf.published < second:
            raise UntrustedError(
                f"shelf of second {shelf.published} after that of {second}: shelves never go back"
            )
        if shelf.published == second and signed.hash != known:
            raise UntrustedError(f"two different shelves of second {second}, both signed")
    content = _intact(held, shelf.catalogue) or source.catalogue(shelf.catalogue)
    catalogue = _catalogue(content, shelf.catalogue)
    if not any_size:
        check_shelf(manifest.manifest, catalogue)
    return signed, {shelf.catalogue: content}


def check_shelf(manifest: Manifest, catalogue: Catalogue) -> None:
    """It must be one that the next epoch could have: devices agreed to no larger model."""
    items, terms = len(catalogue.items), manifest.terms
    if items > terms.most_items:
        raise ProtocolError(f"shelf: {items} items, the terms allow {terms.most_items}")
    try:
        check_shape(items, terms.factors)
    except SettingsError as error:
        raise ProtocolError(f"shelf: {error}") from error


def listed_catalogue(manifest: Manifest, shelf: Shelf) -> bytes:
    """The hash of the catalogue that lists are made from: of the two that was signed later.

    A server signs a shelf with every manifest. One that is older than the manifest was kept back.
    """
    return manifest.catalogue if manifest.opens > shelf.published else shelf.catalogue


def _intact(held: Held, sha256: bytes) -> bytes | None:
    """One that the disk has damaged is as good as none."""
    content = held(sha256)
    return content if content is not None and _hash(content) == sha256 else None


def _hash(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _catalogue(content: bytes, sha256: bytes) -> Catalogue:
    _check_hash(content, sha256, "catalogue")
    return Catalogue.decode(content)


def _check_hash(content: bytes, sha256: bytes, what: str) -> None:
    if _hash(content) != sha256:
        raise UntrustedError(f"the {what} file is not the one that the server signed")

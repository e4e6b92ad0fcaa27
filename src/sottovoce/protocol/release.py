"""Fetching and verifying what a server publishes.

All readers get the same bytes, and the hash of the manifest is bound into every sealed report. So a
server cannot give one person another manifest, model or key without being noticed.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bounds import check_shape
from sottovoce.errors import ConflictError, ProtocolError, SettingsError, UntrustedError
from sottovoce.protocol.catalogue import Catalogue, move_rows
from sottovoce.protocol.contact import DAY_SECONDS
from sottovoce.protocol.manifest import Manifest, SignedManifest, format_manifest_hash
from sottovoce.protocol.model import decode_items, model_size
from sottovoce.protocol.sealing import check_public_key
from sottovoce.protocol.shelf import Shelf, SignedShelf

# The model and catalogue files of an epoch, by their SHA-256.
Files = dict[bytes, bytes]
# The newest manifest that a reader has accepted: its epoch and hash. Of a shelf: its time and hash.
Newest = tuple[int, bytes]
# Returns the stored file with this SHA-256, or None if it must be fetched.
FileLookup = Callable[[bytes], bytes | None]


class PublishedSource(Protocol):
    """Where published files come from: a client's proxy, a proxy's server. It is not trusted.

    Each call raises an `UnavailableError` if a retry may succeed, else a `RefusedError`.
    """

    def manifest(self) -> bytes:
        """Return the signed manifest of the current epoch."""

    def model(self, sha256: bytes, max_bytes: int) -> bytes:
        """Return the model file with this hash; raise a `ProtocolError` if it is too long."""

    def catalogue(self, sha256: bytes) -> bytes:
        """Return the catalogue file with this hash; raise a `ProtocolError` if it is too long."""

    def shelf(self) -> bytes:
        """Return the signed shelf, which names the newest catalogue."""


@dataclass(frozen=True, eq=False)
class Release:
    """What is published for an epoch: the manifest, the item matrix, the catalogue of its rows."""

    signed: SignedManifest
    V: NDArray[np.float32]
    catalogue: Catalogue

    @property
    def manifest(self) -> Manifest:
        return self.signed.manifest

    def rows_of(self, items: list[str]) -> list[int]:
        """Return the rows of those items that are in the catalogue, ascending."""
        return sorted(
            self.catalogue.numbers[item] for item in items if item in self.catalogue.numbers
        )

    def with_catalogue(self, shelf: Catalogue) -> Self | None:
        """Return this model for the items of another catalogue, to make lists from.

        If the terms do not allow the catalogue, only the items of the model count; the result is
        None if none of these is left.
        """
        try:
            check_shelf(self.manifest, shelf)
        except ProtocolError:
            shared = [item for item in shelf.items if item.id in self.catalogue.numbers]
            if not shared:
                return None
            shelf = Catalogue.from_items(shared)
        V = move_rows(self.V, self.catalogue.items, shelf.items)
        return replace(self, V=V, catalogue=shelf)


def fetch_manifest(source: PublishedSource, key: bytes, newest: Newest | None) -> SignedManifest:
    """Fetch the current manifest.

    Raises:
        UntrustedError: Its signature is not valid.
        ConflictError: It is older than the newest one, or another one of the same epoch.
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
            f"{format_manifest_hash(signed.hash)} after {format_manifest_hash(newest[1])}"
        )
    return signed


def fetch_release(
    signed: SignedManifest, source: PublishedSource, lookup: FileLookup
) -> tuple[Release, Files]:
    """Return the release of a verified manifest, and its files; fetch those that are missing."""
    manifest = signed.manifest
    max_bytes = model_size(manifest.items, manifest.terms.factors)
    model = _find_intact(lookup, manifest.model) or source.model(manifest.model, max_bytes)
    catalogue = _find_intact(lookup, manifest.catalogue) or source.catalogue(manifest.catalogue)
    files = {manifest.model: model, manifest.catalogue: catalogue}
    return verify_release(signed, model, catalogue), files


def verify_release(signed: SignedManifest, model: bytes, catalogue: bytes) -> Release:
    """Verify the files of a manifest whose signature and epoch `fetch_manifest` has checked.

    Every reader uses this function, and uses nothing of a release before it returns.

    Raises:
        UntrustedError: A file is not the one that the server signed.
        ProtocolError: The files are malformed or do not fit together.
    """
    manifest = signed.manifest
    if manifest.public_key is not None:
        check_public_key(manifest.public_key)
    _check_hash(model, manifest.model, "model")
    V = decode_items(model, manifest.items, manifest.terms.factors)
    items = _decode_catalogue(catalogue, manifest.catalogue)
    if len(items.items) != manifest.items:
        raise ProtocolError(
            f"the catalogue has {len(items.items)} items, the manifest says {manifest.items}"
        )
    return Release(signed, V, items)


def fetch_shelf(
    manifest: SignedManifest,
    raw: bytes,
    source: PublishedSource,
    lookup: FileLookup,
    newest: Newest | None,
    now: float,
    *,
    any_size: bool = False,
) -> tuple[SignedShelf, Files]:
    """Verify a shelf and fetch its catalogue.

    Args:
        manifest: The verified manifest; its key, or one that this key has named, signs the shelf.
        raw: What `source` returned as its shelf.
        source: Where to fetch the catalogue.
        lookup: Finds stored files.
        newest: Time and hash of the newest shelf that was accepted before.
        now: Unix seconds.
        any_size: Whether the catalogue may exceed the terms, since a later manifest has others.

    Raises:
        UntrustedError: The shelf is not signed, older than the newest one, or a day ahead.
        ProtocolError: The shelf or its catalogue is malformed, or exceeds the terms.
    """
    signed = SignedShelf.open(raw, manifest.key)
    shelf = signed.shelf
    # Signed while a clock was wrong. If it were accepted, no shelf could follow for a long time.
    if shelf.published > now + DAY_SECONDS:
        raise UntrustedError(
            f"shelf of second {shelf.published}, more than a day ahead of this clock: one of the "
            "two is wrong"
        )
    if newest is not None:
        second, newest_hash = newest
        if shelf.published < second:
            raise UntrustedError(
                f"shelf of second {shelf.published} after that of {second}: shelves never go back"
            )
        if shelf.published == second and signed.hash != newest_hash:
            raise UntrustedError(f"two different shelves of second {second}, both signed")
    content = _find_intact(lookup, shelf.catalogue) or source.catalogue(shelf.catalogue)
    catalogue = _decode_catalogue(content, shelf.catalogue)
    if not any_size:
        check_shelf(manifest.manifest, catalogue)
    return signed, {shelf.catalogue: content}


def check_shelf(manifest: Manifest, catalogue: Catalogue) -> None:
    """Raise a `ProtocolError` unless the next epoch could have this catalogue under the terms."""
    items, terms = len(catalogue.items), manifest.terms
    if items > terms.most_items:
        raise ProtocolError(f"shelf: {items} items, but the terms allow {terms.most_items}")
    try:
        check_shape(items, terms.factors)
    except SettingsError as error:
        raise ProtocolError(f"shelf: {error}") from error


def select_listed_catalogue(manifest: Manifest, shelf: Shelf) -> bytes:
    """Return the hash of the catalogue for lists: that of the manifest or the shelf, if newer."""
    # A server signs a shelf with every manifest, so somebody has withheld a newer shelf than one
    # that is older than the manifest.
    return manifest.catalogue if manifest.opens > shelf.published else shelf.catalogue


def _find_intact(lookup: FileLookup, sha256: bytes) -> bytes | None:
    """Return a stored file, or None if there is none or it is damaged."""
    content = lookup(sha256)
    return content if content is not None and _hash(content) == sha256 else None


def _hash(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _decode_catalogue(content: bytes, sha256: bytes) -> Catalogue:
    _check_hash(content, sha256, "catalogue")
    return Catalogue.decode(content)


def _check_hash(content: bytes, sha256: bytes, what: str) -> None:
    if _hash(content) != sha256:
        raise UntrustedError(f"the {what} file is not the one that the server signed")

"""Fetching and verifying the files that a server publishes.

The manifest names all other files by their hashes, and the hash of the manifest is bound into every
sealed report. So a server cannot give one person another manifest, model or key without being
noticed.
"""

import hashlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bounds import check_shape
from sottovoce.errors import ConflictError, ProtocolError, SettingsError, UntrustedError
from sottovoce.protocol.catalogue import MAX_CATALOGUE_BYTES, Catalogue, move_rows
from sottovoce.protocol.contact import DAY_SECONDS
from sottovoce.protocol.manifest import Manifest, SignedManifest, format_manifest_hash
from sottovoce.protocol.model import decode_items, model_size
from sottovoce.protocol.patch import Patch
from sottovoce.protocol.sealing import check_public_key
from sottovoce.protocol.shelf import Shelf, SignedShelf

# The contents of published files, by SHA-256.
Files = dict[bytes, bytes]
# The newest file that a reader has accepted: the epoch and hash of a manifest, or the time (in Unix
# seconds) and hash of a shelf.
Newest = tuple[int, bytes]
# A function that returns the stored file with a given SHA-256, or None if it must be fetched.
FileLookup = Callable[[bytes], bytes | None]


class PublishedSource(Protocol):
    """A source of published files: the proxy for a client, the server for a proxy.

    The source is not trusted: the caller verifies all files. If a call fails, it raises an
    `UnavailableError` if a retry may succeed, otherwise a `RefusedError`.
    """

    def manifest(self) -> bytes:
        """Return the signed manifest of the current epoch."""

    def model(self, sha256: bytes, max_bytes: int) -> bytes:
        """Return the model file with this hash.

        Raises:
            ProtocolError: The file is longer than `max_bytes`.
        """

    def catalogue(self, sha256: bytes) -> bytes:
        """Return the catalogue file with this hash; raise a `ProtocolError` if it is too long."""

    def patch(self, sha256: bytes) -> bytes:
        """Return the patch with this hash; raise a `ProtocolError` if it is too long."""

    def shelf(self) -> bytes:
        """Return the signed shelf, which names the newest catalogue."""


@dataclass(frozen=True, eq=False)
class Release:
    """The verified files of an epoch."""

    signed: SignedManifest
    V: NDArray[np.float32]
    """The item matrix, with one row for each item of the catalogue."""
    catalogue: Catalogue

    @property
    def manifest(self) -> Manifest:
        return self.signed.manifest

    def rows_of(self, items: list[str]) -> list[int]:
        """Return the rows of items, in ascending order; items not in the catalogue are ignored.

        Args:
            items: The ids of the items.
        """
        return sorted(
            self.catalogue.numbers[item] for item in items if item in self.catalogue.numbers
        )

    def with_catalogue(self, shelf: Catalogue) -> Self | None:
        """Return a release with this model for the items of another catalogue, for recommending.

        If that catalogue has more items than the terms allow, only the items in both catalogues are
        used.

        Args:
            shelf: The other catalogue.

        Returns:
            The release, or None if no item could be used.
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
    """Fetch the current manifest and verify its signature and epoch.

    Args:
        source: Where to fetch the manifest.
        key: The verification key that the reader trusts.
        newest: Epoch and hash of the newest manifest that the reader has accepted, if any.

    Raises:
        UntrustedError: The signature is not valid.
        ConflictError: The manifest is older than `newest`, or has the same epoch but differs.
    """
    signed = SignedManifest.open(source.manifest(), key)
    epoch = signed.manifest.epoch
    if newest is None:
        return signed
    if epoch < newest[0]:
        raise ConflictError(
            f"the manifest is of epoch {epoch}, but one of epoch {newest[0]} was accepted before: "
            "epochs never go back"
        )
    if epoch == newest[0] and signed.hash != newest[1]:
        raise ConflictError(
            f"the server has signed two different manifests of epoch {epoch}: "
            f"{format_manifest_hash(newest[1])} first, {format_manifest_hash(signed.hash)} now"
        )
    return signed


def fetch_release(
    signed: SignedManifest,
    source: PublishedSource,
    lookup: FileLookup,
    *,
    use_patches: bool = False,
) -> tuple[Release, Files]:
    """Return the release of a verified manifest, and its files.

    Args:
        signed: The verified manifest.
        source: Where to fetch files that are not stored.
        lookup: Finds stored files.
        use_patches: Whether to make new files from stored ones where the manifest names a patch.
            Only for a reader with files of an earlier release: others would fetch it for nothing.
    """
    manifest = signed.manifest
    fetcher = _FileFetcher(source, lookup, use_patches)
    model = fetcher.fetch_model(manifest)
    catalogue = fetcher.fetch_catalogue(manifest.catalogue, manifest.catalogue_patch)
    files = {manifest.model: model, manifest.catalogue: catalogue}
    return verify_release(signed, model, catalogue), files


def fetch_patches(source: PublishedSource, lookup: FileLookup, hashes: Iterable[bytes]) -> Files:
    """Return patches, for a proxy that serves them.

    Args:
        source: Where to fetch patches that are not stored.
        lookup: Finds stored files.
        hashes: SHA-256 of each patch.

    Raises:
        UntrustedError: The hash of a patch is not the one that was signed.
    """
    return {sha256: _fetch_patch(source, lookup, sha256) for sha256 in hashes}


def verify_release(signed: SignedManifest, model: bytes, catalogue: bytes) -> Release:
    """Verify the files of a manifest, and return the release.

    `fetch_manifest` has already checked the signature and the epoch of the manifest. Every reader
    calls this function before it uses a file.

    Args:
        signed: The verified manifest.
        model: The bytes of the model file.
        catalogue: The bytes of the catalogue file.

    Raises:
        UntrustedError: The hash of a file is not the one in the manifest.
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
    use_patches: bool = False,
) -> tuple[SignedShelf, Files]:
    """Verify a shelf and fetch its catalogue.

    Args:
        manifest: The verified manifest. The shelf must be signed by its key, or by a key that this
            key has named as its successor.
        raw: The bytes of the signed shelf.
        source: Where to fetch the catalogue if it is not stored.
        lookup: Finds stored files.
        newest: Time and hash of the newest shelf that the reader has accepted, if any.
        now: The time of day, in Unix seconds.
        any_size: Whether the catalogue may have more items than the manifest's terms allow. The
            shelf may belong to a later manifest, whose terms the owner has not accepted.
        use_patches: As for `fetch_release`.

    Raises:
        UntrustedError: The signature is not valid, the shelf is older than `newest`, or its time is
            more than a day ahead.
        ProtocolError: The shelf or its catalogue is malformed, or has too many items.
    """
    signed = SignedShelf.open(raw, manifest.key)
    shelf = signed.shelf
    # A shelf from the future was signed while a clock was wrong. If it were accepted, all later
    # shelves would be refused until its time has come.
    if shelf.published > now + DAY_SECONDS:
        raise UntrustedError(
            f"the shelf was signed at Unix second {shelf.published}, more than a day ahead of this "
            "clock: either this clock or the server's is wrong"
        )
    if newest is not None:
        second, newest_hash = newest
        if shelf.published < second:
            raise UntrustedError(
                f"the shelf was signed at Unix second {shelf.published}, but one of second "
                f"{second} was accepted before: shelves never go back"
            )
        if shelf.published == second and signed.hash != newest_hash:
            raise UntrustedError(f"the server has signed two different shelves at second {second}")
    fetcher = _FileFetcher(source, lookup, use_patches)
    content = fetcher.fetch_catalogue(shelf.catalogue, shelf.patch)
    catalogue = _decode_catalogue(content, shelf.catalogue)
    if not any_size:
        check_shelf(manifest.manifest, catalogue)
    return signed, {shelf.catalogue: content}


def check_shelf(manifest: Manifest, catalogue: Catalogue) -> None:
    """Raise a `ProtocolError` if the catalogue is larger than terms and protocol allow."""
    items, terms = len(catalogue.items), manifest.terms
    if items > terms.max_items:
        raise ProtocolError(
            f"shelf: its catalogue has {items} items, but the terms allow {terms.max_items}"
        )
    try:
        check_shape(items, terms.factors)
    except SettingsError as error:
        raise ProtocolError(f"shelf: {error}") from error


def select_listed_catalogue(manifest: Manifest, shelf: Shelf) -> bytes:
    """Return the hash of the newest catalogue, which recommendations are made from.

    This is the catalogue of the shelf, unless the shelf is older than the manifest.
    """
    # A server signs a shelf with every manifest. So if the shelf is older than the manifest, a
    # newer shelf was withheld.
    return manifest.catalogue if manifest.opens > shelf.published else shelf.catalogue


@dataclass(frozen=True)
class _FileFetcher:
    """Fetches files that are not stored: as patches where possible, otherwise whole."""

    source: PublishedSource
    lookup: FileLookup
    use_patches: bool

    def fetch_model(self, manifest: Manifest) -> bytes:
        """Return the model file of a manifest."""
        sha256, size = manifest.model, model_size(manifest.items, manifest.terms.factors)
        content = self._find(sha256, manifest.model_patch, size)
        return self.source.model(sha256, size) if content is None else content

    def fetch_catalogue(self, sha256: bytes, patch: bytes | None) -> bytes:
        """Return a catalogue file."""
        content = self._find(sha256, patch, MAX_CATALOGUE_BYTES)
        return self.source.catalogue(sha256) if content is None else content

    def _find(self, sha256: bytes, patch: bytes | None, max_bytes: int) -> bytes | None:
        """Return a file without fetching the whole of it, or None."""
        content = _find_intact(self.lookup, sha256)
        if content is not None or patch is None or not self.use_patches:
            return content
        # What is asked for depends only on which published files were fetched before and when,
        # never on a history. All devices that have an earlier file ask for the same patch. So a
        # proxy learns only whether the stored file is one of the bases, which the server signed.
        raw = _fetch_patch(self.source, self.lookup, patch)
        # The hash of the result decides. A patch that does not give it gains nothing: the whole
        # file is fetched, as without a patch.
        with suppress(ProtocolError):
            decoded = Patch.decode(raw)
            bases = (_find_intact(self.lookup, base) for base in decoded.slices)
            for base in bases:
                if base is not None:
                    content = decoded.apply(base, max_bytes)
                    return content if _hash(content) == sha256 else None
        return None


def _fetch_patch(source: PublishedSource, lookup: FileLookup, sha256: bytes) -> bytes:
    patch = _find_intact(lookup, sha256) or source.patch(sha256)
    _check_hash(patch, sha256, "patch")
    return patch


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

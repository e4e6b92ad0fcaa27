"""The mirror: clients ask the proxy alone, so it holds the server's manifests and files for them.

Nothing is shown to a client before all of it was checked: signed by the key that the operator
pinned, a later epoch than any before, model and catalogue as the manifest names them. For one epoch
there is one manifest: a second one, however well signed, is refused, because whoever could choose
between two could tell their clients apart.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.errors import UntrustedError
from sottovoce.protocol import Catalogue, SignedManifest, decode_items, model_size

if TYPE_CHECKING:
    from sottovoce.protocol import Manifest
    from sottovoce.proxy.store import ProxyStore
    from sottovoce.proxy.upstream import Upstream


@dataclass(frozen=True)
class Mirrored:
    """One epoch, complete."""

    signed: SignedManifest
    model: bytes
    catalogue: bytes


class Mirror:
    """What clients see, and how it is renewed."""

    def __init__(self, store: ProxyStore, upstream: Upstream, key: bytes, *, keep_models: int):
        self._store = store
        self._upstream = upstream
        self._key = key
        self._keep_models = keep_models
        self.current = self._load()
        """The latest epoch; None before the first."""

    def newer(self) -> Mirrored | None:
        """Ask the server: a complete later epoch, or None; an untrue one is a `ProtocolError`."""
        signed = SignedManifest.open(self._upstream.manifest(), self._key)
        if self.current is not None:
            known = self.current.signed
            if signed.hash == known.hash:
                return None
            if signed.manifest.epoch == known.manifest.epoch:
                raise UntrustedError(
                    f"the server gave a second manifest for epoch {known.manifest.epoch}: "
                    f"{signed.hash.hex()} after {known.hash.hex()}; the first one holds"
                )
            if signed.manifest.epoch < known.manifest.epoch:
                raise UntrustedError(
                    f"the server went back from epoch {known.manifest.epoch} to "
                    f"{signed.manifest.epoch}; the later one holds"
                )
        return Mirrored(signed, self._model(signed.manifest), self._catalogue(signed.manifest))

    def publish(self, mirrored: Mirrored) -> None:
        """Show it to clients from now on; drop files that only old epochs need."""
        manifest = mirrored.signed.manifest
        with self._store.write() as tables:
            tables.add_manifest(mirrored.signed)
            tables.add_file(manifest.model, mirrored.model)
            tables.add_file(manifest.catalogue, mirrored.catalogue)
            tables.prune_files(self._keep_models)
        self.current = mirrored

    def manifest_of(self, epoch: int) -> bytes | None:
        """The signed manifest of an epoch that was mirrored."""
        with self._store.read() as tables:
            return tables.manifest_of(epoch)

    def model(self, sha256: bytes) -> bytes | None:
        """A model file that is still kept."""
        if self.current is not None and sha256 == self.current.signed.manifest.model:
            return self.current.model
        with self._store.read() as tables:
            return tables.model(sha256)

    def catalogue(self, sha256: bytes) -> bytes | None:
        """A catalogue file that is still kept."""
        if self.current is not None and sha256 == self.current.signed.manifest.catalogue:
            return self.current.catalogue
        with self._store.read() as tables:
            return tables.catalogue(sha256)

    def _load(self) -> Mirrored | None:
        with self._store.read() as tables:
            raw = tables.latest_manifest()
            if raw is None:
                return None
            signed = SignedManifest.open(raw, self._key)
            model = tables.model(signed.manifest.model)
            catalogue = tables.catalogue(signed.manifest.catalogue)
        assert model is not None, "the latest manifest's files are never pruned"
        assert catalogue is not None, "the latest manifest's files are never pruned"
        return Mirrored(signed, model, catalogue)

    def _model(self, manifest: Manifest) -> bytes:
        most = model_size(manifest.items, manifest.factors)
        data = self.model(manifest.model) or self._upstream.model(manifest.model, most)
        _check_hash(data, manifest.model, "model")
        decode_items(data, manifest.items, manifest.factors)
        return data

    def _catalogue(self, manifest: Manifest) -> bytes:
        raw = self.catalogue(manifest.catalogue) or self._upstream.catalogue(manifest.catalogue)
        _check_hash(raw, manifest.catalogue, "catalogue")
        found = len(Catalogue.decode(raw).items)
        if found != manifest.items:
            raise UntrustedError(f"a catalogue of {found} items for a manifest of {manifest.items}")
        return raw


def _check_hash(data: bytes, sha256: bytes, what: str) -> None:
    if hashlib.sha256(data).digest() != sha256:
        raise UntrustedError(f"the {what} file is not the one that the manifest names")

"""The mirror: clients ask the proxy alone, so it holds the server's manifests and files for them.

Nothing is shown to a client before all of it was verified (see `sottovoce.protocol.published`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.errors import SettingsError, UntrustedError
from sottovoce.protocol import SignedManifest, fetch_edition, fetch_manifest

if TYPE_CHECKING:
    from sottovoce.protocol import Files, PublishedSource
    from sottovoce.proxy.store import ProxyStore


@dataclass(frozen=True)
class MirroredEpoch:
    """One verified epoch as bytes: replaced as a whole, so requests never see half of a change."""

    signed: SignedManifest
    files: Files


class Mirror:
    def __init__(self, store: ProxyStore, server: PublishedSource, key: bytes, *, keep_models: int):
        self._store = store
        self._server = server
        self._key = key
        self._keep_models = keep_models
        self.current = self._load()
        """The latest epoch; None before the first."""

    def newer(self) -> MirroredEpoch | None:
        """Ask the server: a complete later epoch, or None; `ProtocolError` if it does not hold."""
        known = None if self.current is None else self.current.signed
        newest = None if known is None else (known.manifest.epoch, known.hash)
        # The key that signed the last one: nobody leads back to one that it has replaced.
        signed = fetch_manifest(self._server, self._key if known is None else known.key, newest)
        if known is not None and signed.hash == known.hash:
            return None
        _, files = fetch_edition(signed, self._server, self._held)
        return MirroredEpoch(signed, files)

    def publish(self, epoch: MirroredEpoch) -> None:
        """Show it to clients from now on; drop files that only old epochs need."""
        with self._store.write() as tables:
            tables.add_manifest(epoch.signed)
            for sha256, content in epoch.files.items():
                tables.add_file(sha256, content)
            tables.prune_files(self._keep_models)
        self.current = epoch

    def manifest_of(self, epoch: int) -> bytes | None:
        """The signed manifest of an epoch that was mirrored."""
        with self._store.read() as tables:
            return tables.manifest_of(epoch)

    def model(self, sha256: bytes) -> bytes | None:
        """A model file that is still kept."""
        current = self.current
        if current is not None and sha256 == current.signed.manifest.model:
            return current.files[sha256]
        with self._store.read() as tables:
            return tables.model(sha256)

    def catalogue(self, sha256: bytes) -> bytes | None:
        """A catalogue file that is still kept."""
        current = self.current
        if current is not None and sha256 == current.signed.manifest.catalogue:
            return current.files[sha256]
        with self._store.read() as tables:
            return tables.catalogue(sha256)

    def _held(self, sha256: bytes) -> bytes | None:
        return self.model(sha256) or self.catalogue(sha256)

    def _load(self) -> MirroredEpoch | None:
        with self._store.read() as tables:
            raw = tables.latest_manifest()
            if raw is None:
                return None
            signed = self._opened(raw)
            manifest = signed.manifest
            model, catalogue = tables.model(manifest.model), tables.catalogue(manifest.catalogue)
        assert model is not None, "the latest manifest's files are never pruned"
        assert catalogue is not None, "the latest manifest's files are never pruned"
        return MirroredEpoch(signed, {manifest.model: model, manifest.catalogue: catalogue})

    def _opened(self, raw: bytes) -> SignedManifest:
        try:
            return SignedManifest.open(raw, self._key)
        except UntrustedError as error:
            raise SettingsError(
                "verification_key does not lead to the key that signed the manifest in this "
                "proxy's folder: leave the server's first key there, also when it was replaced"
            ) from error

"""The server's manifests, models and catalogues, which the proxy serves to its clients.

The proxy shows an epoch to clients only after it has verified the manifest and all files
(`sottovoce.protocol.release`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from sottovoce.errors import RefusedError, SettingsError, UnavailableError, UntrustedError
from sottovoce.protocol import (
    Files,
    PublishedSource,
    SignedManifest,
    SignedShelf,
    fetch_manifest,
    fetch_release,
    fetch_shelf,
)
from sottovoce.protocol.contact import DAY_SECONDS
from sottovoce.proxy.settings import ProxySettings
from sottovoce.proxy.store import FileKind, ProxyStore
from sottovoce.service.files import compress


def open_stored_manifest(raw: bytes, key: bytes) -> SignedManifest:
    """Verify a manifest from the proxy's folder with the verification key of the settings.

    Raises:
        SettingsError: The key has changed since the manifest was accepted.
    """
    try:
        return SignedManifest.open(raw, key)
    except UntrustedError as error:
        raise SettingsError(
            "verification_key does not lead to the key that signed the manifest in this "
            "proxy's folder: leave the server's first key there, also when it was replaced"
        ) from error


@dataclass(frozen=True)
class MirroredEpoch:
    """The verified files of an epoch, replaced as a whole so that no request sees a mixture."""

    signed: SignedManifest
    files: Files
    compressed_catalogue: bytes
    """The catalogue in gzip. A model is not compressed, since that would hardly make it smaller."""

    @classmethod
    def from_files(cls, signed: SignedManifest, files: Files) -> Self:
        return cls(signed, files, compress(files[signed.manifest.catalogue]))


@dataclass(frozen=True)
class MirroredShelf:
    """The verified shelf and its catalogue."""

    signed: SignedShelf
    catalogue: bytes
    compressed_catalogue: bytes

    @classmethod
    def from_catalogue(cls, signed: SignedShelf, catalogue: bytes) -> Self:
        return cls(signed, catalogue, compress(catalogue))


class Mirror:
    """Fetches what the server publishes, and keeps it for clients.

    Args:
        store: The store of the proxy.
        server: The source of manifests, models, catalogues and shelves.
        settings: The settings of the proxy.
        clock: Returns Unix seconds.
    """

    def __init__(
        self,
        store: ProxyStore,
        server: PublishedSource,
        settings: ProxySettings,
        clock: Callable[[], float],
    ):
        self._store = store
        self._server = server
        self._key = settings.key
        self._keep_models = settings.keep_models
        self._clock = clock
        self.current = self._load_epoch()
        """The newest epoch; None before the first one is published."""
        self.shelf = self._load_shelf()

    def fetch_newer(self) -> MirroredEpoch | None:
        """Fetch and verify the next epoch, or return None if the server has no newer one.

        Raises:
            ProtocolError: The manifest or one of its files is not valid.
        """
        current = None if self.current is None else self.current.signed
        newest = None if current is None else (current.manifest.epoch, current.hash)
        # Trust the key that signed the last manifest. A key that it has replaced is not valid now.
        signed = fetch_manifest(self._server, self._key if current is None else current.key, newest)
        if current is not None and signed.hash == current.hash:
            return None
        if signed.manifest.opens > self._clock() + DAY_SECONDS:
            raise UntrustedError(
                f"manifest: opens at second {signed.manifest.opens}, more than a day ahead of this "
                "proxy's clock: one of the two is wrong"
            )
        try:
            _, files = fetch_release(signed, self._server, self._find_file)
        except UnavailableError as error:
            # The server has ended the previous epoch, so nothing sent for it counts any more.
            epoch = signed.manifest.epoch
            raise RefusedError(f"epoch {epoch} has begun without this proxy: {error}") from error
        return MirroredEpoch.from_files(signed, files)

    def publish(self, epoch: MirroredEpoch) -> None:
        """Show an epoch to clients from now on, and delete files that only old epochs used."""
        with self._store.write() as tables:
            tables.add_manifest(epoch.signed)
            for sha256, content in epoch.files.items():
                tables.add_file(sha256, content)
            tables.prune_files(self._keep_models)
        self.current = epoch

    def fetch_newer_shelf(self) -> MirroredShelf | None:
        """Fetch and verify the next shelf with its catalogue, or return None if it is not newer.

        Raises:
            ProtocolError: The shelf or its catalogue is not valid.
        """
        if self.current is None:
            return None
        stored = None if self.shelf is None else self.shelf.signed
        newest = None
        # A stored shelf that is dated in the future was accepted while our clock was wrong: then
        # accept an older one too.
        if stored is not None and stored.shelf.published <= self._clock() + DAY_SECONDS:
            newest = stored.shelf.published, stored.hash
        raw = self._server.shelf()
        # The shelf rarely changes: do not read and decode its catalogue again.
        if stored is not None and raw == stored.encode():
            return None
        signed, files = fetch_shelf(
            self.current.signed, raw, self._server, self._find_file, newest, self._clock()
        )
        return MirroredShelf.from_catalogue(signed, files[signed.shelf.catalogue])

    def publish_shelf(self, shelf: MirroredShelf) -> None:
        """Show a shelf to clients from now on."""
        with self._store.write() as tables:
            tables.add_shelf(shelf.signed)
            tables.add_file(shelf.signed.shelf.catalogue, shelf.catalogue)
            tables.prune_files(self._keep_models)
        self.shelf = shelf

    def read_manifest(self, epoch: int) -> bytes | None:
        with self._store.read() as tables:
            return tables.get_manifest(epoch)

    def read_model(self, sha256: bytes) -> bytes | None:
        return self._read_file("model", sha256)

    def read_catalogue(self, sha256: bytes) -> bytes | None:
        return self._read_file("catalogue", sha256)

    def get_compressed_catalogue(self, sha256: bytes) -> bytes | None:
        """Return a catalogue in gzip, or None unless the current epoch or the shelf has it."""
        current, shelf = self.current, self.shelf
        # Compressing a large catalogue takes seconds, so it is done only when it is published.
        if shelf is not None and sha256 == shelf.signed.shelf.catalogue:
            return shelf.compressed_catalogue
        if current is not None and sha256 == current.signed.manifest.catalogue:
            return current.compressed_catalogue
        return None

    def _read_file(self, kind: FileKind, sha256: bytes) -> bytes | None:
        current = self.current
        # Nearly all requests are for the current files, which are in memory.
        if current is not None and sha256 == getattr(current.signed.manifest, kind):
            return current.files[sha256]
        with self._store.read() as tables:
            return tables.get_file(kind, sha256)

    def _find_file(self, sha256: bytes) -> bytes | None:
        # A catalogue rarely changes, so most epochs fetch only a model.
        return self.read_model(sha256) or self.read_catalogue(sha256)

    def _load_epoch(self) -> MirroredEpoch | None:
        with self._store.read() as tables:
            raw = tables.get_latest_manifest()
            if raw is None:
                return None
            signed = open_stored_manifest(raw, self._key)
            manifest = signed.manifest
            model = tables.get_file("model", manifest.model)
            catalogue = tables.get_file("catalogue", manifest.catalogue)
        assert model is not None, "the latest manifest's files are never pruned"
        assert catalogue is not None
        files = {manifest.model: model, manifest.catalogue: catalogue}
        return MirroredEpoch.from_files(signed, files)

    def _load_shelf(self) -> MirroredShelf | None:
        with self._store.read() as tables:
            raw = tables.get_latest_shelf()
            if raw is None:
                return None
            signed = SignedShelf.open(raw, self._key)
            catalogue = tables.get_file("catalogue", signed.shelf.catalogue)
        assert catalogue is not None, "a shelf's catalogue is never pruned"
        return MirroredShelf.from_catalogue(signed, catalogue)

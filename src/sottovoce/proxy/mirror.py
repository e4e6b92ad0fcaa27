"""The server's manifests, models, catalogues and patches, which the proxy serves to its clients.

The proxy shows an epoch to clients only after it has verified the manifest and all files
(`sottovoce.protocol.release`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self, get_args

from sottovoce.errors import RefusedError, SettingsError, UnavailableError, UntrustedError
from sottovoce.protocol import (
    Files,
    PublishedSource,
    SignedManifest,
    SignedShelf,
    fetch_manifest,
    fetch_patches,
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
    compressed: Files
    """All files except the model in gzip, which would hardly make a model smaller."""

    @classmethod
    def from_files(cls, signed: SignedManifest, files: Files) -> Self:
        return cls(signed, files, _compress_all(files, signed.manifest.model))


@dataclass(frozen=True)
class MirroredShelf:
    """The verified shelf with its catalogue and patch."""

    signed: SignedShelf
    files: Files
    compressed: Files

    @classmethod
    def from_files(cls, signed: SignedShelf, files: Files) -> Self:
        return cls(signed, files, _compress_all(files))


def _compress_all(files: Files, plain: bytes = b"") -> Files:
    """Compress all files except the one with the hash `plain`."""
    return {sha256: compress(content) for sha256, content in files.items() if sha256 != plain}


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
            files |= fetch_patches(self._server, self._find_file, signed.manifest.patches)
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
        patches = () if signed.shelf.patch is None else (signed.shelf.patch,)
        files |= fetch_patches(self._server, self._find_file, patches)
        return MirroredShelf.from_files(signed, files)

    def publish_shelf(self, shelf: MirroredShelf) -> None:
        """Show a shelf to clients from now on."""
        with self._store.write() as tables:
            tables.add_shelf(shelf.signed)
            for sha256, content in shelf.files.items():
                tables.add_file(sha256, content)
            tables.prune_files(self._keep_models)
        self.shelf = shelf

    def read_manifest(self, epoch: int) -> bytes | None:
        with self._store.read() as tables:
            return tables.get_manifest(epoch)

    def read_model(self, sha256: bytes) -> bytes | None:
        return self._read_file("model", sha256)

    def read_catalogue(self, sha256: bytes) -> bytes | None:
        return self._read_file("catalogue", sha256)

    def read_patch(self, sha256: bytes) -> bytes | None:
        return self._read_file("patch", sha256)

    def get_compressed(self, sha256: bytes) -> bytes | None:
        """Return a file in gzip, or None unless it is compressed for the current epoch or shelf."""
        # Compressing a large catalogue takes seconds, so it is done only when it is published.
        mirrored = (self.shelf, self.current)
        contents = (None if one is None else one.compressed.get(sha256) for one in mirrored)
        return next((content for content in contents if content is not None), None)

    def _read_file(self, kind: FileKind, sha256: bytes) -> bytes | None:
        current = self.current
        # Most requests are for the model of the current epoch, which is in memory.
        if kind == "model" and current is not None and sha256 == current.signed.manifest.model:
            return current.files[sha256]
        with self._store.read() as tables:
            return tables.get_file(kind, sha256)

    def _find_file(self, sha256: bytes) -> bytes | None:
        # A catalogue rarely changes, so most epochs fetch only a model.
        contents = (self._read_file(kind, sha256) for kind in get_args(FileKind))
        return next((content for content in contents if content is not None), None)

    def _load_epoch(self) -> MirroredEpoch | None:
        with self._store.read() as tables:
            raw = tables.get_latest_manifest()
            if raw is None:
                return None
            signed = open_stored_manifest(raw, self._key)
            manifest = signed.manifest
            files = {
                manifest.model: tables.get_file("model", manifest.model),
                manifest.catalogue: tables.get_file("catalogue", manifest.catalogue),
                **{sha256: tables.get_file("patch", sha256) for sha256 in manifest.patches},
            }
        return MirroredEpoch.from_files(signed, _check_complete(files))

    def _load_shelf(self) -> MirroredShelf | None:
        with self._store.read() as tables:
            raw = tables.get_latest_shelf()
            if raw is None:
                return None
            signed = SignedShelf.open(raw, self._key)
            shelf = signed.shelf
            files = {shelf.catalogue: tables.get_file("catalogue", shelf.catalogue)}
            if shelf.patch is not None:
                files[shelf.patch] = tables.get_file("patch", shelf.patch)
        return MirroredShelf.from_files(signed, _check_complete(files))


def _check_complete(files: Mapping[bytes, bytes | None]) -> Files:
    """Return the files; the store never prunes those of the latest manifest and shelf."""
    assert None not in files.values()
    return {sha256: content for sha256, content in files.items() if content is not None}

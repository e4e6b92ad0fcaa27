"""Forwarding: every chunk, then the commit, again and again until the server confirms.

Nothing here can count twice: a chunk is named by its bytes, which are fixed once it is stored, and
the server counts a name once.
"""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from socket import SHUT_RDWR, socket
from threading import Timer
from typing import Any, Protocol, Self
from urllib.parse import urlsplit

import httpx

from sottovoce.errors import (
    ClosedError,
    LostError,
    ProtocolError,
    RefusedError,
    SettingsError,
    SottovoceError,
    StoreError,
    UnavailableError,
    UnknownProxyError,
    UntrustedError,
    get_reason,
)
from sottovoce.protocol import (
    Chunk,
    Files,
    PublishedSource,
    SignedManifest,
    SignedShelf,
    fetch_manifest,
    fetch_release,
    fetch_shelf,
    routes,
)
from sottovoce.protocol.contact import DAY_SECONDS, MAX_CONTACT_BYTES, Contact, Reply
from sottovoce.protocol.http import HttpSource, Peer, is_loopback_host
from sottovoce.protocol.manifest import MANIFEST_VERSION
from sottovoce.proxy.settings import ProxySettings
from sottovoce.proxy.store import FileKind, Flush, ProxyStore
from sottovoce.service.files import compress
from sottovoce.service.tls import load_certificate
from sottovoce.storage.files import read_secret

log = logging.getLogger("sottovoce")


def hand_in(store: ProxyStore, upstream: Upstream, flush: Flush, present: int) -> int:
    """Hand one epoch over and return how many of its reports are lost.

    A server that is at a later epoch, `present`, takes nothing of this one any more: all that it
    refuses is lost. It may not know the epoch at all, if its database was restored; if the proxy
    asked for ever, it would keep all later epochs here.
    """
    delivered = flush.delivered
    try:
        for position in range(flush.delivered, flush.chunks):
            sealed = store.read_chunk(flush, position)
            upstream.put_chunk(Chunk(flush.epoch, flush.manifest_hash, sealed))
            delivered = position + 1
            _remember_delivered(store, flush, delivered)
        _confirm(store, upstream, flush)
    except RefusedError as error:
        if flush.epoch >= present and not isinstance(error, ClosedError):
            raise
        # A server counts every chunk that has arrived, unless there are dummies: then it counts
        # nothing of a proxy that has not confirmed that this was all.
        n_counted = 0 if flush.dummies else flush.count_reports(delivered)
        return _report_lost(flush, flush.reports - n_counted, error)
    except LostError as error:
        return _report_lost(flush, flush.reports, error)
    return 0


def _report_lost(flush: Flush, n_reports: int, error: SottovoceError) -> int:
    if n_reports:
        log.error("epoch %d: %d reports are lost: %s", flush.epoch, n_reports, error)
    return n_reports


def _remember_delivered(store: ProxyStore, flush: Flush, delivered: int) -> None:
    """Store how many chunks have arrived, if the disk can be written.

    It saves repetition, nothing else: the server knows chunks that come again.
    """
    with suppress(StoreError), store.write() as tables:
        tables.set_delivered(flush.epoch, delivered)


def _confirm(store: ProxyStore, upstream: Upstream, flush: Flush) -> None:
    """Tell the server that this was all. If it has less, all is sent again at the next beat."""
    try:
        upstream.commit(flush.epoch, flush.manifest_hash, flush.chunks, flush.reports)
    except ClosedError:
        raise
    except RefusedError:
        _remember_delivered(store, flush, 0)
        raise


# The seam to the server: seven calls, over HTTP or in memory for a test.

IS_IT_ONE = f". Is it a sottovoce server of protocol {MANIFEST_VERSION}?"
LONGEST = 60.0
"""Seconds of a whole exchange, besides those for its bytes."""
# Bytes of a secret file.
MAX_SECRET_BYTES = 4096
SLOWEST = 2**16
"""Bytes a second that a line must have."""


class Upstream(PublishedSource, Protocol):
    """The server, as the proxy knows it.

    Every call raises `UnavailableError` (the same may work later), `ClosedError` (the epoch was
    applied without us), `RefusedError` (understood, and no) or `ProtocolError` (malformed answer).
    """

    def contact(self, contact: Contact) -> Reply:
        """Tell where we are; learn how the epoch stands, and the server's time.

        `UnknownProxyError` if it does not know our secret, `RefusedError` if it could never count
        this epoch.
        """

    def put_chunk(self, chunk: Chunk) -> None:
        """Hand a chunk over; the same chunk again changes nothing."""

    def commit(self, epoch: int, manifest_hash: bytes, chunks: int, reports: int) -> None:
        """Say that this was all; returns when the server has exactly that."""


SERVER = Peer(
    "the server",
    trust_hint="tls.authority names who signed its certificate, tls.certificate is our own",
    retry_hint="a running proxy asks again within a minute",
    tls_hint=": does it want a certificate of an authority that it knows (tls.certificate)?",
    status_hints={
        401: ": it does not know this proxy's secret; put the right one into the file of "
        "`secret_file`, and restart this proxy",
        404: IS_IT_ONE,
        503: ", for it cannot do its work now; `sottovoce server status` tells its operator why",
    },
    refusals={401: UnknownProxyError},
    quotes_reasons=True,
)


class HttpUpstream(HttpSource):
    """`Upstream` over HTTP. The secret goes to one address, and only where it is needed."""

    def __init__(self, http: httpx.Client, url: str, secret: str):
        super().__init__(http, url, SERVER, trace=self._connected)
        self._secret = {"Authorization": f"Bearer {secret}"}
        self._socket: socket | None = None
        self._is_late = False

    def contact(self, contact: Contact) -> Reply:
        return Reply.decode(self._tell("POST", routes.CONTACT, contact.encode()))

    def put_chunk(self, chunk: Chunk) -> None:
        path = routes.CHUNK.format(epoch=chunk.epoch, sha256=chunk.name)
        self._tell("PUT", path, chunk.encode())

    def commit(self, epoch: int, manifest_hash: bytes, chunks: int, reports: int) -> None:
        told = {"manifest": manifest_hash.hex(), "chunks": chunks, "reports": reports}
        self._tell("POST", routes.COMMIT.format(epoch=epoch), json.dumps(told).encode())

    def _tell(self, method: str, path: str, content: bytes) -> bytes:
        return self._exchange(
            method, path, max_bytes=MAX_CONTACT_BYTES, content=content, headers=self._secret
        )

    def _exchange(self, method: str, path: str, *, max_bytes: int, **given: Any) -> bytes:
        """In a time that its size bears: a byte now and then would hold a beat for ever."""
        size = max_bytes + len(given.get("content", b""))
        cut = Timer(LONGEST + size / SLOWEST, self._cut)
        cut.daemon, self._is_late = True, False
        cut.start()
        try:
            return super()._exchange(method, path, max_bytes=max_bytes, **given)
        except (UnavailableError, ProtocolError) as error:
            if self._is_late:
                took = f"the server has not answered within {cut.interval:.0f} s"
                raise UnavailableError(f"{self._url}{path}: {took}; {SERVER.retry_hint}") from error
            raise
        finally:
            cut.cancel()

    def _connected(self, event: str, told: Mapping[str, Any]) -> None:
        """Hear which connection is used from now on."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._socket = told["return_value"].get_extra_info("socket")
            if self._is_late:
                self._cut()

    def _cut(self) -> None:
        self._is_late = True
        if self._socket is not None:
            with suppress(OSError):
                socket.shutdown(self._socket, SHUT_RDWR)


def connect(settings: ProxySettings) -> tuple[httpx.Client, HttpUpstream]:
    """The server of the settings; whoever asks closes the client."""
    address = urlsplit(settings.server)
    if address.scheme == "http" and not is_loopback_host(address.hostname or ""):
        log.warning("%s is not encrypted: whoever listens learns the secret", settings.server)
    tls = settings.tls
    try:
        content = read_secret(settings.secret_file, MAX_SECRET_BYTES)
        secret = content.decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"{settings.secret_file}: no secret can be read: {get_reason(error)}"
        ) from error
    try:
        context = ssl.create_default_context(cafile=tls.authority)
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{tls.authority}: no certificate of an authority: {get_reason(error)}"
        ) from error
    if tls.certificate is not None:
        load_certificate(context, tls.certificate, tls.private_key)
    if not secret or not secret.isprintable():
        raise SettingsError(f"{settings.secret_file}: must hold one line of text, the secret")
    http = httpx.Client(verify=context, timeout=30.0, trust_env=False)
    return http, HttpUpstream(http, settings.server, secret)


def own_manifest(raw: bytes, key: bytes) -> SignedManifest:
    """What was taken when it was received: if it is not believed now, the setting has changed."""
    try:
        return SignedManifest.open(raw, key)
    except UntrustedError as error:
        raise SettingsError(
            "verification_key does not lead to the key that signed the manifest in this "
            "proxy's folder: leave the server's first key there, also when it was replaced"
        ) from error


# The mirror: clients ask the proxy alone, so it holds the server's manifests and files for them.
#
# Nothing is shown to a client before all of it was verified (see `sottovoce.protocol.manifest`).


@dataclass(frozen=True)
class MirroredEpoch:
    """One verified epoch as bytes: replaced as a whole, so requests never see half of a change."""

    signed: SignedManifest
    files: Files
    compressed: bytes
    """The catalogue once more: names compress well, the numbers of a model do not."""

    @classmethod
    def of(cls, signed: SignedManifest, files: Files) -> Self:
        return cls(signed, files, compress(files[signed.manifest.catalogue]))


@dataclass(frozen=True)
class MirroredShelf:
    """The shelf, verified, with its catalogue."""

    signed: SignedShelf
    catalogue: bytes
    compressed: bytes

    @classmethod
    def of(cls, signed: SignedShelf, catalogue: bytes) -> Self:
        return cls(signed, catalogue, compress(catalogue))


class Mirror:
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
        self.current = self._load()
        """The latest epoch; None before the first."""
        self.shelf = self._load_shelf()

    def newer(self) -> MirroredEpoch | None:
        """Ask the server: a complete later epoch, or None; `ProtocolError` if it does not hold."""
        known = None if self.current is None else self.current.signed
        newest = None if known is None else (known.manifest.epoch, known.hash)
        # The key that signed the last one: nobody leads back to one that it has replaced.
        signed = fetch_manifest(self._server, self._key if known is None else known.key, newest)
        if known is not None and signed.hash == known.hash:
            return None
        if signed.manifest.opens > self._clock() + DAY_SECONDS:
            raise UntrustedError(
                f"manifest: opens at second {signed.manifest.opens}, more than a day ahead of this "
                "proxy's clock: one of the two is wrong"
            )
        try:
            _, files = fetch_release(signed, self._server, self._held)
        except UnavailableError as error:  # the one before is over, whatever else
            epoch = signed.manifest.epoch
            raise RefusedError(f"epoch {epoch} has begun without this proxy: {error}") from error
        return MirroredEpoch.of(signed, files)

    def publish(self, epoch: MirroredEpoch) -> None:
        """Show it to clients from now on; drop files that only old epochs need."""
        with self._store.write() as tables:
            tables.add_manifest(epoch.signed)
            for sha256, content in epoch.files.items():
                tables.add_file(sha256, content)
            tables.prune_files(self._keep_models)
        self.current = epoch

    def newer_shelf(self) -> MirroredShelf | None:
        """Ask the server: a later shelf and its catalogue, or None; as `newer`."""
        if self.current is None:
            return None
        known = None if self.shelf is None else self.shelf.signed
        newest = None
        if known is not None and known.shelf.published <= self._clock() + DAY_SECONDS:
            newest = known.shelf.published, known.hash  # else our own clock was wrong then
        raw = self._server.shelf()
        if known is not None and raw == known.encode():
            return None  # at nearly every beat: its catalogue is not read and decoded again
        signed, files = fetch_shelf(
            self.current.signed, raw, self._server, self._held, newest, self._clock()
        )
        return MirroredShelf.of(signed, files[signed.shelf.catalogue])

    def publish_shelf(self, shelf: MirroredShelf) -> None:
        with self._store.write() as tables:
            tables.add_shelf(shelf.signed)
            tables.add_file(shelf.signed.shelf.catalogue, shelf.catalogue)
            tables.prune_files(self._keep_models)
        self.shelf = shelf

    def manifest_of(self, epoch: int) -> bytes | None:
        with self._store.read() as tables:
            return tables.manifest_of(epoch)

    def model(self, sha256: bytes) -> bytes | None:
        return self._file("model", sha256)

    def catalogue(self, sha256: bytes) -> bytes | None:
        return self._file("catalogue", sha256)

    def compressed(self, sha256: bytes) -> bytes | None:
        """The same, of the present epoch or of the shelf."""
        current, shelf = self.current, self.shelf
        if shelf is not None and sha256 == shelf.signed.shelf.catalogue:
            return shelf.compressed
        if current is None or sha256 != current.signed.manifest.catalogue:
            return None
        return current.compressed

    def _file(self, kind: FileKind, sha256: bytes) -> bytes | None:
        current = self.current
        if current is not None and sha256 == getattr(current.signed.manifest, kind):
            return current.files[sha256]
        with self._store.read() as tables:
            return tables.file(kind, sha256)

    def _held(self, sha256: bytes) -> bytes | None:
        return self.model(sha256) or self.catalogue(sha256)

    def _load(self) -> MirroredEpoch | None:
        with self._store.read() as tables:
            raw = tables.latest_manifest()
            if raw is None:
                return None
            signed = own_manifest(raw, self._key)
            manifest = signed.manifest
            model = tables.file("model", manifest.model)
            catalogue = tables.file("catalogue", manifest.catalogue)
        assert model is not None, "the latest manifest's files are never pruned"
        assert catalogue is not None
        return MirroredEpoch.of(signed, {manifest.model: model, manifest.catalogue: catalogue})

    def _load_shelf(self) -> MirroredShelf | None:
        with self._store.read() as tables:
            raw = tables.latest_shelf()
            if raw is None:
                return None
            signed = SignedShelf.open(raw, self._key)
            catalogue = tables.file("catalogue", signed.shelf.catalogue)
        assert catalogue is not None, "a shelf's catalogue is never pruned"
        return MirroredShelf.of(signed, catalogue)

"""The seam to the server: seven calls, over HTTP or in memory for a test."""

from __future__ import annotations

import json
import logging
import ssl
from typing import TYPE_CHECKING, ClassVar, Protocol
from urllib.parse import urlsplit

import httpx

from sottovoce.errors import ProtocolError, RefusedError, SettingsError, UnknownProxyError, reason
from sottovoce.protocol import PublishedSource, routes, strict
from sottovoce.protocol.http import HttpSource
from sottovoce.service.listen import load_certificate

if TYPE_CHECKING:
    from sottovoce.protocol import Chunk
    from sottovoce.protocol.crowd import Crowd
    from sottovoce.proxy.settings import ProxySettings

log = logging.getLogger("sottovoce")

STATES = ("open", "closed", "applied")
MAX_ANSWER = 4096
"""Bytes of an answer that is not a file."""


class Upstream(PublishedSource, Protocol):
    """The server, as the proxy knows it.

    Every call raises `UnavailableError` (the same may work later), `ClosedError` (the epoch was
    applied without us), `RefusedError` (understood, and no) or `ProtocolError` (malformed answer).
    """

    def waiting(self, epoch: int, crowd: Crowd) -> str:
        """Tell whether the crowd is there; learn whether the epoch is open, closed or applied."""

    def check_secret(self) -> None:
        """Ask whether the server knows our secret: `UnknownProxyError` if not. Tells nothing."""

    def put_chunk(self, chunk: Chunk) -> None:
        """Hand a chunk over; the same chunk again changes nothing."""

    def commit(self, epoch: int, manifest_hash: bytes, chunks: int, reports: int) -> None:
        """Say that this was all; returns when the server has exactly that."""


class HttpUpstream(HttpSource):
    """`Upstream` over HTTP. The secret goes to one address, and only where it is needed."""

    _who = "the server"
    _trust = "tls.authority names who signed its certificate, tls.certificate is our own"
    _refusals: ClassVar = {401: UnknownProxyError}
    _hints: ClassVar = {401: "; is this proxy's secret the one that the server knows?"}

    def __init__(self, http: httpx.Client, url: str, secret: str):
        super().__init__(http, url)
        self._secret = {"Authorization": f"Bearer {secret}"}

    def waiting(self, epoch: int, crowd: Crowd) -> str:
        told = json.dumps({"crowd": crowd}).encode()
        answer = self._tell("POST", routes.WAITING.format(epoch=epoch), told)
        state = strict.read_object(answer, most=MAX_ANSWER, what="state of the epoch").get("state")
        if state not in STATES:
            raise ProtocolError(f"state of the epoch: one of {STATES}, not {strict.shown(state)}")
        return str(state)

    def check_secret(self) -> None:
        """The secret is looked at before the request: one of no epoch is refused, and no harm."""
        try:
            self._tell("POST", routes.WAITING.format(epoch=0), b"{}")
        except UnknownProxyError:
            raise
        except RefusedError:
            return

    def put_chunk(self, chunk: Chunk) -> None:
        path = routes.CHUNK.format(epoch=chunk.epoch, sha256=chunk.name)
        self._tell("PUT", path, chunk.encode())

    def commit(self, epoch: int, manifest_hash: bytes, chunks: int, reports: int) -> None:
        told = {"manifest": manifest_hash.hex(), "chunks": chunks, "reports": reports}
        self._tell("POST", routes.COMMIT.format(epoch=epoch), json.dumps(told).encode())

    def _tell(self, method: str, path: str, content: bytes) -> bytes:
        return self._exchange(method, path, most=MAX_ANSWER, content=content, headers=self._secret)


def connect(settings: ProxySettings) -> tuple[httpx.Client, HttpUpstream]:
    """The server of the settings; whoever asks closes the client."""
    if urlsplit(settings.server).scheme == "http":
        log.warning("%s is not encrypted: whoever listens learns the secret", settings.server)
    tls = settings.tls
    try:
        secret = settings.secret_file.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{settings.secret_file}: no secret can be read: {reason(error)}"
        ) from error
    try:
        context = ssl.create_default_context(cafile=tls.authority)
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{tls.authority}: no certificate of an authority: {reason(error)}"
        ) from error
    if tls.certificate is not None:
        load_certificate(context, tls.certificate, tls.private_key)
    if not secret or not secret.isprintable():
        raise SettingsError(f"{settings.secret_file}: must hold one line of text, the secret")
    http = httpx.Client(verify=context, timeout=30.0, trust_env=False)
    return http, HttpUpstream(http, settings.server, secret)

"""The seam to the server: six calls, over HTTP or in memory for a test."""

from __future__ import annotations

import json
import logging
import ssl
from typing import TYPE_CHECKING, ClassVar, Protocol
from urllib.parse import urlsplit

import httpx

from sottovoce.errors import ProtocolError, SettingsError
from sottovoce.protocol import PublishedSource, routes, strict
from sottovoce.protocol.http import HttpSource

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

    def put_chunk(self, chunk: Chunk) -> None:
        """Hand a chunk over; the same chunk again changes nothing."""

    def commit(self, epoch: int, manifest_hash: bytes, chunks: int, reports: int) -> None:
        """Say that this was all; returns when the server has exactly that."""


class HttpUpstream(HttpSource):
    """`Upstream` over HTTP. The secret goes to one address, and only where it is needed."""

    _who = "the server"
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
    try:
        secret = settings.secret_file.read_text(encoding="ascii").strip()
        tls = settings.tls
        context = ssl.create_default_context(cafile=tls.authority)
        if tls.certificate is not None:
            context.load_cert_chain(tls.certificate, tls.private_key)
    except (OSError, ValueError) as error:
        raise SettingsError(f"the secret or a certificate cannot be read: {error}") from error
    if not secret or not secret.isprintable():
        raise SettingsError(f"{settings.secret_file}: must hold one line of text, the secret")
    http = httpx.Client(verify=context, timeout=30.0, trust_env=False)
    return http, HttpUpstream(http, settings.server, secret)

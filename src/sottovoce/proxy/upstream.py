"""The seam to the server: six questions, over HTTP or in a test's own words."""

from __future__ import annotations

import json
import logging
import ssl
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

import httpx

from sottovoce.errors import (
    ClosedError,
    ProtocolError,
    RefusedError,
    SettingsError,
    UnavailableError,
)
from sottovoce.protocol import MAX_SIGNED_MANIFEST, strict
from sottovoce.protocol.catalogue import MAX_CATALOGUE
from sottovoce.protocol.transfer import is_for_later, read_capped

if TYPE_CHECKING:
    from sottovoce.protocol import Chunk
    from sottovoce.proxy.settings import ProxySettings

log = logging.getLogger("sottovoce")

STATES = ("open", "closed", "applied")
MAX_ANSWER = 4096
"""Bytes of an answer that is not a file."""


class Upstream(Protocol):
    """The server, as the proxy knows it.

    Every call raises `UnavailableError` (the same again later), `ClosedError` (the epoch was
    applied without us), `RefusedError` (understood, and no) or `ProtocolError` (no true answer).
    """

    def manifest(self) -> bytes:
        """The signed manifest of the present epoch."""

    def model(self, sha256: bytes, most: int) -> bytes:
        """A model file of at most so many bytes."""

    def catalogue(self, sha256: bytes) -> bytes:
        """A catalogue file."""

    def waiting(self, epoch: int, batches: int) -> str:
        """Tell how many batches wait; learn whether the epoch is open, closed or applied."""

    def put_chunk(self, chunk: Chunk) -> None:
        """Hand a chunk over; the same chunk again changes nothing."""

    def commit(self, epoch: int, manifest_hash: bytes, chunks: int, reports: int) -> None:
        """Say that this was all; returns when the server has exactly that."""


class HttpUpstream:
    """`Upstream` over HTTP. Redirects are not followed: the secret goes to one address."""

    def __init__(self, http: httpx.Client, url: str, secret: str):
        self._http = http
        self._url = url.rstrip("/")
        self._secret = {"Authorization": f"Bearer {secret}"}

    def manifest(self) -> bytes:
        """The signed manifest of the present epoch."""
        return self._ask("GET", "/v1/manifest", MAX_SIGNED_MANIFEST)

    def model(self, sha256: bytes, most: int) -> bytes:
        """A model file of at most so many bytes."""
        return self._ask("GET", f"/v1/models/{sha256.hex()}", most)

    def catalogue(self, sha256: bytes) -> bytes:
        """A catalogue file."""
        return self._ask("GET", f"/v1/catalogues/{sha256.hex()}", MAX_CATALOGUE)

    def waiting(self, epoch: int, batches: int) -> str:
        """Tell how many batches wait; learn the epoch's state."""
        told = json.dumps({"batches": batches}).encode()
        answer = self._tell("POST", f"/v1/epochs/{epoch}/waiting", told)
        state = strict.read_object(answer, most=MAX_ANSWER, what="state of the epoch").get("state")
        if state not in STATES:
            raise ProtocolError(f"state of the epoch: one of {STATES}, not {strict.shown(state)}")
        return str(state)

    def put_chunk(self, chunk: Chunk) -> None:
        """Hand a chunk over."""
        self._tell("PUT", f"/v1/epochs/{chunk.epoch}/chunks/{chunk.name}", chunk.encode())

    def commit(self, epoch: int, manifest_hash: bytes, chunks: int, reports: int) -> None:
        """Say that this was all."""
        told = {"manifest": manifest_hash.hex(), "chunks": chunks, "reports": reports}
        self._tell("POST", f"/v1/epochs/{epoch}/commit", json.dumps(told).encode())

    def _tell(self, method: str, path: str, content: bytes) -> bytes:
        return self._ask(method, path, MAX_ANSWER, content, self._secret)

    def _ask(
        self,
        method: str,
        path: str,
        most: int,
        content: bytes | None = None,
        secret: dict[str, str] | None = None,
    ) -> bytes:
        headers = {"Accept-Encoding": "identity", **(secret or {})}
        try:
            with self._http.stream(
                method, self._url + path, headers=headers, content=content, follow_redirects=False
            ) as response:
                _check_status(response, f"{method} {path}")
                return read_capped(response, most)
        except httpx.HTTPError as error:
            raise UnavailableError(
                f"{self._url} cannot be reached: {type(error).__name__}: {error}"
            ) from error


def _check_status(response: httpx.Response, request: str) -> None:
    status = response.status_code
    told = f"the server answered {request} with {status}"
    if status == HTTPStatus.OK:
        return
    if status == HTTPStatus.GONE:
        raise ClosedError(told)
    if is_for_later(status):
        raise UnavailableError(told)
    if status == HTTPStatus.UNAUTHORIZED:
        told += "; is this proxy's secret the one that the server knows?"
    raise RefusedError(told)


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

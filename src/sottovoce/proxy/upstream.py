"""The proxy's connection to its server: the interface `Upstream`, and `HttpUpstream` for HTTP."""

import json
import logging
import ssl
from typing import Protocol
from urllib.parse import urlsplit

import httpx

from sottovoce.characters import ensure_full_stop
from sottovoce.errors import (
    ConflictError,
    ProtocolError,
    RefusedError,
    SettingsError,
    UnknownProxyError,
    UntrustedError,
    get_reason,
)
from sottovoce.protocol import Chunk, PublishedSource, SignedManifest, routes
from sottovoce.protocol.contact import (
    MAX_CONTACT_BYTES,
    Contact,
    Reply,
    allowed_clock_skew,
    describe_clock_skew,
)
from sottovoce.protocol.http import HttpSource, Peer, is_loopback_host
from sottovoce.protocol.manifest import MANIFEST_VERSION
from sottovoce.proxy.settings import ProxySettings
from sottovoce.service.tls import load_certificate
from sottovoce.storage.files import read_secret

log = logging.getLogger("sottovoce")

# End of messages about answers that do not follow the protocol.
WRONG_SERVER_HINT = f". Is it a sottovoce server of protocol {MANIFEST_VERSION}?"
# Largest size of the file that holds the secret.
MAX_SECRET_BYTES = 4096

SERVER_PEER = Peer(
    "the server",
    trust_hint="tls.authority names who signed its certificate, tls.certificate is our own",
    retry_hint="a running proxy asks again within a minute",
    tls_hint=": does it want a certificate of an authority that it knows (tls.certificate)?",
    status_hints={
        401: ": it does not know this proxy's secret; put the right one into the file of "
        "`secret_file`, and restart this proxy",
        404: WRONG_SERVER_HINT,
        503: ", because it cannot do its work now; `sottovoce server status` tells its operator "
        "why",
    },
    refusals={401: UnknownProxyError},
    quotes_reasons=True,
)


class Upstream(PublishedSource, Protocol):
    """The server, as the proxy sees it: over HTTP, or in memory for a test.

    Every method may raise:

    * `UnavailableError`: no answer came, or the server is busy; a retry may succeed.
    * `ClosedError`: the epoch is over, and the server has made the next model already.
    * `RefusedError`: the request is valid, but refused.
    * `ProtocolError`: the answer is malformed.
    """

    def contact(self, contact: Contact) -> Reply:
        """Report the proxy's state; return the server's time and the state of the proxy's epoch.

        Raises:
            UnknownProxyError: The server does not know the proxy's secret.
            RefusedError: The server can never count reports of the proxy's epoch.
        """

    def put_chunk(self, chunk: Chunk) -> None:
        """Send a chunk. It does no harm to send a chunk more than once."""

    def commit(self, epoch: int, manifest_hash: bytes, chunks: int, reports: int) -> None:
        """State how many chunks and reports the epoch has; raise unless the server has as many."""


class HttpUpstream(HttpSource):
    """`Upstream` over HTTP. It sends the secret only to `url`, with requests that need it."""

    def __init__(self, http: httpx.Client, url: str, secret: str):
        super().__init__(http, url, SERVER_PEER)
        self._secret = {"Authorization": f"Bearer {secret}"}

    def contact(self, contact: Contact) -> Reply:
        return Reply.decode(self._request("POST", routes.CONTACT, contact.encode()))

    def put_chunk(self, chunk: Chunk) -> None:
        path = routes.CHUNK.format(epoch=chunk.epoch, sha256=chunk.name)
        self._request("PUT", path, chunk.encode())

    def commit(self, epoch: int, manifest_hash: bytes, chunks: int, reports: int) -> None:
        payload = {"manifest": manifest_hash.hex(), "chunks": chunks, "reports": reports}
        self._request("POST", routes.COMMIT.format(epoch=epoch), json.dumps(payload).encode())

    def _request(self, method: str, path: str, content: bytes) -> bytes:
        return self._exchange(
            method, path, max_bytes=MAX_CONTACT_BYTES, content=content, headers=self._secret
        )


def connect(settings: ProxySettings) -> tuple[httpx.Client, HttpUpstream]:
    """Open an HTTP client for the server of the settings. The caller closes the client."""
    address = urlsplit(settings.server)
    if address.scheme == "http" and not is_loopback_host(address.hostname or ""):
        log.warning(
            "%s is not encrypted: anyone on the network path can read the secret", settings.server
        )
    tls = settings.tls
    try:
        content = read_secret(settings.secret_file, MAX_SECRET_BYTES)
        secret = content.decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"{settings.secret_file}: no secret can be read: {get_reason(error)}"
        ) from error
    # A line break in the secret would begin another header.
    if not secret or not secret.isprintable():
        raise SettingsError(f"{settings.secret_file}: must hold one line of text, the secret")
    try:
        context = ssl.create_default_context(cafile=tls.authority)
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{tls.authority}: no certificate of an authority: {get_reason(error)}"
        ) from error
    if tls.certificate is not None:
        load_certificate(context, tls.certificate, tls.private_key)
    # Ignore proxies and certificates of the environment: they could redirect the secret.
    http = httpx.Client(verify=context, timeout=30.0, trust_env=False)
    return http, HttpUpstream(http, settings.server, secret)


def describe_mismatch(error: ProtocolError | RefusedError, epoch: int) -> str:
    """Return a message for the operator of a proxy whose server gave this error.

    Args:
        error: The error.
        epoch: The epoch of the proxy.
    """
    text = f"{ensure_full_stop(str(error))} Nothing is taken until that is mended"
    if isinstance(error, ConflictError):
        return (
            f"{text}: the server's database was set back. Its operator can let it go on: "
            f"`sottovoce server go-beyond {epoch}`"
        )
    if isinstance(error, ProtocolError) and not isinstance(error, UntrustedError):
        return text + WRONG_SERVER_HINT
    return text


def describe_clock_problem(ahead: float, signed: SignedManifest | None) -> str | None:
    """Return a message if the proxy's clock is wrong, else None.

    Args:
        ahead: Seconds that it is ahead of the server's clock.
        signed: The current manifest, on which the allowed difference depends.
    """
    text = describe_clock_skew(ahead, "this proxy's clock", "the server's")
    # With a small difference the proxy goes on; with a large one it could end an epoch too early.
    is_allowed = abs(ahead) <= allowed_clock_skew(None if signed is None else signed.manifest)
    return text if text is None or is_allowed else f"{text}. Nothing is taken until then"

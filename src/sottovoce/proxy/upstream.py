"""The proxy's connection to its server: an interface, and its implementation over HTTP."""

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

# Added to messages about answers that no server of this protocol gives.
WRONG_SERVER_HINT = f". Is it a sottovoce server of protocol {MANIFEST_VERSION}?"
# Size of a file with a secret.
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

    Every call raises `UnavailableError` (a retry may succeed), `ClosedError` (the epoch was applied
    without this proxy), `RefusedError` (the request is valid, but refused) or `ProtocolError` (the
    answer is malformed).
    """

    def contact(self, contact: Contact) -> Reply:
        """Report the proxy's state; return the state of its epoch and the server's time.

        Raises:
            UnknownProxyError: The server does not know the proxy's secret.
            RefusedError: The server can never count this epoch.
        """

    def put_chunk(self, chunk: Chunk) -> None:
        """Send a chunk; sending it again changes nothing."""

    def commit(self, epoch: int, manifest_hash: bytes, chunks: int, reports: int) -> None:
        """State how much was sent; return once the server confirms that it has exactly that."""


class HttpUpstream(HttpSource):
    """`Upstream` over HTTP. The secret goes to one address, and only with calls that need it."""

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
    """Open an HTTP client for the server of the settings. The caller closes it."""
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
    # A line break within a header would be another header.
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
    # Proxies and certificates of the environment must not change where the secret goes.
    http = httpx.Client(verify=context, timeout=30.0, trust_env=False)
    return http, HttpUpstream(http, settings.server, secret)


def describe_mismatch(error: ProtocolError | RefusedError, epoch: int) -> str:
    """Describe why the server and a proxy at this epoch do not fit together, for the operator."""
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
    """Describe a clock that is `ahead` of the server's, or return None if it is close enough."""
    text = describe_clock_skew(ahead, "this proxy's clock", "the server's")
    # A small difference is worth a note; only a large one lets an epoch end at the wrong time.
    is_allowed = abs(ahead) <= allowed_clock_skew(None if signed is None else signed.manifest)
    return text if text is None or is_allowed else f"{text}. Nothing is taken until then"

"""The proxy over HTTP. Every device's requests look the same: see `HttpSource`."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol
from urllib.parse import urlsplit

import httpx

from sottovoce.errors import SettingsError, SpentError
from sottovoce.protocol import PublishedSource, routes
from sottovoce.protocol.http import HttpSource, Peer, is_loopback_host
from sottovoce.protocol.tokens import ATTESTATION_BYTES, EVALUATED_BYTES


def check_url(url: str) -> str:
    """The address without a slash at its end: https, or http to this machine itself.

    >>> check_url("https://proxy.example/")
    'https://proxy.example'
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL) as error:
        raise SettingsError(f"the proxy's address {url!r} cannot be read: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise SettingsError(f"the proxy's address must be https://HOST, not {url!r}")
    if parts.scheme == "http" and not is_loopback_host(host):
        raise SettingsError(
            f"{url!r} is not encrypted: anyone on the way would see who takes part; use https "
            "(http is for this machine alone: localhost, 127.0.0.0/8, ::1)"
        )
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        # Any of these could tell one device from another in every request.
        raise SettingsError("the proxy's address must have no user name, password, ? or #")
    return url.rstrip("/")


OCTETS = {"Content-Type": "application/octet-stream"}
PROXY = Peer("the proxy", refusals={409: SpentError}, closes_with_epoch=True)
BACKEND = Peer(
    "the product's backend",
    status_hints={401: "; is SOTTOVOCE_SESSION a session that it knows?"},
)


class HttpProxy(HttpSource):
    """A proxy at its address, over HTTP; the caller checks what it answers.

    Args:
        http: An open `httpx.Client`.
        url: The address, `https://`, or `http://` on this machine.
    """

    def __init__(self, http: httpx.Client, url: str):
        super().__init__(http, check_url(url), PROXY)

    def check_taken(self, manifest_hash: bytes) -> None:
        """See `ProxyApi`."""
        asked = routes.TAKEN_BATCH.format(sha256=manifest_hash.hex())
        self._exchange("GET", asked, max_bytes=0, expected_status=HTTPStatus.NO_CONTENT)

    def send(self, batch: bytes) -> None:
        """See `ProxyApi`. Only 202 means accepted: a hotel's log-in page also answers 200."""
        accepted = HTTPStatus.ACCEPTED
        self._exchange(
            "POST",
            routes.BATCHES,
            max_bytes=0,
            expected_status=accepted,
            content=batch,
            headers=OCTETS,
        )

    def token(self, request: bytes) -> bytes:
        """See `ProxyApi`."""
        return self._exchange(
            "POST", routes.TOKENS, max_bytes=EVALUATED_BYTES, content=request, headers=OCTETS
        )


class _Backend(HttpSource):
    """A product's own, which knows who is logged in."""

    def attest(self, session: str) -> bytes:
        asked = {"Authorization": f"Bearer {session}"}
        return self._exchange("POST", "", max_bytes=ATTESTATION_BYTES, headers=asked)


def make_attestation_fetcher(url: str, session: str) -> Callable[[], bytes]:
    """Asks at this address for an attestation each time, over a connection of its own."""
    backend = check_url(url)

    def ask() -> bytes:
        with httpx.Client(verify=httpx.create_ssl_context(), trust_env=False) as http:
            return _Backend(http, backend, BACKEND).attest(session)

    return ask


class ProxyApi(PublishedSource, Protocol):
    """All that a device ever asks of its proxy. Except the noise of a batch nothing says who."""

    def check_taken(self, manifest_hash: bytes) -> None:
        """Returns if a batch would be taken now; `ClosedError` when this epoch is over."""

    def send(self, batch: bytes) -> None:
        """Returns when the proxy has it for certain; `ClosedError` when its epoch is over."""

    def token(self, request: bytes) -> bytes:
        """What the proxy made of a blinded token; `SpentError` if this account has had its own."""

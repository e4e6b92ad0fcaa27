"""Connections to the proxy and to the product's backend over HTTP.

The requests of all devices look the same: only the contents of a batch or of a token request, and
the session for the backend, differ.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol
from urllib.parse import urlsplit

import httpx

from sottovoce.errors import SettingsError, SpentError
from sottovoce.protocol import PublishedSource, routes
from sottovoce.protocol.http import HttpSource, Peer, is_loopback_host
from sottovoce.protocol.tokens import ATTESTATION_BYTES, EVALUATED_BYTES

BINARY_HEADERS = {"Content-Type": "application/octet-stream"}
PROXY_PEER = Peer("the proxy", refusals={409: SpentError}, closes_with_epoch=True)
BACKEND_PEER = Peer(
    "the product's backend",
    status_hints={401: "; is SOTTOVOCE_SESSION a session that it knows?"},
)


def check_url(url: str) -> str:
    """Return an address without the slash at its end; raise a `SettingsError` if it is not allowed.

    The address must begin with `https://`, or with `http://` if the host is this machine.

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
            f"{url!r} is not encrypted: anyone on the network path would see who takes part; use "
            "https (http is only for this machine: localhost, 127.0.0.0/8, ::1)"
        )
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        # Any of these could identify a device in every request.
        raise SettingsError("the proxy's address must have no user name, password, ? or #")
    return url.rstrip("/")


class ProxyApi(PublishedSource, Protocol):
    """All requests that a device ever sends to its proxy."""

    def check_taken(self, manifest_hash: bytes) -> None:
        """Ask whether the proxy would accept a batch for this manifest now.

        Raises:
            ClosedError: It would not, because the epoch is over.
        """

    def send(self, batch: bytes) -> None:
        """Send a batch, and return once the proxy has stored it.

        Raises:
            ClosedError: The batch's epoch is over.
        """

    def token(self, request: bytes) -> bytes:
        """Send an encoded `TokenRequest`, and return the proxy's evaluation of its blinded element.

        Raises:
            SpentError: The account already had its token for this epoch.
        """


class HttpProxy(HttpSource):
    """A connection to a proxy over HTTP; the caller verifies the answers.

    Args:
        http: An open `httpx.Client`.
        url: The proxy's address: `https://`, or `http://` if the proxy runs on this machine.
    """

    def __init__(self, http: httpx.Client, url: str):
        super().__init__(http, check_url(url), PROXY_PEER)

    def check_taken(self, manifest_hash: bytes) -> None:
        """Ask whether a batch would be accepted: see `ProxyApi`."""
        route = routes.TAKEN_BATCH.format(sha256=manifest_hash.hex())
        self._exchange("GET", route, max_bytes=0, expected_status=HTTPStatus.NO_CONTENT)

    def send(self, batch: bytes) -> None:
        """Send a batch: see `ProxyApi`."""
        self._exchange(
            "POST",
            routes.BATCHES,
            max_bytes=0,
            # No other status means that the batch was stored: a hotel's log-in page answers 200.
            expected_status=HTTPStatus.ACCEPTED,
            content=batch,
            headers=BINARY_HEADERS,
        )

    def token(self, request: bytes) -> bytes:
        """Ask for a token: see `ProxyApi`."""
        return self._exchange(
            "POST",
            routes.TOKENS,
            max_bytes=EVALUATED_BYTES,
            content=request,
            headers=BINARY_HEADERS,
        )


class _Backend(HttpSource):
    """A connection to the product's backend, which knows who is logged in."""

    def fetch_attestation(self, session: str) -> bytes:
        headers = {"Authorization": f"Bearer {session}"}
        return self._exchange("POST", "", max_bytes=ATTESTATION_BYTES, headers=headers)


def make_attestation_fetcher(url: str, session: str) -> Callable[[], bytes]:
    """Return a function that asks the product's backend for an attestation.

    Each call of the function opens a connection of its own.

    Args:
        url: The backend's address.
        session: The bearer token of the owner's log-in at the backend.
    """
    backend = check_url(url)

    def fetch_attestation() -> bytes:
        with httpx.Client(verify=httpx.create_ssl_context(), trust_env=False) as http:
            return _Backend(http, backend, BACKEND_PEER).fetch_attestation(session)

    return fetch_attestation

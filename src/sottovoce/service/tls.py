"""TLS: certificates, and connections that count against limits even before the handshake."""

from __future__ import annotations

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Iterable
from math import inf
from pathlib import Path

from cryptography.x509 import load_pem_x509_certificate

from sottovoce.errors import SettingsError, get_reason
from sottovoce.service.connections import LATE, ConnectionLimiter

# Seconds before a certificate expires at which the operator is warned.
EXPIRY_WARNING_SECONDS = 14 * 86_400


def load_certificate(context: ssl.SSLContext, certificate: Path, private_key: Path | None) -> None:
    """Load the certificate that a context shows to others.

    Args:
        context: The context.
        certificate: PEM file of the certificate chain.
        private_key: PEM file of the key; None if `certificate` contains it.
    """
    key = private_key or certificate
    try:
        context.load_cert_chain(certificate, private_key)
    except (OSError, ValueError) as error:
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            raise SettingsError(f"{key}: must be the private key of {certificate}") from error
        raise SettingsError(
            f"{certificate}: no certificate with the private key in {key}: {error}"
        ) from error


def describe_expiring(certificates: Iterable[Path | None], now: float) -> str | None:
    """Return a message about certificates that expire soon, have expired or cannot be read.

    Args:
        certificates: PEM files; None is skipped.
        now: Unix seconds.

    Returns:
        The message, or None if there are no such certificates.
    """
    problems = []
    for path in certificates:
        if path is None:
            continue
        try:
            end = load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
        except (OSError, ValueError) as error:
            problems.append(f"{path}: no certificate can be read: {get_reason(error)}")
            continue
        if end.timestamp() < now + EXPIRY_WARNING_SECONDS:
            verb = "has expired" if end.timestamp() < now else "expires"
            problems.append(f"{path}: this certificate {verb}, on {end:%Y-%m-%d}; renew it")
    return "; ".join(problems) or None


class TlsConnection(SSLProtocol):
    """The TLS layer of a connection, which has a place in the limiter before its handshake.

    With `ssl=` of `create_server`, asyncio would show a connection only after its handshake, so the
    limiter could not drop connections that never begin one. Besides, asyncio and uvloop give each
    connection a buffer of 256 KiB, so 4,096 silent connections took up to a gigabyte.

    Args:
        limiter: Admits connections, up to its limits.
        handshake_seconds: Seconds that the handshake may take.
        context: The TLS context.
        make_protocol: Function that is called with this connection and returns the protocol above
            TLS.
    """

    # Bytes to read at once, and bytes that may wait to be decrypted before reading pauses. This is
    # the longest record of TLS 1.3 (RFC 8446, section 5.2) with its header.
    max_size = 5 + 2**14 + 256

    def __init__(
        self,
        limiter: ConnectionLimiter,
        handshake_seconds: float,
        context: ssl.SSLContext,
        make_protocol: Callable[[TlsConnection], asyncio.Protocol],
    ):
        loop = asyncio.get_running_loop()
        # `waiter` is None: nobody waits for the handshake. When it ends, asyncio calls the
        # protocol's `connection_made`.
        super().__init__(loop, make_protocol(self), context, None, server_side=True)  # type: ignore[arg-type]
        self._app_transport.set_read_buffer_limits(self.max_size)
        self._limiter = limiter
        self._handshake_seconds = handshake_seconds
        self._socket_transport: asyncio.Transport | None = None
        self.deadline = inf

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._socket_transport = transport
        self.deadline = self._loop.time() + self._handshake_seconds
        peer = transport.get_extra_info("peername")
        if self._limiter.admit(self, peer[0] if peer else "", self._loop):
            super().connection_made(transport)
        else:
            transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._limiter.remove(self)
        super().connection_lost(exc)

    def time_out(self) -> None:
        self._limiter.on_rejection(LATE)
        self.drop()

    def drop(self) -> None:
        if self._socket_transport is not None:
            self._socket_transport.abort()

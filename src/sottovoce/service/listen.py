"""Settings of a listener: its address, TLS, and limits on connections and requests."""

import errno
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from sottovoce.errors import SettingsError, get_reason
from sottovoce.service.tls import load_certificate
from sottovoce.settings import check, setting

# Connections that wait in the system to be accepted. The system may allow fewer.
MAX_QUEUED_CONNECTIONS = 4096


@dataclass(frozen=True)
class Listen:
    """The public listener of a service."""

    table: ClassVar = "listen"

    host: str = "127.0.0.1"
    port: int = 8080
    certificate: Path | None = None
    """PEM file of the certificate chain. Without it, a program in front must provide TLS."""
    private_key: Path | None = None
    client_authority: Path | None = None
    """PEM file of authorities. A client must present a certificate that one of them signed."""
    header_bytes: int = setting(
        16_384,
        "maximum size of a request's first line and headers in bytes; a larger request is answered "
        "with 431",
        min_value=1_024,
    )
    header_fields: int = setting(
        64, "maximum number of headers of a request; more are answered with 431", min_value=8
    )
    header_seconds: float = setting(
        10.0,
        "seconds in which the headers of a request must arrive, and the TLS handshake must end; "
        "after that the answer is 408",
        above=0,
    )
    body_seconds: float = setting(
        30.0,
        "seconds in which the body of a request must arrive; after that the answer is 408",
        above=0,
    )
    idle_seconds: float = setting(
        15.0,
        "seconds after which an idle connection, or one whose client does not read the answer, "
        "is closed",
        above=0,
    )
    connections: int = setting(
        4_096,
        "maximum number of open connections, fewer if the process may open fewer files; one more "
        "replaces the connection that has been idle for longest",
        min_value=8,
    )
    connections_per_address: int = setting(
        64,
        "maximum number of open connections of one address (IPv6: one /56); 0: no limit, for use "
        "behind a relay",
        min_value=0,
    )

    def __post_init__(self) -> None:
        check(self)
        if not 0 <= self.port < 2**16:
            raise SettingsError(f"port must be from 0 to 65535, not {self.port}", setting="port")
        if self.certificate is None and (self.private_key or self.client_authority):
            raise SettingsError(
                "private_key and client_authority have no effect without a certificate: name one, "
                "or leave them out and let a program in front provide TLS",
                setting="private_key" if self.private_key else "client_authority",
            )
        for name in ("certificate", "private_key", "client_authority"):
            path = getattr(self, name)
            if path is not None and not path.is_file():
                raise SettingsError(f"{name}: {path} must be a file that exists", setting=name)

    def bind(self, option: str = "") -> list[socket.socket]:
        """Return listening sockets, one for each address of the host.

        Args:
            option: Where the error tells the user to name another port, such as "with --port"; the
                settings file if empty.
        """
        try:
            addresses = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            return [
                socket.create_server(address[:2], family=family, backlog=MAX_QUEUED_CONNECTIONS)
                for family, _, _, _, address in dict.fromkeys(addresses)
            ]
        except (OSError, UnicodeError) as error:
            is_taken = getattr(error, "errno", None) == errno.EADDRINUSE
            raise SettingsError(
                f"cannot listen on {self.host}, port {self.port}: {get_reason(error)}; name "
                f"another port {option or f'in the settings file, [{self.table}]'}"
                + ", or end the program that has this one"
                * is_taken
            ) from error

    def check_free(self, option: str = "") -> None:
        """Raise a `SettingsError` if the port cannot be bound now; see `bind` for the option."""
        for listening in self.bind(option):
            listening.close()

    def make_tls_context(self) -> ssl.SSLContext | None:
        """Return the TLS context, or None for plain HTTP."""
        if self.certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # Do not resume sessions: that would link requests of a device from different addresses.
        # TLS 1.3 resumes sessions only by tickets, which are switched off here. TLS 1.2 also
        # resumes by session ids, which Python cannot switch off.
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.num_tickets = 0
        load_certificate(context, self.certificate, self.private_key)
        if self.client_authority is not None:
            try:
                context.load_verify_locations(self.client_authority)
            except (OSError, ValueError) as error:
                raise SettingsError(
                    f"{self.client_authority}: this is no PEM file of an authority: {error}"
                ) from error
            context.verify_mode = ssl.CERT_REQUIRED
        return context


@dataclass(frozen=True)
class Watch(Listen):
    """The operator's listener, for health and metrics. It must never be open to the public."""

    table = "watch"
    port: int = 8081
    connections: int = setting(32, "maximum number of open connections", min_value=8)
    connections_per_address: int = setting(
        0, "maximum number of open connections of one address; 0: no limit", min_value=0
    )

    def check_ports_differ(self, public: Listen) -> None:
        """Raise a `SettingsError` if both listeners have the same port, except for port 0.

        Port 0 means any free port.
        """
        if self.port == public.port != 0:
            raise SettingsError(
                f"listen.port and watch.port must differ, but both are {self.port}",
                setting=f"{self.table}.port",
            )

"""Mutual TLS between proxy and server, for real: certificates, sockets, refusals."""

import re
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sottovoce.errors import SettingsError, TlsError, UnavailableError
from sottovoce.proxy import ProxySettings, connect
from sottovoce.proxy.settings import Tls
from sottovoce.service.listen import Listen
from sottovoce.service.tls import EXPIRY_WARNING_SECONDS, describe_expiring
from sottovoce.storage.files import write_new
from tests.service.program import LIMIT, Service


class Authority:
    """Signs certificates into a folder."""

    def __init__(self, folder: Path, name: str):
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        self._write(name, builder.add_extension(usage, critical=True), self._key)

    def issue(self, name: str, hours: float = 1) -> None:
        """Make a certificate for 127.0.0.1 that is valid for this many hours."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        here = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        builder = self._builder(subject, key, hours).add_extension(here, critical=False)
        self._write(name, builder, key)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, hours: float = 1
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=hours))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(issuer_key, critical=False)
        )

    def _write(
        self, name: str, builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey
    ) -> None:
        certificate = builder.sign(self._key, hashes.SHA256())
        pem = serialization.Encoding.PEM
        (self._folder / f"{name}.pem").write_bytes(certificate.public_bytes(pem))
        (self._folder / f"{name}.key").write_bytes(
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder, "authority")
    authority.issue("server")
    authority.issue("proxy")
    Authority(folder, "stranger").issue("impostor")
    write_new(folder / "secret", b"known\n")
    return folder


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Service]:
    files = {
        "certificate": folder / "server.pem",
        "private_key": folder / "server.key",
        "client_authority": folder / "authority.pem",
        "connections": 8,
        "header_seconds": 1.0,
    }
    with closing(
        Service("0", "0", *(f"{name}={value}" for name, value in files.items()))
    ) as program:
        yield program


@pytest.fixture
def address(service: Service) -> str:
    return f"https://127.0.0.1:{service.port()}"


def asked(folder: Path, address: str, tls: Tls) -> bytes:
    settings = ProxySettings(folder, address, folder / "secret", "00" * 32, tls=tls)
    http, upstream = connect(settings)
    with http:
        return upstream.manifest()


def shown(folder: Path, name: str) -> Tls:
    return Tls(folder / "authority.pem", folder / f"{name}.pem", folder / f"{name}.key")


def test_clients_with_a_certificate_of_the_authority_are_accepted(
    folder: Path, address: str
) -> None:
    # The client must also trust the certificate of the server.
    assert asked(folder, address, shown(folder, "proxy")) == b"hello"
    for tls in (Tls(folder / "authority.pem"), shown(folder, "impostor")):
        with pytest.raises(UnavailableError):
            asked(folder, address, tls)
    with pytest.raises(TlsError, match="CERTIFICATE_VERIFY_FAILED"):
        asked(folder, address, Tls(folder / "stranger.pem"))


def _get(
    context: ssl.SSLContext, port: int, session: ssl.SSLSession | None = None
) -> tuple[bool, ssl.SSLSession | None]:
    """Send a request; return whether the session was resumed, and what resumes the next one."""
    address = ("127.0.0.1", port)
    with (
        socket.create_connection(address, 30) as raw,
        context.wrap_socket(raw, server_hostname=address[0], session=session) as line,
    ):
        line.sendall(b"GET /hello HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
        answer = b""
        while piece := line.recv(65_536):  # the tickets of TLS 1.3 come with the answer
            answer += piece
        assert answer.endswith(b"hello")
        return bool(line.session_reused), line.session


@pytest.fixture
def context(folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=folder / "authority.pem")
    context.load_cert_chain(folder / "proxy.pem", folder / "proxy.key")
    return context


def test_sessions_do_not_link_two_connections(context: ssl.SSLContext, service: Service) -> None:
    # A device that changes its address has nothing by which it is recognised.
    _, session = _get(context, service.port())
    was_resumed, _ = _get(context, service.port(), session)
    assert not was_resumed


def test_tls_1_2_is_refused(context: ssl.SSLContext, service: Service) -> None:
    # Its session ids link two connections, and Python cannot switch them off.
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        _get(context, service.port())


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_of_a_connection_is_bounded(
    folder: Path, context: ssl.SSLContext, start: Callable[..., Service]
) -> None:
    """Include a client that sends all that is taken and never ends its request."""
    connections = 200
    files = {"certificate": folder / "server.pem", "private_key": folder / "server.key"}
    caps = {"connections_per_address": 0, "header_seconds": LIMIT, "body_seconds": LIMIT}
    service = start("0", "0", *(f"{name}={value}" for name, value in (files | caps).items()))
    status = Path(f"/proc/{service.process.pid}/status")

    def resident_kib() -> int:
        for _ in range(5):  # the event loop has seen all that was sent before
            _get(context, service.port())
        return int(re.findall(r"VmRSS:\s+(\d+)", status.read_text())[0])

    with ExitStack() as lines:
        before = resident_kib()
        silent = [lines.enter_context(service.connect()) for _ in range(connections)]
        silent_kib = (resident_kib() - before) / connections
        for connection in silent:
            line = lines.enter_context(context.wrap_socket(connection, server_hostname="127.0.0.1"))
            line.sendall(b"GET /slow HTTP/1.1\r\nHost: here\r\nContent-Length: 524288\r\n\r\n")
            line.setblocking(False)
            with suppress(ssl.SSLWantWriteError):
                while line.send(bytes(2**14)):
                    pass
        full_kib = (resident_kib() - before) / connections
    print(f"KiB of a TLS connection: silent {silent_kib:.0f}, full {full_kib:.0f}")
    assert silent_kib < 128
    assert full_kib < 256


def test_plain_and_encrypted_ends_get_an_explanation(
    folder: Path, address: str, service: Service
) -> None:
    # The explanation is in plain words, not in those of OpenSSL.
    plain = f"https://127.0.0.1:{service.port(watch=True)}"
    with pytest.raises(TlsError, match="does not speak TLS"):
        asked(folder, plain, Tls(folder / "authority.pem"))
    with pytest.raises(UnavailableError, match="begins with https"):
        asked(folder, address.replace("https:", "http:"), Tls())


def test_certificates_are_reported_two_weeks_before_they_expire(folder: Path) -> None:
    # They are valid for an hour.
    now = time.time()
    shown = [None, folder / "server.pem", folder / "authority.pem"]
    assert describe_expiring([None], now) is None
    assert describe_expiring(shown, now - EXPIRY_WARNING_SECONDS) is None
    for moment, verb in ((now, "expires"), (now + 3601, "has expired")):
        problem = describe_expiring(shown, moment) or ""
        assert problem.count(f"this certificate {verb}") == 2
    assert "none.pem: no certificate can be read" in (
        describe_expiring([folder / "none.pem"], now) or ""
    )


def test_private_key_of_another_certificate_is_refused(folder: Path) -> None:
    # The error names it, at the proxy and at the listener.
    mixed = (folder / "proxy.pem", folder / "server.key")
    with pytest.raises(SettingsError, match=r"server\.key.*proxy\.pem"):
        asked(folder, "https://127.0.0.1", Tls(None, *mixed))
    with pytest.raises(SettingsError, match=r"server\.key.*proxy\.pem"):
        Listen(certificate=mixed[0], private_key=mixed[1]).make_tls_context()


def test_unfinished_handshakes_do_not_block_others(
    folder: Path, address: str, service: Service
) -> None:
    """They are closed after `header_seconds`, and counted."""
    with ExitStack() as lines:
        silent = [lines.enter_context(service.connect()) for _ in range(12)]
        assert asked(folder, address, shown(folder, "proxy")) == b"hello"
        for connection in silent:
            with suppress(ConnectionError):
                assert connection.recv(1) == b""
    assert asked(folder, address, shown(folder, "proxy")) == b"hello"
    metrics = httpx.get(f"http://127.0.0.1:{service.port(watch=True)}/metrics").text
    counted = dict(re.findall(r'turned_away_total\{reason="(\w+)"\} (\d+)', metrics))
    assert int(counted["displaced"]) + int(counted["late"]) == 12, "each of them once"
    assert int(counted["displaced"]) >= 5, "four had no place, and one made room"

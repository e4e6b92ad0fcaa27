"""Mutual TLS between proxy and server, for real: certificates, sockets, refusals."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from math import isnan
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
from sottovoce.service.listen import Listen, seconds_left
from tests.service.program import Service


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
        """For 127.0.0.1, valid for so many hours from now on."""
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
    (folder / "secret").write_text("known\n")
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
    with closing(Service("0", "0", *(f"{name}={value}" for name, value in files.items()))) as found:
        yield found


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


def test_who_is_let_in(folder: Path, address: str) -> None:
    """Who shows a certificate that is vouched for, and believes the one that it is shown."""
    assert asked(folder, address, shown(folder, "proxy")) == b"hello"
    for tls in (Tls(folder / "authority.pem"), shown(folder, "impostor")):
        with pytest.raises(UnavailableError):
            asked(folder, address, tls)
    with pytest.raises(TlsError, match="CERTIFICATE_VERIFY_FAILED"):
        asked(folder, address, Tls(folder / "stranger.pem"))


def test_who_speaks_no_tls_and_who_speaks_it_unasked(
    folder: Path, address: str, service: Service
) -> None:
    """In words, not in those of OpenSSL."""
    plain = f"https://127.0.0.1:{service.port(watch=True)}"
    with pytest.raises(TlsError, match="does not speak TLS"):
        asked(folder, plain, Tls(folder / "authority.pem"))
    with pytest.raises(UnavailableError, match="begins with https"):
        asked(folder, address.replace("https:", "http:"), Tls())


def test_how_long_certificates_hold(folder: Path) -> None:
    shown = [None, folder / "server.pem", folder / "authority.pem"]
    assert isnan(seconds_left([None]))
    assert 0 < seconds_left(shown) <= 3600
    assert seconds_left([*shown, folder / "none.pem"]) == 0


def test_a_private_key_of_another_certificate_is_named(folder: Path) -> None:
    """Of a proxy, and of whoever listens."""
    mixed = (folder / "proxy.pem", folder / "server.key")
    with pytest.raises(SettingsError, match=r"server\.key.*proxy\.pem"):
        asked(folder, "https://127.0.0.1", Tls(None, *mixed))
    with pytest.raises(SettingsError, match=r"server\.key.*proxy\.pem"):
        Listen(certificate=mixed[0], private_key=mixed[1]).tls()


def test_whoever_never_ends_the_handshake_locks_nobody_out(
    folder: Path, address: str, service: Service
) -> None:
    """And is sent away in time, `header_seconds`, and counted."""
    with ExitStack() as lines:
        silent = [lines.enter_context(service.connect()) for _ in range(12)]
        assert asked(folder, address, shown(folder, "proxy")) == b"hello"
        for each in silent:
            with suppress(ConnectionError):
                assert each.recv(1) == b""
    assert asked(folder, address, shown(folder, "proxy")) == b"hello"
    told = httpx.get(f"http://127.0.0.1:{service.port(watch=True)}/metrics").text
    counted = dict(re.findall(r'turned_away_total\{reason="(\w+)"\} (\d+)', told))
    assert int(counted["displaced"]) + int(counted["late"]) == 12, "each of them once"
    assert int(counted["displaced"]) >= 5, "four had no place, and one made room"

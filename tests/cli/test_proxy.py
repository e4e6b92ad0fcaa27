"""`sottovoce proxy`: set up, run, end."""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import httpx
import pytest

from sottovoce.cli.proxy import app
from sottovoce.errors import SettingsError, StoreError
from sottovoce.protocol import routes
from sottovoce.protocol.contact import Reply
from sottovoce.proxy import ProxySettings
from sottovoce.service.toml import read_settings
from tests.loopback import LoopbackServer, reply
from tests.processes import make_caller, read_until
from tests.proxy.world import KEY as SIGNING_KEY
from tests.proxy.world import signed

KEY = "ab" * 32
# The verification key of a server that is there.
SIGNER = SIGNING_KEY.public_key().public_bytes_raw().hex()
run = make_caller(app)
# An address at which no server listens.
NOBODY = "http://127.0.0.1:9"


def init(folder: Path, *more: object, server: str = NOBODY, key: str = KEY) -> str:
    secret = folder.parent / "given.secret"
    secret.write_text("s3cret\n")
    secret.chmod(0o600)
    return run("init", folder, "--server", server, "--key", key, "--secret-file", secret, *more)


def test_init_writes_settings_that_can_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "proxy"
    sites = ("https://shop.example", "http://localhost:8000")
    with pytest.raises(SettingsError):
        init(folder, "--origin", "https://shop.example/")
    assert not folder.exists()
    output = init(folder, *(word for site in sites for word in ("--origin", site)))
    assert f"sottovoce proxy run --config {folder / 'proxy.toml'}" in output
    assert f"{NOBODY}/v2/manifest: the server cannot be reached" in output
    settings = read_settings(folder / "proxy.toml", ProxySettings)
    secret = folder / "server.secret"
    assert settings == ProxySettings(folder / "data", NOBODY, secret, KEY, origins=sites)
    assert secret.read_text() == "s3cret\n"
    for path in (folder, folder / "proxy.toml", secret):
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize(
    ("least", "burst", "per_epoch"),
    [(1, 10, 20), (10, 2, 2), (2_000, 10, 20), (10_000, 10, 50), (50_000, 10, 250)],
)
def test_limits_of_an_address_follow_from_the_crowd(
    tmp_path: Path, least: int, burst: int, per_epoch: int
) -> None:
    # The settings can be read, and refuse an address that is a crowd by itself.
    init(tmp_path / "proxy", "--min-clients", least)
    settings = read_settings(tmp_path / "proxy" / "proxy.toml", ProxySettings)
    assert (settings.min_clients, settings.rate.burst, settings.rate.per_epoch) == (
        least,
        burst,
        per_epoch,
    )


def test_behind_a_relay_no_address_is_limited(tmp_path: Path) -> None:
    init(tmp_path / "proxy", "--relay", "--host", "0.0.0.0", "--min-clients", 5)
    settings = read_settings(tmp_path / "proxy" / "proxy.toml", ProxySettings)
    assert (settings.rate.batches_per_minute, settings.rate.per_epoch) == (0, 0)
    assert (settings.listen.host, settings.listen.connections_per_address) == ("0.0.0.0", 0)
    assert settings.watch.host == "127.0.0.1"


@pytest.mark.parametrize(
    ("answers", "key", "message"),
    [
        ((200, 200), SIGNER, "accepts the secret"),
        ((200, 401), SIGNER, "401: it does not know this proxy's secret"),
        ((200, 404), KEY, "neither by the pinned verification key"),
        ((404, 404), SIGNER, "Is it a sottovoce server of protocol 2?"),
        ((503, 503), SIGNER, "asks again within a minute"),
    ],
)
def test_init_checks_the_server(
    tmp_path: Path, answers: tuple[int, int], key: str, message: str
) -> None:
    # The settings are written in any case: the server may come later.
    manifest, secret = answers

    def answer(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        if handler.path == routes.MANIFEST:
            reply(manifest, signed().encode())(handler, body)
        else:
            assert handler.headers["Authorization"] == "Bearer s3cret"
            reply(secret, Reply("none", time.time(), "00" * 8).encode())(handler, body)

    with LoopbackServer() as server:
        server.answer = answer
        output = init(tmp_path / "proxy", server=server.url, key=key)
        tls_output = init(tmp_path / "other", server=server.url.replace("http:", "https:"), key=key)
    assert message in output
    assert ("sottovoce proxy status" in output) is (message != "accepts the secret")
    assert "does not speak TLS" in tls_output
    assert (tmp_path / "proxy" / "proxy.toml").exists()


@pytest.mark.parametrize("name", ["proxy.toml", "server.secret"])
def test_init_overwrites_nothing(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "proxy"
    folder.mkdir()
    (folder / name).write_text("mine")
    with pytest.raises(SettingsError):
        init(folder)
    assert [path.name for path in folder.iterdir()] == [name]
    assert (folder / name).read_text() == "mine"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """Start a proxy whose server is not there, on two ports of the system's choice."""
    folder = tmp_path / "proxy"
    init(folder)
    text = (folder / "proxy.toml").read_text()
    text = text.replace("port = 8080", "port = 0").replace("port = 8081", "port = 0")
    (folder / "proxy.toml").write_text(text)
    command = [sys.executable, "-c", "from sottovoce.cli.proxy import app; app()"]
    process = subprocess.Popen(
        [*command, "run", "--config", str(folder / "proxy.toml")], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        address = r"running on http://127\.0\.0\.1:(\d+)"
        ports = read_until(rf"(?s){address}.*{address}", process.stderr)
        yield process, int(ports[1]), int(ports[2])
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_run_serves_until_it_is_stopped(
    running: tuple[subprocess.Popen[str], int, int],
) -> None:
    """Use real sockets; no odd input is in the log."""
    process, port, watch = running
    client_port = 0
    with httpx.Client(base_url=f"http://127.0.0.1:{watch}", trust_env=False) as http:
        assert http.get("/healthz").text == "alive\n"
        assert http.get("/readyz").status_code == 503
        assert "sottovoce_proxy_batches_waiting 0.0" in http.get("/metrics").text
        assert "server" not in http.get("/healthz").headers
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http:
        assert http.get("/metrics").status_code == 404
        assert http.head("/v2/manifest").status_code == 503
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "User-Agent": "Odd/1.0"}
        assert http.get("/v2/odd-path", headers=upgrade).status_code == 404
        assert "server" not in http.get("/v2/manifest").headers
    with socket.create_connection(("127.0.0.1", port)) as line:
        client_port = line.getsockname()[1]
        line.sendall(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
        assert line.recv(1000).startswith(b"HTTP/1.1 400")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert process.stderr is not None
    log = process.stderr.read()
    for trace in (str(client_port), "Odd/1.0", "odd-path", "s3cret", "Traceback"):
        assert trace not in log, log


def test_exit_codes_of_status(tmp_path: Path) -> None:
    """Run where its server is not there. What it says: `tests/proxy/test_status.py`."""
    written = tmp_path / "status.json"
    init(tmp_path / "proxy")
    arguments = ("status", "--config", tmp_path / "proxy" / "proxy.toml", "--json", written)
    shutil.rmtree(tmp_path / "proxy" / "data")
    with pytest.raises(StoreError, match="create-database"):  # exit code 2
        run(*arguments)
    with pytest.raises(StoreError, match="create-database"):
        run("run", *arguments[1:3])
    run("create-database", *arguments[1:3])
    with pytest.raises(StoreError, match="data"):
        run("create-database", *arguments[1:3])
    with pytest.raises(SystemExit) as ended:
        run(*arguments)
    assert ended.value.code == 1
    status = json.loads(written.read_text())
    assert status["epoch"] is None
    assert NOBODY in status["problems"][1]


@pytest.mark.parametrize("wrong", [{"server": "server.example"}, {"key": "short"}])
def test_init_refuses_invalid_options(tmp_path: Path, wrong: dict[str, str]) -> None:
    with pytest.raises(SettingsError):
        init(tmp_path / "proxy", **wrong)
    missing = tmp_path / "missing"
    with pytest.raises(SettingsError, match="missing"):
        run("init", tmp_path, "--server", "https://a", "--key", KEY, "--secret-file", missing)
    assert not (tmp_path / "proxy").exists()
    with pytest.raises(SettingsError, match=re.escape(str(tmp_path / "no.toml"))):
        run("run", "--config", tmp_path / "no.toml")

"""`sottovoce up`, `swarm` and `demo` as a person tries them: real processes, real sockets."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from sottovoce.cli.app import app
from sottovoce.cli.sandbox import LOCK
from sottovoce.errors import SettingsError, StoreError
from sottovoce.protocol import SignedManifest
from sottovoce.protocol.model import Panel
from sottovoce.proxy import ProxySettings
from sottovoce.sandbox.demo import REPORTS
from sottovoce.sandbox.system import LiveSystem, proxy_toml, server_toml, set_values
from sottovoce.server import Keys, ServerSettings
from sottovoce.service.toml import read_settings
from sottovoce.storage.database import exclusive_lock
from tests.processes import PATIENCE, calling, free_port, read_until, wait_until

CLIENTS, EPOCHS = 20, 2
DATA = "synthetic:N=60,M=30,seed=0"


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "sottovoce", *map(str, arguments)]


@contextmanager
def running(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`sottovoce up ...` until it says that it runs; what it said on stdout."""
    process = subprocess.Popen(
        command("up", *arguments), stdout=subprocess.PIPE, stderr=sys.stderr, text=True
    )
    assert process.stdout is not None
    try:
        yield process, read_until("Ctrl-C", process.stdout).string
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)
        process.stdout.close()


def swarm(*arguments: object) -> str:
    done = subprocess.run(
        command("swarm", *arguments), check=True, capture_output=True, text=True, timeout=120
    )
    return done.stdout


@pytest.mark.slow
def test_up_and_a_swarm_from_first_start_to_restart(tmp_path: Path) -> None:
    folder, report = tmp_path / "here", tmp_path / "swarm.json"
    port = free_port()
    options: tuple[object, ...] = ("--port", port)
    options += ("--epoch-seconds", 1, "--least-clients", CLIENTS, "--epochs", EPOCHS + 1)
    with running(folder, "--data", DATA, *options) as (process, said):
        key = Keys.read(folder / "server" / "keys.json").verification_key.hex()
        assert f"http://127.0.0.1:{port}" in said
        assert "only the local guarantee holds" in said
        assert f"client init --proxy http://127.0.0.1:{port} --key {key} --limit 750" in said
        assert f"sottovoce swarm --up {folder} --clients {CLIENTS}" in said
        size = ("--clients", CLIENTS, "--epochs", EPOCHS)
        shown = swarm("--up", folder, *size, "--json", report)
        assert "protects nobody" in " ".join(shown.split())
        check_report(json.loads(report.read_text()))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    with running(folder) as (process, said):
        assert f"Verification key: {key}\n" in said
        address = ("--proxy", f"http://127.0.0.1:{port}", "--key", key, "--data", DATA)
        arguments = ("--clients", CLIENTS, "--epochs", 5)
        swarm(*address, *arguments, "--json", report)
        # The training had one epoch left: it went on where it was, and then it was finished.
        (only,) = json.loads(report.read_text())["epochs"]
        assert (only["epoch"], only["sent"]) == (3, CLIENTS)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0


def check_report(found: dict[str, Any]) -> None:
    assert [each["epoch"] for each in found["epochs"]] == [1, 2]
    for each in found["epochs"]:
        assert each["outcomes"] == {"sent": CLIENTS}
        assert each["counted"] == CLIENTS * 100
        assert 0 <= each["metrics"]["hr@10"] <= 1
    assert found["ledgers_spent_at_most"] == EPOCHS * 100 * 2.5
    assert found["privacy"]["spans"][-1]["pure"] == EPOCHS * 100 * 2.5
    assert found["problems"] == []


@pytest.mark.slow
def test_if_one_ends_the_other_is_stopped_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "here"
    with monkeypatch.context() as patched:
        made(folder, patched, "--data", DATA, "--port", free_port())
    server_port = ServerSettings.read(server_toml(folder)).listen.port
    (read_settings(proxy_toml(folder), ProxySettings).folder / "proxy.sqlite3").mkdir(parents=True)
    done = subprocess.run(
        command("up", folder), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert "sottovoce: the proxy ended by itself with code" in done.stderr
    assert "proxy | " in done.stderr
    with socket.create_server(("127.0.0.1", server_port)):
        pass  # the server is gone as well


def made(folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    """Set up and changed, but not run."""
    monkeypatch.setattr("sottovoce.cli.sandbox._run_up", lambda *_: None)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    calling(app)("up", folder, *arguments)


def test_a_first_start_on_a_taken_port_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, port = tmp_path / "here", free_port()
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(SettingsError, match=str(port)),
    ):
        made(folder, monkeypatch, "--data", DATA, "--port", port)
    assert not folder.exists()
    made(folder, monkeypatch, "--data", DATA, "--port", port)


def test_options_are_written_to_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, port = tmp_path / "here", free_port()
    sites = ("http://localhost:8000", "https://shop.example")
    with pytest.raises(SettingsError):
        made(folder, monkeypatch, "--origin", f"{sites[0]}/")
    named = [word for site in sites for word in ("--origin", site)]
    chosen = ("--preset", "strong", "--port", port, "--least-clients", 133, *named)
    made(folder, monkeypatch, "--data", DATA, *chosen)
    server = ServerSettings.read(server_toml(folder))
    proxy = read_settings(proxy_toml(folder), ProxySettings)
    assert (proxy.listen.port, proxy.rate.batches_per_minute, proxy.rate.per_epoch) == (port, 0, 0)
    ports = {proxy.listen.port, server.listen.port, proxy.watch.port, server.watch.port}
    assert len(ports) == 4
    assert proxy.server == f"http://127.0.0.1:{server.listen.port}"
    assert max(server.heartbeat, proxy.poll_seconds) <= 1
    assert (server.terms.least_clients, proxy.least_clients) == (133, 133)
    assert (server.training.epochs, server.training.lifetime) == (4, 0)
    assert server.training.half_life > 0
    assert proxy.origins == sites
    system = LiveSystem.read(folder)
    assert (system.least_clients, system.data) == (133, DATA)
    assert system.proxy == f"http://127.0.0.1:{port}"
    assert system.server_watch == f"http://127.0.0.1:{server.watch.port}"
    assert system.proxy_watch == f"http://127.0.0.1:{proxy.watch.port}"


def test_a_later_start_takes_no_options_and_follows_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "here"
    made(folder, monkeypatch, "--data", DATA, "--epochs", 7)
    keys = ServerSettings.read(server_toml(folder)).keys.read_bytes()
    for again in (("--data", DATA), ("--least-clients", 5), ("--epochs", 9), ("--budget", 50)):
        with pytest.raises(SettingsError):
            made(folder, monkeypatch, *again)
    set_values(server_toml(folder), {("training", "epochs"): 9})
    made(folder, monkeypatch)
    page = read_settings(proxy_toml(folder), ProxySettings).page
    assert "in each of 9 epochs" in page.statement
    assert ServerSettings.read(server_toml(folder)).keys.read_bytes() == keys


def test_a_first_start_that_failed_or_was_cut_short_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "here"
    (folder / "unfinished" / "server").mkdir(parents=True)
    (folder / "server").mkdir()
    (folder / "up.json").touch()
    with pytest.raises(SettingsError):
        made(folder, monkeypatch, "--data", DATA, "--preset", "quiet")
    with pytest.raises(SettingsError):
        LiveSystem.read(folder)
    made(folder, monkeypatch, "--data", DATA)
    left = sorted(path.name for path in folder.iterdir())
    assert left == ["proxy", "server", "up.json", "up.lock"]
    assert LiveSystem.read(folder).data == DATA


def test_a_folder_that_is_running_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else is asked for, and before a port is tried."""
    folder = tmp_path / "here"
    made(folder, monkeypatch, "--data", DATA)
    again = ("--data", DATA, "--epoch-seconds", 7)
    with (
        exclusive_lock(folder / LOCK, "taken"),
        pytest.raises(StoreError),
    ):
        made(folder, monkeypatch, *again)
    assert ServerSettings.read(server_toml(folder)).epoch_seconds != 7


def test_a_folder_of_somebody_else_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = tmp_path / "server" / "keys.json"
    keys.parent.mkdir()
    keys.write_text("precious")
    with pytest.raises(SettingsError, match="server is in there"):
        made(tmp_path, monkeypatch, "--data", DATA)
    assert [path.name for path in tmp_path.iterdir()] == ["server"]
    with pytest.raises(SettingsError):
        made(keys / "below", monkeypatch, "--data", DATA)
    assert keys.read_text() == "precious"


SMALL = ("--people", "30", "--films", "40", "--epochs", "2", "--epoch-seconds", "2")


@contextmanager
def started(temporary: Path, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """In a session of its own, by which everything that it starts is known."""
    with (temporary.parent / "stderr").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "sottovoce", "demo", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            env={**os.environ, "TMPDIR": str(temporary)},
            start_new_session=True,
        )
    assert process.stdout is not None
    try:
        yield process
    finally:
        for left in session_of(process.pid):
            os.kill(left, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def session_of(leader: int) -> list[int]:
    """Who lives in that session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(session) == leader and state != "Z":
            found.append(int(stat.parent.name))
    return found


def check_gone(process: subprocess.Popen[str], temporary: Path) -> None:
    """No process, no file, no traceback."""
    assert process.wait(PATIENCE) == 0
    wait_until(lambda: not session_of(process.pid), "all processes to end")
    assert list(temporary.iterdir()) == []
    said = (temporary.parent / "stderr").read_text()
    assert "Traceback" not in said
    assert "Stopped." in said


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    (tmp_path / "temporary").mkdir()
    return tmp_path / "temporary"


@pytest.mark.slow
def test_a_demo_from_its_start_to_ctrl_c(temporary: Path) -> None:
    with started(temporary, *SMALL, "--no-browser") as process:
        assert process.stdout is not None
        address = read_until("The page: (http://.*)$", process.stdout)[1]
        with httpx.Client(base_url=address, trust_env=False) as http:
            key = check_page(http)
            read_until(r"epoch  1/2 .* HR@10 0\.\d{3}  popularity 0\.\d{3}", process.stdout)
            read_until("The model is finished", process.stdout)
            check_epochs(http, key)
        process.send_signal(signal.SIGINT)
        check_gone(process, temporary)


def check_page(http: httpx.Client) -> bytes:
    index = http.get("/")
    assert "default-src 'none'" in index.headers["content-security-policy"]
    assert f"sends {REPORTS} reports" in index.text
    panel = Panel.decode(http.get("/page/panel.json").content)
    found = re.search('name="sottovoce-key" content="([0-9a-f]{64})"', index.text)
    assert found is not None
    key = bytes.fromhex(found[1])
    manifest = SignedManifest.open(http.get("/v2/manifest").content, key).manifest
    assert panel.catalogue == manifest.catalogue
    assert (manifest.terms.reports, manifest.closes - manifest.opens) == (REPORTS, 2)
    return key


def check_epochs(http: httpx.Client, key: bytes) -> None:
    """Every model so far is still there, for the page's curve."""
    last = SignedManifest.open(http.get("/v2/manifest").content, key).manifest
    assert last.public_key is None
    for epoch in range(1, last.epoch + 1):
        signed = SignedManifest.open(http.get(f"/v2/manifests/{epoch}").content, key)
        assert http.get(f"/v2/models/{signed.manifest.model.hex()}").status_code == 200


def test_told_to_stop_while_it_starts(temporary: Path) -> None:
    with started(temporary, *SMALL, "--no-browser") as process:
        wait_until(lambda: list(temporary.iterdir()), "a first file")
        process.send_signal(signal.SIGTERM)
        check_gone(process, temporary)


@pytest.fixture(autouse=True)
def no_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process goes on after a command that was refused."""
    monkeypatch.setattr("sottovoce.sandbox.system.signal.signal", lambda *_: None)

"""`sottovoce demo` as a person tries it: real processes, real sockets, and a clean end."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from sottovoce.cli.app import app
from sottovoce.cli.sandbox import can_open
from sottovoce.errors import SettingsError
from sottovoce.protocol import SignedManifest
from sottovoce.protocol.model import Panel
from sottovoce.sandbox.demo import REPORTS
from tests.processes import PATIENCE, calling, read_until, wait_until

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
    statement = f"Each person sends {REPORTS} reports of four bytes in each of 2 epochs"
    assert statement in index.text
    assert "only the local guarantee holds" in index.text
    assert "Everybody else who reports is invented" in index.text
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


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_told_to_stop_while_it_starts(temporary: Path, sign: signal.Signals) -> None:
    with started(temporary, *SMALL, "--no-browser") as process:
        wait_until(lambda: list(temporary.iterdir()), "a first file")
        process.send_signal(sign)
        check_gone(process, temporary)


def refused(*arguments: object) -> str:
    with pytest.raises(SettingsError) as caught:
        calling(app, "demo", *SMALL, "--no-browser")(*arguments)
    return str(caught.value)


@pytest.fixture(autouse=True)
def no_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process goes on after a command that was refused."""
    monkeypatch.setattr("sottovoce.sandbox.system.signal.signal", lambda *_: None)


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port} is taken" in refused("--port", port)


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("precious")
    assert "is not a folder" in refused("--folder", file)
    assert "is not empty" in refused("--folder", tmp_path)
    assert "cannot be made" in refused("--folder", file / "below")
    assert file.read_text() == "precious"


def test_more_films_than_there_are() -> None:
    assert "films, found 99999" in refused("--films", 99_999)


@pytest.mark.parametrize(
    ("environment", "platform", "terminal", "opens"),
    [
        ({"DISPLAY": ":0"}, "linux", True, True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True, True),
        ({}, "linux", True, False),
        ({}, "darwin", True, True),
        ({"DISPLAY": ":0"}, "linux", False, False),
        ({"DISPLAY": ":10", "SSH_CONNECTION": "a b"}, "linux", True, False),
    ],
)
def test_a_browser_is_opened_where_somebody_sees_it(
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    platform: str,
    terminal: bool,
    opens: bool,
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    assert can_open(environment, platform) is opens

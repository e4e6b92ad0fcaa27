"""`sottovoce up`: what its first and its later starts write, read and refuse."""

import socket
from pathlib import Path

import numpy as np
import pytest

from sottovoce.cli.app import app
from sottovoce.cli.sandbox import LOCK_FILE
from sottovoce.data import load
from sottovoce.errors import SettingsError, StoreError
from sottovoce.protocol.terms import TRIAL_SENTENCE
from sottovoce.proxy import ProxySettings
from sottovoce.sandbox.people import COMPANIONS_PER_EPOCH
from sottovoce.sandbox.setup import LiveSystem, get_proxy_config, get_server_config, set_values
from sottovoce.server import ServerSettings
from sottovoce.service.toml import read_settings
from sottovoce.simulation.start import encode_start
from sottovoce.storage.database import exclusive_lock
from sottovoce.training.start import Provenance, Start
from tests.processes import free_port, make_caller

DATA = "synthetic:N=60,M=30,seed=0"


def made(folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    """Set up a system with these options, but do not run it."""
    monkeypatch.setattr("sottovoce.cli.sandbox._run_up", lambda *_: None)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    make_caller(app)("up", folder, *arguments)


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
    chosen = ("--preset", "strong", "--port", port, "--min-clients", 133, *named)
    made(folder, monkeypatch, "--data", DATA, *chosen)
    server = ServerSettings.read(get_server_config(folder))
    proxy = read_settings(get_proxy_config(folder), ProxySettings)
    assert (proxy.listen.port, proxy.rate.batches_per_minute, proxy.rate.per_epoch) == (port, 0, 0)
    ports = {proxy.listen.port, server.listen.port, proxy.watch.port, server.watch.port}
    assert len(ports) == 4
    assert proxy.server == f"http://127.0.0.1:{server.listen.port}"
    assert max(server.heartbeat, proxy.poll_seconds) <= 1
    assert (server.terms.min_clients, proxy.min_clients) == (133, 1)
    assert server.training.dummies > 0
    assert server.training.half_life > 0
    assert proxy.origins == sites
    system = LiveSystem.read(folder)
    assert (system.min_clients, system.data, system.origins) == (133, DATA, sites)
    assert system.proxy == f"http://127.0.0.1:{port}"
    assert system.server_watch == f"http://127.0.0.1:{server.watch.port}"
    assert system.proxy_watch == f"http://127.0.0.1:{proxy.watch.port}"
    spent = server.training.epsilon * server.training.reports * server.training.max_turns
    assert system.limit == spent


def test_a_service_without_reports_has_a_limit_of_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, start = tmp_path / "here", tmp_path / "a.safetensors"
    items = tuple(str(item) for item in load(DATA).item_ids)
    V = np.ones((len(items), 2), np.float32)
    start.write_bytes(encode_start(Start(V, items, Provenance("People", 6, None, "public"))))
    made(folder, monkeypatch, "--data", DATA, "--start", start, "--no-reports")
    assert not ServerSettings.read(get_server_config(folder)).collect_reports
    system = LiveSystem.read(folder)
    assert (system.collects_reports, system.limit) == (False, 0)


def test_crowd_is_one_person_if_dummies_hide_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, options, least in (("both", ("--preset", "strong"), 1), ("one", (), 100)):
        folder = tmp_path / name
        made(folder, monkeypatch, "--data", DATA, "--port", free_port(), *options)
        assert LiveSystem.read(folder).min_clients == least


def test_trial_is_marked_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "here"
    for plan in (("--budget", 50), ("--central-budget", 1), ("--people", 9), ("--no-reports",)):
        with pytest.raises(SettingsError):
            made(folder, monkeypatch, "--trial", "--data", DATA, *plan)
    made(folder, monkeypatch, "--trial", "--data", DATA, "--port", free_port())
    server, system = ServerSettings.read(get_server_config(folder)), LiveSystem.read(folder)
    page = read_settings(get_proxy_config(folder), ProxySettings).page
    assert server.terms.trial
    assert system.trial
    assert system.min_clients < COMPANIONS_PER_EPOCH, (
        "an epoch ends also without the one who tries it"
    )
    assert server.training.share == 1, "nobody sits out"
    assert page.notice == TRIAL_SENTENCE
    assert page.statement.startswith(TRIAL_SENTENCE)


def test_later_start_uses_the_settings_and_refuses_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "here"
    made(folder, monkeypatch, "--data", DATA, "--epochs", 7)
    keys = ServerSettings.read(get_server_config(folder)).keys.read_bytes()
    for again in (("--data", DATA), ("--min-clients", 5), ("--epochs", 9), ("--budget", 50)):
        with pytest.raises(SettingsError):
            made(folder, monkeypatch, *again)
    set_values(get_server_config(folder), {("training", "epochs"): 9})
    made(folder, monkeypatch)
    page = read_settings(get_proxy_config(folder), ProxySettings).page
    assert "at most 9 reports" in page.statement, "nine epochs of one"
    assert ServerSettings.read(get_server_config(folder)).keys.read_bytes() == keys


def test_unfinished_first_start_is_repeated(
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


def test_running_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # It is refused before a port is tried, with any other options.
    folder = tmp_path / "here"
    made(folder, monkeypatch, "--data", DATA)
    again = ("--data", DATA, "--epoch-seconds", 7)
    with (
        exclusive_lock(folder / LOCK_FILE, "taken"),
        pytest.raises(StoreError),
    ):
        made(folder, monkeypatch, *again)
    assert ServerSettings.read(get_server_config(folder)).epoch_seconds != 7


def test_folder_with_other_files_is_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = tmp_path / "server" / "keys.json"
    keys.parent.mkdir()
    keys.write_text("precious")
    with pytest.raises(SettingsError, match=rf"{tmp_path}.*\bserver\b"):
        made(tmp_path, monkeypatch, "--data", DATA)
    assert [path.name for path in tmp_path.iterdir()] == ["server"]
    with pytest.raises(SettingsError):
        made(keys / "below", monkeypatch, "--data", DATA)
    assert keys.read_text() == "precious"


@pytest.fixture(autouse=True)
def no_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep this process alive after a command that was refused."""
    monkeypatch.setattr("sottovoce.sandbox.processes.signal.signal", lambda *_: None)

"""`sottovoce server`: set up, run, look, change, stop."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import get_args

import httpx
import numpy as np
import pytest
from typer.testing import CliRunner

from sottovoce.cli.server import CLOSING_CONSEQUENCES, app, open_store
from sottovoce.errors import SettingsError
from sottovoce.protocol import Catalogue, Chunk, Item, SignedManifest
from sottovoce.protocol.contact import Contact, Crowd, Reply
from sottovoce.server import InProcessOpener, Keys, Server, ServerSettings, ServerStore
from sottovoce.simulation.start import encode_start
from sottovoce.training import Budget, plan_open_ended
from sottovoce.training.start import Provenance, Start
from tests.processes import free_port, make_caller, read_until, wait_until
from tests.server.changes import read_pending

call = make_caller(app)


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    path = tmp_path / "films.json"
    path.write_bytes(Catalogue.from_items(Item(f"f{n}", f"Film {n}") for n in range(12)).raw)
    return path


def test_init_creates_everything_that_run_needs(tmp_path: Path, catalogue: Path) -> None:
    folder = tmp_path / "new" / "server"
    shown = call("init", folder, "--catalogue", catalogue, "--proxy", "east", "--proxy", "west")
    settings = ServerSettings.read(folder / "server.toml")
    keys = Keys.read(settings.keys)
    assert shown.strip() == keys.verification_key.hex()
    assert list(settings.proxies) == ["east", "west"]
    for name in settings.proxies:
        secret = folder / f"{name}.secret"
        assert secret.stat().st_mode & 0o777 == 0o600
        assert settings.find_proxy(secret.read_text().strip()) == name
    assert settings.catalogue.read_bytes() == catalogue.read_bytes()
    store = ServerStore(settings.database)
    Server(store, keys, settings, opener=InProcessOpener()).tick()
    store.close()


@pytest.mark.parametrize("exists", [False, True])
def test_init_creates_files_for_their_owner_only(
    tmp_path: Path, catalogue: Path, exists: bool
) -> None:
    """Try a folder that others may read, and a umask that lets them."""
    folder = tmp_path / "server"
    before = os.umask(0o022)
    try:
        if exists:
            folder.mkdir()
        call("init", folder, "--catalogue", catalogue)
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == (0o755 if exists else 0o700)
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert {"keys.json", "proxy.secret", "server.sqlite", "server.toml"} <= set(modes)
    assert set(modes.values()) == {0o600}


def test_init_writes_the_settings_of_the_planner(tmp_path: Path, catalogue: Path) -> None:
    """They are in the file, where the operator sees them and where they stay."""
    folder = tmp_path / "s"
    call("init", folder, "--catalogue", catalogue, "--budget", "50", "--people", "20000")
    training = ServerSettings.read(folder / "server.toml").training
    assert training == plan_open_ended(20_000, 12, budget=Budget(local=50))
    text = (folder / "server.toml").read_text()
    assert f"\nlifetime = {training.lifetime}  # " in text
    assert "\n# learning_rate = " in text
    call("init", tmp_path / "ends", "--catalogue", catalogue, "--ends", "--epochs", 7)
    ends = ServerSettings.read(tmp_path / "ends" / "server.toml").training
    assert (ends.half_life, ends.epochs) == (0, 7)


def make_start() -> Start:
    V = np.random.default_rng(0).random((11, 2)).astype(np.float32)
    provenance = Provenance("Volunteers", 600, "2026-01-31", "they published theirs")
    return Start(V, (*(f"f{n}" for n in range(10)), "gone"), provenance)


@pytest.mark.parametrize(
    ("options", "collects", "factors"),
    [
        (("--budget", 10, "--people", 2000), True, 3),
        (("--budget", 1, "--people", 100, "--learn", "taste"), False, 2),
        (("--no-reports",), False, 2),
    ],
)
def test_init_begins_with_a_start_and_spends_nothing_for_nothing(
    tmp_path: Path,
    catalogue: Path,
    options: tuple[object, ...],
    collects: bool,
    factors: int,
) -> None:
    start = make_start()
    provenance = start.provenance
    file, folder = tmp_path / "a.safetensors", tmp_path / "server"
    file.write_bytes(encode_start(start))
    call("init", folder, "--catalogue", catalogue, "--start", file, *options)
    file.unlink()
    settings = ServerSettings.read(folder / "server.toml")
    assert (settings.collect_reports, settings.training.factors) == (collects, factors)
    source = "First lists come from public data: Volunteers (600 people, until 2026-01-31; they"
    assert source in " ".join(call("status", "--config", folder / "server.toml").split())
    store = ServerStore(settings.database)
    server = Server(store, Keys.read(settings.keys), settings, opener=InProcessOpener())
    server.tick()
    manifest = server.get_signed_manifest().manifest
    assert (manifest.start, manifest.public_key is not None) == (provenance, collects)
    store.close()


@pytest.mark.parametrize(
    "options", [(), ("--budget", 10), ("--people", 9), ("--learn", "taste"), ("--epochs", 3)]
)
def test_init_without_reports_needs_a_start_and_plans_nothing(
    tmp_path: Path, catalogue: Path, options: tuple[object, ...]
) -> None:
    # The start is read first, so a file that is missing would be another error.
    start = tmp_path / "a.safetensors"
    start.write_bytes(encode_start(make_start()))
    more = ("--start", start) if options else ()
    with pytest.raises(SettingsError, match="--no-reports"):
        call("init", tmp_path / "s", "--catalogue", catalogue, "--no-reports", *options, *more)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    "name", ["server.toml", "keys.json", "catalogue.json", "proxy.secret", "server.sqlite"]
)
def test_init_overwrites_nothing_and_leaves_nothing_behind(
    tmp_path: Path, catalogue: Path, name: str
) -> None:
    call("init", tmp_path / "first", "--catalogue", catalogue)
    folder = tmp_path / "second"
    folder.mkdir()
    before = (tmp_path / "first" / name).read_bytes()
    (folder / name).write_bytes(before)
    with pytest.raises(SettingsError):
        call("init", folder, "--catalogue", catalogue)
    assert [path.name for path in folder.iterdir()] == [name]
    assert (folder / name).read_bytes() == before


@pytest.mark.parametrize(
    "options",
    [
        ("--data", "ml-1m"), ("--preset", "quiet"), ("--epoch-seconds", "0"),
        ("--port", "7000", "--watch-port", "7000"), ("--proxy", "east", "--proxy", "east"),
        ("--proxy", "../up"), ("--columns", "item=a"),
    ],
)  # fmt: skip
def test_init_refuses_impossible_settings(
    tmp_path: Path, catalogue: Path, options: tuple[str, ...]
) -> None:
    with pytest.raises(SettingsError):
        call("init", tmp_path / "s", "--catalogue", catalogue, *options)
    with pytest.raises(SettingsError):
        call("init", tmp_path / "s")
    with pytest.raises(SettingsError):
        call("init", tmp_path / "s", "--catalogue", tmp_path / "none.json")
    assert not (tmp_path / "s").exists()


def test_init_does_not_change_the_database_of_another_server(
    tmp_path: Path, catalogue: Path
) -> None:
    # It creates no folder, either.
    url = f"sqlite:///{tmp_path / 'shared.sqlite'}"
    key = call("init", tmp_path / "a", "--catalogue", catalogue, "--database", url).strip()
    with pytest.raises(SettingsError, match=key):
        call("init", tmp_path / "b" / "c", "--catalogue", catalogue, "--database", url)
    assert not (tmp_path / "b").exists()


@pytest.fixture
def config(tmp_path: Path, catalogue: Path) -> Path:
    paper = ("--preset", "paper")
    call("init", tmp_path / "s", "--catalogue", catalogue, "--epoch-seconds", 1, *paper)
    return tmp_path / "s" / "server.toml"


def test_exit_codes_of_status(config: Path, tmp_path: Path) -> None:
    """Check the exit codes only; `tests/server/test_status.py` has the texts."""
    written = tmp_path / "status.json"
    asked = ("status", "--config", config, "--json", written)
    assert call(*asked).endswith("All is well.\n")
    assert json.loads(written.read_text())["next"] == {
        "training": 1,
        "catalogue_version": 1,
        "items": 12,
        "max_items": 24,
        "learns": "taste",
    }
    (config.parent / "keys.json").unlink()
    with pytest.raises(SystemExit) as ended:
        call(*asked)
    assert ended.value.code == 1
    assert json.loads(written.read_text())["problems"]
    (config.parent / "server.sqlite").unlink()
    with pytest.raises(SettingsError):  # exit code 2
        call(*asked)
    assert not (config.parent / "server.sqlite").exists()


@pytest.mark.parametrize(
    "command", [("run",), ("status",), ("go-beyond", "1"), ("training", "begin", "--yes")]
)
def test_missing_database_is_refused_and_not_created(
    config: Path, command: tuple[str, ...]
) -> None:
    config.write_text(config.read_text().replace("server.sqlite", "sever.sqlite"))
    with pytest.raises(SettingsError, match=str(config.parent / "sever.sqlite")):
        call(*command, "--config", config)
    assert not (config.parent / "sever.sqlite").exists()


def test_backup_is_written(config: Path, tmp_path: Path) -> None:
    copy = tmp_path / "monday.sqlite"
    assert "monday.sqlite. Keep the keys" in call("backup", "--config", config, copy)
    with closing(ServerStore(f"sqlite:///{copy}")) as store, store.read() as transaction:
        assert transaction.find_training() is not None


@contextmanager
def running(config: Path) -> Iterator[subprocess.Popen[str]]:
    """Run `sottovoce server run` in a process of its own, as an operator does."""
    process = subprocess.Popen(
        [sys.executable, "-m", "sottovoce", "server", "run", "--config", str(config)],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        read_until("(?s)running on http.*running on http", process.stderr)
        yield process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def openers(process: subprocess.Popen[str]) -> list[int]:
    """Return processes that the server started: none before its first chunk is being opened."""
    threads = Path(f"/proc/{process.pid}/task").glob("*/children")
    return [int(child) for listed in threads for child in listed.read_text().split()]


class Operator:
    """A server that was set up, and a proxy's view of it while it runs."""

    def __init__(self, folder: Path, catalogue: Path):
        port = free_port()
        call("init", folder, "--catalogue", catalogue, "--port", port, "--epoch-seconds", 1)
        self.config = folder / "server.toml"
        text = self.config.read_text().replace("heartbeat = 5.0", "heartbeat = 0.05")
        self.config.write_text(text.replace("port = 8091", "port = 0"))
        self._url = f"http://127.0.0.1:{port}"
        self._key = Keys.read(folder / "keys.json").verification_key
        secret = (folder / "proxy.secret").read_text().strip()
        self._headers = {"Authorization": f"Bearer {secret}"}

    def close_first_epoch(self) -> SignedManifest:
        """Return the manifest of the first epoch after it has closed with its crowd."""
        signed = SignedManifest.open(httpx.get(f"{self._url}/v2/manifest").content, self._key)
        wait_until(lambda: self._tell(signed) == "closed", "the first epoch to close")
        return signed

    def _tell(self, signed: SignedManifest) -> str:
        contact = Contact(1, signed.hash, "enough", time.time(), None).encode()
        answer = httpx.post(f"{self._url}/v2/contact", content=contact, headers=self._headers)
        return Reply.decode(answer.content).state

    def put(self, chunk: Chunk) -> int:
        path = f"{self._url}/v2/epochs/1/chunks/{chunk.name}"
        answer = httpx.put(path, content=chunk.encode(), headers=self._headers, timeout=60)
        return answer.status_code


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watches processes as Linux does")
def test_openers_end_with_a_killed_server(tmp_path: Path, catalogue: Path) -> None:
    operator = Operator(tmp_path, catalogue)
    with running(operator.config) as process:
        chunk = Chunk(1, operator.close_first_epoch().hash, bytes(52 * 500))
        assert operator.put(chunk) == 200
        watched = [os.pidfd_open(opener) for opener in openers(process)]
        assert watched
        process.kill()
        for handle in watched:
            ended, _, _ = select.select([handle], [], [], 30)
            os.close(handle)
            assert ended


@pytest.fixture
def begun(config: Path) -> Path:
    """Return the settings file of a server whose first epoch is open."""
    beat(config)
    return config


def beat(config: Path) -> SignedManifest:
    settings = ServerSettings.read(config)
    store = ServerStore(settings.database)
    server = Server(store, Keys.read(settings.keys), settings, opener=InProcessOpener())
    server.tick()
    signed = server.get_signed_manifest()
    store.close()
    return signed


def items(config: Path) -> dict[str, str]:
    store = ServerStore(ServerSettings.read(config).database)
    pending = read_pending(store).catalogue.items
    store.close()
    return {item.id: item.title for item in pending}


def update(config: Path, *arguments: object) -> str:
    return call("catalogue", "update", "--config", config, *arguments)


def test_new_catalogue_is_compared_and_then_used(begun: Path, tmp_path: Path) -> None:
    wanted = tmp_path / "all.tsv"
    lines = [f"f{n}\tFilm {n}\t{1990 + n}" for n in reversed(range(3, 12))]
    wanted.write_text("\n".join(["item\ttitle\tyear", *lines, "new\tNew\t2001"]))
    shown = update(begun, wanted, "--dry-run")
    for count in ("1 added", "9 changed", "3 retired"):
        assert count in shown
    assert "Version" not in shown
    assert "14 more items may come in this training." in shown
    assert len(items(begun)) == 12
    assert "This is version 2 of the catalogue" in update(begun, wanted)
    assert list(items(begun)) == [*(f"f{n}" for n in range(3, 12)), "new"]
    assert "nothing was changed" in update(begun, wanted)
    saved = tmp_path / "saved.json"
    with pytest.raises(SystemExit):  # no worker runs
        call("status", "--config", begun, "--catalogue", saved)
    assert Catalogue.decode(saved.read_bytes()).items[0].tags == {"year": 1993}
    feed = tmp_path / "products_export.csv"
    handles = [*(f"f{n}" for n in range(3, 12)), "f3", "tea"]
    rows = [f"{handle},Film,Drinks > Tea,4.50,{handle != 'f11'}" for handle in handles]
    feed.write_text("\n".join(["Handle,Title,Product Category,Variant Price,Published", *rows]))
    assert "1 added" in update(begun, feed)
    assert list(items(begun)) == [*(f"f{n}" for n in range(3, 11)), "tea"]
    wanted.write_text("item\nf3")  # an export that was cut short
    with pytest.raises(SettingsError):
        update(begun, wanted)
    wanted.write_text("item\n" + "\n".join(f"f{n}" for n in range(25)))
    with pytest.raises(SettingsError, match="24"):  # more than devices agreed to
        update(begun, wanted)


def test_an_epoch_that_waits_is_closed_after_its_time(
    begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closes = beat(begun).manifest.closes
    monkeypatch.setattr(time, "time", lambda: closes - 0.5)
    with pytest.raises(SettingsError, match="0:00:0"):
        call("epoch", "close", "--config", begun, "--yes")
    monkeypatch.setattr(time, "time", lambda: closes + 1.0)
    output = call("epoch", "close", "--config", begun, "--yes")
    assert "Epoch 1 is closed." in output
    assert "has not contacted the server" in output
    assert "the model does not change" in output


def test_every_state_of_a_crowd_has_a_consequence_when_its_epoch_is_closed() -> None:
    assert set(CLOSING_CONSEQUENCES) == {*get_args(Crowd), None}


def test_another_training_begins_after_confirmation(begun: Path) -> None:
    before = beat(begun).manifest.terms.training
    asked = CliRunner().invoke(app, ["training", "begin", "--config", str(begun)], input="n\n")
    assert asked.exit_code == 1
    assert "Every device will ask for consent" in asked.output
    text = begun.read_text()
    assert "\nepsilon" not in text
    begun.write_text(text.replace("[training]\n", "[training]\nepsilon = 3.5\n"))
    with pytest.raises(SettingsError):
        beat(begun)
    shown = " ".join(call("training", "begin", "--config", begun, "--yes").split())
    assert "Training 2 (" in shown
    assert "begins after the present epoch" in shown
    assert beat(begun).manifest.terms.training == before, "the present epoch goes on"
    old = begun.with_name("old.toml")
    old.write_text(text)
    CliRunner().invoke(app, ["status", "--config", str(old)])
    with open_store(begun) as (_, store):
        assert read_pending(store).training.settings.epsilon == 3.5, "a status changes nothing"
    assert "Training 1 continues." in call("training", "begin", "--config", begun, "--cancel")
    with open_store(begun) as (_, store):
        assert read_pending(store).training.settings.epsilon != 3.5


def test_the_signing_key_is_replaced(begun: Path) -> None:
    path = ServerSettings.read(begun).keys
    before = Keys.read(path)
    shown = call("keys", "rotate", "--config", begun)
    after = Keys.read(path)
    assert shown.strip().endswith(after.verification_key.hex())
    assert (after.first_key, after.wrapping) == (before.first_key, before.wrapping)
    assert after.verification_key != before.verification_key
    assert before.signing.hex() not in path.read_text()
    assert beat(begun).key == before.verification_key, "what is published stays"
    assert [file.name for file in path.parent.glob(".keys*")] == []

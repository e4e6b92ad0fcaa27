"""`sottovoce up`, `swarm`, `demo` and containers as a person tries them: real processes."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from sottovoce.client import Client, HttpProxy
from sottovoce.protocol import SignedManifest
from sottovoce.protocol.panel import Panel
from sottovoce.proxy import ProxySettings
from sottovoce.sandbox.setup import get_proxy_config, get_server_config
from sottovoce.sandbox.shop import VOLUNTEERS_FILE
from sottovoce.sandbox.swarm import sync_client
from sottovoce.server import Keys, ServerSettings, ServerStore
from sottovoce.service.toml import read_settings
from tests.cli.test_sandbox import DATA, made
from tests.lacking import leave_out
from tests.nightly.shopper import Shopper, shopper
from tests.processes import MAX_WAIT_SECONDS, free_port, read_until, wait_until
from tests.server import postgres
from tests.test_deploy import (
    COMPOSE,
    CONTAINERFILE,
    WATCH_PORT_VARIABLE,
    read_environment,
    read_yaml,
)

__all__ = ["shopper"]
N_CLIENTS = 20
N_EPOCHS = 2
# Epsilon of a lifetime, which is planned as several reports in each epoch.
BUDGET = 30


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "sottovoce", *map(str, arguments)]


@contextmanager
def run_up(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `sottovoce up ...`; yield the process and its output up to the start."""
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
@pytest.mark.parametrize(("learn", "reports"), [("taste", 3), ("names", 2)])
def test_up_and_a_swarm_from_first_start_to_restart(
    tmp_path: Path, learn: str, reports: int
) -> None:
    folder, report = tmp_path / "here", tmp_path / "swarm.json"
    port = free_port()
    options: tuple[object, ...] = ("--port", port)
    options += ("--epoch-seconds", 1, "--min-clients", N_CLIENTS, "--epochs", N_EPOCHS + 1)
    options += ("--learn", learn, "--budget", BUDGET)
    with run_up(folder, "--data", DATA, *options) as (process, text):
        key = Keys.read(folder / "server" / "keys.json").verification_key.hex()
        assert f"http://127.0.0.1:{port}" in text
        assert "only the local guarantee holds" in text
        assert f"client init --proxy http://127.0.0.1:{port} --key {key} --limit {BUDGET}" in text
        assert f"sottovoce swarm --up {folder} --clients {N_CLIENTS}" in text
        size = ("--clients", N_CLIENTS, "--epochs", N_EPOCHS)
        shown = swarm("--up", folder, *size, "--json", report)
        assert "protects nobody" in " ".join(shown.split())
        check_report(json.loads(report.read_text()), reports)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    with run_up(folder) as (process, text):
        assert f"Verification key: {key}\n" in text
        address = ("--proxy", f"http://127.0.0.1:{port}", "--key", key, "--data", DATA)
        arguments = ("--clients", N_CLIENTS, "--epochs", 5)
        swarm(*address, *arguments, "--json", report)
        # The training had one epoch left, and was finished after it.
        (only,) = json.loads(report.read_text())["epochs"]
        assert (only["epoch"], only["sent"]) == (3, N_CLIENTS)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    if learn == "names":
        check_names(folder)


def check_names(folder: Path) -> None:
    """Check that as many names are estimated as people gave.

    The number of reports that name any item is binomial: 120 times 0.86. So the estimated part of
    all names has a deviation of 0.09; an honest service fails with probability below 1e-6.
    """
    settings = ServerSettings.read(get_server_config(folder))
    with closing(ServerStore(settings.database)) as store, store.read() as transaction:
        epoch = transaction.find_latest_epoch()
        assert epoch is not None
        named = transaction.get_name_counts(epoch.epoch)[2]
    assert 0.5 < named.sum() / (2 * (N_EPOCHS + 1) * N_CLIENTS) < 1.5


def check_report(report: dict[str, Any], reports: int) -> None:
    assert [epoch["epoch"] for epoch in report["epochs"]] == [1, 2]
    for epoch in report["epochs"]:
        assert epoch["outcomes"] == {"sent": N_CLIENTS}
        assert epoch["counted"] == N_CLIENTS * reports
    spent = pytest.approx(BUDGET * N_EPOCHS / (N_EPOCHS + 1))
    assert report["ledgers_spent_at_most"] == spent
    assert report["privacy"]["spans"][-1]["pure"] == spent
    assert report["problems"] == []


@pytest.mark.slow
def test_up_stops_the_server_if_the_proxy_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "here"
    with monkeypatch.context() as patched:
        made(folder, patched, "--data", DATA, "--port", free_port())
    database = read_settings(get_proxy_config(folder), ProxySettings).folder / "proxy.sqlite3"
    database.unlink()
    database.mkdir()
    process = subprocess.Popen(
        command("up", folder), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    _, text = process.communicate(timeout=120)
    left = list_session(process.pid)
    for process_id in left:
        os.kill(process_id, signal.SIGKILL)
    assert process.returncode == 2
    assert re.search(r"(?m)^sottovoce: .*\bproxy\b", text)
    assert "proxy | " in text
    assert left == [], "the server has ended, too"


SMALL_DEMO_OPTIONS = ("--people", "30", "--films", "40", "--epoch-seconds", "2")


@contextmanager
def start_demo(temporary: Path, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Start a demo in its own session, which identifies all its processes."""
    with (temporary.parent / "stderr").open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "sottovoce", "demo", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env={**os.environ, "TMPDIR": str(temporary)},
            start_new_session=True,
        )
    assert process.stdout is not None
    try:
        yield process
    finally:
        for left in list_session(process.pid):
            os.kill(left, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def list_session(leader: int) -> list[int]:
    """Return the processes of that session."""
    members = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(session) == leader and state != "Z":
            members.append(int(stat.parent.name))
    return members


def check_gone(process: subprocess.Popen[str], temporary: Path) -> None:
    """Check that no process, no file and no traceback is left."""
    assert process.wait(MAX_WAIT_SECONDS) == 0
    wait_until(lambda: not list_session(process.pid), "all processes to end")
    assert list(temporary.iterdir()) == []
    text = (temporary.parent / "stderr").read_text()
    assert "Traceback" not in text
    assert "Stopped." in text


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    (tmp_path / "temporary").mkdir()
    return tmp_path / "temporary"


@pytest.mark.slow
def test_a_demo_from_its_start_to_ctrl_c(temporary: Path) -> None:
    with start_demo(temporary, *SMALL_DEMO_OPTIONS, "--no-browser") as process:
        assert process.stdout is not None
        address = read_until("The page: (http://.*)$", process.stdout)[1]
        with httpx.Client(base_url=address, trust_env=False) as http:
            key = check_page(http)
            read_until(r"epoch  4  HR@10 0\.\d{3} with the model, 0\.\d{3} genres", process.stdout)
            check_epochs(http, key)
        process.send_signal(signal.SIGINT)
        check_gone(process, temporary)


def check_page(http: httpx.Client) -> bytes:
    index = http.get("/")
    assert "default-src 'none'" in index.headers["content-security-policy"]
    assert "A 50:50 guess about it is then right at most" in index.text
    panel = Panel.decode(http.get("/page/panel.json").content)
    match = re.search('name="sottovoce-key" content="([0-9a-f]{64})"', index.text)
    assert match is not None
    key = bytes.fromhex(match[1])
    manifest = SignedManifest.open(http.get("/v2/manifest").content, key).manifest
    assert panel.catalogue == manifest.catalogue
    terms = manifest.terms
    assert (terms.reports, terms.epochs, terms.share, terms.hold) == (1, 2, 1.0, 0)
    assert manifest.closes - manifest.opens == 2
    return key


def check_epochs(http: httpx.Client, key: bytes) -> None:
    """Check that all reports are counted, and that each model is there for the page's curve."""
    last = SignedManifest.open(http.get("/v2/manifest").content, key).manifest
    assert (last.reports_behind, last.epochs_left) == (30, 0)
    for epoch in range(1, last.epoch + 1):
        signed = SignedManifest.open(http.get(f"/v2/manifests/{epoch}").content, key)
        assert http.get(f"/v2/models/{signed.manifest.model.hex()}").status_code == 200


def test_a_demo_can_be_stopped_while_it_starts(temporary: Path) -> None:
    with start_demo(temporary, *SMALL_DEMO_OPTIONS, "--no-browser") as process:
        wait_until(lambda: list(temporary.iterdir()), "a first file")
        process.send_signal(signal.SIGTERM)
        check_gone(process, temporary)


class Containers:
    """The services of compose.yaml as processes: the folder is the image's home.

    Only the names of other containers and all ports are mapped.
    """

    def __init__(self, folder: Path, database: str):
        self.services = read_yaml(COMPOSE)["services"]
        self.folder = folder
        self.ports = {port: free_port() for port in (8080, 8081, 8090, 8091)}
        self._names = {
            "postgresql://sottovoce@database/sottovoce": shlex.quote(database),
            "http://server:8090": f"http://127.0.0.1:{self.ports[8090]}",
        }
        (folder / "bin").mkdir()
        program = folder / "bin" / "sottovoce"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m sottovoce "$@"\n')
        program.chmod(0o755)
        path = f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {**os.environ, **read_environment(), "PATH": path}
        self.environment["SOTTOVOCE_SERVICE"] += " --epochs 1"  # so that nobody sits out

    def init(self) -> subprocess.CompletedProcess[str]:
        *shell, script, name = self.services["init"]["entrypoint"]
        script = script.replace("$$", "$")
        for address, real in self._names.items():
            assert script.count(address) == 1
            script = script.replace(address, real)
        return subprocess.run(
            [*shell, script, name],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def settings(self, name: str) -> Path:
        *_, path = self.services[name]["command"]
        return self.folder / str(path)

    def map_ports(self, name: str) -> None:
        text = self.settings(name).read_text()
        for port, real in self.ports.items():
            text = text.replace(f"\nport = {port}\n", f"\nport = {real}\n")
        self.settings(name).write_text(text)

    @contextmanager
    def run_service(self, name: str, watch: int) -> Iterator[None]:
        """Run a service during the block; the image's own health check says when it is ready."""
        (check,) = re.findall("^HEALTHCHECK .* CMD (.*)$", CONTAINERFILE.read_text(), re.MULTILINE)
        asked = {**self.environment, WATCH_PORT_VARIABLE: str(self.ports[watch])}

        def is_ready() -> bool:
            assert process.poll() is None, f"the {name} has ended"
            done = subprocess.run(json.loads(check), env=asked, capture_output=True, check=False)
            return done.returncode == 0

        command = ["sottovoce", *self.services[name]["command"]]
        process = subprocess.Popen(command, cwd=self.folder, env=self.environment)
        try:
            wait_until(is_ready, f"the {name}")
            yield
        finally:
            process.terminate()
            process.wait(60)


def test_compose_sets_up_and_runs_a_system(tmp_path: Path) -> None:
    """Run without containers, on a real PostgreSQL, until a device has a list."""
    with ExitStack() as opened:
        try:
            database = opened.enter_context(postgres.run_postgres())
        except OSError as error:
            leave_out(f"compose.yaml on PostgreSQL ({error})")
        containers = Containers(tmp_path, database)
        done = containers.init()
        assert done.returncode == 0, done.stderr
        key = done.stdout.split()[0]
        files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        assert containers.init().returncode == 2
        assert files == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        for name, watch in (("server", 8091), ("proxy", 8081)):
            settings = tomllib.loads(containers.settings(name).read_text())
            assert settings["listen"]["host"] == "0.0.0.0"
            assert settings["watch"] == {"host": "127.0.0.1", "port": watch}
            containers.map_ports(name)
            opened.enter_context(containers.run_service(name, watch))
        url = f"http://127.0.0.1:{containers.ports[8080]}"
        http = opened.enter_context(httpx.Client(trust_env=False))
        origin = read_environment()["SOTTOVOCE_ORIGINS"]
        assert http.get(f"{url}/widget.js").status_code == 200
        manifest = http.get(f"{url}/v2/manifest", headers={"Origin": origin})
        assert manifest.headers["Access-Control-Allow-Origin"] == origin
        api = HttpProxy(http, url)
        trusted, place = bytes.fromhex(key), tmp_path / "device"
        with Client.create(place, proxy_url=url, verification_key=trusted, limit=1e6) as device:
            device.record(["1"])
            device.accept(device.fetch_manifest(api).terms, 1e6)
        assert sync_client(place, api, MAX_WAIT_SECONDS).outcome == "sent"
        with Client.open(place) as device:
            assert len(device.recommend(10)) == 10


@pytest.mark.slow
def test_in_the_toy_shop_any_name_has_an_account(
    tmp_path: Path, shopper: Callable[[str], Shopper]
) -> None:
    """Fetch a token in one visit and spend it in a later one, with one browser only.

    Volunteers also publish what they looked at, and nothing of it leaves before they confirm.
    """
    options: tuple[object, ...] = ("--epoch-seconds", 40, "--min-clients", 1, "--people", 2000)
    # With few epochs, everybody takes part in each.
    options += ("--budget", 50, "--epochs", 4)
    with run_up(tmp_path / "here", "--accounts", "--port", free_port(), *options) as (_, text):
        (address,) = re.findall(r"can log in: (\S+)", text)
        visitor = shopper(address)
        article = visitor.look_at_first_article()
        visitor.publish(confirm=False)
        server = tmp_path / "here" / "server"
        published = server / VOLUNTEERS_FILE
        assert not published.exists()
        visitor.publish(confirm=True)
        assert [row.split(",")[1] for row in published.read_text().split()] == ["item", article]
        start = (published, "--catalogue", server / "catalogue.json", "--licence", "published")
        out = ("--out", tmp_path / "start.safetensors")
        subprocess.run(command("start", *start, *out), check=True, timeout=60)
        visitor.log_in("ann")
        visitor.press("yes")
        config = ("--config", str(tmp_path / "here" / "server" / "server.toml"))

        def has_counted() -> bool:
            visitor.come_back(seconds=10)
            done = subprocess.run(
                command("server", "status", *config), capture_output=True, text=True, check=False
            )
            return re.search(r"counted 1 report\b", done.stdout) is not None

        assert any(has_counted() for _ in range(20))

"""Faults in operation: each is caused, seen and repaired (docs/operators.md, "Faults").

Each test checks what `status` says on both sides, who is ready, what the metrics show, and whether
a device that syncs meanwhile pays. After the repair the next epoch counts everybody.
"""

import re
import shutil
import sqlite3
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import uvicorn
from sqlalchemy import event, make_url

from sottovoce.client import Client
from sottovoce.errors import (
    ProtocolError,
    RefusedError,
    SottovoceError,
    StoreError,
    UnavailableError,
)
from sottovoce.protocol import SignedManifest
from sottovoce.proxy.status import ProxyStatus
from sottovoce.proxy.store import DATABASE_FILE
from sottovoce.server import Keys, ServerStore, build_app
from sottovoce.server.administration import go_beyond
from sottovoce.server.schema import SCHEMA_VERSION
from sottovoce.server.status import ServerStatus
from sottovoce.server.store import back_up
from sottovoce.service.heartbeat import Heartbeat
from sottovoce.service.watch import ProcessState
from sottovoce.storage.database import SCHEMA_VERSION as DATABASE_VERSION
from sottovoce.training import Settings
from tests.lacking import leave_out
from tests.live.conftest import quick_folder
from tests.live.killable import list_charged_epochs
from tests.live.stack import Gate, Stack, detach_tick
from tests.sampling import RUNS_ALL_CASES
from tests.server import postgres
from tests.server.world import KEYS, World
from tests.service.test_tls import Authority

OPERATORS_PAGE = Path(__file__).parents[2] / "docs" / "operators.md"
BATCH_REPORTS = 5
HOUR_SECONDS = 3600
# A skew that is reported, and one that pauses the service.
SMALL_SKEW_SECONDS = 300.0
LARGE_SKEW_SECONDS = 2 * 86_400.0
TRAINING = Settings.preset("loudest", reports=BATCH_REPORTS, epochs=9, factors=2, half_life=9.0)
DEVICE_NAMES = ("ann", "ben", "cat")
# What `status` says about a process that does not run.
DOWN_TEXT = "nothing answers: does it run?"
# What `status` says about the last epoch until the next one is counted.
EMPTY_EPOCH_TEXT = "counted no reports"


class Wire(httpx.BaseTransport):
    """The connection from the proxy to its server; `respond` may answer instead, or cut it."""

    def __init__(self, inner: httpx.BaseTransport):
        self._inner = inner
        self.respond: Callable[[httpx.Request], httpx.Response | None] = lambda _: None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self.respond(request) or self._inner.handle_request(request)


def refuse_connection(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused")


def pass_through(_: httpx.Request) -> None:
    """Do nothing."""


class System(Stack):
    """A server, the proxy east and three devices, over existing or new files."""

    def __init__(self, folder: Path, opened: ExitStack, now: float, **changes: Any):
        changes = {
            "training": TRAINING,
            "epoch_seconds": HOUR_SECONDS,
            "heartbeat": 60.0,
            **changes,
        }
        super().__init__(folder, opened, ("east",), now=now, chunk_reports=2, **changes)
        self.wire = self.http._transport = Wire(self.http._transport)
        self.reasons_down: dict[str, str] = {}
        """Why a part could not start, by its name."""
        self.undo: Callable[[], object] = lambda: None
        """Repairs the current fault, if nothing else does."""

    def begin(self) -> None:
        """Go to the third epoch, in which ben has reported, with a backup of both sides in each."""
        for name in DEVICE_NAMES:
            self.add_client(name, ["film-1", "film-7"]).close()
        for epoch in (1, 2, 3):
            if self.world.settings.database.startswith("sqlite"):
                back_up(self.world.settings.database, self.folder / f"server-{epoch}")
            self.copy_proxy(f"proxy-{epoch}")
            if epoch < 3:
                assert self.run_round() == len(DEVICE_NAMES)
        self.world.now += 2 * SMALL_SKEW_SECONDS
        assert self.sync("ben") == "sent"

    @property
    def east(self) -> Gate:
        return self.gates["east"]

    @property
    def database(self) -> Path:
        return self.folder / "server.sqlite"

    # Ticks.

    def settle(self, ticks: int = 3) -> None:
        """Tick on both sides; failures are logged."""
        for _ in range(ticks):
            if "server" not in self.reasons_down:
                Heartbeat(self.tick, 1.0, self.world.server.troubles).tick()
            if "east" not in self.reasons_down:
                heart = Heartbeat(self.east.tick, 1.0, self.east.proxy.troubles)
                heart.tick()
                self.east.proxy.metrics.set_gauges(beat_failures=partial(int, heart.failures))

    def sync(self, name: str) -> str:
        """Sync this device and return the outcome."""
        if "east" in self.reasons_down:
            return "nobody answers"
        try:
            with Client.open(self.folder / "clients" / name, clock=self.read_clock) as client:
                return client.sync(self.east.make_api(), jitter=0).outcome
        except (UnavailableError, ProtocolError, RefusedError) as error:
            return type(error).__name__

    def list_paid_epochs(self, name: str) -> list[int]:
        return list_charged_epochs(self.folder / "clients" / name)

    def run_round(self) -> int:
        """Let everybody report, end the epoch, and return how many reports were counted."""
        for name in DEVICE_NAMES:
            assert self.sync(name) in ("sent", "already sent"), name
        manifest = self.world.get_signed().manifest
        assert all(self.list_paid_epochs(name).count(manifest.epoch) == 1 for name in DEVICE_NAMES)
        self.world.now = max(self.world.now, manifest.closes)
        for _ in range(6):
            self.settle(1)
            if self.world.get_signed().manifest.epoch > manifest.epoch:
                break
            self.world.now += self.world.settings.grace_seconds / 5
        self.settle(1)
        (reports,) = (
            e.reports for e in self.world.server.list_epochs() if e.epoch == manifest.epoch
        )
        return reports // BATCH_REPORTS

    # Restarts.

    def restart_server(self) -> None:
        """Start a new process over the current files, which may be refused."""
        settings, now = self.world.settings, self.world.now
        self.stop_server()
        try:
            world = World(settings, Keys.read(settings.keys), now=now)
            self._opened.callback(world.close)
            world.server.prepare()
        except SottovoceError as error:
            self.reasons_down["server"] = str(error)
            return
        self.reasons_down.pop("server", None)
        self.wire.respond = pass_through
        self.world = world
        world.server._clock = lambda: self.read_clock("server")
        self.tick = detach_tick(world.server)
        self.recorder._app = build_app(world.server, settings)

    def stop_server(self) -> None:
        self.world.close()
        self.reasons_down["server"] = DOWN_TEXT
        self.wire.respond = refuse_connection

    def restart_proxy(self) -> None:
        self.stop_proxy()
        try:
            self.gates["east"] = self._open_gate("east", chunk_reports=2)
        except SottovoceError as error:
            self.reasons_down["east"] = str(error)
            return
        del self.reasons_down["east"]

    def stop_proxy(self) -> None:
        self.east.store.close()
        self.reasons_down["east"] = DOWN_TEXT

    # Backups.

    def restore_server(self, backup: str) -> None:
        self.world.close()
        restore_file(self.folder / backup, self.database)
        self.restart_server()

    def copy_proxy(self, name: str) -> None:
        """Copy a running proxy's folder, which nobody should do."""
        copy = self.folder / name
        copy.mkdir()
        for path in (self.folder / "east").glob("*.bin"):
            shutil.copy(path, copy)
        for path in (self.folder / "east").glob("*.sqlite3"):
            with (
                closing(sqlite3.connect(path)) as ours,
                closing(sqlite3.connect(copy / path.name)) as theirs,
            ):
                ours.backup(theirs)

    def restore_proxy(self, copy: str) -> None:
        self.stop_proxy()
        shutil.rmtree(self.folder / "east")
        shutil.copytree(self.folder / copy, self.folder / "east")
        self.restart_proxy()

    # What operators see.

    def list_server_problems(self) -> list[str]:
        """Return the problems of `sottovoce server status`, or its error."""
        run_system = self._running("server", self.world.server)
        settings, now = self.world.settings, self.read_clock("server")
        try:
            with closing(ServerStore(settings.database)) as store:
                return ServerStatus.read(store, settings, now, run_system).problems
        except SottovoceError as error:
            return [str(error)]

    def list_proxy_problems(self) -> list[str]:
        proxy, now = self.east.proxy, self.read_clock("east")
        run_system = self._running("east", proxy)
        try:
            return ProxyStatus.read(proxy._settings, proxy._upstream, now, run_system).problems
        except SottovoceError as error:
            return [str(error)]

    def _running(self, name: str, part: Any) -> ProcessState | str:
        return self.reasons_down.get(name) or ProcessState(0.0, troubles=tuple(part.troubles.texts))

    @property
    def parts(self) -> list[Any]:
        return [self.world.server, self.east.proxy]

    def ready(self) -> str:
        """Return the parts that are ready."""
        parts = dict(zip(("server", "east"), self.parts, strict=True))
        running = {name: part for name, part in parts.items() if name not in self.reasons_down}
        return " ".join(name for name, part in running.items() if is_ready(part))

    @property
    def state(self) -> tuple[list[str], list[str], str]:
        """The problems of both sides, except those of an epoch that is over, and who is ready."""
        problems = [text for text in self.list_server_problems() if EMPTY_EPOCH_TEXT not in text]
        return problems, self.list_proxy_problems(), self.ready()

    def render_metrics(self) -> str:
        text = ""
        for measure in (self.world.server.render_metrics, self.east.proxy.metrics.render):
            try:
                text += measure().decode()
            except SottovoceError:
                text += "unmeasured"
        return text + "".join(f"down {name}" for name in self.reasons_down)

    # Certificates.

    def use_certificate(self, name: str) -> None:
        """Let the server listen with this certificate; the proxy trusts one authority."""
        listener = self._opened.enter_context(serve_tls(self.recorder, self.folder, name))
        upstream: Any = self.east.proxy._upstream
        upstream._url = f"https://127.0.0.1:{listener}"
        upstream._http = self._opened.enter_context(
            httpx.Client(
                verify=ssl.create_default_context(cafile=self.folder / "authority.pem"),
                trust_env=False,
            )
        )
        shown = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        listen = replace(self.world.settings.listen, certificate=shown[0], private_key=shown[1])
        self.world.settings = replace(self.world.settings, listen=listen)
        self.world.server._settings = self.world.settings


def is_ready(part: Any) -> bool:
    try:
        part.check_ready()
    except SottovoceError:
        return False
    return True


def restore_file(backup: Path, database: Path) -> None:
    """Restore a database as docs/operators.md says, without the log of the lost one."""
    remove_database(database)
    database.write_bytes(backup.read_bytes())
    database.chmod(0o600)


def remove_database(database: Path) -> None:
    for end in ("", "-wal", "-shm"):
        database.with_name(database.name + end).unlink(missing_ok=True)


def damage_pages(database: Path) -> None:
    """Overwrite all pages except the first."""
    size = database.stat().st_size
    with database.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))


@contextmanager
def serve_tls(app: Any, folder: Path, name: str) -> Iterator[int]:
    """Yield a port that serves this certificate."""
    files: dict[str, Any] = {
        "ssl_certfile": folder / f"{name}.pem",
        "ssl_keyfile": folder / f"{name}.key",
    }
    config = uvicorn.Config(app, port=0, lifespan="off", log_config=None, ws="none", **files)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


Action = Callable[[System], object]


@dataclass(frozen=True)
class Fault:
    """A fault, its repair, and what everybody sees meanwhile."""

    name: str
    """Its row in docs/operators.md, up to a colon."""
    cause: Action
    repair: Action
    server: str = ""
    """Pattern of the problem in the server's status; empty if all is well there."""
    proxy: str = ""
    """The same for the proxy's status."""
    ready: str = "server east"
    """The parts that are ready."""
    metric: str = ""
    """Pattern of a line of the metrics that shows it; empty if none does."""
    takes: bool = False
    """Whether a device that syncs meanwhile pays. Then its report is counted after the repair."""
    loses: int = 0
    """How many devices lose the report that they sent before the fault was noticed."""
    set_up: str = ""
    """The kind of system that it needs."""
    lasts: str = ""
    """Pattern of the server's status after the repair, until the epoch is applied."""


def set_clock(who: str, by: float) -> Action:
    def cause(system: System) -> None:
        system.ahead[who] = by

    return cause


def correct_clocks(system: System) -> None:
    for who in system.ahead:
        system.ahead[who] = 0.0
    system.settle()


def open_future_epoch(system: System) -> None:
    """Set the server's clock ahead while no proxy contacts it."""
    system.wire.respond = refuse_connection
    set_server_ahead(system)
    assert system.world.get_signed().manifest.epoch == 4
    system.wire.respond = pass_through


def set_server_ahead(system: System) -> None:
    """Set the server's clock ahead for longer than its grace."""
    system.ahead["server"] = LARGE_SKEW_SECONDS
    system.settle()
    system.world.now += system.world.settings.grace_seconds
    system.settle()


def correct_and_go_beyond(system: System) -> None:
    correct_clocks(system)
    assert any("go-beyond" in problem for problem in system.list_server_problems())
    go_beyond_seen(system)


def go_beyond_seen(system: System) -> None:
    go_beyond(system.world.store, None, system.world.now, system.world.settings.proxies)


def fill_proxy_disk(system: System) -> None:
    store: Any = system.east.store
    databases, free = (store._writer, store._files.batches._database), store.count_free_bytes
    for database in databases:
        database.rows(f"PRAGMA max_page_count = {database.row('PRAGMA page_count')[0]}")
    store.count_free_bytes = lambda: 0

    def repair() -> None:
        for database in databases:
            # The database of an epoch that is over is closed.
            with suppress(StoreError):
                database.rows("PRAGMA max_page_count = 1000000")
        store.count_free_bytes = free

    system.undo = repair


def fill_proxy_disk_for_long(system: System) -> None:
    """Fill the proxy's disk while the server goes on."""
    fill_proxy_disk(system)
    system.world.now = system.world.get_signed().manifest.ends
    system.settle()
    system.world.now += system.world.settings.grace_seconds
    system.settle()
    assert system.world.get_signed().manifest.epoch == 4


def fill_server_disk(system: System) -> None:
    """Let SQLite refuse every write."""

    def refuse(connection: Any) -> None:
        if connection.get_execution_options().get("writes"):
            raise sqlite3.OperationalError("database or disk is full")

    engine = system.world.store._engine
    event.listen(engine, "begin", refuse)
    system.undo = lambda: event.remove(engine, "begin", refuse)


def lock_database(path: str) -> Action:
    def cause(system: System) -> None:
        store, opened = system.east.store, ExitStack()
        assert store._files.batches is not None
        paths = [system.folder / path]
        if path != "server.sqlite":
            paths.append(store._files.batches.path)
        for database in (store._writer, store._files.batches._database):
            database.rows("PRAGMA busy_timeout = 20")
        for file in paths:
            other = opened.enter_context(closing(sqlite3.connect(file, isolation_level=None)))
            other.execute("BEGIN IMMEDIATE")
        system.undo = opened.close
        # The proxy notices it when somebody sends.
        if path != "server.sqlite":
            data = system.make_random_batch(system.east, 1).encode()
            assert system.east.post(data) == 503

    return cause


def damage_server(system: System) -> None:
    # Open connections still have pages in memory.
    system.world.store.close()
    damage_pages(system.database)


def damage_proxy(system: System) -> None:
    store = system.east.store
    assert store._files.batches is not None
    databases = (store._writer, store._reader, store._files.batches._database)
    for database in databases:
        database.empty_log()
    damage_pages(system.folder / "east" / DATABASE_FILE)
    for database in databases:
        database.rows("PRAGMA shrink_memory")


def remove_proxy_database(system: System) -> None:
    remove_database(system.folder / "east" / DATABASE_FILE)


def remove_server_database(system: System) -> None:
    remove_database(system.database)


def begin_new_proxy(system: System) -> None:
    system.stop_proxy()
    shutil.rmtree(system.folder / "east")
    system.restart_proxy()


def restore_server(backup: str) -> Action:
    return lambda system: system.restore_server(backup)


def go_beyond_too_low(system: System) -> None:
    """Restore an old backup before any proxy contacts the server."""
    system.restore_server("server-1")
    go_beyond(system.world.store, 2, system.world.now, system.world.settings.proxies)


def set_both_back(system: System) -> None:
    """Restore both, so that only devices know that there were later epochs."""
    system.restore_server("server-1")
    begin_new_proxy(system)


def go_beyond_devices(system: System) -> None:
    go_beyond(system.world.store, 3, system.world.now, system.world.settings.proxies)


def restore_half_counted(system: System) -> None:
    """Restore a backup from the middle of handing in after the next epoch has begun."""
    puts = iter(range(99))

    def fail(request: httpx.Request) -> httpx.Response | None:
        return refuse_connection(request) if request.method == "PUT" and next(puts) >= 1 else None

    system.wire.respond = fail
    system.world.now = system.world.get_signed().manifest.closes
    system.settle()
    assert system.world.get_state(3) == "closed"
    assert system.world.get_counts(3)[0] == 1
    back_up(system.world.settings.database, system.folder / "half", with_key=True)
    system.wire.respond = pass_through
    system.settle()
    assert system.east.get_signed().manifest.epoch == 4
    system.restore_server("half")


def restore_proxy(copy: str) -> Action:
    return lambda system: system.restore_proxy(copy)


def restore_mixed_proxy(system: System) -> None:
    """Restore a copy of mixed reports when the server has them and has gone on."""
    system.wire.respond = lambda request: (
        refuse_connection(request) if request.method == "PUT" else None
    )
    system.world.now = system.world.get_signed().manifest.closes
    system.settle()
    system.copy_proxy("mixed")
    system.wire.respond = pass_through
    system.settle()
    assert system.east.get_signed().manifest.epoch == 4
    system.restore_proxy("mixed")


def lose_keys(system: System) -> None:
    path = system.world.settings.keys
    path.rename(path.with_name("lost.json"))


def return_keys(system: System) -> None:
    path = system.world.settings.keys
    path.with_name("lost.json").replace(path)


def lose_keys_and_restart(system: System) -> None:
    lose_keys(system)
    system.restart_server()


def use_other_keys(system: System) -> None:
    lose_keys(system)
    Keys.generate().write(system.world.settings.keys)
    system.restart_server()


def use_other_wrapping_key(system: System) -> None:
    lose_keys(system)
    replace(KEYS, wrapping=bytes(32)).write(system.world.settings.keys)
    system.restart_server()


def return_keys_and_restart(system: System) -> None:
    return_keys(system)
    system.restart_server()


def use_secret(value: str) -> Action:
    def cause(system: System) -> None:
        upstream: Any = system.east.proxy._upstream
        previous = upstream._secret
        upstream._secret = {"Authorization": f"Bearer {value}"}
        system.undo = lambda: setattr(upstream, "_secret", previous)

    return cause


def answer_with(status: int, body: bytes = b"<html>Welcome</html>") -> Action:
    def cause(system: System) -> None:
        system.wire.respond = lambda _: make_response(status, body)

    return cause


def make_response(status: int, body: bytes) -> httpx.Response:
    return httpx.Response(status, stream=httpx.ByteStream(body))


def sign_later_protocol(system: System) -> None:
    """Let the server sign another version."""
    signed = system.world.get_signed()
    raw = signed.raw.replace(b'"version":2', b'"version":3')
    signature = KEYS.signer.sign(SignedManifest.label + raw)
    data = signed.encode().replace(signed.raw, raw).replace(signed.signature, signature)
    system.wire.respond = lambda _: make_response(200, data)


def repair_wire(system: System) -> None:
    system.wire.respond = pass_through


def set_later_schema(system: System) -> None:
    with system.world.store.write() as transaction:
        transaction._connection.exec_driver_sql("UPDATE schema_version SET version = 99")
    system.restart_server()


def set_current_schema(system: System) -> None:
    with closing(sqlite3.connect(system.database)) as db, db:
        db.execute(f"UPDATE schema_version SET version = {SCHEMA_VERSION}")
    system.restart_server()


def set_proxy_version(version: int) -> Action:
    def cause(system: System) -> None:
        system.stop_proxy()
        with closing(sqlite3.connect(system.folder / "east" / DATABASE_FILE)) as db:
            db.execute(f"PRAGMA user_version = {version}")
        system.restart_proxy()

    return cause


def undo_fault(system: System) -> None:
    system.undo()


def do_nothing(_: System) -> None:
    """Do nothing: the fault mends itself."""


def stop_server(system: System) -> None:
    system.stop_server()
    system.world.now += 2 * SMALL_SKEW_SECONDS


def silence_proxy(system: System) -> None:
    system.stop_proxy()
    system.world.now += 700


def hide_postgres(system: System) -> None:
    """Rename the socket of PostgreSQL and end its connections."""
    host = Path(str(make_url(system.world.settings.database).query["host"]))
    with psycopg.connect(host=str(host), user="postgres", dbname="postgres", autocommit=True) as db:
        socket = host / ".s.PGSQL.5432"
        away = socket.rename(host / "away")
        system.undo = lambda: away.rename(socket)
        db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        )


def use_certificate(name: str) -> Action:
    return lambda system: system.use_certificate(name)


# Patterns of metrics.
PAUSED_METRIC = "proxy_paused 1.0"
FAILING_METRIC = "proxy_beat_failures [1-9]"
CERTIFICATE_METRIC = 'server_problem{name="certificates"} 1.0'
KEYS_METRIC = 'server_problem{name="keys"} 1.0'
PROXY_METRIC = 'server_problem{name="proxy"} 1.0'
# Patterns of problems.
CLOCK_PROBLEM = r"this proxy's clock is .* (ahead of|behind) .*NTP"
AWAY_PROBLEM = "cannot be reached"
AHEAD_PROBLEM = "clock of proxy east.* ahead of .*NTP"
BEHIND_PROBLEM = "clock of proxy east.* behind .*NTP"
BEYOND_PROBLEM = "`sottovoce server go-beyond 3`"
# Kinds of systems.
POSTGRES_SYSTEM = "postgres"
TLS_SYSTEM = "tls"

# fmt: off
FAULTS = [
    Fault("a clock 5 minutes wrong: proxy's, ahead", set_clock("east", SMALL_SKEW_SECONDS),
        correct_clocks, AHEAD_PROBLEM, CLOCK_PROBLEM, metric=PROXY_METRIC, takes=True),
    Fault("a clock 5 minutes wrong: proxy's, behind", set_clock("east", -SMALL_SKEW_SECONDS),
        correct_clocks, BEHIND_PROBLEM, CLOCK_PROBLEM, metric=PROXY_METRIC, takes=True),
    Fault("a clock 2 days wrong: proxy's, ahead", set_clock("east", LARGE_SKEW_SECONDS),
        correct_clocks, AHEAD_PROBLEM, CLOCK_PROBLEM, "server", PAUSED_METRIC),
    Fault("a clock 2 days wrong: proxy's, behind", set_clock("east", -LARGE_SKEW_SECONDS),
        correct_clocks, BEHIND_PROBLEM, CLOCK_PROBLEM, "server", PAUSED_METRIC),
    Fault("a clock 5 minutes wrong: server's, ahead", set_clock("server", SMALL_SKEW_SECONDS),
        correct_clocks, BEHIND_PROBLEM, CLOCK_PROBLEM, metric=PROXY_METRIC, takes=True),
    Fault("a clock 5 minutes wrong: server's, behind", set_clock("server", -SMALL_SKEW_SECONDS),
        correct_clocks, AHEAD_PROBLEM, CLOCK_PROBLEM, metric=PROXY_METRIC, takes=True),
    Fault("a clock 2 days wrong: server's, ahead", set_server_ahead, correct_clocks, BEHIND_PROBLEM,
        CLOCK_PROBLEM, "server", PAUSED_METRIC),
    Fault("a clock 2 days wrong: server's, behind", set_clock("server", -LARGE_SKEW_SECONDS),
        correct_clocks, AHEAD_PROBLEM, CLOCK_PROBLEM, "server", PAUSED_METRIC),
    Fault("epoch that opens in the future", open_future_epoch, correct_and_go_beyond,
        BEHIND_PROBLEM, CLOCK_PROBLEM, "server", PAUSED_METRIC, loses=1),
    Fault("proxy's disk full", fill_proxy_disk, undo_fault, proxy="full; make room", ready="server",
        metric=PAUSED_METRIC),
    Fault("proxy's disk full for longer than the epoch", fill_proxy_disk_for_long, undo_fault,
        proxy="full; make room", ready="server", metric=PAUSED_METRIC, loses=1),
    Fault("server's disk full", fill_server_disk, undo_fault, "disk is full: make room",
        "answered 503", "east", FAILING_METRIC, takes=True),
    Fault("proxy's database locked", lock_database(f"east/{DATABASE_FILE}"), undo_fault,
        proxy="another program holds it", ready="server", metric=PAUSED_METRIC),
    Fault("server's database locked", lock_database("server.sqlite"), undo_fault,
        "another program holds", "answered 503", "east", FAILING_METRIC, takes=True),
    Fault("proxy's database damaged", damage_proxy, begin_new_proxy, proxy="begin with a new one",
        ready="server", metric=PAUSED_METRIC, loses=1, lasts="another database"),
    Fault("server's database damaged or gone: damaged", damage_server, restore_server("server-3"),
        "restore a backup", "restore a backup", "", PAUSED_METRIC, loses=1),
    Fault("proxy's database gone", remove_proxy_database, begin_new_proxy, proxy="no such database",
        ready="server", metric=PAUSED_METRIC, loses=1, lasts="another database"),
    Fault("server's database damaged or gone: gone", remove_server_database,
        restore_server("server-3"), "no such database", "damaged or gone", "", PAUSED_METRIC,
        loses=1),
    Fault("PostgreSQL away", hide_postgres, undo_fault, "make sure that it runs", "answered 503",
        "east", FAILING_METRIC, takes=True, set_up=POSTGRES_SYSTEM),
    Fault("server's certificate unknown", use_certificate("impostor"), use_certificate("server"),
        proxy=r"can be trusted.*tls\.authority", metric=FAILING_METRIC, takes=True,
        set_up=TLS_SYSTEM),
    Fault("server's certificate expired", use_certificate("expired"), use_certificate("server"),
        "has expired.*renew", "can be trusted", metric=CERTIFICATE_METRIC, takes=True,
        set_up=TLS_SYSTEM),
    Fault("backup of the server, of this epoch", restore_server("server-3"), do_nothing,
        EMPTY_EPOCH_TEXT, metric='outcome="given_up"} 1.0', takes=True, loses=1),
    Fault("backup of the server, of an earlier epoch: the last", restore_server("server-2"),
        go_beyond_seen, BEYOND_PROBLEM, BEYOND_PROBLEM, "server", PAUSED_METRIC, loses=1),
    Fault("backup of the server, of an earlier epoch: older", restore_server("server-1"),
        go_beyond_seen, BEYOND_PROBLEM, BEYOND_PROBLEM, "server", PAUSED_METRIC, loses=1),
    Fault("backup of the server, of an earlier epoch: half counted", restore_half_counted,
        go_beyond_seen, "go-beyond 4`", "go-beyond 4`", "server", PAUSED_METRIC, loses=1),
    Fault("backup of the server, and a new proxy", set_both_back, go_beyond_devices,
        EMPTY_EPOCH_TEXT, metric="applied_reports 0.0", loses=1),
    Fault("go-beyond one too low", go_beyond_too_low, go_beyond_seen, BEYOND_PROBLEM,
        BEYOND_PROBLEM, "server", PAUSED_METRIC, loses=1),
    Fault("copy of the proxy, of this epoch", restore_proxy("proxy-3"), do_nothing, takes=True,
        loses=1),
    Fault("copy of the proxy, of an earlier epoch: mixed already", restore_mixed_proxy, do_nothing,
        metric="reports_lost_total 5", takes=True),
    Fault("copy of the proxy, of an earlier epoch: the last", restore_proxy("proxy-2"), do_nothing,
        metric='outcome="given_up"} 1.0', takes=True, loses=1),
    Fault("keys file lost", lose_keys, return_keys, "restore the file", metric=KEYS_METRIC,
        takes=True),
    Fault("keys file lost: server restarted", lose_keys_and_restart, return_keys_and_restart,
        "restore the file", AWAY_PROBLEM, "east", FAILING_METRIC, takes=True),
    Fault("keys file of another server", use_other_keys, return_keys_and_restart,
        "must be the keys file", AWAY_PROBLEM, "east", FAILING_METRIC, takes=True),
    Fault("wrapping key of another server", use_other_wrapping_key, return_keys_and_restart,
        "must belong together", "must belong together", "server", PAUSED_METRIC),
    Fault("secret unknown to the server", use_secret("guessed"), undo_fault,
        proxy="know this proxy's secret", ready="server", metric="unknown_proxy_total [1-9]"),
    Fault("server of another protocol or version: protocol", answer_with(404), repair_wire,
        proxy="sottovoce server of protocol", ready="server", metric=PAUSED_METRIC),
    Fault("server of another protocol or version: version", sign_later_protocol, repair_wire,
        proxy="speaks version 2", ready="server", metric=PAUSED_METRIC),
    Fault("server's database of a later version", set_later_schema, set_current_schema,
        "install the version", AWAY_PROBLEM, "east", FAILING_METRIC, takes=True),
    Fault("proxy's database of a later version", set_proxy_version(99),
        set_proxy_version(DATABASE_VERSION),
        proxy="install the version", ready="server", metric="down east"),
    Fault("server unreachable", stop_server, System.restart_server, DOWN_TEXT, AWAY_PROBLEM, "east",
        FAILING_METRIC, takes=True),
    Fault("something else at the server's address", answer_with(200), repair_wire,
        proxy="sottovoce server of protocol", ready="server", metric=PAUSED_METRIC),
    Fault("proxy silent", silence_proxy, System.restart_proxy,
        "proxy east has not contacted this server", DOWN_TEXT, "server", PROXY_METRIC),
]
# fmt: on


@pytest.fixture(scope="module")
def begun() -> Iterator[tuple[Path, float]]:
    """Return the files of a system in its third epoch, and its time."""
    with quick_folder() as folder, ExitStack() as opened:
        system = System(folder, opened, now=float(int(time.time())))
        system.begin()
        opened.close()
        yield folder, system.world.now


@contextmanager
def run_system(folder: Path, begun: tuple[Path, float], set_up: str) -> Iterator[System]:
    with ExitStack() as opened:
        if set_up == POSTGRES_SYSTEM:
            try:
                database = opened.enter_context(postgres.run_postgres())
            except OSError as error:
                leave_out(f"PostgreSQL that goes away ({error})")
            system = System(folder, opened, begun[1], database=database)
            system.begin()
        else:
            shutil.copytree(begun[0], folder, dirs_exist_ok=True)
            system = System(folder, opened, begun[1])
        if set_up == TLS_SYSTEM:
            authority = Authority(folder, "authority")
            authority.issue("server", hours=9999)
            authority.issue("expired", hours=-0.5)
            Authority(folder, "stranger").issue("impostor", hours=9999)
            system.use_certificate("server")
        yield system


# By day one fault for each row of the guide, at night its variants too.
FIRST_FAULTS = {fault.name.partition(":")[0]: fault for fault in reversed(FAULTS)}


@pytest.mark.parametrize(
    "fault",
    FAULTS if RUNS_ALL_CASES else [*FIRST_FAULTS.values()],
    ids=lambda fault: fault.name,
)
def test_fault_is_noticed_and_repaired(
    fault: Fault,
    folder: Path,
    begun: tuple[Path, float],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sottovoce.server.store.BUSY_TIMEOUT_SECONDS", 0.05)
    with run_system(folder, begun, fault.set_up) as system:
        system.settle(1)
        assert system.state == ([], [], "server east")
        fault.cause(system)
        system.settle()
        check_problems(fault.server, system.list_server_problems())
        check_problems(fault.proxy, system.list_proxy_problems())
        assert system.ready() == fault.ready
        assert re.search(fault.metric, system.render_metrics())
        before = system.list_paid_epochs("ann")
        outcome = system.sync("ann")
        assert (system.list_paid_epochs("ann") != before) == fault.takes, outcome
        troubles = [(part, part.troubles.texts) for part in system.parts]
        caplog.clear()
        fault.repair(system)
        system.settle()
        check_problems(fault.lasts, system.state[0])
        assert system.state[1:] == ([], "server east")
        # A process that was restarted has no earlier troubles.
        for part, texts in troubles:
            assert part not in system.parts or not texts or "resolved after" in caplog.text
        if fault.loses:
            assert system.run_round() in (len(DEVICE_NAMES), len(DEVICE_NAMES) - fault.loses)
        assert system.run_round() == len(DEVICE_NAMES)
        assert system.state == ([], [], "server east")


def test_the_operators_guide_lists_the_same_faults() -> None:
    # One table for faults that pause reports, one for the others.
    section = OPERATORS_PAGE.read_text().partition("## Faults\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+?) \|", section, re.MULTILINE)
    tables = [
        [fault.name.partition(":")[0] for fault in FAULTS if fault.takes == takes]
        for takes in (False, True)
    ]
    assert rows == [row for table in tables for row in dict.fromkeys(["fault", *table])]


def test_nobody_pays_before_the_first_tick_of_a_proxy(
    folder: Path, begun: tuple[Path, float]
) -> None:
    # The server may have been restored while the proxy did not run.
    with run_system(folder, begun, "") as system:
        system.restart_proxy()
        assert system.sync("ann") == "UnavailableError"
        assert system.ready() == "server"
        system.settle(1)
        assert system.sync("ann") == "sent"


def check_problems(pattern: str, problems: list[str]) -> None:
    assert bool(pattern) == bool(problems), problems
    assert re.search(pattern, "\n".join(problems), re.DOTALL), problems

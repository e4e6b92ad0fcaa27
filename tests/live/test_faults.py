"""What goes wrong in operation, each made, seen, mended: the table of docs/operators.md, "Faults".

Of each: what `status` says on either side, whether both are ready, what is measured, and whether a
device that comes meanwhile pays. After the mend all is well, and the next epoch counts everybody.
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
from sottovoce.server.status import ServerStatus
from sottovoce.server.store import back_up
from sottovoce.service.heartbeat import Heartbeat
from sottovoce.service.watch import ProcessState
from sottovoce.training import Settings
from tests.lacking import leave_out
from tests.live.conftest import quick_folder
from tests.live.killable import charged_epochs
from tests.live.stack import Gate, Stack, by_hand
from tests.server import postgres
from tests.server.world import KEYS, World
from tests.service.test_tls import Authority

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"
REPORTS = 5
# Seconds.
HOUR = 3600
MINUTES = 300.0
DAYS = 2 * 86_400.0
TRAINING = Settings.preset("loudest", reports=REPORTS, epochs=9, factors=2, half_life=9.0)
DEVICES = ("ann", "ben", "cat")
DOWN = "nothing answers: does it run?"
# What `status` says about the last epoch until the next one is counted.
PAST = "came to nothing"


class Wire(httpx.BaseTransport):
    """From the proxy to its server; `instead` may answer, or cut it."""

    def __init__(self, inner: httpx.BaseTransport):
        self._inner = inner
        self.instead: Callable[[httpx.Request], httpx.Response | None] = lambda _: None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self.instead(request) or self._inner.handle_request(request)


def cut(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused")


def whole(_: httpx.Request) -> None:
    """Do nothing."""


class System(Stack):
    """A server, the proxy east, three devices: over files that are there, or new ones."""

    def __init__(self, folder: Path, opened: ExitStack, now: float, **changes: Any):
        changes = {"training": TRAINING, "epoch_seconds": HOUR, "heartbeat": 60.0, **changes}
        super().__init__(folder, opened, ("east",), now=now, chunk_reports=2, **changes)
        self.wire = self.http._transport = Wire(self.http._transport)
        self.why_down: dict[str, str] = {}
        """Of a part that could not start."""
        self.undo: Callable[[], object] = lambda: None
        """Of a fault, where its mend is nothing else."""

    def begin(self) -> None:
        """Go to the third epoch, in which ben has reported, with a backup of both sides in each."""
        for name in DEVICES:
            self.client(name, ["film-1", "film-7"]).close()
        for epoch in (1, 2, 3):
            if self.world.settings.database.startswith("sqlite"):
                back_up(self.world.settings.database, self.folder / f"server-{epoch}")
            self.copy_proxy(f"proxy-{epoch}")
            if epoch < 3:
                assert self.round() == len(DEVICES)
        self.world.now += 2 * MINUTES
        assert self.sync("ben") == "sent"

    @property
    def east(self) -> Gate:
        return self.gates["east"]

    @property
    def database(self) -> Path:
        return self.folder / "server.sqlite"

    # Beats

    def settle(self, beats: int = 3) -> None:
        """Run the heartbeats of both sides, which log failures and try again."""
        for _ in range(beats):
            if "server" not in self.why_down:
                Heartbeat(self.beat, 1.0, self.world.server.troubles).tick()
            if "east" not in self.why_down:
                heart = Heartbeat(self.east.beat, 1.0, self.east.proxy.troubles)
                heart.tick()
                self.east.proxy.metrics.set_gauges(beat_failures=partial(int, heart.failures))

    def sync(self, name: str) -> str:
        """Sync this device and return the outcome."""
        if "east" in self.why_down:
            return "nobody answers"
        try:
            with Client.open(self.folder / "clients" / name, clock=self.clock) as client:
                return client.sync(self.east.api(), jitter=0).outcome
        except (UnavailableError, ProtocolError, RefusedError) as error:
            return type(error).__name__

    def paid(self, name: str) -> list[int]:
        return charged_epochs(self.folder / "clients" / name)

    def round(self) -> int:
        """Let everybody report, end the epoch, and return how many reports were counted."""
        for name in DEVICES:
            assert self.sync(name) in ("sent", "already sent"), name
        manifest = self.world.get_signed().manifest
        assert all(self.paid(name).count(manifest.epoch) == 1 for name in DEVICES)
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
        return reports // REPORTS

    # Restarts

    def restart_server(self) -> None:
        """Start a new process over the current files, which may be refused."""
        settings, now = self.world.settings, self.world.now
        self.stop_server()
        try:
            world = World(settings, Keys.read(settings.keys), now=now)
            self._opened.callback(world.close)
            world.server.prepare()
        except SottovoceError as error:
            self.why_down["server"] = str(error)
            return
        self.why_down.pop("server", None)
        self.wire.instead = whole
        self.world = world
        world.server._clock = lambda: self.clock("server")
        self.beat = by_hand(world.server)
        self.recorder._app = build_app(world.server, settings)

    def stop_server(self) -> None:
        self.world.close()
        self.why_down["server"] = DOWN
        self.wire.instead = cut

    def restart_proxy(self) -> None:
        self.stop_proxy()
        try:
            self.gates["east"] = self._gate("east", chunk_reports=2)
        except SottovoceError as error:
            self.why_down["east"] = str(error)
            return
        del self.why_down["east"]

    def stop_proxy(self) -> None:
        self.east.store.close()
        self.why_down["east"] = DOWN

    # Backups

    def restore_server(self, backup: str) -> None:
        self.world.close()
        put_back(self.folder / backup, self.database)
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

    # What operators see

    def server_says(self) -> list[str]:
        """Return the problems of `sottovoce server status`, or its own error."""
        running = self._running("server", self.world.server)
        settings, now = self.world.settings, self.clock("server")
        try:
            with closing(ServerStore(settings.database)) as store:
                return ServerStatus.read(store, settings, now, running).problems
        except SottovoceError as error:
            return [str(error)]

    def proxy_says(self) -> list[str]:
        proxy, now = self.east.proxy, self.clock("east")
        running = self._running("east", proxy)
        try:
            return ProxyStatus.read(proxy._settings, proxy._upstream, now, running).problems
        except SottovoceError as error:
            return [str(error)]

    def _running(self, name: str, part: Any) -> ProcessState | str:
        return self.why_down.get(name) or ProcessState(0.0, troubles=tuple(part.troubles.texts))

    @property
    def parts(self) -> list[Any]:
        return [self.world.server, self.east.proxy]

    def ready(self) -> str:
        """Return the parts that are ready."""
        parts = dict(zip(("server", "east"), self.parts, strict=True))
        return " ".join(n for n, part in parts.items() if n not in self.why_down and can(part))

    @property
    def well(self) -> tuple[list[str], list[str], str]:
        """What both say, except about an epoch that is past, and who is ready."""
        left = [problem for problem in self.server_says() if PAST not in problem]
        return left, self.proxy_says(), self.ready()

    def measured(self) -> str:
        text = ""
        for measure in (self.world.server.render_metrics, self.east.proxy.metrics.render):
            try:
                text += measure().decode()
            except SottovoceError:
                text += "unmeasured"
        return text + "".join(f"down {name}" for name in self.why_down)

    # Certificates

    def secure(self, name: str) -> None:
        """Let the server listen with this certificate; the proxy trusts one authority."""
        listener = self._opened.enter_context(tls(self.recorder, self.folder, name))
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


def can(part: Any) -> bool:
    try:
        part.check_ready()
    except SottovoceError:
        return False
    return True


def put_back(backup: Path, database: Path) -> None:
    """Restore as docs/operators.md says: the lost database's log does not belong to the copy."""
    remove(database)
    database.write_bytes(backup.read_bytes())
    database.chmod(0o600)


def remove(database: Path) -> None:
    for end in ("", "-wal", "-shm"):
        database.with_name(database.name + end).unlink(missing_ok=True)


def damage(database: Path) -> None:
    """Overwrite all pages except the first."""
    size = database.stat().st_size
    with database.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))


@contextmanager
def tls(app: Any, folder: Path, name: str) -> Iterator[int]:
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


Do = Callable[[System], object]


@dataclass(frozen=True)
class Fault:
    name: str
    """Its row in docs/operators.md, up to a colon."""
    make: Do
    mend: Do
    server: str = ""
    """What its status says, as a pattern; empty: all is well there."""
    proxy: str = ""
    ready: str = "server east"
    """Those that are."""
    metric: str = ""
    """A line that shows it, as a pattern; empty: none does."""
    takes: bool = False
    """Whether a device that comes meanwhile pays. Then its report is counted after the mend."""
    loses: int = 0
    """Of those who reported in the epoch before the fault was known."""
    set_up: str = ""
    lasts: str = ""
    """What the server's status says after the repair, until the epoch is applied."""


def clock(who: str, by: float) -> Do:
    def make(system: System) -> None:
        system.ahead[who] = by

    return make


def right(system: System) -> None:
    for who in system.ahead:
        system.ahead[who] = 0.0
    system.settle()


def future(system: System) -> None:
    """Set the server's clock ahead while no proxy contacts it."""
    system.wire.instead = cut
    server_ahead(system)
    assert system.world.get_signed().manifest.epoch == 4
    system.wire.instead = whole


def server_ahead(system: System) -> None:
    """Set the server's clock ahead for longer than its grace."""
    system.ahead["server"] = DAYS
    system.settle()
    system.world.now += system.world.settings.grace_seconds
    system.settle()


def right_and_beyond(system: System) -> None:
    right(system)
    assert any("go-beyond" in problem for problem in system.server_says())
    beyond(system)


def beyond(system: System) -> None:
    go_beyond(system.world.store, None, system.world.now, system.world.settings.proxies)


def proxy_full(system: System) -> None:
    store: Any = system.east.store
    databases, free = (store._writer, store._files.batches._database), store.count_free_bytes
    for database in databases:
        database.rows(f"PRAGMA max_page_count = {database.row('PRAGMA page_count')[0]}")
    store.count_free_bytes = lambda: 0

    def mend() -> None:
        for database in databases:
            with suppress(StoreError):  # its epoch is over, and it is closed
                database.rows("PRAGMA max_page_count = 1000000")
        store.count_free_bytes = free

    system.undo = mend


def proxy_full_for_long(system: System) -> None:
    """Fill the proxy's disk while the server goes on."""
    proxy_full(system)
    system.world.now = system.world.get_signed().manifest.ends
    system.settle()
    system.world.now += system.world.settings.grace_seconds
    system.settle()
    assert system.world.get_signed().manifest.epoch == 4


def server_full(system: System) -> None:
    """SQLite says so at every write."""

    def refuse(connection: Any) -> None:
        if connection.get_execution_options().get("writes"):
            raise sqlite3.OperationalError("database or disk is full")

    engine = system.world.store._engine
    event.listen(engine, "begin", refuse)
    system.undo = lambda: event.remove(engine, "begin", refuse)


def locked(path: str) -> Do:
    def make(system: System) -> None:
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
        if path != "server.sqlite":  # somebody has met it
            data = system.random_batch(system.east, 1).encode()
            assert system.east.post(data) == 503

    return make


def server_damaged(system: System) -> None:
    system.world.store.close()  # nothing is left in the memory of its connections
    damage(system.database)


def proxy_damaged(system: System) -> None:
    store = system.east.store
    assert store._files.batches is not None
    databases = (store._writer, store._reader, store._files.batches._database)
    for database in databases:
        database.empty_log()
    damage(system.folder / "east" / DATABASE_FILE)
    for database in databases:
        database.rows("PRAGMA shrink_memory")


def proxy_gone(system: System) -> None:
    remove(system.folder / "east" / DATABASE_FILE)


def server_gone(system: System) -> None:
    remove(system.database)


def proxy_anew(system: System) -> None:
    system.stop_proxy()
    shutil.rmtree(system.folder / "east")
    system.restart_proxy()


def restored(backup: str) -> Do:
    return lambda system: system.restore_server(backup)


def too_low(system: System) -> None:
    """Restore an old backup before any proxy contacts the server."""
    system.restore_server("server-1")
    go_beyond(system.world.store, 2, system.world.now, system.world.settings.proxies)


def both_set_back(system: System) -> None:
    """Restore both, so that only devices know that there were later epochs."""
    system.restore_server("server-1")
    proxy_anew(system)


def beyond_devices(system: System) -> None:
    go_beyond(system.world.store, 3, system.world.now, system.world.settings.proxies)


def half_counted(system: System) -> None:
    """Restore a backup from the middle of handing in after the next epoch has begun."""
    puts = iter(range(99))

    def fail(request: httpx.Request) -> httpx.Response | None:
        return cut(request) if request.method == "PUT" and next(puts) >= 1 else None

    system.wire.instead = fail
    system.world.now = system.world.get_signed().manifest.closes
    system.settle()
    assert system.world.get_state(3) == "closed"
    assert system.world.get_counts(3)[0] == 1
    back_up(system.world.settings.database, system.folder / "half", with_key=True)
    system.wire.instead = whole
    system.settle()
    assert system.east.signed().manifest.epoch == 4
    system.restore_server("half")


def proxy_restored(copy: str) -> Do:
    return lambda system: system.restore_proxy(copy)


def proxy_mixed(system: System) -> None:
    """Restore a copy of mixed reports when the server has them and has gone on."""
    system.wire.instead = lambda request: cut(request) if request.method == "PUT" else None
    system.world.now = system.world.get_signed().manifest.closes
    system.settle()
    system.copy_proxy("mixed")
    system.wire.instead = whole
    system.settle()
    assert system.east.signed().manifest.epoch == 4
    system.restore_proxy("mixed")


def keys_lost(system: System) -> None:
    path = system.world.settings.keys
    path.rename(path.with_name("kept.json"))


def keys_back(system: System) -> None:
    path = system.world.settings.keys
    path.with_name("kept.json").replace(path)


def keys_lost_at_start(system: System) -> None:
    keys_lost(system)
    system.restart_server()


def keys_wrong(system: System) -> None:
    keys_lost(system)
    Keys.generate().write(system.world.settings.keys)
    system.restart_server()


def keys_of_another_wrapping(system: System) -> None:
    keys_lost(system)
    replace(KEYS, wrapping=bytes(32)).write(system.world.settings.keys)
    system.restart_server()


def keys_and_restart(system: System) -> None:
    keys_back(system)
    system.restart_server()


def secret(value: str) -> Do:
    def make(system: System) -> None:
        upstream: Any = system.east.proxy._upstream
        previous = upstream._secret
        upstream._secret = {"Authorization": f"Bearer {value}"}
        system.undo = lambda: setattr(upstream, "_secret", previous)

    return make


def answers(status: int, body: bytes = b"<html>Welcome</html>") -> Do:
    def make(system: System) -> None:
        system.wire.instead = lambda _: response(status, body)

    return make


def response(status: int, body: bytes) -> httpx.Response:
    return httpx.Response(status, stream=httpx.ByteStream(body))


def later_protocol(system: System) -> None:
    """Let the server sign another version."""
    signed = system.world.get_signed()
    raw = signed.raw.replace(b'"version":2', b'"version":3')
    signature = KEYS.signer.sign(SignedManifest.label + raw)
    data = signed.encode().replace(signed.raw, raw).replace(signed.signature, signature)
    system.wire.instead = lambda _: response(200, data)


def repaired(system: System) -> None:
    system.wire.instead = whole


def server_newer(system: System) -> None:
    with system.world.store.write() as transaction:
        transaction._connection.exec_driver_sql("UPDATE schema_version SET version = 99")
    system.restart_server()


def server_older(system: System) -> None:
    with closing(sqlite3.connect(system.database)) as db, db:
        db.execute("UPDATE schema_version SET version = 1")
    system.restart_server()


def proxy_version(version: int) -> Do:
    def make(system: System) -> None:
        system.stop_proxy()
        with closing(sqlite3.connect(system.folder / "east" / DATABASE_FILE)) as db:
            db.execute(f"PRAGMA user_version = {version}")
        system.restart_proxy()

    return make


def undo(system: System) -> None:
    system.undo()


def nothing(_: System) -> None:
    """Do nothing: the fault mends itself."""


def server_stopped(system: System) -> None:
    system.stop_server()
    system.world.now += 2 * MINUTES


def proxy_silent(system: System) -> None:
    system.stop_proxy()
    system.world.now += 700


def postgres_away(system: System) -> None:
    """Rename the socket of PostgreSQL and end its connections."""
    host = Path(str(make_url(system.world.settings.database).query["host"]))
    with psycopg.connect(host=str(host), user="postgres", dbname="postgres", autocommit=True) as db:
        socket = host / ".s.PGSQL.5432"
        away = socket.rename(host / "away")
        system.undo = lambda: away.rename(socket)
        db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        )


def shows(name: str) -> Do:
    return lambda system: system.secure(name)


# Patterns of metrics.
BARRED = "proxy_barred 1.0"
FAILS = "proxy_beat_failures [1-9]"
APART = "clock_apart_seconds 300"
# Patterns of problems.
CLOCK = r"this proxy's clock is .* (ahead of|behind) .*NTP"
AWAY = "cannot be reached"
AHEAD = "clock of proxy east.* ahead of .*NTP"
BEHIND = "clock of proxy east.* behind .*NTP"
BEYOND = "`sottovoce server go-beyond 3`"
# Kinds of systems.
POSTGRES = "postgres"
TLS = "tls"

# fmt: off
FAULTS = [
    Fault("a clock 5 minutes wrong: proxy's, ahead", clock("east", MINUTES), right, AHEAD, CLOCK,
        metric=APART, takes=True),
    Fault("a clock 5 minutes wrong: proxy's, behind", clock("east", -MINUTES), right, BEHIND, CLOCK,
        metric=APART, takes=True),
    Fault("a clock 2 days wrong: proxy's, ahead", clock("east", DAYS), right, AHEAD, CLOCK,
        "server", BARRED),
    Fault("a clock 2 days wrong: proxy's, behind", clock("east", -DAYS), right, BEHIND, CLOCK,
        "server", BARRED),
    Fault("a clock 5 minutes wrong: server's, ahead", clock("server", MINUTES), right, BEHIND,
        CLOCK, metric=APART, takes=True),
    Fault("a clock 5 minutes wrong: server's, behind", clock("server", -MINUTES), right, AHEAD,
        CLOCK, metric=APART, takes=True),
    Fault("a clock 2 days wrong: server's, ahead", server_ahead, right, BEHIND, CLOCK, "server",
        BARRED),
    Fault("a clock 2 days wrong: server's, behind", clock("server", -DAYS), right, AHEAD, CLOCK,
        "server", BARRED),
    Fault("epoch that opens in the future", future, right_and_beyond, BEHIND, CLOCK, "server",
        BARRED, loses=1),
    Fault("proxy's disk full", proxy_full, undo, proxy="full; make room", ready="server",
        metric=BARRED),
    Fault("proxy's disk full for longer than the epoch", proxy_full_for_long, undo,
        proxy="full; make room", ready="server", metric=BARRED, loses=1),
    Fault("server's disk full", server_full, undo, "disk is full: make room", "answered 503",
        "east", FAILS, takes=True),
    Fault("proxy's database locked", locked(f"east/{DATABASE_FILE}"), undo,
        proxy="another program holds it", ready="server", metric=BARRED),
    Fault("server's database locked", locked("server.sqlite"), undo, "another program holds",
        "answered 503", "east", FAILS, takes=True),
    Fault("proxy's database damaged", proxy_damaged, proxy_anew, proxy="begin with a new one",
        ready="server", metric=BARRED, loses=1, lasts="another database"),
    Fault("server's database damaged or gone: damaged", server_damaged, restored("server-3"),
        "restore a backup", "restore a backup", "", BARRED, loses=1),
    Fault("proxy's database gone", proxy_gone, proxy_anew, proxy="no such database", ready="server",
        metric=BARRED, loses=1, lasts="another database"),
    Fault("server's database damaged or gone: gone", server_gone, restored("server-3"),
        "no such database", "damaged or gone", "", BARRED, loses=1),
    Fault("PostgreSQL away", postgres_away, undo, "make sure that it runs", "answered 503", "east",
        FAILS, takes=True, set_up=POSTGRES),
    Fault("server's certificate unknown", shows("impostor"), shows("server"),
        proxy=r"can be trusted.*tls\.authority", metric=FAILS, takes=True, set_up=TLS),
    Fault("server's certificate expired", shows("expired"), shows("server"), "has expired.*renew",
        "can be trusted", metric=FAILS, takes=True, set_up=TLS),
    Fault("backup of the server, of this epoch", restored("server-3"), nothing, PAST,
        metric='outcome="given_up"} 1.0', takes=True, loses=1),
    Fault("backup of the server, of an earlier epoch: the last", restored("server-2"), beyond,
        BEYOND, BEYOND, "server", BARRED, loses=1),
    Fault("backup of the server, of an earlier epoch: older", restored("server-1"), beyond, BEYOND,
        BEYOND, "server", BARRED, loses=1),
    Fault("backup of the server, of an earlier epoch: half counted", half_counted, beyond,
        "go-beyond 4`", "go-beyond 4`", "server", BARRED, loses=1),
    Fault("backup of the server, and a new proxy", both_set_back, beyond_devices, PAST,
        metric="applied_reports 0.0", loses=1),
    Fault("go-beyond one too low", too_low, beyond, BEYOND, BEYOND, "server", BARRED, loses=1),
    Fault("copy of the proxy, of this epoch", proxy_restored("proxy-3"), nothing, takes=True,
        loses=1),
    Fault("copy of the proxy, of an earlier epoch: mixed already", proxy_mixed, nothing,
        metric="reports_lost_total 5", takes=True),
    Fault("copy of the proxy, of an earlier epoch: the last", proxy_restored("proxy-2"), nothing,
        metric='outcome="given_up"} 1.0', takes=True, loses=1),
    Fault("keys file lost", keys_lost, keys_back, "restore the file",
        metric="keys_wrong 1.0", takes=True),
    Fault("keys file lost: server restarted", keys_lost_at_start, keys_and_restart,
        "restore the file", AWAY, "east", FAILS, takes=True),
    Fault("keys file of another server", keys_wrong, keys_and_restart, "must be the keys file",
        AWAY, "east", FAILS, takes=True),
    Fault("wrapping key of another server", keys_of_another_wrapping, keys_and_restart,
        "must belong together", "must belong together", "server", BARRED),
    Fault("secret unknown to the server", secret("guessed"), undo, proxy="know this proxy's secret",
        ready="server", metric="unknown_proxy_total [1-9]"),
    Fault("server of another protocol or version: protocol", answers(404), repaired,
        proxy="sottovoce server of protocol", ready="server", metric=BARRED),
    Fault("server of another protocol or version: version", later_protocol, repaired,
        proxy="speaks version 2", ready="server", metric=BARRED),
    Fault("server's database of a later version", server_newer, server_older, "install the version",
        AWAY, "east", FAILS, takes=True),
    Fault("proxy's database of a later version", proxy_version(99), proxy_version(1),
        proxy="install the version", ready="server", metric="down east"),
    Fault("server unreachable", server_stopped, System.restart_server, DOWN, AWAY, "east", FAILS,
        takes=True),
    Fault("something else at the server's address", answers(200), repaired,
        proxy="sottovoce server of protocol", ready="server", metric=BARRED),
    Fault("proxy silent", proxy_silent, System.restart_proxy, "nothing was heard from proxy east",
        DOWN, "server", "silent_seconds [1-9]"),
]
# fmt: on


@pytest.fixture(scope="module")
def begun() -> Iterator[tuple[Path, float]]:
    """Files of a system in its third epoch, and its time."""
    with quick_folder() as folder, ExitStack() as opened:
        system = System(folder, opened, now=float(int(time.time())))
        system.begin()
        opened.close()
        yield folder, system.world.now


@contextmanager
def running(folder: Path, begun: tuple[Path, float], set_up: str) -> Iterator[System]:
    with ExitStack() as opened:
        if set_up == POSTGRES:
            try:
                database = opened.enter_context(postgres.run_postgres())
            except OSError as error:
                leave_out(f"PostgreSQL that goes away ({error})")
            system = System(folder, opened, begun[1], database=database)
            system.begin()
        else:
            shutil.copytree(begun[0], folder, dirs_exist_ok=True)
            system = System(folder, opened, begun[1])
        if set_up == TLS:
            authority = Authority(folder, "authority")
            authority.issue("server", hours=9999)
            authority.issue("expired", hours=-0.5)
            Authority(folder, "stranger").issue("impostor", hours=9999)
            system.secure("server")
        yield system


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault(
    fault: Fault,
    folder: Path,
    begun: tuple[Path, float],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sottovoce.server.store.BUSY_TIMEOUT_SECONDS", 0.05)
    with running(folder, begun, fault.set_up) as system:
        system.settle(1)
        assert system.well == ([], [], "server east")
        fault.make(system)
        system.settle()
        check_says(fault.server, system.server_says())
        check_says(fault.proxy, system.proxy_says())
        assert system.ready() == fault.ready
        assert re.search(fault.metric, system.measured())
        before = system.paid("ann")
        outcome = system.sync("ann")
        assert (system.paid("ann") != before) == fault.takes, outcome
        troubles = [(part, part.troubles.texts) for part in system.parts]
        caplog.clear()
        fault.mend(system)
        system.settle()
        check_says(fault.lasts, system.well[0])
        assert system.well[1:] == ([], "server east")
        for part, texts in troubles:  # a process that was restarted has nothing to mend
            assert part not in system.parts or not texts or "resolved after" in caplog.text
        assert system.round() in (len(DEVICES), len(DEVICES) - fault.loses)
        assert system.round() == len(DEVICES)
        assert system.well == ([], [], "server east")


def test_operators_read_the_same_tables() -> None:
    """Name a fault that pauses reports and one that does not, as the guide's tables do."""
    section = PAGE.read_text().partition("## Faults\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+?) \|", section, re.MULTILINE)
    tables = [
        [fault.name.partition(":")[0] for fault in FAULTS if fault.takes == so] for so in (0, 1)
    ]
    assert rows == [row for table in tables for row in dict.fromkeys(["fault", *table])]


def test_nobody_pays_before_the_first_beat_of_a_proxy(
    folder: Path, begun: tuple[Path, float]
) -> None:
    """Let nobody pay: the server may have been restored while it did not run."""
    with running(folder, begun, "") as system:
        system.restart_proxy()
        assert system.sync("ann") == "UnavailableError"
        assert system.ready() == "server"
        system.settle(1)
        assert system.sync("ann") == "sent"


def check_says(pattern: str, problems: list[str]) -> None:
    assert bool(pattern) == bool(problems), problems
    assert re.search(pattern, "\n".join(problems), re.DOTALL), problems

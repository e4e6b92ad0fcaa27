"""How a service stands, read from its database: no worker need run, and none is disturbed."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from prometheus_client import CollectorRegistry, Counter, Enum, Gauge, generate_latest
from sqlalchemy import make_url

from sottovoce.errors import SettingsError, SottovoceError, StoreError
from sottovoce.protocol import Manifest, SignedManifest
from sottovoce.protocol.contact import describe_clock_skew
from sottovoce.server.administration import check_settings
from sottovoce.server.epochs import EpochWait, PendingConfig, get_epoch_wait, is_in_future
from sottovoce.server.keys import Keys, check_newest
from sottovoce.server.settings import ServerSettings
from sottovoce.server.store import ServerStore, check_exists
from sottovoce.server.training import Training
from sottovoce.server.transaction import (
    APPLIED,
    CLOSED,
    OPEN,
    Epoch,
    ProxyContact,
    Service,
    Transaction,
)
from sottovoce.service.connections import RejectionCounter
from sottovoce.service.tls import describe_expiring
from sottovoce.service.watch import ProcessState

PATIENCE = 60.0
"""Seconds that proxies have for what they do by themselves."""
BEATS = 5
"""That workers have for it."""
LEAST_PATIENCE = 10.0
"""Seconds that they have in any case: a busy machine is no fault of theirs."""
SOME = 0.01
"""Part of an epoch's reports that may be dropped before somebody should look."""
SILENCE = 600.0
"""Seconds after which a proxy that says nothing should be looked at: it speaks at every beat."""
LEAST_FREE = 100_000_000
"""Bytes that should be free."""
LAST = 5
"""Epochs that are shown."""
DROPPED = {
    "duplicates": "came twice",
    "undecodable": "could not be opened",
    "crowdless": "came from a proxy without a crowd",
    "capped": "were more of one kind than honest people send",
}


@dataclass(frozen=True)
class KeysFile:
    problem: str | None
    """None: they belong together."""
    replaced: int = 0
    """Times that the signing key was changed for another."""
    is_newer: bool = False
    """Whether the file has a key that signs from the next epoch on."""
    made: int = 0
    """When its signing key was made."""


@dataclass(frozen=True)
class Disk:
    """Where the database lies."""

    free: int | None
    """Bytes; None: on another machine, as far as is known here."""
    problem: str | None

    @classmethod
    def of(cls, store: ServerStore, settings: ServerSettings) -> Self:
        url = make_url(settings.database)
        file = Path(url.database or "") if url.drivername == "sqlite" else None
        if file is not None:
            check_exists(file)
        free = None if file is None else shutil.disk_usage(file.parent).free
        try:
            store.check_writable()
        except StoreError as error:
            return cls(free, str(error))
        if free is not None and free < LEAST_FREE:
            return cls(free, f"only {free / 1e6:,.0f} MB are free on the disk")
        return cls(free, None)


def describe_proxy(name: str, said: ProxyContact | None, silent: float) -> str | None:
    """What is wrong with a proxy that said this last, so many seconds ago; None: nothing."""
    if said is None:
        never = f"nothing was heard from proxy {name} yet: does it run, and reach this server?"
        return never if silent > PATIENCE else None
    if silent > SILENCE:
        return f"nothing was heard from proxy {name} for {SILENCE / 60:.0f} minutes: does it run?"
    if said.refusal:
        return f"proxy {name}: {said.refusal}"
    if said.has_twins:
        return (
            f"two processes speak as proxy {name}, and only the older one is heard: stop one, or "
            "give each a name and a secret of its own ([proxies])"
        )
    if said.earlier_database:
        return (
            f"proxy {name} has another database ({said.database}) than before "
            f"({said.earlier_database}): batches that it acknowledged with the old one may wait "
            "there. Start it with its old folder. If it was set up again on purpose, this ends "
            "with the epoch"
        )
    return describe_clock_skew(said.clock_ahead, f"the clock of proxy {name}", "this server's")


@dataclass(frozen=True)
class ServerStatus:
    now: float
    pending: PendingConfig
    """What holds for the next epoch."""
    verification_key: bytes
    """Of the key that signed last."""
    keys: KeysFile
    heartbeat: float
    """Seconds between a worker's beats."""
    running: ProcessState | str
    """What the worker at the settings' own address says of itself, or why nothing is known."""
    disk: Disk
    epoch: Epoch | None = None
    """The latest; None before the first."""
    manifest: Manifest | None = None
    training: Training | None = None
    """Of that epoch."""
    waiting: EpochWait | None = None
    """None for an epoch that waits for nothing any more."""
    last_epochs: tuple[Epoch, ...] = ()
    """That asked for reports and are over, the newest first."""
    is_listed: bool = False
    """Whether a worker has signed the chosen catalogue for lists."""
    settings_problem: str | None = None
    """Why no worker could start with the settings file as it is now."""
    expiring_certificates: tuple[str, ...] = ()
    """Certificates that must be renewed."""
    contacts: Mapping[str, ProxyContact | None] = field(default_factory=dict)
    """What each proxy said last; None: nothing yet."""

    @classmethod
    def read(
        cls, store: ServerStore, settings: ServerSettings, now: float, running: ProcessState | str
    ) -> Self:
        disk = Disk.of(store, settings)
        with store.read() as transaction:
            service, latest = transaction.get_service(), transaction.find_latest_epoch()
            chosen, known = PendingConfig.read(transaction), service.verification_key
            keys = _keys_file(settings.keys, service, transaction, latest)
            if latest is None:
                return cls(now, chosen, known, keys, settings.heartbeat, running, disk)
            heard = transaction.get_contacts()
            shelf = transaction.find_shelf()
            over = [
                each
                for each in reversed(transaction.list_epochs())
                if each.state == APPLIED and each.closed_at is not None
            ]
            return cls(
                now,
                chosen,
                known,
                keys,
                settings.heartbeat,
                running,
                disk,
                latest,
                SignedManifest.open(latest.manifest, known).manifest,
                transaction.find_training(latest.training),
                get_epoch_wait(transaction, latest, settings, now),
                tuple(over[:LAST]),
                shelf is not None and shelf.catalogue == chosen.catalogue.hash,
                None if keys.problem else _settings_file(transaction, settings),
                tuple(describe_expiring(settings.certificates, now)),
                {name: heard.get(name) for name in settings.proxies},
            )

    @cached_property
    def problems(self) -> list[str]:
        """What an operator should look at; nothing where all is well."""
        found = [] if isinstance(self.running, str) else [*self.running.troubles]
        if isinstance(self.running, str) and self.epoch is not None and not self._is_heard:
            found.append(self.running)  # what proxies say lately, another worker has heard
        known = (self.disk.problem, self.keys.problem, self.settings_problem)
        found += [each for each in known if each is not None and each not in found]
        found += self.expiring_certificates
        if self.epoch is not None:
            found += [each for each in self._of_proxies(self.epoch) if each not in found]
        if self.epoch is not None and self.waiting is not None:
            patience = max(BEATS * self.heartbeat, LEAST_PATIENCE)
            found += _idle(self.epoch, self.waiting, self.now - patience)
            found += _stuck(self.epoch, self.waiting, self.now)
        if self.last_epochs:
            found += _dropped(self.last_epochs[0])
        return found

    @property
    def _is_heard(self) -> bool:
        """By another worker. SQLite has one, so what it heard before it ended is no sign of it."""
        has_others = self.disk.free is None
        lately = (
            said and self.now - said.last_contact <= PATIENCE for said in self.contacts.values()
        )
        return has_others and any(lately)

    def _of_proxies(self, epoch: Epoch) -> Iterator[str]:
        if is_in_future(epoch, self.now):
            yield (
                f"epoch {epoch.epoch} opens in the future, so a clock was wrong when it was "
                f"published, or is now. `sottovoce server go-beyond {epoch.epoch}` lets all go on"
            )
        for name, said in self.contacts.items():
            since = epoch.opens if said is None else said.last_contact
            if (text := describe_proxy(name, said, self.now - since)) is not None:
                yield text

    def as_dict(self) -> dict[str, Any]:
        last = [_counts(each) for each in self.last_epochs]
        found: dict[str, Any] = {
            "problems": self.problems,
            "verification_key": self.verification_key.hex(),
            "keys": asdict(self.keys),
            "disk": asdict(self.disk),
            "proxies": {name: said and asdict(said) for name, said in self.contacts.items()},
            "running": asdict(self.running) if isinstance(self.running, ProcessState) else None,
            "next": {
                "training": self.pending.training.number,
                "catalogue_version": self.pending.version,
                "items": self.pending.items,
            },
            "epoch": None,
            "last_epochs": last,
        }
        epoch, manifest = self.epoch, self.manifest
        if epoch is not None and manifest is not None:
            found["epoch"] = {
                **_counts(epoch),
                **{name: getattr(epoch, name) for name in ("state", "opens", "closes", "ends")},
                "training": epoch.training,
                "epochs_learnt": epoch.epochs_done,
                "epochs_left": None if self.is_endless else manifest.epochs_left,
                "items": manifest.items,
                "waiting": None if self.waiting is None else asdict(self.waiting),
            }
        return found

    @property
    def is_endless(self) -> bool:
        return self.training is not None and bool(self.training.settings.half_life)


def _keys_file(
    path: Path, service: Service, transaction: Transaction, latest: Epoch | None
) -> KeysFile:
    """Read the file that a worker would read, and try its wrapping key on the open epoch."""
    try:
        keys = Keys.read(path)
        wrapped = None if latest is None else transaction.find_wrapped_key(latest.epoch)
        if not keys.is_successor_of(service.verification_key):
            raise SettingsError(f"{path}: must be the keys file of this database")
        check_newest(keys, service)
        if latest is not None and wrapped is not None:
            keys.unwrap(latest.epoch, wrapped)
    except SottovoceError as error:
        return KeysFile(str(error))
    if latest is not None and latest.state != APPLIED and wrapped is None:
        return KeysFile(
            f"the key of epoch {latest.epoch} is not in this database, as in a backup: its reports "
            "cannot be opened",
            len(keys.statements),
        )
    is_newer = keys.verification_key != service.verification_key
    return KeysFile(None, len(keys.statements), is_newer, keys.created)


def _settings_file(transaction: Transaction, settings: ServerSettings) -> str | None:
    """Those that run read it when they started, and would not notice before the next start."""
    try:
        check_settings(transaction, settings, Keys.read(settings.keys))
    except SottovoceError as error:
        return f"no worker could start with these settings any more: {error}"
    return None


def _idle(epoch: Epoch, waiting: EpochWait, then: float) -> list[str]:
    """Whether it waited for nothing even then: workers had time to go on since."""
    over = waiting.until if epoch.state == CLOSED and waiting.silent else waiting.since
    if not waiting.is_over or then < over:
        return []
    what = "closed" if epoch.state == OPEN else "applied"
    said = "does one run, with the newest keys file, and what does its log say?"
    return [f"epoch {epoch.epoch} could be {what}, and no worker does it; {said}"]


def _stuck(epoch: Epoch, waiting: EpochWait, now: float) -> list[str]:
    if waiting.is_over or now < waiting.since + PATIENCE:
        return []
    found = []
    if waiting.silent:
        what = "not said what they hold" if epoch.state == OPEN else "not handed in what they have"
        found.append(f"proxies that have {what}: {', '.join(waiting.silent)}")
    lacks = waiting.short or not waiting.has_crowd
    if epoch.state == OPEN and lacks and now > epoch.closes + (epoch.closes - epoch.opens):
        found.append(
            f"epoch {epoch.epoch} has waited for its crowd for longer than it was open: do fewer "
            "people report than least_clients, or nobody at all?"
        )
    return found


def _dropped(epoch: Epoch) -> list[str]:
    """Of the last epoch that is over."""
    if not epoch.reports:
        return [f"epoch {epoch.epoch} came to nothing: no reports were counted"]
    few = epoch.duplicates + epoch.undecodable <= SOME * epoch.reports
    names = [name for name in DROPPED if getattr(epoch, name)]
    return [
        f"epoch {epoch.epoch}: {getattr(epoch, name):,} reports {DROPPED[name]}, and were dropped"
        for name in names
        if not (few and name in ("duplicates", "undecodable"))
    ]


def _counts(epoch: Epoch) -> dict[str, int]:
    return {name: getattr(epoch, name) for name in ("epoch", "chunks", "reports", *DROPPED)}


# What an operator may watch: the whole server in a few numbers, nothing of a batch or a chunk.

APPLIED_COUNTS = ("epoch", "reports", *DROPPED)
GAUGES = {
    "refused_proxies": "Proxies whose epoch cannot be counted here, or of which there are two",
    "clock_apart_seconds": "Between this clock and that of the proxy that differs most",
    "silent_seconds": "Since the proxy spoke that has been silent longest",
    "keys_wrong": "1: this worker's keys file is lost, or another signing key follows its own",
    "beat_failures": "Beats in a row that failed",
    "certificate_seconds": "Until the first certificate expires; NaN: there is none",
    "disk_free_bytes": "Free where the database lies; NaN: it is no file",
    "epoch": "Number of the latest epoch",
    "training": "Number of the latest epoch's training",
    "items": "In the catalogue of the latest epoch",
    "overdue_seconds": "Seconds that the latest epoch waits beyond its end; 0 before it",
    "applied_epoch": "Number of the last applied epoch",
    "applied_reports": "Counted in the last applied epoch",
    **{f"applied_{name}": f"Dropped in it: they {why}" for name, why in DROPPED.items()},
}


class Metrics:
    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._gauges = {
            name: Gauge(f"sottovoce_server_{name}", about, registry=self._registry)
            for name, about in GAUGES.items()
        }
        self._state = Enum(
            "sottovoce_server_epoch_state",
            "Of the latest epoch",
            states=["none", "open", "closed", "applied"],
            registry=self._registry,
        )
        self.chunks = self._counter("chunks", "Chunks taken by this worker")
        self.opening = self._counter("opening_seconds", "Seconds that chunks spent being opened")
        self.unknown = self._counter("unknown_proxy", "Requests without a known proxy's secret")
        self.turned_away = RejectionCounter("server", self._registry)

    def watch(self, **values: Callable[[], float]) -> None:
        """Numbers that are looked up when somebody asks."""
        for name, value in values.items():
            self._gauges[name].set_function(value)

    def text(
        self,
        latest: Epoch | None,
        manifest: Manifest | None,
        applied: Epoch | None,
        heard: Sequence[ProxyContact],
        now: float,
    ) -> bytes:
        self._state.state(latest.state if latest else "none")
        waits = latest is not None and latest.state != APPLIED
        values = {
            "epoch": latest and latest.epoch,
            "training": latest and latest.training,
            "items": manifest and manifest.items,
            "overdue_seconds": max(now - latest.closes, 0.0) if latest and waits else 0.0,
            "refused_proxies": sum(bool(said.refusal) or said.has_twins for said in heard),
            "clock_apart_seconds": max((abs(said.clock_ahead) for said in heard), default=0.0),
            "silent_seconds": max((now - said.last_contact for said in heard), default=0.0),
            **{f"applied_{name}": getattr(applied, name, 0) for name in APPLIED_COUNTS},
        }
        for name, value in values.items():
            self._gauges[name].set(value or 0)
        return generate_latest(self._registry)

    def _counter(self, name: str, about: str) -> Counter:
        return Counter(f"sottovoce_server_{name}", about, registry=self._registry)

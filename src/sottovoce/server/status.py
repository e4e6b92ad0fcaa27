"""The state of a service, read from its database; no worker needs to run, and none is disturbed."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from sottovoce.errors import SettingsError, SottovoceError, StoreError
from sottovoce.protocol import Manifest, SignedManifest
from sottovoce.server.agreement import check_settings
from sottovoce.server.key_chain import check_newest
from sottovoce.server.keys import Keys
from sottovoce.server.pending import PendingConfig
from sottovoce.server.problems import (
    DROP_REASONS,
    PROXY_GRACE_SECONDS,
    describe_dropped_reports,
    describe_idle_workers,
    find_problems,
)
from sottovoce.server.settings import ServerSettings
from sottovoce.server.store import ServerStore
from sottovoce.server.training import Training
from sottovoce.server.transaction import APPLIED, Epoch, ProxyContact, Service, Transaction
from sottovoce.server.waiting import EpochWait, get_epoch_wait
from sottovoce.service.tls import describe_expiring
from sottovoce.service.watch import ProcessState
from sottovoce.storage.files import describe_full_disk

# Ticks that workers have for what they do by themselves.
WORKER_GRACE_TICKS = 5
# Time that they have in any case: a busy machine is no fault of theirs.
MIN_WORKER_GRACE_SECONDS = 10.0
MAX_EPOCHS_SHOWN = 5


@dataclass(frozen=True)
class KeysFile:
    """The keys file, compared with the database."""

    problem: str | None
    """None if they belong together."""
    replaced: int = 0
    """How often the signing key was replaced."""
    is_newer: bool = False
    """Whether the file has a key that signs from the next epoch on."""
    created: int = 0
    """Unix second when its signing key was made."""

    @classmethod
    def read(
        cls, path: Path, service: Service, transaction: Transaction, latest: Epoch | None
    ) -> Self:
        """Read the file that a worker would read, and unwrap the key of the open epoch."""
        wrapped = None if latest is None else transaction.find_wrapped_key(latest.epoch)
        try:
            keys = Keys.read(path)
            if not keys.is_successor_of(service.verification_key):
                raise SettingsError(f"{path}: must be the keys file of this database")
            check_newest(keys, service)
            # Opening the epoch's key shows whether the keys file belongs to this database.
            if latest is not None and wrapped is not None:
                keys.unwrap(latest.epoch, wrapped)
        except SottovoceError as error:
            return cls(str(error))
        if latest is not None and latest.state != APPLIED and wrapped is None:
            return cls(
                f"the key of epoch {latest.epoch} is not in this database, as in a backup: its "
                "reports cannot be opened",
                len(keys.statements),
            )
        is_newer = keys.verification_key != service.verification_key
        return cls(None, len(keys.statements), is_newer, keys.created)


@dataclass(frozen=True)
class Disk:
    """The disk with the database."""

    free: int | None
    """Free bytes; None if the database is on another machine, as far as is known here."""
    problem: str | None

    @classmethod
    def read(cls, store: ServerStore) -> Self:
        """Write something harmless, and measure the free space."""
        problem = None
        try:
            store.check_writable()
        except StoreError as error:
            problem = str(error)
        free = store.get_free_bytes()
        return cls(free, problem or describe_full_disk(free))


@dataclass(frozen=True)
class ServerStatus:
    """What an operator should know about a service."""

    now: float
    pending: PendingConfig
    """What the next epoch has."""
    verification_key: bytes
    """Verification key of the key that signed last."""
    keys: KeysFile
    heartbeat: float
    """Seconds between the ticks of a worker."""
    running: ProcessState | str
    """What the worker at the settings' own address says of itself, or why nothing is known."""
    disk: Disk
    epoch: Epoch | None = None
    """The latest epoch; None before the first."""
    manifest: Manifest | None = None
    training: Training | None = None
    """Training of that epoch."""
    waiting: EpochWait | None = None
    """None for an epoch that waits for nothing any more."""
    last_epochs: tuple[Epoch, ...] = ()
    """Epochs that asked for reports and are over, newest first."""
    is_listed: bool = False
    """Whether a worker has signed the newest catalogue for lists."""
    settings_problem: str | None = None
    """Why no worker could start with the settings file as it is now."""
    expiring_certificates: str | None = None
    """Which certificates must be renewed; None if all are well."""
    contacts: Mapping[str, ProxyContact | None] = field(default_factory=dict)
    """The last contact with each proxy; None if there was none."""

    @classmethod
    def read(
        cls, store: ServerStore, settings: ServerSettings, now: float, running: ProcessState | str
    ) -> Self:
        """Read the database and the keys file."""
        disk = Disk.read(store)
        with store.read() as transaction:
            service, latest = transaction.get_service(), transaction.find_latest_epoch()
            pending, key = PendingConfig.read(transaction), service.verification_key
            keys = KeysFile.read(settings.keys, service, transaction, latest)
            status = cls(now, pending, key, keys, settings.heartbeat, running, disk)
            if latest is None:
                return status
            contacts, shelf = transaction.get_contacts(), transaction.find_shelf()
            last_epochs = [
                epoch
                for epoch in reversed(transaction.list_epochs())
                if epoch.state == APPLIED and epoch.closed_at is not None
            ]
            return replace(
                status,
                epoch=latest,
                manifest=SignedManifest.open(latest.manifest, key).manifest,
                training=transaction.find_training(latest.training),
                waiting=get_epoch_wait(transaction, latest, settings, now),
                last_epochs=tuple(last_epochs[:MAX_EPOCHS_SHOWN]),
                is_listed=shelf is not None and shelf.catalogue == pending.catalogue.hash,
                settings_problem=(
                    # It would repeat what is wrong with the keys file.
                    None if keys.problem else _find_settings_problem(transaction, settings)
                ),
                expiring_certificates=describe_expiring(settings.certificates, now),
                contacts={name: contacts.get(name) for name in settings.proxies},
            )

    @cached_property
    def problems(self) -> list[str]:
        """What needs the operator's attention; empty if all is well."""
        # Without an answer at [watch] and with contacts of proxies, another worker runs.
        problems: list[str] = []
        epoch, wait = self.epoch, self.waiting
        if isinstance(self.running, ProcessState):
            problems += self.running.troubles
        elif epoch is not None and not self._has_other_worker:
            problems.append(self.running)
        others = [
            self.disk.problem,
            self.keys.problem,
            self.settings_problem,
            self.expiring_certificates,
        ]
        if epoch is not None:
            others += find_problems(
                epoch, wait, self.contacts, self.now, silent_since=epoch.opens
            ).values()
        if epoch is not None and wait is not None:
            grace = max(WORKER_GRACE_TICKS * self.heartbeat, MIN_WORKER_GRACE_SECONDS)
            others.append(describe_idle_workers(epoch, wait, self.now - grace))
        if self.last_epochs:
            others += describe_dropped_reports(self.last_epochs[0])
        # The worker names some of them too.
        problems += [text for text in others if text is not None and text not in problems]
        return problems

    @property
    def _has_other_worker(self) -> bool:
        """Whether proxies have reached another worker lately."""
        # SQLite has one worker: a contact from before it ended is no sign of another.
        may_have_others = self.disk.free is None
        times = [contact.last_contact for contact in self.contacts.values() if contact is not None]
        return may_have_others and any(self.now - time <= PROXY_GRACE_SECONDS for time in times)

    def to_dict(self) -> dict[str, Any]:
        """Return the status for a JSON file."""
        content: dict[str, Any] = {
            "problems": self.problems,
            "verification_key": self.verification_key.hex(),
            "keys": asdict(self.keys),
            "disk": asdict(self.disk),
            "proxies": {
                name: None if contact is None else asdict(contact)
                for name, contact in self.contacts.items()
            },
            "running": asdict(self.running) if isinstance(self.running, ProcessState) else None,
            "next": {
                "training": self.pending.training.number,
                "catalogue_version": self.pending.version,
                "items": self.pending.items,
            },
            "epoch": None,
            "last_epochs": [_get_totals(epoch) for epoch in self.last_epochs],
        }
        epoch, manifest = self.epoch, self.manifest
        if epoch is not None and manifest is not None:
            content["epoch"] = {
                **_get_totals(epoch),
                **{name: getattr(epoch, name) for name in ("state", "opens", "closes", "ends")},
                "training": epoch.training,
                "epochs_learnt": epoch.epochs_done,
                "epochs_left": None if self.is_endless else manifest.epochs_left,
                "items": manifest.items,
                "waiting": None if self.waiting is None else asdict(self.waiting),
            }
        return content

    @property
    def is_endless(self) -> bool:
        """Whether the training has no end."""
        return self.training is not None and bool(self.training.settings.half_life)


def _find_settings_problem(transaction: Transaction, settings: ServerSettings) -> str | None:
    # Workers that run have read the file when they started, and would not notice before the next
    # start.
    try:
        check_settings(transaction, settings, Keys.read(settings.keys))
    except SottovoceError as error:
        return f"no worker could start with these settings any more: {error}"
    return None


def _get_totals(epoch: Epoch) -> dict[str, int]:
    return {name: getattr(epoch, name) for name in ("epoch", "chunks", "reports", *DROP_REASONS)}

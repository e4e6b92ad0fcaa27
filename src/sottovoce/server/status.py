"""The status of a service, read from its database.

No worker needs to run for it, and running workers are not disturbed.
"""

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
from sottovoce.server.pending import PendingConfig, load_start
from sottovoce.server.problems import (
    DROP_REASONS,
    PROXY_GRACE_SECONDS,
    describe_dropped_reports,
    describe_idle_workers,
    describe_room,
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
from sottovoce.training.start import Provenance

# A delay of the workers is a problem only if it is longer than this number of ticks, and longer
# than this time, because a busy machine may be slow.
WORKER_GRACE_TICKS = 5
MIN_WORKER_GRACE_SECONDS = 10.0
MAX_EPOCHS_SHOWN = 5


@dataclass(frozen=True)
class KeysFile:
    """The keys file, compared with the database."""

    problem: str | None
    """What is wrong with the file; None if it belongs to the database."""
    replaced: int = 0
    """Number of times that the signing key was replaced."""
    is_newer: bool = False
    """Whether the file has a new signing key, which signs from the next epoch on."""
    created: int = 0
    """Unix seconds when the signing key was made."""

    @classmethod
    def read(
        cls, path: Path, service: Service, transaction: Transaction, latest: Epoch | None
    ) -> Self:
        """Read the keys file, and check that it belongs to the database."""
        wrapped = None if latest is None else transaction.find_wrapped_key(latest.epoch)
        try:
            keys = Keys.read(path)
            if not keys.is_successor_of(service.verification_key):
                raise SettingsError(f"{path}: must be the keys file of this database")
            check_newest(keys, service)
            # Unwrapping the epoch's key shows whether the wrapping key is the right one, too.
            if latest is not None and wrapped is not None:
                keys.unwrap(latest.epoch, wrapped)
        except SottovoceError as error:
            return cls(str(error))
        if latest is not None and latest.state != APPLIED and wrapped is None:
            return cls(
                f"this database lacks the key of epoch {latest.epoch}, which backups leave out: "
                "its reports cannot be opened",
                len(keys.statements),
            )
        is_newer = keys.verification_key != service.verification_key
        return cls(None, len(keys.statements), is_newer, keys.created)


@dataclass(frozen=True)
class Disk:
    """The disk of the database."""

    free: int | None
    """Free bytes; None if the database is not a file but PostgreSQL."""
    problem: str | None
    """What is wrong with the disk; None if nothing is."""

    @classmethod
    def read(cls, store: ServerStore) -> Self:
        """Check that the database can be written, and measure the free space."""
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
    """Training and catalogue of the next epoch."""
    verification_key: bytes
    """Public half of the signing key that signed last."""
    keys: KeysFile
    heartbeat: float
    """Seconds between the ticks of a worker."""
    running: ProcessState | str
    """State of the worker at the [watch] address, or a message that says why there is none."""
    disk: Disk
    epoch: Epoch | None = None
    """The latest epoch; None before the first."""
    manifest: Manifest | None = None
    training: Training | None = None
    """Training of the latest epoch."""
    waiting: EpochWait | None = None
    """What the latest epoch waits for; None if it is applied."""
    last_epochs: tuple[Epoch, ...] = ()
    """The last applied epochs that asked for reports, newest first."""
    is_listed: bool = False
    """Whether a worker has signed the newest catalogue for lists."""
    start: Provenance | None = None
    """Provenance of the public start that is in the model, or that the first model will have."""
    settings_problem: str | None = None
    """The reason why no worker can start with the present settings file; None if one can."""
    expiring_certificates: str | None = None
    """A message that names the certificates to renew; None if no certificate expires soon."""
    contacts: Mapping[str, ProxyContact | None] = field(default_factory=dict)
    """The last contact with each proxy; None if there was none."""

    @classmethod
    def read(
        cls, store: ServerStore, settings: ServerSettings, now: float, running: ProcessState | str
    ) -> Self:
        """Read the status from the database and the keys file.

        Args:
            store: The database.
            settings: The settings of the server.
            now: Unix seconds.
            running: The field `running`.
        """
        disk = Disk.read(store)
        with store.read() as transaction:
            service, latest = transaction.get_service(), transaction.find_latest_epoch()
            pending, key = PendingConfig.read(transaction), service.verification_key
            keys = KeysFile.read(settings.keys, service, transaction, latest)
            status = cls(now, pending, key, keys, settings.heartbeat, running, disk)
            if latest is None:
                public = load_start(transaction, pending.training)
                return replace(status, start=None if public is None else public.provenance)
            contacts, shelf = transaction.get_contacts(), transaction.find_shelf()
            last_epochs = [
                epoch
                for epoch in reversed(transaction.list_epochs())
                if epoch.state == APPLIED and epoch.closed_at is not None
            ]
            manifest = SignedManifest.open(latest.manifest, key).manifest
            return replace(
                status,
                epoch=latest,
                manifest=manifest,
                start=manifest.start,
                training=transaction.find_training(latest.training),
                waiting=get_epoch_wait(transaction, latest, settings, now),
                last_epochs=tuple(last_epochs[:MAX_EPOCHS_SHOWN]),
                is_listed=shelf is not None and shelf.catalogue == pending.catalogue.hash,
                settings_problem=(
                    # With a wrong keys file, this check would report the same problem again.
                    None if keys.problem else _find_settings_problem(transaction, settings)
                ),
                expiring_certificates=describe_expiring(settings.certificates, now),
                contacts={name: contacts.get(name) for name in settings.proxies},
            )

    @cached_property
    def problems(self) -> list[str]:
        """What needs the operator's attention; empty if all is well."""
        problems: list[str] = []
        epoch, wait = self.epoch, self.waiting
        if isinstance(self.running, ProcessState):
            problems += self.running.troubles
        # No answer from the worker at [watch] is no problem while proxies reach another worker.
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
                epoch,
                wait,
                self.contacts,
                describe_room(self.pending.items, self.pending.training),
                self.now,
                silent_since=epoch.opens,
            ).values()
        if epoch is not None and wait is not None:
            grace = max(WORKER_GRACE_TICKS * self.heartbeat, MIN_WORKER_GRACE_SECONDS)
            others.append(describe_idle_workers(epoch, wait, self.now - grace))
        if self.last_epochs:
            others += describe_dropped_reports(self.last_epochs[0])
        # The running worker may have reported some of them already.
        problems += [text for text in others if text is not None and text not in problems]
        return problems

    @property
    def _has_other_worker(self) -> bool:
        """Whether proxies have recently reached a worker other than the one at [watch]."""
        # With SQLite there is only one worker, and a recent contact was made before it ended.
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
                "max_items": self.pending.training.terms.max_items,
                "learns": self.pending.training.kind,
            },
            "start": None if self.start is None else asdict(self.start),
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
    # A running worker has read the settings file when it started, and would notice this problem
    # only at its next start.
    try:
        check_settings(transaction, settings, Keys.read(settings.keys))
    except SottovoceError as error:
        return f"no worker could start with these settings any more: {error}"
    return None


def _get_totals(epoch: Epoch) -> dict[str, int]:
    return {name: getattr(epoch, name) for name in ("epoch", "chunks", "reports", *DROP_REASONS)}

"""What the operator chose, as the database has it: key, trainings, catalogues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select, union

from sottovoce.server.store.schema import catalogues, epochs, files, service, sums, trainings
from sottovoce.server.training import Training

if TYPE_CHECKING:
    from typing import Literal

    from sqlalchemy import Connection

    FileKind = Literal["model", "catalogue"]


@dataclass(frozen=True)
class Service:
    """The row of `service`."""

    verification_key: bytes
    """Of the key that signed last."""
    newest_key: bytes
    """Of the one that was made last: it follows."""
    next_epoch: int


@dataclass(frozen=True)
class CatalogueVersion:
    version: int
    sha256: bytes


class ChosenTables:
    """Its part of a transaction."""

    def __init__(self, connection: Connection):
        self._connection = connection

    def service(self, *, lock: bool = False) -> Service | None:
        """None before it is set up. Locked, nobody else moves the epochs on or chooses."""
        query = select(service.c.verification_key, service.c.newest_key, service.c.next_epoch)
        row = self._connection.execute(query.with_for_update() if lock else query).one_or_none()
        return None if row is None else Service(*row)

    def begin_service(self, verification_key: bytes) -> None:
        row = {"verification_key": verification_key, "newest_key": verification_key}
        self._connection.execute(service.insert().values(id=1, next_epoch=1, **row))

    def set_service(self, verification_key: bytes, next_epoch: int) -> None:
        """The key that signs from now on, and the least number of the next epoch."""
        row = {"verification_key": verification_key, "next_epoch": next_epoch}
        self._connection.execute(service.update().values(**row))

    def set_newest_key(self, verification_key: bytes) -> None:
        """The key that is to sign next; the service must be locked."""
        self._connection.execute(service.update().values(newest_key=verification_key))

    def training(self, number: int | None = None) -> Training | None:
        """That of this number, or the newest, which is that of the next epoch."""
        query = select(trainings).order_by(trainings.c.number.desc()).limit(1)
        if number is not None:
            query = query.where(trainings.c.number == number)
        row = self._connection.execute(query).one_or_none()
        return None if row is None else Training.from_row(*row)

    def set_training(self, training: Training) -> None:
        """A new one, or the same as its operator has it now."""
        same = trainings.c.number == training.number
        self._connection.execute(trainings.delete().where(same))
        self._connection.execute(trainings.insert().values(**training.as_row()))

    def drop_training(self, number: int) -> None:
        """One that nobody has seen."""
        self._connection.execute(trainings.delete().where(trainings.c.number == number))

    def catalogue(self) -> CatalogueVersion | None:
        """The newest: that of the next epoch."""
        row = self._connection.execute(
            select(catalogues).order_by(catalogues.c.version.desc()).limit(1)
        ).one_or_none()
        return None if row is None else CatalogueVersion(*row)

    def set_catalogue(self, version: int, sha256: bytes, content: bytes) -> None:
        """A new version, or another one of the same number."""
        same = catalogues.c.version == version
        self._connection.execute(catalogues.delete().where(same))
        self._connection.execute(catalogues.insert().values(version=version, sha256=sha256))
        self.add_file(sha256, "catalogue", content)

    def file(self, sha256: bytes, kind: FileKind) -> bytes | None:
        query = select(files.c.content).where(files.c.sha256 == sha256, files.c.kind == kind)
        return self._connection.scalar(query)

    def add_file(self, sha256: bytes, kind: FileKind, content: bytes) -> None:
        """Known already is well."""
        if self.file(sha256, kind) is None:
            row = {"sha256": sha256, "kind": kind, "content": content}
            self._connection.execute(files.insert().values(**row))

    def forget_before(self, epoch: int) -> None:
        """Drop what only epochs before this one needed: their sums, models and catalogues."""
        self._connection.execute(sums.delete().where(sums.c.epoch < epoch))
        later = epochs.c.epoch >= epoch
        needed = union(select(epochs.c.model).where(later), select(epochs.c.catalogue).where(later))
        newest = self.catalogue()
        waiting = b"" if newest is None else newest.sha256  # for the next epoch
        unused = files.c.sha256.not_in(needed) & (files.c.sha256 != waiting)
        self._connection.execute(files.delete().where(unused))

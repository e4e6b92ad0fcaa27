"""Programs that end at any step: before or after a commit, a cleaning or a call."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sottovoce.proxy import epoch_files
from sottovoce.proxy.epoch_files import ReportFile, delete_file
from sottovoce.server import ServerStore
from sottovoce.storage.database import Database

UNLIMITED_STEPS = 10**9


class PowerCut(BaseException):
    """The end of the program, which nothing may catch."""


class Life:
    """A limited number of steps, after which the program ends."""

    def __init__(self, steps: int = UNLIMITED_STEPS):
        self.left = steps
        self.done: set[str] = set()

    def step(self, name: object = None) -> None:
        self.done.add(str(name))
        self.left -= 1
        if self.left < 0:
            self.end()

    def end(self) -> None:
        raise PowerCut


class MortalDatabase(Database):
    """Dies before a commit or a cleaning, or right after it."""

    life = Life()
    lives: ClassVar[dict[Path, Life]] = {}
    """Lives of the files in these folders, instead of the one above."""

    @classmethod
    def step(cls, folder: Path, name: str) -> None:
        """Take one step of the life of a folder."""
        cls.lives.get(folder, cls.life).step(name)

    def commit(self) -> None:
        self.step(self.path.parent, "before a commit")
        super().commit()
        self.step(self.path.parent, "after a commit")

    def empty_log(self) -> None:
        self.step(self.path.parent, "before a cleaning")
        super().empty_log()
        self.step(self.path.parent, "after a cleaning")


class MortalReportFile(ReportFile):
    """Dies before its content is written, in the middle of it, or right after it."""

    def write(self, runs: Iterable[bytes]) -> None:
        MortalDatabase.step(self.path.parent, "before writing")
        super().write(self._interrupted(runs))
        MortalDatabase.step(self.path.parent, "after writing")

    def _interrupted(self, runs: Iterable[bytes]) -> Iterable[bytes]:
        for run in runs:
            yield run[: len(run) // 2]
            MortalDatabase.step(self.path.parent, "while writing")
            yield run[len(run) // 2 :]


def delete_file_or_die(path: Path) -> None:
    """Delete a file, and die before or after it."""
    MortalDatabase.step(path.parent, "before a deletion")
    delete_file(path)
    MortalDatabase.step(path.parent, "after a deletion")


def make_mortal(patch: pytest.MonkeyPatch) -> None:
    """Let the files of clients and proxies end at their steps."""
    for module in ("client.store", "client.history", "proxy.store", "proxy.epoch_files"):
        patch.setattr(f"sottovoce.{module}.Database", MortalDatabase)
    patch.setattr(epoch_files, "ReportFile", MortalReportFile)
    patch.setattr(epoch_files, "delete_file", delete_file_or_die)


def make_server_mortal(store: ServerStore, step: Callable[[object], None]) -> None:
    """Let this store of a server take a step before and after each commit."""
    dialect: Any = store._engine.dialect
    commit = dialect.do_commit

    def do_commit(connection: Any) -> None:
        step("before a commit")
        commit(connection)
        step("after a commit")

    dialect.do_commit = do_commit

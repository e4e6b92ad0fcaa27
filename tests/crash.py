"""Programs that die at any step: before or after a commit, a cleaning, a call."""

from collections.abc import Callable
from typing import Any

import pytest

from sottovoce.server import ServerStore
from sottovoce.storage.database import Database

FOREVER = 10**9


class PowerCut(BaseException):
    """No error of the program: its end. Nothing may catch it."""


class Life:
    """So many things are done, and nothing ever after."""

    def __init__(self, steps: int = FOREVER):
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

    def commit(self) -> None:
        self.life.step("before a commit")
        super().commit()
        self.life.step("after a commit")

    def empty_log(self) -> None:
        self.life.step("before a cleaning")
        super().empty_log()
        self.life.step("after a cleaning")


def make_mortal(patch: pytest.MonkeyPatch) -> None:
    """The databases of clients and proxies, from now on."""
    for module in ("client.store", "client.history", "proxy.store"):
        patch.setattr(f"sottovoce.{module}.Database", MortalDatabase)


def make_server_mortal(store: ServerStore, step: Callable[[object], None]) -> None:
    """This store of a server takes a step before and after each commit."""
    dialect: Any = store._engine.dialect
    commit = dialect.do_commit

    def do_commit(connection: Any) -> None:
        step("before a commit")
        commit(connection)
        step("after a commit")

    dialect.do_commit = do_commit

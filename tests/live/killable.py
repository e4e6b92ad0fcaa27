"""Parts that can be killed at any step, and start again from the state of their disk.

The disk is copied when the step is reached, before the stack is unwound. What a dying program still
does in `finally` happens to files that are not used any more.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

from sottovoce.client import Client, ProxyApi, SyncResult
from sottovoce.client.reporting import DrawWords
from sottovoce.proxy import Proxy, ProxySettings, ProxyStore, Upstream
from sottovoce.proxy.shuffle import Entropy
from sottovoce.server import InProcessOpener, Server, ServerSettings, ServerStore
from tests.crash import UNLIMITED_STEPS, Life, MortalDatabase, make_server_mortal
from tests.server.world import KEYS

Clock = Callable[[], float]


class Killed(BaseException):
    """One part was killed; only the code that restarts parts may catch this."""

    def __init__(self, part: Part):
        super().__init__(part.name)
        self.part = part


class Countdown(Life):
    """Counts the points at which its part could be killed; kills it at zero."""

    def __init__(self, part: Part):
        super().__init__()
        self._part = part

    def end(self) -> None:
        self.left = UNLIMITED_STEPS
        self._part.copy_disk()
        raise Killed(self._part)


class Part:
    """A program with a folder, which can be restarted."""

    def __init__(self, name: str, folder: Path):
        self.name = name
        self.folder = folder
        self.countdown = Countdown(self)
        self.lives = 1
        self._opened = ExitStack()

    def start(self) -> None:
        """Start it from what is in the folder."""
        raise NotImplementedError

    def copy_disk(self) -> None:
        """Copy the folder for the next life."""
        shutil.copytree(self.folder, self._next_folder())

    def restart(self) -> None:
        """Start it again after a `Killed`."""
        self.close()
        self.folder = self._next_folder()
        self.lives += 1
        self.start()

    def kill(self) -> None:
        """Kill it while it does nothing."""
        self.copy_disk()
        self.restart()

    def close(self) -> None:
        """Close the files of this life."""
        self._opened.close()

    def _next_folder(self) -> Path:
        return self.folder.parent / f"{self.name}-{self.lives + 1}"


class ReusedStore:
    """One server store for all runs and restarts, on the database that is in its folder.

    A store remembers only its compiled statements, so one is enough. Each start makes a new
    `Server` and new connections to the files that the last one left.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.life = Life()
        self.store = ServerStore(f"sqlite:///{folder / 'server.sqlite'}")
        make_server_mortal(self.store, lambda name: self.life.step(name))


class KillableServer(Part):
    """A server that dies before or after a commit."""

    def __init__(self, reused: ReusedStore, begin: Path, settings: ServerSettings, clock: Clock):
        super().__init__("server", reused.folder)
        self._reused, self.store = reused, reused.store
        self.settings, self.keys = settings, KEYS
        """Read again at every start."""
        self._clock = clock
        shutil.copytree(begin, self.folder)
        self.start()

    def start(self) -> None:
        self._reused.life = self.countdown
        self.server = Server(
            self.store, self.keys, self.settings, clock=self._clock, opener=InProcessOpener()
        )

    def restart(self) -> None:
        self.close()
        self._next_folder().rename(self.folder)
        self.lives += 1
        self.start()

    def close(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)


class KillableProxy(Part):
    """A proxy that dies before or after a commit or a cleaning."""

    def __init__(
        self,
        name: str,
        folder: Path,
        upstream: Upstream,
        settings: ProxySettings,
        clock: Clock,
        entropy: Entropy,
    ):
        super().__init__(name, folder)
        self._rest = upstream, settings
        self._clock, self._entropy = clock, entropy
        self.start()

    def start(self) -> None:
        MortalDatabase.lives[self.folder] = self.countdown
        self.store = self._opened.enter_context(ProxyStore.open(self.folder))
        self.proxy = Proxy(
            self.store,
            *self._rest,
            clock=self._clock,
            monotonic=self._clock,
            entropy=self._entropy,
        )


def list_charged_epochs(folder: Path) -> list[int]:
    """Read the epochs of a client's ledger from its file."""
    with closing(sqlite3.connect(folder / "client.db")) as db:
        charges = "SELECT epoch FROM ledger WHERE epoch IS NOT NULL ORDER BY record"
        return [epoch for (epoch,) in db.execute(charges)]


class KillableClient(Part):
    """A client that dies before or after a commit."""

    def __init__(self, name: str, folder: Path, clock: Clock, entropy: Entropy = os.urandom):
        super().__init__(name, folder)
        self._clock, self._entropy = clock, entropy

    def start(self) -> None:
        """Do nothing: a client is opened for each sync."""

    def sync(self, api: ProxyApi, words: DrawWords) -> SyncResult:
        MortalDatabase.life = self.countdown
        try:
            with Client.open(self.folder, clock=self._clock, entropy=self._entropy) as client:
                return client.sync(api, draw_words=words, jitter=0)
        finally:
            MortalDatabase.life = Life()

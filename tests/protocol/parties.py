"""Everybody who reads what is published: a client, a proxy, somebody who only reads."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sottovoce.experiments.live.reader import PublicReader
from sottovoce.proxy import Store
from sottovoce.proxy.mirror import Mirror

if TYPE_CHECKING:
    from tests.client.world import FakeProxy, World


class Party(Protocol):
    """One who has accepted an epoch."""

    def refresh(self) -> None:
        """Ask again; raises what does not hold."""

    def accepted(self) -> object:
        """What this party goes by, and shows to others."""

    def close(self) -> None:
        """Let go of what was opened."""


class AsClient:
    def __init__(self, world: World, source: FakeProxy, folder: Path):
        self._client, self._source = world.create(folder), source
        self._client.pause(on=True)

    def refresh(self) -> None:
        self._client.sync(self._source)

    def accepted(self) -> object:
        store = self._client._store
        return store.newest, store.signed_manifest(), self._client.recommend(50)

    def close(self) -> None:
        self._client.close()


class AsProxy:
    def __init__(self, world: World, source: FakeProxy, folder: Path):
        self._store = Store.open(folder)
        self._mirror = Mirror(self._store, source, world.verification_key, keep_models=2)

    def refresh(self) -> None:
        newer = self._mirror.newer()
        if newer is not None:
            self._mirror.publish(newer)

    def accepted(self) -> object:
        assert self._mirror.current is not None
        assert self._mirror.current == self._mirror._load()
        return self._mirror.current

    def close(self) -> None:
        self._store.close()


class AsReader:
    def __init__(self, world: World, source: FakeProxy, _: Path):
        self._reader = PublicReader(source, world.verification_key)

    def refresh(self) -> None:
        attempt = copy(self._reader)  # what fails is not remembered, as with the others
        attempt.edition(attempt.manifest())
        self._reader = attempt

    def accepted(self) -> object:
        return self._reader._newest, self._reader._files

    def close(self) -> None:
        pass


MakeParty = Callable[["World", "FakeProxy", Path], Party]
PARTIES: list[MakeParty] = [AsClient, AsProxy, AsReader]

"""The power goes at every step there is; every acknowledged report arrives exactly once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from sottovoce.proxy import ProxyStore
from tests.crash import FOREVER, Life, MortalDatabase, PowerCut, make_mortal
from tests.proxy.world import World, all_reports, raw_bytes, signed


@pytest.fixture(autouse=True)
def _mortal_databases(monkeypatch: pytest.MonkeyPatch) -> None:
    make_mortal(monkeypatch)


class FragileWorld(World):
    """Its disk, as it was at the moment of death, is all that the next life has."""

    def __init__(self, folder: Path, steps: int):
        super().__init__(folder)
        self.life, self.lives = Life(steps), 1
        self.server.before = self.life.step
        self._revive(folder)

    def _revive(self, folder: Path) -> None:
        self.store.close()
        self.store = ProxyStore.open(folder)
        assert isinstance(self.store._writer, MortalDatabase)
        self.store._writer.life = self.life
        self.folder, self.proxy = folder, self._proxy()

    def insist(self, action: Callable[[], object]) -> None:
        """Do it; after a power cut do it again, from what the disk held."""
        try:
            action()
        except PowerCut:
            self.lives += 1
            self.life.left = FOREVER
            disk = self.folder.with_name(f"life-{self.lives}")
            shutil.copytree(self.folder, disk)
            self._revive(disk)
            action()


def live(folder: Path, steps: int = FOREVER) -> FragileWorld:
    """Two epochs and the beginning of a third."""
    world = FragileWorld(folder / "life-1", steps)
    world.insist(lambda: world.proxy.tick())
    for epoch in (1, 2):
        batches = world.people.batches(world.now, 3)
        for batch in batches:
            world.insist(lambda data=batch: world.proxy.accept(data.encode()))  # type: ignore[misc]
        world.close_epoch()
        world.insist(lambda: world.proxy.tick())
        world.insist(lambda: world.proxy.tick())
        assert world.server.commits[epoch] == (3, 12)
        assert sorted(world.server.reports(epoch)) == sorted(all_reports(batches))
        raw = raw_bytes(world.folder)
        assert not any(batch.id in raw for batch in batches)
        assert not any(report in raw for report in all_reports(batches))
        world.server.go_on(signed(epoch + 1))
        world.insist(lambda: world.proxy.tick())
        assert world.proxy.manifest() == world.now
    world.store.close()
    return world


@pytest.mark.slow
def test_a_power_cut_at_every_step(tmp_path: Path) -> None:
    whole = live(tmp_path / "whole").life
    assert {"before a commit", "after a cleaning", "put_chunk", "after commit"} <= whole.done
    for steps in range(FOREVER - whole.left):
        world = live(tmp_path / f"cut-{steps}", steps)
        assert world.lives == 2, steps
        with suppress(OSError):
            shutil.rmtree(tmp_path / f"cut-{steps}")

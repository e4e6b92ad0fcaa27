"""The power goes at every step there is; every acknowledged report arrives exactly once."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sottovoce.proxy import ProxyStore
from tests.proxy.world import World, all_reports, raw_bytes, signed

if TYPE_CHECKING:
    from sottovoce.proxy.tables import Tables


class PowerCut(BaseException):
    """Nothing may catch it."""


@dataclass
class Steps:
    """Counts every step at which a machine could die, and dies at one of them."""

    fatal: int | None
    taken: list[str] = field(default_factory=list)

    def __call__(self, name: str) -> None:
        self.taken.append(name)
        if len(self.taken) - 1 == self.fatal:
            raise PowerCut(name)


class FragileStore(ProxyStore):
    """A store that can die before and after every commit and every scrubbing."""

    step: Callable[[str], None]

    @contextmanager
    def write(self) -> Iterator[Tables]:
        with super().write() as tables:
            yield tables
            self.step("before a commit")
        self.step("after a commit")

    def scrub(self) -> None:
        if hasattr(self, "step"):
            self.step("before scrubbing")
            super().scrub()
            self.step("after scrubbing")
        else:
            super().scrub()


class FragileWorld(World):
    """Its disk, as it was at the moment of death, is all that the next life has."""

    def __init__(self, folder: Path, steps: Steps):
        super().__init__(folder)
        self.steps, self.lives = steps, 1
        self.server.before = steps
        self._revive(folder)

    def _revive(self, folder: Path) -> None:
        self.store.close()
        self.store = FragileStore.open(folder)
        assert isinstance(self.store, FragileStore)
        self.store.step = self.steps
        self.folder, self.proxy = folder, self._proxy()

    def insist(self, action: Callable[[], object]) -> None:
        """Do it; after a power cut do it again, from what the disk held."""
        try:
            action()
        except PowerCut:
            self.lives += 1
            disk = self.folder.with_name(f"life-{self.lives}")
            shutil.copytree(self.folder, disk)
            self._revive(disk)
            action()


def live(folder: Path, fatal: int | None) -> FragileWorld:
    """Two epochs and the beginning of a third."""
    world = FragileWorld(folder / "life-1", Steps(fatal))
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
    whole = live(tmp_path / "whole", None).steps.taken
    assert {
        "before a commit",
        "after a commit",
        "before scrubbing",
        "put_chunk",
        "after commit",
    } <= set(whole)
    for fatal in range(len(whole)):
        world = live(tmp_path / f"cut-{fatal}", fatal)
        assert world.lives == 2, (fatal, whole[fatal])
        with suppress(OSError):
            shutil.rmtree(tmp_path / f"cut-{fatal}")

"""A real disk that is full at any moment of an epoch: what was acknowledged arrives."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sottovoce.errors import SottovoceError
from sottovoce.protocol import Batch
from tests.proxy.world import CLOSES, World, all_reports, signed

# Size of the disk, and of an epoch in steps.
DISK_BYTES = 12 * 2**20
REPORTS_PER_BATCH = 1_000
N_STEPS = 20
# Steps for which the disk stays full.
FULL_FOR_STEPS = 4


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a small file system."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = f"size={DISK_BYTES}"
    mounting = ("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder))
    try:
        mounted = subprocess.run(mounting, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(("umount", "--lazy", str(folder)), check=True)


def fill(disk: Path) -> None:
    """Fill the disk."""
    with suppress(OSError), (disk / "ballast").open("ab", buffering=0) as file:
        for size in (2**16, 2**12, 1):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))


def list_steps(world: World, acknowledged: list[Batch]) -> list[Callable[[], None]]:
    """Return an epoch in steps: batches and ticks, then its end and the hand-in."""

    def send() -> None:
        (batch,) = world.people.batches(world.now, 1)
        world.accept(batch)
        acknowledged.append(batch)

    def tick() -> None:
        world.proxy.tick()

    def close() -> None:
        world.close_epoch()
        world.proxy.tick()

    return [tick, *[send, send, tick] * 5, close, tick, tick, tick]


@pytest.mark.parametrize("full_at", range(N_STEPS))
def test_a_disk_that_is_full_for_a_while_loses_nothing_acknowledged(
    disk: Path, full_at: int
) -> None:
    world = World(disk / "proxy", signed(reports=REPORTS_PER_BATCH, dummies=5), chunk_reports=500)
    acknowledged: list[Batch] = []
    steps = list_steps(world, acknowledged)
    assert len(steps) == N_STEPS
    for number, step in enumerate(steps):
        if number == full_at:
            fill(disk)
        if number == full_at + FULL_FOR_STEPS:
            (disk / "ballast").unlink()
        with suppress(SottovoceError):
            step()
    (disk / "ballast").unlink(missing_ok=True)
    assert world.clock.now == CLOSES
    for _ in range(2):
        with suppress(SottovoceError):
            world.proxy.tick()
    arrived = world.server.reports(1)
    assert len(acknowledged) >= 3
    assert len(arrived) == len(set(arrived)) == len(acknowledged) * REPORTS_PER_BATCH + 5
    assert set(all_reports(acknowledged)) < set(arrived)
    world.store.close()

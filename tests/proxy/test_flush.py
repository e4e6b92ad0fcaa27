"""The real flush: who came with whom is gone, and memory stays flat."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from sottovoce.protocol import SEALED
from sottovoce.proxy.shuffle import BUCKET
from tests.proxy.world import World, raw_bytes, reports_of, signed

PEOPLE, REPORTS = 300, 100


@pytest.fixture(scope="module")
def flushed(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, list[list[bytes]], bytes]:
    """Three hundred people, more reports than a bucket holds; the folder right after the flush."""
    world = World(tmp_path_factory.mktemp("flush"), signed(reports=REPORTS), chunk_reports=7_000)
    world.proxy.tick()
    batches = world.people.batches(world.now, PEOPLE)
    assert not any(world.proxy.intake.keep(batches))
    before: list[bytes] = []

    def look(call: str) -> None:
        if call == "put_chunk" and not before:
            before.append(raw_bytes(world.folder))

    world.server.before = look
    world.end_epoch()
    world.store.close()
    return (
        world,
        [reports_of(batch.sealed) for batch in batches],
        before[0] + b"".join(batch.id for batch in batches),
    )


def test_reports_of_one_person_are_no_closer_than_chance(
    flushed: tuple[World, list[list[bytes]], bytes],
) -> None:
    """Neighbours of one batch are close to Poisson with mean k - 1 = 99 in a uniform order.

    Outside 40..170 with probability below 1e-10. As sent, 29,700 of 29,999 pairs are neighbours.
    """
    world, people, _ = flushed
    owner = {report: who for who, reports in enumerate(people) for report in reports}
    order = [owner[report] for report in world.server.reports(1)]
    assert PEOPLE * REPORTS > BUCKET
    assert sorted(order) == sorted(owner.values())
    assert 40 < sum(a == b for a, b in pairwise(order)) < 170


def test_chunks_mix_everybody(flushed: tuple[World, list[list[bytes]], bytes]) -> None:
    """A person's share of a chunk of 7,000 is hypergeometric, mean 23.3, sigma 4.2: 6 sigma."""
    world, people, _ = flushed
    owner = {report: who for who, reports in enumerate(people) for report in reports}
    chunks = [chunk for chunk in world.server.chunks[1].values() if chunk.reports == 7_000]
    assert len(chunks) == 4
    for chunk in chunks:
        who = [owner[report] for report in reports_of(chunk.sealed)]
        assert max(who.count(person) for person in range(PEOPLE)) < 23.3 + 6.5 * 4.2


def test_right_after_the_flush_the_disk_has_forgotten_who_came_with_whom(
    flushed: tuple[World, list[list[bytes]], bytes],
) -> None:
    """No batch id; reports, but none beside another of its batch beyond what chance puts there."""
    _, people, disk = flushed
    raw, ids = disk[: -16 * PEOPLE], disk[-16 * PEOPLE :]
    assert not any(ids[at : at + 16] in raw for at in range(0, len(ids), 16))
    assert sum(report in raw for report in people[0]) > REPORTS // 2  # the chunks are there
    side_by_side = sum(
        first + second in raw for reports in people[:20] for first, second in pairwise(reports)
    )
    # Of 1,980 pairs each is adjacent in this order with probability 1/30,000.
    assert side_by_side <= 3


def test_a_flush_draws_a_new_order_every_time(tmp_path: Path) -> None:
    orders = []
    for seed in (1, 2):
        world = World(tmp_path / str(seed))
        world.proxy._entropy = lambda n, draw=world.people.draw: draw(n)  # type: ignore[misc]
        world.proxy.tick()
        world.send(4 + seed)  # moves the stream on
        world.end_epoch()
        orders.append(world.server.reports(1))
        world.store.close()
    assert orders[0] != orders[1][: len(orders[0])]


FILL = """
import sys
from itertools import pairwise
from pathlib import Path
from tests.proxy.world import World, signed
KEY = bytes([9]) + bytes(31)
world = World(Path(sys.argv[1]), signed(reports=1000, public_key=KEY))
world.proxy.tick()
for _ in range(10):
    assert not any(world.proxy.intake.keep(world.people.batches(world.now, 100)))
world.store.close()
"""
FLUSH = """
import resource, sys
from pathlib import Path
from tests.proxy.world import CLOSES, World, signed
KEY = bytes([9]) + bytes(31)
world = World(Path(sys.argv[1]), signed(reports=1000, public_key=KEY), chunk_reports=20_000)
forwarded = []
world.server.put_chunk = lambda chunk: forwarded.append(chunk.reports)
world.server.commit = lambda *_: None
world.close_epoch()
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = peak()
world.proxy.tick()
assert sum(forwarded) == 1_000_000, sum(forwarded)
print(peak() - before)
"""


@pytest.mark.slow
def test_a_million_reports_in_flat_memory(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    for script in (FILL, FLUSH):
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / "p")],
            capture_output=True, check=False, cwd=root, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
    megabytes = int(done.stdout)
    assert megabytes < 80, f"{megabytes} MB for {1_000_000 * SEALED / 1e6:.0f} MB of reports"

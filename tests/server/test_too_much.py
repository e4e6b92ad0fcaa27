"""Reports that were seen before are not opened again, and a proxy hands in no more than it may."""

from __future__ import annotations

import numpy as np
import pytest

from sottovoce.core import sum_signs
from sottovoce.errors import RefusedError, UnavailableError
from sottovoce.protocol import SEALED, Opened
from sottovoce.protocol.batch import CHUNK_HEADER as HEADER
from sottovoce.server import InProcess
from tests.server.world import World, chunk_of, sealed


class Counted(InProcess):
    """Knows how many it has opened; breaks when it is told to."""

    def __init__(self) -> None:
        self.opened = 0
        self.broken = False

    def open(
        self, sealed: bytes, private_key: bytes, manifest_hash: bytes, n_directions: int
    ) -> Opened:
        if self.broken:
            raise UnavailableError("a process that opens reports ended: send it again")
        self.opened += len(sealed) // SEALED
        return super().open(sealed, private_key, manifest_hash, n_directions)


def shuffled(data: bytes, seed: int) -> bytes:
    rows = np.frombuffer(data, np.uint8).reshape(-1, SEALED)
    return np.random.default_rng(seed).permutation(rows).tobytes()


@pytest.fixture
def counted(world: World) -> Counted:
    opener = Counted()
    world.server._opener = opener
    return opener


def test_repeats_are_opened_once_in_a_chunk_and_over_chunks(world: World, counted: Counted) -> None:
    """Garbage as well: of a thousand copies of three reports, two of them garbage, three."""
    signed = world.closed()
    reports = world.reports(1)
    garbage = bytes(range(1, 2 * SEALED + 1))
    data = (sealed(reports, signed) + garbage) * 1000
    for number in range(4):
        assert world.send("east", chunk_of(shuffled(data, number), signed))
    assert counted.opened == 3
    assert world.counts(1) == (4, 1, 4 * 3000 - 3, 2)
    assert np.array_equal(world.sums(1), sum_signs(reports, world.n_directions()))


def test_another_worker_and_another_proxy_know_them_too(world: World, counted: Counted) -> None:
    signed = world.closed()
    data = sealed(world.reports(20), signed) + bytes(SEALED)
    world.send("east", chunk_of(data, signed))
    other = world.another()
    other.server._opener = counted
    other.send("west", chunk_of(shuffled(data, 1), signed))
    assert counted.opened == 21
    assert world.counts(1) == (2, 20, 21, 1)


def test_what_was_not_committed_is_opened_again(world: World, counted: Counted) -> None:
    signed = world.closed()
    chunk = chunk_of(sealed(world.reports(20), signed) + bytes(SEALED), signed)
    counted.broken = True
    for _ in range(2):
        with pytest.raises(UnavailableError):
            world.send("east", chunk)
    counted.broken = False
    assert world.send("east", chunk)
    assert world.counts(1) == (1, 20, 0, 1)


def test_the_next_epoch_begins_with_nothing(world: World, counted: Counted) -> None:
    """What did not open in one epoch is not known in the next."""
    for epoch in (1, 2):
        signed = world.closed()
        data = sealed(world.reports(10), signed) + bytes(SEALED)
        world.apply(signed, chunk_of(data, signed))
        assert world.counts(epoch) == (1, 10, 0, 1)
    assert counted.opened == 22


@pytest.mark.parametrize("cap", [{"most_chunks": 3}, {"most_bytes": 4 * (HEADER + 5 * SEALED) - 1}])
def test_one_proxy_hands_in_so_much_of_an_epoch(world: World, cap: dict[str, int]) -> None:
    capped = world.another(**cap)
    capped.now = world.now
    signed = world.closed()
    capped.now = world.now
    chunks = [chunk_of(sealed(world.reports(5, seed), signed), signed) for seed in range(5)]
    for chunk in chunks[:3]:
        assert capped.send("east", chunk)
    with pytest.raises(RefusedError, match="and no more"):
        capped.send("east", chunks[3])
    assert not capped.send("east", chunks[0]), "what is known is no more"
    assert capped.send("west", chunks[4]), "another proxy has its own"
    capped.commit("east", signed, chunks[:3])

"""However many reports come, the server holds eight bytes of each, until the epoch ends."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sottovoce.protocol import MAX_CHUNK_REPORTS, SEALED, Opened
from tests.server.world import World, chunk_of

if TYPE_CHECKING:
    from tests.server.conftest import MakeWorld

CHUNKS = 50


class Quick:
    """Takes the bytes as they are: what X25519 costs is measured elsewhere."""

    def open(
        self, sealed: bytes, private_key: bytes, manifest_hash: bytes, n_directions: int
    ) -> Opened:
        words = np.frombuffer(sealed, np.uint32).reshape(-1, SEALED // 4)
        keys = np.ascontiguousarray(words[:, :2]).view(np.uint64).ravel()
        return Opened(words[:, 2] % np.uint32(2 * n_directions), keys, 0)


@pytest.mark.slow
def test_memory_is_flat_over_a_million_reports(make_world: MakeWorld, sqlite_url: str) -> None:
    world = World(make_world(sqlite_url).settings, opener=Quick())
    signed = world.closed()
    rng = np.random.default_rng(0)
    used = []
    tracemalloc.start()
    for _ in range(CHUNKS):
        world.send("east", chunk_of(rng.bytes(SEALED * MAX_CHUNK_REPORTS), signed))
        used.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert world.counts(1) == (CHUNKS, CHUNKS * MAX_CHUNK_REPORTS, 0, 0)
    grown = (used[-1] - used[9]) / ((CHUNKS - 10) * MAX_CHUNK_REPORTS)
    assert grown < 9, f"{grown:.1f} bytes for each report"
    world.close()

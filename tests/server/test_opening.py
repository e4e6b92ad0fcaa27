"""Sealed reports are opened by a pool of processes as by one process."""

import os
import signal
from collections.abc import Iterator

import numpy as np
import pytest

from sottovoce.errors import UnavailableError
from sottovoce.protocol import SEALED_BYTES, derive_public_key, generate_epoch_key, seal_reports
from sottovoce.server.opening import InProcessOpener, Opener, OpenerPool

MANIFEST_HASH = b"\x07" * 32
PRIVATE_KEY = generate_epoch_key()


@pytest.fixture(scope="module")
def pool() -> Iterator[OpenerPool]:
    pool = OpenerPool(2)
    yield pool
    pool.close()
    with pytest.raises(UnavailableError):
        pool.open(bytes(SEALED_BYTES), PRIVATE_KEY, MANIFEST_HASH, 16)


@pytest.mark.parametrize("number", [1, 64, 65, 700])
def test_a_pool_opens_as_one_process_does(pool: OpenerPool, number: int) -> None:
    reports = np.random.default_rng(number).integers(0, 40, number).astype(np.uint32)
    sealed = seal_reports(reports, derive_public_key(PRIVATE_KEY), MANIFEST_HASH)
    openers: list[Opener] = [pool, InProcessOpener()]
    opened, expected = (
        opener.open(sealed + bytes(SEALED_BYTES), PRIVATE_KEY, MANIFEST_HASH, 16)
        for opener in openers
    )
    assert np.array_equal(opened.reports, expected.reports)
    assert np.array_equal(opened.keys, expected.keys)
    assert opened.undecodable == expected.undecodable > 0


@pytest.mark.parametrize(("number", "is_fatal"), [(signal.SIGKILL, True), (signal.SIGINT, False)])
def test_a_worker_that_dies_costs_one_answer(
    pool: OpenerPool, number: signal.Signals, is_fatal: bool
) -> None:
    # Ctrl-C, which reaches all of them, does not end them.
    reports = np.arange(10, dtype=np.uint32)
    sealed = seal_reports(reports, derive_public_key(PRIVATE_KEY), MANIFEST_HASH)
    pool.open(sealed, PRIVATE_KEY, MANIFEST_HASH, 16)
    assert pool._workers is not None
    for worker in list(pool._workers._processes):
        os.kill(worker, number)
    if is_fatal:
        with pytest.raises(UnavailableError):
            pool.open(sealed * 100, PRIVATE_KEY, MANIFEST_HASH, 16)
    assert len(pool.open(sealed, PRIVATE_KEY, MANIFEST_HASH, 16).reports) == 10

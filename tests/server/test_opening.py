"""Opening: as the standard says, in processes that may die, and never a wrong count."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import numpy as np
import pytest

from sottovoce.errors import UnavailableError
from sottovoce.protocol import SEALED, new_epoch_key, open_reports, public_key_of, seal_reports
from sottovoce.server.counting import InProcess, Opener, Pool

HASH = b"\x07" * 32
KEY = new_epoch_key()


def test_keys_of_small_order_open_nothing() -> None:
    zeros = bytes(SEALED)
    one = bytes([1]) + bytes(SEALED - 1)
    opened = open_reports(zeros + one, KEY, HASH, 8)
    assert (len(opened.reports), opened.undecodable) == (0, 2)


def test_reports_and_keys_stay_in_order_and_together() -> None:
    reports = np.array([3, 99, 5, 0, 7], np.uint32)
    data = bytearray(seal_reports(reports, public_key_of(KEY), HASH))
    data[2 * SEALED + 40] ^= 1
    opened = open_reports(bytes(data), KEY, HASH, 8)  # 99 names direction 49
    assert opened.reports.tolist() == [3, 0, 7]
    assert opened.undecodable == 2
    prefixes = [int.from_bytes(data[n * SEALED : n * SEALED + 8], "little") for n in (0, 3, 4)]
    assert opened.keys.tolist() == prefixes


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    pool = Pool(2)
    yield pool
    pool.close()


@pytest.mark.parametrize("number", [1, 63, 64, 65, 700])
def test_a_pool_opens_as_one_process_does(pool: Pool, number: int) -> None:
    reports = np.random.default_rng(number).integers(0, 40, number).astype(np.uint32)
    data = seal_reports(reports, public_key_of(KEY), HASH) + bytes(SEALED)
    openers: list[Opener] = [pool, InProcess()]
    found, expected = (opener.open(data, KEY, HASH, 16) for opener in openers)
    assert np.array_equal(found.reports, expected.reports)
    assert np.array_equal(found.keys, expected.keys)
    assert found.undecodable == expected.undecodable > 0


def workers_of(pool: Pool) -> list[int]:
    assert pool._workers is not None
    return list(pool._workers._processes)


def test_a_worker_that_dies_costs_one_answer(pool: Pool) -> None:
    data = seal_reports(np.arange(10, dtype=np.uint32), public_key_of(KEY), HASH)
    pool.open(data, KEY, HASH, 16)
    for worker in workers_of(pool):
        os.kill(worker, signal.SIGKILL)
    with pytest.raises(UnavailableError, match="a process that opens reports ended"):
        pool.open(data * 100, KEY, HASH, 16)
    assert len(pool.open(data, KEY, HASH, 16).reports) == 10


def test_ctrl_c_does_not_reach_the_workers(pool: Pool) -> None:
    data = seal_reports(np.arange(10, dtype=np.uint32), public_key_of(KEY), HASH)
    pool.open(data, KEY, HASH, 16)
    for worker in workers_of(pool):
        os.kill(worker, signal.SIGINT)
    assert len(pool.open(data, KEY, HASH, 16).reports) == 10


def test_a_closed_pool_says_so() -> None:
    pool = Pool(1)
    pool.close()
    with pytest.raises(UnavailableError, match="stopping"):
        pool.open(bytes(SEALED), KEY, HASH, 16)

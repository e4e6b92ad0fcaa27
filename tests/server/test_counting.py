"""Every report counts once, although many threads, workers and proxies send it."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core import sum_signs
from sottovoce.errors import (
    ClosedError,
    NotFoundError,
    ProtocolError,
    RefusedError,
    TooEarlyError,
)
from sottovoce.protocol import (
    SEALED_BYTES,
    OpenedReports,
    derive_public_key,
    generate_epoch_key,
    seal_reports,
)
from sottovoce.protocol.batch import CHUNK_HEADER_BYTES
from sottovoce.server.counting import KeySet
from sottovoce.server.opening import InProcessOpener
from sottovoce.training import Settings, list_basic_presets
from tests.server.world import MakeWorld, World, seal, split_chunks, to_chunk


def test_a_chunk_counts_once_and_duplicates_once(world: World) -> None:
    signed = world.close_epoch()
    reports = world.draw_reports(60)
    data = seal(reports, signed)
    # Ten reports twice in one chunk, twenty again in another.
    first = to_chunk(data[: 40 * SEALED_BYTES] + data[: 10 * SEALED_BYTES], signed)
    second = to_chunk(data[20 * SEALED_BYTES :], signed)
    other_worker = world.add_worker()
    assert world.send("east", first) is True
    assert world.send("east", first) is False
    assert other_worker.send("west", second) is True
    assert other_worker.send("east", first) is False
    assert world.send("west", first) is False, "the same order, drawn by another proxy"
    assert np.array_equal(world.get_sums(1), sum_signs(reports, world.n_directions))
    assert world.get_counts(1) == (2, 60, 30, 0)
    world.commit("east", signed, [first])


def test_reports_that_do_not_open_are_counted_apart(world: World) -> None:
    # Another key, another epoch, a damaged byte, noise, an unknown direction.
    signed = world.close_epoch()
    reports = world.draw_reports(10)
    good = seal(reports, signed)
    other_key = seal_reports(reports, derive_public_key(generate_epoch_key()), signed.hash)
    assert signed.manifest.public_key is not None
    other_epoch = seal_reports(reports, signed.manifest.public_key, bytes(32))
    beyond = seal(np.array([2 * world.n_directions], np.uint32), signed)
    damaged = bytearray(seal(reports[:1], signed))
    damaged[-1] ^= 1
    noise = np.random.default_rng(0).bytes(5 * SEALED_BYTES)
    data = other_key + good + other_epoch + bytes(damaged) + beyond + noise + bytes(SEALED_BYTES)
    assert world.send("east", to_chunk(data, signed)) is True
    assert world.get_counts(1) == (1, 10, 0, 28)
    assert np.array_equal(world.get_sums(1), sum_signs(reports, world.n_directions))


def test_a_report_of_an_earlier_epoch_never_counts_again(world: World) -> None:
    first = world.close_epoch()
    data = seal(world.draw_reports(5), first)
    world.apply(first, to_chunk(data, first))
    second = world.close_epoch()
    assert second.manifest.epoch == 2
    assert world.send("east", to_chunk(data, second)) is True
    assert world.get_counts(2) == (1, 0, 0, 5)


def test_chunks_are_refused_with_the_reason(world: World) -> None:
    world.server.tick()
    signed = world.get_signed()
    chunk = world.make_chunk(signed, 3)
    with pytest.raises(TooEarlyError):
        world.send("east", chunk)
    with pytest.raises(TooEarlyError):
        world.commit("east", signed)
    world.close_epoch()
    take = world.server.take_chunk
    with pytest.raises(ProtocolError):
        take("east", 1, "0" * 64, chunk.encode())
    with pytest.raises(ProtocolError):
        take("east", 2, chunk.name, chunk.encode())
    with pytest.raises(NotFoundError):
        world.send("east", replace(chunk, epoch=7))
    with pytest.raises(RefusedError):
        world.send("east", replace(chunk, manifest_hash=bytes(32)))
    for broken in (b"", b"SVC2", chunk.encode()[:-1], chunk.encode() + b"x"):
        with pytest.raises(ProtocolError):
            take("east", 1, hashlib.sha256(broken).hexdigest(), broken)
    assert world.get_counts(1) == (0, 0, 0, 0)
    world.apply(signed)
    with pytest.raises(ClosedError):
        world.send("east", chunk)
    with pytest.raises(ClosedError):
        world.server.commit("east", 1, signed.hash, 1, 3)


def test_a_commit_must_name_what_was_received(world: World) -> None:
    signed = world.close_epoch()
    chunks = split_chunks(seal(world.draw_reports(12), signed), signed, 6)
    world.send("east", chunks[0])
    with pytest.raises(RefusedError):
        world.commit("east", signed, chunks)
    with pytest.raises(RefusedError):
        world.server.commit("east", 1, bytes(32), 1, 6)
    with pytest.raises(NotFoundError):
        world.server.commit("east", 5, signed.hash, 0, 0)
    world.send("east", chunks[1])
    world.commit("east", signed, chunks)
    world.commit("east", signed, chunks)
    assert world.send("east", chunks[0]) is False
    with pytest.raises(RefusedError):
        world.send("east", world.make_chunk(signed, world.draw_reports(2, seed=9)))
    world.server.tick()
    assert world.get_signed().manifest.epoch == 1, "west is still waited for"
    world.commit("west", signed)
    world.server.tick()
    assert world.get_signed().manifest.epoch == 2
    # Its answer was lost, and the proxy sends it again.
    world.commit("east", signed, chunks)


def test_a_proxy_that_commits_while_its_chunk_is_opened_adds_nothing(world: World) -> None:
    signed = world.close_epoch()
    chunk = world.make_chunk(signed, 10)

    class CommittingOpener(InProcessOpener):
        def open(self, *arguments: Any) -> OpenedReports:
            world.commit("east", signed)
            return super().open(*arguments)

    world.server._opener = CommittingOpener()
    with pytest.raises(RefusedError):
        world.send("east", chunk)
    assert world.get_counts(1) == (0, 0, 0, 0)


def test_a_count_stays_at_the_largest_number_that_can_be_stored(world: World) -> None:
    more = np.array([2**32 - 2, 5], np.int64)
    with world.store.write() as transaction:
        for _ in range(2):
            transaction.add_counts(1, "east", more, world.now)
        assert transaction.get_counts(1)["east"].tolist() == [2**32 - 1, 10]


@pytest.mark.parametrize("preset", list_basic_presets())
def test_every_mechanism_is_served(make_world: MakeWorld, sqlite_url: str, preset: str) -> None:
    world = make_world(sqlite_url, training=Settings.preset(preset))
    signed = world.close_epoch()
    reports = world.draw_reports(300)
    for chunk in split_chunks(seal(reports, signed), signed, 70):
        assert world.send("east", chunk) is True
    assert np.array_equal(world.get_sums(1), sum_signs(reports, world.n_directions))
    assert world.get_counts(1) == (5, 300, 0, 0)


@given(st.lists(st.lists(st.integers(0, 40), max_size=12), max_size=12))
def test_a_key_set_is_a_set(parts: list[list[int]]) -> None:
    keys, expected = KeySet(), set[int]()
    numbers = np.arange(41, dtype=np.uint64)
    for part in parts:
        keys.add(np.array(part, np.uint64))
        expected |= set(part)
        assert set(np.flatnonzero(keys.contains(numbers)).tolist()) == expected


def test_overlapping_chunks_over_many_workers_count_every_report_once(world: World) -> None:
    signed = world.close_epoch()
    reports = world.draw_reports(310)
    data, size, step = seal(reports, signed), 30 * SEALED_BYTES, 20 * SEALED_BYTES
    starts = range(0, len(data) - size + 1, step)
    chunks = [to_chunk(data[start : start + size], signed) for start in starts]
    workers = [world.add_worker() for _ in range(4)]
    with ThreadPoolExecutor(8) as threads:
        sent = threads.map(
            lambda n: workers[n % 4].send("east", chunks[n % len(chunks)]), range(3 * len(chunks))
        )
        assert sum(sent) == len(chunks)
    assert world.get_counts(1) == (15, 310, 140, 0)
    assert np.array_equal(world.get_sums(1), sum_signs(reports, world.n_directions))


def test_many_workers_apply_an_epoch_once(world: World) -> None:
    workers = [world.add_worker() for _ in range(6)]

    def tick(worker: World) -> None:
        worker.now = world.now
        worker.server.tick()

    def all_tick() -> None:
        with ThreadPoolExecutor(6) as threads:
            list(threads.map(tick, workers * 2))

    all_tick()
    assert [epoch.epoch for epoch in world.server.list_epochs()] == [1]
    signed = world.close_epoch()
    chunk = world.make_chunk(signed, 15)
    world.send("east", chunk)
    world.commit("east", signed, [chunk])
    world.commit("west", signed)
    all_tick()
    states = [(e.epoch, e.state, e.epochs_done) for e in world.server.list_epochs()]
    assert states == [(1, "applied", 0), (2, "open", 1)]


class CountingOpener(InProcessOpener):
    """An opener that counts the reports that it opens."""

    def __init__(self) -> None:
        self.n_opened = 0

    def open(
        self, sealed: bytes, private_key: bytes, manifest_hash: bytes, n_directions: int
    ) -> OpenedReports:
        self.n_opened += len(sealed) // SEALED_BYTES
        return super().open(sealed, private_key, manifest_hash, n_directions)


def test_repeats_are_opened_once_in_a_chunk_and_over_chunks(world: World) -> None:
    # Of a thousand copies of a report and of garbage, for every worker and proxy.
    signed, other = world.close_epoch(), world.add_worker()
    opener = world.server._opener = other.server._opener = CountingOpener()
    reports = world.draw_reports(1)
    garbage = bytes(range(1, 2 * SEALED_BYTES + 1))
    rows = np.frombuffer((seal(reports, signed) + garbage) * 1000, np.uint8)
    rows = rows.reshape(-1, SEALED_BYTES)
    for seed, (worker, proxy) in enumerate(((world, "east"), (world, "west"), (other, "west"))):
        shuffled = np.random.default_rng(seed).permutation(rows).tobytes()
        assert worker.send(proxy, to_chunk(shuffled, signed))
    assert opener.n_opened == 3
    assert world.get_counts(1) == (3, 1, 3 * 3000 - 3, 2)
    assert np.array_equal(world.get_sums(1), sum_signs(reports, world.n_directions))


@pytest.mark.parametrize(
    "limit", [{"max_chunks": 3}, {"max_bytes": 4 * (CHUNK_HEADER_BYTES + 5 * SEALED_BYTES) - 1}]
)
def test_each_proxy_may_hand_in_a_limited_amount_of_an_epoch(
    world: World, limit: dict[str, int]
) -> None:
    signed = world.close_epoch()
    worker = world.add_worker(**limit)
    chunks = [world.make_chunk(signed, world.draw_reports(5, seed)) for seed in range(5)]
    for chunk in chunks[:3]:
        assert worker.send("east", chunk)
    with pytest.raises(RefusedError):
        worker.send("east", chunks[3])
    assert not worker.send("east", chunks[0]), "a repeated chunk does not count"
    assert worker.send("west", chunks[4]), "the other proxy has a limit of its own"
    worker.commit("east", signed, chunks[:3])

"""Every report counts once, from however many threads, workers, proxies and processes it comes."""

import hashlib
import os
import signal
from collections.abc import Callable, Iterator
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
    UnavailableError,
)
from sottovoce.protocol import (
    SEALED_BYTES,
    Chunk,
    OpenedReports,
    SignedManifest,
    derive_public_key,
    generate_epoch_key,
    seal_reports,
)
from sottovoce.protocol.batch import CHUNK_HEADER_BYTES as HEADER
from sottovoce.server.counting import KeySet
from sottovoce.server.opening import InProcessOpener, Opener, OpenerPool
from sottovoce.training import Settings, list_basic_presets
from tests.server.world import MakeWorld, World, chunk_of, chunks_of, sealed


def test_a_chunk_counts_once_and_duplicates_once(world: World) -> None:
    signed = world.close_epoch()
    reports = world.draw_reports(60)
    data = sealed(reports, signed)
    first = chunk_of(
        data[: 40 * SEALED_BYTES] + data[: 10 * SEALED_BYTES], signed
    )  # ten twice in one chunk
    second = chunk_of(data[20 * SEALED_BYTES :], signed)  # twenty again in another
    other_worker = world.add_worker()
    assert world.send("east", first) is True
    assert world.send("east", first) is False
    assert other_worker.send("west", second) is True
    assert other_worker.send("east", first) is False
    assert world.send("west", first) is False, "the same order, drawn by another proxy"
    assert np.array_equal(world.get_sums(1), sum_signs(reports, world.n_directions()))
    assert world.get_counts(1) == (2, 60, 30, 0)
    world.commit("east", signed, [first])


def test_what_does_not_open_is_counted_and_does_no_harm(world: World) -> None:
    """Another key, another epoch, a damaged byte, noise, a direction that is not there."""
    signed = world.close_epoch()
    reports = world.draw_reports(10)
    good = sealed(reports, signed)
    other_key = seal_reports(reports, derive_public_key(generate_epoch_key()), signed.hash)
    assert signed.manifest.public_key is not None
    other_epoch = seal_reports(reports, signed.manifest.public_key, bytes(32))
    beyond = sealed(np.array([2 * world.n_directions()], np.uint32), signed)
    damaged = bytearray(sealed(reports[:1], signed))
    damaged[-1] ^= 1
    noise = np.random.default_rng(0).bytes(5 * SEALED_BYTES)
    everything = (
        other_key + good + other_epoch + bytes(damaged) + beyond + noise + bytes(SEALED_BYTES)
    )
    assert world.send("east", chunk_of(everything, signed)) is True
    assert world.get_counts(1) == (1, 10, 0, 28)
    assert np.array_equal(world.get_sums(1), sum_signs(reports, world.n_directions()))


def test_a_report_of_an_earlier_epoch_never_counts_again(world: World) -> None:
    first = world.close_epoch()
    data = sealed(world.draw_reports(5), first)
    world.apply(first, chunk_of(data, first))
    second = world.close_epoch()
    assert second.manifest.epoch == 2
    assert world.send("east", chunk_of(data, second)) is True
    assert world.get_counts(2) == (1, 0, 0, 5)


def test_chunks_are_refused_with_the_reason(world: World) -> None:
    world.server.tick()
    signed = world.get_signed()
    chunk = world.make_chunk(signed, 3)
    for early in (lambda: world.send("east", chunk), lambda: world.commit("east", signed)):
        with pytest.raises(TooEarlyError):
            early()
    world.close_epoch()
    take = world.server.take_chunk
    refusals: list[tuple[type[Exception], Callable[[], object]]] = [
        (ProtocolError, lambda: take("east", 1, "0" * 64, chunk.encode())),
        (ProtocolError, lambda: take("east", 2, chunk.name, chunk.encode())),
        (NotFoundError, lambda: world.send("east", replace(chunk, epoch=7))),
        (RefusedError, lambda: world.send("east", replace(chunk, manifest_hash=bytes(32)))),
    ]
    for error, wrong in refusals:
        with pytest.raises(error):
            wrong()
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
    chunks = chunks_of(sealed(world.draw_reports(12), signed), signed, 6)
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
        world.send("east", chunk_of(sealed(world.draw_reports(2, seed=9), signed), signed))
    world.server.tick()
    assert world.get_signed().manifest.epoch == 1, "west is still waited for"
    world.commit("west", signed)
    world.server.tick()
    assert world.get_signed().manifest.epoch == 2
    world.commit("east", signed, chunks)  # the answer was lost: the same again is well


def test_a_proxy_that_commits_while_its_chunk_is_opened_adds_nothing(world: World) -> None:
    signed = world.close_epoch()
    chunk = world.make_chunk(signed, 10)

    class Slow(InProcessOpener):
        def open(self, *arguments: Any) -> OpenedReports:
            world.commit("east", signed)
            return super().open(*arguments)

    world.server._opener = Slow()
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
    for chunk in chunks_of(sealed(reports, signed), signed, 70):
        assert world.send("east", chunk) is True
    assert np.array_equal(world.get_sums(1), sum_signs(reports, world.n_directions()))
    assert world.get_counts(1) == (5, 300, 0, 0)


@given(st.lists(st.lists(st.integers(0, 40), max_size=12), max_size=12))
def test_seen_is_a_set(parts: list[list[int]]) -> None:
    seen, expected = KeySet(), set[int]()
    for part in parts:
        found = seen.contains(np.arange(41, dtype=np.uint64))
        assert set(np.flatnonzero(found).tolist()) == expected
        seen.add(np.array(part, np.uint64))
        expected |= set(part)
    assert set(np.flatnonzero(seen.contains(np.arange(41, dtype=np.uint64)))) == expected


def overlapping(data: bytes, signed: SignedManifest) -> list[Chunk]:
    """Chunks that share a third of their reports with the next one."""
    size, step = 30 * SEALED_BYTES, 20 * SEALED_BYTES
    starts = range(0, len(data) - size + 1, step)
    return [chunk_of(data[at : at + size], signed) for at in starts]


def test_overlapping_chunks_over_many_workers_count_every_report_once(world: World) -> None:
    signed = world.close_epoch()
    reports = world.draw_reports(310)
    chunks = overlapping(sealed(reports, signed), signed)
    workers = [world.add_worker() for _ in range(4)]
    with ThreadPoolExecutor(8) as threads:
        sent = threads.map(
            lambda n: workers[n % 4].send("east", chunks[n % len(chunks)]), range(3 * len(chunks))
        )
        assert sum(sent) == len(chunks)
    assert world.get_counts(1) == (15, 310, 140, 0)
    assert np.array_equal(world.get_sums(1), sum_signs(reports, world.n_directions()))


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
    found = [(e.epoch, e.state, e.epochs_done) for e in world.server.list_epochs()]
    assert found == [(1, "applied", 0), (2, "open", 1)]


class Counted(InProcessOpener):
    """Knows how many it has opened; breaks when it is told to."""

    def __init__(self) -> None:
        self.opened = 0
        self.broken = False

    def open(
        self, sealed: bytes, private_key: bytes, manifest_hash: bytes, n_directions: int
    ) -> OpenedReports:
        if self.broken:
            raise UnavailableError("a process that opens reports ended: send it again")
        self.opened += len(sealed) // SEALED_BYTES
        return super().open(sealed, private_key, manifest_hash, n_directions)


def shuffled(data: bytes, seed: int) -> bytes:
    rows = np.frombuffer(data, np.uint8).reshape(-1, SEALED_BYTES)
    return np.random.default_rng(seed).permutation(rows).tobytes()


@pytest.fixture
def counted(world: World) -> Counted:
    opener = Counted()
    world.server._opener = opener
    return opener


def test_repeats_are_opened_once_in_a_chunk_and_over_chunks(world: World, counted: Counted) -> None:
    """Garbage as well, for every worker and proxy: of a thousand copies of three reports, three."""
    signed, other = world.close_epoch(), world.add_worker()
    other.server._opener = counted
    reports = world.draw_reports(1)
    garbage = bytes(range(1, 2 * SEALED_BYTES + 1))
    data = (sealed(reports, signed) + garbage) * 1000
    for number, (worker, proxy) in enumerate(((world, "east"), (world, "west"), (other, "west"))):
        assert worker.send(proxy, chunk_of(shuffled(data, number), signed))
    assert counted.opened == 3
    assert world.get_counts(1) == (3, 1, 3 * 3000 - 3, 2)
    assert np.array_equal(world.get_sums(1), sum_signs(reports, world.n_directions()))


@pytest.mark.parametrize(
    "cap", [{"most_chunks": 3}, {"most_bytes": 4 * (HEADER + 5 * SEALED_BYTES) - 1}]
)
def test_one_proxy_hands_in_so_much_of_an_epoch(world: World, cap: dict[str, int]) -> None:
    signed = world.close_epoch()
    capped = world.add_worker(**cap)
    chunks = [chunk_of(sealed(world.draw_reports(5, seed), signed), signed) for seed in range(5)]
    for chunk in chunks[:3]:
        assert capped.send("east", chunk)
    with pytest.raises(RefusedError):
        capped.send("east", chunks[3])
    assert not capped.send("east", chunks[0]), "what is known is no more"
    assert capped.send("west", chunks[4]), "another proxy has its own"
    capped.commit("east", signed, chunks[:3])


HASH = b"\x07" * 32

KEY = generate_epoch_key()


@pytest.fixture(scope="module")
def pool() -> Iterator[OpenerPool]:
    pool = OpenerPool(2)
    yield pool
    pool.close()
    with pytest.raises(UnavailableError):
        pool.open(bytes(SEALED_BYTES), KEY, HASH, 16)


@pytest.mark.parametrize("number", [1, 64, 65, 700])
def test_a_pool_opens_as_one_process_does(pool: OpenerPool, number: int) -> None:
    reports = np.random.default_rng(number).integers(0, 40, number).astype(np.uint32)
    data = seal_reports(reports, derive_public_key(KEY), HASH) + bytes(SEALED_BYTES)
    openers: list[Opener] = [pool, InProcessOpener()]
    found, expected = (opener.open(data, KEY, HASH, 16) for opener in openers)
    assert np.array_equal(found.reports, expected.reports)
    assert np.array_equal(found.keys, expected.keys)
    assert found.undecodable == expected.undecodable > 0


@pytest.mark.parametrize(("how", "dies"), [(signal.SIGKILL, True), (signal.SIGINT, False)])
def test_a_worker_that_dies_costs_one_answer(
    pool: OpenerPool, how: signal.Signals, dies: bool
) -> None:
    """Ctrl-C, which reaches all of them, is none of its business."""
    data = seal_reports(np.arange(10, dtype=np.uint32), derive_public_key(KEY), HASH)
    pool.open(data, KEY, HASH, 16)
    assert pool._workers is not None
    for worker in list(pool._workers._processes):
        os.kill(worker, how)
    if dies:
        with pytest.raises(UnavailableError):
            pool.open(data * 100, KEY, HASH, 16)
    assert len(pool.open(data, KEY, HASH, 16).reports) == 10

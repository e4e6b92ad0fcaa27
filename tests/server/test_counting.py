"""Every report once, from however many threads, workers and processes it comes."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core import sum_signs
from sottovoce.protocol import SEALED, Chunk, SignedManifest
from sottovoce.server import Keys, ServerSettings
from sottovoce.server.counting import Seen
from sottovoce.server.store.transaction import Transaction
from tests.server.world import World, chunk_of, chunks_of, sealed


@given(st.lists(st.lists(st.integers(0, 40), max_size=12), max_size=12))
def test_seen_is_a_set(parts: list[list[int]]) -> None:
    seen, expected = Seen(), set[int]()
    for part in parts:
        found = seen.contains(np.arange(41, dtype=np.uint64))
        assert set(np.flatnonzero(found).tolist()) == expected
        seen.add(np.array(part, np.uint64))
        expected |= set(part)
    assert set(np.flatnonzero(seen.contains(np.arange(41, dtype=np.uint64)))) == expected


def test_seen_knows_the_largest_keys() -> None:
    seen = Seen()
    largest = np.array([2**64 - 1, 2**63], np.uint64)
    seen.add(largest[:1])
    assert seen.contains(largest).tolist() == [True, False]


def test_the_same_chunk_from_eight_threads_counts_once(world: World) -> None:
    signed = world.closed()
    reports = world.reports(40)
    chunk = chunk_of(sealed(reports, signed), signed)
    workers = [world, world.another(), world.another()]
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda n: workers[n % 3].send("east", chunk), range(8)))
    assert sorted(answers) == [False] * 7 + [True]
    assert world.counts(1) == (1, 40, 0, 0)
    assert np.array_equal(world.sums(1), sum_signs(reports, world.n_directions()))


def overlapping(data: bytes, signed: SignedManifest) -> list[Chunk]:
    """Chunks that share a third of their reports with the next one."""
    size, step = 30 * SEALED, 20 * SEALED
    starts = range(0, len(data) - size + 1, step)
    return [chunk_of(data[at : at + size], signed) for at in starts]


def test_overlapping_chunks_over_many_workers_count_every_report_once(world: World) -> None:
    signed = world.closed()
    reports = world.reports(310)
    chunks = overlapping(sealed(reports, signed), signed)
    workers = [world.another() for _ in range(4)]
    with ThreadPoolExecutor(8) as threads:
        sent = threads.map(
            lambda n: workers[n % 4].send("east", chunks[n % len(chunks)]), range(3 * len(chunks))
        )
        assert sum(sent) == len(chunks)
    assert world.counts(1) == (15, 310, 140, 0)
    assert np.array_equal(world.sums(1), sum_signs(reports, world.n_directions()))


def test_many_workers_apply_an_epoch_once(world: World) -> None:
    workers = [world.another() for _ in range(6)]

    def tick(worker: World) -> None:
        worker.now = world.now
        worker.server.tick()

    def all_tick() -> None:
        with ThreadPoolExecutor(6) as threads:
            list(threads.map(tick, workers * 2))

    all_tick()
    assert [epoch.epoch for epoch in world.server.epochs()] == [1]
    signed = world.closed()
    chunk = world.chunk(signed, 15)
    world.send("east", chunk)
    world.commit("east", signed, [chunk])
    world.commit("west", signed)
    all_tick()
    found = [(e.epoch, e.state, e.epochs_done) for e in world.server.epochs()]
    assert found == [(1, "applied", 0), (2, "open", 1)]


def work(settings: ServerSettings, keys: Keys, now: float, chunks: list[Chunk]) -> int:
    """In a process of its own: a worker that takes chunks and beats in between."""
    world = World(settings, keys, now=now)
    counted = 0
    for chunk in chunks:
        counted += world.send("east", chunk)
        world.server.tick()
    world.close()
    return counted


def test_names_of_all_chunks_are_asked_for_only_if_another_worker_counted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are many: asked for with every chunk, counting would take quadratic time."""
    asked: list[int] = []
    names = Transaction.chunk_names

    def counting(transaction: Transaction, epoch: int) -> set[str]:
        asked.append(epoch)
        return names(transaction, epoch)

    monkeypatch.setattr(Transaction, "chunk_names", counting)
    signed, other = world.closed(), world.another()
    reports = world.reports(100)
    first, *rest = chunks_of(sealed(reports, signed), signed, 20)
    for chunk in rest:
        assert world.send("east", chunk)
    assert asked == []
    assert other.send("east", first)
    assert len(asked) == 1
    assert not world.send("east", first)
    twice = chunk_of(first.sealed + rest[0].sealed, signed)
    assert world.send("east", twice)
    assert world.counts(1) == (6, 100, 40, 0)


@pytest.mark.slow
def test_real_processes_share_a_database(world: World) -> None:
    signed = world.closed()
    reports = world.reports(600)
    chunks = chunks_of(sealed(reports, signed), signed, 50)
    keys = Keys(world.keys.signing, world.keys.wrapping)
    orders = [np.random.default_rng(n).permutation(len(chunks)) for n in range(3)]
    with ProcessPoolExecutor(3, multiprocessing.get_context("spawn")) as processes:
        futures = [
            processes.submit(work, world.settings, keys, world.now, [chunks[n] for n in order])
            for order in orders
        ]
        assert sum(future.result() for future in futures) == len(chunks)
    assert world.counts(1) == (len(chunks), 600, 0, 0)
    assert np.array_equal(world.sums(1), sum_signs(reports, world.n_directions()))
    world.commit("east", signed, chunks)
    world.commit("west", signed)
    world.server.tick()
    assert world.signed().manifest.reports_behind == 600

"""The permutation: every order equally likely; after the real flush who came with whom is gone."""

import sqlite3
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise, permutations
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2, chisquare

import sottovoce.proxy.shuffle
from sottovoce.protocol import SEALED
from sottovoce.proxy.shuffle import BUCKET, cut, draw_dummies, permutation, shuffled, uniform
from sottovoce.proxy.store import Tables
from tests.proxy.world import (
    Randomness,
    World,
    all_reports,
    dummies,
    opened,
    raw_bytes,
    reports_of,
    signed,
)


@pytest.mark.parametrize(
    ("name", "lazy"),
    [
        ("permutation", lambda n, _: np.arange(n)),
        ("uniform", lambda n, below, _: np.arange(n) % below),
    ],
)
def test_the_test_hears_what_is_not_mixed(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, name: str, lazy: Callable[..., object]
) -> None:
    """A bucket that is not shuffled, reports that are not scattered."""
    monkeypatch.setattr(sottovoce.proxy.shuffle, name, lazy)
    assert not is_uniform(orders(tables, bucket=2, group=100))


ALARM = 1e-7
"""False alarms of each test below, if the seeds were not fixed."""


@pytest.fixture
def tables() -> Iterator[Tables]:
    db = sqlite3.connect(":memory:", isolation_level=None)
    yield Tables(db)
    db.close()


def report(number: int) -> bytes:
    return number.to_bytes(4, "little") * (SEALED // 4)


def orders(
    tables: Tables, *, bucket: int, group: int, rounds: int = 720
) -> Counter[tuple[int, ...]]:
    """How often each order of four reports, in two batches, comes out."""
    draw = Randomness(7)
    batches = [report(0) + report(1), report(2) + report(3)]
    found: Counter[tuple[int, ...]] = Counter()
    for _ in range(rounds):
        out = b"".join(shuffled(batches, 4, tables, draw, bucket=bucket, group=group))
        found[tuple(r[0] for r in reports_of(out))] += 1
    return found


def is_uniform(found: Counter[tuple[int, ...]]) -> bool:
    expected = found.total() / 24
    statistic = sum((found[o] - expected) ** 2 / expected for o in permutations(range(4)))
    return bool(found.total() == sum(found[o] for o in permutations(range(4)))) and bool(
        chi2.sf(statistic, 23) > ALARM
    )


@pytest.mark.parametrize(("bucket", "group"), [(4, 100), (2, 100), (1, 2), (2, 2), (3, 1)])
def test_every_order_of_four_reports_is_equally_likely(
    tables: Tables, bucket: int, group: int
) -> None:
    assert is_uniform(orders(tables, bucket=bucket, group=group))


def test_nothing_is_lost_or_doubled(tables: Tables) -> None:
    batches = [b"".join(report(100 * b + r) for r in range(10)) for b in range(37)]
    runs = list(shuffled(batches, 370, tables, Randomness(), bucket=16, group=25))
    assert len(runs) == 24
    out = reports_of(b"".join(runs))
    assert sorted(out) == sorted(r for batch in batches for r in reports_of(batch))
    assert not tables._db.execute("SELECT * FROM temp.sqlite_master").fetchall()


def scripted(*words: int) -> tuple[list[int], object]:
    asked: list[int] = []
    stream = iter(words)

    def entropy(n: int) -> bytes:
        asked.append(n)
        return b"".join(next(stream).to_bytes(8, "little") for _ in range(n // 8))

    return asked, entropy


def test_a_word_that_would_favour_small_numbers_is_drawn_anew() -> None:
    asked, entropy = scripted(5, 2**64 - 1, 2**64 - 2, 2**64 - 1, 7)
    # 2^64 = 1 mod 3: the last word alone has no full set of remainders.
    assert uniform(3, 3, entropy).tolist() == [2, 1, 2]  # type: ignore[arg-type]
    assert asked == [24, 8, 8]
    asked, entropy = scripted(2**64 - 1, 8)  # below a power of two nothing is wasted
    assert uniform(2, 8, entropy).tolist() == [7, 0]  # type: ignore[arg-type]
    assert asked == [16]
    asked, entropy = scripted(5, 9, 5, 3, 2, 1)  # equal keys of a permutation
    assert permutation(3, entropy).tolist() == [2, 1, 0]  # type: ignore[arg-type]
    assert asked == [24, 24]


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_cut_changes_the_lengths_and_not_the_sequence(size: int) -> None:
    runs = [b"".join(report(n) for n in range(a, b)) for a, b in [(0, 5), (5, 5), (5, 6), (6, 20)]]
    pieces = list(cut(runs, size))
    assert b"".join(pieces) == b"".join(runs)
    assert {len(piece) for piece in pieces[:-1]} <= {SEALED * size}
    assert 0 < len(pieces[-1]) <= SEALED * size
    assert list(cut([], size)) == []


# Dummies.


@pytest.mark.parametrize("preset", ["coordinate", "loudest"])
def test_dummies_are_uniform_over_all_signed_directions(tmp_path: Path, preset: str) -> None:
    """Drawn in pieces, the last a part of one."""
    world = World(tmp_path, signed(preset=preset, dummies=2_600))
    draw_dummies(world.store, world.now, 2_600, Randomness(3))
    found = opened(dummies(world), world.now)
    world.store.close()
    kinds = 2 * world.now.manifest.build().n_directions
    assert kinds == KINDS[preset]
    assert len(found.reports) == len(set(found.keys.tolist())) == 2_600
    counts = np.bincount(found.reports, minlength=kinds)
    assert chisquare(counts).pvalue > ALARM


KINDS = {"coordinate": 12, "loudest": 256}


def test_dummies_cannot_be_told_from_peoples_reports_by_their_place(tmp_path: Path) -> None:
    """How often one follows one of the other kind: 6 deviations come less than once in 1e8.

    And where they lie; the proxy's entropy is fixed.
    """
    world = World(tmp_path, signed(dummies=200), chunk_reports=50)
    world.proxy.tick()
    people = set(all_reports(world.send(50)))
    world.end_epoch()
    world.store.close()
    is_dummy = np.array([report not in people for report in world.server.reports(1)])
    assert (is_dummy.sum(), len(is_dummy)) == (200, 400)
    changes = int((is_dummy[1:] != is_dummy[:-1]).sum())
    assert abs(changes - 200) < 6 * 10
    places = np.flatnonzero(is_dummy)
    assert abs(places.mean() - 199.5) < 6 * np.sqrt(401 / 12)


# The real flush.

PEOPLE, REPORTS, CHUNK = 300, 100, 7_000

Flushed = tuple[World, list[list[bytes]], bytes]

Order = NDArray[np.int64]


@pytest.fixture(scope="module")
def flushed(tmp_path_factory: pytest.TempPathFactory) -> Flushed:
    """Three hundred people, more reports than a bucket holds; the folder right after the flush."""
    world = World(tmp_path_factory.mktemp("flush"), signed(reports=REPORTS), chunk_reports=CHUNK)
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
    assert not any(batch.id in before[0] for batch in batches)
    return world, [reports_of(batch.sealed) for batch in batches], before[0]


# How an attacker at the server would pair reports, given whose each one is.


def next_to_each_other(order: Order) -> int:
    return int((order[1:] == order[:-1]).sum())


def in_the_same_chunk(order: Order) -> int:
    counts = (np.bincount(order[at : at + CHUNK]) for at in range(0, len(order), CHUNK))
    return sum(int((count * (count - 1)).sum()) for count in counts)


def at_the_distance_of_a_batch(order: Order) -> int:
    """As if only whole batches had been laid one on the other."""
    return int((order[PEOPLE:] == order[:-PEOPLE]).sum())


def close_together(order: Order) -> int:
    """Minus the distances between all reports of each person, added up: large if they huddle."""
    places = np.argsort(order, kind="stable").reshape(PEOPLE, REPORTS)
    weights = 2 * np.arange(REPORTS) - REPORTS + 1
    return -int((places * weights).sum())


ATTACKS = (next_to_each_other, in_the_same_chunk, at_the_distance_of_a_batch, close_together)


def suspicion(attack: Callable[[Order], int], order: Order) -> float:
    """How many standard deviations the attack does better than on a uniformly random order."""
    rng = np.random.default_rng(0)
    chance = [attack(rng.permutation(order)) for _ in range(100)]
    return float((attack(order) - np.mean(chance)) / np.std(chance))


def test_reports_of_one_person_cannot_be_paired(flushed: Flushed) -> None:
    """Each count is nearly normal or Poisson; beyond 6 deviations comes less than once in 1e6.

    The proxy's entropy is fixed here, so the test cannot fail by chance at all.
    """
    world, people, _ = flushed
    owner = {report: who for who, reports in enumerate(people) for report in reports}
    order = np.array([owner[report] for report in world.server.reports(1)])
    assert PEOPLE * REPORTS > BUCKET
    assert sorted(order) == sorted(owner.values())
    for attack in ATTACKS:
        assert abs(suspicion(attack, order)) < 6, attack.__name__


@pytest.mark.parametrize("spoilt", ["not shuffled", "each chunk shuffled", "batches shuffled"])
def test_the_attacks_would_tell(spoilt: str) -> None:
    """On orders that a lazy proxy would leave, at least one of them is certain."""
    rng = np.random.default_rng(1)
    order = np.repeat(np.arange(PEOPLE), REPORTS)
    if spoilt == "each chunk shuffled":
        chunks = (order[at : at + CHUNK] for at in range(0, len(order), CHUNK))
        order = np.concatenate([rng.permutation(chunk) for chunk in chunks])
    if spoilt == "batches shuffled":
        order = np.repeat(rng.permutation(PEOPLE), REPORTS)
    assert max(suspicion(attack, order) for attack in ATTACKS) > 20


def test_right_after_the_flush_the_disk_has_forgotten_who_came_with_whom(flushed: Flushed) -> None:
    """Reports, but none beside another of its batch beyond what chance puts there."""
    _, people, raw = flushed
    assert sum(report in raw for report in people[0]) > REPORTS // 2  # the chunks are there
    side_by_side = sum(
        first + second in raw for reports in people[:20] for first, second in pairwise(reports)
    )
    # Of 1,980 pairs each is adjacent in this order with probability 1/30,000.
    assert side_by_side <= 3


def test_memory_does_not_grow_with_the_reports(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as db:
        db.execute("PRAGMA temp_store = FILE")
        batches = (bytes(1000 * SEALED) for _ in range(800))
        tracemalloc.start()
        assert sum(map(len, shuffled(batches, 800_000, Tables(db), Randomness()))) > 40e6
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 25e6

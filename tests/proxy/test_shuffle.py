"""The permutation: every order equally likely, whatever the buckets and groups."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import chi2

import sottovoce.proxy.shuffle
from sottovoce.protocol import SEALED
from sottovoce.proxy.shuffle import cut, permutation, shuffled, uniform
from sottovoce.proxy.store import Tables
from tests.proxy.world import Randomness, reports_of

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
    tables: Tables, *, bucket: int, group: int, rounds: int = 2_400
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


def test_the_test_hears_a_bucket_that_is_not_shuffled(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sottovoce.proxy.shuffle, "permutation", lambda n, _: np.arange(n))
    assert not is_uniform(orders(tables, bucket=2, group=100))


def test_the_test_hears_reports_that_are_not_scattered(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sottovoce.proxy.shuffle, "uniform", lambda n, below, _: np.arange(n) % below
    )
    assert not is_uniform(orders(tables, bucket=2, group=100))


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


def test_numbers_below_a_power_of_two_waste_nothing() -> None:
    asked, entropy = scripted(2**64 - 1, 8)
    assert uniform(2, 8, entropy).tolist() == [7, 0]  # type: ignore[arg-type]
    assert asked == [16]


def test_uniform_numbers_are_uniform() -> None:
    counts = np.bincount(uniform(70_000, 7, Randomness(3)), minlength=7)
    assert chi2.sf(((counts - 10_000) ** 2 / 10_000).sum(), 6) > ALARM


def test_equal_keys_are_drawn_anew() -> None:
    asked, entropy = scripted(5, 9, 5, 3, 2, 1)
    assert permutation(3, entropy).tolist() == [2, 1, 0]  # type: ignore[arg-type]
    assert asked == [24, 24]


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_cut_changes_the_lengths_and_not_the_sequence(size: int) -> None:
    runs = [b"".join(report(n) for n in range(a, b)) for a, b in [(0, 5), (5, 5), (5, 6), (6, 20)]]
    pieces = list(cut(runs, size))
    assert b"".join(pieces) == b"".join(runs)
    assert {len(piece) for piece in pieces[:-1]} <= {SEALED * size}
    assert 0 < len(pieces[-1]) <= SEALED * size


def test_nothing_cut_is_nothing() -> None:
    assert list(cut([], 5)) == []

"""The shuffle: every order is equally likely, and no trace of batches is left after a flush."""

import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise, permutations
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2, chisquare

import sottovoce.proxy.shuffle
from sottovoce.protocol import SEALED_BYTES
from sottovoce.proxy.dummies import draw_dummies
from sottovoce.proxy.shuffle import draw_below, draw_permutation, shuffle
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
        ("draw_permutation", lambda n, _: np.arange(n)),
        ("draw_below", lambda n, limit, _: np.arange(n) % limit),
    ],
)
def test_unmixed_orders_are_noticed(
    monkeypatch: pytest.MonkeyPatch, name: str, lazy: Callable[..., object]
) -> None:
    """Leave out the shuffle of a bucket, or the scattering of reports."""
    monkeypatch.setattr(sottovoce.proxy.shuffle, name, lazy)
    assert not is_uniform(orders(bucket=2))


ALARM = 1e-7
"""False alarms of each test below, if the seeds were not fixed."""


def report(number: int) -> bytes:
    return number.to_bytes(4, "little") * (SEALED_BYTES // 4)


def orders(*, bucket: int, rounds: int = 720) -> Counter[tuple[int, ...]]:
    """Count how often each order of four reports, in two batches, comes out."""
    draw = Randomness(7)
    batches = [report(0) + report(1), report(2) + report(3)]
    orders_seen: Counter[tuple[int, ...]] = Counter()
    for _ in range(rounds):
        out = b"".join(shuffle(lambda: batches, 4, draw, max_bucket_bytes=bucket * SEALED_BYTES))
        orders_seen[tuple(r[0] for r in reports_of(out))] += 1
    return orders_seen


def is_uniform(orders_seen: Counter[tuple[int, ...]]) -> bool:
    expected = orders_seen.total() / 24
    statistic = sum((orders_seen[o] - expected) ** 2 / expected for o in permutations(range(4)))
    return bool(
        orders_seen.total() == sum(orders_seen[o] for o in permutations(range(4)))
    ) and bool(chi2.sf(statistic, 23) > ALARM)


@pytest.mark.parametrize("bucket", [1, 2, 3, 4])
@pytest.mark.parametrize("at_once", [1, 100])
def test_every_order_of_four_reports_is_equally_likely(
    monkeypatch: pytest.MonkeyPatch, bucket: int, at_once: int
) -> None:
    monkeypatch.setattr(sottovoce.proxy.shuffle, "REPORTS_AT_ONCE", at_once)
    assert is_uniform(orders(bucket=bucket))


def test_nothing_is_lost_or_doubled() -> None:
    batches = [b"".join(report(100 * b + r) for r in range(10)) for b in range(37)]
    runs = list(shuffle(lambda: batches, 370, Randomness(), max_bucket_bytes=16 * SEALED_BYTES))
    assert len(runs) == 24
    out = reports_of(b"".join(runs))
    assert sorted(out) == sorted(r for batch in batches for r in reports_of(batch))


def scripted(*words: int) -> tuple[list[int], object]:
    asked: list[int] = []
    stream = iter(words)

    def entropy(n: int) -> bytes:
        asked.append(n)
        return b"".join(next(stream).to_bytes(8, "little") for _ in range(n // 8))

    return asked, entropy


def test_word_that_would_favour_small_numbers_is_drawn_again() -> None:
    asked, entropy = scripted(5, 2**64 - 1, 2**64 - 2, 2**64 - 1, 7)
    # 2^64 = 1 mod 3: the last word alone has no full set of remainders.
    assert draw_below(3, 3, entropy).tolist() == [2, 1, 2]  # type: ignore[arg-type]
    assert asked == [24, 8, 8]
    asked, entropy = scripted(2**64 - 1, 8)  # below a power of two nothing is wasted
    assert draw_below(2, 8, entropy).tolist() == [7, 0]  # type: ignore[arg-type]
    assert asked == [16]
    asked, entropy = scripted(5, 9, 5, 3, 2, 1)  # equal keys of a permutation
    assert draw_permutation(3, entropy).tolist() == [2, 1, 0]  # type: ignore[arg-type]
    assert asked == [24, 24]


# Dummies.


@pytest.mark.parametrize("preset", ["coordinate", "loudest"])
def test_dummies_are_uniform_over_all_signed_directions(tmp_path: Path, preset: str) -> None:
    """They are drawn in pieces, the last of which is shorter."""
    world = World(tmp_path, signed(preset=preset, dummies=2_600))
    world.proxy.tick()
    draw_dummies(world.store, world.now, 2_600, Randomness(3))
    drawn_reports = opened(dummies(world), world.now)
    world.store.close()
    kinds = 2 * world.now.manifest.build().n_directions
    assert kinds == KINDS[preset]
    assert len(drawn_reports.reports) == len(set(drawn_reports.keys.tolist())) == 2_600
    counts = np.bincount(drawn_reports.reports, minlength=kinds)
    assert chisquare(counts).pvalue > ALARM


KINDS = {"coordinate": 12, "loudest": 256}


def test_places_of_dummies_do_not_distinguish_them(tmp_path: Path) -> None:
    """Compare neighbours and places of dummies with chance.

    More than 6 deviations come less than once in 1e8, and the proxy's entropy is fixed.
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

PEOPLE = 300
REPORTS = 100
CHUNK = 7_000
# Reports that a bucket holds here, about.
BUCKET = 20_000

Flushed = tuple[World, list[list[bytes]], bytes]

Order = NDArray[np.int64]


@pytest.fixture(scope="module")
def flushed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flushed]:
    """Return three hundred people's reports, more than a bucket holds, right after the flush."""
    patch = pytest.MonkeyPatch()
    patch.setattr(shuffle, "__kwdefaults__", {"max_bucket_bytes": BUCKET * SEALED_BYTES})
    world = World(tmp_path_factory.mktemp("flush"), signed(reports=REPORTS), chunk_reports=CHUNK)
    world.proxy.tick()
    batches = world.people.batches(world.now, PEOPLE)
    assert not any(world.proxy.intake.store_batches(batches))
    before: list[bytes] = []

    def look(call: str) -> None:
        if call == "put_chunk" and not before:
            before.append(raw_bytes(world.folder))

    world.server.before = look
    world.end_epoch()
    world.store.close()
    assert not any(batch.id in before[0] for batch in batches)
    yield world, [reports_of(batch.sealed) for batch in batches], before[0]
    patch.undo()


# How an attacker at the server would pair reports, given whose each one is.


def next_to_each_other(order: Order) -> int:
    return int((order[1:] == order[:-1]).sum())


def in_the_same_chunk(order: Order) -> int:
    counts = (np.bincount(order[at : at + CHUNK]) for at in range(0, len(order), CHUNK))
    return sum(int((count * (count - 1)).sum()) for count in counts)


def at_the_distance_of_a_batch(order: Order) -> int:
    """Return the order of a proxy that stacks whole batches on each other."""
    return int((order[PEOPLE:] == order[:-PEOPLE]).sum())


def close_together(order: Order) -> int:
    """Return minus the sum of distances between each person's reports: large if they are near."""
    places = np.argsort(order, kind="stable").reshape(PEOPLE, REPORTS)
    weights = 2 * np.arange(REPORTS) - REPORTS + 1
    return -int((places * weights).sum())


ATTACKS = (next_to_each_other, in_the_same_chunk, at_the_distance_of_a_batch, close_together)


def suspicion(attack: Callable[[Order], int], order: Order) -> float:
    """Return by how many standard deviations the attack beats a uniformly random order."""
    rng = np.random.default_rng(0)
    chance = [attack(rng.permutation(order)) for _ in range(100)]
    return float((attack(order) - np.mean(chance)) / np.std(chance))


def test_reports_of_one_person_cannot_be_paired(flushed: Flushed) -> None:
    """Compare counts that are nearly normal or Poisson with 6 deviations (below 1e-6).

    The proxy's entropy is fixed, so the test cannot fail by chance.
    """
    world, people, _ = flushed
    owner = {report: who for who, reports in enumerate(people) for report in reports}
    order = np.array([owner[report] for report in world.server.reports(1)])
    assert PEOPLE * REPORTS > BUCKET
    assert sorted(order) == sorted(owner.values())
    for attack in ATTACKS:
        assert abs(suspicion(attack, order)) < 6, attack.__name__


@pytest.mark.parametrize("spoilt", ["not shuffled", "each chunk shuffled", "batches shuffled"])
def test_attacks_find_pairs_in_unshuffled_orders(spoilt: str) -> None:
    # At least one attack is certain about the orders of a proxy that does not mix.
    rng = np.random.default_rng(1)
    order = np.repeat(np.arange(PEOPLE), REPORTS)
    if spoilt == "each chunk shuffled":
        chunks = (order[at : at + CHUNK] for at in range(0, len(order), CHUNK))
        order = np.concatenate([rng.permutation(chunk) for chunk in chunks])
    if spoilt == "batches shuffled":
        order = np.repeat(rng.permutation(PEOPLE), REPORTS)
    assert max(suspicion(attack, order) for attack in ATTACKS) > 20


def test_disk_has_no_batches_right_after_the_flush(flushed: Flushed) -> None:
    # Reports are next to others of their batch only as often as by chance.
    _, people, raw = flushed
    assert sum(report in raw for report in people[0]) > REPORTS // 2  # the chunks are there
    side_by_side = sum(
        first + second in raw for reports in people[:20] for first, second in pairwise(reports)
    )
    # Of 1,980 pairs each is adjacent in this order with probability 1/30,000.
    assert side_by_side <= 3


def test_memory_does_not_grow_with_the_reports() -> None:
    """Count two more bytes for each report: its bucket."""
    batch = bytes(1000 * SEALED_BYTES)
    tracemalloc.start()
    runs = shuffle(lambda: [batch] * 800, 800_000, Randomness(), max_bucket_bytes=10**6)
    assert sum(map(len, runs)) > 40e6
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 25e6

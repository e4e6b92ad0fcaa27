"""Tests of sliced reports: their law, exact for a small example, and what the simulation draws."""

from collections import Counter
from collections.abc import Callable
from itertools import product
from math import exp

import numpy as np
import pytest

from sottovoce.core.loudest import Loudest
from sottovoce.data import synthetic_people
from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.interface import LocalEngine
from sottovoce.training import Budget, Settings
from sottovoce_lab.paper.sliced_shops import SlicedShop, format_rows
from sottovoce_lab.paper.slices import assign_slices, draw_sliced_reports

PEOPLE = synthetic_people(n_users=6, n_items=24, seed=2).histories
# The probability of each sequence of reports.
Law = dict[tuple[int, ...], float]

# The example: eight kinds of reports in two slices of four, with one loud kind in each.
EXAMPLE_EPSILON = 1.0
KIND_COUNT = 8
LOUD_COUNT = 2
SLICE_COUNT = 2
SLICE_SIZE = KIND_COUNT // SLICE_COUNT
GAMMA = 1 / (1 + LOUD_COUNT / KIND_COUNT * (exp(EXAMPLE_EPSILON) - 1))


def compute_slice_law(slice_number: int, loud: set[int]) -> list[float]:
    """Return the probability of each kind for a report in this slice."""
    inside = range(slice_number * SLICE_SIZE, (slice_number + 1) * SLICE_SIZE)
    loud_inside = loud & set(inside)
    return [
        GAMMA / SLICE_SIZE * (kind in inside)
        + (1 - GAMMA) / len(loud_inside) * (kind in loud_inside)
        for kind in range(KIND_COUNT)
    ]


def compute_report_law(loud: set[int]) -> list[float]:
    """Return the probability of each kind for a report in a random slice."""
    laws = [compute_slice_law(n, loud) for n in range(SLICE_COUNT)]
    return [sum(column) / SLICE_COUNT for column in zip(*laws, strict=True)]


def compute_independent_law(loud: set[int]) -> Law:
    """Return the law of two reports, each with a slice of its own."""
    law = compute_report_law(loud)
    return {(a, b): law[a] * law[b] for a, b in product(range(KIND_COUNT), repeat=2)}


def compute_joint_law(loud: set[int]) -> Law:
    """Return the law of two reports in one slice."""
    laws = [compute_slice_law(n, loud) for n in range(SLICE_COUNT)]
    return {
        (a, b): sum(law[a] * law[b] for law in laws) / SLICE_COUNT
        for a, b in product(range(KIND_COUNT), repeat=2)
    }


def shuffle_laws(first: Law, second: Law) -> Law:
    law: Counter[tuple[int, ...]] = Counter()
    for (a, p), (b, q) in product(first.items(), second.items()):
        law[tuple(sorted(a + b))] += p * q  # type: ignore[assignment]
    return dict(law)


def compute_delta(first: Law, second: Law) -> float:
    return sum(max(p - exp(EXAMPLE_EPSILON) * second[kinds], 0.0) for kinds, p in first.items())


def test_one_sliced_report_has_the_law_of_loudest() -> None:
    law = compute_report_law({0, 4})
    loud = GAMMA / KIND_COUNT + (1 - GAMMA) / LOUD_COUNT
    quiet = GAMMA / KIND_COUNT
    assert law == pytest.approx([loud if kind in (0, 4) else quiet for kind in range(KIND_COUNT)])
    assert max(law) / min(law) == pytest.approx(exp(EXAMPLE_EPSILON))


def test_every_report_needs_a_slice_of_its_own() -> None:
    # One slice for two reports is worse once they are shuffled with another person's.
    # Then chance no longer hides which two reports are one person's.
    loud, other_loud = {0, 4}, {1, 5}
    assert compute_delta(compute_joint_law(loud), compute_joint_law(other_loud)) == pytest.approx(
        compute_delta(compute_independent_law(loud), compute_independent_law(other_loud))
    )

    def compute_shuffled_delta(law: Callable[[set[int]], Law]) -> float:
        neighbours = ({0, 4}, {1, 5}, {2, 6}, {0, 5})
        return max(
            compute_delta(
                shuffle_laws(law(loud), law(neighbour)),
                shuffle_laws(law(other_loud), law(neighbour)),
            )
            for neighbour in neighbours
        )

    assert compute_shuffled_delta(compute_independent_law) == pytest.approx(0.0908, abs=1e-4)
    assert compute_shuffled_delta(compute_joint_law) == pytest.approx(0.0967, abs=1e-4)


@pytest.mark.parametrize("block", [1, 4])
def test_every_block_is_in_one_slice(block: int) -> None:
    mechanism = Settings.preset("loudest", factors=3, block=block).build(24)
    assert isinstance(mechanism, Loudest)
    slices = assign_slices(mechanism, 3).reshape(-1, block * 3)
    assert (slices == slices[:, :1]).all()
    assert np.array_equal(np.bincount(slices[:, 0]), np.full(3, 24 // block / 3))


def test_simulation_draws_from_the_law() -> None:
    k, slices = 10_000, 2
    settings = Settings.preset("loudest", factors=2, block=2, loud=12, epsilon=2.0, reports=k)
    with build_engine("cpu", PEOPLE, settings, threads=1) as engine:
        assert isinstance(engine, LocalEngine)
        V = np.random.default_rng(0).normal(size=(PEOPLE.n_items, 2)).astype(np.float32)
        reports = draw_sliced_reports(engine, V, 0, slices)
        mechanism, X = engine.mechanism, engine.solve_user_vectors(V)
        assert isinstance(mechanism, Loudest)
        a = mechanism.blocks.compute_rows(V, X, PEOPLE)
        agreement = -(a[:, :, None] * X[:, None, :]).reshape(len(a), -1)
    signed = np.stack([-agreement, agreement], axis=-1).reshape(len(a), -1)
    slice_of_kind = np.repeat(assign_slices(mechanism, slices), 2)
    for agreements, person_reports in zip(signed, reports, strict=True):
        probabilities = np.full(mechanism.n_signed, mechanism.gamma / mechanism.n_signed)
        for slice_number in range(slices):
            inside = np.flatnonzero(slice_of_kind == slice_number)
            loud = inside[np.argsort(-agreements[inside])[: mechanism.loud // slices]]
            probabilities[loud] *= exp(2.0)
        counts = np.bincount(person_reports, minlength=mechanism.n_signed)
        expected = k * probabilities
        assert (np.abs(counts - expected) < 6 * np.sqrt(expected)).all()


def test_shop_is_tried_with_and_without_slices() -> None:
    shops = [SlicedShop(120, 60, 8, Budget(local=500), slices) for slices in (1, 2)]
    table = list(format_rows(shops, [1000, 1001], [1000], 0.1))
    assert [row.split("|")[1].strip() for row in table[2:]] == ["1", "2"]
    assert "0.0000" in table[2]

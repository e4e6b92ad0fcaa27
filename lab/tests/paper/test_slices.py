"""The law of sliced reports: exact in small, and what the simulation draws."""

from collections import Counter
from itertools import product
from math import exp

import numpy as np
import pytest

from sottovoce.core.loudest import Loudest
from sottovoce.data import synthetic_people
from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.interface import LocalEngine
from sottovoce.training import Budget, Settings
from sottovoce_lab.paper.sliced_shops import SlicedShop, rows
from sottovoce_lab.paper.slices import slice_of, sliced_reports

PEOPLE = synthetic_people(n_users=6, n_items=24, seed=2).histories
Law = dict[tuple[int, ...], float]

# In small, exactly: eight reports in two slices of four, one loud in each, two reports of a person.

EPSILON, SHOP_KINDS, LOUD, SLICES = 1.0, 8, 2, 2
GAMMA = 1 / (1 + LOUD / SHOP_KINDS * (exp(EPSILON) - 1))
SIZE = SHOP_KINDS // SLICES


def within(one: int, loud: set[int]) -> list[float]:
    """The law of a report within a slice."""
    inside = range(one * SIZE, (one + 1) * SIZE)
    theirs = loud & set(inside)
    return [
        GAMMA / SIZE * (kind in inside) + (1 - GAMMA) / len(theirs) * (kind in theirs)
        for kind in range(SHOP_KINDS)
    ]


def single(loud: set[int]) -> list[float]:
    each = [within(one, loud) for one in range(SLICES)]
    return [sum(column) / SLICES for column in zip(*each, strict=True)]


def independent(loud: set[int]) -> Law:
    """Of two reports, each with a slice of its own."""
    law = single(loud)
    return {(a, b): law[a] * law[b] for a, b in product(range(SHOP_KINDS), repeat=2)}


def together(loud: set[int]) -> Law:
    """Of two reports in one slice."""
    laws = [within(one, loud) for one in range(SLICES)]
    return {
        (a, b): sum(law[a] * law[b] for law in laws) / SLICES
        for a, b in product(range(SHOP_KINDS), repeat=2)
    }


def shuffled(one: Law, other: Law) -> Law:
    found: Counter[tuple[int, ...]] = Counter()
    for (mine, p), (theirs, q) in product(one.items(), other.items()):
        found[tuple(sorted(mine + theirs))] += p * q  # type: ignore[assignment]
    return dict(found)


def delta(one: Law, other: Law) -> float:
    return sum(max(p - exp(EPSILON) * other[seen], 0.0) for seen, p in one.items())


def test_one_report_has_the_law_of_loudest() -> None:
    law = single({0, 4})
    loud = GAMMA / SHOP_KINDS + (1 - GAMMA) / LOUD
    assert law == pytest.approx(
        [loud if kind in (0, 4) else GAMMA / SHOP_KINDS for kind in range(SHOP_KINDS)]
    )
    assert max(law) / min(law) == pytest.approx(exp(EPSILON))


def test_several_reports_need_a_slice_each() -> None:
    """By themselves two reports in one slice tell no more; shuffled with another person's they do.

    For then chance no longer hides which two are of one person.
    """
    mine, instead, others = {0, 4}, {1, 5}, ({0, 4}, {1, 5}, {2, 6}, {0, 5})
    assert delta(together(mine), together(instead)) == pytest.approx(
        delta(independent(mine), independent(instead))
    )
    apart, as_one = (
        max(delta(shuffled(law(mine), law(o)), shuffled(law(instead), law(o))) for o in others)
        for law in (independent, together)
    )
    assert (apart, as_one) == pytest.approx((0.0908, 0.0967), abs=1e-4)


# What the simulation draws.


@pytest.mark.parametrize("block", [1, 4])
def test_every_direction_is_of_one_slice_and_a_block_of_one(block: int) -> None:
    mechanism = Settings.preset("loudest", factors=3, block=block).build(24)
    assert isinstance(mechanism, Loudest)
    part = slice_of(mechanism, 3).reshape(-1, block * 3)
    assert (part == part[:, :1]).all()
    assert np.array_equal(np.bincount(part[:, 0]), np.full(3, 24 // block / 3))


def test_the_simulation_draws_from_that_law() -> None:
    k, slices = 10_000, 2
    settings = Settings.preset("loudest", factors=2, block=2, loud=12, epsilon=2.0, reports=k)
    with build_engine("cpu", PEOPLE, settings, threads=1) as engine:
        assert isinstance(engine, LocalEngine)
        V = np.random.default_rng(0).normal(size=(PEOPLE.n_items, 2)).astype(np.float32)
        sent = sliced_reports(engine, V, 0, slices)
        mechanism = engine.mechanism
        assert isinstance(mechanism, Loudest)
        a = mechanism.blocks.compute_rows(V, engine.solve_user_vectors(V), PEOPLE)
        agreement = -(a[:, :, None] * engine.solve_user_vectors(V)[:, None, :]).reshape(len(a), -1)
    signed = np.stack([-agreement, agreement], axis=-1).reshape(len(a), -1)
    part = np.repeat(slice_of(mechanism, slices), 2)
    quiet = mechanism.gamma / mechanism.n_signed
    for theirs, mine in zip(signed, sent, strict=True):
        likely = np.full(mechanism.n_signed, quiet)
        for each in range(slices):
            inside = np.flatnonzero(part == each)
            likely[inside[np.argsort(-theirs[inside])[: mechanism.loud // slices]]] *= exp(2.0)
        found = np.bincount(mine, minlength=mechanism.n_signed)
        assert (np.abs(found - k * likely) < 6 * np.sqrt(k * likely)).all()


def test_a_shop_is_tried_with_slices_and_without() -> None:
    shops = [SlicedShop(60, 30, 5, Budget(local=50), slices) for slices in (1, 2)]
    table = list(rows(shops, [1000, 1001], [1000], 0.1))
    assert [row.split("|")[1].strip() for row in table[2:]] == ["1", "2"]
    assert "0.0000" in table[2]

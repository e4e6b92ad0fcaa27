"""Exactly L loud directions, whatever the gradient, and they are those that agree most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.loudest import Loud
from tests.core.compiled_loud import listed

if TYPE_CHECKING:
    import pytest

few = st.sampled_from([-2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 1.0, 2.0])
wide = st.builds(lambda m, e: m * 10.0**e, st.floats(-9, 9), st.integers(-40, 25))
any_size = st.one_of(few, wide).map(np.float32)


@st.composite
def people(draw: st.DrawFn) -> Loud:
    values = draw(st.sampled_from([few, any_size]))
    a = np.array(draw(st.lists(values, min_size=1, max_size=30)), np.float32)
    x = np.array(draw(st.lists(values, min_size=1, max_size=4)), np.float32)
    n = a.size * x.size
    return Loud(a, x, draw(st.integers(1, n)), draw(st.integers(0, 2 * n - 1)))


def by_sorting(loud: Loud) -> set[int]:
    """From the definition: all 2n, by agreement, ties by place."""
    n_signed = 2 * loud.a.size * loud.x.size
    signed = np.arange(n_signed)
    row, factor = np.divmod(signed >> 1, loud.x.size)
    gradient = -loud.a[row].astype(np.float64) * loud.x[factor].astype(np.float64)
    agreement = np.where(signed & 1, gradient, -gradient)
    order = np.lexsort(((signed + loud.offset) % n_signed, -agreement))
    return set(order[: loud.count].tolist())


def compiled(loud: Loud) -> list[int]:
    found: list[int] = listed(loud.a, loud.x, loud.count, loud.offset).tolist()
    return found


@given(people())
def test_they_agree_most(loud: Loud) -> None:
    found = loud.at(np.arange(loud.count)).tolist()
    assert len(set(found)) == loud.count
    assert set(found) == by_sorting(loud)


@given(people().filter(lambda loud: not loud.is_silent))
def test_the_compiled_selection_lists_them_in_the_same_order(loud: Loud) -> None:
    assert compiled(loud) == loud.at(np.arange(loud.count)).tolist()


def test_the_compiled_selection_of_many_rows() -> None:
    """Normal rows, and rows of which nearly all are far below the others."""
    rng = np.random.default_rng(1)
    normal = rng.standard_normal(3000).astype(np.float32)
    few_loud = np.where(rng.random(3000) < 0.01, normal, normal * np.float32(1e-9))
    x = rng.standard_normal(7).astype(np.float32)
    for a in (normal, few_loud):
        for count in (1, 150, 640, 8000, 21_000):
            loud = Loud(a, x, count, 5)
            assert compiled(loud) == loud.at(np.arange(count)).tolist()


def test_many_ties_are_found_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.core.loudest.PIECE", 7)
    a, x = np.array([1, -1, 1, 0, 0, 2], np.float32), np.array([1, 0, -1], np.float32)
    for count in range(1, 19):
        loud = Loud(a, x, count, 5)
        found = loud.at(np.arange(count)).tolist()
        assert set(found) == by_sorting(loud)
        assert found == compiled(loud)


def test_every_tied_direction_has_the_same_chance() -> None:
    """Over all offsets, a zero gradient makes each signed direction loud equally often."""
    nothing, x = np.zeros(4, np.float32), np.ones(2, np.float32)
    found = [Loud(nothing, x, 3, offset).at(np.arange(3)) for offset in range(16)]
    assert np.bincount(np.concatenate(found), minlength=16).tolist() == [3] * 16

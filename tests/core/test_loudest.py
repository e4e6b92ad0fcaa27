"""`loudest`: the loud directions, in numpy and compiled, and the probabilities of reports."""

from fractions import Fraction
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core import Loudest, Shape
from sottovoce.core.coin import WORD_RANGE, exp_epsilon
from sottovoce.core.loudest import (
    LoudSet,
    choose_block_size,
    choose_loud_fraction,
    estimate_gain,
    estimate_history_length,
)
from sottovoce.errors import SettingsError
from tests.core.compiled_loud import list_loud


def compute_word_fraction(place: int, n: int) -> Fraction:
    """Return the fraction of words that `multiply_high` maps to this one of n places."""
    return Fraction(-(-(place + 1) * WORD_RANGE // n) - -(-place * WORD_RANGE // n), WORD_RANGE)


def enumerate_probabilities(mechanism: Loudest, loud: list[int]) -> list[Fraction]:
    """Return the exact probability of every report, counted over all words."""
    gamma = Fraction(mechanism.blanket_below, WORD_RANGE)
    out = [
        gamma * compute_word_fraction(signed, mechanism.n_signed)
        for signed in range(mechanism.n_signed)
    ]
    for rank, signed in enumerate(loud):
        out[signed] += (1 - gamma) * compute_word_fraction(rank, mechanism.loud)
    return out


@given(st.integers(1, 9), st.sampled_from([1, 2, 8]), st.floats(0.05, 12), st.randoms(), st.data())
def test_ratio_of_probabilities_is_at_most_e_to_the_epsilon(
    items: int, block: int, epsilon: float, random: object, data: st.DataObject
) -> None:
    # This holds for any two sets of loud directions.
    shape = Shape(items, 2, 1.0)
    max_loud = Loudest(shape, epsilon, block=block).n_directions
    mechanism = Loudest(shape, epsilon, block=block, loud=data.draw(st.integers(1, max_loud)))
    signed = list(range(mechanism.n_signed))
    one, other = (
        enumerate_probabilities(mechanism, random.sample(signed, mechanism.loud))  # type: ignore[attr-defined]
        for _ in range(2)
    )
    assert sum(one) == sum(other) == 1
    bound = Fraction(exp_epsilon(epsilon))
    assert all(p <= bound * q and q <= bound * p for p, q in zip(one, other, strict=True))
    uniform = enumerate_probabilities(mechanism, [])
    ratios = [p / q for p, q in zip(one, uniform, strict=True) if p != q]
    assert len(ratios) == mechanism.loud
    assert float(max(ratios)) == pytest.approx(exp(epsilon), rel=1e-9)


@pytest.mark.parametrize("items", [60, 1000, 9781, 10**6])
def test_options_are_monotonic_in_epsilon(items: int) -> None:
    # As epsilon grows, blocks shrink, fewer directions are loud, and the gain rises. At least 20
    # directions of each factor are loud, or half as many as a typical history has items.
    epsilons = np.arange(0.25, 20, 0.25).tolist()
    history = estimate_history_length(items)
    blocks = [choose_block_size(e, items, history) for e in epsilons]
    assert blocks == sorted(blocks, reverse=True)
    rho = [
        choose_loud_fraction(e, items, history, b) for e, b in zip(epsilons, blocks, strict=True)
    ]
    assert rho == sorted(rho, reverse=True)
    assert min(rho) >= min(0.5, 10 / items, history / 4 / items)
    gain = [estimate_gain(e, items) for e in epsilons]
    assert gain == sorted(gain)


@pytest.mark.parametrize(
    "options", [{"loud": -1}, {"loud": 17}, {"block": 3}, {"block": 2048}, {"block": -2}]
)
def test_invalid_options_are_rejected(options: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match=next(iter(options))):
        Loudest(Shape(8, 2, 1.0), 6.0, **options)


@pytest.mark.parametrize("public", [{"block": 0, "loud": 3}, {"block": 2, "loud": 0}])
def test_manifest_must_state_block_and_loud(public: dict[str, int]) -> None:
    Loudest.from_manifest(Shape(8, 2, 1.0), 1.0, {"directions_seed": 0, "block": 2, "loud": 3})
    with pytest.raises(SettingsError, match="block"):
        Loudest.from_manifest(Shape(8, 2, 1.0), 1.0, {"directions_seed": 0, **public})


few_values = st.sampled_from([-2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 1.0, 2.0])
wide_range = st.builds(lambda m, e: m * 10.0**e, st.floats(-9, 9), st.integers(-40, 25))
any_size = st.one_of(few_values, wide_range).map(np.float32)


@st.composite
def draw_loud_set(draw: st.DrawFn) -> LoudSet:
    values = draw(st.sampled_from([few_values, any_size]))
    a = np.array(draw(st.lists(values, min_size=1, max_size=30)), np.float32)
    x = np.array(draw(st.lists(values, min_size=1, max_size=4)), np.float32)
    n = a.size * x.size
    return LoudSet(a, x, draw(st.integers(1, n)), draw(st.integers(0, 2 * n - 1)))


def find_by_sorting(loud: LoudSet) -> set[int]:
    """Follow the definition: sort all 2n by agreement, and ties by their place."""
    n_signed = 2 * loud.a.size * loud.x.size
    signed = np.arange(n_signed)
    row, factor = np.divmod(signed >> 1, loud.x.size)
    gradient = -loud.a[row].astype(np.float64) * loud.x[factor].astype(np.float64)
    agreement = np.where(signed & 1, gradient, -gradient)
    order = np.lexsort(((signed + loud.offset) % n_signed, -agreement))
    return set(order[: loud.count].tolist())


def run_compiled(loud: LoudSet) -> list[int]:
    directions: list[int] = list_loud(loud.a, loud.x, loud.count, loud.offset).tolist()
    return directions


@given(draw_loud_set())
def test_loud_directions_agree_most(loud: LoudSet) -> None:
    directions = loud.get(np.arange(loud.count)).tolist()
    assert len(set(directions)) == loud.count
    assert set(directions) == find_by_sorting(loud)


@given(draw_loud_set().filter(lambda loud: not loud.is_silent))
def test_compiled_selection_has_the_same_order(loud: LoudSet) -> None:
    assert run_compiled(loud) == loud.get(np.arange(loud.count)).tolist()


def test_compiled_selection_of_many_rows() -> None:
    """Test normal rows, and rows of which nearly all are far below the others."""
    rng = np.random.default_rng(1)
    normal = rng.standard_normal(3000).astype(np.float32)
    few_loud = np.where(rng.random(3000) < 0.01, normal, normal * np.float32(1e-9))
    x = rng.standard_normal(7).astype(np.float32)
    for a in (normal, few_loud):
        for count in (1, 150, 640, 8000, 21_000):
            loud = LoudSet(a, x, count, 5)
            assert run_compiled(loud) == loud.get(np.arange(count)).tolist()


def test_ties_are_found_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.core.loudest.DIRECTIONS_PER_PIECE", 7)
    a, x = np.array([1, -1, 1, 0, 0, 2], np.float32), np.array([1, 0, -1], np.float32)
    for count in range(1, 19):
        loud = LoudSet(a, x, count, 5)
        directions = loud.get(np.arange(count)).tolist()
        assert set(directions) == find_by_sorting(loud)
        assert directions == run_compiled(loud)


def test_offset_treats_tied_directions_alike() -> None:
    # With a zero gradient, all offsets together make every signed direction equally often loud.
    a, x = np.zeros(4, np.float32), np.ones(2, np.float32)
    directions = [LoudSet(a, x, 3, offset).get(np.arange(3)) for offset in range(16)]
    assert np.bincount(np.concatenate(directions), minlength=16).tolist() == [3] * 16

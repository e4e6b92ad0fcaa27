"""`loudest`: exactly L loud directions, those that agree most, and two output probabilities."""

from fractions import Fraction
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core import Histories, Loudest, Shape, initial_items, user_vectors
from sottovoce.core.coin import WORD, exp_epsilon
from sottovoce.core.loudest import Loud, usual_block, usual_fraction, usual_gain, usual_history
from sottovoce.errors import SettingsError
from tests.core.compiled_loud import listed


def share(place: int, n: int) -> Fraction:
    """How many of the 2^64 words `multiply_high` sends to this one of n places."""
    return Fraction(-(-(place + 1) * WORD // n) - -(-place * WORD // n), WORD)


def probabilities(mechanism: Loudest, loud: list[int]) -> list[Fraction]:
    """Of every report, counted over all words, exactly."""
    gamma = Fraction(mechanism.blanket_below, WORD)
    out = [gamma * share(signed, mechanism.n_signed) for signed in range(mechanism.n_signed)]
    for rank, signed in enumerate(loud):
        out[signed] += (1 - gamma) * share(rank, mechanism.loud)
    return out


@given(st.integers(1, 9), st.sampled_from([1, 2, 8]), st.floats(0.05, 12), st.randoms(), st.data())
def test_two_probabilities_with_ratio_e_to_the_epsilon(
    items: int, block: int, epsilon: float, random: object, data: st.DataObject
) -> None:
    """For two loud sets of any kind, the likeliest and the least likely places included."""
    shape = Shape(items, 2, 1.0)
    most = Loudest(shape, epsilon, block=block).n_directions
    mechanism = Loudest(shape, epsilon, block=block, loud=data.draw(st.integers(1, most)))
    everything = list(range(mechanism.n_signed))
    one, other = (
        probabilities(mechanism, random.sample(everything, mechanism.loud))  # type: ignore[attr-defined]
        for _ in range(2)
    )
    assert sum(one) == sum(other) == 1
    bound = Fraction(exp_epsilon(epsilon))
    assert all(p <= bound * q and q <= bound * p for p, q in zip(one, other, strict=True))
    uniform = probabilities(mechanism, [])
    louder = [p / q for p, q in zip(one, uniform, strict=True) if p != q]
    assert len(louder) == mechanism.loud
    assert float(max(louder)) == pytest.approx(exp(epsilon), rel=1e-9)


def test_reports_follow_the_enumerated_probabilities() -> None:
    """The whole path from words to bytes: chi-square over reports, false alarm below 1e-7."""
    h = Histories.from_lists([[0, 2, 3]], 8)
    V = initial_items(8, 2, 0.5, 0)
    X = user_vectors(V, h, alpha=1.0, regularization=1e-6)
    mechanism = Loudest(Shape(8, 2, 1.0), 1.5, block=4, loud=5)
    n = 300_000
    words = np.random.default_rng(3).integers(0, 2**64, (1, n + 1, 4), dtype=np.uint64)
    reports = mechanism.reports(V, X, h, words)[0]
    offset = np.array([int(words[0, -1, 0]) * mechanism.n_signed >> 64])
    [loud] = mechanism.loud_sets(V, X, h, offset)
    chances = probabilities(mechanism, loud.at(np.arange(5)).tolist())
    expected = n * np.array([float(p) for p in chances])
    chi_square = ((np.bincount(reports, minlength=32) - expected) ** 2 / expected).sum()
    assert chi_square < 31 + 6 * np.sqrt(62)


@pytest.mark.parametrize("items", [60, 1000, 9781, 10**6])
def test_rules_go_one_way_as_epsilon_grows(items: int) -> None:
    """Smaller blocks, fewer loud directions, more said; for each factor never fewer than 20, or
    than half of a typical history.
    """
    epsilons = np.arange(0.25, 20, 0.25).tolist()
    history = usual_history(items)
    blocks = [usual_block(e, items, history) for e in epsilons]
    assert blocks == sorted(blocks, reverse=True)
    rho = [usual_fraction(e, items, history, b) for e, b in zip(epsilons, blocks, strict=True)]
    assert rho == sorted(rho, reverse=True)
    assert min(rho) >= min(0.5, 10 / items, history / 4 / items)
    gain = [usual_gain(e, items) for e in epsilons]
    assert gain == sorted(gain)


@pytest.mark.parametrize(
    "options", [{"loud": -1}, {"loud": 17}, {"block": 3}, {"block": 2048}, {"block": -2}]
)
def test_impossible_numbers_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match=next(iter(options))):
        Loudest(Shape(8, 2, 1.0), 6.0, **options)


@pytest.mark.parametrize("public", [{"block": 0, "loud": 3}, {"block": 2, "loud": 0}])
def test_a_manifest_leaves_nothing_to_choose(public: dict[str, int]) -> None:
    Loudest.from_manifest(Shape(8, 2, 1.0), 1.0, {"directions_seed": 0, "block": 2, "loud": 3})
    with pytest.raises(SettingsError, match="block"):
        Loudest.from_manifest(Shape(8, 2, 1.0), 1.0, {"directions_seed": 0, **public})


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

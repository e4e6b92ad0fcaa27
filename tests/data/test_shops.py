import numpy as np

from sottovoce.data.shops import POPULARITY_EXPONENT, shop
from sottovoce.data.streams import stream


def test_histories_have_the_requested_length_and_follow_popularity() -> None:
    histories = shop(3_000, 60, 8, tastes=1, seed=1)
    lengths = np.diff(histories.indptr)
    assert (lengths.min(), lengths.max()) == (2, 30)
    assert abs(lengths.mean() - 7.5) < 0.3
    expected = stream(1, "shop").permutation(np.arange(1, 61) ** -POPULARITY_EXPONENT)
    ranks = [np.argsort(np.argsort(weights)) for weights in (expected, histories.popularity())]
    assert np.asarray(np.corrcoef(ranks))[0, 1] > 0.95


def test_items_correlate_more_with_a_higher_focus() -> None:
    def measure_correlation(focus: float) -> float:
        histories = shop(1_000, 60, 8, tastes=4, seed=2, focus=focus)
        table = np.zeros((1_000, 60))
        table[histories.users_of_entries(), histories.indices] = 1
        correlations = np.asarray(np.corrcoef(table.T))
        return float(np.square(correlations[~np.eye(60, dtype=bool)]).mean())

    low, middle, high = (measure_correlation(focus) for focus in (0.0, 0.5, 0.9))
    assert low < middle < 0.5 * high

import numpy as np
from scipy import sparse

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


def test_people_touch_items_with_the_same_tags_if_tastes_follow_tags() -> None:
    groups = np.repeat(np.eye(6), 10, axis=0)

    def measure_pairs(tags: sparse.csr_array | None) -> float:
        """Return the share of pairs of items of one person that have the same tag."""
        histories = shop(2_000, 60, 8, tastes=6, seed=3, focus=0.9, tags=tags)
        counts = histories.to_csr() @ groups
        lengths = np.diff(histories.indptr)
        return float((counts * (counts - 1)).sum() / (lengths * (lengths - 1)).sum())

    assert measure_pairs(sparse.csr_array(groups)) > 1.2 * measure_pairs(None)

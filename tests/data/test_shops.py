import numpy as np

from sottovoce.data.shops import FALL, shop
from sottovoce.data.streams import stream


def test_histories_are_as_long_as_asked_for_and_go_by_popularity() -> None:
    found = shop(3_000, 60, 8, tastes=1, seed=1)
    lengths = np.diff(found.indptr)
    assert (lengths.min(), lengths.max()) == (2, 30)
    assert abs(lengths.mean() - 7.5) < 0.3
    wanted = stream(1, "shop").permutation(np.arange(1, 61) ** -FALL)
    ranks = [np.argsort(np.argsort(each)) for each in (wanted, found.popularity())]
    assert np.asarray(np.corrcoef(ranks))[0, 1] > 0.95


def test_the_sharper_the_tastes_the_more_alike_are_histories() -> None:
    def shared(focus: float) -> float:
        histories = shop(1_000, 60, 8, tastes=4, seed=2, focus=focus)
        table = np.zeros((1_000, 60))
        table[histories.users_of_entries(), histories.indices] = 1
        together = np.asarray(np.corrcoef(table.T))
        return float(np.square(together[~np.eye(60, dtype=bool)]).mean())

    assert shared(0.0) < shared(0.5) < 0.5 * shared(0.9)

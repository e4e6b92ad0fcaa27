"""Synthetic people: reproducible, and none of them a real viewer."""

import numpy as np
import pytest

from sottovoce.data import Interactions, load, synthetic_people
from sottovoce.errors import SettingsError


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=2000, n_items=1000, seed=0)


def test_no_history_is_close_to_that_of_a_real_viewer(people: Interactions) -> None:
    """Compare the Jaccard similarity; that of two real viewers reaches 0.76."""
    bundled = load("ml-latest-small")
    has_film = np.isin(bundled.item_ids, people.item_ids)
    real = bundled.select(None, np.flatnonzero(has_film))
    # Jaccard: shared films, divided by films of either.
    ours, theirs = people.histories.to_csr(), real.histories.to_csr()
    shared = np.asarray((ours @ theirs.T).todense())
    sizes = np.diff(people.histories.indptr)[:, None] + np.diff(real.histories.indptr)[None, :]
    assert (shared / (sizes - shared)).max() < 0.6


def test_fewer_people_are_the_first_ones_and_another_seed_draws_others(
    people: Interactions,
) -> None:
    fewer = synthetic_people(n_users=300, n_items=1000, seed=0)
    end = people.histories.indptr[300]
    assert fewer.histories.indices.tolist() == people.histories.indices[:end].tolist()
    other = synthetic_people(n_users=300, n_items=1000, seed=1)
    assert other.histories.indices.tolist() != fewer.histories.indices.tolist()


def test_people_are_pinned(people: Interactions) -> None:
    """Demos and documents quote results on them."""
    assert people.histories.n_interactions == 135_212
    assert people.histories[0][:5].tolist() == [462, 661, 776, 787, 795]


def test_name_may_have_parameters() -> None:
    data, same = load("synthetic:N=30,M=40,seed=2"), synthetic_people(30, 40, seed=2)
    assert data.histories.indices.tolist() == same.histories.indices.tolist()
    # The smallest and the largest catalogue.
    for size in (10, 9724):
        small = load(f"synthetic:N=20,M={size}").histories
        assert small.n_items == size
        assert np.diff(small.indptr).min() >= min(20, size // 3)
    # Unknown parameters, invalid numbers, and sizes out of range.
    for wrong in ("K=3", "N=x", "N", "N=-1", "N=0", "M=9", "M=9725"):
        with pytest.raises(SettingsError):
            load(f"synthetic:{wrong}")

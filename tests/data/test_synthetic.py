"""Synthetic people: like real data in skew and structure, and nobody's history."""

import numpy as np
import pytest

from sottovoce.data import Interactions, load, synthetic_people
from sottovoce.errors import SettingsError


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=2000, n_items=1000, seed=0)


def test_nobody_is_a_real_viewer(people: Interactions) -> None:
    """Jaccard similarity with the nearest real viewer; two real ones reach 0.76."""
    real = load("ml-latest-small").select(None, np.flatnonzero(_is_top(people)))
    ours, theirs = people.histories.to_csr(), real.histories.to_csr()
    shared = np.asarray((ours @ theirs.T).todense())
    sizes = np.diff(people.histories.indptr)[:, None] + np.diff(real.histories.indptr)[None, :]
    assert (shared / (sizes - shared)).max() < 0.6


def _is_top(people: Interactions) -> np.ndarray:
    return np.isin(load("ml-latest-small").item_ids, people.item_ids)


def test_the_seed_decides_and_fewer_people_are_the_first_ones(people: Interactions) -> None:
    fewer = synthetic_people(n_users=300, n_items=1000, seed=0)
    end = people.histories.indptr[300]
    assert fewer.histories.indices.tolist() == people.histories.indices[:end].tolist()
    other = synthetic_people(n_users=300, n_items=1000, seed=1)
    assert other.histories.indices.tolist() != fewer.histories.indices.tolist()


def test_the_people_are_pinned(people: Interactions) -> None:
    """Demos and documents quote results on them."""
    assert people.histories.n_interactions == N_INTERACTIONS
    assert people.histories[0][:5].tolist() == FIRST_FILMS


N_INTERACTIONS = 135_212
FIRST_FILMS = [462, 661, 776, 787, 795]


def test_parameters_in_the_name() -> None:
    data, same = load("synthetic:N=30,M=40,seed=2"), synthetic_people(30, 40, seed=2)
    assert data.histories.indices.tolist() == same.histories.indices.tolist()
    for size in (10, 9724):
        small = load(f"synthetic:N=20,M={size}").histories
        assert small.n_items == size
        assert np.diff(small.indptr).min() >= min(20, size // 3)
    for wrong in ("K=3", "N=x", "N", "N=-1", "N=0", "M=9", "M=9725"):
        with pytest.raises(SettingsError):
            load(f"synthetic:{wrong}")

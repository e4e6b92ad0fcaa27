"""What a server can do: long rows are cut, sub-crowds are fair, honest crowds are left alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sottovoce.data import synthetic_people
from sottovoce.simulation.engines import build_engine
from sottovoce.training import Settings
from sottovoce_lab.paper.lying.defences import DEFENCES, GROUPS, groups, limited
from sottovoce_lab.paper.lying.reporting import Reporters

ESTIMATES = arrays(np.float64, (7, 3), elements=st.floats(-1e3, 1e3))


@given(ESTIMATES, st.floats(1.0, 9.0))
def test_no_row_is_longer_than_allowed_and_none_turns(estimate: np.ndarray, times: float) -> None:
    lengths = np.linalg.norm(estimate, axis=1)
    kept = limited(estimate, times)
    most = times * np.median(lengths)
    assert (np.linalg.norm(kept, axis=1) <= most * (1 + 1e-9) + 1e-12).all()
    short = lengths <= most
    assert np.allclose(kept[short], estimate[short], rtol=1e-12)
    assert np.allclose(np.cross(kept, estimate), 0, atol=1e-6)
    assert ((kept * estimate).sum(axis=1) >= 0).all()


def test_sub_crowds_are_of_equal_size_and_drawn_anew() -> None:
    first = groups(103, seed=5, epoch=0)
    sizes = np.bincount(first)
    assert len(sizes) == GROUPS
    assert sizes.max() - sizes.min() <= 1
    assert np.array_equal(first, groups(103, seed=5, epoch=0))
    assert not np.array_equal(first, groups(103, seed=5, epoch=1))


@pytest.mark.parametrize("mechanism", ["coordinate", "loudest"])
@pytest.mark.parametrize("defence", DEFENCES)
def test_an_honest_crowd_is_left_nearly_alone(mechanism: str, defence: str) -> None:
    """Without any defence it is the simulator's own training, to the bit."""
    people = synthetic_people(n_users=600, n_items=30, seed=1).histories
    settings = Settings.preset(mechanism, reports=50, epochs=3, factors=2, initial_scale=0.1)
    with build_engine("cpu", people, settings, threads=1) as engine:
        system = Reporters(engine, people.n_users, 0, defence)  # type: ignore[arg-type]
        V = system.first()
        alone, _ = engine.learn(V, 0)
        defended = system.open(V, 0).close()
    moved, other = (alone - V).ravel(), (defended - V).ravel()
    if defence in ("none", "caps"):
        assert np.array_equal(defended, alone)
    assert np.corrcoef(moved, other)[0, 1] > 0.8

"""What every engine must do: the reference's reports, bit for bit, however it shares out the work.

All arithmetic has one order (see `sottovoce.model.factorization`), so equality here is exact: user
vectors, reports, sums and the next item matrix. A further engine joins by adding its name.
"""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.errors import NotFiniteError, SettingsError
from sottovoce.mechanism import MECHANISMS, sum_signs
from sottovoce.model import Histories, initial_items, user_vectors
from sottovoce.simulation import ENGINES, build_engine
from sottovoce.simulation.cpu.engine import CpuEngine
from sottovoce.simulation.words import report_words
from sottovoce.training import Settings
from tests.people import histories, random_people

engines = pytest.mark.parametrize("engine", ENGINES)
mechanisms = pytest.mark.parametrize("mechanism", MECHANISMS)


def reference(h: Histories, V: np.ndarray, plan: Settings, epoch: int) -> np.ndarray:
    X = user_vectors(V, h, alpha=plan.alpha, regularization=plan.regularization)
    words = report_words(plan.seed, epoch, np.arange(h.n_users), plan.reports)
    return plan.build(h.n_items).reports(V, X, h, words)


@engines
@mechanisms
@pytest.mark.parametrize(
    ("n_items", "factors", "reports"),
    [(1, 1, 3), (3, 2, 5), (64, 1, 1), (127, 5, 20), (128, 8, 7), (129, 4, 1), (700, 3, 40)],
)
def test_reports_are_the_references(
    engine: str, mechanism: str, n_items: int, factors: int, reports: int
) -> None:
    h = random_people(90, n_items, seed=n_items, most=120)
    plan = Settings.preset(mechanism, factors=factors, reports=reports, alpha=1.7, seed=11)
    V = initial_items(n_items, factors, 0.1, 3)
    simulated = build_engine(engine, h, plan)
    expected = reference(h, V, plan, epoch=4)
    assert np.array_equal(simulated.reports(V, 4), expected)
    collected = simulated.collect(V, 4)
    assert collected.n_reports == expected.size
    n_directions = plan.build(n_items).n_directions
    assert np.array_equal(collected.sums, sum_signs(expected, n_directions))


@engines
@mechanisms
@given(h=histories(max_items=40), epsilon=st.floats(0.1, 10), seed=st.integers(0, 2**63))
@settings(max_examples=25)
def test_any_population_agrees(
    engine: str, mechanism: str, h: Histories, epsilon: float, seed: int
) -> None:
    plan = Settings.preset(mechanism, factors=2, reports=6, epsilon=epsilon, seed=seed)
    V = initial_items(h.n_items, 2, 0.3, 1)
    simulated = build_engine(engine, h, plan).reports(V, 0)
    assert np.array_equal(simulated, reference(h, V, plan, 0))


@engines
@pytest.mark.parametrize("equal", [0.0, 0.25])
def test_ties_are_settled_as_the_reference_does(engine: str, equal: float) -> None:
    """All items alike: rotated rows tie in great numbers, at zero and elsewhere."""
    h = Histories.from_lists([[], [0], [0, 1, 2, 3], list(range(40)), [5, 9]], 40)
    plan = Settings.preset("loudest", factors=2, reports=200, regularization=0.1)
    V = np.full((40, 2), equal, np.float32)
    simulated = build_engine(engine, h, plan).reports(V, 0)
    assert np.array_equal(simulated, reference(h, V, plan, 0))


@engines
@pytest.mark.parametrize("factors", [1, 2, 5, 9])
def test_user_vectors_are_the_references(engine: str, factors: int) -> None:
    h = random_people(200, 90, seed=1)
    plan = Settings(factors=factors, alpha=2.5)
    V = initial_items(90, factors, 0.2, 5)
    expected = user_vectors(V, h, alpha=2.5, regularization=plan.regularization)
    assert np.array_equal(build_engine(engine, h, plan).user_vectors(V), expected)


@mechanisms
def test_threads_and_batches_change_nothing(mechanism: str) -> None:
    h = random_people(300, 50, seed=9)
    plan = Settings.preset(mechanism, factors=3, reports=9)
    V = initial_items(50, 3, 0.2, 5)
    whole = CpuEngine(h, plan, threads=1)
    expected, sums = whole.reports(V, 2), whole.collect(V, 2).sums
    for threads in range(1, min(4, numba.config.NUMBA_NUM_THREADS) + 1):
        assert np.array_equal(CpuEngine(h, plan, threads=threads).collect(V, 2).sums, sums)
    parts = [np.arange(0, 7), np.arange(7, 170), np.arange(170, 300)]
    shards = [CpuEngine(h.take(part), plan, first_user=int(part[0])) for part in parts]
    assert np.array_equal(np.concatenate([s.reports(V, 2) for s in shards]), expected)
    assert np.array_equal(sum(s.collect(V, 2).sums for s in shards), sums)


@engines
@mechanisms
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_broken_item_matrix_sends_nothing(engine: str, mechanism: str, bad: float) -> None:
    h = random_people(40, 30, seed=1)
    plan = Settings.preset(mechanism, factors=2, reports=30)
    V = initial_items(30, 2, 0.2, 5)
    V[4, 1] = bad
    simulated = build_engine(engine, h, plan)
    with pytest.raises(NotFiniteError), np.errstate(all="ignore"):
        simulated.collect(V, 0)
    with pytest.raises(NotFiniteError), np.errstate(all="ignore"):
        simulated.user_vectors(V)


def test_engines_that_are_not_there_say_so() -> None:
    h = random_people(3, 5)
    with pytest.raises(SettingsError, match="cuda engine is not built yet"):
        build_engine("cuda", h, Settings())
    with pytest.raises(SettingsError, match="no engine 'tpu'"):
        build_engine("tpu", h, Settings())
    with pytest.raises(SettingsError, match="threads"):
        build_engine("cpu", h, Settings(), threads=10_000)

"""The contract of engines: the bits of the reference, in whatever order an engine works.

All arithmetic has one order (see `sottovoce.core.model`), so user vectors, reports, sums and the
next item matrix are compared exactly. The suite tests each engine of the registry with each
mechanism for which it has a kernel.
"""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce import FederatedMF
from sottovoce.core import (
    MECHANISMS,
    Histories,
    count_reports,
    draw_initial_items,
    solve_user_vectors,
)
from sottovoce.core.coordinate import Coordinate
from sottovoce.data import Interactions
from sottovoce.errors import DivergedError, SettingsError
from sottovoce.simulation import Engine, Simulation, build_engine, register_engine
from sottovoce.simulation import engines as registry
from sottovoce.simulation.cpu import cache
from sottovoce.simulation.cuda import card
from sottovoce.simulation.engines import (
    AUTO_ENGINE,
    ENGINE_MODULES,
    list_engine_options,
    should_use_reference,
)
from sottovoce.simulation.evaluation import kernels
from sottovoce.simulation.evaluation.ranking import rank_factors
from sottovoce.simulation.holdout import HoldoutRule
from sottovoce.simulation.interface import StreamedEngine
from sottovoce.simulation.population import Part, Parts, People, WholeParts
from sottovoce.simulation.random_words import draw_report_words
from sottovoce.training import (
    DEFAULT_PRESET,
    Settings,
    compute_next_items,
    make_first_items,
    plan_training,
)
from tests.kernels import can_compute
from tests.people import histories, random_people
from tests.sampling import choose_cases
from tests.simulation.cuda.emulated import EmulatedCard, has_card

# The cpu engine with one part of the people in memory at a time.
STREAMED = "streamed"
# A process of Ray takes a second to start: tests/nightly/test_ray.py tests this engine.
QUICK = [*(name for name in ENGINE_MODULES if name != "ray"), STREAMED]
engines = pytest.mark.parametrize("engine", QUICK)
engines_and_mechanisms = pytest.mark.parametrize(
    ("engine", "mechanism"),
    [
        (engine, mechanism)
        for mechanism in MECHANISMS
        for engine in QUICK
        if can_compute("cpu" if engine == STREAMED else engine, mechanism)
    ],
)


@pytest.fixture(autouse=True, scope="module")
def any_card() -> Iterator[None]:
    """Run the kernels of a graphics card on the processor, if there is no card."""
    with pytest.MonkeyPatch.context() as patch:
        if not has_card():
            patch.setattr(card, "CudaCard", lambda _: EmulatedCard())
        yield


def make(engine: str, who: Histories | Parts, plan: Settings, **options: Any) -> Engine:
    """Build the engine of this name, and check that it is no other one under this name."""
    if engine == STREAMED:
        return make_streamed(who, plan, **options)
    built = build_engine(engine, who, plan, **options)
    assert built.name == engine
    others = {package for name, package in ENGINE_MODULES.items() if name != engine}
    for kind in type(built).__mro__:
        assert not any(f"{kind.__module__}.".startswith(f"{other}.") for other in others), kind
    module = f"{type(built).__module__}."
    assert module.startswith(f"{ENGINE_MODULES[engine]}."), "this is another engine"
    return built


def make_streamed(who: Histories | Parts, plan: Settings, *, resample: int | None = None) -> Engine:
    whole = WholeParts(Part(People(who, 0, resample))) if isinstance(who, Histories) else who
    assert isinstance(whole, WholeParts)
    streamed = build_engine("cpu", whole.cut(3), plan)
    assert isinstance(streamed, StreamedEngine) or len(whole.cut(3)) == 1
    return streamed


def compute_reference(h: Histories, V: np.ndarray, plan: Settings, epoch: int) -> np.ndarray:
    X = solve_user_vectors(V, h, alpha=plan.alpha, regularization=plan.compute_user_ridge(V))
    words = draw_report_words(plan.seed, epoch, np.arange(h.n_users), plan.reports)
    return plan.build(h.n_items).reports(V, X, h, words)


@engines_and_mechanisms
@pytest.mark.parametrize(
    ("n_items", "factors", "reports"),
    choose_cases(
        [(1, 1, 3), (3, 2, 5), (64, 1, 1), (127, 5, 20), (128, 8, 7), (129, 5, 1), (700, 3, 40)], 4
    ),
)
def test_reports_are_the_references(
    engine: str, mechanism: str, n_items: int, factors: int, reports: int
) -> None:
    h = random_people(90, n_items, seed=n_items, most=120)
    plan = Settings.preset(
        mechanism, factors=factors, reports=reports, alpha=1.7, ridge=0.3, seed=11
    )
    V = draw_initial_items(n_items, factors, 0.1, 3)
    simulated = make(engine, h, plan)
    expected = compute_reference(h, V, plan, epoch=4)
    assert np.array_equal(simulated.list_reports(V, 4), expected)
    collected = simulated.collect(V, 4)
    assert collected.n_reports == expected.size
    built = plan.build(n_items)
    counts = count_reports(expected, built.n_directions)
    assert np.array_equal(collected.sums, built.to_sums(counts))


@engines_and_mechanisms
@given(h=histories(max_items=40), epsilon=st.floats(0.1, 10), seed=st.integers(0, 2**53 - 1))
@settings(max_examples=25)
def test_reports_of_any_population_are_the_references(
    engine: str, mechanism: str, h: Histories, epsilon: float, seed: int
) -> None:
    plan = Settings.preset(mechanism, factors=2, reports=6, epsilon=epsilon, seed=seed)
    V = draw_initial_items(h.n_items, 2, 0.3, 1)
    simulated = make(engine, h, plan).list_reports(V, 0)
    assert np.array_equal(simulated, compute_reference(h, V, plan, 0))


@engines_and_mechanisms
@pytest.mark.parametrize("equal", [0.0, 0.25])
def test_ties_are_broken_as_in_the_reference(engine: str, mechanism: str, equal: float) -> None:
    """Use equal items, so that many rotated rows tie, at zero and elsewhere."""
    h = Histories.from_lists([[], [0], [0, 1, 2, 3], list(range(40)), [5, 9]], 40)
    plan = Settings.preset(mechanism, factors=2, reports=200, regularization=0.1)
    V = np.full((40, 2), equal, np.float32)
    simulated = make(engine, h, plan).list_reports(V, 0)
    assert np.array_equal(simulated, compute_reference(h, V, plan, 0))


@engines
@pytest.mark.parametrize("factors", [1, 2, 5, 8])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_user_vectors_are_the_references(engine: str, factors: int, ridge: float) -> None:
    h = random_people(200, 90, seed=1)
    plan = Settings(factors=factors, alpha=2.5, ridge=ridge)
    V = draw_initial_items(90, factors, 0.2, 5)
    expected = solve_user_vectors(V, h, alpha=2.5, regularization=plan.compute_user_ridge(V))
    assert np.array_equal(make(engine, h, plan).solve_user_vectors(V), expected)


@engines_and_mechanisms
def test_shards_add_up_to_the_whole(engine: str, mechanism: str) -> None:
    h = random_people(300, 50, seed=9)
    plan = Settings.preset(mechanism, factors=3, reports=9)
    V = draw_initial_items(50, 3, 0.2, 5)
    whole = make(engine, h, plan)
    expected, sums = whole.list_reports(V, 2), whole.collect(V, 2).sums
    parts = [np.arange(0, 7), np.arange(7, 170), np.arange(170, 300)]
    people = [WholeParts(Part(People(h.take(part), int(part[0])))) for part in parts]
    shards = [make(engine, some, plan) for some in people]
    assert np.array_equal(np.concatenate([s.list_reports(V, 2) for s in shards]), expected)
    assert np.array_equal(sum(s.collect(V, 2).sums for s in shards), sums)
    for shard in shards:
        shard.close()
    if engine == "cpu":
        assert np.array_equal(make("cpu", h, plan, threads=1).collect(V, 2).sums, sums)


@engines_and_mechanisms
@pytest.mark.parametrize("resample", [None, 150])
@pytest.mark.parametrize("rotate", [False, True])
def test_epochs_in_which_people_take_turns_are_the_references(
    engine: str, mechanism: str, resample: int | None, rotate: bool
) -> None:
    h = random_people(60, 40, seed=2, most=30)
    plan = Settings.preset(
        mechanism, factors=3, reports=2, epochs=5, lifetime=2, epsilon=0.5, rotate=rotate
    )
    pair = [make(name, h, plan, resample=resample) for name in (engine, "reference")]
    V = make_first_items(plan, 40)
    for epoch in range(3):
        reports, expected_reports = (built.list_reports(V, epoch) for built in pair)
        assert np.array_equal(reports, expected_reports)
        (V, n), (expected_V, expected_n) = (built.learn(V, epoch) for built in pair)
        assert n == expected_n
        assert np.array_equal(V, expected_V)


@engines_and_mechanisms
def test_the_proxys_dummies_are_the_same_for_every_engine(
    engine: str, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check the number of dummies, their sums, and that no dummies change nothing."""
    drawn: list[int] = []

    def count(reports: np.ndarray, n_directions: int) -> np.ndarray:
        drawn.append(len(reports))
        return count_reports(reports, n_directions)

    monkeypatch.setattr("sottovoce.simulation.interface.count_reports", count)
    h = random_people(60, 40, seed=2, most=30)
    plain = Settings.preset(mechanism, factors=3, reports=2, epochs=9, lifetime=1)
    plan, V = replace(plain, dummies=501), make_first_items(plain, 40)
    built, reference = make(engine, h, plan), make("reference", h, plan)
    for epoch in (0, 1):
        collected, sums = reference.collect(V, epoch), reference._draw_dummies(epoch)
        assert not np.array_equal(sums, reference._draw_dummies(epoch + 1))
        assert np.array_equal(built.collect(V, epoch).sums, collected.sums), (
            "dummies are not among the people's reports"
        )
        both, n = collected.sums + sums, collected.n_reports
        expected = compute_next_items(V, both, n, epoch + 1, plan, built.mechanism)
        next_V, behind = built.learn(V, epoch)
        assert behind == n
        assert np.array_equal(next_V, expected)
        plain_V = compute_next_items(V, collected.sums, n, epoch + 1, plain, built.mechanism)
        assert np.array_equal(make(engine, h, plain).learn(V, epoch)[0], plain_V)
        assert not np.array_equal(next_V, plain_V)
    assert set(drawn) - {0} == {501}


@engines
def test_an_epoch_of_nobody_has_no_dummies(engine: str) -> None:
    h, plan = random_people(1, 20, seed=2), Settings(factors=2, epochs=30, lifetime=1)
    V = make_first_items(plan, 20)
    plain, noisy = (make(engine, h, replace(plan, dummies=n)) for n in (0, 1000))
    empty = next(epoch for epoch in range(30) if not plain.collect(V, epoch).n_reports)
    assert np.array_equal(noisy.learn(V, empty)[0], plain.learn(V, empty)[0])


@engines
@pytest.mark.parametrize("negatives", [0, 7, 100])
def test_ranks_are_those_of_the_user_vectors(engine: str, negatives: int) -> None:
    data = Interactions.from_lists("people", [[], [1], *([[1, 2, 3], list(range(18))] * 20)], 20)
    people = WholeParts.from_data(data, HoldoutRule("random", negatives, seed=3))
    holdout = people[0].holdout
    assert holdout is not None
    split, candidates = holdout.candidates.split, holdout.candidates
    plan = Settings(factors=2)
    V = draw_initial_items(20, 2, 0.2, 5)
    V[7:9] = V[3]  # some tie
    built = make(engine, people, plan)
    X = solve_user_vectors(
        V, split.train, alpha=plan.alpha, regularization=plan.compute_user_ridge(V)
    )
    expected = rank_factors(X, V, candidates)
    assert expected.ties.any()
    reports = built.list_reports(V, 0)
    for _ in range(2):  # what an engine stores of a matrix changes nothing
        ranks = built.compute_ranks(V)
        assert np.array_equal(ranks.better, expected.better)
        assert np.array_equal(ranks.ties, expected.ties)
        assert np.array_equal(built.list_reports(V, 0), reports)


@engines
def test_an_engine_is_closed_by_its_block(engine: str) -> None:
    h = random_people(3, 5)
    with make(engine, h, Settings()) as opened:
        assert opened.collect(draw_initial_items(5, 5, 0.1, 0), 0).n_reports == 300
    opened.close()


@engines_and_mechanisms
@pytest.mark.parametrize("bad", [np.nan, np.inf, 2e6, 1e-40])
def test_an_item_matrix_that_no_device_accepts_is_refused(
    engine: str, mechanism: str, bad: float
) -> None:
    h = random_people(40, 30, seed=1)
    plan = Settings.preset(mechanism, factors=2, reports=30)
    V = draw_initial_items(30, 2, 0.2, 5)
    V[4, 1] = bad
    simulated = make(engine, h, plan)
    with pytest.raises(DivergedError):
        simulated.collect(V, 0)
    with pytest.raises(DivergedError):
        simulated.solve_user_vectors(V)


@engines_and_mechanisms
@pytest.mark.parametrize(
    "row",
    [[2.0**20] * 3, [2.0**-60] * 3, [2.0**20 * x for x in (0.7, 0.3, 0.7, 0.7, 0.9)]],
    ids=["large", "small", "beyond"],
)
def test_equations_without_a_solution_give_the_same_as_the_reference(
    engine: str, mechanism: str, row: list[float]
) -> None:
    """Lose lambda in the sums, so that vectors are rounding errors: in one case beyond 2^40."""
    h = random_people(40, 30, seed=1)
    plan = Settings.preset(
        mechanism, factors=len(row), reports=30, regularization=1e-12, alpha=1024.0
    )
    V = np.tile(np.array(row, np.float32), (30, 1))
    V[::7, 1] = 0
    ours, expected = make(engine, h, plan), make("reference", h, plan)
    assert np.array_equal(ours.solve_user_vectors(V), expected.solve_user_vectors(V))
    assert np.array_equal(ours.list_reports(V, 0), expected.list_reports(V, 0))


@engines
@pytest.mark.parametrize("shape", [(5, 3), (4, 5), (5, 4), (200, 5), (5,)])
def test_an_item_matrix_of_another_shape_is_refused(engine: str, shape: tuple[int, ...]) -> None:
    built = make(engine, random_people(3, 5), Settings(factors=5))
    for method in (built.collect, built.list_reports, lambda V, _: built.solve_user_vectors(V)):
        with pytest.raises(SettingsError):
            method(np.zeros(shape, np.float32), 0)


@engines
def test_an_update_that_leaves_the_bounds_is_an_error(engine: str) -> None:
    built = make(engine, random_people(30, 6), Settings(factors=2, learning_rate=1e9))
    with pytest.raises(DivergedError):
        built.learn(draw_initial_items(6, 2, 0.2, 1), 0)


@engines
def test_an_item_matrix_in_another_layout_gives_the_same_bits(engine: str) -> None:
    built = make(engine, random_people(30, 6), Settings(factors=2))
    V = draw_initial_items(6, 2, 0.2, 1)
    expected = built.list_reports(V, 0)
    layouts: list[Any] = [np.asfortranarray(V), V.astype(">f4"), V.astype(np.float64)]
    for other in layouts:
        assert np.array_equal(built.list_reports(other, 0), expected)


@pytest.mark.parametrize("mechanism", ["paper", DEFAULT_PRESET])
def test_every_engine_has_kernels_for_our_presets(mechanism: str) -> None:
    for engine in ENGINE_MODULES:
        assert can_compute(engine, Settings.preset(mechanism).mechanism)


def test_a_mechanism_without_a_kernel_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Uncompiled(Coordinate):
        name = "uncompiled"

    monkeypatch.setitem(MECHANISMS, Uncompiled.name, Uncompiled)
    plan = Settings(mechanism="uncompiled", factors=2)
    for engine in ("cpu", "cuda"):
        assert not can_compute(engine, "uncompiled")
        with pytest.raises(SettingsError, match="uncompiled"):
            build_engine(engine, random_people(3, 5), plan)
    assert build_engine("reference", random_people(3, 5), plan).name == "reference"


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("cpu", "sottovoce.simulation.reference"),
        (AUTO_ENGINE, "sottovoce.simulation.cpu"),
        ("tpu", "json"),
    ],
)
def test_an_invalid_registration_is_refused(name: str, module: str) -> None:
    with pytest.raises(SettingsError, match=module if name == "tpu" else name):
        register_engine(name, module)
    assert "tpu" not in ENGINE_MODULES


def test_the_suite_fails_if_a_name_gives_another_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(ENGINE_MODULES, "tpu", ENGINE_MODULES["cpu"])
    with pytest.raises(AssertionError):
        test_an_engine_is_closed_by_its_block("tpu")


@pytest.mark.parametrize(
    ("people", "items", "preset", "small"),
    [
        (566, 1286, "strong", True),
        (6_000, 3_400, "strong", False),
        (566, 1286, "coordinate", True),
        (100_000, 1286, "coordinate", False),
    ],
)
def test_small_work_uses_the_reference_and_large_work_compiled_loops(
    people: int, items: int, preset: str, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "REFERENCE_WORK", registry.ReferenceWork())
    monkeypatch.setattr(registry, "estimate_loop_seconds", lambda _: 10.0)
    plan = plan_training(people, items, preset=preset, epochs=6, reports=1, history=100)
    assert should_use_reference(people, items, plan) == small


def test_auto_chooses_by_the_size_of_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    h, plan = random_people(20, 10), Settings(factors=2)
    monkeypatch.setattr(registry, "REFERENCE_WORK", registry.ReferenceWork())
    monkeypatch.setattr(registry, "estimate_loop_seconds", lambda _: 10.0)
    assert FederatedMF().engine == Simulation(plan).engine == AUTO_ENGINE
    assert build_engine(AUTO_ENGINE, h, plan, threads=1).name == "reference"
    assert build_engine(AUTO_ENGINE, h, plan, resample=10_000_000).name == "cpu"
    monkeypatch.setattr(registry, "find_spec", lambda _: None)
    assert build_engine(AUTO_ENGINE, h, plan, resample=10_000_000).name == "reference"


def test_auto_uses_compiled_loops_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    h, plan, work = random_people(20, 10), Settings(factors=2), registry.ReferenceWork()
    monkeypatch.setattr(registry, "REFERENCE_WORK", work)
    monkeypatch.setattr(cache, "LOADED_LOOPS", set())
    monkeypatch.setattr(cache, "is_cached", lambda _: False)
    seconds = registry.estimate_reference_seconds(20, 10, plan)
    # Small work adds up, until compiling would have been as fast.
    for _ in range(3):
        assert build_engine(AUTO_ENGINE, h, plan, threads=1).name == "reference"
    assert work.seconds == pytest.approx(3 * seconds)
    work.seconds = registry.COMPILE_SECONDS
    assert build_engine(AUTO_ENGINE, h, plan, threads=1).name == "cpu"
    # Loops in the cache cost less, and those that have run cost nothing.
    work.seconds = registry.LOAD_SECONDS
    assert build_engine(AUTO_ENGINE, h, plan, threads=1).name == "reference"
    work.seconds = registry.LOAD_SECONDS
    monkeypatch.setattr(cache, "is_cached", lambda _: True)
    assert build_engine(AUTO_ENGINE, h, plan, threads=1).name == "cpu"
    work.seconds = 0.0
    cache.LOADED_LOOPS.add(plan.mechanism)
    assert build_engine(AUTO_ENGINE, h, plan, threads=1).name == "cpu"


IN_PYTHON = (
    "from scipy import sparse; from sottovoce import FederatedMF;"
    "h = sparse.random_array((30, 20), density=0.3, format='csr', rng=1) > 0;"
    "m = FederatedMF(budget=10).fit(h); m.recommend(0, h[[0]]);"
)
AS_A_COMMAND = (
    "from contextlib import suppress; from sottovoce.cli import main;"
    "sys.argv[1:] = ['simulate', '--data', 'synthetic:N=60,M=80,seed=1', '--budget', '10']\n"
    "with suppress(SystemExit): main()\n"
)


@pytest.mark.parametrize("work", [IN_PYTHON, AS_A_COMMAND], ids=["python", "command"])
def test_small_work_loads_no_compiler(work: str) -> None:
    code = f"import sys; {work} assert 'numba' not in sys.modules".replace("\n ", "\n")
    environment = {**os.environ, "PYTHONPATH": str(Path(registry.__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert util.find_spec("numba")


@pytest.mark.parametrize(
    ("engine", "options"),
    [
        ("tpu", {}),
        ("cpu", {"threads": 10_000}),
        ("cpu", {"threads": 0}),
        ("cpu", {"ray_workers": 1}),
        ("reference", {"threads": 1}),
    ],
)
def test_unknown_engines_and_invalid_options_are_refused(
    engine: str, options: dict[str, Any]
) -> None:
    with pytest.raises(SettingsError):
        build_engine(engine, random_people(3, 5), Settings(), **options)
    assert set(list_engine_options()) == set(ENGINE_MODULES)


def test_an_error_on_any_thread_is_raised() -> None:
    def fails(begin: int, _end: int, _thread: int) -> None:
        if begin == 7:
            raise ValueError("seven")

    with pytest.raises(ValueError, match="seven"):
        kernels.run_in_threads(20, fails, 1)


def test_compiling_is_announced_once(caplog: pytest.LogCaptureFixture) -> None:
    listener = kernels.CompileNotice()
    with caplog.at_level(logging.WARNING):
        listener.on_start(None)
        listener.on_start(None)
    assert len(caplog.records) == 1

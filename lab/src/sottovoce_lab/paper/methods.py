"""Compute the result of a cell: train its method, rank, and account for privacy.

An item matrix that several cells need is trained once, and a test is prepared once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.data import Interactions, leave_one_out
from sottovoce.privacy import Reporting, central_epsilon
from sottovoce.simulation import Popularity, Simulation, build_engine, simulate
from sottovoce.simulation.engines import list_engine_options
from sottovoce.simulation.evaluation.lists import rank_by_popularity
from sottovoce.simulation.evaluation.metrics import (
    compute_gains,
    compute_hits,
    compute_mean,
    summarize_ranks,
)
from sottovoce.simulation.evaluation.ranking import (
    Candidates,
    Ranks,
    rank_factors,
    sample_candidates,
)
from sottovoce.simulation.evaluation.side_information import SideInformation, solve_wide_vectors
from sottovoce.simulation.training import start_training
from sottovoce.simulation.training import train as learn
from sottovoce.training import Settings
from sottovoce_lab.bootstrap import compute_resampled_means
from sottovoce_lab.paper.cells import TRAINED_METHODS, Cell, Method, SideKind, TestKind
from sottovoce_lab.paper.communication import measure_message_bytes
from sottovoce_lab.paper.fifths import measure_fifths
from sottovoce_lab.paper.grid import compute_delta
from sottovoce_lab.paper.late_people import (
    count_late_people,
    hold_out_people,
    measure_late_people,
)
from sottovoce_lab.paper.published_models import (
    PublishedCounts,
    PublishedFactors,
    PublishedModel,
    PublishedTraining,
)

Float32 = NDArray[np.float32]


class SharedResults:
    """Item matrices and tests that the cells of one run share."""

    def __init__(self, cells: Iterable[Cell] = ()):
        # How many of the cells still need each item matrix.
        self._needed = Counter(cell.training_cell.key for cell in cells)
        self._models: dict[str, Float32] = {}
        self._last_test: tuple[object, PreparedTest] | None = None

    def get_model(self, cell: Cell, train: Callable[[], Float32]) -> Float32:
        """Return the cell's V; train it unless this was done for another cell."""
        key = cell.training_cell.key
        V = self._models.pop(key) if key in self._models else train()
        self._needed[key] -= 1
        # A V stays in memory only until the last cell that needs it.
        if self._needed[key] > 0:
            self._models[key] = V
        return V

    def prepare_test(self, cell: Cell, data: Interactions) -> PreparedTest:
        """Return the cell's test.

        Only the last test is kept, because cells of the same split come one after the other.
        """
        # Interactions are compared by identity, so it is fast to compare keys, and a key belongs to
        # one subset.
        key = (data, cell.split, cell.negatives, cell.seed)
        if self._last_test is None or self._last_test[0] != key:
            split = leave_one_out(data, cell.split, cell.seed)
            candidates = sample_candidates(split, cell.negatives, cell.seed)
            self._last_test = key, PreparedTest(data, candidates)
        return self._last_test[1]


@dataclass(frozen=True)
class PreparedTest:
    """A test, and the side information that devices may have."""

    data: Interactions
    candidates: Candidates

    def list_side_information(self, kinds: Iterable[SideKind]) -> dict[SideKind, SideInformation]:
        """Return each kind of side information that the data has."""
        # Computed on demand: other kinds may be slow, or missing in the data.
        side_information: dict[SideKind, SideInformation | None] = {
            kind: getattr(self, f"_{kind}") for kind in kinds
        }
        return {kind: value for kind, value in side_information.items() if value is not None}

    @cached_property
    def catalogue(self) -> Candidates:
        """The same test, with all items that a person never touched instead of sampled ones."""
        return sample_candidates(self.candidates.split, 0, self.candidates.split.seed)

    @cached_property
    def _tags(self) -> SideInformation | None:
        if self.data.tags is None:
            return None
        return SideInformation.from_split(self.data, self.candidates.split, tags=True, time=False)

    @cached_property
    def _time(self) -> SideInformation | None:
        if self.candidates.split.times is None:
            return None
        return SideInformation.from_split(self.data, self.candidates.split, tags=False, time=True)

    @cached_property
    def _both(self) -> SideInformation | None:
        tags, time = self._tags, self._time
        return None if tags is None or time is None else SideInformation(tags.tags, time.weights)


@dataclass(frozen=True)
class CellContext:
    """The data and the resources with which a cell is computed."""

    data: Interactions
    """The subset of the data set that the cells of one size and draw use."""
    threads: int | None = None
    """Threads of the cpu engine and of the baselines."""
    engine: str = "cpu"
    card: int | None = None
    """Number of the graphics card of the `cuda` engine."""
    shared: SharedResults = field(default_factory=SharedResults)

    @property
    def engine_options(self) -> dict[str, Any]:
        """The options that the engine takes."""
        options = {"threads": self.threads, "card": self.card}
        names = list_engine_options()[self.engine]
        return {name: value for name, value in options.items() if name in names}

    def prepare_test(self, cell: Cell) -> PreparedTest:
        """Return the cell's test."""
        return self.shared.prepare_test(cell, self.data)


Compute = Callable[[Cell, CellContext], dict[str, Any]]


def _compute_message_bytes(cell: Cell, context: CellContext) -> dict[str, Any]:
    return measure_message_bytes(context.data, cell.options["reports"], cell.options["factors"])


def compute_baseline(cell: Cell, context: CellContext) -> dict[str, Any]:
    """Return the result of a method that ours are compared with."""
    test = context.prepare_test(cell)
    candidates = test.candidates
    model = _fit_baseline(cell, candidates.split.train, context)
    ranks = {}
    for kind, side in test.list_side_information(cell.side_information).items():
        side_ranks = _rank_with_side_information(cell, model, side, candidates)
        if side_ranks is not None:
            ranks[kind] = side_ranks
    final = summarize_ranks(_rank(model, candidates))
    return {"final": final, **_get_baseline_budget(cell, context), **_summarize_side_ranks(ranks)}


def _summarize_side_ranks(ranks: dict[SideKind, Ranks]) -> dict[str, Any]:
    """Return the additional metrics of a result that was tested with side information."""
    summaries = {kind: summarize_ranks(kind_ranks) for kind, kind_ranks in ranks.items()}
    return {"known": summaries} if summaries else {}


def _compute_factors(cell: Cell, context: CellContext) -> dict[str, Any]:
    """Return the result of a method whose devices solve their vectors for a published V."""
    test = context.prepare_test(cell)
    candidates = test.candidates
    model = _publish_model(cell, candidates.split.train, context)
    X = model.solve_vectors(candidates.split.train)
    final = summarize_ranks(rank_factors(X, model.V, candidates))
    solving = _get_solving_options(cell, model.V)
    ranks = {
        kind: side.compute_ranks(
            model.V,
            candidates,
            alpha=solving["alpha"],
            regularization=solving["regularization"],
        )
        for kind, side in test.list_side_information(cell.side_information).items()
    }
    return {"final": final, **_get_budget(cell, context), **_summarize_side_ranks(ranks)}


def _compute_training(cell: Cell, context: CellContext) -> dict[str, Any]:
    if not (cell.curve or cell.resample):
        return _compute_factors(cell, context)
    # The training is tested in every epoch, or its people are resampled.
    settings = cell.settings
    plan = Simulation(
        settings,
        cell.split,
        cell.negatives,
        engine=context.engine,
        engine_options=context.engine_options,
        evaluate_every=1 if cell.curve else 0,
        sample=0,
        tags=False,
        time=False,
        resample=cell.resample,
    )
    run = simulate(context.data, plan)
    # The crowd are all people who report, even if they are resampled from fewer people.
    people = cell.resample or context.data.n_users
    spent = _account_training(settings, context.data.n_items, people)
    result: dict[str, Any] = {"final": run.final, "budget": spent}
    if cell.curve:
        result["curve"] = [
            {name: value for name, value in epoch.items() if name != "seconds"}
            for epoch in run.epochs
        ]
    return result


def _account_training(settings: Settings, items: int, people: int) -> dict[str, float | None]:
    # A person is hidden among the people who report in an epoch. These are fewer if not all people
    # take part.
    return _account(settings.event(items), settings.estimate_crowd(people), people)


def _account(event: Reporting, crowd: int, people: int) -> dict[str, float | None]:
    """Return the lifetime budgets, local and central."""
    central = central_epsilon(event, crowd, compute_delta(people)) if crowd > 1 else None
    return {"local": event.pure, "central": central}


def _get_baseline_budget(cell: Cell, context: CellContext) -> dict[str, Any]:
    """Return the budget of a private baseline, or nothing."""
    options = cell.options
    # The accountant does not know randomised rows and names of items, so these have no central
    # budget.
    if cell.method == "private-popularity":
        # The accountant knows this report: it is a randomised sign.
        people = context.data.n_users
        event = Reporting(options["epsilon"], options["reports"], 1)
        spent = _account(event, people, people)
    elif cell.method in ("named-counts", "named-als"):
        spent = {"local": options["epsilon"] * options["reports"], "central": None}
    elif cell.method == "dplcf":
        spent = {"local": options["epsilon"] * context.data.histories.n_items, "central": None}
    elif cell.method == "dp-als":
        spent = {"local": None, "central": options["epsilon"]}
    else:
        return {}
    return {"budget": spent}


def _fit_baseline(cell: Cell, train: Histories, context: CellContext) -> Any:
    # Imported here, because cells that need no such library must run without it.
    from sottovoce_lab import baselines

    options, threads = cell.options, context.threads
    if cell.method == "popularity":
        return Popularity.fit(train)
    if cell.method == "random":
        # All scores are equal, and ties count by their expectation. So this is exactly chance.
        return Popularity(np.zeros(train.n_items, np.float32))
    if cell.method == "private-popularity":
        return baselines.PrivatePopularity.fit(train, **options, seed=cell.seed)
    if cell.method == "named-counts":
        return baselines.NamedItems(train.n_items, **options).count_popularity(train, cell.seed)
    if cell.method in ("mf", "named-als"):
        fit = (
            baselines.MatrixFactorization.fit
            if cell.method == "mf"
            else baselines.factorize_named_items
        )
        engine = {"engine": context.engine, **context.engine_options}
        return fit(train, **options, seed=cell.seed, **engine)
    if cell.method == "ease":
        return baselines.EASE.fit(train, **options, engine=context.engine)
    if cell.method == "fcf":
        return baselines.FCF.fit(train, cell.settings, threads=threads)
    if cell.method == "dp-als":
        settings = baselines.TrustedSettings(**options)
        return baselines.DPALS.fit(train, settings, seed=cell.seed, threads=threads)
    return baselines.DPLCF.fit(train, **options, seed=cell.seed, threads=threads)


def _rank(model: Any, candidates: Candidates) -> Ranks:
    from sottovoce_lab import baselines

    return baselines.rank(model, candidates)


def _rank_with_side_information(
    cell: Cell, model: Any, side: SideInformation, candidates: Candidates
) -> Ranks | None:
    """Return the ranks of a baseline, or None if it cannot use the side information."""
    if cell.method == "popularity":
        return rank_by_popularity(candidates, side)
    if cell.method == "dplcf" and not side.tags.names:
        return _rank(replace(model, weights=side.weights), candidates)
    return None


def _compute_catalogue(cell: Cell, context: CellContext) -> dict[str, Any]:
    """Return the result among sampled items and in the whole catalogue, with bootstrap draws."""
    test = context.prepare_test(cell)
    split, tests = test.candidates.split, (test.candidates, test.catalogue)
    # Everybody's vectors, or scores, are computed once for both tests.
    if cell.method == "ease":
        from sottovoce_lab.baselines import models

        scorer = _fit_baseline(cell, split.train, context)
        return measure_catalogue(*models.rank_for_tests(scorer, tests))
    model = _publish_model(cell, split.train, context)
    result = measure_catalogue(*model.rank(tests))
    for kind, side in test.list_side_information(cell.side_information).items():
        wide = model.add_tags(side.tags)
        X = solve_wide_vectors(wide, split.train, side.weights)
        W = wide.rows(np.arange(len(wide.V))).astype(np.float32)
        measured = measure_catalogue(*(rank_factors(X, W, candidates) for candidates in tests))
        result.setdefault("known", {})[kind] = measured["final"]
        result["draws"] |= {f"{kind} {name}": means for name, means in measured["draws"].items()}
    return {**result, **_get_budget(cell, context)}


def measure_catalogue(sampled: Ranks, full: Ranks) -> dict[str, Any]:
    """Return means over all people, and over the people of every bootstrap draw."""
    values = {
        "hr@10": compute_hits(sampled, 10),
        "hr@10 all": compute_hits(full, 10),
        "ndcg@100 all": compute_gains(full, 100),
    }
    final = {name: compute_mean(metric_values) for name, metric_values in values.items()}
    return {"final": final, "draws": compute_resampled_means(values)}


def _compute_late_people(cell: Cell, context: CellContext) -> dict[str, Any]:
    late = hold_out_people(context.data, count_late_people(context.data.n_users), cell.seed)
    others = replace(context, data=late.others)
    model = _publish_model(cell, late.others.histories, others)
    return {**measure_late_people(model, late), **_get_budget(cell, others)}


def _compute_fifths(cell: Cell, context: CellContext) -> dict[str, Any]:
    candidates = context.prepare_test(cell).candidates
    model = _publish_model(cell, candidates.split.train, context)
    return {**measure_fifths(model, candidates), **_get_budget(cell, context)}


def _publish_model(cell: Cell, train: Histories, context: CellContext) -> PublishedModel:
    """Return the model of a method that has an item matrix."""
    if cell.method in ("popularity", "random"):
        counts = PublishedCounts.from_histories(train)
        return counts if cell.method == "popularity" else replace(counts, V=0 * counts.V)
    V = context.shared.get_model(cell, lambda: _train_items(cell, train, context))
    solving = _get_solving_options(cell, V)
    if cell.method not in (*TRAINED_METHODS, "mf", "named-als"):
        return PublishedFactors(V, **solving)
    # The engine only solves and ranks here: of its settings it uses the solving options and F.
    settings = Settings.preset("paper", factors=V.shape[1], **solving)
    return PublishedTraining(
        V,
        **solving,
        build_engine=lambda histories: build_engine(
            context.engine, histories, settings, **context.engine_options
        ),
    )


def _train_items(cell: Cell, train: Histories, context: CellContext) -> Float32:
    """Return V after all epochs, without any evaluation."""
    if cell.method not in TRAINED_METHODS:
        V: Float32 = _fit_baseline(cell, train, context).V
        return V
    settings = cell.settings
    state = start_training(settings, train.n_items)
    with build_engine(context.engine, train, settings, **context.engine_options) as engine:
        for next_state in learn(settings, engine, state):
            state = next_state
    return state.V


def _get_solving_options(cell: Cell, V: Float32) -> dict[str, float]:
    """Return alpha and lambda with which a device solves its vector."""
    if cell.method in TRAINED_METHODS:
        settings = cell.settings
        return {"alpha": settings.alpha, "regularization": settings.compute_user_ridge(V)}
    return {name: cell.options[name] for name in ("alpha", "regularization")}


def _get_budget(cell: Cell, context: CellContext) -> dict[str, Any]:
    """Return the lifetime budget of any method, for the people who reported."""
    if cell.method not in TRAINED_METHODS:
        return _get_baseline_budget(cell, context)
    settings, data = cell.settings, context.data
    return {"budget": _account_training(settings, data.n_items, data.n_users)}


COMPUTE_BY_TEST: dict[TestKind, Compute] = {
    "catalogue": _compute_catalogue,
    "late": _compute_late_people,
    "people": _compute_fifths,
}
# Other methods are computed by `compute_baseline`, and attacks by functions that `runner` adds.
COMPUTE_BY_METHOD: dict[Method, Compute] = {
    "cost": _compute_message_bytes,
    "mf": _compute_factors,
    "named-als": _compute_factors,
    **dict.fromkeys(TRAINED_METHODS, _compute_training),
}

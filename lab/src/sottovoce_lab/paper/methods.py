"""From a cell to its result: each method trained, ranked and accounted for.

Item matrices that several cells ask for are trained once, tests prepared once.
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
from sottovoce.simulation import Simulation, build_engine, simulate
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
from sottovoce_lab.paper.bootstrap import means_of
from sottovoce_lab.paper.cells import TRAINED, Cell, Measured, Method, Way
from sottovoce_lab.paper.people import (
    Published,
    PublishedCounts,
    PublishedFactors,
    PublishedTraining,
    hold_people,
    how_many_late,
    measure_late,
    measure_people,
)
from sottovoce_lab.paper.published import count_bytes
from sottovoce_lab.paper.scale import delta_of

Float32 = NDArray[np.float32]


class Shared:
    """By the cells that are still to be computed; gone with this object."""

    def __init__(self, cells: Iterable[Cell] = ()):
        self._wanted = Counter(cell.trained_as.key for cell in cells)
        self._kept: dict[str, Float32] = {}
        self._last: tuple[object, Prepared] | None = None

    def model(self, cell: Cell, train: Callable[[], Float32]) -> Float32:
        """The cell's V, trained unless another cell has trained the same; kept for the last one."""
        key = cell.trained_as.key
        V = self._kept.pop(key) if key in self._kept else train()
        self._wanted[key] -= 1
        if self._wanted[key] > 0:
            self._kept[key] = V
        return V

    def prepared(self, cell: Cell, data: Interactions) -> Prepared:
        """The last one is kept: cells of one split follow each other."""
        which = (data, cell.split, cell.negatives, cell.seed)
        if self._last is None or self._last[0] != which:
            split = leave_one_out(data, cell.split, cell.seed)
            candidates = sample_candidates(split, cell.negatives, cell.seed)
            self._last = which, Prepared(data, candidates)
        return self._last[1]


@dataclass(frozen=True)
class Prepared:
    """A test, and what devices may know of it."""

    data: Interactions
    candidates: Candidates

    def known(self, ways: Iterable[Way]) -> dict[Way, SideInformation]:
        """Each way that is asked for and that the data has."""
        known: dict[Way, SideInformation | None] = {way: getattr(self, f"_{way}") for way in ways}
        return {way: each for way, each in known.items() if each is not None}

    @cached_property
    def catalogue(self) -> Candidates:
        """The same people's test, against all that they never touched."""
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
    """What a method needs beside its cell."""

    data: Interactions
    """The subset."""
    threads: int | None = None
    """Of the cpu engine, and of the baselines."""
    engine: str = "cpu"
    card: int | None = None
    """Of the cuda engine."""
    shared: Shared = field(default_factory=Shared)

    @property
    def engine_options(self) -> dict[str, Any]:
        """What the engine may be told: the number of threads is for the baselines too."""
        given = {"threads": self.threads, "card": self.card}
        known = list_engine_options()[self.engine]
        return {name: value for name, value in given.items() if name in known}

    def prepared(self, cell: Cell) -> Prepared:
        return self.shared.prepared(cell, self.data)


Compute = Callable[[Cell, CellContext], dict[str, Any]]


def _counted_bytes(cell: Cell, context: CellContext) -> dict[str, Any]:
    return count_bytes(context.data, cell.named["reports"], cell.named["factors"])


def compared(cell: Cell, context: CellContext) -> dict[str, Any]:
    """What ours is compared with."""
    prepared = context.prepared(cell)
    candidates = prepared.candidates
    model = _baseline(cell, candidates.split.train, context)
    result = {"final": summarize_ranks(_ranks(model, candidates)), **_fixed_budget(cell, context)}
    found = {
        way: _known_ranks(cell, model, known, candidates)
        for way, known in prepared.known(cell.known).items()
    }
    return {**result, **_ways({way: ranks for way, ranks in found.items() if ranks is not None})}


def _ways(found: dict[Way, Ranks]) -> dict[str, Any]:
    """What is added to a result that was tested with what devices know."""
    return {"known": {way: summarize_ranks(ranks) for way, ranks in found.items()}} if found else {}


def _with_items(cell: Cell, context: CellContext) -> dict[str, Any]:
    """A method whose devices solve their vectors for a published item matrix."""
    prepared = context.prepared(cell)
    candidates = prepared.candidates
    model = _published(cell, candidates.split.train, context)
    X = model.vectors(candidates.split.train)
    final = summarize_ranks(rank_factors(X, model.V, candidates))
    solving = _solving(cell, model.V)
    found = {
        way: known.compute_ranks(model.V, candidates, **solving)
        for way, known in prepared.known(cell.known).items()
    }
    return {"final": final, **_lifetime_budget(cell, context), **_ways(found)}


def _trained(cell: Cell, context: CellContext) -> dict[str, Any]:
    return (_simulated if cell.curve or cell.resample else _with_items)(cell, context)


def _simulated(cell: Cell, context: CellContext) -> dict[str, Any]:
    """A training that is tested on its way, or of people who are made up."""
    settings = cell.settings
    plan = Simulation(
        settings,
        cell.split,
        cell.negatives,
        engine=context.engine,
        engine_options=context.engine_options,
        evaluate_every=1 if cell.curve else 0,
        tags=False,
        time=False,
        resample=cell.resample,
    )
    run = simulate(context.data, plan)
    people = cell.resample or context.data.n_users
    spent = _budget_of(settings, context.data.n_items, people)
    result: dict[str, Any] = {"final": run.final, "budget": spent}
    if cell.curve:
        result["curve"] = [
            {name: value for name, value in record.items() if name != "seconds"}
            for record in run.epochs
        ]
    return result


def _budget_of(settings: Settings, items: int, people: int) -> dict[str, float | None]:
    """Lifetime, alone and in the crowd of an epoch: where people take turns, not everybody."""
    return _spent(settings.event(items), settings.estimate_crowd(people), people)


def _spent(event: Reporting, crowd: int, people: int) -> dict[str, float | None]:
    central = central_epsilon(event, crowd, delta_of(people)) if crowd > 1 else None
    return {"local": event.pure, "central": central}


def _fixed_budget(cell: Cell, context: CellContext) -> dict[str, Any]:
    """Of the private baselines. Neither a randomised row nor an item's name is a report of ours.

    So those have no central figure.
    """
    named = cell.named
    if cell.method == "private-popularity":
        # Its report is a sign through the coin, as the accountant knows it.
        people = context.data.n_users
        spent = _spent(Reporting(named["epsilon"], named["reports"], 1), people, people)
    elif cell.method in ("named-counts", "named-als"):
        spent = {"local": named["epsilon"] * named["reports"], "central": None}
    elif cell.method == "dplcf":
        spent = {"local": named["epsilon"] * context.data.histories.n_items, "central": None}
    elif cell.method == "dp-als":
        spent = {"local": None, "central": named["epsilon"]}
    else:
        return {}
    return {"budget": spent}


def _baseline(cell: Cell, train: Histories, context: CellContext) -> Any:
    """The method's model, trained."""
    # Here and not above: the cells that need no such library must run without it.
    from sottovoce_lab import baselines

    named, threads = cell.named, context.threads
    if cell.method == "popularity":
        return baselines.Popularity.fit(train)
    if cell.method == "random":
        # All scores alike: ties are broken by a fair coin, so this is chance to the last digit.
        return baselines.Popularity(np.zeros(train.n_items, np.float32), train.n_users)
    if cell.method == "private-popularity":
        return baselines.PrivatePopularity.fit(train, **named, seed=cell.seed)
    if cell.method == "named-counts":
        return baselines.NamedItems(train.n_items, **named).count_popularity(train, cell.seed)
    if cell.method in ("mf", "named-als"):
        fit = (
            baselines.MatrixFactorization.fit
            if cell.method == "mf"
            else baselines.factorize_named_items
        )
        return fit(train, **named, seed=cell.seed, engine=context.engine, **context.engine_options)
    if cell.method == "ease":
        return baselines.EASE.fit(train, **named, engine=context.engine)
    if cell.method == "fcf":
        return baselines.FCF.fit(train, cell.settings, threads=threads)
    if cell.method == "dp-als":
        chosen = baselines.TrustedSettings(**named)
        return baselines.DPALS.fit(train, chosen, seed=cell.seed, threads=threads)
    return baselines.DPLCF.fit(train, **named, seed=cell.seed, threads=threads)


def _ranks(model: Any, candidates: Candidates) -> Ranks:
    from sottovoce_lab import baselines

    return baselines.rank(model, candidates)


def _known_ranks(
    cell: Cell, model: Any, known: SideInformation, candidates: Candidates
) -> Ranks | None:
    """Of a baseline that is given what devices know; None where it has no use for it."""
    if cell.method == "popularity":
        return rank_by_popularity(candidates, known)
    if cell.method == "dplcf" and not known.tags.names:
        return _ranks(replace(model, weights=known.weights), candidates)
    return None


def _catalogue(cell: Cell, context: CellContext) -> dict[str, Any]:
    """Among the sampled items and in the whole catalogue, with what a bootstrap over people needs.

    Everybody's vectors, or scores, are computed once for both.
    """
    prepared = context.prepared(cell)
    split, tests = prepared.candidates.split, (prepared.candidates, prepared.catalogue)
    if cell.method == "ease":
        from sottovoce_lab.baselines import models

        scorer = _baseline(cell, split.train, context)
        return measure_catalogue(*models.rank_for_tests(scorer, tests))
    model = _published(cell, split.train, context)
    result = measure_catalogue(*model.ranks(tests))
    for way, known in prepared.known(cell.known).items():
        wide = model.with_tags(known.tags)
        X = solve_wide_vectors(wide, split.train, known.weights)
        W = wide.rows(np.arange(len(wide.V))).astype(np.float32)
        found = measure_catalogue(*(rank_factors(X, W, each) for each in tests))
        result.setdefault("known", {})[way] = found["final"]
        result["draws"] |= {f"{way} {name}": means for name, means in found["draws"].items()}
    return {**result, **_lifetime_budget(cell, context)}


def measure_catalogue(sampled: Ranks, full: Ranks) -> dict[str, Any]:
    """Means over people, and the same in every draw of people."""
    values = {
        "hr@10": compute_hits(sampled, 10),
        "hr@10 all": compute_hits(full, 10),
        "ndcg@100 all": compute_gains(full, 100),
    }
    final = {name: compute_mean(each) for name, each in values.items()}
    return {"final": final, "draws": means_of(values)}


def _late(cell: Cell, context: CellContext) -> dict[str, Any]:
    """People who never reported use what the others made."""
    late = hold_people(context.data, how_many_late(context.data.n_users), cell.seed)
    others = replace(context, data=late.others)
    model = _published(cell, late.others.histories, others)
    return {**measure_late(model, late), **_lifetime_budget(cell, others)}


def _people(cell: Cell, context: CellContext) -> dict[str, Any]:
    """Everybody who reported, by fifths."""
    candidates = context.prepared(cell).candidates
    model = _published(cell, candidates.split.train, context)
    return {**measure_people(model, candidates), **_lifetime_budget(cell, context)}


def _published(cell: Cell, train: Histories, context: CellContext) -> Published:
    """What a method makes of these histories, for methods that have an item matrix."""
    if cell.method in ("popularity", "random"):
        counts = PublishedCounts.of(train)
        return counts if cell.method == "popularity" else replace(counts, V=0 * counts.V)
    V = context.shared.model(cell, lambda: _items(cell, train, context))
    solving = _solving(cell, V)
    if cell.method not in (*TRAINED, "mf", "named-als"):
        return PublishedFactors(V, **solving)
    settings = Settings.preset("paper", factors=V.shape[1], **solving)
    return PublishedTraining(
        V,
        **solving,
        engine=lambda histories: build_engine(
            context.engine, histories, settings, **context.engine_options
        ),
    )


def _items(cell: Cell, train: Histories, context: CellContext) -> NDArray[np.float32]:
    """V after all epochs, without any evaluation."""
    if cell.method not in TRAINED:
        V: NDArray[np.float32] = _baseline(cell, train, context).V
        return V
    settings = cell.settings
    state = start_training(settings, train.n_items)
    with build_engine(context.engine, train, settings, **context.engine_options) as engine:
        for after in learn(settings, engine, state):
            state = after
    return state.V


def _solving(cell: Cell, V: NDArray[np.float32]) -> dict[str, float]:
    """How a device of this method solves its vector for V."""
    if cell.method in TRAINED:
        settings = cell.settings
        return {"alpha": settings.alpha, "regularization": settings.compute_user_ridge(V)}
    return {name: cell.named[name] for name in ("alpha", "regularization")}


def _lifetime_budget(cell: Cell, context: CellContext) -> dict[str, Any]:
    """Of any method, for who reported."""
    if cell.method not in TRAINED:
        return _fixed_budget(cell, context)
    settings, data = cell.settings, context.data
    return {"budget": _budget_of(settings, data.n_items, data.n_users)}


MEASURED: dict[Measured, Compute] = {
    "catalogue": _catalogue,
    "late": _late,
    "people": _people,
}
HOW: dict[Method, Compute] = {
    "cost": _counted_bytes,
    "mf": _with_items,
    "named-als": _with_items,
    **dict.fromkeys(TRAINED, _trained),
}
"""By method; what is not named here is `compared`, but for attacks: see `runner`."""

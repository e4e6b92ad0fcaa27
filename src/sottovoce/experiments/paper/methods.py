"""From a cell to its result: each method trained, ranked and accounted for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.data import hold_people, leave_one_out
from sottovoce.evaluation import Known, sample_candidates, summary
from sottovoce.experiments.paper.attacker import attack
from sottovoce.experiments.paper.cells import TRAINED
from sottovoce.experiments.paper.cost import count_bytes
from sottovoce.experiments.paper.lying.run import lie
from sottovoce.experiments.paper.measures import (
    PublishedCounts,
    PublishedFactors,
    PublishedTraining,
    how_many_late,
    measure_late,
    measure_people,
)
from sottovoce.privacy import Crowd, Reporting, central_epsilon
from sottovoce.privacy.account import DELTA
from sottovoce.simulation import SimulationPlan, build_engine, simulate
from sottovoce.simulation.engines import engine_options
from sottovoce.simulation.loop import begin
from sottovoce.simulation.loop import train as learn
from sottovoce.simulation.run import popularity_ranks

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sottovoce.data import Interactions
    from sottovoce.evaluation import Candidates, Ranks
    from sottovoce.experiments.paper.cells import Cell, Measured, Method
    from sottovoce.experiments.paper.measures import Published
    from sottovoce.model import Histories
    from sottovoce.simulation import Engine
    from sottovoce.training import Settings

MARKS = (1, 2, 5, 10, 20)
"""The epochs of a curve at which its budget is accounted for, beside the last."""


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
    on_part: Callable[[float], None] = lambda _: None
    """Told which part of the cell is done, 0 to 1."""

    @property
    def engine_options(self) -> dict[str, Any]:
        """What the engine may be told: the number of threads is for the baselines too."""
        given = {"threads": self.threads, "card": self.card}
        known = engine_options()[self.engine]
        return {name: value for name, value in given.items() if name in known}


def run_cell(cell: Cell, context: CellContext) -> dict[str, Any]:
    """Metrics, and for private methods the lifetime budget: ready for JSON."""
    how = MEASURED.get(cell.measured) or HOW.get(cell.method, _compared)
    return how(cell, context)


def _counted_bytes(cell: Cell, context: CellContext) -> dict[str, Any]:
    return count_bytes(context.data, cell.named["reports"], cell.named["factors"])


def _compared(cell: Cell, context: CellContext) -> dict[str, Any]:
    """What ours is compared with."""
    candidates = _candidates(cell, context.data)
    model = _baseline(cell, candidates.split.train, context.threads)
    result = {"final": summary(_ranks(model, candidates)), **_fixed_budget(cell, context)}
    if cell.known:
        result["known"] = _knowing(
            context.data, candidates, lambda known: _known_ranks(cell, model, known, candidates)
        )
    return result


def _candidates(cell: Cell, data: Interactions) -> Candidates:
    return sample_candidates(leave_one_out(data, cell.split, cell.seed), cell.negatives, cell.seed)


def _knowing(
    data: Interactions, candidates: Candidates, ranks: Callable[[Known], Ranks | None]
) -> dict[str, dict[str, float]]:
    """The metrics with tags, with time and with both, where the data and the method have them."""
    split, found = candidates.split, {}
    for name, tags, time in (("tags", True, False), ("time", False, True), ("both", True, True)):
        if (tags and data.tags is None) or (time and split.times is None):
            continue
        with_it = ranks(Known.of(data, split, tags=tags, time=time))
        if with_it is not None:
            found[name] = summary(with_it)
    return found


def _trained(cell: Cell, context: CellContext) -> dict[str, Any]:
    settings = cell.settings
    plan = SimulationPlan(
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
    run = simulate(
        context.data,
        plan,
        on_epoch=lambda record: context.on_part(record["epoch"] / settings.epochs),
    )
    marks = [mark for mark in MARKS if mark < settings.epochs] if cell.curve else []
    people = cell.resample or context.data.n_users
    budgets = {
        str(T): _budget_of(settings, T, context.data.n_items, people)
        for T in [*marks, settings.epochs]
    }
    result: dict[str, Any] = {"final": run.final, "popularity": run.popularity, "budgets": budgets}
    if cell.known:
        candidates, solving = _candidates(cell, context.data), _solving(cell, run.V)
        result["known"] = _knowing(
            context.data, candidates, lambda known: known.ranks(run.V, candidates, **solving)
        )
    if cell.curve:
        result["curve"] = [
            {name: value for name, value in record.items() if name != "seconds"}
            for record in run.epochs
        ]
    return result


def _budget_of(settings: Settings, epochs: int, items: int, people: int) -> dict[str, float | None]:
    """Lifetime, alone and in the crowd of an epoch: where people take turns, not everybody."""
    event = replace(settings, epochs=epochs).event(items)
    return _spent(event, settings.crowd(people))


def _spent(event: Reporting, people: int) -> dict[str, float | None]:
    crowd = Crowd.of(people)
    central = None if crowd is None else central_epsilon(event, crowd, DELTA)
    return {"local": event.pure, "central": central}


def _fixed_budget(cell: Cell, context: CellContext) -> dict[str, Any]:
    """Of the private baselines. A whole randomised row is no report of ours: no central figure."""
    named = cell.named
    if cell.method == "private-popularity":
        # Its report is a sign through the coin, as the accountant knows it.
        spent = _spent(Reporting(named["epsilon"], named["reports"], 1), context.data.n_users)
    elif cell.method == "dplcf":
        spent = {"local": named["epsilon"] * context.data.histories.n_items, "central": None}
    elif cell.method == "dp-als":
        spent = {"local": None, "central": named["epsilon"]}
    else:
        return {}
    return {"budgets": {"1": spent}}


def _baseline(cell: Cell, train: Histories, threads: int | None) -> Any:
    """The method's model, trained."""
    # Here and not above: the cells that need no such library must run without it.
    from sottovoce import baselines

    named = cell.named
    if cell.method == "popularity":
        return baselines.Popularity.fit(train)
    if cell.method == "random":
        # All scores alike: ties are broken by a fair coin, so this is chance to the last digit.
        return baselines.Popularity(np.zeros(train.n_items, np.float32), train.n_users)
    if cell.method == "private-popularity":
        return baselines.PrivatePopularity.fit(train, **named, seed=cell.seed)
    if cell.method == "mf":
        return baselines.MatrixFactorization.fit(train, **named, seed=cell.seed, threads=threads)
    if cell.method == "fcf":
        return baselines.Federated.fit(train, cell.settings, threads=threads)
    if cell.method == "dp-als":
        chosen = baselines.TrustedSettings(**named)
        return baselines.DPALS.fit(train, chosen, seed=cell.seed, threads=threads)
    return baselines.DPLCF.fit(train, **named, seed=cell.seed, threads=threads)


def _ranks(model: Any, candidates: Candidates) -> Ranks:
    from sottovoce import baselines

    return baselines.rank(model, candidates)


def _known_ranks(cell: Cell, model: Any, known: Known, candidates: Candidates) -> Ranks | None:
    """Of a baseline that is given what devices know; None where it has no use for it."""
    if cell.method == "popularity":
        return popularity_ranks(candidates, known)
    if cell.method == "mf":
        return known.ranks(model.V, candidates, **_solving(cell, model.V))
    if cell.method == "dplcf" and not known.tags.names:
        return _ranks(replace(model, weights=known.weights), candidates)
    return None


def _late(cell: Cell, context: CellContext) -> dict[str, Any]:
    """People who never reported use what the others made."""
    late = hold_people(context.data, how_many_late(context.data.n_users), cell.seed)
    others = replace(context, data=late.others)
    model = _published(cell, late.others.histories, others)
    return {**measure_late(model, late), **_lifetime_budget(cell, others)}


def _people(cell: Cell, context: CellContext) -> dict[str, Any]:
    """Everybody who reported, by fifths."""
    candidates = _candidates(cell, context.data)
    model = _published(cell, candidates.split.train, context)
    return {**measure_people(model, candidates), **_lifetime_budget(cell, context)}


def _published(cell: Cell, train: Histories, context: CellContext) -> Published:
    """What a method makes of these histories, for methods that have an item matrix."""
    if cell.method == "popularity":
        return PublishedCounts.of(train)
    if cell.method in TRAINED:
        return _published_training(cell, train, context)
    V = _baseline(cell, train, context.threads).V
    return PublishedFactors(V, **_solving(cell, V))


def _published_training(cell: Cell, train: Histories, context: CellContext) -> PublishedTraining:
    """V after all epochs, without any evaluation."""
    settings, options = cell.settings, context.engine_options

    def engine_over(histories: Histories) -> Engine:
        return build_engine(context.engine, histories, settings, **options)

    state = begin(settings, train.n_items)
    with engine_over(train) as engine:
        for after in learn(settings, engine, state):
            context.on_part(after.epochs_done / settings.epochs)
            state = after
    return PublishedTraining(state.V, **_solving(cell, state.V), engine=engine_over)


def _solving(cell: Cell, V: NDArray[np.float32]) -> dict[str, float]:
    """How a device of this method solves its vector for V."""
    if cell.method in TRAINED:
        settings = cell.settings
        return {"alpha": settings.alpha, "regularization": settings.user_ridge(V)}
    return {name: cell.named[name] for name in ("alpha", "regularization")}


def _lifetime_budget(cell: Cell, context: CellContext) -> dict[str, Any]:
    """Of any method, for who reported."""
    if cell.method not in TRAINED:
        return _fixed_budget(cell, context)
    settings, data = cell.settings, context.data
    spent = _budget_of(settings, settings.epochs, data.n_items, data.n_users)
    return {"budgets": {str(settings.epochs): spent}}


MEASURED: dict[Measured, Callable[[Cell, CellContext], dict[str, Any]]] = {
    "late": _late,
    "people": _people,
}
HOW: dict[Method, Callable[[Cell, CellContext], dict[str, Any]]] = {
    "cost": _counted_bytes,
    "liars": lie,
    "attacker": attack,
    **dict.fromkeys(TRAINED, _trained),
}
"""By method; what is not named here is trained to be compared with."""

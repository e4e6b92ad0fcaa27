"""One simulated training with its evaluation: split, train, rank after every epoch, resume."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.evaluation import Ranks, rank_devices, rank_factors, summary
from sottovoce.model.wide import counts_model
from sottovoce.privacy import Account, account
from sottovoce.settings import check, setting
from sottovoce.simulation.engines import AUTO, build_engine, engine_package
from sottovoce.simulation.loop import train
from sottovoce.simulation.parts import LeaveOut, parts_of
from sottovoce.simulation.quality import coverage_of, model_of
from sottovoce.simulation.resuming import keep, record_of, resume

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from sottovoce.data import Interactions, Shards
    from sottovoce.data.split import SplitRule
    from sottovoce.evaluation import Candidates, Known
    from sottovoce.simulation.interface import Engine, LocalEngine
    from sottovoce.simulation.parts import Parts
    from sottovoce.training import Settings


@dataclass(frozen=True)
class SimulationPlan:
    """What to run beside the training's own settings."""

    settings: Settings
    split: SplitRule = "random"
    negatives: int = 99
    """0 ranks the test item among the whole catalogue."""
    engine: str = AUTO
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    """What the engine may be told: see `sottovoce.simulation.engines.engine_options`."""
    evaluate_every: int = setting(
        1, "epochs between two evaluations; the last is always evaluated. 0: only the last", least=0
    )
    tags: bool = True
    """Recommend with the tags of the data, where it has any."""
    time: bool | None = None
    """Recommend by the order of a history; None: unless a random item is asked for."""
    resample: int | None = setting(
        None, "people made out of those of the data, who report in their place", least=1
    )
    coverage: bool = False
    """Say too how much of the catalogue lists show, once training is over."""

    def __post_init__(self) -> None:
        engine_package(self.engine)  # refuses one that is not there, before the data is read
        check(self)

    @property
    def left_out(self) -> LeaveOut:
        """What people are tested on."""
        return LeaveOut(self.split, self.negatives, self.settings.seed, self.tags, self.time)

    def due(self, epoch: int) -> bool:
        """Whether to evaluate after this epoch (counted from 1)."""
        last = epoch == self.settings.epochs
        return last or (self.evaluate_every > 0 and epoch % self.evaluate_every == 0)


@dataclass(frozen=True, eq=False)
class Run:
    plan: SimulationPlan
    epochs: list[dict[str, Any]]
    """`epoch`, `seconds`, `people` who took part and, where evaluated, the metrics."""
    final: dict[str, float]
    """With whatever devices know beside the model."""
    known: str
    """What that is: "28 tags and time"; empty if it is nothing."""
    without: dict[str, float]
    """The same metrics of the model alone."""
    popularity: dict[str, float]
    """The same metrics of recommending what everybody touches: a reader must see it."""
    known_popularity: dict[str, float]
    """Popularity with what devices know: tags and time without any learning."""
    V: NDArray[np.float32]
    n_users: int
    """The people of the data set."""
    n_tested: int
    """Of them, who have something that was left out."""
    seconds: dict[str, float]

    @property
    def crowd(self) -> int:
        """The fewest people who took part in an epoch."""
        return min(int(record["people"]) for record in self.epochs)

    @cached_property
    def account(self) -> Account:
        """What it cost each person, hidden among those of the smallest epoch."""
        return account(self.plan.settings.event(len(self.V)), self.crowd)

    def about_people(self) -> str:
        """Who reported, and in how many epochs, where that is not everybody in all."""
        plan, said = self.plan, []
        if plan.resample is not None:
            said.append(
                f"{plan.resample:,} people who report were made out of {self.n_users:,}: a history "
                "drawn with replacement, a tenth of it dropped at random. Tested are the "
                f"{self.n_users:,}."
            )
        if plan.settings.turns < plan.settings.epochs:
            said.append(
                f"Each person takes part in {plan.settings.turns} of {plan.settings.epochs} epochs,"
                f" drawn by their own device; the smallest crowd of an epoch was {self.crowd:,}."
            )
        if plan.split == "date":
            said.append(
                f"Tested are the {self.n_tested:,} of {self.n_users:,} people who touched something"
                " before the date and after it; the others take part."
            )
        return " ".join(said)


def simulate(
    data: Interactions | Shards,
    plan: SimulationPlan,
    *,
    checkpoint: Path | None = None,
    on_epoch: Callable[[dict[str, Any]], None] = lambda _: None,
) -> Run:
    """Train and evaluate. The seed of the settings fixes split, negatives and every report.

    With a checkpoint the state is written after every epoch, and a run that finds one continues it
    to the same final V as if it had never stopped.
    """
    began = time.perf_counter()
    parts = parts_of(data, plan.left_out)
    identity = _identity(plan, parts) if checkpoint else {}
    start, epochs = resume(checkpoint, plan.settings, identity, parts.n_items)
    for done in epochs:
        on_epoch(done)
    state, evaluating = start, 0.0
    with build_engine(
        plan.engine, parts, plan.settings, resample=plan.resample, **plan.engine_options
    ) as engine:
        ready = time.perf_counter()
        for state in train(plan.settings, engine, start):
            record = record_of(state, plan.settings)
            if plan.due(state.epochs_done):
                started = time.perf_counter()
                record |= evaluate(engine, state.V, known=True)
                evaluating += time.perf_counter() - started
            epochs.append(record)
            if checkpoint:
                keep(checkpoint, state, plan.settings, identity, epochs)
            on_epoch(record)
        final = {name: value for name, value in epochs[-1].items() if "@" in name}
        if not final:
            final = evaluate(engine, state.V, known=True)
        known = next(iter(engine.each(what_is_known)))
        n_tested = sum(engine.each(how_many_are_tested))
        without = evaluate(engine, state.V) if known else final
        counts = counts_of(engine)
        popularity = evaluate_popularity(engine, counts)
        known_popularity = evaluate_popularity(engine, counts, known=True) if known else popularity
        if plan.coverage:
            learnt, counted = model_of(state.V, plan.settings), partial(counts_model, *counts)
            final = {**final, **coverage_of(engine, learnt, known=True)}
            without = {**without, **coverage_of(engine, learnt, known=False)}
            popularity = {**popularity, **coverage_of(engine, counted, known=False)}
            known_popularity = {**known_popularity, **coverage_of(engine, counted, known=True)}
    seconds = {
        "prepare": ready - began,
        "train": sum(record["seconds"] for record in epochs),
        "evaluate": evaluating,
        "total": time.perf_counter() - began,
    }
    return Run(
        plan,
        epochs,
        final,
        known,
        without,
        popularity,
        known_popularity,
        state.V,
        parts.n_users,
        n_tested,
        seconds,
    )


def evaluate(engine: Engine, V: NDArray[np.float32], *, known: bool = False) -> dict[str, float]:
    """The metrics of one item matrix: vectors are solved on training histories alone.

    Of the matrix alone, or with whatever devices have `known` beside it.
    """
    return summary(engine.ranks(V, known=known))


def evaluate_popularity(
    engine: Engine, counted: tuple[NDArray[np.int64], int], *, known: bool = False
) -> dict[str, float]:
    """The metrics of scoring by training counts."""

    def ranks(part: LocalEngine) -> Ranks:
        left_out = part.left_out
        return popularity_ranks(left_out.candidates, left_out.known if known else None, counted)

    return summary(Ranks.joined(engine.each(ranks)))


def counts_of(engine: Engine) -> tuple[NDArray[np.int64], int]:
    """How many people touched each item, and how many there are."""
    counted = list(engine.each(lambda part: (part.histories.popularity(), part.histories.n_users)))
    return np.sum([counts for counts, _ in counted], axis=0), sum(people for _, people in counted)


def popularity_ranks(
    candidates: Candidates,
    known: Known | None = None,
    counted: tuple[NDArray[np.int64], int] | None = None,
) -> Ranks:
    """A factor model with one factor: everybody has 1 of it, unless devices know more.

    `counted` of all people, by item, and how many people there are; None: those who are tested.
    """
    train = candidates.split.train
    counts, people = counted or (train.popularity(), train.n_users)
    if known:
        return rank_devices(counts_model(counts, people, known.tags), candidates, known.weights)
    one = np.ones((train.n_users, 1), np.float32)
    return rank_factors(one, counts.astype(np.float32)[:, None], candidates)


def how_many_are_tested(part: LocalEngine) -> int:
    return int((part.left_out.candidates.split.test >= 0).sum())


def what_is_known(part: LocalEngine) -> str:
    """To devices, beside the model; the same for everybody."""
    return str(part.left_out.known)


def _identity(plan: SimulationPlan, parts: Parts) -> dict[str, Any]:
    return {
        "data": parts.fingerprint(),
        "tags": plan.tags,
        "time": plan.time,
        "split": plan.split,
        "negatives": plan.negatives,
        "resample": plan.resample,
    }

"""One simulated training with its evaluation: split, train, rank after every epoch, resume."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.core.recommending import WideModel, build_popularity_model
from sottovoce.core.tags import Tags, make_empty_tags
from sottovoce.data import Interactions, Shards
from sottovoce.data.split import SplitRule
from sottovoce.privacy import PrivacyReport, make_privacy_report
from sottovoce.settings import check, setting
from sottovoce.simulation.engines import AUTO_ENGINE, build_engine, load_engine_package
from sottovoce.simulation.evaluation.metrics import (
    METRIC_CUTOFFS,
    count_exposure,
    coverage,
    hit_ratio_of_several,
    mrr_of_several,
    ndcg_of_several,
    recall,
    summarize_ranks,
)
from sottovoce.simulation.evaluation.ranking import (
    DEFAULT_NEGATIVES,
    Candidates,
    Ranks,
    rank_factors,
    rank_hidden,
    rank_with_negatives,
)
from sottovoce.simulation.evaluation.side_information import (
    SideInformation,
    rank_devices,
    solve_wide_vectors,
)
from sottovoce.simulation.holdout import HoldoutRule
from sottovoce.simulation.interface import Engine, LocalEngine
from sottovoce.simulation.population import make_parts
from sottovoce.simulation.training import (
    NEGATIVES_METRIC,
    TrainingState,
    go_on,
    resume,
    select_metrics,
)
from sottovoce.training import Settings

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

MAX_CUTOFF = max(METRIC_CUTOFFS)
MAX_USERS_LISTED = 10_000
"""People whose lists a simulation makes to see what they show: every item is scored for each."""
_IDENTITY = ("tags", "time", "split", "negatives", "resample")
"""What must be the same for a run to be continued, besides its data and its settings."""


def make_device_model(V: Float32, settings: Settings) -> Callable[[Tags], WideModel]:
    """The model as devices use it, with the tags that it is called with."""
    ridge = settings.compute_user_ridge(V)
    return partial(WideModel.from_model, V, alpha=settings.alpha, regularization=ridge)


def measure_quality(
    model: WideModel,
    histories: Histories,
    hidden: Histories,
    others: NDArray[np.int32] | None,
    weights: Float64 | None = None,
) -> dict[str, float]:
    """Metrics of lists of ten that are made of what was left out and `others`.

    `hidden` and `others` have a row for the same people; where `others` is None, all that they did
    not touch. HR@10: any of theirs is in the list. Recall@10: how many of them are, of as many as
    could be. MRR@10: one over the place of the first. NDCG@10: what all their places are worth.
    Coverage@10: the share of items that are in anybody's list of the whole catalogue. `negatives`:
    how many others there were, in the mean over people.
    """
    X, W = to_factors(model, histories, weights)
    n_hidden = np.diff(hidden.indptr)
    if others is None:
        ranks = rank_hidden(X, W, histories, hidden)
        competing = histories.n_items - np.diff(histories.indptr) - n_hidden
    else:
        ranks, competing = rank_with_negatives(X, W, hidden, others), (others >= 0).sum(axis=1)
    return {
        f"hr@{MAX_CUTOFF}": hit_ratio_of_several(ranks, hidden, MAX_CUTOFF),
        f"ndcg@{MAX_CUTOFF}": ndcg_of_several(ranks, hidden, MAX_CUTOFF),
        f"mrr@{MAX_CUTOFF}": mrr_of_several(ranks, hidden, MAX_CUTOFF),
        f"recall@{MAX_CUTOFF}": recall(ranks, hidden, MAX_CUTOFF),
        f"coverage@{MAX_CUTOFF}": coverage(count_exposure(X, W, histories, MAX_CUTOFF)),
        NEGATIVES_METRIC: float(competing[n_hidden > 0].mean()),
    }


def measure_coverage(
    engine: Engine, model: Callable[[Tags], WideModel], *, informed: bool
) -> dict[str, float]:
    """The share of items in the first ten of anybody, of the first `MAX_USERS_LISTED` people.

    `model` with the tags of the side information, and its order; or with none.
    """

    def shown(part: LocalEngine) -> NDArray[np.int64]:
        n = min(max(MAX_USERS_LISTED - part.people.first, 0), part.histories.n_users)
        if not n:
            return np.zeros(part.histories.n_items, np.int64)
        histories, theirs = part.histories.some(0, n), part.holdout.some(0, n).side_information
        tags = theirs.tags if informed else make_empty_tags(histories.n_items)
        X, W = to_factors(model(tags), histories, theirs.weights if informed else None)
        return count_exposure(X, W, histories, MAX_CUTOFF)

    return {f"coverage@{MAX_CUTOFF}": coverage(np.sum(list(engine.map_parts(shown)), axis=0))}


def to_factors(
    model: WideModel, histories: Histories, weights: Float64 | None = None
) -> tuple[Float32, Float32]:
    """X and W with `X W^T` the scores of lists: one more factor is popularity.

    It is for people without a history alone.
    """
    X = solve_wide_vectors(model, histories, weights)
    new = (np.diff(histories.indptr) == 0).astype(np.float32)
    rows = model.rows(np.arange(len(model.V)))
    W = np.concatenate([rows, model.popularity[:, None]], axis=1).astype(np.float32)
    return np.concatenate([X, new[:, None]], axis=1), W


@dataclass(frozen=True)
class Simulation:
    """What to run besides the training's own settings."""

    settings: Settings
    split: SplitRule = "random"
    negatives: int = DEFAULT_NEGATIVES
    """0 ranks the test item among the whole catalogue."""
    engine: str = AUTO_ENGINE
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    """What the engine may be told: see `sottovoce.simulation.engines.list_engine_options`."""
    evaluate_every: int = setting(
        1,
        "epochs between two evaluations; the last is always evaluated. 0: only the last",
        min_value=0,
    )
    tags: bool = True
    """Recommend with the tags of the data, where it has any."""
    time: bool | None = None
    """Recommend by the order of a history; None: unless a random item is asked for."""
    resample: int | None = setting(
        None, "people made out of those of the data, who report in their place", min_value=1
    )
    coverage: bool = False
    """Say too how much of the catalogue lists show, once training is over."""

    def __post_init__(self) -> None:
        load_engine_package(self.engine)  # refuses one that is not there, before the data is read
        check(self)

    @property
    def holdout_rule(self) -> HoldoutRule:
        return HoldoutRule(self.split, self.negatives, self.settings.seed, self.tags, self.time)

    def is_evaluated_after(self, epoch: int) -> bool:
        """Whether to evaluate after this epoch (counted from 1)."""
        last = epoch == self.settings.epochs
        return last or (self.evaluate_every > 0 and epoch % self.evaluate_every == 0)


@dataclass(frozen=True, eq=False)
class Run:
    plan: Simulation
    epochs: list[dict[str, Any]]
    """`epoch`, `seconds`, `people` who took part and, where evaluated, the metrics."""
    final: dict[str, float]
    """With whatever devices know besides the model."""
    side_information: str
    """What that is: "28 tags and time"; empty if it is nothing."""
    without: dict[str, float]
    """The same metrics of the model alone."""
    popularity: dict[str, float]
    """The same metrics of recommending what everybody touches: a reader must see it."""
    informed_popularity: dict[str, float]
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
    def privacy_report(self) -> PrivacyReport:
        """What it cost each person, hidden among those of the smallest epoch."""
        return make_privacy_report(self.plan.settings.event(len(self.V)), self.crowd)

    def describe_people(self) -> str:
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
    plan: Simulation,
    *,
    checkpoint: Path | None = None,
    on_epoch: Callable[[dict[str, Any]], None] = lambda _: None,
) -> Run:
    """Train and evaluate. The seed of the settings fixes split, negatives and every report.

    With a checkpoint the state is written after every epoch, and a run that finds one continues it
    to the same final V as if it had never stopped.
    """
    began = time.perf_counter()
    parts = make_parts(data, plan.holdout_rule)
    identity: dict[str, Any] = {}
    if checkpoint:
        asked = {name: getattr(plan, name) for name in _IDENTITY}
        identity = {"data": parts.compute_fingerprint(), **asked}
    start, epochs = resume(checkpoint, plan.settings, identity, parts.n_items)
    for done in epochs:
        on_epoch(done)
    state, evaluating = start, 0.0

    def measure(state: TrainingState) -> dict[str, float]:
        nonlocal evaluating
        started = time.perf_counter()
        found = (
            evaluate(engine, state.V, informed=True)
            if plan.is_evaluated_after(state.epochs_done)
            else {}
        )
        evaluating += time.perf_counter() - started
        return found

    with build_engine(
        plan.engine, parts, plan.settings, resample=plan.resample, **plan.engine_options
    ) as engine:
        ready = time.perf_counter()
        for after in go_on(plan.settings, engine, start, epochs, measure, checkpoint, identity):
            state = after
            on_epoch(epochs[-1])
        final = select_metrics(epochs[-1]) or evaluate(engine, state.V, informed=True)
        informed = next(iter(engine.map_parts(lambda part: str(part.holdout.side_information))))
        tested = engine.map_parts(lambda part: int((part.holdout.candidates.split.test >= 0).sum()))
        n_tested, counts = sum(tested), count_popularity(engine)
        popularity = evaluate_popularity(engine, counts)
        found = {
            "final": final,
            "without": evaluate(engine, state.V) if informed else final,
            "popularity": popularity,
            "informed_popularity": evaluate_popularity(engine, counts, informed=True)
            if informed
            else popularity,
        }
        if plan.coverage:
            learnt, counted = (
                make_device_model(state.V, plan.settings),
                partial(build_popularity_model, *counts),
            )
            models: list[Callable[[Tags], WideModel]] = [learnt, learnt, counted, counted]
            for name, model in zip(found, models, strict=True):
                with_it = name in ("final", "informed_popularity")
                found[name] = {**found[name], **measure_coverage(engine, model, informed=with_it)}
    seconds = {
        "prepare": ready - began,
        "train": sum(record["seconds"] for record in epochs),
        "evaluate": evaluating,
        "total": time.perf_counter() - began,
    }
    return Run(
        plan,
        epochs,
        side_information=informed,
        V=state.V,
        n_users=parts.n_users,
        n_tested=n_tested,
        seconds=seconds,
        **found,
    )


def evaluate(engine: Engine, V: NDArray[np.float32], *, informed: bool = False) -> dict[str, float]:
    """The metrics of one item matrix: vectors are solved on training histories alone.

    Of the matrix alone, or, if `informed`, with the side information of devices.
    """
    return summarize_ranks(engine.compute_ranks(V, informed=informed))


def evaluate_popularity(
    engine: Engine, counted: tuple[NDArray[np.int64], int], *, informed: bool = False
) -> dict[str, float]:
    """The metrics of scoring by training counts."""

    def ranks(part: LocalEngine) -> Ranks:
        holdout = part.holdout
        return rank_by_popularity(
            holdout.candidates, holdout.side_information if informed else None, counted
        )

    return summarize_ranks(Ranks.concatenate(engine.map_parts(ranks)))


def count_popularity(engine: Engine) -> tuple[NDArray[np.int64], int]:
    """How many people touched each item, and how many there are."""
    counted = list(
        engine.map_parts(lambda part: (part.histories.popularity(), part.histories.n_users))
    )
    return np.sum([counts for counts, _ in counted], axis=0), sum(people for _, people in counted)


def rank_by_popularity(
    candidates: Candidates,
    side_information: SideInformation | None = None,
    counted: tuple[NDArray[np.int64], int] | None = None,
) -> Ranks:
    """A factor model with one factor: everybody has 1 of it, unless devices know more.

    `counted` of all people, by item, and how many people there are; None: those who are tested.
    """
    train = candidates.split.train
    counts, people = counted or (train.popularity(), train.n_users)
    if side_information:
        return rank_devices(
            build_popularity_model(counts, people, side_information.tags),
            candidates,
            side_information.weights,
        )
    one = np.ones((train.n_users, 1), np.float32)
    return rank_factors(one, counts.astype(np.float32)[:, None], candidates)

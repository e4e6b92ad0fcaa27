"""One simulated training with its evaluation: split, train, rank after every epoch, resume."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.recommending import WideModel, build_popularity_model
from sottovoce.core.tags import Tags, make_empty_tags
from sottovoce.data import Interactions, Shards
from sottovoce.data.split import SplitRule
from sottovoce.privacy import PrivacyReport, make_privacy_report
from sottovoce.settings import check, setting
from sottovoce.simulation.engines import AUTO_ENGINE, build_engine, load_engine_package
from sottovoce.simulation.evaluation.lists import (
    MAX_CUTOFF,
    make_device_model,
    rank_by_popularity,
    to_factors,
)
from sottovoce.simulation.evaluation.metrics import (
    count_exposure,
    coverage,
    summarize_ranks,
)
from sottovoce.simulation.evaluation.ranking import (
    DEFAULT_NEGATIVES,
    PEOPLE_PER_EPOCH_TEST,
    Ranks,
)
from sottovoce.simulation.holdout import HoldoutRule
from sottovoce.simulation.interface import Engine, LocalEngine
from sottovoce.simulation.population import make_parts
from sottovoce.simulation.training import Record, TrainingLog, TrainingState, select_metrics
from sottovoce.training import Settings

# People whose lists are made to see which items they show: every item is scored for each of them.
MAX_USERS_LISTED = 10_000
# Fields of a simulation that must be the same for a checkpoint to be continued.
IDENTITY_FIELDS = ("tags", "time", "split", "negatives", "resample")


@dataclass(frozen=True)
class Simulation:
    """What to run besides the training's own settings."""

    settings: Settings
    split: SplitRule = "random"
    negatives: int = DEFAULT_NEGATIVES
    """0 ranks the test item among the whole catalogue."""
    engine: str = AUTO_ENGINE
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the engine: see `sottovoce.simulation.engines.list_engine_options`."""
    evaluate_every: int = setting(
        1,
        "epochs between two evaluations; the last is always evaluated. 0: only the last",
        min_value=0,
    )
    sample: int = setting(
        PEOPLE_PER_EPOCH_TEST,
        "people who are tested after an epoch that is not the last, at most about; 0: all",
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
    """Measure also how much of the catalogue lists show, once training is over."""

    def __post_init__(self) -> None:
        # Refuses an engine that does not exist before the data is read.
        load_engine_package(self.engine)
        check(self)

    @property
    def holdout_rule(self) -> HoldoutRule:
        return HoldoutRule(self.split, self.negatives, self.settings.seed, self.tags, self.time)

    def choose_step(self, epoch: int, n_tested: int) -> int:
        """Return n where every nth person is tested after this epoch, counted from 1."""
        if epoch == self.settings.epochs or not self.sample:
            return 1
        return -(-n_tested // self.sample)

    def is_evaluated_after(self, epoch: int) -> bool:
        """Return whether to evaluate after this epoch, counted from 1."""
        is_last = epoch == self.settings.epochs
        return is_last or (self.evaluate_every > 0 and epoch % self.evaluate_every == 0)


@dataclass(frozen=True, eq=False)
class Run:
    """The result of a simulation."""

    plan: Simulation
    epochs: list[Record]
    """`epoch`, `seconds`, `people` who took part and, where evaluated, the metrics."""
    final: dict[str, float]
    """Metrics with all that devices know besides the model."""
    side_information: str
    """What they know: "28 tags and time"; empty if it is nothing."""
    without: dict[str, float]
    """The same metrics of only the model."""
    popularity: dict[str, float]
    """The same metrics of recommending what everybody touches: a reader must see it."""
    informed_popularity: dict[str, float]
    """Popularity with what devices know: tags and time without any learning."""
    V: NDArray[np.float32]
    n_users: int
    """The people of the data set."""
    n_tested: int
    """Those of them who have a held-out item."""
    seconds: dict[str, float]

    @property
    def crowd(self) -> int:
        """The fewest people who took part in an epoch."""
        return min(int(record["people"]) for record in self.epochs)

    @cached_property
    def privacy_report(self) -> PrivacyReport:
        """What training cost each person, hidden among those of the smallest epoch."""
        return make_privacy_report(self.plan.settings.event(len(self.V)), self.crowd)

    def describe_people(self) -> str:
        """Say who reported, and in how many epochs, unless it is everybody in all of them."""
        plan, sentences = self.plan, []
        if plan.resample is not None:
            sentences.append(
                f"{plan.resample:,} people who report were made out of {self.n_users:,}: a history "
                "drawn with replacement, a tenth of it dropped at random. Tested are the "
                f"{self.n_users:,}."
            )
        if plan.settings.turns < plan.settings.epochs:
            sentences.append(
                f"Each person takes part in {plan.settings.turns} of {plan.settings.epochs} epochs,"
                f" drawn by their own device; the smallest crowd of an epoch was {self.crowd:,}."
            )
        if plan.split == "date":
            sentences.append(
                f"Tested are the {self.n_tested:,} of {self.n_users:,} people who touched something"
                " before the date and after it; the others take part."
            )
        return " ".join(sentences)


def simulate(
    data: Interactions | Shards,
    plan: Simulation,
    *,
    checkpoint: Path | None = None,
    on_epoch: Callable[[Record], None] = lambda _: None,
) -> Run:
    """Train and evaluate. The seed of the settings fixes split, negatives and every report.

    Args:
        data: The interactions, in memory or in shards.
        plan: What to run.
        checkpoint: A file to which the state is written after every epoch. A run that finds one
            continues it to the same final V as if it had never stopped.
        on_epoch: Called with the record of each epoch, also of those in the checkpoint.
    """
    started = time.perf_counter()
    parts = make_parts(data, plan.holdout_rule)
    identity: Record = {}
    if checkpoint:
        # The training's settings are compared by the log itself; these are the simulation's own.
        identity = {name: getattr(plan, name) for name in IDENTITY_FIELDS}
        identity = {"data": parts.compute_fingerprint(), **identity}
    log = TrainingLog.open(plan.settings, parts.n_items, checkpoint, identity)
    for record in log.records:
        on_epoch(record)
    evaluation_seconds = 0.0

    def measure(state: TrainingState) -> Record:
        nonlocal evaluation_seconds
        # Without metrics the epoch's record has only its time and its people.
        if not plan.is_evaluated_after(state.epochs_done):
            return {}
        evaluation_started = time.perf_counter()
        every = plan.choose_step(state.epochs_done, n_tested)
        metrics = summarize_ranks(engine.compute_ranks(state.V, informed=True, every=every))
        evaluation_seconds += time.perf_counter() - evaluation_started
        return metrics

    with build_engine(
        plan.engine, parts, plan.settings, resample=plan.resample, **plan.engine_options
    ) as engine:
        n_tested = sum(
            engine.map_parts(lambda part: int((part.holdout.candidates.split.test >= 0).sum()))
        )
        ready = time.perf_counter()
        log.run(engine, measure, on_epoch)
        V = log.state.V
        final = select_metrics(log.records[-1]) or evaluate(engine, V, informed=True)
        # What devices know is the same in every part.
        informed = next(iter(engine.map_parts(lambda part: str(part.holdout.side_information))))
        # Counts of training data only: the held-out items are not in them.
        totals = count_popularity(engine)
        popularity = evaluate_popularity(engine, totals)
        # Without side information both ways to recommend are the same.
        metrics = {
            "final": final,
            "without": evaluate(engine, V) if informed else final,
            "popularity": popularity,
            "informed_popularity": evaluate_popularity(engine, totals, informed=True)
            if informed
            else popularity,
        }
        if plan.coverage:
            learned = partial(make_device_model, V, plan.settings)
            counted = partial(build_popularity_model, *totals)
            for name, model in (("final", learned), ("informed_popularity", counted)):
                metrics[name] = {**metrics[name], **measure_coverage(engine, model, informed=True)}
            for name, model in (("without", learned), ("popularity", counted)):
                metrics[name] = {**metrics[name], **measure_coverage(engine, model, informed=False)}
    seconds = {
        "prepare": ready - started,
        "train": sum(record["seconds"] for record in log.records),
        "evaluate": evaluation_seconds,
        "total": time.perf_counter() - started,
    }
    return Run(
        plan,
        log.records,
        side_information=informed,
        V=V,
        n_users=parts.n_users,
        n_tested=n_tested,
        seconds=seconds,
        **metrics,
    )


def evaluate(engine: Engine, V: NDArray[np.float32], *, informed: bool = False) -> dict[str, float]:
    """Measure an item matrix, or with `informed` the matrix and the side information of devices."""
    return summarize_ranks(engine.compute_ranks(V, informed=informed))


def evaluate_popularity(
    engine: Engine, totals: tuple[NDArray[np.int64], int], *, informed: bool = False
) -> dict[str, float]:
    """Measure scores that are training counts."""

    def rank(part: LocalEngine) -> Ranks:
        holdout = part.holdout
        side_information = holdout.side_information if informed else None
        return rank_by_popularity(holdout.candidates, side_information, totals)

    return summarize_ranks(Ranks.concatenate(engine.map_parts(rank)))


def count_popularity(engine: Engine) -> tuple[NDArray[np.int64], int]:
    """Return for each item how many people touched it, and the number of people."""
    parts = list(
        engine.map_parts(lambda part: (part.histories.popularity(), part.histories.n_users))
    )
    return np.sum([counts for counts, _ in parts], axis=0), sum(people for _, people in parts)


def measure_coverage(
    engine: Engine, make_model: Callable[[Tags], WideModel], *, informed: bool
) -> dict[str, float]:
    """Return the share of items in the lists of ten of the first `MAX_USERS_LISTED` people."""

    def count(part: LocalEngine) -> NDArray[np.int64]:
        # Of this part only those who are among the first of all people.
        n = min(max(MAX_USERS_LISTED - part.people.first, 0), part.histories.n_users)
        if not n:
            return np.zeros(part.histories.n_items, np.int64)
        histories = part.histories.some(0, n)
        side_information = part.holdout.some(0, n).side_information
        tags = side_information.tags if informed else make_empty_tags(histories.n_items)
        weights = side_information.weights if informed else None
        X, W = to_factors(make_model(tags), histories, weights)
        return count_exposure(X, W, histories, MAX_CUTOFF)

    exposure = np.sum(list(engine.map_parts(count)), axis=0)
    return {f"coverage@{MAX_CUTOFF}": coverage(exposure)}

"""One simulated training with its evaluation: split, train, rank after every epoch, resume."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.recommending import WideModel, build_popularity_model
from sottovoce.core.tags import Tags, make_empty_tags
from sottovoce.data import Interactions, Shards
from sottovoce.data.split import SplitRule
from sottovoce.errors import SettingsError
from sottovoce.privacy import PrivacyReport, make_privacy_report
from sottovoce.settings import check, setting
from sottovoce.simulation.engines import AUTO_ENGINE, build_engine, load_engine_package
from sottovoce.simulation.evaluation.lists import (
    make_device_model,
    rank_by_popularity,
    to_factors,
)
from sottovoce.simulation.evaluation.metrics import (
    PAPER_METRICS,
    RANK_METRICS,
    Metric,
    summarize_ranks,
)
from sottovoce.simulation.evaluation.quality import measure_exposure
from sottovoce.simulation.evaluation.ranking import (
    DEFAULT_NEGATIVES,
    PEOPLE_PER_EPOCH_TEST,
    Factors,
    Ranks,
    rank_and_list,
)
from sottovoce.simulation.holdout import HoldoutRule
from sottovoce.simulation.interface import Engine, LocalEngine
from sottovoce.simulation.population import make_parts
from sottovoce.simulation.training import Record, TrainingLog, TrainingState
from sottovoce.training import Settings

# The number of people who touched each item, and the number of all people.
Totals: TypeAlias = tuple[NDArray[np.int64], int]
# Metrics of lists are measured on at most this many people, because every item is scored for each.
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
        "number of epochs from one evaluation to the next; the last epoch is always evaluated; 0: "
        "evaluate only the last",
        min_value=0,
    )
    sample: int = setting(
        PEOPLE_PER_EPOCH_TEST,
        "approximate maximum number of people who are tested after each epoch except the last, "
        "which is tested on all; 0: all people after each epoch",
        min_value=0,
    )
    tags: bool = True
    """Whether devices use the tags of the data, if it has any."""
    time: bool | None = None
    """Whether devices use the order of their history; None: yes, unless `split` is `random`."""
    resample: int | None = setting(
        None,
        "number of people to resample from those of the data, who then report in their place",
        min_value=1,
    )
    metrics: tuple[str, ...] = PAPER_METRICS
    """Names of metrics. Metrics of lists are measured only after the last epoch."""

    def __post_init__(self) -> None:
        # This refuses an engine that does not exist. The data has not been read yet.
        load_engine_package(self.engine)
        check(self)
        if not self.rank_metrics:
            raise SettingsError(
                f"one metric at least must be of {', '.join(RANK_METRICS)}, as ndcg@100; got "
                f"{', '.join(self.metrics) or 'none'}"
            )

    @property
    def rank_metrics(self) -> list[str]:
        """The names of metrics that are measured in every evaluation."""
        return [name for name in self.metrics if Metric.from_name(name).kind in RANK_METRICS]

    @property
    def holdout_rule(self) -> HoldoutRule:
        return HoldoutRule(self.split, self.negatives, self.settings.seed, self.tags, self.time)

    def choose_step(self, epoch: int, n_tested: int) -> int:
        """Return n: every nth person is tested after this epoch. Epochs are counted from 1."""
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
    """For each epoch: `epoch`, `seconds`, `people` (how many took part) and the metrics, if
    evaluated."""
    final: dict[str, float]
    """Metrics of the model with the side information of devices."""
    side_information: str
    """The side information, such as "28 tags and time"; empty if there is none."""
    model_only: dict[str, float]
    """The same metrics of the model without side information."""
    popularity: dict[str, float]
    """The same metrics of a list of the most popular items, with which every model must be
    compared."""
    informed_popularity: dict[str, float]
    """The same metrics of popularity with side information: tags and time, but nothing learnt."""
    V: NDArray[np.float32]
    n_users: int
    """The number of people in the data set."""
    n_tested: int
    """The number of people with a test item."""
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
    start: NDArray[np.float32] | None = None,
    checkpoint: Path | None = None,
    on_epoch: Callable[[Record], None] = lambda _: None,
) -> Run:
    """Train and evaluate. The seed of the settings fixes split, negatives and every report.

    Args:
        data: The interactions, in memory or in shards.
        plan: What to run.
        start: The item matrix of a public start; None: there is none.
        checkpoint: A file to which the state is written after every epoch. If the file exists, the
            run continues from it, and ends with the same V as if it had never stopped.
        on_epoch: Called with the record of each epoch, also of those in the checkpoint.
    """
    started = time.perf_counter()
    parts = make_parts(data, plan.holdout_rule)
    identity: Record = {}
    if checkpoint:
        # The log itself compares the settings of the training; these are the fields of the
        # simulation.
        identity = {name: getattr(plan, name) for name in IDENTITY_FIELDS}
        identity = {"data": parts.compute_fingerprint(), **identity}
    log = TrainingLog.open(plan.settings, parts.n_items, checkpoint, identity, start)
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
        ranks = engine.compute_ranks(state.V, informed=True, every=every)
        metrics = summarize_ranks(ranks, plan.metrics)
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
        # The last record of a checkpoint may have other metrics.
        last = log.records[-1]
        final = {name: last[name] for name in plan.rank_metrics if name in last}
        if len(final) < len(plan.rank_metrics):
            final = evaluate(engine, V, plan.metrics, informed=True)
        # All parts have the same kind of side information.
        informed = next(iter(engine.map_parts(lambda part: str(part.holdout.side_information))))
        # Counts of training data only: the held-out items are not in them.
        totals = count_popularity(engine)
        popularity = evaluate_popularity(engine, totals, plan.metrics)
        # Without side information both ways to recommend are the same.
        metrics = {
            "final": final,
            "model_only": evaluate(engine, V, plan.metrics) if informed else final,
            "popularity": popularity,
            "informed_popularity": evaluate_popularity(engine, totals, plan.metrics, informed=True)
            if informed
            else popularity,
        }
        if len(plan.rank_metrics) < len(plan.metrics):
            learned = partial(make_device_model, V, plan.settings)
            counted = partial(build_popularity_model, *totals)
            for name, model in (("final", learned), ("informed_popularity", counted)):
                metrics[name] |= measure_exposures(engine, model, totals, plan, informed=True)
            for name, model in (("model_only", learned), ("popularity", counted)):
                metrics[name] |= measure_exposures(engine, model, totals, plan, informed=False)
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


def evaluate(
    engine: Engine, V: NDArray[np.float32], metrics: Sequence[str], *, informed: bool = False
) -> dict[str, float]:
    """Measure an item matrix, or with `informed` the matrix and the side information of devices."""
    return summarize_ranks(engine.compute_ranks(V, informed=informed), metrics)


def evaluate_popularity(
    engine: Engine, totals: Totals, metrics: Sequence[str], *, informed: bool = False
) -> dict[str, float]:
    """Measure lists that are ranked by popularity in the training data."""

    def rank(part: LocalEngine) -> Ranks:
        holdout = part.holdout
        side_information = holdout.side_information if informed else None
        return rank_by_popularity(holdout.candidates, side_information, totals)

    return summarize_ranks(Ranks.concatenate(engine.map_parts(rank)), metrics)


def count_popularity(engine: Engine) -> Totals:
    """Return the number of people who touched each item, and the number of all people."""
    parts = list(
        engine.map_parts(lambda part: (part.histories.popularity(), part.histories.n_users))
    )
    return np.sum([counts for counts, _ in parts], axis=0), sum(people for _, people in parts)


def measure_exposures(
    engine: Engine,
    make_model: Callable[[Tags], WideModel],
    totals: Totals,
    plan: Simulation,
    *,
    informed: bool,
) -> dict[str, float]:
    """Return the metrics of the lists of the first `MAX_USERS_LISTED` people."""
    metrics = [Metric.from_name(name) for name in plan.metrics if name not in plan.rank_metrics]
    length = max(metric.cutoff for metric in metrics)

    def make_lists(part: LocalEngine) -> NDArray[np.int32]:
        # Make lists for those people of this part who are among the first of all people.
        n = min(max(MAX_USERS_LISTED - part.people.first, 0), part.histories.n_users)
        if not n:
            return np.empty((0, length), np.int32)
        histories = part.histories.slice(0, n)
        side_information = part.holdout.slice(0, n).side_information
        tags = side_information.tags if informed else make_empty_tags(histories.n_items)
        weights = side_information.weights if informed else None
        factors = Factors(*to_factors(make_model(tags), histories, weights))
        return rank_and_list(factors, histories, length=length)[1]

    lists = np.concatenate(list(engine.map_parts(make_lists)))
    return {
        str(metric): measure_exposure(metric.kind, lists[:, : metric.cutoff], *totals)
        for metric in metrics
    }

"""`sottovoce simulate`: train on a data set, and print the quality and the privacy cost."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

from sottovoce.cli import output
from sottovoce.cli.figures import draw_interval, save_figure
from sottovoce.cli.options import (
    BudgetOption,
    CentralBudgetOption,
    DataSource,
    HistoryColumns,
    ItemsFile,
    JsonFile,
    Learn,
    MinInteractions,
    PresetOption,
    SampleItems,
    SampleUsers,
    Seed,
    Seeds,
    StartSource,
    TagsOption,
    add_engine_options,
    add_mechanism,
    add_settings_options,
    add_training_options,
    choose_command_budget,
    make_history_option,
    make_learn_option,
    make_option,
    make_plot_option,
)
from sottovoce.core.tags import build_tags
from sottovoce.data import Interactions, Shards, load, parse_columns
from sottovoce.data.loading import find_shards
from sottovoce.data.split import SplitRule
from sottovoce.data.synthetic import SYNTHETIC
from sottovoce.errors import SettingsError
from sottovoce.privacy import PrivacyReport
from sottovoce.privacy.statement import format_epsilon
from sottovoce.settings import get_settings
from sottovoce.simulation import Run, Simulation
from sottovoce.simulation import simulate as run_simulation
from sottovoce.simulation.engines import AUTO_ENGINE
from sottovoce.simulation.evaluation.metrics import PAPER_METRICS, Interval
from sottovoce.simulation.inputs import Labels
from sottovoce.simulation.start import START_SUFFIX, format_date, make_start, read_start
from sottovoce.training import DEFAULT_PRESET, Settings, plan_training

# Metric that progress bars and pictures show.
MAIN_METRIC = "hr@10"
SECONDS_PER_DAY = 86_400


@add_training_options(
    without=["seed"],
    planned=["factors", "alpha", "ridge"],
    visible=["epsilon", "reports", "epochs"],
)
@add_engine_options
@add_settings_options("plan", get_settings(Simulation), visible=[])
def simulate(
    *,
    data: DataSource = SYNTHETIC,
    min_interactions: MinInteractions = 0,
    start: StartSource = None,
    budget: BudgetOption = None,
    central_budget: CentralBudgetOption = None,
    training: dict[str, Any],
    split: Annotated[
        SplitRule,
        typer.Option(
            help="Item of each person that is left out for testing. random: a random one; latest: "
            "the latest one; date: the first one after the date before which nine tenths of all "
            "interactions lie, and training uses only what is before that date."
        ),
    ] = "random",
    seeds: Seeds = 1,
    engine: dict[str, Any],
    json: JsonFile = None,
    plot: Annotated[Path | None, make_plot_option("a learning curve")] = None,
    preset: PresetOption = DEFAULT_PRESET,
    history: Annotated[
        float | None, make_history_option("the median of the data, to two digits")
    ] = None,
    columns: HistoryColumns = None,
    items: ItemsFile = None,
    tags: TagsOption = True,
    time: Annotated[
        bool | None,
        make_option(
            "Use the order of a history for recommendations: the latest items count most.",
            "yes with --split latest or date, if the data has times",
            "--time/--no-time",
            hidden=True,
        ),
    ] = None,
    negatives: Annotated[
        int,
        typer.Option(
            min=0,
            help="Number of untouched items among which the left-out item is ranked; 0: the whole "
            "catalogue.",
            hidden=True,
        ),
    ] = 99,
    metrics: Annotated[
        str,
        typer.Option(
            help="Metrics to measure, separated by commas: hr, recall, precision, map, mrr, ndcg, "
            "coverage, novelty or gini, then @ and the length of the list."
        ),
    ] = ",".join((*PAPER_METRICS, "coverage@10")),
    sample_users: SampleUsers = None,
    sample_items: SampleItems = None,
    plan: dict[str, Any],
    seed: Seed = 0,
    learn: Annotated[Learn | None, make_learn_option("taste", hidden=True)] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Folder in which the model is saved after every epoch. If the folder has a saved "
            "run, it is continued.",
            hidden=True,
        ),
    ] = None,
) -> None:
    """Train on a data set with simulated devices; print quality and privacy cost.

    HR@10 is the share of people whose left-out item is among the ten best of those with which it is
    ranked. Devices also recommend by tags and by the order of a history, which need no reports;
    results without these are printed as well. The planner chooses all settings that you do not
    give, for the budget. Name --preset paper for the paper's settings, which cost 5,000.

    \b
    Examples:
      sottovoce simulate
      sottovoce simulate --data ml-1m --min-interactions 60 --budget 50 --seeds 5
      sottovoce simulate --data ml-20m --central-budget 1 --json run.json --plot curve.png
      sottovoce simulate --data ratings.parquet --items films.csv --split latest
      sottovoce simulate --data ml-20m --resample 10000000 --epsilon 4 --reports 1 --lifetime 1
      sottovoce simulate --data ratings.shards --engine ray --ray-workers 8
    """
    sample = (sample_users, sample_items)
    dataset = _load(data, columns, items, min_interactions, sample, seed)
    first_items = None if start is None else _load_start(start, dataset)
    settings = plan_training(
        # Plan for the people who report. With `resample`, they are drawn from those of the data.
        plan.get("resample") or dataset.n_users,
        dataset.n_items,
        history=history or dataset.typical_length,
        preset=preset,
        budget=choose_command_budget(budget, central_budget, preset, training),
        start_factors=0 if first_items is None else first_items.shape[1],
        **add_mechanism(training, learn),
        seed=seed,
    )
    simulation = Simulation(
        settings,
        split,
        negatives,
        engine=engine.pop("engine", AUTO_ENGINE),
        engine_options=engine,
        tags=tags,
        time=time,
        metrics=tuple(name.strip() for name in metrics.split(",")),
        **plan,
    )
    runs = [
        _run(dataset, simulation, first_items, seed + offset, checkpoint) for offset in range(seeds)
    ]
    _print_runs(dataset, runs)
    output.write_json(json, _runs_to_dict(dataset, runs))
    if plot is not None:
        save_figure(plot, lambda figure: _draw_quality(figure, dataset, runs))


def _load(
    source: str,
    columns: str | None,
    items: Path | None,
    minimum: int,
    sample: tuple[int | None, int | None],
    seed: int,
) -> Interactions | Shards:
    folder = find_shards(source)
    if folder and any((columns, items, minimum, *sample)):
        raise SettingsError(
            f"{folder} is made of shards: --columns, --items and --min-interactions are for "
            "`sottovoce data shard`, which makes them, and people cannot be sampled from them"
        )
    if folder:
        return Shards.read(folder)
    with output.messages.status(f"reading {output.escape_markup(source)}"):
        data = load(source, parse_columns(columns), items).filter(minimum)
        if sample == (None, None):
            return data
        return data.subset(users=sample[0], items=sample[1], seed=seed)


class EpochBar(output.CountBar):
    """A progress bar for the epochs of a run, with its quality and the epsilon spent so far.

    Args:
        label: Text before the bar.
        training: The settings of the training.
        metric: Name of the metric to show.
    """

    def __init__(self, label: str, training: Settings, metric: str):
        super().__init__()
        self._training = training
        self._metric = metric
        self._epochs = self.add_task(label, total=training.epochs, state="starting")
        self._quality = ""

    def show_record(self, record: dict[str, Any]) -> None:
        """Update the bar with the record of an epoch."""
        if self._metric in record:
            self._quality = f"{self._metric.upper()} {record[self._metric]:.4f}  "
        # This is the largest amount: people who have had fewer turns so far have spent less.
        turns = min(record["epoch"], self._training.turns)
        spent = turns * self._training.epsilon * self._training.reports
        state = f"{self._quality}local budget spent, at most {format_epsilon(spent, 6)}"
        self.update(self._epochs, completed=record["epoch"], state=state)


def _load_start(source: str, data: Interactions | Shards) -> NDArray[np.float32]:
    """Return the item matrix of a start for the items of a data set, whose people are tested.

    Only interactions before the last day of the data set are used, if both have times. A file
    cannot be cut: a note says if it may be younger.

    Args:
        source: A file of `sottovoce start`, or public interactions as for `--data`.
        data: The data set.
    """
    before = None
    times = data.timestamps if isinstance(data, Interactions) else None
    if times is not None:
        before = int(times.max()) // SECONDS_PER_DAY * SECONDS_PER_DAY
    if source.endswith(START_SUFFIX):
        last_date = read_start(Path(source)).provenance.last_date
        if before is None or last_date is None or last_date >= format_date(before, data.name):
            output.print_note("The start may be younger than what is tested.")
        return make_start(source, Labels(data.item_ids))
    table = load(source)
    if before is None or table.timestamps is None:
        output.print_note(
            "The start may be younger than what is tested: one of the tables has no times."
        )
    return make_start(table, Labels(data.item_ids), before)


def _run(
    data: Interactions | Shards,
    plan: Simulation,
    start: NDArray[np.float32] | None,
    seed: int,
    checkpoint: Path | None,
) -> Run:
    plan = replace(plan, settings=replace(plan.settings, seed=seed))
    # Each seed has its own file, so that a command with more seeds continues the saved runs.
    file = checkpoint / f"seed-{seed}.safetensors" if checkpoint else None
    with EpochBar(f"seed {seed}", plan.settings, choose_main_metric(plan)) as bar:
        return run_simulation(data, plan, start=start, checkpoint=file, on_epoch=bar.show_record)


def choose_main_metric(plan: Simulation) -> str:
    """Return the metric for bars and pictures: HR@10 if it is measured, else the first one."""
    return MAIN_METRIC if MAIN_METRIC in plan.rank_metrics else plan.rank_metrics[0]


def _print_runs(data: Interactions | Shards, runs: list[Run]) -> None:
    plan, side_information = runs[0].plan, runs[0].side_information
    output.print_line(
        f"{data.name}: {data.n_users:,} users x {data.n_items:,} items, "
        f"{data.n_interactions:,} interactions; {plan.split} split against "
        f"{output.describe_candidates(plan.negatives, data.untouched_counts)}"
    )
    output.warn_about_few_candidates(plan.negatives, data.untouched_counts)
    output.print_line(str(plan.settings))
    if plan.tags and data.tags is not None:
        kinds = build_tags(data.tags.tolist()).format_kinds()
        output.print_line(f"Tags that devices use for recommendations: {kinds}.")
    if people := runs[0].describe_people():
        output.print_line(people)
    mechanism = plan.settings.mechanism
    title = f"{mechanism} with {side_information}" if side_information else mechanism
    columns = {title: _average_runs(runs, "final")}
    if side_information:
        columns[f"{mechanism} alone"] = _average_runs(runs, "model_only")
        title = f"popularity with {side_information}, not private"
        columns[title] = _average_runs(runs, "informed_popularity")
    columns["popularity, not private"] = _average_runs(runs, "popularity")
    caption = f"{len(runs)} seeds, 95% interval" if len(runs) > 1 else "one seed"
    table = Table("metric", *output.align_right(*columns), caption=caption, caption_justify="left")
    for name in runs[0].final:
        table.add_row(name.upper(), *(str(metrics[name]) for metrics in columns.values()))
    output.results.print(table)
    output.print_line(_get_privacy_report(runs).statement())


def _get_privacy_report(runs: list[Run]) -> PrivacyReport:
    """Return the privacy report of the run with the smallest crowd."""
    return min(runs, key=lambda run: run.crowd).privacy_report


def _average_runs(runs: list[Run], field: str) -> dict[str, Interval]:
    """Average the metrics in a field of the runs, such as `final`, over the seeds."""
    return _average([getattr(run, field) for run in runs])


def _average(records: Sequence[dict[str, Any]]) -> dict[str, Interval]:
    return {name: Interval.from_values([record[name] for record in records]) for name in records[0]}


def _draw_quality(figure: Any, data: Interactions | Shards, runs: list[Run]) -> None:
    """Draw the main metric of each epoch with its interval."""
    plan, training = runs[0].plan, runs[0].plan.settings
    metric = choose_main_metric(plan)
    epsilon = format_epsilon(training.epsilon, 6)
    title = f"{data.name}: {training.mechanism}, eps {epsilon}, k {training.reports}"
    if runs[0].side_information:
        title += f"; devices know {runs[0].side_information}"
    if plan.resample is not None:
        title += f"\n{plan.resample:,} people resampled from {data.n_users:,}"
    curve = [
        (records[0]["epoch"], Interval.from_values([record[metric] for record in records]))
        for records in zip(*(run.epochs for run in runs), strict=True)
        # Epochs that were not evaluated have no point.
        if metric in records[0]
    ]
    axes = figure.subplots()
    draw_interval(axes, curve, 0.25, marker="o", color="#1b6ca8")
    axes.set(xlabel="epoch", ylabel=metric.upper(), title=title)
    axes.grid(alpha=0.3)


def _runs_to_dict(data: Interactions | Shards, runs: list[Run]) -> dict[str, Any]:
    """Return the results for JSON: means over the seeds and, if there are several, each run."""
    plan = runs[0].plan

    def get_means(field: str) -> dict[str, float]:
        return {name: interval.mean for name, interval in _average_runs(runs, field).items()}

    epochs = [
        {name: interval.mean for name, interval in _average(records).items()}
        | {"epoch": records[0]["epoch"]}
        for records in zip(*(run.epochs for run in runs), strict=True)
    ]
    content: dict[str, Any] = {
        "data": data.summary(),
        "people": runs[0].describe_people(),
        "settings": {
            **plan.settings.as_dict(),
            "split": plan.split,
            "negatives": plan.negatives,
            "side_information": runs[0].side_information,
            "engine": plan.engine,
            "resample": plan.resample,
            "seeds": [run.plan.settings.seed for run in runs],
        },
        "epochs": epochs,
        "final": get_means("final"),
        "model_only": get_means("model_only"),
        "popularity": get_means("popularity"),
        "informed_popularity": get_means("informed_popularity"),
        "privacy": _get_privacy_report(runs).as_dict(),
        "seconds": {name: sum(run.seconds[name] for run in runs) for name in runs[0].seconds},
    }
    # With a single seed there is no interval, and the means are the results of the run.
    if len(runs) > 1:
        final = _average_runs(runs, "final")
        content["interval95"] = {name: interval.half_width for name, interval in final.items()}
        content["runs"] = [
            {"seed": run.plan.settings.seed, "epochs": run.epochs, "final": run.final}
            for run in runs
        ]
    return content

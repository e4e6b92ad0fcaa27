"""`sottovoce replay`: a training without end, over a data set in the order of its days."""

from collections.abc import Container
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import inf, isfinite
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
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
from sottovoce.data import Interactions, load, parse_columns
from sottovoce.errors import SettingsError
from sottovoce.privacy import PrivacyReport
from sottovoce.settings import get_settings
from sottovoce.simulation.evaluation.metrics import Interval
from sottovoce.simulation.start import START_SUFFIX
from sottovoce.training import DEFAULT_PRESET, plan_open_ended, plan_training
from sottovoce.training.start import choose_start_factors
from sottovoce_lab.bootstrap import COVERAGE, RESAMPLE_COUNT, Difference
from sottovoce_lab.cli import make_number_table
from sottovoce_lab.replay.baselines import (
    ALS_NAME,
    CHOOSING_METRIC,
    EASE_NAME,
    RECENT_PEOPLE_NAME,
    RECENT_POPULARITY_NAME,
    TRUSTED_EPSILON,
    TRUSTED_NAME,
    Setting,
    list_trial_periods,
)
from sottovoce_lab.replay.cases import MAX_NEW_ITEM_AGE
from sottovoce_lab.replay.replay import Period, Replay, ReplayPlan, ReplayStart, run_replay
from sottovoce_lab.replay.rivals import (
    CATALOGUE_METRICS,
    FROZEN_NAME,
    MODEL_NAME,
    OFF_CHART_METRIC,
    PLAIN_SUFFIX,
    POPULARITY_NAME,
    SAMPLED_METRIC,
)
from sottovoce_lab.replay.summary import (
    REFERENCE_NAME,
    Recovery,
    Row,
    average_later_periods,
    average_periods,
    compare_models,
    group_by_age,
    group_by_touched,
    measure_recovery,
)
from sottovoce_lab.replay.timeline import Timeline

# For each of these shares, the epochs are counted until the model has regained this share of what
# it lost by a change of tastes.
REGAINED_SHARES = (0.5, 0.9)
# Approximate number of periods that are printed; the JSON file has all.
PRINTED_PERIODS = 8
MODEL_COLOURS = {
    MODEL_NAME: "#1b6ca8",
    RECENT_PEOPLE_NAME: "#c44e52",
    RECENT_POPULARITY_NAME: "#937860",
    POPULARITY_NAME: "#8c8c8c",
    EASE_NAME: "#8172b3",
    ALS_NAME: "#64b5cd",
    TRUSTED_NAME: "#2a7d4f",
    FROZEN_NAME: "#dd8452",
}
# Metrics of the table of differences; the JSON file has all.
COMPARED_METRICS = ("hr@10", "ndcg@100")
# Names of the columns of the table of periods.
PERIOD_COLUMNS = {
    MODEL_NAME: "model",
    RECENT_PEOPLE_NAME: "lately",
    POPULARITY_NAME: "popular",
    FROZEN_NAME: "frozen",
}


@dataclass(frozen=True, eq=False)
class ReplayResults:
    """The replays of all seeds of one command."""

    data: Interactions
    runs: list[Replay]
    switched: list[Replay]
    """The replays with a change of tastes; empty without one."""

    @property
    def max_age(self) -> float | None:
        """Days for which an item stays in the catalogue; None for ever."""
        max_age = self.runs[0].timeline.max_age
        return max_age if isfinite(max_age) else None

    @property
    def plan(self) -> ReplayPlan:
        """Plan of the first seed."""
        return self.runs[0].plan

    @property
    def side_information(self) -> str:
        """Side information of devices."""
        has_tags = self.plan.tags and self.data.tags is not None
        return " and ".join(["tags"] * has_tags + ["time"] * self.plan.time)

    @property
    def privacy_report(self) -> PrivacyReport:
        """Privacy report of the run with the smallest crowd."""
        return min(self.runs, key=lambda run: run.crowd).privacy_report

    @cached_property
    def differences(self) -> dict[tuple[str, str], Difference]:
        """Differences from `REFERENCE_NAME` in the later periods, by model and metric."""
        return compare_models(self.runs)

    def measure_recoveries(self) -> dict[str, Recovery]:
        """Return the recovery with and without side information, if tastes change."""
        names = (MODEL_NAME, MODEL_NAME + PLAIN_SUFFIX) if self.switched else ()
        return {name: measure_recovery(self.runs, self.switched, name) for name in names}


@add_training_options(
    without=["seed"],
    planned=["factors", "alpha", "ridge"],
    visible=["mechanism", "epsilon", "reports", "epochs", "half_life"],
)
@add_engine_options
@add_settings_options("plan", get_settings(ReplayPlan), visible=[])
def replay(
    *,
    data: DataSource,
    periods: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of periods into which the data set is divided, with equal numbers of "
            "interactions. Each period has an epoch.",
        ),
    ],
    max_age: Annotated[
        float | None,
        make_option(
            "Days for which an item stays in the catalogue, as for news.", "for ever", min=0
        ),
    ] = None,
    switch_at: Annotated[
        int | None,
        make_option(
            "Period at which all tastes change, to measure how fast the model follows: from then "
            "on, items of equal popularity are exchanged in all histories.",
            "never",
            min=1,
        ),
    ] = None,
    min_interactions: MinInteractions = 0,
    start: StartSource = None,
    budget: BudgetOption = None,
    central_budget: CentralBudgetOption = None,
    training: dict[str, Any],
    seeds: Seeds = 1,
    engine: dict[str, Any],
    json: JsonFile = None,
    plot: Annotated[Path | None, make_plot_option("HR@10 by epoch")] = None,
    preset: PresetOption = DEFAULT_PRESET,
    history: Annotated[
        float | None, make_history_option("the median of the data, to two digits")
    ] = None,
    columns: HistoryColumns = None,
    items: ItemsFile = None,
    tags: TagsOption = True,
    time: Annotated[
        bool,
        typer.Option(
            "--time/--no-time",
            help="Use the order of a history for recommendations: the latest items count most.",
            hidden=True,
        ),
    ] = True,
    baseline_models: Annotated[
        bool,
        typer.Option(
            "--baseline-models/--no-baseline-models",
            help="Compare with EASE and ALS, which are not private, and with DP-ALS, which trusts "
            "one party. With thousands of items they take most of the time.",
        ),
    ] = True,
    sample_users: SampleUsers = None,
    sample_items: SampleItems = None,
    learn: Annotated[Learn | None, make_learn_option("names with a local budget")] = None,
    plan: dict[str, Any],
    seed: Seed = 0,
) -> None:
    """Simulate a service that learns without end, with the interactions of a data set by date.

    People and items arrive over time. An epoch ends with each period, and each model is tested on
    the first item that a person touches in the next period. The settings of the baselines are
    chosen on the second quarter of the periods; results are means over the second half.

    \b
    Examples:
      sottovoce replay --data ml-latest-small --min-interactions 20 --periods 5
      sottovoce replay --data ratings.parquet --budget 50 --periods 40 --half-life 7 --switch-at 20
      sottovoce replay --data clicks.parquet --budget 10 --periods 100 --max-age 3
    """
    with output.messages.status(f"reading {output.escape_markup(data)}"):
        people = load(data, parse_columns(columns), items).filter(min_interactions)
        if (sample_users, sample_items) != (None, None):
            people = people.subset(users=sample_users, items=sample_items, seed=seed)
    replay_start = None if start is None else _read_start(start)
    with output.messages.status("putting interactions in order"):
        timeline = Timeline.from_data(people, periods, inf if max_age is None else max_age)
    settings = (plan_training if "half_life" in training else plan_open_ended)(
        people.n_users,
        max(window.stop - window.start for window in timeline.windows),
        history=history or people.typical_length,
        preset=preset,
        budget=choose_command_budget(budget, central_budget, preset, training),
        start_factors=0 if replay_start is None else replay_start.factors,
        **add_mechanism(training, learn),
        seed=seed,
    )
    # A plan for few people ends, but a replay follows a service that never does.
    if "half_life" not in training and not settings.half_life:
        settings = settings.to_endless()
    name = engine.pop("engine", "cpu")
    replay_plan = ReplayPlan(
        settings,
        **plan,
        tags=tags,
        time=time,
        baseline_models=baseline_models,
        engine=name,
        engine_options=engine,
    )
    results = replay_seeds(timeline, switch_at, replay_plan, seeds, replay_start)
    print_results(results)
    output.write_json(json, to_json(results))
    if plot is not None:
        save_figure(plot, lambda figure: draw_results(figure, results))


def _read_start(source: str) -> ReplayStart:
    """Read the table of a public start."""
    if source.endswith(START_SUFFIX):
        raise SettingsError(
            f"{source}: a replay learns a start for each period from what is older; name its table"
        )
    table = load(source)
    if table.timestamps is None:
        output.print_note(f"{table.name} has no times: all of it counts in every period.")
    return ReplayStart(table, choose_start_factors(table.n_users))


def replay_seeds(
    timeline: Timeline,
    switch_at: int | None,
    plan: ReplayPlan,
    seeds: int,
    start: ReplayStart | None = None,
) -> ReplayResults:
    """Run replays with consecutive seeds, beginning with the plan's."""
    runs: list[Replay] = []
    switched: list[Replay] = []
    for seed in range(plan.settings.seed, plan.settings.seed + seeds):
        seed_plan = replace(plan, settings=replace(plan.settings, seed=seed))
        other = None if switch_at is None else timeline.switch_tastes(switch_at, seed)
        # Settings are chosen once, with the first seed.
        choices = runs[0].choices if runs else None
        runs.append(
            _run_with_progress(
                f"seed {seed}", timeline, seed_plan, switch_at, choices=choices, start=start
            )
        )
        if other is not None:
            label = f"seed {seed}, switched"
            switched.append(
                _run_with_progress(label, other, seed_plan, switch_at, after=runs[-1], start=start)
            )
    return ReplayResults(timeline.data, runs, switched)


def _run_with_progress(
    label: str, timeline: Timeline, plan: ReplayPlan, at: int | None, **reused: Any
) -> Replay:
    with output.CountBar() as bar:
        task = bar.add_task(label, total=timeline.n_periods, state="starting")

        def show_progress(period: Period) -> None:
            quality = (
                "" if period.tested is None else f"{period.tested.hits[MODEL_NAME].mean():.4f}"
            )
            bar.update(task, completed=period.number + 1, state=f"HR@10 {quality}")

        return run_replay(timeline, plan, frozen_at=at, on_period=show_progress, **reused)


def print_results(results: ReplayResults) -> None:
    """Print the settings, tables, recoveries and the privacy report."""
    plan, timeline = results.plan, results.runs[0].timeline
    settings, histories = plan.settings, results.data.histories
    output.print_line(
        f"{results.data.name}: {histories.n_users:,} users x "
        f"{histories.n_items:,} items, {histories.n_interactions:,} interactions in "
        f"{timeline.n_periods} periods with similar numbers of interactions, "
        f"{_format_day(timeline.span[0][0])} to {_format_day(timeline.span[-1][1])}; "
        + (f"items stay for {results.max_age:g} days; " if results.max_age else "")
        + "tested on the "
        f"next item of up to {plan.people:,} people, in the whole catalogue and among "
        f"{plan.negatives + 1} items"
    )
    output.print_line(str(settings))
    output.print_line(
        f"Learning has no end: each person takes part in an epoch with probability "
        f"{settings.share:.3g}, at most {settings.max_turns} times; a report has half its weight "
        f"after {output.pluralize(settings.half_life, 'epoch')}."
    )
    output.results.print(_tabulate_periods(results))
    output.results.print(_tabulate_means(results))
    output.results.print(_tabulate_differences(results))
    output.print_line(_describe_choices(results))
    for rows, by in (
        (group_by_age(results.runs), "epochs in the catalogue"),
        (group_by_touched(results.runs), "people who had touched them"),
    ):
        if rows:
            output.results.print(_tabulate_new_items(rows, by))
    for name, recovery in results.measure_recoveries().items():
        output.print_line(_describe_recovery(name, recovery))
    output.print_line(results.privacy_report.statement())


def _format_side_information(results: ReplayResults) -> str:
    return f" with {results.side_information}" if results.side_information else ""


def _tabulate_periods(results: ReplayResults) -> Table:
    table = make_number_table(
        f"HR@10 of the whole catalogue in the next period{_format_side_information(results)}; "
        f"lately: {RECENT_PEOPLE_NAME}",
        *("epochs", "until", "items", "people", *PERIOD_COLUMNS.values()),
    )
    curves = {name: _average_curves(results.runs, name) for name in PERIOD_COLUMNS}
    numbers = sorted(curves[MODEL_NAME])
    # The last period is always printed, whatever the step.
    step = max(len(numbers) // PRINTED_PERIODS, 1)
    for number in sorted({*numbers[::step], numbers[-1]}):
        period = results.runs[0].periods[number]
        until = _format_day(results.runs[0].timeline.span[number][1])
        cells = [f"{c[number].mean:.3f}" if number in c else "" for c in curves.values()]
        table.add_row(f"{number}", until, f"{len(period.state.V):,}", f"{period.people:,}", *cells)
    return table


def _tabulate_means(results: ReplayResults) -> Table:
    seeds, timeline = len(results.runs), results.runs[0].timeline
    later, choosing = timeline.later, timeline.choosing
    means, earlier = average_later_periods(results.runs), average_periods(results.runs, choosing)
    labels = _label_metrics(results)
    table = Table(
        f"periods {later[0]} to {later[-1]}",
        *output.align_right(*labels.values(), f"{choosing[0]} to {choosing[-1]}"),
        title=f"Mean over the later periods{_format_side_information(results)}, and{PLAIN_SUFFIX}",
        title_justify="left",
        caption=f"{f'{seeds} seeds, 95% interval' if seeds > 1 else 'one seed'}; all: ranked in "
        f"the whole catalogue; off chart: how many of the first ten are not in the chart of the "
        f"last period; last column: {labels[CHOOSING_METRIC]} in earlier periods, by which "
        f"settings are chosen; once: counts only the latest item of each person; frozen: does not "
        f"learn after epoch {results.runs[0].frozen_at}; popularity, {EASE_NAME} and {ALS_NAME} "
        f"are not private; each training of {TRUSTED_NAME} has a central budget of "
        f"{TRUSTED_EPSILON:g}, and trusts one party",
        caption_justify="left",
    )
    for name in _list_shown_models(means):
        cells = [str(means[name].get(metric, "")) for metric in labels]
        choice, before = results.runs[0].choices.get(name), ""
        if name in earlier:
            before = str(earlier[name][CHOOSING_METRIC])
        elif choice is not None and choice.gain is not None:
            before = f"{choice.gain:.4f}"
        table.add_row(name, *cells, before)
    return table


def _tabulate_differences(results: ReplayResults) -> Table:
    labels = {metric: _label_metrics(results)[metric] for metric in COMPARED_METRICS}
    table = make_number_table(f"Differences from {REFERENCE_NAME}", "", *labels.values())
    table.caption = (
        f"in brackets: intervals by {RESAMPLE_COUNT:,} draws of people, which hold together with "
        f"{COVERAGE:.0%}"
    )
    for name in _list_shown_models({name for name, _ in results.differences}):
        table.add_row(name, *(str(results.differences[name, metric]) for metric in labels))
    return table


def _list_shown_models(names: Container[str]) -> list[str]:
    """Return these models in the order of tables."""
    both = [name + suffix for name in MODEL_COLOURS for suffix in ("", PLAIN_SUFFIX)]
    return [name for name in both if name in names]


def _label_metrics(results: ReplayResults) -> dict[str, str]:
    """Return the headings of the metrics by their names."""
    whole = {metric: f"{metric.upper()} all" for metric in CATALOGUE_METRICS}
    sampled = {SAMPLED_METRIC: f"HR@10 of {results.plan.negatives + 1}"}
    return whole | sampled | {OFF_CHART_METRIC: "off chart"}


def _describe_choices(results: ReplayResults) -> str:
    """Say which settings the baselines have, and where they were chosen."""
    timeline = results.runs[0].timeline
    later = timeline.later
    chosen = "; ".join(
        f"{name}: {', '.join(f'{key} {value:g}' for key, value in choice.setting.items())}"
        for name, choice in results.runs[0].choices.items()
    ).replace("_", "-")
    periods = ", ".join(map(str, list_trial_periods(timeline)))
    return (
        f"Settings of the baselines were chosen by {CHOOSING_METRIC.upper()} in the whole "
        f"catalogue on periods {periods}; the table shows results of periods {later[0]} to "
        f"{later[-1]}. The settings are {chosen}. Choose settings of the model by the last column "
        "as well, not by the results."
    )


def _tabulate_new_items(rows: list[Row], by: str) -> Table:
    names = (MODEL_NAME, MODEL_NAME + PLAIN_SUFFIX, RECENT_POPULARITY_NAME)
    table = make_number_table(
        f"HR@10 of new items ({MAX_NEW_ITEM_AGE} epochs), by {by}", "", "cases", *names
    )
    for row in rows:
        table.add_row(row.label, f"{row.cases:,}", *(str(row.quality[name]) for name in names))
    return table


def _describe_recovery(name: str, recovery: Recovery) -> str:
    if not recovery.gaps:
        return f"The {name} lost no HR@10 by the change of tastes."
    parts = []
    for share in REGAINED_SHARES:
        epochs = recovery.count_epochs(share)
        when = "never" if epochs is None else f"after {epochs} epochs"
        parts.append(f"{share:.0%} of it {when}")
    # Show the mean of the last three periods, because a single one is noisy.
    regained = 1 - float(np.mean(recovery.gaps[-3:]))
    return (
        f"The {name} lost {recovery.lost:.4f} of HR@10 by the change of tastes. It regained "
        f"{', '.join(parts)}, and {regained:.0%} of it in the end."
    )


def _average_curves(runs: list[Replay], name: str) -> dict[int, Interval]:
    curves = [run.compute_curve(name) for run in runs]
    return {
        number: Interval.from_values([curve[number] for curve in curves])
        for number in curves[0]
        # A seed may have no tested people in a period. Leave such periods out, because a mean over
        # fewer seeds would jump.
        if all(number in curve for curve in curves)
    }


def draw_results(figure: Any, results: ReplayResults) -> None:
    """Draw HR@10 of all models by epoch; the dashed line is our model if tastes change."""
    axes = figure.subplots()
    for name, colour in MODEL_COLOURS.items():
        points = list(_average_curves(results.runs, name).items())
        draw_interval(axes, points, 0.2, label=name, color=colour)
    if results.switched:
        points = list(_average_curves(results.switched, MODEL_NAME).items())
        draw_interval(axes, points, 0.2, color="#55a868", label="model, switched", linestyle="--")
    half_life = output.pluralize(results.plan.settings.half_life, "epoch")
    axes.set(
        xlabel="epoch",
        ylabel="HR@10 in the next period",
        title=f"{results.data.name}{_format_side_information(results)}: half-life {half_life}",
    )
    axes.grid(alpha=0.3)
    axes.legend()


def to_json(results: ReplayResults) -> dict[str, Any]:
    """Return the content of the JSON file."""
    plan, runs = results.plan, results.runs
    switch_at = runs[0].frozen_at if results.switched else None
    return {
        "data": results.data.summary(),
        "settings": {
            **plan.settings.as_dict(),
            "periods": runs[0].timeline.n_periods,
            "max_age": results.max_age,
            "switch_at": switch_at,
            "frozen_at": runs[0].frozen_at,
            "negatives": plan.negatives,
            "known": results.side_information,
            "engine": plan.engine,
            "seeds": [run.plan.settings.seed for run in runs],
        },
        "runs": [_run_to_json(run) for run in runs],
        "switched": [_run_to_json(run) for run in results.switched],
        "chosen": {
            name: {
                "setting": _setting_to_json(choice.setting),
                "tried": [
                    {**_setting_to_json(setting), CHOOSING_METRIC: gain}
                    for setting, gain in choice.tried
                ],
            }
            for name, choice in runs[0].choices.items()
        },
        "choosing": _means_to_json(average_periods(runs, runs[0].timeline.choosing)),
        "later": _means_to_json(average_later_periods(runs)),
        "differences": {
            "reference": REFERENCE_NAME,
            "models": [
                {"model": name, "metric": metric, **asdict(difference)}
                for (name, metric), difference in results.differences.items()
            ],
        },
        "new_items": {
            "by_age": _rows_to_json(group_by_age(runs)),
            "by_touched": _rows_to_json(group_by_touched(runs)),
        },
        "recovery": {
            name: {
                "lost": recovery.lost,
                "missing": recovery.gaps,
                "epochs": {f"{share:g}": recovery.count_epochs(share) for share in REGAINED_SHARES},
            }
            for name, recovery in results.measure_recoveries().items()
        },
        "privacy": results.privacy_report.as_dict(),
        # Runs with a change of tastes reuse the periods before it.
        "seconds": sum(p.seconds for run in runs for p in run.periods)
        + sum(p.seconds for run in results.switched for p in run.periods[run.frozen_at :]),
    }


def _run_to_json(run: Replay) -> dict[str, Any]:
    spans = run.timeline.span
    return {
        "seed": run.plan.settings.seed,
        "periods": [
            {
                "epochs": period.number,
                "from": _format_day(spans[period.number][0]),
                "until": _format_day(spans[period.number][1]),
                "items": len(period.state.V),
                "joined": period.joined,
                "people": period.people,
                "tested": 0 if period.tested is None else len(period.tested.cases),
                "quality": {} if period.tested is None else period.tested.summarize(),
                "seconds": period.seconds,
            }
            for period in run.periods
        ],
    }


def _rows_to_json(rows: list[Row]) -> list[dict[str, Any]]:
    return [
        {
            "from": row.low,
            "to": row.high,
            "cases": row.cases,
            "hr@10": {name: _interval_to_json(interval) for name, interval in row.quality.items()},
        }
        for row in rows
    ]


def _means_to_json(means: dict[str, dict[str, Interval]]) -> dict[str, Any]:
    return {
        name: {metric: _interval_to_json(interval) for metric, interval in metrics.items()}
        for name, metrics in means.items()
    }


def _setting_to_json(setting: Setting) -> dict[str, float | None]:
    """Return a setting with null for infinity, which JSON cannot write."""
    return {name: value if isfinite(value) else None for name, value in setting.items()}


def _interval_to_json(interval: Interval) -> dict[str, float | None]:
    return {"mean": interval.mean, "interval95": interval.half_width}


def _format_day(moment: int) -> str:
    return str(np.datetime64(moment, "s").astype("datetime64[D]"))

"""`sottovoce replay`: a training without end, over a data set in the order of its days."""

from dataclasses import dataclass, replace
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
    MinInteractions,
    PresetOption,
    SampleItems,
    SampleUsers,
    Seed,
    Seeds,
    TagsOption,
    add_engine_options,
    add_settings_options,
    add_training_options,
    make_history_option,
    make_option,
    make_plot_option,
)
from sottovoce.data import Interactions, load, parse_columns
from sottovoce.privacy import PrivacyReport
from sottovoce.settings import get_settings
from sottovoce.simulation.evaluation.metrics import Interval
from sottovoce.training import DEFAULT_PRESET, Budget, plan_open_ended, plan_training
from sottovoce_lab.cli import make_number_table
from sottovoce_lab.replay.replay import (
    ALONE,
    FROZEN,
    LATELY,
    MODEL,
    POPULAR,
    RECENT,
    Period,
    Recovery,
    Replay,
    ReplayPlan,
    Row,
    by_age,
    by_touched,
    overall,
    recovery,
)
from sottovoce_lab.replay.replay import replay as run_replay
from sottovoce_lab.replay.timeline import YOUNG, Timeline

WON = (0.5, 0.9)
"""Shares of what was lost by a switch, for which the epochs are counted."""
SHOWN = 8
"""Periods in the printed table, about; the JSON file has all."""
COLOURS = {MODEL: "#1b6ca8", LATELY: "#c44e52", POPULAR: "#8c8c8c", FROZEN: "#dd8452"}


@dataclass(frozen=True, eq=False)
class Replayed:
    """All seeds of one command."""

    data: Interactions
    runs: list[Replay]
    switched: list[Replay]
    """The same with tastes that move; empty if they do not."""

    @property
    def plan(self) -> ReplayPlan:
        return self.runs[0].plan

    @property
    def known(self) -> str:
        """What devices know beside the model."""
        tags = self.plan.tags and self.data.tags is not None
        said = [*(["tags"] if tags else []), *(["time"] if self.plan.time else [])]
        return " and ".join(said)

    def recoveries(self) -> dict[str, Recovery]:
        names = (MODEL, MODEL + ALONE) if self.switched else ()
        return {name: recovery(self.runs, self.switched, name) for name in names}

    def privacy_report(self) -> PrivacyReport:
        """Of the run with the smallest crowd."""
        return min(self.runs, key=lambda run: run.crowd).privacy_report


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
        int, typer.Option(min=1, help="Number of periods, with equal numbers of interactions.")
    ],
    switch_at: Annotated[
        int | None,
        make_option(
            "Tastes change at this period (items of equal popularity change places), to see how "
            "fast the model follows.",
            "never",
            min=1,
        ),
    ] = None,
    min_interactions: MinInteractions = 0,
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
        typer.Option("--time/--no-time", help="Recommend by the order of a history.", hidden=True),
    ] = True,
    sample_users: SampleUsers = None,
    sample_items: SampleItems = None,
    plan: dict[str, Any],
    seed: Seed = 0,
) -> None:
    """Replay a data set in the order of its days, as a service that learns without end.

    People and items arrive, an epoch ends each period, and each model is tested on the next one.

    \b
    Examples:
      sottovoce replay --data ml-latest-small --min-interactions 20 --periods 5
      sottovoce replay --data ratings.parquet --budget 50 --periods 40 --half-life 7 --switch-at 20
    """
    with output.messages.status(f"reading {output.escape_markup(data)}"):
        people = load(data, parse_columns(columns), items).filter(min_interactions)
        if (sample_users, sample_items) != (None, None):
            people = people.subset(users=sample_users, items=sample_items, seed=seed)
    settings = (plan_training if "half_life" in training else plan_open_ended)(
        people.n_users,
        people.n_items,
        history=history or people.typical_length,
        preset=preset,
        budget=Budget.from_options(budget, central_budget),
        **training,
        seed=seed,
    )
    if "half_life" not in training and not settings.half_life:
        settings = settings.to_endless()
    name = engine.pop("engine", "cpu")
    wanted = ReplayPlan(settings, **plan, tags=tags, time=time, engine=name, engine_options=engine)
    found = replay_seeds(people, periods, switch_at, wanted, seeds)
    print_replay(found)
    output.write_json(json, as_json(found))
    if plot is not None:
        save_figure(plot, lambda figure: draw_replay(figure, found))


def replay_seeds(
    data: Interactions, periods: int, switch_at: int | None, plan: ReplayPlan, seeds: int
) -> Replayed:
    """From the seed of the plan on."""
    with output.messages.status("putting interactions in order"):
        timeline = Timeline.of(data, periods)
    runs, switched = [], []
    for seed in range(plan.settings.seed, plan.settings.seed + seeds):
        one = replace(plan, settings=replace(plan.settings, seed=seed))
        moved = None if switch_at is None else timeline.switched(switch_at, seed)
        runs.append(_shown(f"seed {seed}", timeline, one, switch_at))
        if moved is not None:
            runs_on = f"seed {seed}, switched"
            switched.append(_shown(runs_on, moved, one, switch_at, after=runs[-1]))
    return Replayed(data, runs, switched)


def _shown(
    label: str, timeline: Timeline, plan: ReplayPlan, at: int | None, after: Replay | None = None
) -> Replay:
    with output.CountBar() as bar:
        task = bar.add_task(label, total=timeline.n_periods, state="starting")

        def show(period: Period) -> None:
            quality = "" if period.tested is None else f"{period.tested.hits[MODEL].mean():.4f}"
            bar.update(task, completed=period.number + 1, state=f"HR@10 {quality}")

        return run_replay(timeline, plan, frozen_at=at, after=after, on_period=show)


def print_replay(found: Replayed) -> None:
    plan, timeline = found.plan, found.runs[0].timeline
    settings, histories = plan.settings, found.data.histories
    output.print_line(
        f"{found.data.name}: {histories.n_users:,} users x "
        f"{histories.n_items:,} items, {histories.n_interactions:,} interactions in "
        f"{timeline.n_periods} periods of like numbers of them, "
        f"{_day(timeline.span[0][0])} to {_day(timeline.span[-1][1])}; the next "
        f"item of {plan.people:,} people against {plan.negatives} negatives"
    )
    output.print_line(output.describe_settings(settings))
    output.print_line(
        f"Learning without end: each person takes part in an epoch with a chance of "
        f"{settings.share:.3g}, {settings.max_turns} times at most; what was learnt weighs half "
        f"after {output.pluralize(settings.half_life, 'epoch')}."
    )
    output.results.print(_periods(found))
    output.results.print(_overall(found))
    for rows, what in (
        (by_age(found.runs), "epochs in the catalogue"),
        (by_touched(found.runs), "people who had touched them"),
    ):
        if rows:
            output.results.print(_new_items(rows, what))
    for name, each in found.recoveries().items():
        output.print_line(_followed(name, each))
    output.print_line(found.privacy_report().statement())


def _with(found: Replayed) -> str:
    return f" with {found.known}" if found.known else ""


def _periods(found: Replayed) -> Table:
    table = make_number_table(
        f"HR@10 in the next period{_with(found)}; popularity lately, popularity of all time",
        *("epochs", "until", "items", "people", MODEL, "lately", "popular", FROZEN),
    )
    curves = {name: _curve(found.runs, name) for name in (MODEL, LATELY, POPULAR, FROZEN)}
    numbers = sorted(curves[MODEL])
    step = max(len(numbers) // SHOWN, 1)
    for number in sorted({*numbers[::step], numbers[-1]}):
        period = found.runs[0].periods[number]
        until = _day(found.runs[0].timeline.span[number][1])
        cells = [f"{c[number].mean:.3f}" if number in c else "" for c in curves.values()]
        table.add_row(f"{number}", until, f"{len(period.V):,}", f"{period.people:,}", *cells)
    return table


def _overall(found: Replayed) -> Table:
    over = f"{len(found.runs)} seeds, 95% interval" if len(found.runs) > 1 else "one seed"
    periods = found.runs[0].timeline.later
    table = Table(
        f"periods {periods[0]} to {periods[-1]}",
        *output.align_right("HR@10", "NDCG@10", f"HR@10{ALONE}", f"NDCG@10{ALONE}"),
        title=f"Mean over the later periods{_with(found)}, and{ALONE}",
        title_justify="left",
        caption=f"{over}; lately: of {RECENT} periods; frozen: learnt nothing after epoch "
        f"{found.runs[0].frozen_at}",
        caption_justify="left",
    )
    means = overall(found.runs)
    for name in (each for each in (MODEL, LATELY, POPULAR, FROZEN) if each in means):
        cells = [str(each) for end in ("", ALONE) for each in means[name + end].values()]
        table.add_row(name, *cells)
    return table


def _new_items(rows: list[Row], what: str) -> Table:
    table = make_number_table(
        f"HR@10 of new items ({YOUNG} epochs), by {what}",
        *("", "cases", MODEL, MODEL + ALONE, LATELY),
    )
    for row in rows:
        cells = [str(row.quality[name]) for name in (MODEL, MODEL + ALONE, LATELY)]
        table.add_row(row.label, f"{row.cases:,}", *cells)
    return table


def _followed(name: str, each: Recovery) -> str:
    if not each.gaps:
        return f"The switch of tastes took nothing from the {name}."
    counted = [(won, each.epochs(won)) for won in WON]
    said = [
        f"{won:.0%} of it " + ("was never won back" if n is None else f"after {n} epochs")
        for won, n in counted
    ]
    left = 1 - float(np.mean(each.gaps[-3:]))
    return (
        f"The switch of tastes took {each.lost:.4f} of HR@10 from the {name}: {', '.join(said)}; "
        f"in the end {left:.0%}."
    )


def _curve(runs: list[Replay], name: str) -> dict[int, Interval]:
    curves = [run.curve(name) for run in runs]
    return {
        number: Interval.from_values([curve[number] for curve in curves])
        for number in curves[0]
        if all(number in curve for curve in curves)
    }


def draw_replay(figure: Any, found: Replayed) -> None:
    """HR@10 by epoch, beside what learns nothing; dashed: tastes that moved."""
    axes = figure.subplots()
    for name, colour in COLOURS.items():
        draw_interval(axes, list(_curve(found.runs, name).items()), 0.2, label=name, color=colour)
    if found.switched:
        points = list(_curve(found.switched, MODEL).items())
        draw_interval(axes, points, 0.2, color="#55a868", label="model, switched", linestyle="--")
    half_life = output.pluralize(found.plan.settings.half_life, "epoch")
    axes.set(
        xlabel="epoch",
        ylabel="HR@10 in the next period",
        title=f"{found.data.name}{_with(found)}: half-life {half_life}",
    )
    axes.grid(alpha=0.3)
    axes.legend()


def as_json(found: Replayed) -> dict[str, Any]:
    plan, runs = found.plan, found.runs
    switch_at = runs[0].frozen_at if found.switched else None
    return {
        "data": found.data.summary(),
        "settings": {
            **plan.settings.as_dict(),
            "periods": runs[0].timeline.n_periods,
            "switch_at": switch_at,
            "frozen_at": runs[0].frozen_at,
            "negatives": plan.negatives,
            "known": found.known,
            "engine": plan.engine,
            "seeds": [run.plan.settings.seed for run in runs],
        },
        "runs": [_run_as_json(run) for run in runs],
        "switched": [_run_as_json(run) for run in found.switched],
        "later": {
            name: {metric: _interval(each) for metric, each in metrics.items()}
            for name, metrics in overall(runs).items()
        },
        "new_items": {"by_age": _rows(by_age(runs)), "by_touched": _rows(by_touched(runs))},
        "recovery": {
            name: {
                "lost": each.lost,
                "missing": each.gaps,
                "epochs": {f"{won:g}": each.epochs(won) for won in WON},
            }
            for name, each in found.recoveries().items()
        },
        "privacy": found.privacy_report().as_dict(),
        "seconds": sum(p.seconds for run in runs for p in run.periods)
        + sum(p.seconds for run in found.switched for p in run.periods[run.frozen_at :]),
    }


def _run_as_json(run: Replay) -> dict[str, Any]:
    spans = run.timeline.span
    return {
        "seed": run.plan.settings.seed,
        "periods": [
            {
                "epochs": period.number,
                "from": _day(spans[period.number][0]),
                "until": _day(spans[period.number][1]),
                "items": len(period.V),
                "joined": period.joined,
                "people": period.people,
                "tested": 0 if period.tested is None else len(period.tested.cases),
                "quality": {} if period.tested is None else period.tested.quality(),
                "seconds": period.seconds,
            }
            for period in run.periods
        ],
    }


def _rows(rows: list[Row]) -> list[dict[str, Any]]:
    return [
        {
            "from": row.low,
            "to": row.high,
            "cases": row.cases,
            "hr@10": {name: _interval(each) for name, each in row.quality.items()},
        }
        for row in rows
    ]


def _interval(each: Interval) -> dict[str, float | None]:
    return {"mean": each.mean, "interval95": each.half_width}


def _day(moment: int) -> str:
    return str(np.datetime64(moment, "s").astype("datetime64[D]"))

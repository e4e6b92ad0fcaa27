"""`sottovoce simulate`: the paper's system on a data set, with honest numbers."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path  # noqa: TC003 - typer looks at the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from sottovoce.cli import output, replaying
from sottovoce.cli.derived import engine_choice, training_options
from sottovoce.cli.options import (
    PRESETS,
    BudgetOption,
    CentralBudgetOption,
    DataSource,
    HistoryColumns,
    JsonFile,
    history_option,
    optional,
    picture_option,
)
from sottovoce.cli.replaying import Replayed, replay_seeds
from sottovoce.data import Interactions, Shards, load, parse_columns
from sottovoce.data.loading import shards_at
from sottovoce.data.synthetic import SYNTHETIC
from sottovoce.errors import SettingsError
from sottovoce.evaluation import CUTOFFS, Interval
from sottovoce.experiments.figures import save_figure
from sottovoce.model.tags import tags_of
from sottovoce.privacy.account import shown
from sottovoce.simulation import Run, SimulationPlan
from sottovoce.simulation import simulate as run_simulation
from sottovoce.simulation.replay import ReplayPlan
from sottovoce.training import DEFAULT, Budget, planned, planned_without_end

if TYPE_CHECKING:
    from sottovoce.privacy import Account

DEFAULT_MINIMUM = 60
"""The paper's filter."""


class SplitOption(StrEnum):
    random = "random"
    latest = "latest"
    date = "date"


@training_options(without=["seed"], planned=["factors", "alpha", "ridge"])
@engine_choice
def simulate(
    *,
    data: DataSource = SYNTHETIC,
    budget: BudgetOption = None,
    central_budget: CentralBudgetOption = None,
    preset: Annotated[str, typer.Option(help=PRESETS)] = DEFAULT,
    training: dict[str, Any],
    split: Annotated[
        SplitOption,
        typer.Option(
            help="Which item of each person is left out for testing: a random one, the latest, or "
            "(date) the first one after a date. Training ends at that date; nine tenths of all "
            "interactions lie before it."
        ),
    ] = SplitOption.random,
    negatives: Annotated[
        int,
        typer.Option(
            min=0, help="Untouched items to rank it against; 0 means the whole catalogue."
        ),
    ] = 99,
    min_interactions: Annotated[
        int | None,
        optional(
            "Leave out people and items with fewer interactions than this.",
            f"{DEFAULT_MINIMUM}; 0 for synthetic people",
            min=0,
        ),
    ] = None,
    items: Annotated[
        Path | None,
        optional(
            "File with titles and tags of the items: a catalogue (.json), or a table (.csv, .tsv, "
            ".parquet) with a column `item`.",
            "those of the data set",
        ),
    ] = None,
    tags: Annotated[
        bool, typer.Option(help="Recommend with the items' tags (genres, years).")
    ] = True,
    time: Annotated[
        bool | None,
        optional(
            "Recommend by the order of a history: the latest items count most.",
            "yes with --split latest or date, if the data has times",
            "--time/--no-time",
        ),
    ] = None,
    sample_users: Annotated[int | None, optional("People to draw at random.", "all", min=1)] = None,
    sample_items: Annotated[int | None, optional("Items to draw at random.", "all", min=1)] = None,
    columns: HistoryColumns = None,
    history: Annotated[
        float | None, history_option("the median of the data, to two digits")
    ] = None,
    resample: Annotated[
        int | None,
        optional(
            "Number of people who report. Each is made from a person of the data set, drawn with "
            "replacement, by dropping a tenth of the history. Only the people of the data set are "
            "tested.",
            "the people of the data set",
            min=1,
        ),
    ] = None,
    replay: Annotated[
        int | None,
        optional(
            "Replay the data in the order of its days, in so many periods with equal numbers of "
            "interactions. People and items arrive, learning never ends, and each epoch is tested "
            "on the next period.",
            "no replay: one training that ends",
            min=1,
            metavar="PERIODS",
        ),
    ] = None,
    switch_at: Annotated[
        int | None,
        optional(
            "With --replay: tastes change at this period (items of equal popularity change "
            "places), to see how fast the model follows.",
            "never",
            min=1,
            metavar="PERIOD",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the split, the untouched items and all reports.")
    ] = 0,
    seeds: Annotated[
        int,
        typer.Option(
            min=1, help="Number of runs, with seeds from --seed on; shows mean and 95% interval."
        ),
    ] = 1,
    engine: dict[str, Any],
    evaluate_every: Annotated[
        int,
        typer.Option(
            min=0, help="Epochs between two evaluations; 0 means only after the last epoch."
        ),
    ] = 1,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Folder to save the model in after every epoch. A saved run is continued."
        ),
    ] = None,
    json: JsonFile = None,
    plot: Annotated[Path | None, picture_option("a learning curve")] = None,
) -> None:
    """Train on a data set as its people's devices would; print quality (HR@10) and privacy cost.

    HR@10 is the share of people whose left-out item is among the ten best of those it is ranked
    against. Devices also use tags and the order of a history, which costs no report; the model
    alone is shown beside. With a budget the planner chooses all settings that you do not give. The
    defaults shown are those of `loudest` without a budget; `--mechanism coordinate` has the
    paper's.

    \b
    Examples:
      sottovoce simulate
      sottovoce simulate --data ml-1m --budget 50 --seeds 5
      sottovoce simulate --data ml-20m --central-budget 1 --json run.json --plot curve.png
      sottovoce simulate --data ml-20m --resample 10000000 --epsilon 4 --reports 1 --lifetime 1
      sottovoce simulate --data ratings.parquet --items films.csv --split latest
      sottovoce simulate --data ratings.parquet --split date
      sottovoce simulate --data ml-1m --mechanism coordinate --no-tags
      sottovoce simulate --data ratings.shards --engine ray --ray-workers 8
      sottovoce simulate --data ml-latest-small --min-interactions 20 --replay 5
      sottovoce simulate --data ratings.parquet --budget 50 --replay 40
      sottovoce simulate --data ratings.parquet --replay 40 --half-life 7 --switch-at 20
    """
    unfit = {
        f"--split {split.value}": split is not SplitOption.random,
        "--negatives 0": negatives == 0,
        "--resample": resample is not None,
        "--evaluate-every": evaluate_every != 1,
        "--checkpoint": checkpoint is not None,
    }
    replaying.refuse_what_does_not_fit(
        replay, switch_at, [name for name, given in unfit.items() if given]
    )
    spend = Budget.of(budget, central_budget)
    chosen = _load(data, columns, items, min_interactions, (sample_users, sample_items), seed)
    has_no_end = replay is not None and "half_life" not in training
    settings = (planned_without_end if has_no_end else planned)(
        resample or chosen.n_users,
        chosen.n_items,
        history=history or chosen.typical_length,
        preset=preset,
        budget=spend,
        **training,
        seed=seed,
    )
    if replay is not None:
        chosen_plan = ReplayPlan(
            settings,
            negatives,
            tags=tags,
            time=time is not False,
            engine=engine.pop("engine"),
            engine_options=engine,
        )
        in_memory = chosen.joined() if isinstance(chosen, Shards) else chosen
        _replay(replay_seeds(in_memory, replay, switch_at, chosen_plan, seeds), json, plot)
        return
    plan = SimulationPlan(
        settings,
        split.value,
        negatives,
        engine=engine.pop("engine"),
        engine_options=engine,
        evaluate_every=evaluate_every,
        tags=tags,
        time=time,
        resample=resample,
        coverage=True,
    )
    runs = [_one(chosen, plan, seed + offset, checkpoint) for offset in range(seeds)]
    _print(chosen, runs)
    if json is not None:
        output.write_json(json, as_json(chosen, runs))
    if plot is not None:
        epsilon = shown(settings.epsilon, 6)
        title = f"{chosen.name}: {settings.mechanism}, eps {epsilon}, k {settings.reports}"
        if runs[0].known:
            title += f"; devices know {runs[0].known}"
        if resample is not None:
            title += f"\n{resample:,} people resampled from {chosen.n_users:,}"
        save_figure(
            plot, lambda figure: output.draw_learning_curve(figure, _curve(runs), title, settings)
        )


def _replay(found: Replayed, json: Path | None, plot: Path | None) -> None:
    replaying.print_replay(found)
    if json is not None:
        output.write_json(json, replaying.as_json(found))
    if plot is not None:
        save_figure(plot, lambda figure: replaying.draw_replay(figure, found))


def _load(
    source: str,
    columns: str | None,
    items: Path | None,
    minimum: int | None,
    sample: tuple[int | None, int | None],
    seed: int,
) -> Interactions | Shards:
    folder = shards_at(source)
    if folder:
        return _shards(folder, is_changed=any((columns, items, minimum, *sample)))
    with output.messages.status(f"reading {output.plain(source)}"):
        data = load(source, parse_columns(columns), items)
        if minimum is None:
            minimum = 0 if source.startswith(SYNTHETIC) else DEFAULT_MINIMUM
        data = data.filter(minimum)
        if sample != (None, None):
            data = data.subset(users=sample[0], items=sample[1], seed=seed)
    return data


def _shards(folder: Path, *, is_changed: bool) -> Shards:
    """People part by part; what they are was settled when the shards were made."""
    if is_changed:
        raise SettingsError(
            f"{folder} is made of shards: --columns, --items and --min-interactions are for "
            "`sottovoce data shard`, which makes them, and nobody can be sampled out of them"
        )
    return Shards.read(folder)


def _one(
    data: Interactions | Shards, plan: SimulationPlan, seed: int, checkpoint: Path | None
) -> Run:
    plan = replace(plan, settings=replace(plan.settings, seed=seed))
    file = checkpoint / f"seed-{seed}.safetensors" if checkpoint else None
    with output.EpochBar(f"seed {seed}", plan.settings) as bar:
        return run_simulation(data, plan, checkpoint=file, on_epoch=bar.show)


def _print(data: Interactions | Shards, runs: list[Run]) -> None:
    plan = runs[0].plan
    against = output.rivals(plan.negatives, data.untouched)
    output.results.print(
        f"{output.plain(data.name)}: {data.n_users:,} users x {data.n_items:,} items, "
        f"{data.n_interactions:,} interactions; {plan.split} split against {against}",
        soft_wrap=True,
    )
    output.warn_of_few_candidates(plan.negatives, data.untouched)
    output.results.print(output.settings_in_words(plan.settings), soft_wrap=True)
    if plan.tags and data.tags is not None:
        counted = tags_of(data.tags.tolist()).by_kind()
        output.results.print(f"Tags that devices recommend with: {counted}.", soft_wrap=True)
    about = runs[0].about_people()
    if about:
        output.results.print(about, soft_wrap=True)
    over = f"{len(runs)} seeds, 95% interval" if len(runs) > 1 else "one seed"
    known, mechanism = runs[0].known, plan.settings.mechanism
    columns = {f"{mechanism} with {known}" if known else mechanism: _final(runs)}
    if known:
        columns[f"{mechanism} alone"] = _mean([run.without for run in runs])
        columns[f"popularity with {known}, not private"] = _mean(
            [run.known_popularity for run in runs]
        )
    columns["popularity, not private"] = _mean([run.popularity for run in runs])
    table = Table("metric", *output.right(*columns), caption=over, caption_justify="left")
    for name in _final(runs):
        table.add_row(name.upper(), *(str(metrics[name]) for metrics in columns.values()))
    output.results.print(table)
    output.results.print(_account(runs).statement(), soft_wrap=True)


def _account(runs: list[Run]) -> Account:
    """Of the run with the smallest crowd."""
    return min(runs, key=lambda run: run.crowd).account


def _final(runs: list[Run]) -> dict[str, Interval]:
    return _mean([run.final for run in runs])


def _mean(metrics: list[dict[str, float]]) -> dict[str, Interval]:
    return {name: Interval.of([each[name] for each in metrics]) for name in metrics[0]}


def _means(metrics: list[dict[str, float]]) -> dict[str, float]:
    return {name: interval.mean for name, interval in _mean(metrics).items()}


def _curve(runs: list[Run]) -> dict[int, Interval]:
    """HR at the largest cutoff, by epoch."""
    name = f"hr@{max(CUTOFFS)}"
    return {
        records[0]["epoch"]: Interval.of([record[name] for record in records])
        for records in zip(*(run.epochs for run in runs), strict=True)
        if name in records[0]
    }


def as_json(data: Interactions | Shards, runs: list[Run]) -> dict[str, Any]:
    """The design's layout; with several seeds the means, and every run beside them."""
    plan, final = runs[0].plan, _final(runs)
    mean_epochs = []
    for records in zip(*(run.epochs for run in runs), strict=True):
        names = [name for name in records[0] if name != "epoch"]
        means = {name: Interval.of([r[name] for r in records]).mean for name in names}
        mean_epochs.append({"epoch": records[0]["epoch"], **means})
    out: dict[str, Any] = {
        "data": data.summary(),
        "people": runs[0].about_people(),
        "settings": {
            **plan.settings.as_dict(),
            "split": plan.split,
            "negatives": plan.negatives,
            "known": runs[0].known,
            "engine": plan.engine,
            "resample": plan.resample,
            "seeds": [run.plan.settings.seed for run in runs],
        },
        "epochs": mean_epochs,
        "final": {name: interval.mean for name, interval in final.items()},
        "without": _means([run.without for run in runs]),
        "popularity": _means([run.popularity for run in runs]),
        "known_popularity": _means([run.known_popularity for run in runs]),
        "privacy": _account(runs).as_dict(),
        "seconds": {name: sum(run.seconds[name] for run in runs) for name in runs[0].seconds},
    }
    if len(runs) > 1:
        out["interval95"] = {name: interval.half_width for name, interval in final.items()}
        out["runs"] = [
            {"seed": run.plan.settings.seed, "epochs": run.epochs, "final": run.final}
            for run in runs
        ]
    return out

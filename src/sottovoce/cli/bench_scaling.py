"""`sottovoce bench scaling`: what more threads and more processes are worth."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 -- typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

from sottovoce.cli import output
from sottovoce.cli.bench_people import (
    SYNTHETIC,
    Quick,
    RayWorkers,
    Repeats,
    mechanisms_given,
    people_in_words,
    read_people,
    rounds,
)
from sottovoce.cli.options import (
    DataSource,
    HistoryColumns,
    JsonFile,
    Mechanisms,
    MinInteractions,
    Threads,
    picture_option,
    training_options,
)
from sottovoce.experiments.bench.picture import draw_scaling
from sottovoce.experiments.bench.scaling import ScalingPlan, ScalingResult, run_scaling

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


@training_options(only=["factors", "epsilon", "reports", "seed"])
def scaling(
    *,
    data: DataSource = SYNTHETIC,
    columns: HistoryColumns = None,
    min_interactions: MinInteractions = 0,
    training: dict[str, Any],
    mechanism: Mechanisms = None,
    repeats: Repeats = 5,
    threads: Threads = None,
    ray_workers: RayWorkers = None,
    json_file: JsonFile = None,
    plot: Annotated[Path | None, picture_option("efficiency by threads")] = None,
    quick: Quick = False,
) -> None:
    """Time one epoch on 1, 2, 4, ... threads of the cpu engine and processes of Ray.

    Strong scaling: the same people each time. Weak scaling: the same number of people for each
    thread. Efficiency is the work of a thread in a second, relative to a single thread in the same
    round; 1 is best.

    \b
    Examples:
      sottovoce bench scaling --quick
      sottovoce bench scaling --data netflix-75k.parquet --plot scaling.png
      sottovoce bench scaling --threads 8 --ray-workers 4 --json scaling.json
    """
    plan = ScalingPlan(
        **training,
        **mechanisms_given(mechanism),
        repeats=rounds(repeats, quick=quick),
        threads=threads,
        ray_workers=ray_workers,
    )
    with output.messages.status(f"reading {output.plain(data)}") as status:
        people = read_people(data, columns, min_interactions, plan.seed, quick=quick)
        result = run_scaling(people, plan, lambda what: status.update(output.plain(what)))
    show(result, output.results)
    if json_file:
        output.write_json(json_file, result.as_dict())
    if plot:
        draw_scaling(result, plot)


def show(result: ScalingResult, console: Console) -> None:
    plan = result.plan
    console.print(
        f"{people_in_words(result.data)} {plan.factors} factors, {plan.reports} reports, "
        f"{plan.repeats} rounds: median (least..most).",
    )
    for name in dict.fromkeys(each.mechanism for each in result.scalings):
        console.print(_table(name, result))
    for what, why in result.left_out.items():
        output.say(f"Left out: {what}: {why}.")
    console.print(
        "Efficiency: work a second of each thread or process, over that of one alone in the same "
        "round. Speed-up: efficiency times how many there are. Others on the machine take cores "
        "away from many threads, and none from one.",
    )


def _table(mechanism: str, result: ScalingResult) -> Table:
    table = output.table(
        f"Scaling, {mechanism}", "scaling", "on", "people", "efficiency", "speed-up"
    )
    for each in result.scalings:
        for point in each.points if each.mechanism == mechanism else []:
            table.add_row(
                each.kind,
                f"{point.count} {each.over.removesuffix('s' if point.count == 1 else '')}",
                f"{point.people:,}",
                output.spread(point.efficiency),
                f"{point.speedup:.2f}",
            )
    return table

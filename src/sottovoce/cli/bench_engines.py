"""`sottovoce bench engines`: the same epoch on every engine that can run here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.cli import output
from sottovoce.cli.bench_people import (
    QUICK_SAMPLE,
    SYNTHETIC,
    Quick,
    RayWorkers,
    ReferenceUsers,
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
    training_options,
)
from sottovoce.experiments.bench.engines import EnginesPlan, EnginesResult, run_engines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from sottovoce.experiments.bench.engines import SideBySide


@training_options(only=["factors", "epsilon", "reports", "seed"])
def engines(
    *,
    data: DataSource = SYNTHETIC,
    columns: HistoryColumns = None,
    min_interactions: MinInteractions = 0,
    training: dict[str, Any],
    mechanism: Mechanisms = None,
    repeats: Repeats = 5,
    ray_workers: RayWorkers = None,
    parts: Annotated[
        int, typer.Option(help="Number of parts in which people are streamed.", min=2)
    ] = 8,
    reference_users: ReferenceUsers = 200,
    json_file: JsonFile = None,
    quick: Quick = False,
) -> None:
    """Time one epoch of the same people on every engine: cpu, streamed, ray, cuda, reference.

    First all engines must give the same sums, to the bit; otherwise nothing is timed. Then they
    take turns, and times are compared within a round. An engine that cannot run here is named with
    the reason. One item of each person is left out, as in a simulation.

    \b
    Examples:
      sottovoce bench engines --quick
      sottovoce bench engines --data netflix-75k.parquet --factors 16 --mechanism loudest
      sottovoce bench engines --ray-workers 4 --parts 16 --json engines.json
    """
    sample = min(reference_users, QUICK_SAMPLE) if quick else reference_users
    plan = EnginesPlan(
        **training,
        **mechanisms_given(mechanism),
        repeats=rounds(repeats, quick=quick),
        ray_workers=ray_workers,
        parts=parts,
        reference_users=sample,
    )
    with output.messages.status(f"reading {output.plain(data)}") as status:
        people = read_people(data, columns, min_interactions, plan.seed, quick=quick)
        result = run_engines(people, plan, lambda what: status.update(output.plain(what)))
    show(result, output.results)
    if json_file:
        output.write_json(json_file, result.as_dict())


def show(result: EnginesResult, console: Console) -> None:
    plan = result.plan
    console.print(
        f"{people_in_words(result.data)} {plan.factors} factors, {plan.reports} reports, epsilon "
        f"{plan.epsilon:g}, {plan.repeats} rounds: median (least..most). All give the same sums.",
    )
    for each in result.mechanisms:
        console.print(_table(each))
        for engine, why in each.left_out.items():
            output.say(f"Left out: {engine}: {why}.")
    console.print(
        "An epoch: everybody's vector and reports, the estimate and the update; no evaluation. "
        "Streamed: parts are views of what is in memory, shards are read from disk and split "
        "again every time. The reference is numpy in one process, "
        f"{min(plan.reference_users, result.data['users']):,} users drawn at random, extrapolated "
        "to all. A million people: such people, extrapolated.",
    )


def _table(found: SideBySide) -> Table:
    table = output.table(
        f"One epoch, {found.mechanism}", "engine", "client-epochs / s",
        "time / cpu, all threads", "s for a million people",
    )  # fmt: skip
    for way in found.ways:
        table.add_row(
            way.name,
            f"{way.client_epochs_per_second.median:,.0f}",
            output.spread(way.over_cpu),
            output.spread(way.seconds_per_million),
        )
    return table

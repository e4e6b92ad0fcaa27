"""`sottovoce bench`: how fast an epoch is, as ratios that hold on a busy machine."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 -- typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.cli import output
from sottovoce.cli.bench_engines import engines
from sottovoce.cli.bench_live import live
from sottovoce.cli.bench_peers import peers
from sottovoce.cli.bench_people import (
    QUICK_ROUNDS,
    QUICK_SAMPLE,
    QUICK_USERS,
    SYNTHETIC,
    ReferenceUsers,
    Repeats,
    mechanisms_given,
    people_in_words,
    read_people,
    rounds,
)
from sottovoce.cli.bench_roofline import roofline
from sottovoce.cli.bench_scaling import scaling
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
from sottovoce.errors import SettingsError
from sottovoce.experiments.bench import BenchPlan, BenchResult, run_bench
from sottovoce.experiments.bench.picture import draw_growth

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

app = typer.Typer(name="bench", invoke_without_command=True, add_completion=False)


@app.callback()
@training_options(only=["factors", "epsilon", "reports", "seed"])
def bench(
    context: typer.Context,
    *,
    data: DataSource = SYNTHETIC,
    columns: HistoryColumns = None,
    min_interactions: MinInteractions = 0,
    training: dict[str, Any],
    mechanism: Mechanisms = None,
    repeats: Repeats = 5,
    threads: Threads = None,
    growth: Annotated[
        bool,
        typer.Option(
            "--growth/--no-growth",
            help="Also time with fewer people and items, and other numbers of reports.",
        ),
    ] = True,
    reference_users: ReferenceUsers = 200,
    json_file: JsonFile = None,
    plot: Annotated[Path | None, picture_option("the growth curves")] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help=f"Take at most {QUICK_USERS:,} people, {QUICK_ROUNDS} rounds and {QUICK_SAMPLE} "
            "people in the reference.",
        ),
    ] = False,
) -> None:
    """Time one epoch of each mechanism against one ALS iteration and the numpy reference.

    After a warm-up the contenders take turns, in an order that rotates. Shown are the median and
    the range over all rounds of the ratio of two times in one round: unlike seconds, it hardly
    depends on the machine and its other work.

    \b
    Examples:
      sottovoce bench --quick
      sottovoce bench --data ml-1m --min-interactions 60 --json bench.json --plot bench.png
      sottovoce bench --mechanism loudest --factors 16 --threads 1 --no-growth
    """
    if context.invoked_subcommand:
        return
    if plot and not growth:
        raise SettingsError("--plot draws the growth curves: leave out --no-growth")
    plan = BenchPlan(
        **training,
        **mechanisms_given(mechanism),
        repeats=rounds(repeats, quick=quick),
        threads=threads,
        growth=growth,
        reference_users=min(reference_users, QUICK_SAMPLE) if quick else reference_users,
    )
    with output.messages.status(f"reading {output.plain(data)}") as status:
        people = read_people(data, columns, min_interactions, plan.seed, quick=quick)
        result = run_bench(people, plan, lambda what: status.update(output.plain(what)))
    show(result, output.results)
    if json_file:
        output.write_json(json_file, result.as_dict())
    if plot:
        draw_growth(result, plot)


app.command("engines")(engines)
app.command("scaling")(scaling)
app.command("roofline")(roofline)
app.command("live")(live)
app.command("peers")(peers)


def show(result: BenchResult, console: Console) -> None:
    data, plan = result.data, result.plan
    console.print(
        f"{people_in_words(data)} {plan.factors} factors, {plan.reports} reports, "
        f"{result.threads} threads, {plan.repeats} rounds: median (least..most).",
    )
    console.print(_ratios(result))
    console.print(
        "ALS: one iteration of implicit, users and items, "
        f"{result.als_solver}, OpenBLAS on one thread; setup not counted.\n"
        f"Reference: numpy, one process, {min(plan.reference_users, data['users']):,} users drawn "
        "at random, extrapolated to all.",
    )
    console.print(_work(result))
    console.print(
        f"Counted from the algorithm, not measured. Reading: part of the epoch that reading the "
        f"histories once would take at {result.copy_bytes_per_second / 1e9:.1f} GB/s, one "
        "thread's copy speed here.",
    )
    if result.growth:
        console.print(_growth(result))
    memory = result.memory
    console.print(
        f"Peak memory of the process: {output.megabytes(memory.loaded)} with the data loaded, "
        f"{output.megabytes(memory.epochs)} after an epoch of each mechanism, "
        f"{output.megabytes(memory.all)} in the end, ALS and subsets included.",
    )


def _ratios(result: BenchResult) -> Table:
    table = output.table(
        "One epoch", "mechanism", "epoch / ALS iteration", "reference / epoch", "client-epochs / s"
    )
    for each in result.comparisons:
        table.add_row(
            each.mechanism,
            output.spread(each.epoch_over_als),
            output.spread(each.reference_over_epoch),
            output.spread(each.client_epochs_per_second),
        )
    return table


def _work(result: BenchResult) -> Table:
    table = output.table(
        "Work of one epoch", "mechanism", "index bytes", "table rows", "additions", "butterflies",
        "dense multiply-adds", "words", "operations / s", "reading",
    )  # fmt: skip
    for each in result.comparisons:
        work = each.work
        counts = (
            work.index_bytes, work.table_rows, work.additions, work.butterflies, work.dense,
            work.words, each.operations_per_second,
        )  # fmt: skip
        table.add_row(
            each.mechanism, *(f"{count:.2g}" for count in counts), f"{each.reading_share:.1%}"
        )
    return table


def _growth(result: BenchResult) -> Table:
    table = output.table(
        "Growth: exponent of the size, and of the interactions in it", "mechanism", "along",
        "sizes", "slope", "slope of interactions", "ns / interaction",
    )  # fmt: skip
    for each in result.growth:
        by_interactions = each.slope_of_interactions
        table.add_row(
            each.mechanism,
            each.axis,
            ", ".join(f"{point.size:,}" for point in each.points),
            output.spread(each.slope),
            output.spread(by_interactions) if by_interactions else "",
            ", ".join(f"{point.nanoseconds_per_interaction:.3g}" for point in each.points),
        )
    return table

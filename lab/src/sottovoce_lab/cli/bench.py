"""`sottovoce bench`: how fast an epoch and the live system are, as ratios.

Ratios of two times in one round hold on a busy machine; seconds do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from sottovoce.cli import output
from sottovoce.cli.options import (
    DataSource,
    HistoryColumns,
    JsonFile,
    Mechanisms,
    MinInteractions,
    Threads,
    optional,
    training_options,
)
from sottovoce.data import Interactions, load, parse_columns
from sottovoce_lab.bench.comparison import BenchPlan, BenchResult, run_bench
from sottovoce_lab.bench.engines import (
    EnginesPlan,
    EnginesResult,
    ScalingPlan,
    ScalingResult,
    SideBySide,
    run_engines,
    run_scaling,
)
from sottovoce_lab.bench.epoch import TimedPlan
from sottovoce_lab.bench.live.live_bench import (
    EpochCosts,
    LiveBenchPlan,
    LiveBenchResult,
    UnitCosts,
    run_live_bench,
)
from sottovoce_lab.bench.timing import Watch

SYNTHETIC = "synthetic:N=4000,M=1000,seed=0"
QUICK_USERS, QUICK_ROUNDS, QUICK_SAMPLE = 1000, 2, 20
QUICK_LIVE = LiveBenchPlan(repeats=2, chunk=5_000, batches=1_000)
PEOPLE = (10_000, 100_000, 1_000_000, 10_000_000)

Repeats = Annotated[
    int, typer.Option("--repeats", help="Number of rounds; each runs every contender once.", min=1)
]
ReferenceUsers = Annotated[
    int,
    typer.Option(
        "--reference-users",
        help="People for whom the numpy reference runs; its time is extrapolated to all.",
        min=1,
    ),
]
Quick = Annotated[
    bool,
    typer.Option(
        "--quick",
        help=f"Take at most {QUICK_USERS:,} people, {QUICK_ROUNDS} rounds, and {QUICK_SAMPLE} "
        "people in the reference.",
    ),
]
RayWorkers = Annotated[
    int | None,
    optional("Ray worker processes, one core each.", "as many as threads", "--ray-workers", min=1),
]
Plan = TypeVar("Plan", bound=TimedPlan)
Result = TypeVar("Result", BenchResult, EnginesResult, ScalingResult)

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
    quick: Quick = False,
) -> None:
    """Time one epoch of each mechanism against one ALS iteration and the numpy reference.

    After a warm-up the contenders take turns, in an order that rotates. Shown are the median and
    the range over all rounds of the ratio of two times in one round: unlike seconds, it hardly
    depends on the machine and its other work.

    \b
    Examples:
      sottovoce bench --quick
      sottovoce bench --data ml-1m --min-interactions 60 --json bench.json
      sottovoce bench --mechanism loudest --factors 16 --threads 1 --no-growth
    """
    if context.invoked_subcommand:
        return
    plan = BenchPlan(
        **training,
        **_mechanisms(mechanism),
        repeats=_few(repeats, QUICK_ROUNDS, quick=quick),
        threads=threads,
        growth=growth,
        reference_users=_few(reference_users, QUICK_SAMPLE, quick=quick),
    )
    people = data, columns, min_interactions
    show_comparison(_measured(run_bench, plan, people, json_file, quick=quick))


@app.command()
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
    plan = EnginesPlan(
        **training,
        **_mechanisms(mechanism),
        repeats=_few(repeats, QUICK_ROUNDS, quick=quick),
        ray_workers=ray_workers,
        parts=parts,
        reference_users=_few(reference_users, QUICK_SAMPLE, quick=quick),
    )
    people = data, columns, min_interactions
    show_engines(_measured(run_engines, plan, people, json_file, quick=quick))


@app.command()
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
    quick: Quick = False,
) -> None:
    """Time one epoch on 1, 2, 4, ... threads of the cpu engine and processes of Ray.

    Strong scaling: the same people each time. Weak scaling: the same number of people for each
    thread. Efficiency is the work of a thread in a second, relative to a single thread in the same
    round; 1 is best.

    \b
    Examples:
      sottovoce bench scaling --quick
      sottovoce bench scaling --data netflix-75k.parquet --repeats 3
      sottovoce bench scaling --threads 8 --ray-workers 4 --json scaling.json
    """
    plan = ScalingPlan(
        **training,
        **_mechanisms(mechanism),
        repeats=_few(repeats, QUICK_ROUNDS, quick=quick),
        threads=threads,
        ray_workers=ray_workers,
    )
    people = data, columns, min_interactions
    show_scaling(_measured(run_scaling, plan, people, json_file, quick=quick))


@app.command()
def live(
    *,
    repeats: Annotated[int, typer.Option(help="Number of rounds.", min=1)] = LiveBenchPlan.repeats,
    processes: Annotated[
        int,
        typer.Option(
            help="Processes that open reports, measured beside one; 0 means one for each core.",
            min=0,
        ),
    ] = 0,
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="Really seal and open a million reports in the server; takes minutes."
        ),
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help=f"At most {QUICK_LIVE.repeats} rounds, chunks of {QUICK_LIVE.chunk:,} reports, "
            f"{QUICK_LIVE.batches:,} batches.",
        ),
    ] = False,
    reports: Annotated[int, typer.Option(help="Number of reports in a batch.", min=1)] = (
        LiveBenchPlan.reports
    ),
    items: Annotated[int, typer.Option(help="Number of items in the catalogue.", min=1)] = (
        LiveBenchPlan.items
    ),
    people: Annotated[
        list[int] | None,
        optional(
            "Number of people for whom to show what an epoch costs. May be repeated.",
            ", ".join(f"{n:,}" for n in PEOPLE),
            min=1,
        ),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Measure how fast a server opens reports and a proxy takes batches, their memory, and costs.

    Opening: raw X25519, `Suite.decrypt` and all that the server does with a chunk take turns; each
    is shown as a share of the raw rate in the same round. Intake: a real proxy process under load
    over loopback. Memory: of server and proxy, over an epoch of 10,000 batches (a million reports).
    Costs: core hours, bytes on disk and bytes sent in an epoch, computed from these measurements.

    \b
    Examples:
      sottovoce bench live --quick
      sottovoce bench live --full --json live.json
      sottovoce bench live --quick --reports 20 --people 50000
    """
    plan = replace(
        QUICK_LIVE if quick else LiveBenchPlan(),
        repeats=_few(repeats, QUICK_LIVE.repeats, quick=quick),
        processes=processes,
        full=full,
        reports=reports,
        items=items,
    )
    with output.messages.status("starting") as status:
        result = run_live_bench(plan, lambda what: status.update(output.plain(what)))
    show_live(result)
    costs = [result.units.of(number) for number in people or PEOPLE]
    show_costs(result.units, costs, output.results)
    if json_file:
        listed = [asdict(each) for each in costs]
        output.write_json(json_file, {**asdict(result), "costs": listed})


def _few(number: int, most: int, *, quick: bool) -> int:
    return min(number, most) if quick else number


def _mechanisms(named: list[str] | None) -> dict[str, Any]:
    """For a plan, which has all of them unless some are named."""
    return {"mechanisms": tuple(named)} if named else {}


def _measured(
    run: Callable[[Interactions, Plan, Watch], Result],
    plan: Plan,
    people: tuple[str, str | None, int],
    json_file: Path | None,
    *,
    quick: bool,
) -> Result:
    """Run on these people (data, columns, least interactions); show meanwhile what is done."""
    source, columns, least = people
    with output.messages.status(f"reading {output.plain(source)}") as status:
        data = load(source, parse_columns(columns)).filter(least)
        if quick and data.histories.n_users > QUICK_USERS:
            data = data.subset(users=QUICK_USERS, seed=plan.seed)
        result = run(data, plan, lambda what: status.update(output.plain(what)))
    if json_file:
        output.write_json(json_file, asdict(result))
    return result


def _people(data: dict[str, Any], plan: TimedPlan) -> str:
    return (
        f"{output.plain(data['name'])}: {data['users']:,} users x {data['items']:,} items, "
        f"{data['interactions']:,} interactions. {plan.factors} factors, {plan.reports} reports, "
        f"epsilon {plan.epsilon:g}, {plan.repeats} rounds: median (least..most)."
    )


def show_comparison(result: BenchResult) -> None:
    data, plan, memory, say = result.data, result.plan, result.memory, output.results.print
    say(f"{_people(data, plan)} {result.threads} threads.")
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
    say(table)
    say(
        "ALS: one iteration of implicit, users and items, "
        f"{result.als_solver}, OpenBLAS on one thread; setup not counted.\n"
        f"Reference: numpy, one process, {min(plan.reference_users, data['users']):,} users drawn "
        "at random, extrapolated to all.",
    )
    if result.growth:
        say(_growth(result))
    say(
        f"Peak memory of the process: {output.megabytes(memory.loaded)} with the data loaded, "
        f"{output.megabytes(memory.epochs)} after an epoch of each mechanism, "
        f"{output.megabytes(memory.all)} in the end, ALS and subsets included.",
    )


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


def show_engines(result: EnginesResult) -> None:
    plan, say = result.plan, output.results.print
    say(f"{_people(result.data, plan)} All give the same sums.")
    for each in result.mechanisms:
        say(_side_by_side(each))
        for engine, why in each.left_out.items():
            output.say(f"Left out: {engine}: {why}.")
    say(
        "An epoch: everybody's vector and reports, the estimate and the update; no evaluation. "
        "Streamed: parts are views of what is in memory, shards are read from disk and split "
        "again every time. The reference is numpy in one process, "
        f"{min(plan.reference_users, result.data['users']):,} users drawn at random, extrapolated "
        "to all. A million people: such people, extrapolated.",
    )


def _side_by_side(found: SideBySide) -> Table:
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


def show_scaling(result: ScalingResult) -> None:
    say = output.results.print
    say(_people(result.data, result.plan))
    for name in dict.fromkeys(each.mechanism for each in result.scalings):
        say(_scaling(name, result))
    for what, why in result.left_out.items():
        output.say(f"Left out: {what}: {why}.")
    say(
        "Efficiency: work a second of each thread or process, over that of one alone in the same "
        "round. Speed-up: efficiency times how many there are. Others on the machine take cores "
        "away from many threads, and none from one.",
    )


def _scaling(mechanism: str, result: ScalingResult) -> Table:
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


def show_live(result: LiveBenchResult) -> None:
    plan, intake, counting, core = result.plan, result.intake, result.counting, result.core
    say = output.results.print
    say(
        f"{result.cores} cores, {plan.repeats} rounds: median (least..most). Chunks of "
        f"{plan.chunk:,} reports, batches of {plan.reports}.",
    )
    say(_opening(result))
    say(
        "X25519: an exchange with a key that is ready, the most a core can do; from bytes: with "
        "one that is read first. Suite.decrypt: HPKE alone. Server: open, check, count, sync. By "
        f"CPU time, without others on the machine: {output.spread(core.per_second)} / s of a core, "
        f"{output.spread(core.of_raw)} of X25519.",
    )
    say(_intake(result))
    say(
        f"{intake.batches:,} batches of {intake.reports_each} reports over 64 kept connections, "
        "each acknowledged after a sync. A core: by CPU time of the proxy's process. Sender busy: "
        "part of the time that it was on a core; at 1 it would be what was measured.",
    )
    say(_memory(result))
    how = "opened for real" if counting.opened_for_real else "opening stubbed"
    say(
        f"Resident memory over an epoch of {counting.reports:,} reports at the server ({how}) and "
        f"{intake.batches * intake.reports_each:,} at the proxy, from batches to chunks."
        + ("" if counting.opener is None else f" One opener: {output.megabytes(counting.opener)}."),
    )


def _opening(result: LiveBenchResult) -> Table:
    table = output.table("Opening, in P processes", "what", "P", "reports / s", "of X25519")
    for rate in result.opening:
        table.add_row(
            rate.what,
            str(rate.processes),
            output.spread(rate.per_second),
            output.spread(rate.of_raw),
        )
    return table


def _intake(result: LiveBenchResult) -> Table:
    intake = result.intake
    table = output.table("Intake of the proxy", "", "")
    table.show_header = False
    for label, spread in (
        ("batches / s of a core", intake.per_cpu_second),
        ("mixed and handed in / s of a core", intake.mixed_per_cpu_second),
        ("batches / s by the clock", intake.per_second),
        ("batches that share a sync", intake.per_sync),
        ("sender busy", intake.sender_busy),
    ):
        table.add_row(label, output.spread(spread))
    return table


def _memory(result: LiveBenchResult) -> Table:
    table = output.table("Memory", "process", "when ready", "at most", "grown by")
    largest = max(result.intake.memory, key=lambda memory: memory.most)
    for name, memory in (("proxy", largest), ("server", result.counting.memory)):
        sizes = memory.start, memory.most, memory.most - memory.start
        table.add_row(name, *(output.megabytes(size) for size in sizes))
    return table


def show_costs(units: UnitCosts, costs: list[EpochCosts], console: Console) -> None:
    """A column for each number of people: so the numbers are whole in 80 columns."""
    table = output.table("An epoch costs", "people", *(f"{each.people:,}" for each in costs))
    for label, shown in (
        ("reports", [f"{each.reports:,}" for each in costs]),
        ("server", [f"{each.server_core_hours:.3g} h" for each in costs]),
        ("proxy", [f"{each.proxy_core_hours:.3g} h" for each in costs]),
        ("up", [gigabytes(each.up) for each in costs]),
        ("down", [gigabytes(each.down) for each in costs]),
        ("proxy's disk", [gigabytes(each.proxy_disk) for each in costs]),
        ("server's disk", [gigabytes(each.server_disk) for each in costs]),
    ):
        table.add_row(label, *shown)
    console.print(table)
    console.print(
        f"Hours of one core of this machine, bytes of all together. A report costs the server "
        f"{units.opening * 1e6:.3g} us; a batch of {units.reports} costs the proxy "
        f"{units.intake * 1e6:.3g} us to take and {units.mixing * 1e6:.3g} us to mix and hand in. "
        f"A device sends {units.up:,} bytes and fetches {units.down:,} an epoch ({units.items:,} "
        f"items, not compressed), and {units.catalogue:,} for each version of the catalogue.",
    )


def gigabytes(size: int) -> str:
    """Never rounded to nothing."""
    return f"{size / 1e9:,.3g} GB" if size < 1e11 else f"{size / 1e9:,.0f} GB"

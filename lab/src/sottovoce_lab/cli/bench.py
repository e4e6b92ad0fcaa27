"""`sottovoce bench`: how fast an epoch and the live system are, as ratios.

Ratios of two times in one round hold on a busy machine; seconds do not.
"""

from dataclasses import asdict, replace
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from sottovoce.cli import output
from sottovoce.cli.options import (
    DataSource,
    HistoryColumns,
    JsonFile,
    MinInteractions,
    add_training_options,
    make_option,
)
from sottovoce.core import MECHANISMS
from sottovoce.data import load, parse_columns
from sottovoce.protocol import SEALED_BYTES
from sottovoce_lab.bench.epoch import BenchPlan, BenchResult, SideBySide, run_bench
from sottovoce_lab.bench.live.live_bench import (
    EpochCosts,
    LiveBenchPlan,
    LiveBenchResult,
    UnitCosts,
    run_live_bench,
)
from sottovoce_lab.cli import Mechanisms, median_and_range, megabytes, number_table

SYNTHETIC = "synthetic:N=4000,M=1000,seed=0"
QUICK_USERS, QUICK_ROUNDS, QUICK_SAMPLE = 1000, 2, 20
QUICK_LIVE = LiveBenchPlan(repeats=2, chunk=5_000, batches=1_000)
PEOPLE = (10_000, 100_000, 1_000_000, 10_000_000)

app = typer.Typer(name="bench", invoke_without_command=True, add_completion=False)


@app.callback()
@add_training_options(only=["factors", "epsilon", "reports", "seed"])
def bench(
    context: typer.Context,
    *,
    data: DataSource = SYNTHETIC,
    columns: HistoryColumns = None,
    min_interactions: MinInteractions = 0,
    training: dict[str, Any],
    mechanism: Mechanisms = None,
    repeats: Annotated[
        int, typer.Option(help="Number of rounds; each runs every contender once.", min=1)
    ] = 5,
    ray_workers: Annotated[
        int | None,
        make_option("Ray worker processes, one core each.", "one for each core", min=1),
    ] = None,
    parts: Annotated[
        int, typer.Option(help="Number of parts in which people are streamed.", min=2)
    ] = 8,
    reference_users: Annotated[
        int,
        typer.Option(
            help="People for whom the numpy reference runs; its time is extrapolated to all.",
            min=1,
        ),
    ] = 200,
    json_file: JsonFile = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help=f"Take at most {QUICK_USERS:,} people, {QUICK_ROUNDS} rounds, and {QUICK_SAMPLE} "
            "people in the reference.",
        ),
    ] = False,
) -> None:
    """Time one epoch of the same people on every engine, and one ALS iteration of implicit.

    First all engines (cpu, streamed, ray, cuda, reference) must give the same sums, to the bit;
    otherwise nothing is timed. Then they take turns, in an order that rotates. Shown are the median
    and the range over all rounds of the ratio of two times in one round: unlike seconds, it hardly
    depends on the machine and its other work. What cannot run here is named with the reason.

    \b
    Examples:
      sottovoce bench --quick
      sottovoce bench --data ml-1m --min-interactions 60 --json bench.json
      sottovoce bench --data netflix-75k.parquet --factors 16 --mechanism loudest --ray-workers 4
    """
    if context.invoked_subcommand:
        return
    plan = BenchPlan(
        **training,
        mechanisms=tuple(mechanism or MECHANISMS),
        repeats=_few(repeats, QUICK_ROUNDS, quick=quick),
        ray_workers=ray_workers,
        parts=parts,
        reference_users=_few(reference_users, QUICK_SAMPLE, quick=quick),
    )
    with output.messages.status(f"reading {output.escape_markup(data)}") as status:
        people = load(data, parse_columns(columns)).filter(min_interactions)
        if quick and people.n_users > QUICK_USERS:
            people = people.subset(users=QUICK_USERS, seed=plan.seed)
        result = run_bench(people, plan, lambda what: status.update(output.escape_markup(what)))
    show_bench(result)
    output.write_json(json_file, asdict(result))


@app.command()
def live(
    *,
    repeats: Annotated[int, typer.Option(help="Number of rounds.", min=1)] = LiveBenchPlan.repeats,
    processes: Annotated[
        int,
        typer.Option(
            help="Processes that open reports, compared with one; 0 means one for each core.",
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
        make_option(
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
        result = run_live_bench(plan, lambda what: status.update(output.escape_markup(what)))
    show_live(result)
    costs = [result.units.of(number) for number in people or PEOPLE]
    show_costs(result.units, costs, output.results)
    if json_file:
        listed = [asdict(each) for each in costs]
        output.write_json(json_file, {**asdict(result), "costs": listed})


def _few(number: int, most: int, *, quick: bool) -> int:
    return min(number, most) if quick else number


def show_bench(result: BenchResult) -> None:
    data, plan, say = result.data, result.plan, output.results.print
    say(
        f"{output.escape_markup(data['name'])}: {data['users']:,} users x {data['items']:,} items, "
        f"{data['interactions']:,} interactions. {plan.factors} factors, {plan.reports} reports, "
        f"epsilon {plan.epsilon:g}, {plan.repeats} rounds: median (least..most). All engines give "
        "the same sums."
    )
    for each in result.mechanisms:
        say(_side_by_side(each))
        for engine, why in each.left_out.items():
            output.print_line(f"Left out: {engine}: {why}.")
    say(
        "An epoch: everybody's vector and reports, the estimate and the update; no evaluation. "
        "Streamed: parts are views of what is in memory, shards are read from disk and split "
        "again every time. One item of each person is left out. The reference is numpy in one "
        f"process, {min(plan.reference_users, data['users']):,} users drawn at random, "
        "extrapolated to all. A million people: such people, extrapolated. ALS has the default "
        "solver, all threads and OpenBLAS on one; its setup is not counted.",
    )


def _side_by_side(found: SideBySide) -> Table:
    table = number_table(
        f"One epoch, {found.mechanism}", "engine", "client-epochs / s",
        "time / cpu, all threads", "s for a million people",
    )  # fmt: skip
    for way in found.ways:
        table.add_row(
            way.name,
            f"{way.client_epochs_per_second.median:,.0f}",
            median_and_range(way.over_cpu),
            median_and_range(way.seconds_per_million),
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
        "CPU time, without others on the machine: "
        f"{median_and_range(core.per_second)} / s of a core, "
        f"{median_and_range(core.of_raw)} of X25519.",
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
        + ("" if counting.opener is None else f" One opener: {megabytes(counting.opener)}."),
    )


def _opening(result: LiveBenchResult) -> Table:
    table = number_table("Opening, in P processes", "what", "P", "reports / s", "of X25519")
    for rate in result.opening:
        table.add_row(
            rate.what,
            str(rate.processes),
            median_and_range(rate.per_second),
            median_and_range(rate.of_raw),
        )
    return table


def _intake(result: LiveBenchResult) -> Table:
    intake = result.intake
    table = number_table("Intake of the proxy", "", "")
    table.show_header = False
    for label, spread in (
        ("dummies / s of a core", result.dummies),
        ("batches / s of a core", intake.per_cpu_second),
        ("mixed and handed in / s of a core", intake.mixed_per_cpu_second),
        ("batches / s by the clock", intake.per_second),
        ("batches that share a sync", intake.per_sync),
        ("sender busy", intake.sender_busy),
        ("tokens given / s of a core", result.tokens.issued),
        ("tokens redeemed / s of a core", result.tokens.redeemed),
        ("tokens made / s of a device's core", result.tokens.made),
    ):
        table.add_row(label, median_and_range(spread))
    return table


def _memory(result: LiveBenchResult) -> Table:
    table = number_table("Memory", "process", "when ready", "at most", "grown by")
    largest = max(result.intake.memory, key=lambda memory: memory.most)
    for name, memory in (("proxy", largest), ("server", result.counting.memory)):
        sizes = memory.start, memory.most, memory.most - memory.start
        table.add_row(name, *(megabytes(size) for size in sizes))
    return table


def show_costs(units: UnitCosts, costs: list[EpochCosts], console: Console) -> None:
    """A column for each number of people: so the numbers are whole in 80 columns."""
    table = number_table("An epoch costs", "people", *(f"{each.people:,}" for each in costs))
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
        f"A thousand dummies cost the proxy {units.dummy * 1e3:.3g} s to draw, seal and keep, a "
        f"thousand reports in such batches {units.intake / units.reports * 1e3:.3g} s to take; "
        f"from there on, and in bytes ({1000 * SEALED_BYTES:,}), they cost the same. "
        f"A device sends {units.up:,} bytes and fetches {units.down:,} an epoch ({units.items:,} "
        f"items, not compressed), and {units.catalogue:,} for each version of the catalogue.",
    )


def gigabytes(size: int) -> str:
    """Never rounded to nothing."""
    return f"{size / 1e9:,.3g} GB" if size < 1e11 else f"{size / 1e9:,.0f} GB"

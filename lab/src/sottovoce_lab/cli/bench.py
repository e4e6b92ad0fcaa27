"""`sottovoce bench`: the speed of an epoch and of the live system, as ratios.

The ratio of two durations of the same round hardly changes on a busy machine; durations do.
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
from sottovoce.data import load, parse_columns
from sottovoce.protocol import SEALED_BYTES
from sottovoce_lab.bench.epoch import (
    COMPILED_MECHANISMS,
    BenchPlan,
    BenchResult,
    EngineComparison,
    run_bench,
)
from sottovoce_lab.bench.live.intake import N_CONNECTIONS
from sottovoce_lab.bench.live.live_bench import (
    EpochCosts,
    LiveBenchPlan,
    LiveBenchResult,
    UnitCosts,
    run_live_bench,
)
from sottovoce_lab.cli import Mechanisms, format_megabytes, format_spread, make_number_table

DEFAULT_DATA = "synthetic:N=4000,M=1000,seed=0"
# Limits of `--quick`.
QUICK_USERS = 1000
QUICK_ROUNDS = 2
QUICK_REFERENCE_USERS = 20
QUICK_LIVE_PLAN = LiveBenchPlan(repeats=2, chunk=5_000, batches=1_000)
# Numbers of people for whom the costs of an epoch are shown.
DEFAULT_PEOPLE = (10_000, 100_000, 1_000_000, 10_000_000)

app = typer.Typer(name="bench", invoke_without_command=True, add_completion=False)


@app.callback()
@add_training_options(only=["factors", "epsilon", "reports", "seed"])
def bench(
    context: typer.Context,
    *,
    data: DataSource = DEFAULT_DATA,
    columns: HistoryColumns = None,
    min_interactions: MinInteractions = 0,
    training: dict[str, Any],
    mechanism: Mechanisms = None,
    repeats: Annotated[
        int, typer.Option(help="Number of rounds. Each round runs every engine once.", min=1)
    ] = 5,
    ray_workers: Annotated[
        int | None,
        make_option(
            "Number of Ray worker processes, each of which uses one core.",
            "one for each core",
            min=1,
        ),
    ] = None,
    parts: Annotated[
        int, typer.Option(help="Number of shards into which the people are divided.", min=2)
    ] = 8,
    reference_users: Annotated[
        int,
        typer.Option(
            help="Number of people for whom the numpy reference is timed; its time is extrapolated "
            "to all people.",
            min=1,
        ),
    ] = 200,
    json_file: JsonFile = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help=f"Use at most {QUICK_USERS:,} people, {QUICK_ROUNDS} rounds, and "
            f"{QUICK_REFERENCE_USERS} people for the reference.",
        ),
    ] = False,
) -> None:
    """Compare the speed of the engines, and of an ALS iteration of the package implicit.

    Every engine (cpu, streamed, ray, cuda, reference) computes one epoch of the same people. First,
    the command checks that the sums of all engines are equal, to the bit. Then the engines run in
    turn, in an order that changes from round to round. Results are ratios of two durations of the
    same round, with median and range over all rounds: unlike seconds, ratios hardly depend on the
    machine and its other work. Engines that cannot run here are listed with the reason.

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
        mechanisms=tuple(mechanism or COMPILED_MECHANISMS),
        repeats=min(repeats, QUICK_ROUNDS) if quick else repeats,
        ray_workers=ray_workers,
        parts=parts,
        reference_users=(min(reference_users, QUICK_REFERENCE_USERS) if quick else reference_users),
    )
    with output.messages.status(f"reading {output.escape_markup(data)}") as status:
        people = load(data, parse_columns(columns)).filter(min_interactions)
        if quick and people.n_users > QUICK_USERS:
            people = people.subset(users=QUICK_USERS, seed=plan.seed)
        result = run_bench(people, plan, lambda what: status.update(output.escape_markup(what)))
    print_bench(result)
    output.write_json(json_file, asdict(result))


@app.command()
def live(
    *,
    repeats: Annotated[int, typer.Option(help="Number of rounds.", min=1)] = LiveBenchPlan.repeats,
    processes: Annotated[
        int,
        typer.Option(
            help="Number of processes that decrypt reports, which are compared with one process; "
            "0: one for each core.",
            min=0,
        ),
    ] = 0,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Really encrypt and decrypt the million reports whose memory is measured at the "
            "server; takes minutes.",
        ),
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help=f"Use at most {QUICK_LIVE_PLAN.repeats} rounds, chunks of "
            f"{QUICK_LIVE_PLAN.chunk:,} reports, and {QUICK_LIVE_PLAN.batches:,} batches.",
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
            "Number of people for whom the costs of an epoch are computed. May be repeated.",
            ", ".join(f"{n:,}" for n in DEFAULT_PEOPLE),
            min=1,
        ),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Measure the speed and the memory of server and proxy, and compute the costs of an epoch.

    Opening (decrypting reports): X25519 alone, `Suite.decrypt`, and the server's whole work on a
    chunk. The three run in turn, and each is compared with X25519 in the same round. Intake: a real
    proxy process receives batches over loopback. Memory: server and proxy handle an epoch of 10,000
    batches (a million reports). Costs: hours of a core, bytes on disk and bytes sent in an epoch,
    computed from these measurements.

    \b
    Examples:
      sottovoce bench live --quick
      sottovoce bench live --full --json live.json
      sottovoce bench live --quick --reports 20 --people 50000
    """
    plan = replace(
        QUICK_LIVE_PLAN if quick else LiveBenchPlan(),
        repeats=min(repeats, QUICK_LIVE_PLAN.repeats) if quick else repeats,
        processes=processes,
        full=full,
        reports=reports,
        items=items,
    )
    with output.messages.status("starting") as status:
        result = run_live_bench(plan, lambda what: status.update(output.escape_markup(what)))
    print_live_bench(result)
    costs = [result.units.compute_epoch(number) for number in people or DEFAULT_PEOPLE]
    print_costs(result.units, costs, output.results)
    if json_file:
        content = {**asdict(result), "costs": [asdict(epoch) for epoch in costs]}
        output.write_json(json_file, content)


def print_bench(result: BenchResult) -> None:
    """Print the timings of all engines, and explain them."""
    data, plan, write = result.data, result.plan, output.results.print
    write(
        f"{output.escape_markup(data['name'])}: {data['users']:,} users x {data['items']:,} items, "
        f"{data['interactions']:,} interactions. {plan.factors} factors, {plan.reports} reports, "
        f"epsilon {plan.epsilon:g}, {plan.repeats} rounds: median (lowest..highest). All engines "
        "give the same sums."
    )
    for comparison in result.mechanisms:
        write(_tabulate_engines(comparison))
        for engine, reason in comparison.left_out.items():
            output.print_line(f"Left out: {engine}: {reason}.")
    write(
        "An epoch consists of the vectors and reports of all people, the estimate and the update, "
        "without evaluation. Streamed: parts are views of data in memory, and shards are read from "
        "disk and split again every time. One item of each person is left out. The reference is "
        f"numpy in one process, for {min(plan.reference_users, data['users']):,} users drawn at "
        "random, extrapolated to all. Times for a million people are extrapolated from these "
        "people. ALS uses the default solver and all threads, with OpenBLAS on one thread; its "
        "setup is not counted.",
    )


def _tabulate_engines(comparison: EngineComparison) -> Table:
    table = make_number_table(
        f"One epoch, {comparison.mechanism}", "engine", "client-epochs / s",
        "time / cpu, all threads", "s for a million people",
    )  # fmt: skip
    for timing in comparison.timings:
        table.add_row(
            timing.name,
            f"{timing.client_epochs_per_second.median:,.0f}",
            format_spread(timing.over_cpu),
            format_spread(timing.seconds_per_million),
        )
    return table


def print_live_bench(result: LiveBenchResult) -> None:
    """Print tables of opening, intake and memory, and explain them."""
    plan, intake, counting, core = result.plan, result.intake, result.counting, result.core
    write = output.results.print
    write(
        f"{result.cores} cores, {plan.repeats} rounds: median (lowest..highest). Chunks of "
        f"{plan.chunk:,} reports, batches of {plan.reports} reports.",
    )
    write(_tabulate_opening(result))
    write(
        "X25519: a key exchange with a parsed key, which bounds the speed of a core; from bytes: "
        "the key is parsed first. Suite.decrypt: HPKE alone. Server: decrypt, check, count and "
        "sync. By CPU time, which excludes other work on the machine, the server does "
        f"{format_spread(core.per_second)} reports / s of a core, which is "
        f"{format_spread(core.of_raw)} of X25519.",
    )
    write(_tabulate_intake(result))
    write(
        f"{intake.batches:,} batches of {intake.reports_each} reports over {N_CONNECTIONS} "
        "persistent connections, each acknowledged after a sync. Rates of a core use the CPU time "
        "of the proxy's process. Sender busy: share of the time in which the sender used a core; "
        "if it is near 1, the sender and not the proxy limited the speed.",
    )
    write(_tabulate_memory(result))
    how = "really decrypted" if counting.opened_for_real else "not decrypted"
    write(
        f"Resident memory over an epoch of {counting.reports:,} reports at the server ({how}) and "
        f"{intake.batches * intake.reports_each:,} at the proxy, from batches to chunks."
        + (
            ""
            if counting.opener is None
            else f" One decrypting process: {format_megabytes(counting.opener)}."
        ),
    )


def _tabulate_opening(result: LiveBenchResult) -> Table:
    table = make_number_table("Opening, in P processes", "what", "P", "reports / s", "of X25519")
    for rate in result.opening:
        table.add_row(
            rate.what,
            str(rate.processes),
            format_spread(rate.per_second),
            format_spread(rate.of_raw),
        )
    return table


def _tabulate_intake(result: LiveBenchResult) -> Table:
    intake = result.intake
    table = make_number_table("Intake of the proxy", "", "")
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
        ("tokens made / s of a device's core", result.tokens.created),
    ):
        table.add_row(label, format_spread(spread))
    return table


def _tabulate_memory(result: LiveBenchResult) -> Table:
    table = make_number_table("Memory", "process", "when ready", "at most", "grown by")
    largest = max(result.intake.memory, key=lambda memory: memory.peak)
    for name, memory in (("proxy", largest), ("server", result.counting.memory)):
        sizes = memory.start, memory.peak, memory.peak - memory.start
        table.add_row(name, *(format_megabytes(size) for size in sizes))
    return table


def print_costs(units: UnitCosts, costs: list[EpochCosts], console: Console) -> None:
    """Print the costs of an epoch, with a column for each number of people."""
    # Rows for people would be too wide for 80 columns.
    table = make_number_table("An epoch costs", "people", *(f"{epoch.people:,}" for epoch in costs))
    for label, cells in (
        ("reports", [f"{epoch.reports:,}" for epoch in costs]),
        ("server", [f"{epoch.server_core_hours:.3g} h" for epoch in costs]),
        ("proxy", [f"{epoch.proxy_core_hours:.3g} h" for epoch in costs]),
        ("up", [format_gigabytes(epoch.up) for epoch in costs]),
        ("down", [format_gigabytes(epoch.down) for epoch in costs]),
        ("proxy's disk", [format_gigabytes(epoch.proxy_disk) for epoch in costs]),
        ("server's disk", [format_gigabytes(epoch.server_disk) for epoch in costs]),
    ):
        table.add_row(label, *cells)
    console.print(table)
    console.print(
        f"Hours are of one core of this machine; bytes are of all devices. A report costs the "
        f"server "
        f"{units.opening * 1e6:.3g} us; a batch of {units.reports} costs the proxy "
        f"{units.intake * 1e6:.3g} us to take and {units.mixing * 1e6:.3g} us to mix and hand in. "
        f"A thousand dummies cost the proxy {units.dummy * 1e3:.3g} s to draw, seal and store, a "
        f"thousand reports in such batches {units.intake / units.reports * 1e3:.3g} s to take; "
        f"after that, and in bytes ({1000 * SEALED_BYTES:,}), they cost the same. "
        f"A device sends {units.up:,} bytes and fetches {units.down:,} an epoch ({units.items:,} "
        f"items, not compressed), and {units.catalogue:,} for each version of the catalogue.",
    )


def format_gigabytes(size: int) -> str:
    """Format bytes with at least three digits: a small number is not rounded to zero."""
    return f"{size / 1e9:,.3g} GB" if size < 1e11 else f"{size / 1e9:,.0f} GB"

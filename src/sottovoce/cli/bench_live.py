"""`sottovoce bench live`: how fast the live system is, beside what its cores can do at most."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from sottovoce.cli import output
from sottovoce.cli.options import JsonFile, optional
from sottovoce.experiments.live.bench.live_bench import (
    LiveBenchPlan,
    LiveBenchResult,
    run_live_bench,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from sottovoce.experiments.live.bench.costs import EpochCosts, UnitCosts
    from sottovoce.experiments.live.bench.process import ResidentMemory

PEOPLE = (10_000, 100_000, 1_000_000, 10_000_000)
QUICK = LiveBenchPlan(repeats=2, chunk=5_000, batches=1_000)


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
            help=f"At most {QUICK.repeats} rounds, chunks of {QUICK.chunk:,} reports, "
            f"{QUICK.batches:,} batches.",
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
        QUICK if quick else LiveBenchPlan(),
        repeats=min(repeats, QUICK.repeats) if quick else repeats,
        processes=processes,
        full=full,
        reports=reports,
        items=items,
    )
    with output.messages.status("starting") as status:
        result = run_live_bench(plan, lambda what: status.update(output.plain(what)))
    show(result, output.results)
    costs = [result.units.of(number) for number in people or PEOPLE]
    show_costs(result.units, costs, output.results)
    if json_file:
        listed = [asdict(each) for each in costs]
        output.write_json(json_file, {**result.as_dict(), "costs": listed})


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


def show(result: LiveBenchResult, console: Console) -> None:
    plan, intake, counting, core = result.plan, result.intake, result.counting, result.core
    console.print(
        f"{result.cores} cores, {plan.repeats} rounds: median (least..most). Chunks of "
        f"{plan.chunk:,} reports, batches of {plan.reports}.",
    )
    console.print(_opening(result))
    console.print(
        "X25519: an exchange with a key that is ready, the most a core can do; from bytes: with "
        "one that is read first. Suite.decrypt: HPKE alone. Server: open, check, count, sync. By "
        f"CPU time, without others on the machine: {output.spread(core.per_second)} / s of a core, "
        f"{output.spread(core.of_raw)} of X25519.",
    )
    console.print(_intake(result))
    console.print(
        f"{intake.batches:,} batches of {intake.reports_each} reports over 64 kept connections, "
        "each acknowledged after a sync. A core: by CPU time of the proxy's process. Sender busy: "
        "part of the time that it was on a core; at 1 it would be what was measured.",
    )
    console.print(_memory(result))
    how = "opened for real" if counting.opened_for_real else "opening stubbed"
    console.print(
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
        table.add_row(name, *_sizes(memory))
    return table


def _sizes(memory: ResidentMemory) -> tuple[str, str, str]:
    grown = memory.most - memory.start
    return output.megabytes(memory.start), output.megabytes(memory.most), output.megabytes(grown)

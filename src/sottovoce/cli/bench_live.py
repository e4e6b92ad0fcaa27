"""`sottovoce bench live`: how fast the live system is, beside what its cores can do at most."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from sottovoce.cli import output
from sottovoce.cli.options import JsonFile  # noqa: TC001 - typer reads the annotations
from sottovoce.experiments.live.bench.live_bench import (
    LiveBenchPlan,
    LiveBenchResult,
    run_live_bench,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from sottovoce.experiments.live.bench.process import ResidentMemory

QUICK = LiveBenchPlan(repeats=2, chunk=5_000, batches=1_000)


def live(
    *,
    repeats: Annotated[int, typer.Option(help="Number of rounds.", min=1)] = LiveBenchPlan.repeats,
    processes: Annotated[
        int,
        typer.Option(
            help="Processes that open reports, measured beside a single one; 0: one for each core.",
            min=0,
        ),
    ] = 0,
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="Really seal and open the server's million reports; takes minutes."
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
    json_file: JsonFile = None,
) -> None:
    """Measure how fast a server opens reports and a proxy takes batches, and their memory.

    Opening: raw X25519, `Suite.decrypt` and all that the server does with a chunk take turns; each
    is shown as a share of the raw rate in the same round. Intake: a real proxy process under load
    over loopback. Memory: of both, over an epoch of 10,000 batches, a million reports.

    Example: sottovoce bench live --quick

    Example: sottovoce bench live --full --json live.json
    """
    plan = replace(
        QUICK if quick else LiveBenchPlan(),
        repeats=min(repeats, QUICK.repeats) if quick else repeats,
        processes=processes,
        full=full,
    )
    with output.messages.status("starting") as status:
        result = run_live_bench(plan, lambda what: status.update(escape(what)))
    show(result, output.results)
    if json_file:
        output.write_json(json_file, result.as_dict())


def show(result: LiveBenchResult, console: Console) -> None:
    plan, intake, counting = result.plan, result.intake, result.counting
    console.print(
        f"{result.cores} cores, {plan.repeats} rounds: median (least..most). Chunks of "
        f"{plan.chunk:,} reports, batches of {plan.reports}.",
    )
    console.print(_opening(result))
    console.print(
        "X25519: an exchange with a key that is ready, the most a core can do; from bytes: with "
        "one that is read first. Suite.decrypt: HPKE alone. Server: open, check, count, sync.",
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

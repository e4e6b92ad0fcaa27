"""`sottovoce bench roofline`: how far each kernel is from what the machine allows."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 -- typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

from sottovoce.cli import output
from sottovoce.cli.bench_people import (
    SYNTHETIC,
    Quick,
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
from sottovoce.experiments.bench.picture import draw_roofline
from sottovoce.experiments.bench.roofline import RooflinePlan, RooflineResult, run_roofline

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from sottovoce.experiments.bench.limits import Limits


@training_options(only=["factors", "epsilon", "reports", "seed"])
def roofline(
    *,
    data: DataSource = SYNTHETIC,
    columns: HistoryColumns = None,
    min_interactions: MinInteractions = 0,
    training: dict[str, Any],
    mechanism: Mechanisms = None,
    repeats: Repeats = 5,
    threads: Threads = None,
    json_file: JsonFile = None,
    plot: Annotated[Path | None, picture_option("the roofline")] = None,
    quick: Quick = False,
) -> None:
    """Time each compiled loop alone, against the memory and the arithmetic of this machine.

    Bytes and operations are counted from the algorithm. The machine's limits (a copy of a large
    array, chains of multiply-adds, random words) are measured in the same rounds; the slowest of
    them sets what can be reached. Times are processor times, so that other programs do not count.

    \b
    Examples:
      sottovoce bench roofline --quick
      sottovoce bench roofline --data netflix-75k.parquet --factors 16 --plot roofline.png
      sottovoce bench roofline --mechanism loudest --threads 1 --json roofline.json
    """
    plan = RooflinePlan(
        **training,
        **mechanisms_given(mechanism),
        repeats=rounds(repeats, quick=quick),
        threads=threads,
    )
    with output.messages.status(f"reading {output.plain(data)}") as status:
        people = read_people(data, columns, min_interactions, plan.seed, quick=quick)
        result = run_roofline(people, plan, lambda what: status.update(output.plain(what)))
    show(result, output.results)
    if json_file:
        output.write_json(json_file, result.as_dict())
    if plot:
        draw_roofline(result, plot)


def show(result: RooflineResult, console: Console) -> None:
    plan = result.plan
    console.print(
        f"{people_in_words(result.data)} {plan.factors} factors, {plan.reports} reports, "
        f"{plan.repeats} rounds by processor time: median (least..most).",
    )
    console.print(_limits(result.limits, result.threads))
    console.print(_work(result))
    console.print(
        "Counted from the algorithm, not measured; of loudest, without the search among bins, "
        "which depends on the data. Bytes: every array once, as if tables stayed in a cache, and "
        "with a table's rows counted whenever they are looked up, as if none did.",
    )
    console.print(_points(result))
    console.print(
        "Attainable: bytes at the speed of a copy, floats and steps at that of multiply-adds "
        "rounded after each, words at that of drawing nothing else: the longest of them, with "
        "tables in a cache. Memory: part of the time that it would take with none of them there.",
    )


def _limits(limits: Limits, threads: int) -> Table:
    table = output.table(f"This machine, {threads} threads", "at most, in a second", "10^9")
    for label, value in (
        ("bytes copied, read and written, one thread", limits.copy_alone),
        ("bytes copied, read and written", limits.copy),
        ("float64 operations", limits.float64),
        ("float32 operations", limits.float32),
        ("float32 operations, fused (never used: they round once)", limits.fused),
        ("64-bit random words", limits.words),
    ):
        table.add_row(label, f"{value / 1e9:.3g}")
    return table


def _work(result: RooflineResult) -> Table:
    table = output.table(
        "Work", "kernel", "floats", "steps", "words", "bytes, cached", "bytes, not cached",
        "operations / byte",
    )  # fmt: skip
    for each in result.kernels:
        work = each.work
        counts = (work.floats, work.steps, work.words, each.least_bytes, each.most_bytes)
        low, high = each.intensity
        table.add_row(each.kernel, *(f"{count:.2g}" for count in counts), f"{high:.3g}, {low:.3g}")
    return table


def _points(result: RooflineResult) -> Table:
    table = output.table(
        "Roofline", "kernel", "10^9 / s", "attainable", "share", "bound by",
        "memory",
    )  # fmt: skip
    for each in result.kernels:
        table.add_row(
            each.kernel,
            f"{each.operations_per_second.median / 1e9:.3g}",
            f"{each.attainable.median / 1e9:.3g}",
            f"{each.share.median:.0%} ({each.share.low:.0%}..{each.share.high:.0%})",
            each.bound,
            f"{each.memory_share.median:.0%}",
        )
    return table

"""`sottovoce bench peers`: the same epoch in general simulators of federated learning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.cli import output
from sottovoce.cli.options import (
    DataSource,
    HistoryColumns,
    JsonFile,
    MinInteractions,
    Threads,
    training_options,
)
from sottovoce.data import load, parse_columns
from sottovoce.experiments.bench.peers import PeersPlan, PeersResult, run_peers

if TYPE_CHECKING:
    from rich.console import Console

WORKS = {
    "reference": "numpy reference",
    "cpu": "our compiled engine",
    "nothing": "nothing: zeros",
}


@training_options(only=["mechanism", "factors", "epsilon", "reports", "seed"])
def peers(
    *,
    data: DataSource = "synthetic:N=4000,M=1000,seed=0",
    columns: HistoryColumns = None,
    min_interactions: MinInteractions = 0,
    training: dict[str, Any],
    people: Annotated[
        int, typer.Option(help="People that the other simulators simulate, drawn at random.", min=1)
    ] = PeersPlan.people,
    repeats: Annotated[
        int, typer.Option(help="Number of rounds; each runs every contender once.", min=1)
    ] = PeersPlan.repeats,
    threads: Threads = None,
    json_file: JsonFile = None,
) -> None:
    """Time one epoch in Flower's and pfl's simulators, where installed, beside the cpu engine.

    All run the same algorithm with the same random words, and must give the same sums as the cpu
    engine. The other simulators run a sample of the people, the cpu engine all of them; compared
    are client-epochs per second within a round. Each runs three times: with the numpy reference,
    with our compiled engine for one person at a time, and with devices that compute nothing, which
    leaves the simulator's own work. Starting its processes is not counted.

    \b
    Examples:
      sottovoce bench peers --repeats 3
      sottovoce bench peers --people 1000 --reports 1 --json peers.json
    """
    plan = PeersPlan(**training, people=people, repeats=repeats, threads=threads)
    with output.messages.status(f"reading {output.plain(data)}") as status:
        everybody = load(data, parse_columns(columns)).filter(min_interactions)
        result = run_peers(everybody, plan, lambda what: status.update(output.plain(what)))
    show(result, output.results)
    if json_file:
        output.write_json(json_file, result.as_dict())


def show(result: PeersResult, console: Console) -> None:
    data, plan = result.data, result.plan
    console.print(
        f"{output.plain(data['name'])}: {data['users']:,} users x {data['items']:,} items. "
        f"{plan.mechanism}, {plan.factors} factors, {plan.reports} reports, {result.threads} "
        f"threads, {plan.repeats} rounds: median (least..most). The cpu engine simulates everybody "
        f"at {output.spread(result.ours)} client-epochs / s, peers {result.sample:,} of them.",
    )
    table = output.table(
        "One epoch elsewhere",
        "simulator",
        "a device computes",
        "client-epochs / s",
        "cpu engine / peer",
    )
    for each in result.rates:
        table.add_row(
            f"{each.peer} {each.version}",
            WORKS[each.work],
            output.spread(each.client_epochs_per_second),
            f"{output.spread(each.ours_over_peer)} x",
        )
    console.print(table)
    for name, install in result.left_out.items():
        console.print(output.plain(f"{name} is not installed and was left out: {install}"))

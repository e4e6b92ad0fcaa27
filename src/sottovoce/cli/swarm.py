"""`sottovoce swarm`: live clients over HTTP, and how good the model gets."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from sottovoce.cli import output
from sottovoce.cli.client import verification_key
from sottovoce.cli.options import HistoryColumns, JsonFile, make_option
from sottovoce.data import load, parse_columns
from sottovoce.errors import SettingsError
from sottovoce.privacy import format_epsilon
from sottovoce.sandbox.devices import NEGATIVES, PROCESSES
from sottovoce.sandbox.swarm import SwarmPlan, SwarmResult, run_swarm
from sottovoce.sandbox.system import LiveSystem

SHOWN = "hr@10"


def swarm(
    *,
    clients: Annotated[int, typer.Option(min=1, help="Number of clients.")],
    up: Annotated[
        Path | None, typer.Option(help="Folder of `sottovoce up`; gives proxy, key and data.")
    ] = None,
    proxy: Annotated[
        str | None, typer.Option(metavar="URL", help="Address of the proxy; instead of --up.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Verification key of the server; instead of --up.")
    ] = None,
    data: Annotated[
        str | None,
        make_option(
            "Data set with the histories of the clients: a name or a path. Its items are matched "
            "with the catalogue by their ids.",
            "the one of --up",
        ),
    ] = None,
    columns: HistoryColumns = None,
    epochs: Annotated[int, typer.Option(min=1, help="Number of epochs to take part in.")] = 3,
    json: JsonFile = None,
    seed: Annotated[
        int,
        typer.Option(
            min=0,
            help="Seed of the choice of people and of the split; reports are never seeded.",
            hidden=True,
        ),
    ] = 0,
    wait: Annotated[
        float,
        typer.Option(
            min=1, help="Seconds to wait for the server after all clients have sent.", hidden=True
        ),
    ] = 600.0,
) -> None:
    """Drive many real clients, and test what the server learns.

    Each client has a database and a ledger of its own, draws its noise from the operating system,
    and seals each report. Clients of one process share a connection and the public files. One item
    of each history is left out, and ranked among 99 items that the person never touched.

    The server decides how many reports a client sends. An epoch ends when its time is over and
    enough people have reported: set `sottovoce up --least-clients` to the number of clients. For
    demos and tests only: clients accept the first terms they see and send at once, without the
    random delay that hides when a device wakes up.

    \b
    Examples:
      sottovoce swarm --up here --clients 2000 --epochs 3 --json swarm.json
      sottovoce swarm --proxy http://127.0.0.1:8080 --key 3b6a27bc...29 --clients 600 \\
        --data ml-latest-small
    """
    system = _system(up, proxy, key)
    source = data or system.data
    if source is None:
        raise SettingsError("name a data set with the histories of the clients: --data DATA")
    _check_crowd(system, clients)
    plan = SwarmPlan(
        proxy=system.proxy,
        key=system.key,
        clients=clients,
        epochs=epochs,
        seed=seed,
        wait=wait,
        training=system.training,
        attest=system.attest,
    )
    with output.messages.status(f"reading {output.escape_markup(source)}"):
        people = load(source, columns=parse_columns(columns))
    with SwarmBars() as bars:
        result = run_swarm(people, plan, bars)
    show(result)
    output.write_json(json, result.as_dict())


def _system(up: Path | None, proxy: str | None, key: str | None) -> LiveSystem:
    if up is not None and proxy is None and key is None:
        return LiveSystem.read(up)
    if up is None and proxy is not None and key is not None:
        return LiveSystem(proxy, verification_key(key))
    raise SettingsError("give either --up FOLDER, or --proxy URL and --key KEY")


def _check_crowd(system: LiveSystem, clients: int) -> None:
    """Fewer end no epoch by themselves, and of more some come too late to one that has waited."""
    if system.least_clients not in (1, clients):
        output.print_note(
            f"Note: an epoch waits for {output.count_people(system.least_clients)}, and there will "
            f"be {clients:,}; to wait for all of them: sottovoce up ... --least-clients {clients}"
        )


class SwarmBars(output.CountBar):
    """Progress on stderr: one bar after the other, with the time left and reports a second."""

    _reports = 0

    def begin(self, what: str, total: int, reports_each: int = 0) -> None:
        for task in self.tasks[-1:]:
            self.stop_task(task.id)  # it stays visible
        self._reports = reports_each
        self.add_task(what, total=total, state="")

    def step(self) -> None:
        task = self.tasks[-1]
        self.advance(task.id)
        if self._reports and task.elapsed:
            rate = f"{task.completed * self._reports / task.elapsed:,.0f} reports/s"
            self.update(task.id, state=rate)


def show(result: SwarmResult) -> None:
    """The epochs as a table, and what they cost everybody."""
    histories, settings = result.people.data.histories, result.settings
    untouched = result.people.data.untouched_counts
    output.print_line(
        f"{result.people.data.name}: {histories.n_users:,} live clients x "
        f"{histories.n_items:,} items; {settings.mechanism}, "
        f"epsilon {format_epsilon(settings.epsilon, 6)}, "
        f"{output.pluralize(settings.reports, 'report')} an epoch; random split against "
        f"{output.describe_candidates(NEGATIVES, untouched)}"
    )
    output.warn_about_few_candidates(NEGATIVES, untouched)
    output.results.print(_table(result))
    output.print_line(
        "HR@10 is of the model alone, without tags and order. Popularity, not private: "
        f"{result.popularity[SHOWN]:.4f}."
    )
    for each in result.rounds:
        others = [f"{number:,} {what}" for what, number in each.outcomes.items() if what != "sent"]
        if others:
            output.print_line(f"Epoch {each.epoch}, not sent: {', '.join(others)}.")
    for problem in result.problems[:5]:
        output.print_line(f"Problem: {problem}")
    seconds = result.seconds
    output.print_line(
        f"{seconds['make']:.0f} s to make the clients, {seconds['drive']:.0f} s for the epochs, in "
        f"{PROCESSES} processes. No ledger has more than epsilon "
        f"{format_epsilon(result.spent, 6)}."
    )
    output.print_line("Clients sent at once, without jitter: for demos and tests.")
    output.print_line(result.privacy_report.statement())


def _table(result: SwarmResult) -> Table:
    table = Table(*output.align_right("epoch", "sent", "counted", "reports/s", "HR@10"))
    for each in result.rounds:
        table.add_row(
            str(each.epoch),
            f"{each.sent:,}",
            f"{each.counted:,}",
            f"{each.sent * result.settings.reports / each.seconds['sync']:,.0f}",
            f"{each.metrics[SHOWN]:.4f}",
        )
    return table

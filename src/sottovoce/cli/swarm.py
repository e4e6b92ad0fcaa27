"""`sottovoce swarm`: run many real clients that take part in a live system."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from sottovoce.cli import output
from sottovoce.cli.client import parse_key
from sottovoce.cli.options import HistoryColumns, JsonFile, make_option
from sottovoce.data import load, parse_columns
from sottovoce.errors import SettingsError
from sottovoce.privacy import format_epsilon
from sottovoce.sandbox.setup import LiveSystem
from sottovoce.sandbox.swarm import SWARM_PROCESSES, SwarmPlan, SwarmResult, run_swarm

# Maximum number of printed error messages of clients.
MAX_PROBLEMS = 5


def swarm(
    *,
    clients: Annotated[int, typer.Option(min=1, help="Number of clients.")],
    up: Annotated[
        Path | None,
        typer.Option(help="Folder of `sottovoce up`, whose proxy, key and data set are used."),
    ] = None,
    proxy: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Address of the proxy; with --key, instead of --up."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="Verification key of the server; with --proxy, instead of --up."),
    ] = None,
    data: Annotated[
        str | None,
        make_option(
            "Data set with the histories of the clients: a name or a path. The ids of its items "
            "must be those of the catalogue.",
            "the data set of --up",
        ),
    ] = None,
    columns: HistoryColumns = None,
    epochs: Annotated[int, typer.Option(min=1, help="Number of epochs to take part in.")] = 3,
    json: JsonFile = None,
    seed: Annotated[
        int,
        typer.Option(
            min=0,
            help="Seed of the choice of people and test items; reports are never seeded.",
            hidden=True,
        ),
    ] = 0,
    wait: Annotated[
        float,
        typer.Option(
            min=1,
            help="Seconds to wait for the next epoch after all clients have sent their reports.",
            hidden=True,
        ),
    ] = 600.0,
) -> None:
    """Run many real clients that take part in a live system, as a test.

    Each client has its own database and ledger, draws its noise from the operating system, and
    seals each report. Clients of one process share a connection and the public files.

    The server's terms say how many reports a client sends. An epoch ends when its time is over and
    enough people have reported: set `sottovoce up --min-clients` to the number of clients. Only for
    demos and tests: clients accept the first terms that they see, and send at once, without the
    random delay that hides when a device is in use.

    \b
    Examples:
      sottovoce swarm --up here --clients 2000 --epochs 3 --json swarm.json
      sottovoce swarm --proxy http://127.0.0.1:8080 --key 3b6a27bc...29 --clients 600 \\
        --data ml-latest-small
    """
    if up is not None and proxy is None and key is None:
        system = LiveSystem.read(up)
    elif up is None and proxy is not None and key is not None:
        system = LiveSystem(proxy, parse_key(key))
    else:
        raise SettingsError("give either --up FOLDER, or --proxy URL and --key KEY")
    source = data or system.data
    if source is None:
        raise SettingsError("name a data set with the histories of the clients: --data DATA")
    # With fewer clients than the crowd, an epoch does not end. With more, it may end before all
    # clients have sent.
    if system.min_clients not in (1, clients):
        output.print_note(
            f"Note: an epoch waits for {output.count_people(system.min_clients)}, but there are "
            f"{clients:,} clients. To wait for exactly these: sottovoce up ... --min-clients "
            f"{clients}"
        )
    plan = SwarmPlan(system.proxy, system.key, clients, epochs, seed, wait, system.attest)
    with output.messages.status(f"reading {output.escape_markup(source)}"):
        people = load(source, columns=parse_columns(columns))
    with SwarmBars() as bars:
        result = run_swarm(people, plan, bars)
    _print_result(result)
    output.write_json(json, result.as_dict())


class SwarmBars(output.CountBar):
    """Progress bars for the tasks of a swarm, with the time left and reports per second."""

    _reports_per_step = 0

    def begin_task(self, name: str, total: int, reports_per_step: int = 0) -> None:
        """Begin a bar for a task; the bars of earlier tasks stay visible."""
        for task in self.tasks[-1:]:
            self.stop_task(task.id)
        self._reports_per_step = reports_per_step
        self.add_task(name, total=total, state="")

    def step(self) -> None:
        """Advance the last bar."""
        task = self.tasks[-1]
        self.advance(task.id)
        if self._reports_per_step and task.elapsed:
            rate = f"{task.completed * self._reports_per_step / task.elapsed:,.0f} reports/s"
            self.update(task.id, state=rate)


def _print_result(result: SwarmResult) -> None:
    people, terms, seconds = result.people, result.terms, result.seconds
    output.print_line(
        f"{people.name}: {people.n_users:,} live clients x {people.n_items:,} items; "
        f"{terms.mechanism}, epsilon {format_epsilon(terms.epsilon, 6)}, "
        f"{output.pluralize(terms.reports, 'report')} an epoch"
    )
    table = Table(*output.align_right("epoch", "sent", "counted", "reports/s"))
    for epoch in result.epochs:
        rate = epoch.sent * terms.reports / epoch.seconds["sync"]
        table.add_row(str(epoch.epoch), f"{epoch.sent:,}", f"{epoch.counted:,}", f"{rate:,.0f}")
    output.results.print(table)
    for epoch in result.epochs:
        others = [
            f"{number:,} {outcome}"
            for outcome, number in epoch.outcomes.items()
            if outcome != "sent"
        ]
        if others:
            output.print_line(
                f"Clients that sent nothing in epoch {epoch.epoch}: {', '.join(others)}."
            )
    for problem in result.problems[:MAX_PROBLEMS]:
        output.print_line(f"Problem: {problem}")
    output.print_line(
        f"{SWARM_PROCESSES} processes took {seconds['make']:.0f} s to make the clients and "
        f"{seconds['drive']:.0f} s for the epochs. No client has spent more than epsilon "
        f"{format_epsilon(result.max_spent, 6)}."
    )
    output.print_line("Clients sent at once, without the random delay: for demos and tests only.")
    output.print_line(result.privacy_report.statement())

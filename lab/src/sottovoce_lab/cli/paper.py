"""`sottovoce paper`: the paper's figures and tables run again, beside its numbers and ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Self

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from sottovoce.cli import output
from sottovoce.cli.figures import figure_class
from sottovoce.cli.options import HistoryColumns, MinInteractions, Threads, group, optional
from sottovoce.data import Interactions, load, parse_columns
from sottovoce.errors import SettingsError
from sottovoce.simulation.engines import ENGINES, engine_package
from sottovoce_lab.paper import (
    EXPERIMENTS,
    METHODS,
    About,
    Cell,
    CellStore,
    Runner,
    Scale,
    Table,
    compute,
    write_all,
)

app = group(
    "paper",
    "Run the paper's figures and tables again, with its numbers beside ours.",
    "paper fig2 --quick --out results",
)
QUICK_DATA = "synthetic:N=400,M=150,seed=0"
MAX_WIDTH = 400
"""Of a table, in characters."""
INTERRUPTED = 130
"""What a shell says of a program that was stopped by Ctrl-C."""

EVERYTHING = "All of the figures and tables."
DETAILS = """

    Results are kept in FOLDER/cells: a command that was stopped resumes where it was, and commands
    share their results. Tables are printed, and written to FOLDER with the pictures;
    FOLDER/report.html shows them all. The paper uses ML-20M with --min-interactions 60.

    \b
    Examples:
      sottovoce paper {name} --quick --out /tmp/quick
      sottovoce paper {name} --data netflix-75k.parquet --out results
      sottovoce paper {name} --data ml-1m --out results --engine cuda --jobs 8
      sottovoce paper {name} --data ml-20m --min-interactions 60 --out results --seeds 5
"""


class WorkBar:
    """Progress over the work, not over the number of cells: some take a thousand times longer."""

    def __init__(self, work: float):
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=output.messages,
            # Speed over all that was done: the last minute may have been one unusual method.
            speed_estimate_period=24 * 3600,
        )
        self._task = self._progress.add_task("starting", total=work)
        self._lines = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begin(self, cell: Cell) -> None:
        self._progress.update(self._task, description=output.plain(str(cell)))

    def advance(self, work: float) -> None:
        """Move the bar; a file or a pipe gets a line every minute instead."""
        self._progress.advance(self._task, work)
        minutes = int(self._progress.tasks[0].elapsed or 0.0) // 60
        if not output.messages.is_terminal and minutes >= self._lines:
            self._lines = minutes + 1
            self._print_line()

    def _print_line(self) -> None:
        task = self._progress.tasks[0]
        left = task.time_remaining
        when = "" if left is None else f", about {left / 60:.0f} min left"
        said = f"{task.percentage:.0f}% after {(task.elapsed or 0.0) / 60:.0f} min{when}"
        output.messages.print(f"{said}: {task.description}", soft_wrap=True)


def _command(name: str) -> Callable[..., None]:
    def run(
        *,
        out: Annotated[
            Path, typer.Option(help="Folder for the results; what it holds already is used.")
        ],
        data: Annotated[
            str | None,
            optional(
                "Data set: a name from `sottovoce data list`, or a path.",
                "with --quick a small synthetic one, otherwise required",
            ),
        ] = None,
        items: Annotated[
            Path | None,
            optional(
                "File with the items' tags: a catalogue (.json), or a table with a column `item`.",
                "those of the data set",
            ),
        ] = None,
        seeds: Annotated[int, typer.Option(min=1, help="Number of random splits.")] = 3,
        methods: Annotated[
            list[str] | None,
            optional(f"Method to compute: {', '.join(METHODS)}. May be repeated.", "all"),
        ] = None,
        most_people: Annotated[
            int,
            typer.Option(
                min=1,
                help="Largest number of people that `law` simulates. 100,000,000 people take a "
                "graphics card 30 to 105 seconds for each training.",
            ),
        ] = Scale.most_people,
        columns: HistoryColumns = None,
        min_interactions: MinInteractions = 0,
        threads: Threads = None,
        engine: Annotated[
            str,
            typer.Option(
                help=f"What computes the reports: {', '.join(ENGINES)}. All give the same results."
            ),
        ] = "cpu",
        card: Annotated[
            int | None, optional("Number of the graphics card (cuda engine).", "0", min=0)
        ] = None,
        jobs: Annotated[
            int,
            typer.Option(
                min=1,
                help="Processes for what the engine does not compute (baselines, liars, attacker). "
                "Each needs memory for the data.",
            ),
        ] = 1,
        quick: Annotated[
            bool,
            typer.Option(
                "--quick", help="Tiny subsets and two epochs, to check that everything runs."
            ),
        ] = False,
    ) -> None:
        unknown = set(methods or ()) - set(METHODS)
        if unknown:
            raise SettingsError(
                f"--methods: unknown {', '.join(sorted(unknown))}; there are {', '.join(METHODS)}"
            )
        engine_package(engine)  # refuses one that is not there, before the data is read
        source = data or (QUICK_DATA if quick else None)
        if source is None:
            raise SettingsError("name a data set (--data DATA), or try a small one (--quick)")
        figure_class()
        people = _read(source, columns, items, min_interactions)
        about = About.of(
            people, source, min_interactions=min_interactions, quick=quick, seeds=seeds
        )
        store = CellStore.start(out, about)
        runner = Runner(people, store, threads, engine=engine, card=card, jobs=jobs)
        names = list(EXPERIMENTS) if name == "all" else [name]
        store.ask(names)
        scale = replace(Scale.of(store.about, seeds=seeds), most_people=most_people)
        _compute(names, runner, scale, methods or [])
        _show(store, names)

    summary = EVERYTHING if name == "all" else EXPERIMENTS[name].summary()
    run.__doc__ = summary + DETAILS.format(name=name)
    return run


for _name in (*EXPERIMENTS, "all"):
    app.command(_name)(_command(_name))


@app.command()
def report(
    *, out: Annotated[Path, typer.Option(help="Folder with results of the other commands.")]
) -> None:
    """Write the tables, pictures and report.html of a folder again; computes nothing.

    \b
    Example:
      sottovoce paper report --out results
    """
    figure_class()
    store = CellStore.open(out)
    asked = store.asked()
    _show(store, [name for name in EXPERIMENTS if name in asked])


def _read(
    source: str, columns: str | None, items: Path | None, min_interactions: int
) -> Interactions:
    with output.messages.status(f"reading {output.plain(source)}"):
        return load(source, parse_columns(columns), items).filter(min_interactions)


def _compute(names: list[str], runner: Runner, scale: Scale, methods: list[str]) -> None:
    experiments = [EXPERIMENTS[name] for name in names]
    try:
        compute(experiments, scale, runner, methods, WorkBar)
    except KeyboardInterrupt:
        output.messages.print("Stopped. Finished results are kept; run the same command to resume.")
        raise typer.Exit(INTERRUPTED) from None


def _show(store: CellStore, names: list[str]) -> None:
    scale = Scale.of(store.about)
    for name in names:
        for table in EXPERIMENTS[name](scale, store).tables():
            if table.filled:
                _print(table)
    output.results.print(output.plain(store.about.sentence()), soft_wrap=True)
    write_all(store)
    where = store.folder / "report.html"
    output.messages.print(f"written: {output.plain(str(where))}", soft_wrap=True)


def _print(table: Table) -> None:
    shown = output.table(table.title, *table.headings)
    for row in table.rows:
        shown.add_row(*(output.plain(cell) for cell in row))
    # Into a file or a pipe a table goes whole; only a terminal has an edge to fold it at.
    console = output.results if output.results.is_terminal else Console(width=MAX_WIDTH)
    console.print(shown)
    for note in table.notes:
        output.results.print(output.plain(note), soft_wrap=True)

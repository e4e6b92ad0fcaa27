"""`sottovoce paper`: the paper's figures and tables run again, beside its numbers and ours."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sottovoce.cli import output
from sottovoce.cli.figures import import_figure
from sottovoce.cli.options import HistoryColumns, MinInteractions, make_group, make_option
from sottovoce.data import Interactions, load, parse_columns
from sottovoce.errors import SettingsError
from sottovoce.simulation.engines import ENGINE_MODULES, load_engine_package
from sottovoce_lab.cli import make_number_table
from sottovoce_lab.paper import (
    EXPERIMENTS,
    LEAST_PEOPLE,
    METHODS,
    QUICK,
    About,
    Cell,
    CellStore,
    Runner,
    Scale,
    Table,
    compute,
    write_all,
)

app = make_group(
    "paper",
    "Run the paper's figures and tables again, with its numbers next to ours.",
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
      sottovoce paper {name} --data ml-1m --scale 0.1 --out /tmp/tenth
      sottovoce paper {name} --data netflix-75k.parquet --out results
      sottovoce paper {name} --data ml-1m --out results --engine cuda
      sottovoce paper {name} --data ml-20m --min-interactions 60 --out results --seeds 5
"""


@contextmanager
def _progress(cells: int) -> Iterator[Callable[[Cell, float | None], None]]:
    """One live line; a file or a pipe gets a line every minute instead."""
    number, next_line, began = 0, 0.0, time.monotonic()
    with output.messages.status("starting") as status:

        def begin(cell: Cell, left: float | None) -> None:
            nonlocal number, next_line
            number, passed = number + 1, time.monotonic() - began
            rest = "estimating the rest" if left is None else f"about {_time(left)} left"
            said = f"cell {number} of {cells}, {_time(passed)} so far, {rest}: {cell}"
            status.update(output.escape_markup(said))
            if not output.messages.is_terminal and passed >= next_line:
                next_line = passed + 60
                output.print_note(said)

        yield begin


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _command(name: str) -> Callable[..., None]:
    def run(
        *,
        out: Annotated[
            Path, typer.Option(help="Folder for the results; what it holds already is used.")
        ],
        data: Annotated[
            str | None,
            make_option(
                "Data set: a name from `sottovoce data info`, or a path.",
                "with --quick a small synthetic one, otherwise required",
            ),
        ] = None,
        items: Annotated[
            Path | None,
            make_option(
                "File with the items' tags: a catalogue (.json), or a table with a column `item`.",
                "those of the data set",
            ),
        ] = None,
        seeds: Annotated[int, typer.Option(min=1, help="Number of random splits.")] = 3,
        methods: Annotated[
            list[str] | None,
            make_option(f"Method to compute: {', '.join(METHODS)}. May be repeated.", "all"),
        ] = None,
        most_people: Annotated[
            int | None,
            make_option(
                "Largest number of people that `law` simulates. 100,000,000 people take a "
                "graphics card 30 to 105 seconds for each training.",
                f"{Scale.most_people:,} times --scale",
                min=1,
            ),
        ] = None,
        columns: HistoryColumns = None,
        min_interactions: MinInteractions = 0,
        threads: Annotated[int | None, make_option("CPU threads.", "all", min=1)] = None,
        engine: Annotated[
            str,
            typer.Option(
                help=f"What computes the reports: {', '.join(ENGINE_MODULES)}. "
                "All give the same results."
            ),
        ] = "cpu",
        card: Annotated[
            int | None, make_option("Number of the graphics card (cuda engine).", "0", min=0)
        ] = None,
        scale: Annotated[
            float,
            typer.Option(
                min=0.001,
                max=1,
                help="Share of each population that is run, with "
                f"{LEAST_PEOPLE} people at least; all else is as in the full run.",
            ),
        ] = 1.0,
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
        if quick and scale != 1:
            raise SettingsError("--quick has its own sizes: leave out --scale")
        load_engine_package(engine)  # refuses one that is not there, before the data is read
        source = data or (QUICK_DATA if quick else None)
        if source is None:
            raise SettingsError("name a data set (--data DATA), or try a small one (--quick)")
        import_figure()
        people = _read(source, columns, items, min_interactions)
        about = About.of(
            people,
            source,
            min_interactions=min_interactions,
            scale=QUICK if quick else scale,
            seeds=seeds,
        )
        store = CellStore.start(out, about)
        runner = Runner(people, store, threads, engine=engine, card=card)
        names = list(EXPERIMENTS) if name == "all" else [name]
        store.ask(names)
        grid = Scale.of(store.about, seeds=seeds)
        grid = replace(grid, most_people=most_people or grid.most_people)
        _compute(names, runner, grid, methods or [])
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
    import_figure()
    store = CellStore.open(out)
    asked = store.asked()
    _show(store, [name for name in EXPERIMENTS if name in asked])


def _read(
    source: str, columns: str | None, items: Path | None, min_interactions: int
) -> Interactions:
    with output.messages.status(f"reading {output.escape_markup(source)}"):
        return load(source, parse_columns(columns), items).filter(min_interactions)


def _compute(names: list[str], runner: Runner, scale: Scale, methods: list[str]) -> None:
    experiments = [EXPERIMENTS[name] for name in names]
    try:
        compute(experiments, scale, runner, methods, _progress)
    except KeyboardInterrupt:
        output.messages.print("Stopped. Finished results are kept; run the same command to resume.")
        raise typer.Exit(INTERRUPTED) from None


def _show(store: CellStore, names: list[str]) -> None:
    scale = Scale.of(store.about)
    for name in names:
        for table in EXPERIMENTS[name](scale, store).tables():
            if table.filled:
                _print(table)
    output.results.print(output.escape_markup(store.about.sentence()), soft_wrap=True)
    write_all(store)
    where = store.folder / "report.html"
    output.messages.print(f"written: {output.escape_markup(str(where))}", soft_wrap=True)


def _print(table: Table) -> None:
    headings, *rows = table.shown
    shown = make_number_table(table.title, *headings)
    for row in rows:
        shown.add_row(*(output.escape_markup(cell) for cell in row))
    # Into a file or a pipe a table goes whole; only a terminal has an edge to fold it at.
    console = output.results if output.results.is_terminal else Console(width=MAX_WIDTH)
    console.print(shown)
    for note in table.notes:
        output.results.print(output.escape_markup(note), soft_wrap=True)

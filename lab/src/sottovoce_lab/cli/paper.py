"""`sottovoce paper`: run the paper's experiments again and compare the results with its numbers."""

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
from sottovoce.cli.options import (
    HistoryColumns,
    MinInteractions,
    SampleUsers,
    make_group,
    make_option,
)
from sottovoce.data import load, parse_columns
from sottovoce.errors import SettingsError
from sottovoce.simulation.engines import ENGINE_MODULES, load_engine_package
from sottovoce_lab.cli import make_number_table
from sottovoce_lab.paper import (
    EXPERIMENTS,
    METHOD_NAMES,
    MIN_PEOPLE,
    QUICK_SCALE,
    About,
    Cell,
    CellStore,
    Grid,
    Runner,
    Table,
    run_experiments,
    write_report,
)

app = make_group(
    "paper",
    "Run the experiments of the paper again, and compare their results with the paper's.",
    "paper fig2 --quick --out results",
)
QUICK_DATA = "synthetic:N=400,M=150,seed=0"
# Width of a table that is written to a file or a pipe, in characters.
MAX_TABLE_WIDTH = 400
# Exit code of a program that was stopped by Ctrl-C, as shells report it.
INTERRUPTED_EXIT_CODE = 130
# Seconds between two lines of progress in a file or a pipe.
PROGRESS_SECONDS = 60
# Times below this are shown in seconds, longer ones in minutes.
MAX_SECONDS_SHOWN = 100

ALL_SUMMARY = "All experiments."
COMMAND_DETAILS = """

    Each result is stored in FOLDER/cells, where FOLDER is given by --out. A command that was
    stopped resumes there, and several commands share their results. Tables are printed, and written
    to FOLDER with the pictures; FOLDER/report.html shows all of them. The paper uses ML-20M with
    --min-interactions 60.

    \b
    Examples:
      sottovoce paper {name} --quick --out /tmp/quick
      sottovoce paper {name} --data ml-1m --scale 0.1 --out /tmp/tenth
      sottovoce paper {name} --data netflix-75k.parquet --out results
      sottovoce paper {name} --data ml-1m --out results --engine cuda
      sottovoce paper {name} --data ml-20m --min-interactions 60 --out results --seeds 5
"""


@contextmanager
def _show_progress(cells: int) -> Iterator[Callable[[Cell], None]]:
    """Show one live line on a terminal; a file or a pipe gets a line every minute."""
    number, next_line, started = 0, 0.0, time.monotonic()
    with output.messages.status("starting") as status:

        def show_cell(cell: Cell) -> None:
            nonlocal number, next_line
            number, passed = number + 1, time.monotonic() - started
            message = f"cell {number} of {cells}, {_format_seconds(passed)} so far: {cell}"
            status.update(output.escape_markup(message))
            if not output.messages.is_terminal and passed >= next_line:
                next_line = passed + PROGRESS_SECONDS
                output.print_note(message)

        yield show_cell


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < MAX_SECONDS_SHOWN else f"{seconds / 60:.0f} min"


def _make_command(name: str) -> Callable[..., None]:
    def run(
        *,
        out: Annotated[
            Path,
            typer.Option(help="Folder for the results. Results that it has already are reused."),
        ],
        data: Annotated[
            str | None,
            make_option(
                "Data set: a name from `sottovoce data info`, or a path.",
                "a small synthetic one with --quick, otherwise required",
            ),
        ] = None,
        items: Annotated[
            Path | None,
            make_option(
                "File with the tags of the items: a catalogue (.json), or a table with a column "
                "`item`.",
                "those of the data set",
            ),
        ] = None,
        seeds: Annotated[int, typer.Option(min=1, help="Number of random splits.")] = 3,
        methods: Annotated[
            list[str] | None,
            make_option(
                f"Method whose results are computed: {', '.join(METHOD_NAMES)}. May be repeated.",
                "all",
            ),
        ] = None,
        max_people: Annotated[
            int | None,
            make_option(
                "Largest number of people that the experiment `law` simulates. A training with "
                "100,000,000 people takes 30 to 105 seconds on a graphics card.",
                f"{Grid.max_people:,} times --scale",
                min=1,
            ),
        ] = None,
        columns: HistoryColumns = None,
        min_interactions: MinInteractions = 0,
        sample_users: SampleUsers = None,
        threads: Annotated[
            int | None, make_option("Number of CPU threads.", "one for each core", min=1)
        ] = None,
        engine: Annotated[
            str,
            typer.Option(
                help=f"Program that computes the reports: {', '.join(ENGINE_MODULES)}. "
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
                help="Fraction of the people to simulate in each experiment, at least "
                f"{MIN_PEOPLE} people. Nothing else changes.",
            ),
        ] = 1.0,
        quick: Annotated[
            bool,
            typer.Option(
                "--quick", help="Use few people and two epochs, to check that everything runs."
            ),
        ] = False,
    ) -> None:
        unknown = set(methods or ()) - set(METHOD_NAMES)
        if unknown:
            raise SettingsError(
                f"--methods: unknown {', '.join(sorted(unknown))}; "
                f"choose from {', '.join(METHOD_NAMES)}"
            )
        if quick and scale != 1:
            raise SettingsError("--quick has its own sizes: leave out --scale")
        # Reject a missing engine before the data are read.
        load_engine_package(engine)
        source = data or (QUICK_DATA if quick else None)
        if source is None:
            raise SettingsError("name a data set with --data DATA, or use a small one with --quick")
        import_figure()
        with output.messages.status(f"reading {output.escape_markup(source)}"):
            people = load(source, parse_columns(columns), items).filter(min_interactions)
            if sample_users is not None:
                people = people.subset(users=sample_users, seed=0)
        about = About.from_data(
            people,
            source,
            min_interactions=min_interactions,
            scale=QUICK_SCALE if quick else scale,
            seeds=seeds,
        )
        store = CellStore.create(out, about)
        runner = Runner(people, store, threads, engine=engine, card=card)
        names = list(EXPERIMENTS) if name == "all" else [name]
        store.add_requested(names)
        grid = Grid.from_about(store.about, seeds=seeds)
        grid = replace(grid, max_people=max_people or grid.max_people)
        try:
            experiments = [EXPERIMENTS[experiment] for experiment in names]
            run_experiments(experiments, grid, runner, methods or [], _show_progress)
        except KeyboardInterrupt:
            output.messages.print(
                "Stopped. Finished results are kept; run the same command to resume."
            )
            raise typer.Exit(INTERRUPTED_EXIT_CODE) from None
        _show_results(store, names)

    summary = ALL_SUMMARY if name == "all" else EXPERIMENTS[name].get_summary()
    run.__doc__ = summary + COMMAND_DETAILS.format(name=name)
    return run


for _name in (*EXPERIMENTS, "all"):
    app.command(_name)(_make_command(_name))


@app.command()
def report(
    *, out: Annotated[Path, typer.Option(help="Folder with results of the other commands.")]
) -> None:
    """Write the tables, the pictures and report.html of a folder again, from stored results.

    \b
    Example:
      sottovoce paper report --out results
    """
    import_figure()
    store = CellStore.open(out)
    requested = store.read_requested()
    _show_results(store, [name for name in EXPERIMENTS if name in requested])


def _show_results(store: CellStore, names: list[str]) -> None:
    """Print the tables, and write the files of all requested experiments."""
    grid = Grid.from_about(store.about)
    for name in names:
        for table in EXPERIMENTS[name](grid, store).build_tables():
            if table.has_numbers:
                _print_table(table)
    output.results.print(output.escape_markup(store.about.describe()), soft_wrap=True)
    write_report(store)
    page = str(store.folder / "report.html")
    output.messages.print(f"written: {output.escape_markup(page)}", soft_wrap=True)


def _print_table(table: Table) -> None:
    headings, *rows = table.visible_rows
    printed = make_number_table(table.title, *headings)
    for row in rows:
        printed.add_row(*(output.escape_markup(cell) for cell in row))
    # Only a terminal has an edge at which a table must be folded.
    is_terminal = output.results.is_terminal
    console = output.results if is_terminal else Console(width=MAX_TABLE_WIDTH)
    console.print(printed)
    for note in table.notes:
        output.results.print(output.escape_markup(note), soft_wrap=True)

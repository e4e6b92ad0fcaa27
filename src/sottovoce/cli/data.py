"""`sottovoce data`: list, fetch, describe and shard data sets."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table

from sottovoce.cli import output
from sottovoce.cli.options import (
    HistoryColumns,
    ItemsFile,
    JsonFile,
    MinInteractions,
    make_group,
)
from sottovoce.data import DATA_SETS, load, parse_columns
from sottovoce.data.fetching import BASE_URL, DataSet, FetchResult, find_data_set, get_archive_path
from sottovoce.data.fetching import fetch as fetch_archive
from sottovoce.data.loading import ROWS_PER_SHARD, shard

app = make_group("data", "List, fetch, describe and shard data sets.", "data info ml-latest-small")


@app.command()
def fetch(
    name: Annotated[
        str, typer.Argument(help="Name of a data set; `sottovoce data info` lists them.")
    ],
    *,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Accept the publisher's terms; do not ask.")
    ] = False,
    mirror: Annotated[
        str, typer.Option(help="URL of a folder with MovieLens archives.", hidden=True)
    ] = BASE_URL,
) -> None:
    """Download a data set to the folder $SOTTOVOCE_CACHE, or to the user's cache folder.

    After an interruption, run the command again; the download starts from the beginning.

    \b
    Example:
      sottovoce data fetch ml-20m --yes
    """
    wanted = find_data_set(name)
    if wanted.fetchable and not wanted.bundled and not get_archive_path(name).exists():
        output.print_note(f"{name}, about {wanted.megabytes:g} MB, from {mirror}")
        output.print_note(f"Terms: {wanted.licence}")
        command = f"sottovoce data fetch {name}"
        output.confirm("Do you accept these terms?", command, yes=yes)
    fetched = _fetch_with_progress(wanted, mirror)
    output.print_note(f"{name}: {fetched.verification}")
    typer.echo(fetched.path)


@app.command()
def info(
    source: Annotated[
        str | None,
        typer.Argument(help="Name or path of a data set; without it, all names are listed."),
    ] = None,
    *,
    min_interactions: MinInteractions = 0,
    columns: HistoryColumns = None,
    json_file: JsonFile = None,
) -> None:
    """Describe a data set, or list the names of known data sets.

    A path may be a MovieLens archive as published (zipped or unpacked), the folder of the Netflix
    Prize, a folder of .parquet files, a folder of shards, or a file. A .csv, .tsv (also .gz) or
    .parquet file has the columns user and item, and optionally rating and timestamp. An .inter file
    of RecBole and a .npz matrix of scipy are read as well.

    \b
    Examples:
      sottovoce data info
      sottovoce data info ml-latest-small --min-interactions 20 --json info.json
      sottovoce data info ratings.csv --columns user=who,item=what
    """
    if source is None:
        _print_data_sets()
        return
    with output.messages.status(f"reading {output.escape_markup(source)}"):
        data = load(source, columns=parse_columns(columns)).filter(min_interactions)
    _describe(data.summary())
    output.write_json(json_file, data.summary())


@app.command("shard")
def shard_(
    source: Annotated[str, typer.Argument(help="Name from `sottovoce data info`, or a path.")],
    folder: Annotated[Path, typer.Argument(help="New folder for the shards.")],
    *,
    columns: HistoryColumns = None,
    items: ItemsFile = None,
    min_interactions: MinInteractions = 0,
    rows: Annotated[
        int,
        typer.Option(
            min=1,
            help="Approximate number of interactions in a shard. One shard must fit into memory.",
        ),
    ] = ROWS_PER_SHARD,
) -> None:
    """Divide a data set into shards: Parquet files that each hold some of the people.

    `sottovoce simulate --data FOLDER` reads one shard after the other, so people need not all fit
    into memory; `--engine ray` spreads the shards over a cluster. The results do not depend on the
    shards. A Parquet file is read in blocks; a file of any other format must fit into memory.

    \b
    Examples:
      sottovoce data shard ratings/ ratings.shards --columns user=who,item=what
      sottovoce data shard ml-20m ml-20m.shards --rows 1000000
    """
    with output.messages.status(f"reading {output.escape_markup(source)}") as status:
        shards = shard(
            source,
            folder,
            columns=parse_columns(columns),
            items=items,
            min_interactions=min_interactions,
            rows=rows,
            report_progress=lambda what: status.update(output.escape_markup(what)),
        )
    _describe(shards.summary())


def _describe(summary: dict[str, Any]) -> None:
    lines = (line for line in _format_summary(summary) if line[0] != "name")
    output.results.print(output.make_table(lines, summary["name"]))


def _print_data_sets() -> None:
    table = Table(title="Data sets", title_justify="left")
    for heading in ("name", "content", "location"):
        table.add_column(heading, overflow="fold")
    for data_set in DATA_SETS.values():
        table.add_row(data_set.name, data_set.description, _describe_location(data_set))
    table.add_row(
        "synthetic", "invented people over real films; synthetic:N=3000,M=1000,seed=0", "made here"
    )
    output.results.print(table)


def _describe_location(data_set: DataSet) -> str:
    if data_set.bundled:
        return "bundled"
    if not data_set.fetchable:
        return "cannot be fetched: give the folder's path"
    if get_archive_path(data_set.name).exists():
        return "fetched"
    return f"not fetched yet, {data_set.megabytes:g} MB"


def _fetch_with_progress(wanted: DataSet, mirror: str) -> FetchResult:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, TransferSpeedColumn(), console=output.messages, transient=True) as bar:
        task = bar.add_task(wanted.name, total=None)
        return fetch_archive(
            wanted.name,
            None,
            lambda done, total: bar.update(task, completed=done, total=total),
            accept_licence=True,  # the user has confirmed it in `fetch`
            base_url=mirror,
        )


def _format_summary(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in summary.items():
        label = key.replace("_", " ")
        if isinstance(value, dict):
            yield label, ", ".join(f"{name} {number:,g}" for name, number in value.items())
        elif isinstance(value, bool):
            yield label, "yes" if value else "no"
        elif isinstance(value, float):
            yield label, f"{value:.4%}" if key == "density" else f"{value:,g}"
        elif isinstance(value, int):
            yield label, f"{value:,}"
        elif value is not None:
            yield label, str(value)

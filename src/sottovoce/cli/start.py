"""`sottovoce start`: learn a public start from a table that anybody may see."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sottovoce.cli import output
from sottovoce.cli.catalogue_file import CATALOGUE_HELP, read_catalogue_file
from sottovoce.cli.options import HistoryColumns, make_option
from sottovoce.data import load, parse_columns
from sottovoce.errors import SettingsError
from sottovoce.protocol.manifest import parse_provenance
from sottovoce.simulation.start import START_SUFFIX, encode_start, learn_table_start
from sottovoce.storage.files import write_atomically


def start(
    table: Annotated[
        str,
        typer.Argument(help="Public interactions: a name from `sottovoce data info`, or a path."),
    ],
    *,
    catalogue: Annotated[
        Path,
        typer.Option(help=CATALOGUE_HELP),
    ],
    out: Annotated[
        Path, typer.Option("--out", help=f"File to write; its name ends in {START_SUFFIX}.")
    ],
    licence: Annotated[
        str,
        typer.Option(
            "--licence",
            help="Licence of the table, or another reason why anybody may see and use it. The file "
            "keeps it.",
        ),
    ],
    name: Annotated[
        str | None, make_option("Name of the table, which the file keeps.", "as in the table")
    ] = None,
    factors: Annotated[
        int | None, make_option("Number of factors.", "8 or 16, by the number of people", min=1)
    ] = None,
    columns: HistoryColumns = None,
    catalogue_columns: Annotated[
        str | None,
        make_option(
            "Names of the columns of a catalogue that is a table, such as item=sku.",
            "those of a known export; else item, title, and all others as tags",
        ),
    ] = None,
) -> None:
    """Learn a public start: the first model, from interactions that anybody may see.

    Items are matched with the catalogue by their ids. The start costs no budget, because nobody
    reports. It protects nobody in the table: use only what its people have published knowingly, or
    what a licence allows.

    \b
    Examples:
      sottovoce start volunteers.csv --catalogue catalogue.json --out start.safetensors \\
        --licence "published by 600 volunteers"
      sottovoce start volunteers.csv --columns user=member,item=sku --catalogue shop.csv \\
        --catalogue-columns item=sku --out start.safetensors --licence "published by volunteers"
    """
    # Other commands tell a start from a table by this ending.
    if out.suffix != START_SUFFIX:
        raise SettingsError(f"--out must end in {START_SUFFIX}: {out} does not")
    items = read_catalogue_file(catalogue, catalogue_columns, "--catalogue-columns").items
    rows = {item.id: row for row, item in enumerate(items)}
    with output.messages.status(f"reading {output.escape_markup(table)}"):
        data = load(table, parse_columns(columns))
        matched = data.match_items(rows)
    learnt = learn_table_start(data, rows, name or data.name, licence, factors)
    # Devices refuse a text that is too long or has control characters.
    parse_provenance(asdict(learnt.provenance))
    write_atomically(out, encode_start(learnt))
    n_learnt, people = int(learnt.V.any(axis=1).sum()), learnt.provenance.people
    output.print_line(
        f"{out}: {n_learnt:,} of {len(items):,} items of the catalogue have a row, learnt from "
        f"{matched.n_interactions:,} interactions of {people:,} people."
    )
    n_unknown = data.n_items - int((matched.histories.popularity() > 0).sum())
    output.print_line(
        f"Not in the catalogue: {n_unknown:,} of {data.n_items:,} items of the table, with "
        f"{data.n_interactions - matched.n_interactions:,} of {data.n_interactions:,} interactions."
    )

"""`sottovoce start`: learn a public start from a table that anybody may see."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from sottovoce.cli import output
from sottovoce.cli.catalogue_file import read_catalogue_file
from sottovoce.cli.options import HistoryColumns, make_option
from sottovoce.data import Interactions, Shards, load, parse_columns
from sottovoce.data.interactions import to_object_array
from sottovoce.simulation.inputs import Labels
from sottovoce.simulation.start import Provenance, Start, drop_empty, make_start
from sottovoce.training.start import learn_start

# Suffix of the files that `sottovoce start` writes.
START_SUFFIX = ".safetensors"
SECONDS_PER_DAY = 86_400


def start(
    table: Annotated[
        str,
        typer.Argument(help="Public interactions: a name from `sottovoce data info`, or a path."),
    ],
    *,
    catalogue: Annotated[
        Path,
        typer.Option("--catalogue", help="Catalogue of the service (.json), or a table of items."),
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
) -> None:
    """Learn a public start: the first model, from interactions that anybody may see.

    Items are matched with the catalogue by their ids. The start costs no budget, because nobody
    reports. It protects nobody in the table: use only what its people have published knowingly, or
    what a licence allows.

    \b
    Examples:
      sottovoce start volunteers.csv --catalogue catalogue.json --out start.safetensors \\
        --licence "published by 600 volunteers"
    """
    items = read_catalogue_file(catalogue).items
    rows = {item.id: row for row, item in enumerate(items)}
    with output.messages.status(f"reading {output.escape_markup(table)}"):
        data = load(table, parse_columns(columns))
        matched = data.match_items(rows)
    histories = drop_empty(matched.histories)
    last_date = None
    if matched.timestamps is not None:
        moment = datetime.fromtimestamp(int(matched.timestamps.max()), UTC)
        last_date = moment.date().isoformat()
    provenance = Provenance(name or data.name, histories.n_users, last_date, licence)
    V = learn_start(histories, factors)
    Start(V, to_object_array(list(rows)), provenance).save(out)
    n_learnt = int(V.any(axis=1).sum())
    output.print_line(
        f"{out}: {n_learnt:,} of {len(items):,} items of the catalogue have a row, learnt from "
        f"{histories.n_interactions:,} interactions of {histories.n_users:,} people."
    )
    n_unknown = data.n_items - int((matched.histories.popularity() > 0).sum())
    output.print_line(
        f"Not in the catalogue: {n_unknown:,} of {data.n_items:,} items of the table, with "
        f"{data.n_interactions - matched.n_interactions:,} of {data.n_interactions:,} interactions."
    )


def load_start(source: str, data: Interactions | Shards) -> NDArray[np.float32]:
    """Return the item matrix of a start for the items of a data set, whose people are tested.

    Only interactions before the last day of the data set are used, if both have times.

    Args:
        source: A file of `sottovoce start`, or public interactions as for `--data`.
        data: The data set.
    """
    if source.endswith(START_SUFFIX):
        return make_start(source, Labels(data.item_ids))
    before = None
    times = data.timestamps if isinstance(data, Interactions) else None
    if times is not None:
        before = int(times.max()) // SECONDS_PER_DAY * SECONDS_PER_DAY
    table = load(source)
    if before is None or table.timestamps is None:
        output.print_note(
            "The start may be younger than what is tested: one of the tables has no times."
        )
    return make_start(table, Labels(data.item_ids), before)

"""`sottovoce prepare`: the report's data sets, built from the files of their publishers."""

from pathlib import Path
from typing import Annotated

import typer

from sottovoce.cli import output
from sottovoce.errors import SettingsError
from sottovoce_lab.datasets import DATA_RECIPES, describe_table

NAMES = ", ".join(DATA_RECIPES)


def prepare(
    name: Annotated[str, typer.Argument(help=f"Name of the data set: {NAMES}.")],
    source: Annotated[Path, typer.Argument(help="File or folder from the publisher.")],
    out: Annotated[Path, typer.Argument(help="Name of the .parquet file to write.")],
) -> None:
    """Build a data set of the report (lab/docs/report.md) from the files of its publisher.

    netflix-75k needs the folder of the Netflix Prize, with training_set/ or combined_data_*.txt.
    globo-news needs the folder clicks/ of Globo.com's clicks.zip. online-retail needs the workbook
    of UCI's Online Retail, for which fastexcel must be installed, or its sheet as .csv.

    \b
    Examples:
      sottovoce prepare netflix-75k netflix-prize/ netflix-75k.parquet
      sottovoce prepare globo-news clicks/ globo-news.parquet
      sottovoce prepare online-retail "Online Retail.xlsx" online-retail.parquet
    """
    if name not in DATA_RECIPES:
        raise SettingsError(f"no data set is called {name!r}; there are {NAMES}")
    if not source.exists():
        raise SettingsError(f"{source} does not exist: name the publisher's file or folder")
    recipe = DATA_RECIPES[name]
    with output.messages.status(f"reading {output.escape_markup(str(source))}"):
        table = recipe.build(source)
        table.write_parquet(out, compression="zstd")
    size = describe_table(table)
    output.print_line(f"{out}: {size}")
    if size != recipe.describe_size():
        output.print_line(
            f"This is not the data set of the report, which has {recipe.describe_size()}."
        )

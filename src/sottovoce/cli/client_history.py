"""What the owner of a client touched: `record`, `remove` and `history` of `sottovoce client`."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import Annotated

import typer
from rich.table import Table

from sottovoce.cli import output
from sottovoce.cli.client_folder import Folder, folder_of
from sottovoce.cli.options import JsonFile, optional
from sottovoce.client import Client
from sottovoce.errors import SettingsError, StoreError


def record(
    items: Annotated[
        list[str] | None, typer.Argument(help="Ids of items in the catalogue.")
    ] = None,
    *,
    csv: Annotated[
        Path | None, typer.Option(help="Read the ids from this CSV file instead.")
    ] = None,
    column: Annotated[
        str, typer.Option(help="Column of the CSV file that holds the ids.")
    ] = "item",
    times: Annotated[
        str | None,
        optional("Column with the time: numbers or ISO dates.", "all at one moment", "--time"),
    ] = None,
    folder: Folder = None,
) -> None:
    """Record items that you have used. They stay on this device.

    The items recorded last count most for recommendations; recording an item again moves it to the
    end. All items of one call count as one moment. The order is kept, times are not, and neither is
    ever sent. Beyond 100,000 items the earliest are dropped.

    \b
    Examples:
      sottovoce client record 318 527
      sottovoce client record --csv watched.csv --column movieId --time timestamp
    """
    if bool(items) == (csv is not None):
        raise SettingsError("give either the ids of items or --csv FILE")
    if csv is None and times is not None:
        raise SettingsError("--time names a column of --csv FILE")
    with Client.open(folder_of(folder)) as client:
        new = client.record(items or []) if csv is None else client.record_csv(csv, column, times)
    typer.echo(f"New items: {new}")


def remove(
    items: Annotated[list[str], typer.Argument(help="Ids of recorded items.")],
    *,
    folder: Folder = None,
) -> None:
    """Delete recorded items from this device, beyond recovery, as if they had never been recorded.

    Reports that were sent cannot be taken back, and one that is ready to be sent still leaves. To
    delete all items: sottovoce client forget

    \b
    Example:
      sottovoce client remove 318 527
    """
    with Client.open(folder_of(folder)) as client:
        removed = client.remove(items)
    typer.echo(f"Removed items: {removed}")


def history(*, folder: Folder = None, json: JsonFile = None) -> None:
    """List the recorded items, the latest last; read on this device, without the network.

    \b
    Examples:
      sottovoce client history
      sottovoce client history --json history.json
    """
    with Client.open(folder_of(folder)) as client:
        touched, titles = client.touched(), _titles(client)
    table = Table("item", "title")
    for item in touched:
        table.add_row(
            output.plain(item), output.plain(titles.get(item, "not in the catalogue here"))
        )
    output.results.print(table)
    if json is not None:
        listed = [{"id": item, "title": titles.get(item)} for item in touched]
        output.write_json(json, {"items": listed}, private=True)


def _titles(client: Client) -> dict[str, str]:
    """By id; none before the first sync."""
    try:
        return {item.id: item.title for item in client.catalogue()}
    except StoreError:
        return {}

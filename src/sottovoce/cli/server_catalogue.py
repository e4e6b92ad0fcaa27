"""`sottovoce server catalogue`: items come, change and go while a service runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sottovoce.atomic import write_atomically
from sottovoce.characters import visible
from sottovoce.cli import output
from sottovoce.cli.catalogue_files import FILE, ColumnsOption, catalogue_in, naming
from sottovoce.cli.options import can_be_written, group
from sottovoce.cli.server_options import ConfigOption, opened
from sottovoce.server.administration import change_catalogue, present
from sottovoce.server.catalogues import (
    Difference,
    updated,
    with_added,
    with_titles,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.protocol import Catalogue

app = group(
    "catalogue",
    "Add, rename and retire items while the service runs.",
    "server catalogue show --config my-server/server.toml",
)

LISTED = 10
"""Items of one kind of change that are named."""
FileArgument = Annotated[Path, typer.Argument(help=FILE)]
RetireManyOption = Annotated[
    bool, typer.Option("--retire-many", help="Allow that more than half of the items are retired.")
]


@app.command()
def show(
    config: ConfigOption,
    *,
    output_file: Annotated[
        Path | None,
        typer.Option(
            "--output", callback=can_be_written, help="Write the catalogue to this JSON file."
        ),
    ] = None,
) -> None:
    """Show which catalogue the next epoch has, or write it to a file.

    \b
    Example:
      sottovoce server catalogue show --config my-server/server.toml --output films.json
    """
    with opened(config) as (_, store):
        chosen = present(store)
    if output_file is not None:
        write_atomically(output_file, chosen.catalogue.raw)
    most = chosen.training.terms.most_items
    output.results.print(
        f"Version {chosen.version}: {chosen.items:,} items, at most {most:,} in this training. "
        f"Tags: {chosen.catalogue.tags.by_kind()}."
    )


@app.command()
def add(config: ConfigOption, file: FileArgument, *, columns: ColumnsOption = None) -> None:
    """Add the items of a file. Until people report, they are recommended by their tags.

    \b
    Example:
      sottovoce server catalogue add --config my-server/server.toml new.csv
    """
    given = catalogue_in(file, columns)
    with naming(file):
        _change(config, lambda catalogue: with_added(catalogue, given.items))


@app.command()
def rename(
    config: ConfigOption,
    item: Annotated[str, typer.Argument(help="Id of the item.")],
    title: Annotated[str, typer.Argument(help="Its new title.")],
) -> None:
    """Give an item another title. What the model has learnt about it stays.

    \b
    Example:
      sottovoce server catalogue rename --config my-server/server.toml 260 "Star Wars"
    """
    _change(config, lambda catalogue: with_titles(catalogue, {item: title}))


@app.command()
def retire(
    config: ConfigOption,
    items: Annotated[list[str], typer.Argument(help="Ids of the items.")],
    *,
    retire_many: RetireManyOption = False,
) -> None:
    """Remove items. Devices keep them in their histories; the model forgets them.

    Removing more than half of the items needs --retire-many.

    \b
    Example:
      sottovoce server catalogue retire --config my-server/server.toml 260 1196
    """
    _change(config, lambda catalogue: without(catalogue, items), retire_many=retire_many)


@app.command()
def diff(config: ConfigOption, file: FileArgument, *, columns: ColumnsOption = None) -> None:
    """Show what `update` with this file would change. Changes nothing.

    \b
    Example:
      sottovoce server catalogue diff --config my-server/server.toml films.csv
    """
    wanted = catalogue_in(file, columns)
    with opened(config) as (_, store):
        before = present(store).catalogue
    _print(Difference.between(before, updated(before, wanted)))


@app.command()
def update(
    config: ConfigOption,
    file: FileArgument,
    *,
    columns: ColumnsOption = None,
    retire_many: RetireManyOption = False,
) -> None:
    """Make the catalogue equal to a file: add, rename, change tags and retire.

    A file that lacks more than half of the items may be an export that broke off: it is refused
    without --retire-many.

    \b
    Example:
      sottovoce server catalogue update --config my-server/server.toml films.csv
    """
    wanted = catalogue_in(file, columns)
    _change(config, lambda catalogue: updated(catalogue, wanted), retire_many=retire_many)


def _change(
    config: Path, change: Callable[[Catalogue], Catalogue], *, retire_many: bool = False
) -> None:
    with opened(config) as (_, store):
        version, found = change_catalogue(store, change, retire_many=retire_many)
    _print(found)
    if found:
        output.results.print(f"Version {version} holds from the next epoch on.")


def _print(found: Difference) -> None:
    if not found:
        output.results.print("The catalogue is the same; nothing changes.")
    changed = [
        f"{after.id}: {before.title} -> {after.title}"
        if before.title != after.title
        else f"{after.id}: {after.title}, other tags"
        for before, after in found.changed
    ]
    for what, lines in (
        ("added", [f"{item.id}: {item.title}" for item in found.added]),
        ("changed", changed),
        ("retired", [f"{item.id}: {item.title}" for item in found.retired]),
    ):
        if lines:
            typer.echo(f"{len(lines):,} {what}")
        for line in lines[:LISTED]:
            typer.echo(f"  {visible(line)}")
        if len(lines) > LISTED:
            typer.echo(f"  and {len(lines) - LISTED:,} more")

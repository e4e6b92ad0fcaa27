"""The commands, as data; the work is in the modules beside this one."""

from __future__ import annotations

from typing import Annotated

import typer

from sottovoce import __version__
from sottovoce.cli.audit import audit
from sottovoce.cli.bench import bench
from sottovoce.cli.data import app as data
from sottovoce.cli.demo import demo
from sottovoce.cli.privacy import privacy
from sottovoce.cli.simulate import simulate

app = typer.Typer(
    name="sottovoce",
    help="The recommender that never learns what you did.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(simulate)
app.command()(privacy)
app.command()(audit)
app.command()(bench)
app.add_typer(data)


def _show_version(value: bool) -> None:  # noqa: FBT001 - typer's signature
    if value:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """The recommender that never learns what you did."""

"""The commands, as data; the work is in the modules beside this one.

Each module is imported only when its command is used: a client, a proxy and a server each run with
their own extra, and none of them waits for the simulator's compiler.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from sottovoce import __version__
from sottovoce.cli.plain import PlainGroup, plainly, usage_error
from sottovoce.errors import MissingExtraError, SettingsError


@dataclass(frozen=True)
class LazyCommand:
    """A command's module, and the extra that installs what it needs."""

    module: str
    extra: str

    def load(self, name: str) -> Any:
        """The command; if a package is missing, one that says how to install it."""
        try:
            module = import_module(f"sottovoce.cli.{self.module}")
            found = getattr(module, "app", None) or getattr(module, name)
        except ImportError as error:
            if (error.name or "").startswith("sottovoce"):
                raise
            found = self._missing(name, str(error.name).partition(".")[0])
        if not isinstance(found, typer.Typer):
            single = typer.Typer(add_completion=False)
            single.command(name)(found)
            found = single
        return typer.main.get_command(plainly(found))

    def _missing(self, name: str, package: str) -> typer.Typer:
        """Takes any arguments: what they would mean is not known here."""
        install = f"pip install 'sottovoce[{self.extra}]'"
        placeholder = typer.Typer(add_completion=False)
        anything = {"ignore_unknown_options": True, "allow_extra_args": True}

        @placeholder.command(name, help=f"(not installed: {install})", context_settings=anything)
        def missing() -> None:
            raise MissingExtraError(f"this command needs {package}: {install}")

        return placeholder


COMMANDS = {
    "demo": LazyCommand("demo", "sim,server"),
    "simulate": LazyCommand("simulate", "sim"),
    "privacy": LazyCommand("privacy", "sim"),
    "audit": LazyCommand("audit", "sim"),
    "bench": LazyCommand("bench", "bench"),
    "data": LazyCommand("data", "sim"),
    "paper": LazyCommand("paper", "all"),
    "up": LazyCommand("up", "sim,server"),
    "swarm": LazyCommand("swarm", "sim,server"),
    "server": LazyCommand("server", "server"),
    "proxy": LazyCommand("proxy", "proxy"),
    "client": LazyCommand("client", "client,cli"),
}


class LazyGroup(PlainGroup):
    """The group of all commands; each is imported when it is used."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - click's signature
        """Import one command; None if there is no such name."""
        return COMMANDS[cmd_name].load(cmd_name) if cmd_name in COMMANDS else None


app = typer.Typer(
    name="sottovoce",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def run() -> None:
    """Run the command that the process was started with."""
    try:
        code = app(prog_name="sottovoce", standalone_mode=False)
    except typer.Abort:
        raise SettingsError("stopped; nothing was done") from None
    except TyperException as error:
        if error.message.startswith("Usage:"):  # a group without a command, and its help
            typer.echo(error.message, err=True)
            raise SystemExit(2) from None
        raise SettingsError(usage_error(error)) from None
    raise SystemExit(code)


def _show_version(value: bool) -> None:  # noqa: FBT001 - typer's signature
    if value:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """The recommender that never learns what you did.

    \b
    Examples:
      sottovoce demo
      sottovoce simulate --data ml-latest-small --min-interactions 20 --budget 50
      sottovoce privacy --preset paper --clients 50000
    """

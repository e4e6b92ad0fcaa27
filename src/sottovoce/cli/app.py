"""The group of all commands, which imports a command only when it is used.

Client, proxy and server need different extras, so one can run without the packages of the others.
`sottovoce --help` imports none of them.
"""

import re
import shlex
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from sottovoce import __version__
from sottovoce.errors import MissingExtraError

HELP_ALL_OPTION = "--help-all"
# Other packages add commands by entry points of this group. An entry point is a dictionary from
# names of commands to the fields of `LazyCommand`.
ENTRY_POINT_GROUP = "sottovoce.commands"


class PlainCommand(TyperCommand):
    """A command that refuses empty values, and lists hidden options with `--help-all`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if HELP_ALL_OPTION in args:
            for parameter in self.params:
                vars(parameter)["hidden"] = False
            typer.echo(ctx.get_help())
            ctx.exit()
        # An empty value comes from an unset variable of a shell. As a path it would name the
        # current folder.
        if any(not arg or re.fullmatch("--[a-z-]+=", arg) for arg in args):
            ctx.fail("an empty value is not allowed: is a variable of the shell unset?")
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        super().format_options(ctx, formatter)
        if any(vars(parameter).get("hidden") for parameter in self.params):
            with formatter.section("More options"):
                formatter.write_dl([(HELP_ALL_OPTION, "Show all options and exit.")])


def use_plain_help(app: typer.Typer) -> typer.Typer:
    """Make the help of a group and of all its commands plain, without frames and colours."""
    app.rich_markup_mode = None
    for command in app.registered_commands:
        command.cls = PlainCommand
    for below in app.registered_groups:
        if below.typer_instance is not None:
            use_plain_help(below.typer_instance)
    return app


@dataclass(frozen=True)
class LazyCommand:
    """A command that is imported when it is used."""

    module: str
    """Module that defines the command, as `app` or under the command's name."""
    help: str
    """The first paragraph of the command's help."""
    needs: str
    """The requirement for `pip install`, such as `sottovoce[sim]`."""

    def load(self, name: str) -> Any:
        """Import and return the command.

        If a package is missing, return a command that says how to install it.
        """
        try:
            module = import_module(self.module)
            command = getattr(module, "app", None) or getattr(module, name)
        except ImportError as error:
            package = str(error.name).partition(".")[0]
            if package == "sottovoce":
                raise
            command = self._make_placeholder(name, package.replace("_", "-"))
        if not isinstance(command, typer.Typer):
            single = typer.Typer(add_completion=False)
            single.command(name)(command)
            command = single
        return typer.main.get_command(use_plain_help(command))

    def _make_placeholder(self, name: str, package: str) -> typer.Typer:
        placeholder = typer.Typer(add_completion=False)
        anything = {"ignore_unknown_options": True, "allow_extra_args": True}
        install = f"pip install {shlex.quote(self.needs)}"

        @placeholder.command(name, help=f"(not installed: {install})", context_settings=anything)
        def fail() -> None:
            raise MissingExtraError(f"this command needs {package}: {install}")

        return placeholder


SHIPPED_COMMANDS = {
    name: LazyCommand(f"sottovoce.cli.{module}", text, f"sottovoce[{extras}]")
    for name, module, extras, text in (
        (
            *("demo", "sandbox", "sim,server"),
            "Run a complete system on this machine, with invented people and a page for you.",
        ),
        (
            *("simulate", "simulate", "sim"),
            "Train on a data set with simulated devices; print quality and privacy cost.",
        ),
        (
            *("privacy", "privacy", "sim"),
            "Compute the privacy cost (epsilon) of settings, in numbers and in words.",
        ),
        (
            *("start", "start", "sim,server"),
            "Learn a public start: the first model, from interactions that anybody may see.",
        ),
        (
            *("plan", "plan", "sim,client"),
            "Say whether a shop is large enough, what it promises, and how good its lists become.",
        ),
        ("data", "data", "sim", "List, fetch, describe and shard data sets."),
        ("up", "sandbox", "sim,server", "Run a server and a proxy on this machine until Ctrl-C."),
        (
            *("swarm", "swarm", "sim,server"),
            "Run many real clients that take part in a live system, as a test.",
        ),
        (
            *("server", "server", "server"),
            "Run a server, which decrypts reports, updates the model and publishes epochs.",
        ),
        (
            *("proxy", "proxy", "proxy"),
            "Run a proxy, which collects sealed reports, shuffles them and forwards them.",
        ),
        (
            *("client", "client", "client,cli"),
            "Take part from this device; recommendations are computed here.",
        ),
    )
}
# Commands of the package sottovoce-lab. They are listed even if it is not installed.
LAB_COMMANDS = dict.fromkeys(
    ("replay", "audit", "bench", "prepare", "paper"),
    LazyCommand("sottovoce_lab", "(not installed: pip install sottovoce-lab)", "sottovoce-lab"),
)


@cache
def collect_commands() -> dict[str, LazyCommand]:
    """Return the commands of this package and those that installed packages add."""
    commands = SHIPPED_COMMANDS | LAB_COMMANDS
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        with suppress(ImportError):  # a broken package must not prevent the help
            commands |= {name: LazyCommand(*about) for name, about in entry.load().items()}
    return commands


class LazyGroup(TyperGroup):
    """The group of all commands."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        return list(collect_commands())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - click's signature
        # Look for shipped commands first, because finding entry points takes a while.
        command = SHIPPED_COMMANDS.get(cmd_name) or collect_commands().get(cmd_name)
        return None if command is None else command.load(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in SHIPPED_COMMANDS:
            # Typer suggests the most similar of these names for a mistyped one.
            self.commands = dict.fromkeys(collect_commands(), TyperCommand(None))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in collect_commands().items()])


app = typer.Typer(
    name="sottovoce",
    cls=LazyGroup,
    help="""The recommender that never learns what you did.

    \b
    Examples:
      sottovoce demo
      sottovoce simulate --data ml-latest-small --min-interactions 20 --budget 50
      sottovoce privacy --preset paper --clients 50000
    """,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def run() -> None:
    """Run the command in `sys.argv`."""
    # Print this before the demo is imported, which takes seconds.
    if sys.argv[1:2] == ["demo"] and "--help" not in sys.argv:
        typer.echo("Starting: the page is there within half a minute ...", err=True)
    app(prog_name="sottovoce")


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
    pass

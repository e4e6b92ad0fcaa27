"""The group of all commands, which imports each one when it is used, and the format of help.

A client, a proxy and a server each run with their own extra, and `--help` imports none of them.
"""

import inspect
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from sottovoce import __version__
from sottovoce.errors import MissingExtraError, SettingsError

# Replacements in typer's help of an option: bounds in words, no parentheses around a default.
HELP_REPLACEMENTS = {
    r"(\S+)<=x<=([^\s;\]]+)": r"\1 to \2",
    r"x>=([^\s;\]]+)": r"at least \1",
    r"x<=([^\s;\]]+)": r"at most \1",
    r"\[default: \((.*)\)": r"[default: \1",
}
# Replacements in typer's errors.
ERROR_REPLACEMENTS = {
    r"Invalid value for '([^']+)': Input should be ": r"\1 must be ",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "a valid integer.*": "a whole number",
    "a valid number.*": "a number",
}
HELP_ALL_OPTION = "--help-all"
# Packages add commands with it: each entry maps names to module, help and what pip installs.
ENTRY_POINT_GROUP = "sottovoce.commands"


class PlainHelp:
    """Help that lists each option with its value, its default and its bounds."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            rows = list(list_parameters(self, ctx, kind))
            if kind == "option" and any(parameter.hidden for parameter in vars(self)["params"]):
                rows.append((HELP_ALL_OPTION, "Show all options and exit."))
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
        if isinstance(self, PlainGroup):
            with formatter.section("Commands"):
                formatter.write_dl(list(self.list_help(ctx)))


class PlainCommand(PlainHelp, TyperCommand):
    """A command that refuses empty values, and shows hidden options if asked."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if HELP_ALL_OPTION in args:
            for parameter in self.params:
                vars(parameter)["hidden"] = False
            typer.echo(ctx.get_help())
            ctx.exit()
        # An unset variable of a shell. As a folder, it would be the current one.
        if any(not arg or re.fullmatch("--[a-z-]+=", arg) for arg in args):
            ctx.fail("an empty value")
        return super().parse_args(ctx, args)


class PlainGroup(PlainHelp, TyperGroup):
    """A command with commands below it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # typer itself suggests no command that is not imported yet.
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-"):
            similar = get_close_matches(args[0], names, 1)
            question = f"; did you mean {similar[0]}?" if similar else ""
            ctx.fail(f"no such command: {args[0]}{question}")
        return super().resolve_command(ctx, args)

    def list_help(self, ctx: Any) -> Iterator[tuple[str, str]]:
        """Yield the name and the help line of every command, those of groups included."""
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if isinstance(command, PlainGroup):
                yield from ((f"{name} {below}", text) for below, text in command.list_help(ctx))
            else:
                yield name, get_help_line(command)


def get_help_line(command: Any) -> str:
    """Return the first paragraph of a command's help."""
    text = inspect.cleandoc((command and command.help) or "")
    return " ".join(text.partition("\n\n")[0].split())


def list_parameters(
    command: Any, ctx: Any, kind: str, *, with_hidden: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield names and help of the arguments or of the options of a command."""
    for parameter in command.get_params(ctx):
        if parameter.param_type_name != kind:
            continue
        parameter.hidden = parameter.hidden and not with_hidden
        record = parameter.get_help_record(ctx)
        if record is not None:
            name, text = record
            yield name.replace(" range>", ">"), _replace_all(text, HELP_REPLACEMENTS)


def _replace_all(text: str, replacements: dict[str, str]) -> str:
    for pattern, words in replacements.items():
        text = re.sub(pattern, words, text)
    return text


def use_plain_help(app: typer.Typer) -> typer.Typer:
    """Give a group and all commands below it plain help."""
    app.rich_markup_mode = None
    app.info.cls = PlainGroup
    for command in app.registered_commands:
        command.cls = PlainCommand
    for below in app.registered_groups:
        if below.typer_instance is not None:
            use_plain_help(below.typer_instance)
    return app


@dataclass(frozen=True)
class LazyCommand:
    """A command that is not imported yet."""

    module: str
    """Module with the command as `app`, or under its own name."""
    help: str
    """The first paragraph of the command's help."""
    needs: str
    """What pip installs for it."""

    def load(self, name: str) -> Any:
        """Import the command. If a package is missing, it only says how to install it."""
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
        ("demo", "sandbox", "sim,server", "Run a whole system here, with a page to take part in."),
        ("simulate", "simulate", "sim", "Train on a data set as the devices of its people would."),
        ("privacy", "privacy", "sim", "Say what reporting costs in epsilon, in numbers and words."),
        (
            *("plan", "plan", "sim,client"),
            "Say whether a shop is large enough, what it promises, and how good its lists become.",
        ),
        ("data", "data", "sim", "List, fetch, describe and shard data sets."),
        ("up", "sandbox", "sim,server", "Run a server and a proxy on this machine until Ctrl-C."),
        (
            *("swarm", "swarm", "sim,server"),
            "Drive many real clients, which take part in a live system.",
        ),
        ("server", "server", "server", "Open reports, update the model, publish the next epoch."),
        ("proxy", "proxy", "proxy", "Take sealed reports, hold them, shuffle them, forward them."),
        (
            *("client", "client", "client,cli"),
            "Take part from this device, which computes its own lists.",
        ),
    )
}
# Listed even if the laboratory is not installed.
LAB_COMMANDS = dict.fromkeys(
    ("replay", "audit", "bench", "paper"),
    LazyCommand("sottovoce_lab", "(not installed: pip install sottovoce-lab)", "sottovoce-lab"),
)


@cache
def collect_commands() -> dict[str, LazyCommand]:
    """Return the commands that are shipped and those that installed packages add."""
    commands = SHIPPED_COMMANDS | LAB_COMMANDS
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        with suppress(ImportError):  # a package that is only half installed must not end all help
            commands |= {name: LazyCommand(*about) for name, about in entry.load().items()}
    return commands


class LazyGroup(PlainGroup):
    """The group of all commands."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        return list(collect_commands())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - click's signature
        # Entry points take a while to find, so that shipped commands do not wait for them.
        command = SHIPPED_COMMANDS.get(cmd_name) or collect_commands().get(cmd_name)
        return None if command is None else command.load(cmd_name)

    def list_help(self, ctx: Any) -> Iterator[tuple[str, str]]:  # noqa: ARG002 - as above
        """Yield names and help lines without importing any command."""
        return ((name, command.help) for name, command in collect_commands().items())


app = typer.Typer(
    name="sottovoce",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def run() -> None:
    """Run the command that the process was started with."""
    # The demo imports for seconds before it can print anything itself.
    if sys.argv[1:2] == ["demo"] and "--help" not in sys.argv:
        typer.echo("Starting: the page is there within half a minute ...", err=True)
    try:
        code = app(prog_name="sottovoce", standalone_mode=False)
    except typer.Abort:
        raise SettingsError("stopped; nothing was done: answer, or say --yes") from None
    except TyperException as error:
        if error.message.startswith("Usage:"):  # a group without a command, and its help
            typer.echo(error.message, err=True)
            raise SystemExit(2) from None
        message = _replace_all(error.format_message().removesuffix("."), ERROR_REPLACEMENTS)
        context = getattr(error, "ctx", None)
        hint = "" if context is None else f"\nHelp: {context.command_path} --help"
        raise SettingsError(f"{message}{hint}") from None
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

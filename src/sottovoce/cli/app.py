"""The front door: the commands as data, each imported when it is used, and help in plain words.

A client, a proxy and a server each run with their own extra, and `--help` imports none of them.
"""

import inspect
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
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

IN_WORDS = (
    (re.compile(r"(\S+)<=x<=([^\s;\]]+)"), r"\1 to \2"),
    (re.compile(r"x>=([^\s;\]]+)"), r"at least \1"),
    (re.compile(r"x<=([^\s;\]]+)"), r"at most \1"),
    (re.compile(r"\[default: \((.*)\)"), r"[default: \1"),
)
"""Bounds and defaults: what typer writes, and what we show."""
SAID = (
    (re.compile(r"Invalid value for '([^']+)': Input should be "), r"\1 must be "),
    (re.compile("greater than or equal to"), "at least"),
    (re.compile("less than or equal to"), "at most"),
    (re.compile("a valid integer.*"), "a whole number"),
    (re.compile("a valid number.*"), "a number"),
)
"""Refused values likewise."""
HELP_ALL = "--help-all"


class PlainHelp:
    """Help as a list: each option with its value, its bounds and its default."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            found = list(list_parameters(self, ctx, kind))
            if kind == "option" and any(each.hidden for each in vars(self)["params"]):
                found.append((HELP_ALL, "Show all options and exit."))
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)
        if isinstance(self, PlainGroup):
            with formatter.section("Commands"):
                formatter.write_dl(list(self.listed(ctx)))


class PlainCommand(PlainHelp, TyperCommand):
    """A command that takes no empty value, and shows hidden options if asked."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if HELP_ALL in args:
            for each in self.params:
                vars(each)["hidden"] = False
            typer.echo(ctx.get_help())
            ctx.exit()
        if any(not each or re.fullmatch("--[a-z-]+=", each) for each in args):
            ctx.fail("an empty value")  # of an unset variable: a folder would be the present one
        return super().parse_args(ctx, args)


class PlainGroup(PlainHelp, TyperGroup):
    """A command with commands below it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-"):
            ctx.fail(f"no such command: {args[0]}{_meant(args[0], names)}")
        return super().resolve_command(ctx, args)

    def listed(self, ctx: Any) -> Iterator[tuple[str, str]]:
        """Every command below it, those of groups included, with its help line."""
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if isinstance(command, PlainGroup):
                yield from ((f"{name} {below}", text) for below, text in command.listed(ctx))
            else:
                yield name, get_help_line(command)


def get_help_line(command: Any) -> str:
    """The first paragraph of its help."""
    text = inspect.cleandoc((command and command.help) or "")
    return " ".join(text.partition("\n\n")[0].split())


def list_parameters(
    command: Any, ctx: Any, kind: str, *, with_hidden: bool = False
) -> Iterator[tuple[str, str]]:
    """The arguments or the options of a command, each with its help."""
    for each in command.get_params(ctx):
        if each.param_type_name != kind:
            continue
        each.hidden = each.hidden and not with_hidden
        record = each.get_help_record(ctx)
        if record is not None:
            name, text = record
            yield name.replace(" range>", ">"), _in_words(text, IN_WORDS)


def _in_words(text: str, table: Iterable[tuple[re.Pattern[str], str]]) -> str:
    for pattern, words in table:
        text = pattern.sub(words, text)
    return text


def use_plain_help(app: typer.Typer) -> typer.Typer:
    """The same commands, all the way down, with plain help."""
    app.rich_markup_mode = None
    app.info.cls = PlainGroup
    for command in app.registered_commands:
        command.cls = PlainCommand
    for below in app.registered_groups:
        if below.typer_instance is not None:
            use_plain_help(below.typer_instance)
    return app


def format_usage_error(error: TyperException) -> str:
    """What is wrong with a command line, and how to get help."""
    ctx, given = getattr(error, "ctx", None), getattr(error, "option_name", "")
    likely = getattr(error, "possibilities", None)
    said = _in_words(error.format_message().removesuffix("."), SAID)
    if likely is not None:
        said = f"no such option: {given}{_meant(given, likely)}"
    return said if ctx is None else f"{said}\nHelp: {ctx.command_path} --help"


def _meant(given: str, names: list[str]) -> str:
    likely = get_close_matches(given, names, 1)
    return f"; did you mean {likely[0]}?" if likely else ""


@dataclass(frozen=True)
class LazyCommand:
    """A command that is not imported yet."""

    module: str
    """Has the command as `app`, or under its own name."""
    help: str
    """The first paragraph of the command's help."""
    needs: str
    """What pip installs for it."""

    def load(self, name: str) -> Any:
        """The command; if a package is missing, one that says how to install it."""
        try:
            module = import_module(self.module)
            found = getattr(module, "app", None) or getattr(module, name)
        except ImportError as error:
            package = str(error.name).partition(".")[0]
            if package == "sottovoce":
                raise
            found = self.missing(name, package.replace("_", "-"))
        if not isinstance(found, typer.Typer):
            single = typer.Typer(add_completion=False)
            single.command(name)(found)
            found = single
        return typer.main.get_command(use_plain_help(found))

    def missing(self, name: str, package: str) -> typer.Typer:
        """A command that takes any arguments and fails."""
        placeholder = typer.Typer(add_completion=False)
        anything = {"ignore_unknown_options": True, "allow_extra_args": True}
        install = f"pip install {shlex.quote(self.needs)}"

        @placeholder.command(name, help=f"(not installed: {install})", context_settings=anything)
        def fail() -> None:
            raise MissingExtraError(f"this command needs {package}: {install}")

        return placeholder


def _ours(module: str, extra: str, text: str) -> LazyCommand:
    return LazyCommand(f"sottovoce.cli.{module}", text, f"sottovoce[{extra}]")


COMMANDS = {
    "demo": _ours("sandbox", "sim,server", "Run a whole system here, with a page to take part in."),
    "simulate": _ours("simulate", "sim", "Train on a data set as the devices of its people would."),
    "privacy": _ours(
        "privacy", "sim", "Say what reporting costs in epsilon, in numbers and words."
    ),
    "plan": _ours(
        "plan",
        "sim",
        "Say whether a shop is large enough, what it promises, and how good its lists become.",
    ),
    "data": _ours("data", "sim", "List, fetch, describe and shard data sets."),
    "up": _ours("sandbox", "sim,server", "Run a server and a proxy on this machine until Ctrl-C."),
    "swarm": _ours(
        "swarm", "sim,server", "Drive many real clients, which take part in a live system."
    ),
    "server": _ours("server", "server", "Open reports, update the model, publish the next epoch."),
    "proxy": _ours("proxy", "proxy", "Take sealed reports, hold them, shuffle them, forward them."),
    "attest": _ours(
        "attest", "proxy,accounts", "Say who has an account, as a product's backend does."
    ),
    "client": _ours(
        "client", "client,cli", "Take part from this device, which computes its own lists."
    ),
}
"""What is shipped."""
ABSENT = dict.fromkeys(
    ("replay", "audit", "bench", "paper"),
    LazyCommand("sottovoce_lab", "(not installed: pip install sottovoce-lab)", "sottovoce-lab"),
)
"""What is listed without it."""
ENTRY_POINTS = "sottovoce.commands"
"""Each maps the names of commands to module, help line and what pip installs."""


@cache
def collect_commands() -> dict[str, LazyCommand]:
    """What is shipped, and what installed packages add."""
    found = COMMANDS | ABSENT
    for entry in entry_points(group=ENTRY_POINTS):
        with suppress(ImportError):  # a package that is only half installed must not end all help
            found |= {name: LazyCommand(*about) for name, about in entry.load().items()}
    return found


class LazyGroup(PlainGroup):
    """The group of all commands."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        return list(collect_commands())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - click's signature
        found = COMMANDS.get(cmd_name) or collect_commands().get(cmd_name)
        return None if found is None else found.load(cmd_name)

    def listed(self, ctx: Any) -> Iterator[tuple[str, str]]:  # noqa: ARG002 - as above
        """Without importing any."""
        return ((name, each.help) for name, each in collect_commands().items())


app = typer.Typer(
    name="sottovoce",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def run() -> None:
    """Run the command that the process was started with."""
    if sys.argv[1:2] == ["demo"] and "--help" not in sys.argv:  # before all that it imports
        typer.echo("Starting: the page is there within half a minute ...", err=True)
    try:
        code = app(prog_name="sottovoce", standalone_mode=False)
    except typer.Abort:
        raise SettingsError("stopped; nothing was done: answer, or say --yes") from None
    except TyperException as error:
        if error.message.startswith("Usage:"):  # a group without a command, and its help
            typer.echo(error.message, err=True)
            raise SystemExit(2) from None
        raise SettingsError(format_usage_error(error)) from None
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

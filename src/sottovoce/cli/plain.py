"""Help and usage errors in plain words: what typer says of types is meant for programmers."""

from __future__ import annotations

import inspect
import re
import types
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, cast, get_args, get_origin

from typer import BadParameter
from typer.core import TyperCommand, TyperGroup
from typer.models import ArgumentInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import typer
    from typer.core import TyperOption
    from typer.exceptions import TyperException

BY_KIND: dict[type, str] = {int: "NUMBER", float: "NUMBER", str: "TEXT", Path: "FILE"}
"""What stands for the value of an option,"""
BY_NAME = {
    **dict.fromkeys(("cache", "checkpoint", "folder", "keep", "out", "up"), "FOLDER"),
    **dict.fromkeys(("budget", "central_budget", "epsilon", "limit"), "EPSILON"),
    **dict.fromkeys(("epoch_seconds", "jitter", "wait"), "SECONDS"),
    **dict.fromkeys(("clients", "colluding", "least_clients", "people"), "PEOPLE"),
    **dict.fromkeys(("engine", "mechanism", "methods", "preset"), "NAME"),
    **dict.fromkeys(("database", "mirror", "origin", "server"), "URL"),
    "columns": "NAMES",
    "data": "DATA",
    "half_life": "EPOCHS",
    "key": "KEY",
}
"""unless its name says more: a unit, where it has one."""
BOUNDS = (
    (re.compile(r"(\S+)<=x<=([^\s;\]]+)"), r"\1 to \2"),
    (re.compile(r"x>=([^\s;\]]+)"), r"at least \1"),
    (re.compile(r"x<=([^\s;\]]+)"), r"at most \1"),
    (re.compile(r"\[default: \((.*)\)"), r"[default: \1"),
)
"""Bounds and defaults as typer writes them, and as we do."""
WRONG_VALUES = (
    ("Input should be", "must be"),
    ("a valid integer", "a whole number"),
    ("a valid number", "a number"),
    ("greater than or equal to", "at least"),
    ("less than or equal to", "at most"),
    ("Got unexpected extra argument(s) ", "too many arguments: "),
    (", unable to parse string as an integer", ""),
    (", unable to parse string as a number", ""),
    ("Value error, ", ""),
    ("Missing ", "missing "),
    ("Option ", "option "),
)
"""The same for values that are refused."""


class _Plain:
    """Options and arguments as a list, each with what it takes, its bounds and its default."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            if found := list(rows(self, ctx, kind)):
                with formatter.section(title):
                    formatter.write_dl(found)
        if isinstance(self, TyperGroup):
            with formatter.section("Commands"):
                formatter.write_dl(list(_below(self, ctx)))


class PlainCommand(_Plain, TyperCommand):
    """A command whose help is plain text, and which takes no empty text for a value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given, *_ = self.make_parser(ctx).parse_args(args=list(args))
        for each in self.get_params(ctx):
            values = given.get(each.name)
            if "" in (values if isinstance(values, list | tuple) else [values]):
                raise BadParameter("must not be empty", ctx, cast("TyperOption", each))
        return super().parse_args(ctx, args)


class PlainGroup(_Plain, TyperGroup):
    """The same with commands below it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-"):
            ctx.fail(f"no such command: {args[0]}{_meant(args[0], names)}")
        return super().resolve_command(ctx, args)


def _below(group: TyperGroup, ctx: Any) -> Iterator[tuple[str, str]]:
    """The names of its commands, and the first sentences of their help."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        told = inspect.cleandoc((command and command.help) or "")
        yield name, " ".join(told.partition("\n\n")[0].split())


def rows(command: Any, ctx: Any, kind: str) -> Iterator[tuple[str, str]]:
    """The arguments or the options of a command, each with what is said of it."""
    for each in command.get_params(ctx):
        record = each.get_help_record(ctx) if each.param_type_name == kind else None
        if record is not None:
            name, text = record
            for pattern, words in BOUNDS:
                text = pattern.sub(words, text)
            yield name.split(" ")[0] if kind == "argument" else name, text


def plainly(app: typer.Typer) -> typer.Typer:
    """The same commands, all the way down, with plain help."""
    app.rich_markup_mode = None
    app.info.cls = PlainGroup
    if app.registered_callback is not None:
        _name_values(app.registered_callback.callback)
    for command in app.registered_commands:
        command.cls = PlainCommand
        _name_values(command.callback)
    for below in app.registered_groups:
        if below.typer_instance is not None:
            plainly(below.typer_instance)
    return app


def _name_values(command: Callable[..., Any] | None) -> None:
    """Say what each option takes, where its declaration does not."""
    if command is None:
        return
    signature = inspect.signature(command, eval_str=True)
    for each in signature.parameters.values():
        if get_origin(each.annotation) is Annotated:
            kind, declared = get_args(each.annotation)[:2]
            if declared.metavar is None:
                is_argument = isinstance(declared, ArgumentInfo)
                declared.metavar = each.name.upper() if is_argument else _value(each.name, kind)
    # Typer would evaluate texts again, to other declarations than these.
    command.__signature__ = signature  # type: ignore[attr-defined]
    command.__annotations__ = {n: each.annotation for n, each in signature.parameters.items()}


def _value(name: str, kind: Any) -> str | None:
    """None for a flag, which takes none."""
    origin = get_origin(kind)
    if origin in (list, Union, types.UnionType):
        return _value(name, next(each for each in get_args(kind) if each is not type(None)))
    if origin is Literal:
        return "|".join(get_args(kind))
    if issubclass(kind, Enum):
        return "|".join(str(each.value) for each in kind)
    return BY_NAME.get(name, BY_KIND[kind]) if kind in BY_KIND else None


def usage_error(error: TyperException) -> str:
    """What is wrong with a command, and where its help is."""
    ctx, given = getattr(error, "ctx", None), getattr(error, "option_name", "")
    parameter, likely = getattr(error, "param", None), getattr(error, "possibilities", None)
    said = error.format_message()
    if likely is not None:
        said = f"no such option: {given}{_meant(given, likely)}"
    elif parameter is not None and error.message:
        named = parameter.opts[0] if parameter.opts[0].startswith("-") else parameter.metavar
        said = f"{named}: {error.message}"
    for theirs, ours in WRONG_VALUES:
        said = said.replace(theirs, ours)
    said = said.removesuffix(".")
    return said if ctx is None else f"{said}\nHelp: {ctx.command_path} --help"


def _meant(given: str, names: list[str]) -> str:
    likely = get_close_matches(given, names, 1)
    return f"; did you mean {likely[0]}?" if likely else ""

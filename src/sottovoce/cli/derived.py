"""Options that are derived from a statement of settings, so that nothing is said twice."""

from __future__ import annotations

import inspect
from dataclasses import replace
from enum import Enum, StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.cli.options import optional
from sottovoce.mechanism import MECHANISMS
from sottovoce.simulation.engines import AUTO, ENGINES, engine_options
from sottovoce.training import all_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sottovoce.settings import Setting

    Command = Callable[..., None]

MechanismOption = StrEnum("MechanismOption", {name: name for name in MECHANISMS})  # type: ignore[misc]
"""What `--mechanism` takes."""


def training_options(
    only: Iterable[str] = (), without: Iterable[str] = (), planned: Iterable[str] = ()
) -> Callable[[Command], Command]:
    """Give a command the settings of a training; it gets those given, by name, as `training`.

    Those that are `planned` have no default of their own.
    """
    known = all_settings()
    names = [name for name in only or known if name not in without]
    defaults = {n: "planned" if n in planned else str(known[n].default).lower() for n in names}
    options = {name: _option(known[name], defaults[name]) for name in names}
    return _options(options, into="training")


def engine_choice(command: Command) -> Command:
    """Give a command `--engine` and what engines may be told; it gets these as `engine`."""
    names = ", ".join((AUTO, *ENGINES))
    text = f"What computes the reports: {names}. All give the same results."
    chosen = inspect.Parameter(
        "engine",
        inspect.Parameter.KEYWORD_ONLY,
        default=AUTO,
        annotation=Annotated[str, typer.Option(help=text)],
    )
    options: dict[str, Setting] = {}
    for engine, settings in engine_options().items():
        for name, each in settings.items():
            said = f"{options[name].help}; " if name in options else ""
            options[name] = replace(each, help=f"{said}{each.help} ({engine} engine)")
    parameters = {
        name: _option(each, each.otherwise or str(each.default)) for name, each in options.items()
    }
    return _options({"engine": chosen, **parameters}, into="engine")(command)


def _option(setting: Setting, default: str) -> inspect.Parameter:
    help_text = f"{setting.help[0].upper()}{setting.help[1:]}."
    kind: Any = MechanismOption if setting.name == "mechanism" else setting.kind
    option = optional(help_text, default)
    return inspect.Parameter(
        setting.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, option],
    )


def _options(
    parameters: Mapping[str, inspect.Parameter], into: str
) -> Callable[[Command], Command]:
    """Replace the parameter `into` by these; the command gets a dictionary of those given."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def called(**given: Any) -> None:
            values = {name: given.pop(name, None) for name in parameters}
            plain = {n: v.value if isinstance(v, Enum) else v for n, v in values.items()}
            command(**given, **{into: {n: v for n, v in plain.items() if v is not None}})

        signature = inspect.signature(command, eval_str=True)
        every = [
            new
            for old in signature.parameters.values()
            for new in (parameters.values() if old.name == into else [old])
        ]
        called.__signature__ = signature.replace(parameters=every)  # type: ignore[attr-defined]
        called.__annotations__ = {each.name: each.annotation for each in every}
        return called

    return decorate

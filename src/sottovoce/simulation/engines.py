"""Which engines there are: docs/extending.md shows how to add one.

An engine's folder is a package with two names: `Options`, a frozen dataclass with stated fields,
and `build(parts, settings, options)`, which makes the engine over these people. It imports what it
needs when it builds, so that listing engines costs nothing. `auto` is no engine: it is the
reference for small work, which waits for no compiler, else `cpu`.
"""

from collections.abc import Mapping
from dataclasses import is_dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.core.mechanism import SignMechanism
from sottovoce.errors import SettingsError
from sottovoce.settings import Setting, check, get_settings
from sottovoce.simulation.interface import Engine
from sottovoce.simulation.population import Part, Parts, People, WholeParts
from sottovoce.training import Settings

ENGINE_MODULES = {
    "cpu": "sottovoce.simulation.cpu",
    "cuda": "sottovoce.simulation.cuda",
    "ray": "sottovoce.simulation.ray",
    "reference": "sottovoce.simulation.reference",
}
AUTO_ENGINE = "auto"
MAX_REFERENCE_SECONDS = 10.0
"""Seconds, about: the reference is not chosen for more. Compiling `loudest` takes about twice as
long, once on a machine."""


def load_engine_package(name: str) -> ModuleType:
    """Of the engine; of `auto`, that of the engine which it may come to with options of its own."""
    if name == AUTO_ENGINE:
        name = "cpu"
    if name not in list(ENGINE_MODULES):  # a list: what is asked for may be anything
        raise SettingsError(
            f"no engine {name!r:.80}; there are {', '.join((AUTO_ENGINE, *ENGINE_MODULES))}"
        )
    return import_module(ENGINE_MODULES[name])


def register_engine(name: str, module: str) -> None:
    """Make an engine of your own known in this process.

    Args:
        name: What `build_engine` and `FederatedMF(engine=...)` call it.
        module: The module that has its `Options` and its `build`. A module that registers itself
            gives its `__name__`, at its end.
    """
    if name == AUTO_ENGINE or ENGINE_MODULES.get(name, module) != module:
        raise SettingsError(f"there is an engine {name!r} already: choose another name")
    found = import_module(module)
    if not (is_dataclass(getattr(found, "Options", None)) and hasattr(found, "build")):
        raise SettingsError(
            f"the module {module} must have Options, a dataclass, and build(parts, settings, "
            "options) to be an engine"
        )
    ENGINE_MODULES[name] = module


def list_engine_options() -> dict[str, dict[str, Setting]]:
    """By engine, what may be said about it beside the training's settings."""
    return {name: get_settings(load_engine_package(name).Options) for name in ENGINE_MODULES}


def make_engine_options(name: str, options: Mapping[str, Any]) -> Any:
    """The options of this engine, checked; one that is None keeps its default."""
    kind = load_engine_package(name).Options
    given = {option: value for option, value in options.items() if value is not None}
    if unknown := ", ".join(sorted(set(given) - set(get_settings(kind)))):
        has = ", ".join(get_settings(kind)) or "none"
        raise SettingsError(f"the {name} engine has no option {unknown}; there are {has}")
    chosen = kind(**given)
    check(chosen)
    return chosen


def build_engine(
    name: str,
    who: Histories | Parts,
    settings: Settings,
    *,
    first_user: int = 0,
    resample: int | None = None,
    numbers: NDArray[np.int64] | None = None,
    **options: Any,
) -> Engine:
    """The engine of that name over these people, or over so many made out of them.

    The numbers of histories are consecutive from `first_user` on, unless they are given. An option
    that is None keeps its default.
    """
    package, chosen = load_engine_package(name), make_engine_options(name, options)
    if not isinstance(who, Parts):
        who = WholeParts(Part(People(who, first_user, resample, numbers)))
    elif resample is not None:
        who = who.resample(resample)
    if name == AUTO_ENGINE and should_use_reference(resample or who.n_users, who.n_items, settings):
        package = load_engine_package("reference")
        chosen = package.Options()
    built: Engine = package.build(who, settings, chosen)
    return built


def should_use_reference(people: int, n_items: int, settings: Settings) -> bool:
    """Whether `auto` is the reference: work is small, or there is nothing to compile, or no way."""
    compiles = find_spec("numba") and has_kernel(
        f"{ENGINE_MODULES['cpu']}.kernels", settings.mechanism
    )
    return (
        not compiles
        or estimate_reference_seconds(people, n_items, settings) <= MAX_REFERENCE_SECONDS
    )


def estimate_reference_seconds(people: int, n_items: int, settings: Settings) -> float:
    """How long the reference takes for a whole training, about.

    For each person and each of their turns: steps of Python, words for every report, and the
    directions that are looked at. These are all, or, where a report is a sign at a drawn index, one
    for each report. Measured with histories of a hundred items; right within a factor of three.
    """
    mechanism = settings.build(n_items)
    drawn = isinstance(mechanism, SignMechanism)
    looked_at = settings.reports if drawn else mechanism.n_directions
    one = (20e-6 if drawn else 200e-6) + 0.5e-6 * settings.reports + 45e-9 * looked_at
    return people * settings.turns * one


def has_kernel(folder: str, mechanism: str) -> bool:
    """Whether an engine's folder of kernels has a module of the mechanism's name.

    An engine without such a folder asks the mechanism itself, and so computes all of them.
    """
    return find_spec(f"{folder}.{mechanism}") is not None


def import_kernel_module(folder: str, mechanism: str) -> ModuleType:
    """The engine's module for the mechanism; a `SettingsError` if it has none."""
    if not has_kernel(folder, mechanism):
        engine = folder.split(".")[-2]
        raise SettingsError(
            f"the {engine} engine has no kernel for {mechanism!r}: use the reference engine"
        )
    return import_module(f"{folder}.{mechanism}")

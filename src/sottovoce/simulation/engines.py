"""The registry of engines: docs/extending.md shows how to add one.

The package of an engine has two names: `Options`, a frozen dataclass of settings, and
`build(parts, settings, options)`, which makes the engine for these people. `build` imports the
slow dependencies of the engine, so that listing engines is fast. The name `auto` stands for the
reference engine as long as that takes less time than to load or compile the loops of the cpu
engine, and otherwise for `cpu`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

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
COMPILED_ENGINES = ("cpu", "cuda")
# Time to compile the loops of the cpu engine, once on each machine, and time to load them from
# numba's cache, once in each process.
COMPILE_SECONDS = 20.0
LOAD_SECONDS = 0.65
# People whose names the reference engine draws together. It needs no memory for directions then.
PEOPLE_PER_NAMES_BLOCK = 4096


@dataclass
class ReferenceWork:
    """The time for which `auto` has used the reference engine in this process."""

    seconds: float = 0.0


REFERENCE_WORK = ReferenceWork()


def load_engine_package(name: str) -> ModuleType:
    """Return the package of an engine. `auto` has the options of `cpu`, so it gets that package."""
    if name == AUTO_ENGINE:
        name = "cpu"
    # A list, because a caller may pass a name that is not hashable.
    if name not in list(ENGINE_MODULES):
        raise SettingsError(
            f"no engine {name!r:.80}; there are {', '.join((AUTO_ENGINE, *ENGINE_MODULES))}"
        )
    return import_module(ENGINE_MODULES[name])


def register_engine(name: str, module: str) -> None:
    """Register an engine of your own in this process.

    Args:
        name: The name for `build_engine` and `FederatedMF(engine=...)`.
        module: The module that has its `Options` and its `build`. A module that registers itself
            passes its `__name__`, at its end.

    Raises:
        SettingsError: The name is taken, or the module lacks `Options` or `build`.
    """
    # A module may register itself again, for example when a notebook imports it twice.
    if name == AUTO_ENGINE or ENGINE_MODULES.get(name, module) != module:
        raise SettingsError(f"there is an engine {name!r} already: choose another name")
    package = import_module(module)
    if not (is_dataclass(getattr(package, "Options", None)) and hasattr(package, "build")):
        raise SettingsError(
            f"the module {module} must have Options, a dataclass, and build(parts, settings, "
            "options) to be an engine"
        )
    ENGINE_MODULES[name] = module


def list_engine_options() -> dict[str, dict[str, Setting]]:
    """Return the options of each engine. They are not among the settings of a training."""
    return {name: get_settings(load_engine_package(name).Options) for name in ENGINE_MODULES}


def make_engine_options(name: str, options: Mapping[str, Any]) -> Any:
    """Return the checked options of this engine. An option that is None keeps its default."""
    kind = load_engine_package(name).Options
    values = {option: value for option, value in options.items() if value is not None}
    if unknown := ", ".join(sorted(set(values) - set(get_settings(kind)))):
        names = ", ".join(get_settings(kind)) or "none"
        raise SettingsError(f"the {name} engine has no option {unknown}; there are {names}")
    engine_options = kind(**values)
    check(engine_options)
    return engine_options


def build_engine(
    name: str,
    people: Histories | Parts,
    settings: Settings,
    *,
    resample: int | None = None,
    **options: Any,
) -> Engine:
    """Build an engine for these people, or for people resampled from them.

    Args:
        name: An engine's name, or `auto`.
        people: Histories, or people in parts.
        settings: The settings of the training.
        resample: The number of people to resample from these, who report in their place. None: the
            people themselves report.
        options: Options of the engine. An option that is None keeps its default.
    """
    package, engine_options = load_engine_package(name), make_engine_options(name, options)
    parts = people if isinstance(people, Parts) else WholeParts(Part(People(people)))
    if resample is not None:
        parts = parts.resample(resample)
    n_people = resample or parts.n_users
    if settings.asks_for_names and name in (AUTO_ENGINE, *COMPILED_ENGINES):
        # Names are drawn in one pass of numpy over all people, so no engine has a kernel for them.
        # Ray still divides the people among its processes.
        package = load_engine_package("reference")
        engine_options = package.Options(people_at_once=PEOPLE_PER_NAMES_BLOCK)
    elif name == AUTO_ENGINE and should_use_reference(n_people, parts.n_items, settings):
        REFERENCE_WORK.seconds += estimate_reference_seconds(n_people, parts.n_items, settings)
        package = load_engine_package("reference")
        engine_options = package.Options()
    engine: Engine = package.build(parts, settings, engine_options)
    return engine


def should_use_reference(people: int, n_items: int, settings: Settings) -> bool:
    """Return whether `auto` uses the reference engine.

    It does so if the cpu engine cannot compute the mechanism. It also does so as long as all work
    of the reference engine in this process takes less time than to get the loops of the cpu engine.
    So nobody waits more than twice as long as with the better choice, however often they train.
    """
    has_numba = find_spec("numba") is not None
    if not (has_numba and has_kernel(f"{ENGINE_MODULES['cpu']}.kernels", settings.mechanism)):
        return True
    seconds = estimate_reference_seconds(people, n_items, settings)
    return REFERENCE_WORK.seconds + seconds <= estimate_loop_seconds(settings.mechanism)


def estimate_loop_seconds(mechanism: str) -> float:
    """Estimate how long it takes until the loops of the cpu engine can run in this process."""
    # Not imported above: engines do not know each other, and each of them imports this module.
    cache = import_module(f"{ENGINE_MODULES['cpu']}.cache")
    if mechanism in cache.LOADED_LOOPS:
        return 0.0
    return LOAD_SECONDS if cache.is_cached(mechanism) else COMPILE_SECONDS


def estimate_reference_seconds(people: int, n_items: int, settings: Settings) -> float:
    """Estimate how long the reference engine takes for a training, within a factor of three."""
    mechanism = settings.build(n_items)
    # A `SignMechanism` draws an index for each report and computes only that direction; other
    # mechanisms compute all directions.
    is_drawn = isinstance(mechanism, SignMechanism)
    n_computed = settings.reports if is_drawn else mechanism.n_directions
    # Seconds for one person in one epoch, measured with histories of a hundred items: the steps of
    # Python, the random words of each report, and the directions.
    turn = (20e-6 if is_drawn else 200e-6) + 0.5e-6 * settings.reports + 45e-9 * n_computed
    return people * settings.turns * turn


def has_kernel(folder: str, mechanism: str) -> bool:
    """Return whether an engine's folder of kernels has a module for the mechanism."""
    return find_spec(f"{folder}.{mechanism}") is not None


def import_kernel_module(folder: str, mechanism: str) -> ModuleType:
    """Import an engine's module for the mechanism.

    Args:
        folder: The package with the engine's kernels.
        mechanism: The name of the mechanism.

    Raises:
        SettingsError: The engine has no module for the mechanism.
    """
    if not has_kernel(folder, mechanism):
        engine = folder.split(".")[-2]
        raise SettingsError(
            f"the {engine} engine has no kernel for {mechanism!r}: use the reference engine"
        )
    return import_module(f"{folder}.{mechanism}")

"""Which engines there are. A further one is a folder beside this file and a line in this list.

An engine's folder is a package with two names: `Options`, a settings class, and `build`, which
makes the engine. It imports what it needs when it builds, so that listing engines costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from sottovoce.errors import SettingsError
from sottovoce.settings import check, stated
from sottovoce.simulation.parts import Part, Parts, Whole
from sottovoce.simulation.people import People

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    from sottovoce.model import Histories
    from sottovoce.settings import Setting
    from sottovoce.simulation.interface import Engine
    from sottovoce.training import Settings

ENGINES = {
    "cpu": "sottovoce.simulation.cpu",
    "cuda": "sottovoce.simulation.cuda",
    "ray": "sottovoce.simulation.ray",
    "reference": "sottovoce.simulation.reference",
}


class EnginePackage(Protocol):
    Options: type[Any]
    """Its own options: a frozen dataclass with stated fields."""

    def build(self, parts: Parts, settings: Settings, options: Any) -> Engine:
        """The engine over these people. One that computes part by part gives `one_by_one`."""


def engine_package(name: str) -> EnginePackage:
    if name not in list(ENGINES):  # a list: what is asked for may be anything
        raise SettingsError(f"no engine {name!r:.80}; there are {', '.join(ENGINES)}")
    return cast("EnginePackage", import_module(ENGINES[name]))


def engine_options() -> dict[str, dict[str, Setting]]:
    """By engine, what may be said about it beside the training's settings."""
    return {name: stated(engine_package(name).Options) for name in ENGINES}


def chosen_options(name: str, options: Mapping[str, Any]) -> Any:
    """The options of this engine, checked; one that is None keeps its default."""
    kind = engine_package(name).Options
    given = {option: value for option, value in options.items() if value is not None}
    unknown = set(given) - set(stated(kind))
    if unknown:
        known = ", ".join(stated(kind)) or "none"
        raise SettingsError(
            f"the {name} engine has no option {', '.join(sorted(unknown))}; it has {known}"
        )
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
    package, chosen = engine_package(name), chosen_options(name, options)
    if not isinstance(who, Parts):
        who = Whole(Part(People(who, first_user, resample, numbers)))
    elif resample is not None:
        who = who.resampled(resample)
    return package.build(who, settings, chosen)
